"""Faces over the network: HTTP, MCP tools, explorer pages, API keys, and adapters of agent frameworks."""
