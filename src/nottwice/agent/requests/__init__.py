"""Requests to a model: what is asked, what it may cost, and what happens if it fails."""
