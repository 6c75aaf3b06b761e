"""The tests are a package because some libraries install a package `tests`, and ours must win."""
