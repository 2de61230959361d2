"""`hpcsci bench serving`: compares served models with vLLM alone; `figures` is the entry point."""
