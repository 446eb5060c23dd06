"""One task: a call of a tool that continues after its response (2026-07-28).

It is "working", or "input_required" while a request of its function has no response. "completed", "failed" and
"cancelled" are final: the first of them stays, and cancels the requests that have no response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from ...errors import RpcError, StateError
from ...types import UNSET
from ..protocol.meta import FINAL_STATUSES, INPUT_REQUESTS
from .inputs import cannot_send

TaskSupport = Literal["forbidden", "optional", "required"]
"""Whether a tool runs as a task: never, if the client knows tasks, or always."""
TaskStart = Literal["call", "function"]
"""When a task starts: at once, or when the function calls `Context.start_task`."""


def _new_id() -> str:
    import secrets  # few servers have tasks

    return secrets.token_urlsafe(24)  # 192 random bits: without a token, anyone who knows the id may see the task


@dataclass(eq=False, repr=False)
class Task:
    """One task.

    Attributes:
        owner: The subject of the token; None if it is unknown.
        status_message: A text about the status for people, or None.
        outcome: The `result` or the `error` of the call, once there is one.
    """

    owner: object
    _ttl_ms: int
    _poll_interval_ms: int
    _on_change: Callable[[Task], None]
    id: str = field(default_factory=_new_id)
    status: str = "working"
    status_message: str | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    run: asyncio.Task[Any] | None = None
    expiry: asyncio.TimerHandle | None = None
    _questions: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = field(default_factory=dict)
    _used_keys: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        # In UTC: the protocol requires timestamps with a time zone, and that of the server is useless to a client.
        self._created = self._updated = datetime.now(UTC)

    @property
    def is_final(self) -> bool:
        """Whether the status does not change any more."""
        return self.status in FINAL_STATUSES

    def describe(self) -> dict[str, Any]:
        """Return the members of `Task`."""
        members: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _timestamp(self._created),
            "lastUpdatedAt": _timestamp(self._updated),
            "ttlMs": self._ttl_ms,
            "pollIntervalMs": self._poll_interval_ms,
        }
        return members if self.status_message is None else {**members, "statusMessage": self.status_message}

    def details(self) -> dict[str, Any]:
        """Return the members of `DetailedTask`: those of `Task`, and the result, the error or the requests."""
        if self.status == "input_required":
            return {**self.describe(), "inputRequests": {key: request for key, (request, _) in self._questions.items()}}
        return {**self.describe(), **self.outcome}

    def change(self, status: str, message: str | None = None, outcome: dict[str, Any] | None = None) -> None:
        """Change the status, unless it is final."""
        # The function may end in the same turn in which the client cancels: the first final status stays.
        if self.is_final or (status == self.status and message == self.status_message):
            return
        self.status, self.status_message, self.outcome = status, message, outcome or {}
        # Clocks may go back; the time of a change must not.
        self._updated = max(datetime.now(UTC), self._updated + timedelta(milliseconds=1))
        if self.is_final:
            for _, response in self._questions.values():
                # Cancels `ask`, which waits for a response that will not come.
                response.cancel()
            self._questions = {}
        self._on_change(self)

    def fail(self, error: RpcError) -> None:
        """Settle the task with the error of the call."""
        data = {} if error.data is UNSET else {"data": error.data}
        self.change("failed", error.message, {"error": {"code": error.code, "message": error.message, **data}})

    def cancel(self) -> None:
        """Settle the task as cancelled, and cancel its function."""
        self.change("cancelled", "The task was cancelled")
        if self.run is not None:
            self.run.cancel()

    async def ask(self, method: str, params: Mapping[str, Any] | None, key: str | None) -> dict[str, Any]:
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
        response: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        request = {"method": method} if params is None else {"method": method, "params": dict(params)}
        self._questions[key] = request, response
        self.change("input_required")
        try:
            return await response
        finally:
            # Also after a cancellation: the client must not see a request whose function has continued.
            self._questions.pop(key, None)
            if not self._questions:
                self.change("working")

    def add_input(self, responses: Mapping[str, Any]) -> None:
        """Settle requests with the responses of the client. Responses to other requests are ignored."""
        for key, response in responses.items():
            # Removed at once: the client may repeat `tasks/update`, and the status must not show requests that have a
            # response.
            question = self._questions.pop(key, None) if isinstance(response, dict) else None
            if question is not None and not question[1].done():
                question[1].set_result(response)
        if not self._questions and self.status == "input_required":
            self.change("working")


def _timestamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
