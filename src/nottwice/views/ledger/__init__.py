"""The ledger as a whole: what was done in it, what waits in it, and what it keeps."""
