"""How does a client of MCP start its servers through the proxy? Its configuration says so."""
