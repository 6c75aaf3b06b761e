"""The strict fake of two model APIs: what it rejects, answers and counts, in a process of its own.

The process imports only what is in this folder and the standard library. ``fake.py`` is the part
that tests use.
"""
