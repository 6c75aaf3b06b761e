"""The worker: picks up runs that can continue and advances them, many at a time."""
