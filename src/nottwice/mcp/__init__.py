"""MCP on a nottwice ledger."""
