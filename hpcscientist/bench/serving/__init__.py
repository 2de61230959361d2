"""`hpcsci bench serving`: served models beside vLLM alone. `figures` says what there is."""
