"""``nottwice proxy``: an MCP server behind a ledger, without a change in the server or the client.

Messages are forwarded as they are. Only ``tools/call`` and the answers to ``tools/list`` are read
and, where a tool is protected, changed. So everything else of the protocol keeps working, in every
version of it, whether or not nottwice knows about it (P274).
"""
