"""Stores: what makes commits durable. One commit is one transaction."""
