"""What does the project, the environment or the caller say about a ledger?"""
