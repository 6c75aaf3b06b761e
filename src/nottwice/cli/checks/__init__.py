"""What `check` and `audit --verify` look for."""
