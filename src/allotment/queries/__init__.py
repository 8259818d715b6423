"""The queries of programs: one table for the HTTP API, the MCP server and the client in Python."""
