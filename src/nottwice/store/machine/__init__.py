"""What the operating system says: files, locks, processes, and where a ledger is."""
