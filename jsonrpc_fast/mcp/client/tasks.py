"""A task on a server: a tool call that continues after its response (2026-07-28).

The client polls with `tasks/get`, as often as the server suggests. It sends the requested input with `tasks/update`,
once for each request. Source: SEP-2663, extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from ...errors import CallTimeout, RpcError, StateError
from ...types import UNSET, Unset
from ..protocol.meta import FINAL_STATUSES
from .results import invalid_result

CallMethod = Callable[..., Awaitable[dict[str, Any]]]
"""Sends a request: `Client.call`."""
InputsFor = Callable[[str, dict[str, Any], int], Awaitable[dict[str, Any]]]
"""Returns the responses to requests for input: `ClientSession.inputs`."""


@dataclass(eq=False, repr=False)
class ClientTask:
    """A task that `Client.start_task` returned.

    Attributes:
        id: The id of the task; None if the server returned the result at once.
        last: The members of the task, as the server last described them; {} if there is no task.
    """

    _call: CallMethod
    _inputs: InputsFor
    last: dict[str, Any]
    _result: dict[str, Any] | None
    _check: Callable[[dict[str, Any]], dict[str, Any]]
    id: str | None = field(init=False)
    _served_inputs: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        id = self.last.get("taskId")
        if self._result is None and not isinstance(id, str):
            raise invalid_result("tools/call", "/taskId must be a string")
        self.id = id if self._result is None else None

    @property
    def status(self) -> str:
        """The status that the server last reported: "working", "input_required", "completed" …"""
        return "completed" if self.id is None else str(self.last.get("status"))

    async def get(self, *, timeout: float | Unset | None = UNSET) -> dict[str, Any]:
        """Ask the server for the task and return its members.

        Args:
            timeout: Seconds until CallTimeout; None: no limit. The default is the client's timeout.

        Raises:
            StateError: There is no task, because the server returned the result at once.
        """
        self.last = await self._call("tasks/get", {"taskId": self._known_id()}, timeout=timeout)
        return self.last

    async def cancel(self, *, timeout: float | Unset | None = UNSET) -> None:
        """Ask the server to cancel the task. Raises what `get` raises."""
        await self._call("tasks/cancel", {"taskId": self._known_id()}, timeout=timeout)

    async def result(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the result of the tool and return it as `Client.call_tool` does.

        Args:
            timeout: Seconds until CallTimeout; None: no limit. The task continues on the server.

        Raises:
            RpcError: The tool call failed, or the task was cancelled (-32600).
        """
        if self._result is None:
            # By default there is no limit: a call is a task because it may take longer than a request.
            deadline = inf if timeout is None else asyncio.get_running_loop().time() + timeout
            self._result = self._check(await self._poll(deadline))
        return self._result

    async def _poll(self, deadline: float) -> dict[str, Any]:
        while True:
            seconds = deadline - asyncio.get_running_loop().time()
            if seconds <= 0:
                raise CallTimeout("the task did not end in time")
            task = await self.get(timeout=UNSET if seconds == inf else seconds)
            if task.get("status") in FINAL_STATUSES:
                break
            # After new input the task may continue at once, so ask again without a pause.
            if task.get("status") == "input_required" and await self._send_input(task):
                continue
            suggested = task.get("pollIntervalMs")
            pause = suggested / 1000 if isinstance(suggested, (int, float)) else 1.0
            # A server cannot make the client poll without a pause, nor sleep for longer than a minute.
            await asyncio.sleep(min(max(pause, 0.02), 60.0, max(seconds, 0)))
        if task["status"] == "completed":
            result = task.get("result")
            if not isinstance(result, dict):
                raise invalid_result("tasks/get", "/result must be an object")
            return result
        error = task.get("error")
        if isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str):
            raise RpcError(error["code"], error["message"], error.get("data", UNSET))
        raise RpcError(-32600, f"the task is {task['status']}")

    async def _send_input(self, task: dict[str, Any]) -> bool:
        """Send the input that the task requests, and return whether there was a new request."""
        requests = task.get("inputRequests")
        if not isinstance(requests, dict):
            raise invalid_result("tasks/get", "/inputRequests must be an object")
        # A task may show a request until it has taken the response: each key gets one response.
        new = {key: request for key, request in requests.items() if key not in self._served_inputs}
        if new:
            self._served_inputs |= new.keys()
            inputs = await self._inputs("tasks/get", {"inputRequests": new}, 0)
            await self._call("tasks/update", {"taskId": self.id, **inputs})
        return bool(new)

    def _known_id(self) -> str:
        if self.id is None:
            raise StateError("the server has returned the result at once")
        return self.id
