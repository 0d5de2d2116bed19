"""What every way in over a wire shares: the border for arguments, the shape of answers, a tool's words.

The MCP server, the engine's HTTP API and the gateway are told apart by what they call, not by how they
refuse a misspelt argument.
"""
