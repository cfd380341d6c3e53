"""An upstream on FastMCP: legacy sessions and, where the installed SDK offers it, the modern era.

argv: PORT. Serves until it is killed.
"""

import sys

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("peer-fastmcp", version="1.0.0")


@server.tool(annotations={"readOnlyHint": True})
def reverse(text: str) -> str:
    """Reverses a text."""
    return text[::-1]


@server.tool
def shape(width: int, height: int) -> dict[str, int]:
    """Answers with structured content."""
    return {"area": width * height, "perimeter": 2 * (width + height)}


@server.tool
def refuse() -> str:
    """Always fails."""
    raise ToolError("refused on purpose")


@server.prompt
def review(code: str) -> str:
    """Asks for a review."""
    return f"Please review: {code}"


@server.resource("fast://about", mime_type="text/plain")
def about() -> str:
    """What this server is."""
    return "a FastMCP server"


@server.resource("fast://square/{number}", mime_type="application/json")
def square(number: int) -> dict[str, int]:
    """The square of a number."""
    return {"number": number, "square": number * number}


@server.completion
def complete(ref, argument, context):
    """Completes the languages of the review prompt."""
    return [word for word in ("go", "graphql", "python") if word.startswith(argument.value)]


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
