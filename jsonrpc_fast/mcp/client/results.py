"""Checks of the results that a server sends, and the pages of a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from math import inf
from typing import Any, Final

from ...codec import dumps
from ...errors import CallTimeout, EncodeError, InvalidResponse, RpcError, StateError
from ...support import logger_of
from ...types import UNSET, Unset
from ..protocol.definitions import MAX_ITEMS, block_fault, items_fault
from ..protocol.meta import FINAL_STATUSES, LIST_METHODS
from ..protocol.schemas import Schema

_logger: Final = logger_of("mcp")

MAX_PAGES: Final = 1000
"""Maximum number of pages of one list. A server with more, or with pages that form a cycle, is faulty."""
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of all pages of one list together, as JSON. A single page may be as large as a message."""


class Entries(list[dict[str, Any]]):
    """What a server offers, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (
                entry.get("name"),
                entry.get("uri") or entry.get("uriTemplate"),
                entry.get("title"),
                entry.get("description"),
            )
            for entry in self
        ]
        used = [place for place in range(4) if any(row[place] for row in rows)]
        cells = ["".join([f"<td>{escape(str(row[place] or ''))}</td>" for place in used]) for row in rows]
        return f"<table>{''.join([f'<tr>{row}</tr>' for row in cells])}</table>"


def timed_out(what: str, seconds: float) -> CallTimeout:
    """Return the exception for what has not happened within these seconds."""
    return CallTimeout(f"{what} in {round(seconds, 3):g} s")


def invalid_result(method: str, fault: str) -> InvalidResponse:
    """Return the error for a result that breaks the protocol."""
    return InvalidResponse(f"the server sent an invalid result for {method}: {fault}")


def check_items(method: str, result: dict[str, Any], name: str, fault_of: Callable[[Any, str], str | None]) -> None:
    """Check a member that is an array.

    Args:
        fault_of: Returns the fault of an item, given its path; None if it is valid.

    Raises InvalidResponse: the member is not an array, is too long, or has an invalid item.
    """
    items = result.get(name)
    fault = items_fault(items, f"/{name}")
    if fault is None:
        faults = (fault_of(item, f"/{name}/{index}") for index, item in enumerate(items or ()))
        fault = next((found for found in faults if found is not None), None)
    if fault is not None:
        raise invalid_result(method, fault)


def named_fault(key: str, item: Any, path: str) -> str | None:
    """Return the fault of an item that must be an object with a string at `key`; None if it is valid."""
    if not isinstance(item, dict):
        return f"{path} must be an object"
    return None if isinstance(item.get(key), str) else f"{path}/{key} must be a string"


def check_completion(result: dict[str, Any]) -> dict[str, Any]:
    """Return the completion in the result of `completion/complete`.

    Raises InvalidResponse: `values` is not an array of strings, or has too many of them.
    """
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    is_valid = isinstance(values, list) and len(values) <= MAX_ITEMS and all(isinstance(item, str) for item in values)
    if not is_valid or not isinstance(completion, dict):
        raise invalid_result("completion/complete", "/completion/values must be an array of strings")
    return completion


def checked_tool_result(schema: Schema | None, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a tool if it is valid; raise InvalidResponse otherwise."""
    check_items("tools/call", result, "content", block_fault)
    if schema is not None and not result.get("isError"):
        if "structuredContent" not in result:
            raise invalid_result("tools/call", "/structuredContent is missing")
        for fault in schema.faults(result["structuredContent"]):
            raise invalid_result("tools/call", f"/structuredContent{fault.path}: {fault.message}")
    return result


async def all_pages(
    method: str,
    request: Callable[[Mapping[str, Any] | None], Awaitable[dict[str, Any]]],
    server: str = "the server",
) -> list[dict[str, Any]]:
    """Request all pages of a list and return its items.

    An item that is not an object with a name is left out and logged: the others can be used.

    Raises InvalidResponse: a page is invalid, or the pages exceed MAX_PAGES or MAX_LIST_BYTES.
    """
    _, name, key, _ = LIST_METHODS[method]
    found: list[dict[str, Any]] = []
    params: dict[str, str] | None = None
    cursors: set[str] = set()
    size = 0
    for _ in range(MAX_PAGES):
        page = await request(params)
        check_items(method, page, name, lambda item, path: None)
        for index, item in enumerate(page[name]):
            if (fault := named_fault(key, item, f"/{name}/{index}")) is None:
                found.append(item)
            else:
                _logger.warning("%s: an item of %s is left out: %s", server, method, fault)
        cursor = page.get("nextCursor")
        if cursor is None:
            return found
        if not isinstance(cursor, str):
            raise invalid_result(method, "/nextCursor must be a string")
        if cursor in cursors:
            raise invalid_result(method, "/nextCursor repeats an earlier cursor")
        try:
            size += len(dumps(page))
        except EncodeError:  # decoding allows four times the depth of encoding
            raise invalid_result(method, "a page is nested too deeply") from None
        if size > MAX_LIST_BYTES:
            raise invalid_result(method, f"the pages have more than {MAX_LIST_BYTES} bytes")
        # All cursors are kept, not only the last one, because a cycle may have any length.
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise invalid_result(method, f"there are more than {MAX_PAGES} pages")


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
            self._result = self._check(await self._poll(timeout))
        return self._result

    async def _poll(self, timeout: float | None) -> dict[str, Any]:
        deadline = inf if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            seconds = deadline - asyncio.get_running_loop().time()
            if seconds <= 0:
                raise timed_out("the task did not end", timeout or 0.0)
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
