"""Building prompts, fitting them to a model's context, and reading ids and names in replies."""
