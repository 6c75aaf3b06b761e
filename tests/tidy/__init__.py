"""The house rules as functions from source text to findings; `tests/test_tidy.py` applies them."""
