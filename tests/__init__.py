"""The tests, as a package: some libraries install a `tests` of their own, and ours must win."""
