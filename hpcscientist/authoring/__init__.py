"""How an idea becomes code: plan, edits, static checks, attempts, debugging, review."""
