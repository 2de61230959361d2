"""Is all there that serving needs: weights, tokenizer, engine, image?"""
