"""Tasks: calls of tools that continue after their response, and whose results the client fetches later (2026-07-28).

A task belongs to the subject of the token of its request, if there is one. For others it does not exist.

Source: SEP-2663, extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from ...codes import ErrorCode
from ...errors import RpcError
from ...session import detached
from ...support import check_count, logger_of, on_failure
from ..protocol.meta import TASKS_CAPABILITY, method_not_found
from .context import Context, allow_task
from .tasks import Task, TaskStart, TaskSupport

TASK_METHODS: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/update"})
_logger: Final = logger_of("mcp")


class TaskStore:
    """The tasks of a server, in memory.

    Args:
        max_tasks: Maximum number of tasks of all clients. A further one is refused until an old one is dropped.
        max_client_tasks: The same for the subject of a token. By default a quarter of `max_tasks`, but at least one.
            Clients without a token cannot be distinguished, so this does not apply to them.
        ttl_ms: How long a task is kept after its creation, in milliseconds.
        poll_interval_ms: How often clients should ask for the status of a task.

    Raises:
        ValueError: An argument is less than 1.
    """

    def __init__(
        self,
        *,
        max_tasks: int = 1000,
        max_client_tasks: int | None = None,
        ttl_ms: int = 3_600_000,
        poll_interval_ms: int = 1000,
    ) -> None:
        for name, value in (("max_tasks", max_tasks), ("ttl_ms", ttl_ms), ("poll_interval_ms", poll_interval_ms)):
            check_count(name, value, 1, may_be_none=False)
        check_count("max_client_tasks", max_client_tasks, 1)
        self._max_tasks = max_tasks
        # One client must not be able to use up the tasks that all clients share.
        self._max_client_tasks = max_tasks // 4 or 1 if max_client_tasks is None else max_client_tasks
        self._ttl_ms = ttl_ms
        self._poll_interval_ms = poll_interval_ms
        self._tasks: dict[str, Task] = {}
        self._runs: set[asyncio.Task[Any]] = set()  # including those of dropped tasks, until their functions have ended
        self.on_change: Callable[[Task], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._tasks)

    async def serve_call(
        self,
        support: TaskSupport,
        starts: TaskStart,
        context: Context,
        function: Callable[[], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Serve a call of a tool, as a task or not.

        Args:
            support: Whether the tool runs as a task.
            starts: When the task starts.
            context: The context of the call.
            function: Runs the tool.

        Returns:
            The result of the tool, or the result that describes the task.

        Raises:
            RpcError: The client lacks the extension (-32021), its revision has no tasks (-32601), or there are too many
                tasks (-32000).
        """
        if not context.revision.is_modern and support == "required":
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, "the tool runs only as a task of 2026-07-28")
        if support == "required":
            context.require(TASKS_CAPABILITY)
        if not context.revision.is_modern or not context.client_capabilities.supports(TASKS_CAPABILITY):
            return await function()
        # The call ends in one of two ways: with the tool's result, or with the description of a task that has started.
        started: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        created: dict[str, Any] = {"resultType": "task"}

        def start(current: asyncio.Task[Any]) -> Task:
            task = self._add(context.subject)
            task.run = current
            self._runs.add(current)
            current.add_done_callback(self._runs.discard)
            current.add_done_callback(lambda run: _report_end(run, task))
            created.update(task.describe())  # now it is "working", and the client is notified of that first
            started.set_result(task)
            return task

        async def run() -> dict[str, Any] | None:
            # Not the task that calls `start_task`: for a function in a thread, that is a different task.
            current = asyncio.current_task()
            assert current is not None
            allow_task(context, partial(start, current))
            # Before the function runs: the client gets its task although the function may take hours.
            if starts == "call":
                await context.start_task()
            result = await function()
            if not started.done():
                return result
            if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
                raise TypeError("the result of a task must be the result of the tool")
            started.result().change("completed", None, {"result": {"resultType": "complete", **result}})
            return None

        running = detached(asyncio.ensure_future, run())  # it outlives the request

        def undo() -> None:
            if started.done():
                self._drop(started.result())  # the client never gets its id
            running.cancel()

        with on_failure(undo):
            await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        # Otherwise the function has ended without starting a task: this is an ordinary call.
        return created if started.done() else running.result() or {}

    def serve(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Serve a request about tasks. Return its result.

        Args:
            method: One of TASK_METHODS.
            params: The params of the request.
            context: The context of the request.

        Raises:
            RpcError: The revision has no tasks (-32601), the client lacks the extension (-32021), or the params are
                invalid or name an unknown task (-32602).
        """
        if not context.revision.is_modern:
            raise method_not_found()
        context.require(TASKS_CAPABILITY)
        id = params.get("taskId")
        task = self._tasks.get(id) if isinstance(id, str) else None
        # The same error in both cases: an id of another client must look like one that does not exist.
        if task is None or task.owner != context.subject:
            raise RpcError.invalid_params("Unknown task" if isinstance(id, str) else "taskId must be a string")
        if method == "tasks/get":
            return task.details()
        if method == "tasks/cancel":
            task.cancel()
            return {}
        # `tasks/update`: responses with unknown keys are ignored, because the task may have continued.
        responses = params.get("inputResponses")
        if not isinstance(responses, dict):
            raise RpcError.invalid_params("inputResponses must be an object")
        task.add_input(responses)
        return {}

    def owned(self, ids: list[str], context: Context) -> list[str]:
        """Return the ids whose tasks belong to the client."""
        # Ids of other clients are not distinguished from unknown ones.
        return [id for id in ids if (task := self._tasks.get(id)) is not None and task.owner == context.subject]

    async def close(self) -> None:
        """Stop and drop all tasks, and wait for their functions, but no longer than 5 seconds."""
        for task in list(self._tasks.values()):
            self._drop(task)
        # A task's own function may be what closes the store: it cannot wait for itself.
        ending = self._runs - {asyncio.current_task()}
        for running in ending:
            running.cancel()
        if ending and (await asyncio.wait(ending, timeout=5.0))[1]:
            _logger.error("a task continues although it was cancelled")

    def _add(self, owner: object) -> Task:
        owned = 0 if owner is None else sum(task.owner == owner for task in self._tasks.values())
        # Refused; no older task is dropped, because its client may still want the result.
        if len(self._tasks) >= self._max_tasks or owned >= self._max_client_tasks:
            raise RpcError(-32000, "too many tasks")  # of the band for implementations: the server has not failed
        task = Task(owner, self._ttl_ms, self._poll_interval_ms, self.on_change)
        # The client may never return, so the result is not kept forever.
        loop = asyncio.get_running_loop()
        task.expiry = loop.call_later(self._ttl_ms / 1000, self._drop, task, context=contextvars.Context())
        self._tasks[task.id] = task
        return task

    def _drop(self, task: Task) -> None:
        if self._tasks.pop(task.id, None) is not None:
            if task.expiry is not None:
                task.expiry.cancel()
            # Its result can no longer be fetched.
            if not task.is_final:
                task.cancel()


def _report_end(run: asyncio.Task[Any], task: Task) -> None:
    """Settle a task whose function ended with an exception, or was cancelled."""
    if run.cancelled():
        task.change("cancelled", "The task was cancelled")
    elif (error := run.exception()) is not None:
        if not isinstance(error, RpcError):
            _logger.error("task %s failed", task.id, exc_info=error)
            error = RpcError(ErrorCode.INTERNAL_ERROR)
        task.fail(error)
