"""The ledger for many processes and machines: a PostgreSQL database."""
