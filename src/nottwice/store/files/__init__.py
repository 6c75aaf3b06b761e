"""The readable ledger: a folder with one JSON file for each run."""
