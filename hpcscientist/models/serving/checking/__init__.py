"""Checks that everything serving needs is there: weights, tokenizer, engine, image."""
