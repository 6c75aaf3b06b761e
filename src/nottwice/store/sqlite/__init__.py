"""The embedded ledger: one SQLite file on a local disk."""
