"""What a ledger knows about runs, beside the run itself."""
