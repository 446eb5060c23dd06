"""A server of the Python SDK with an extension: its tools start tasks, and `tasks/get` reports them."""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer

logging.disable()


class TaskParams(types.RequestParams):
    task_id: str


async def get(context: Any, params: TaskParams) -> dict[str, Any]:
    return {"taskId": params.task_id, "status": "completed"}


class Tasks(Extension):
    identifier = "io.modelcontextprotocol/tasks"

    def methods(self) -> list[MethodBinding]:
        return [MethodBinding("tasks/get", TaskParams, get)]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> dict[str, Any]:
        return {"resultType": "task", "taskId": "t1", "status": "working"}


server = MCPServer("tasks", extensions=[Tasks()])


@server.tool()
def slow() -> str:
    return "never returned"


if __name__ == "__main__":
    server.run()
