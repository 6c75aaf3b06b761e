"""Configurations as people and clients write them."""

from __future__ import annotations

DESKTOP = """{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "pay": {
      "command": "npx",
      "args": ["-y", "pay-mcp"],
      "env": {"PAY_KEY": "sk-secret"}
    },
    "files": {"command": "files-mcp"},
    "remote": {"url": "https://shop.example/mcp"}
  }
}
"""

VSCODE = """// The servers of this project.
{
  "inputs": [{"id": "key", "type": "promptString", "password": true}],
  "servers": {
    "pay": {
      "type": "stdio",
      "command": "${workspaceFolder}/pay", // the shop
      "args": [
        "--port",
        "7", /* not 8 */
      ],
      "env": {"PAY_KEY": "${input:key}"},
    },
    "empty": {"args": [ ], "command": "a"},
    "none": {
      "command": "b"
    }
  }
}"""

CLAUDE_STATE = """{
  "numStartups": 7,
  "mcpServers": {"db": {"type": "stdio", "command": "db-mcp", "args": [], "env": {}}},
  "projects": {
    "/src/shop": {"allowedTools": [], "mcpServers": {"db": {"command": "db-mcp", "args": ["a"]}}},
    "/src/bank": {"mcpServers": {"db": {"command": "db-mcp", "args": ["b"]}}},
    "/old/shop": {"mcpServers": {"db": {"command": "db-mcp", "args": ["c"]}}},
    "/src/empty": {"mcpServers": {}}
  }
}
"""
