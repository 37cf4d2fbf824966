"""Calls a server with the Python client package `mcp`, and prints what came back as one line of JSON.

client.py MODE TOOL URL, or client.py MODE TOOL COMMAND ARGUMENT...; MODE is `auto`, `legacy` or a modern revision, and
TOOL one that asks for something while it is called.
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult, TextContent


async def main(mode: str, question: str, target: list[str]) -> None:
    asked: list[str] = []
    reports: list[float] = []

    async def answer(_context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada", "username": "Ada", "email": "ada@example.org"})

    async def report(progress: float, _total: float | None, _message: str | None) -> None:
        reports.append(progress)

    server = target[0] if len(target) == 1 else StdioServerParameters(command=target[0], args=target[1:])
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        simple = await client.call_tool("test_simple_text", {})
        await client.call_tool("test_tool_with_progress", {}, progress_callback=report)
        asking = await client.call_tool(question, {"message": "How are you?"})
        resource = await client.read_resource("test://static-text")
        prompt = await client.get_prompt("test_simple_prompt")
        print(
            json.dumps(
                {
                    "revision": str(client.protocol_version),
                    "tools": len(tools.tools),
                    "simple": texts(simple.content),
                    "reports": reports,
                    "asked": asked,
                    "answered": texts(asking.content),
                    "resource": [content.text for content in resource.contents],
                    "prompt": [message.content.text for message in prompt.messages],
                }
            )
        )


def texts(content) -> list[str]:
    return [part.text for part in content if isinstance(part, TextContent)]


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
