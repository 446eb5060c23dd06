"""One task: its status, its result, and its requests to the client.

Rules:
  - A task begins as "working". "completed", "failed" and "cancelled" are final: the first of them stays.
  - It is "input_required" while a request of its function has no response, and then "working" again.
  - A request to the client has a key that is used once in the task: a late response cannot settle a later request.
  - Up to 2025-11-25, one `tasks/result` request sends each request of the task. In 2026-07-28 `details` lists them.
  - When the status becomes final, the requests that have no response are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from ...errors import RpcError, StateError
from ...transports.waiters import Waiters
from ...types import UNSET, Unset
from ..protocol.meta import FINAL_STATUSES, INPUT_REQUESTS
from .inputs import cannot_send

TaskSupport = Literal["forbidden", "optional", "required"]
"""Whether a tool runs as a task: never, if the client asks for it, or always."""
TaskStart = Literal["call", "function"]
"""When a task starts: at once, or when the function calls `Context.start_task`."""

Owner = tuple[object, object]
"""Who may see a task: the session or None, and the subject of the token or None."""


class Question(msgspec.Struct, eq=False):
    """A request of a task to its client, and its response."""

    key: str
    method: str
    params: dict[str, Any] | None
    timeout: float | Unset | None
    is_sent: bool = False
    response: asyncio.Future[dict[str, Any]] = msgspec.field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def request(self) -> dict[str, Any]:
        params = {} if self.params is None else {"params": self.params}
        return {"method": self.method, **params}

    def settle(self, response: dict[str, Any] | Exception) -> None:
        if self.response.done():
            return
        if isinstance(response, Exception):
            self.response.set_exception(response)
        else:
            self.response.set_result(response)


def _new_id() -> str:
    import secrets  # few servers have tasks

    return secrets.token_urlsafe(24)  # 192 random bits: without a token, anyone who knows the id may see the task


@dataclass(eq=False, repr=False)
class Task:
    """One task.

    Args:
        owner: Who may see it.
        is_modern: Whether it belongs to the extension of 2026-07-28.
        ttl_ms: How long it is kept, in milliseconds.
        poll_interval_ms: How often the client should ask for its status, in milliseconds.
        number: Its position in lists.
        on_change: Called after its status has changed.

    Attributes:
        id: The id.
        status: "working", "input_required", "completed", "failed" or "cancelled".
        status_message: A text about the status for people, or None.
        result: The result of the call, when it is completed or, up to 2025-11-25, failed.
        error: The error of the call, when it is failed.
        waiting_results: The number of `tasks/result` requests that wait for it.
    """

    owner: Owner
    is_modern: bool
    _ttl_ms: int
    _poll_interval_ms: int
    number: int
    _on_change: Callable[[Task], None]
    id: str = field(default_factory=_new_id)
    status: str = "working"
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    waiting_results: int = 0
    run: asyncio.Task[Any] | None = None
    expiry: asyncio.TimerHandle | None = None
    _questions: dict[str, Question] = field(default_factory=dict)
    _used_keys: set[str] = field(default_factory=set)
    _waiters: Waiters = field(default_factory=Waiters)

    def __post_init__(self) -> None:
        # In UTC: the protocol requires timestamps with a time zone, and that of the server is useless to a client.
        self._created = self._updated = datetime.now(UTC)

    @property
    def is_final(self) -> bool:
        """Whether the status does not change any more."""
        return self.status in FINAL_STATUSES

    def describe(self) -> dict[str, Any]:
        """Return the members of `Task` in the form of its revision."""
        # The extension renamed the members when it took tasks over from the protocol.
        names = ("ttlMs", "pollIntervalMs") if self.is_modern else ("ttl", "pollInterval")
        members: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _timestamp(self._created),
            "lastUpdatedAt": _timestamp(self._updated),
            names[0]: self._ttl_ms,
            names[1]: self._poll_interval_ms,
        }
        return members if self.status_message is None else {**members, "statusMessage": self.status_message}

    def details(self) -> dict[str, Any]:
        """Return the members of `DetailedTask`: those of `Task`, and the result, the error or the requests."""
        members = self.describe()
        if self.status == "completed":
            members["result"] = {"resultType": "complete", **(self.result or {})}
        elif self.status == "failed":
            members["error"] = self.error
        elif self.status == "input_required":
            members["inputRequests"] = {key: question.request() for key, question in self._questions.items()}
        return members

    def change(self, status: str, message: str | None = None) -> None:
        """Change the status, unless it is final."""
        # The function may end in the same turn in which the client cancels: the first final status stays.
        if self.is_final or (status == self.status and message == self.status_message):
            return
        self.status = status
        self.status_message = message
        # Clocks may go back; the time of a change must not.
        self._updated = max(datetime.now(UTC), self._updated + timedelta(milliseconds=1))
        if self.is_final:
            for question in self._questions.values():
                # Cancels `ask`, which waits for a response that will not come.
                question.response.cancel()
            self._questions = {}
        self._waiters.wake()
        self._on_change(self)

    def finish(self, result: dict[str, Any]) -> None:
        """Settle the task with the result of the call. A failed tool is "failed" up to 2025-11-25."""
        if not self.is_final:
            self.result = result
            # In 2025-11-25 a polling client sees only the status, and would otherwise treat a failed tool as a success.
            is_failed = result.get("isError") is True and not self.is_modern
            self.change("failed" if is_failed else "completed", "The tool failed" if is_failed else None)

    def fail(self, error: RpcError) -> None:
        """Settle the task with the error of the call."""
        if not self.is_final:
            self.error = {"code": error.code, "message": error.message}
            if error.data is not UNSET:
                self.error["data"] = error.data
            self.change("failed", error.message)

    def cancel(self) -> None:
        """Settle the task as cancelled, and cancel its function."""
        self.change("cancelled", "The task was cancelled")
        if self.run is not None:
            self.run.cancel()

    async def ask(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | Unset | None, key: str | None
    ) -> dict[str, Any]:
        """Send a request to the client and return its result: see `Context.call`."""
        if method not in INPUT_REQUESTS:
            raise cannot_send()
        # The function may continue after a cancellation that it has caught.
        if self.is_final:
            raise StateError("the task has ended")
        # Used keys are kept: a late response to an earlier request must not settle a new one.
        key = f"{method}-{len(self._used_keys) + 1}" if key is None else key
        if key in self._used_keys:
            raise ValueError("two requests of the task have the same key")
        # There is one for each request that the function makes; the client cannot add any.
        self._used_keys.add(key)
        question = Question(key, method, None if params is None else dict(params), timeout)
        self._questions[key] = question
        self.change("input_required")
        # `change` does nothing if the status is "input_required" already, and a `tasks/result` may wait for this
        # request.
        self._waiters.wake()
        try:
            return await question.response
        finally:
            # Also after a cancellation: the client must not see a request whose function has continued.
            self._questions.pop(key, None)
            if not self._questions:
                self.change("working")

    def add_input(self, responses: Mapping[str, Any]) -> None:
        """Settle requests with the responses of the client. Responses to other requests are ignored."""
        for key, response in responses.items():
            question = self._questions.get(key)
            # Removed at once: the client may repeat `tasks/update`, and the status must not show requests that have a
            # response.
            if question is not None and isinstance(response, dict):
                del self._questions[key]
                question.settle(response)
        if not self._questions and self.status == "input_required":
            self.change("working")

    async def next_question(self) -> Question | None:
        """Wait until there is a request that is not sent yet, or the status is final: None."""
        while not self.is_final:
            # The oldest first: the client sees the requests in the order in which the function made them.
            for question in self._questions.values():
                if not question.is_sent:
                    question.is_sent = True
                    return question
            await self._waiters.wait()
        return None

    def return_question(self, question: Question) -> None:
        """Let another `tasks/result` send a request that this one could not send."""
        question.is_sent = False
        self._waiters.wake()


def _timestamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
