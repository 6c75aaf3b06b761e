"""One file for each model API, through its own SDK, and a scripted model for tests and demos."""
