"""A server of the official Python SDK, on standard streams."""

from mcp.server import MCPServer

server = MCPServer("snakes")


@server.tool()
def shout(text: str) -> str:
    """Says a text loudly."""
    return text.upper() + "!"


server.run("stdio")
