"""A client on FastMCP and fastmcp-tasks, which drives tasks of the modern dialect and, as a legacy client, has none.

argv: URL MODE; MODE is auto or legacy. Steps and report are those of the JavaScript clients (js/tasks.mjs).
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from fastmcp_tasks.client import ToolTask, call_tool_task
from fastmcp_tasks.client_models import CancelTaskRequest, ClientCreateTaskResult, GetTaskRequest, UpdateTaskRequest
from mcp import MCPError

# The extension demands the header Mcp-Name of these requests. The SDK sends it of a request that says which parameter it
# is, and fastmcp-tasks 4.1.4 does not say; its own server does not miss it.
for request in (GetTaskRequest, UpdateTaskRequest, CancelTaskRequest):
    request.name_param = "taskId"


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class User:
    """Who answers questions: with the answer of the step that is under way, else by declining."""

    def __init__(self):
        self.answer, self.asked = None, []

    async def reply(self, message, response_type, params, context):
        self.asked.append(message)
        return ElicitResult(action="decline" if self.answer is None else "accept", content=self.answer)


def by_id(client, task_id):
    """A task of which nothing is known but its id."""
    return ToolTask(client, "", ClientCreateTaskResult.model_construct(task_id=task_id), raise_on_error=False)


async def ended(task):
    final = await task.wait(timeout=60)
    answer = {"task": task.task_id, "status": final.status}
    if final.result is not None:
        answer["result"] = final.result
    if final.error is not None:
        answer["error"] = {"code": final.error["code"], "message": final.error["message"]}
    return answer


async def run(client, step):
    """What a user of the package does: the call and nothing else, unless it is to be cancelled."""
    if "cancelAt" in step:
        task = await call_tool_task(client, step["name"], step.get("arguments", {}))
        await task.wait(state=step["cancelAt"], timeout=60)
        await task.cancel()
        return await ended(task)
    result = await client.call_tool_mcp(step["name"], step.get("arguments", {}))
    return {"immediate": True, "status": "completed", "result": plain(result)}


async def start(client, step):
    task = await call_tool_task(client, step["name"], step.get("arguments", {}))
    return {"task": task.task_id}


async def resume(client, step):
    task = by_id(client, step["taskId"])
    await task.result()  # answers questions
    return await ended(task)


async def look(client, step):
    current = await by_id(client, step["taskId"]).status()
    return {"task": current.task_id, "status": current.status}


async def wait_for(client, step):
    return await ended(by_id(client, step["taskId"]))


async def cancel(client, step):
    await by_id(client, step["taskId"]).cancel()
    return {"task": step["taskId"]}


verbs = {"run": run, "start": start, "resume": resume, "look": look, "await": wait_for, "cancel": cancel}


async def main():
    url, mode = sys.argv[1:3]
    steps = json.load(sys.stdin)["steps"]
    user = User()
    async with Client(url, mode=mode, elicitation_handler=user.reply) as client:
        report = {
            "protocolVersion": client.session.protocol_version,
            "tools": [plain(tool) for tool in await client.list_tools()],
            "answers": [],
        }
        for step in steps:
            user.answer, user.asked = step.get("answer"), []
            if "from" in step:
                step["taskId"] = report["answers"][step["from"]].get("task")
            try:
                answer = await verbs[step["do"]](client, step)
            except MCPError as error:
                answer = {"error": {"code": error.error.code, "message": error.error.message}}
            except ToolError as error:
                answer = {"error": {"message": str(error)}}
            if user.asked:
                answer["asked"] = user.asked
            report["answers"].append(answer)
    json.dump(report, sys.stdout)


asyncio.run(main())
