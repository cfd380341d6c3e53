"""A client on the official Python SDK.

argv: URL [MODE]; MODE is auto, legacy, or a modern revision. stdin: {"steps": [{"method": …, "params": …}]}.
stdout: one JSON report with protocolVersion, serverInfo, tools, prompts, resources, resourceTemplates and answers,
where each answer is {"result": …} or {"error": {"code", "message"}}, in the order of the steps.
"""

import asyncio
import json
import sys

from mcp import MCPError
from mcp.client import Client
from mcp.types import PromptReference, ResourceTemplateReference


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def walk(fetch, member):
    items, cursor = [], None
    while True:
        page = await fetch(cursor=cursor)
        items += [plain(item) for item in getattr(page, member)]
        cursor = page.next_cursor
        if cursor is None:
            return items


async def ask(client, method, params):
    if method == "tools/call":
        return await client.call_tool(params["name"], params.get("arguments"))
    if method == "prompts/get":
        return await client.get_prompt(params["name"], params.get("arguments"))
    if method == "resources/read":
        return await client.read_resource(params["uri"])
    if method == "completion/complete":
        kind = PromptReference if params["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
        return await client.complete(kind.model_validate(params["ref"]), params["argument"])
    raise ValueError(f"no such step: {method}")


async def main():
    url = sys.argv[1]
    mode = sys.argv[2] if len(sys.argv) > 2 else "auto"
    steps = json.load(sys.stdin)["steps"]
    async with Client(url, mode=mode) as client:
        can = client.server_capabilities
        info = client.server_info
        report = {
            "protocolVersion": client.protocol_version,
            "serverInfo": plain(info) if info else None,
            "tools": await walk(client.list_tools, "tools") if can.tools else [],
            "prompts": await walk(client.list_prompts, "prompts") if can.prompts else [],
            "resources": await walk(client.list_resources, "resources") if can.resources else [],
            "resourceTemplates": await walk(client.list_resource_templates, "resource_templates") if can.resources else [],
            "answers": [],
        }
        for step in steps:
            try:
                report["answers"].append({"result": plain(await ask(client, step["method"], step["params"]))})
            except MCPError as error:
                report["answers"].append({"error": {"code": error.error.code, "message": error.error.message}})
    json.dump(report, sys.stdout)


asyncio.run(main())
