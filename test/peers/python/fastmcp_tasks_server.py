"""An upstream on FastMCP with the package fastmcp-tasks: the tasks extension of the modern era, and legacy sessions
without tasks.

argv: PORT, or nothing to serve over stdio. Serves until it is killed. One tool may become a task, the others must; each of those ends in its own way.
"""

import asyncio
import sys
from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = FastMCP("peer-fastmcp-tasks", version="1.0.0")
server.add_extension(TasksExtension())

may = TaskConfig(mode="optional", poll_interval=timedelta(milliseconds=100))
must = TaskConfig(mode="required", poll_interval=timedelta(milliseconds=100))


@server.tool(task=may)
async def measure(text: str) -> dict[str, int]:
    """Measures a text, as a task for those who can have one."""
    return {"length": len(text)}


@server.tool(task=must)
async def compost(leaves: int) -> dict[str, str]:
    """Takes a moment."""
    await asyncio.sleep(0.5)
    return {"soil": f"{leaves} leaves of soil"}


@server.tool(task=must)
async def refuse() -> str:
    """Says that it did not work."""
    await asyncio.sleep(0.2)
    raise ToolError("the pump is dry")


@server.tool(task=must)
async def collapse() -> str:
    """Fails in the protocol."""
    await asyncio.sleep(0.2)
    raise MCPError(code=-32050, message="the dam is gone", data={"at": "spillway"})


lingering = {"begun": 0, "stopped": 0}


@server.tool(task=must)
async def linger() -> str:
    """Takes longer than anybody waits."""
    lingering["begun"] += 1
    try:
        await asyncio.sleep(600)
    finally:
        lingering["stopped"] += 1
    return "at last"


@server.tool
async def tally() -> str:
    """How often linger was begun and stopped."""
    return f"begun {lingering['begun']}, stopped {lingering['stopped']}"


@server.tool(task=must)
async def plant(ctx: Context, tree: str) -> InputRequiredResult | str:
    """Asks where, and plants a tree there."""
    if not ctx.input_responses:
        schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
        form = ElicitRequestFormParams(message=f"Where does the {tree} go?", requested_schema=schema)
        return InputRequiredResult(input_requests={"where": ElicitRequest(params=form)}, request_state="asked")
    answer = ctx.input_responses["where"]
    if answer.action != "accept":
        return f"the {tree} was not planted"
    return f"the {tree} grows at {answer.content['place']}"


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
else:
    server.run(transport="stdio", show_banner=False, log_level="warning")
