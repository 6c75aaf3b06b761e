"""What an operator sees: typed views of a ledger, for the terminal, ``--json`` and a web page.

A view only reads. It is a frozen record that is built once; whatever shows it derives its text or
its JSON from the record. No module here imports a terminal or a command-line library.
"""
