"""Rules judge a plan: pass, fail or unknown, each with its place and a hint. `registry.py` lists them."""
