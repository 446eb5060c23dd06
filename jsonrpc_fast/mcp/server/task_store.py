"""Tasks: calls of tools that continue after their response, and whose results the client fetches later.

Rules:
  - In 2025-11-25 the client asks for a task with `task` in its params. The response to `tasks/result` waits for the end
    and is the result of the call. Requests of the task are sent while a `tasks/result` waits.
  - In 2026-07-28 tasks are an extension. A call of a tool with task support becomes a task if the request declares the
    extension. The result is part of `tasks/get`; the client responds to the requests of the task with `tasks/update`.
  - A task belongs to the client that created it: to the session up to 2025-11-25, and to the subject of its token if
    there is one. For other clients it does not exist. Ids have 192 random bits.
  - The number of tasks is limited. A task is dropped, and stopped if it still runs, when its `ttl` has elapsed or its
    session ends.

Sources: specification 2025-11-25 "Tasks"; SEP-2663, extension `io.modelcontextprotocol/tasks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from ..._checks import check_count
from ..._logs import logger_of
from ...codes import RPC_MESSAGES, ErrorCode
from ...errors import ConnectionLost, RpcError, StateError, invalid_params
from ...handlers.failures import on_failure
from ...session.running import detached
from ...types import CANCEL_SECONDS, UNSET
from ..protocol.meta import RELATED_TASK_KEY, TASKS_CAPABILITY, method_not_found
from .context import Context, allow_task
from .paging import paginate
from .tasks import Owner, Question, Task, TaskStart, TaskSupport

MAX_RESULT_WAITERS: Final = 16
"""Maximum number of `tasks/result` requests that wait for one task."""

TASK_METHODS: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/list", "tasks/result", "tasks/update"})
_MODERN_METHODS: Final = frozenset({"tasks/cancel", "tasks/get", "tasks/update"})
_MAX_ID_CHARACTERS: Final = 256
_TOO_MANY: Final = -32000  # of the band for implementations: the server has not failed
_logger: Final = logger_of("mcp")


class TaskStore:
    """The tasks of a server, in memory.

    Args:
        max_tasks: Maximum number of tasks of all clients. A further one is refused until an old one is dropped.
        max_client_tasks: The same for one client: a session up to 2025-11-25, later the subject of a token. By default
            a quarter of `max_tasks`, but at least one. Clients of 2026-07-28 without a token cannot be distinguished,
            so this does not apply to them.
        ttl_ms: How long a task is kept after its creation, in milliseconds, if the client does not ask for a time.
        max_ttl_ms: The longest time that a client may ask for.
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
        max_ttl_ms: int = 86_400_000,
        poll_interval_ms: int = 1000,
    ) -> None:
        for name, value in (("max_tasks", max_tasks), ("ttl_ms", ttl_ms), ("max_ttl_ms", max_ttl_ms)):
            check_count(name, value, 1, may_be_none=False)
        check_count("max_client_tasks", max_client_tasks, 1)
        check_count("poll_interval_ms", poll_interval_ms, 1, may_be_none=False)
        if max_client_tasks is None:
            # One client must not be able to use up the tasks that all clients share.
            max_client_tasks = max_tasks // 4 or 1
        self._max_tasks = max_tasks
        self._max_client_tasks = max_client_tasks
        self._ttl_ms = min(ttl_ms, max_ttl_ms)
        self._max_ttl_ms = max_ttl_ms
        self._poll_interval_ms = poll_interval_ms
        self._tasks: dict[str, Task] = {}
        self._created = 0
        self._notifying: set[asyncio.Task[None]] = set()
        self._runs: set[asyncio.Task[Any]] = set()  # including those of dropped tasks, until their functions have ended
        self.on_change: Callable[[Task], None] | None = None

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
            RpcError: The client must, or must not, ask for a task (-32601); it lacks the extension (-32021); or there
                are too many tasks (-32000).
        """
        if not self._is_task(support, context):
            return await function()
        return await self._start(starts if context.revision.is_modern else "call", context, function)

    def serve(self, method: str, params: dict[str, Any], context: Context) -> Any:
        """Serve a request about tasks. Return its result; for "tasks/result", a coroutine of it.

        Args:
            method: One of TASK_METHODS.
            params: The params of the request.
            context: The context of the request.

        Raises:
            RpcError: The revision does not have the method (-32601), the client lacks the extension (-32021), or the
                params are invalid or name an unknown task (-32602).
        """
        _check_method(method, context)
        if method == "tasks/list":
            return self._list(params, context)
        task = self._find(params, context)
        if method == "tasks/result":
            return self._result(task, context)
        if method == "tasks/get":
            return task.details() if task.is_modern else task.describe()
        if method == "tasks/cancel":
            # An error only in 2025-11-25; for the extension a late cancellation is a success.
            if task.is_final and not task.is_modern:
                raise invalid_params(f"the task is already {task.status}")
            task.cancel()
            return {} if task.is_modern else task.describe()
        # `tasks/update`: responses with unknown keys are ignored, because the task may have continued.
        responses = params.get("inputResponses")
        if not isinstance(responses, dict):
            raise invalid_params("inputResponses must be an object")
        task.add_input(responses)
        return {}

    def owned(self, ids: list[str], context: Context) -> list[str]:
        """Return the ids whose tasks belong to the client."""
        owner = _owner(context)
        # Ids of other clients are not distinguished from unknown ones.
        return [id for id in ids if (task := self._tasks.get(id)) is not None and task.owner == owner]

    def end_session(self, session: object) -> None:
        """Stop and drop the tasks of a session that has ended."""
        for task in [task for task in self._tasks.values() if task.owner[0] is session]:
            self._drop(task)

    async def close(self) -> None:
        """Stop and drop all tasks, and wait for their functions, but no longer than CANCEL_SECONDS."""
        for task in list(self._tasks.values()):
            self._drop(task)
        # A task's own function may be what closes the store: it cannot wait for itself.
        ending = {*self._runs, *self._notifying} - {asyncio.current_task()}
        for running in ending:
            running.cancel()
        if ending and (await asyncio.wait(ending, timeout=CANCEL_SECONDS))[1]:
            _logger.error("a task continues although it was cancelled")

    def _is_task(self, support: TaskSupport, context: Context) -> bool:
        """Whether a call runs as a task."""
        if context.revision.is_modern:
            if support == "required":
                context.require(TASKS_CAPABILITY)
            return support != "forbidden" and context.client_capabilities.supports(TASKS_CAPABILITY)
        # Tasks came with 2025-11-25, and left the protocol for an extension in the next revision.
        has_tasks = "tasks/get" in context.revision.client_requests
        is_wanted = has_tasks and context.params.get("task") is not None
        if is_wanted and support == "forbidden":
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, "the tool does not run as a task")
        if not is_wanted and support == "required":
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, "the tool runs only as a task")
        return is_wanted

    async def _start(
        self, starts: TaskStart, context: Context, function: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        # The call ends in one of two ways: with the tool's result, or with the description of a task that has started.
        started: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        created: dict[str, Any] = {}

        def start(current: asyncio.Task[Any]) -> Task:
            task = self._add(context)
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
            started.result().finish(_checked(result))
            return None

        running = detached(asyncio.ensure_future, run())  # it outlives the request

        def undo() -> None:
            if started.done():
                self._drop(started.result())  # the client never gets its id
            running.cancel()

        with on_failure(undo):
            await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        # The function has ended without starting a task: this is an ordinary call.
        if not started.done():
            return running.result() or {}
        task = started.result()
        return {"resultType": "task", **created} if task.is_modern else {"task": created}

    def _add(self, context: Context) -> Task:
        owner = _owner(context)
        # Without a session and a token, clients cannot be distinguished, so a limit for one would be a limit for all.
        is_known = owner != (None, None)
        owned = sum(task.owner == owner for task in self._tasks.values()) if is_known else 0
        # Refused; no older task is dropped, because its client may still want the result.
        if len(self._tasks) >= self._max_tasks or owned >= self._max_client_tasks:
            raise RpcError(_TOO_MANY, "too many tasks")
        wanted = None
        if not context.revision.is_modern:
            options = context.params.get("task")
            wanted = options.get("ttl") if isinstance(options, dict) else None
            if not isinstance(options, dict) or (wanted is not None and (type(wanted) is not int or wanted < 1)):
                raise invalid_params("task/ttl must be a positive integer")
        # A client may ask for less than the default, and for more up to the limit.
        ttl_ms = self._ttl_ms if wanted is None else min(wanted, self._max_ttl_ms)
        self._created += 1

        def on_change(task: Task) -> None:
            if not task.is_modern:
                self._notify(context, task)
            if self.on_change is not None:
                self.on_change(task)

        task = Task(owner, context.revision.is_modern, ttl_ms, self._poll_interval_ms, self._created, on_change)
        # The client may never return, so the result is not kept longer than the client asked for.
        task.expiry = asyncio.get_running_loop().call_later(
            ttl_ms / 1000, self._drop, task, context=contextvars.Context()
        )
        self._tasks[task.id] = task
        return task

    def _drop(self, task: Task) -> None:
        if self._tasks.pop(task.id, None) is not None:
            if task.expiry is not None:
                task.expiry.cancel()
            # Its result can no longer be fetched.
            if not task.is_final:
                task.cancel()

    def _notify(self, context: Context, task: Task) -> None:
        """Send `notifications/tasks/status` to a legacy client."""

        async def notify(params: dict[str, Any]) -> None:
            with contextlib.suppress(RpcError, ConnectionLost, StateError):
                await context.notify("notifications/tasks/status", params)

        sending = detached(asyncio.ensure_future, notify(task.describe()))
        self._notifying.add(sending)
        sending.add_done_callback(self._notifying.discard)

    def _find(self, params: Mapping[str, Any], context: Context) -> Task:
        id = params.get("taskId")
        if not isinstance(id, str) or len(id) > _MAX_ID_CHARACTERS:
            raise invalid_params(f"taskId must be a string of at most {_MAX_ID_CHARACTERS} characters")
        task = self._tasks.get(id)
        # The same error in both cases: an id of another client must look like one that does not exist.
        if task is None or task.owner != _owner(context):
            raise invalid_params("Unknown task")
        return task

    def _list(self, params: Mapping[str, Any], context: Context) -> dict[str, Any]:
        owner = _owner(context)
        tasks = [task for task in self._tasks.values() if task.owner == owner]
        # By number, not by id: ids are random, and new tasks belong at the end.
        page, next_cursor = paginate(tasks, params.get("cursor"), key=lambda task: f"{task.number:020d}")
        result: dict[str, Any] = {"tasks": [task.describe() for task in page]}
        return result if next_cursor is None else {**result, "nextCursor": next_cursor}

    async def _result(self, task: Task, context: Context) -> dict[str, Any]:
        """Send the requests of a task until it ends, and return the result of the call, or raise its error."""
        # Each waiter keeps a request open, and over HTTP a connection.
        if task.waiting_results >= MAX_RESULT_WAITERS:
            raise RpcError(ErrorCode.INTERNAL_ERROR, "too many requests wait for this task")
        # Counted while it waits, however the waiting ends.
        task.waiting_results += 1
        try:
            while (question := await task.next_question()) is not None:
                await _deliver(task, question, context)
        finally:
            task.waiting_results -= 1
        # The result does not name its call, because it is the response to another request.
        related = {RELATED_TASK_KEY: {"taskId": task.id}}
        if task.error is not None:
            data = task.error.get("data", UNSET)
            raise RpcError(task.error["code"], task.error["message"], data)
        if task.result is None:
            raise RpcError(ErrorCode.INVALID_REQUEST, "the task was cancelled")
        return {**task.result, "_meta": {**(task.result.get("_meta") or {}), **related}}


def _check_method(method: str, context: Context) -> None:
    """Raise the error for a method that the revision does not have, or a client without the extension."""
    if context.revision.is_modern:
        if method not in _MODERN_METHODS:
            raise method_not_found()
        context.require(TASKS_CAPABILITY)
    elif method not in context.revision.client_requests:
        raise method_not_found()


async def _deliver(task: Task, question: Question, context: Context) -> None:
    """Send one request of a legacy task to its client, until it has a response or the task ends."""
    params = dict(question.params or {})
    params["_meta"] = {**(params.get("_meta") or {}), RELATED_TASK_KEY: {"taskId": task.id}}
    sending = asyncio.ensure_future(context.call(question.method, params, timeout=question.timeout))
    try:
        await asyncio.wait((sending, question.response), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            try:
                question.settle(sending.result())
            except Exception as error:
                question.settle(error)
    finally:
        if not sending.done():
            sending.cancel()
        if not question.response.done():
            # This `tasks/result` was cancelled or its connection lost: the next one asks the client again.
            task.return_question(question)


def _report_end(run: asyncio.Task[Any], task: Task) -> None:
    """Settle a task whose function ended with an exception, or was cancelled."""
    if run.cancelled():
        task.change("cancelled", "The task was cancelled")
    elif (error := run.exception()) is not None:
        if isinstance(error, RpcError):
            task.fail(error)
        else:
            _logger.error("task %s failed", task.id, exc_info=error)
            task.fail(RpcError(ErrorCode.INTERNAL_ERROR, RPC_MESSAGES[ErrorCode.INTERNAL_ERROR]))


def _checked(result: dict[str, Any] | None) -> dict[str, Any]:
    if not isinstance(result, dict) or result.get("resultType", "complete") != "complete":
        raise TypeError("the result of a task must be the result of the tool")
    return result


def _owner(context: Context) -> Owner:
    return (None if context.revision.is_modern else context.session, context.subject)
