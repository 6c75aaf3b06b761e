"""The worker: takes up the runs that can go on, and advances them, many at once."""
