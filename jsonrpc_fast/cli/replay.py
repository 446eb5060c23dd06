"""The command `replay`: the requests of a recording, sent again, and their responses compared with the recorded ones.

Rules:
  - The client's messages are sent in order. A request is awaited at the place of its response in the recording, so that
    requests that overlapped overlap again.
  - Ids are new, and the items of a batch are sent one by one. Requests of the server get the responses that the client
    sent, in the order of each method. Input that was not a message is left out.
  - Two responses are equal if their values are: the order of members and the spelling of numbers do not matter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..codec import Notification, Raw, Request, Response, decode
from ..codes import ErrorCode
from ..errors import CallTimeout, RpcError
from ..profile import PRESETS, Profile
from ..support import id_key, pointer_parts, pointer_to
from ..testing.recordings import Recorded, Sender, read_recording
from ..types import UNSET
from .check import advice_on
from .output import escape, shorten

if TYPE_CHECKING:
    from ..session import Caller


class _Change(NamedTuple):
    """A difference between two responses: its place, and its values, of which one may be `UNSET`."""

    path: list[str]
    before: Any
    after: Any


_MAX_DIFFERENCES: Final = 5
"""The number of differences that are shown for one response."""


def handlers_of(options: argparse.Namespace) -> dict[str, Callable[[Any], Any]]:
    """Return functions that serve the server's requests as the client did in the recording. Raises ValueError."""
    waiting: dict[Any, str] = {}
    recorded_responses: defaultdict[str, deque[Response[Any]]] = defaultdict(deque)
    for recorded, message in _messages(options):
        key = _key(recorded, message)
        if isinstance(message, Request) and recorded.sender == "server":
            waiting[key] = message.method
        elif isinstance(message, Response) and recorded.sender == "client" and key in waiting:
            recorded_responses[waiting.pop(key)].append(message)
    return {method: partial(_respond, found) for method, found in recorded_responses.items()}


def _respond(responses: deque[Response[Any]], _: Any) -> Any:
    if not responses:
        raise RpcError(ErrorCode.INTERNAL_ERROR)
    response = responses.popleft()
    if response.error is not None:
        raise RpcError(response.error.code, response.error.message, response.error.data)
    return response.result


async def replay(peer: Caller, options: argparse.Namespace, write: Callable[[str], None]) -> bool:
    """Send the messages of the client in a recording, and return whether all responses are as recorded.

    Raises:
        CallTimeout: A response did not come in time; all of the recording was replayed.
        ValueError: The file cannot be read, is not a recording, or has nothing to send.
    """
    if not all(pointer.startswith("/") for pointer in options.ignore):
        raise ValueError("--ignore takes a JSON pointer, which begins with a slash")
    ignored = [pointer_parts(pointer) for pointer in options.ignore]
    calls: dict[Any, tuple[str, asyncio.Task[Any]]] = {}
    notified = compared = different = late = 0

    def show(line: int, method: str, text: str, **members: Any) -> None:
        if options.json:
            write(json.dumps({"type": "difference", "line": line, "method": method, **members}))
        else:
            write(f"line {line}: {shorten(method)}: {text}")

    try:
        for recorded, message in _messages(options):
            key = _key(recorded, message)
            if recorded.sender == "client" and isinstance(message, Notification):
                await peer.notify(message.method, message.params)
                notified += 1
            elif recorded.sender == "client" and isinstance(message, Request):
                # The id was used again before its response was recorded, so there is no response to compare for the
                # first call.
                if key in calls:
                    calls.pop(key)[1].cancel()
                calls[key] = message.method, asyncio.ensure_future(_outcome(peer, message))
                # The task writes the request in its first step, before the next message of the recording is sent.
                await asyncio.sleep(0)
            elif recorded.sender == "server" and isinstance(message, Response) and key in calls:
                method, call = calls.pop(key)
                try:
                    outcome = await call
                except CallTimeout as error:
                    show(recorded.line, method, str(error), reason=str(error))
                    late += 1
                    continue
                changes = _changes(_outcome_of(message), outcome, ignored)
                compared += 1
                different += bool(changes)
                for change in changes if options.json else changes[:_MAX_DIFFERENCES]:
                    show(recorded.line, method, _text_of(change), **_members_of(change))
                if (hidden := len(changes) - _MAX_DIFFERENCES) > 0 and not options.json:
                    show(recorded.line, method, f"{hidden} more differences not shown")
    finally:
        for _, call in calls.values():
            call.cancel()
        # So that their cancellations reach the server before the session closes.
        if calls:
            await asyncio.wait([call for _, call in calls.values()])
    if not (compared or notified or late or calls):
        raise ValueError(f"{escape(options.file)} contains neither a request nor a notification of a client")
    summary = {"responses": compared, "different": different, "notifications": notified}
    if options.json:
        write(json.dumps({"type": "summary", **summary, "late": late, "unrecorded": len(calls)}))
    else:
        left = f", {len(calls)} without a recorded response" if calls else ""
        write(", ".join([f"{name} {number}" for name, number in summary.items()]) + left)
    if late:
        raise CallTimeout(f"responses that did not come in time: {late}")
    return not different


def _messages(options: argparse.Namespace) -> Iterator[tuple[Recorded, Any]]:
    """Yield the messages of a recording, each item of a batch separately."""
    profile: Profile = PRESETS[options.profile]
    try:
        file = open(options.file, "rb")  # noqa: SIM115 (only the opening is tried)
    except OSError as error:
        raise ValueError(f"cannot read {escape(options.file)}: {error.strerror}") from None
    with file:
        # A recording has its own framing; --framing is that of the server. It is read twice, so it cannot be a pipe.
        if advice := advice_on(file.peek(), "newline", profile, "> OTHER; jsonrpc-fast replay OTHER ..."):
            raise ValueError(f"cannot read {escape(options.file)}: {advice}")
        for recorded in read_recording(file):
            if recorded.message is not None:
                message = decode(bytes(recorded.message), profile, raw=True)
                for item in message if isinstance(message, list) else [message]:
                    yield recorded, item


def _key(recorded: Recorded, message: Any) -> Any:
    """Return the key of a request and its response: the connection, the side, and the id with its type."""
    # With its type: 1 and 1.0 are equal in Python, but they are different ids.
    if isinstance(message, Request):
        return recorded.connection, recorded.sender, id_key(message.id)
    if isinstance(message, Response):
        asked: Sender = "server" if recorded.sender == "client" else "client"
        return recorded.connection, asked, id_key(message.id)
    return None


async def _outcome(peer: Caller, request: Request[Any]) -> dict[str, Any]:
    try:
        return {"result": plain(await peer.call(request.method, request.params))}
    except RpcError as error:
        return {"error": _error(error.code, error.message, error.data)}


def _outcome_of(response: Response[Any]) -> dict[str, Any]:
    error = response.error
    if error is None:
        return {"result": plain(response.result)}
    return {"error": _error(error.code, error.message, error.data)}


def _error(code: int, message: str, data: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **({} if data is UNSET else {"data": plain(data)})}


def plain(value: Any) -> Any:
    """Return the value of a `Raw` as the json module reads it, which keeps integers of any width; others unchanged."""
    return value.decode(json.loads) if isinstance(value, Raw) else value


def _changes(before: Any, after: Any, ignored: Sequence[list[str]]) -> list[_Change]:
    """Return the differences between two outcomes, outside the ignored places."""
    return [
        change
        for change in _differences(before, after, [])
        if not any(_is_ignored(change.path, parts) for parts in ignored)
    ]


def _differences(before: Any, after: Any, path: list[str]) -> Iterator[_Change]:
    """Yield the differences between two values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            one, other = before.get(name, UNSET), after.get(name, UNSET)
            yield from _differences(one, other, [*path, name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, [*path, str(index)])
    # True == 1 in Python, but not in JSON. 1 and 1.0 are the same number.
    elif isinstance(before, bool) is not isinstance(after, bool) or before != after:
        yield _Change(path, before, after)


def _text_of(change: _Change) -> str:
    path, before, after = change
    if after is UNSET:
        text = f"{_shown(before)} is gone"
    elif before is UNSET:
        text = f"{_shown(after)} is new"
    else:
        text = f"{_shown(before)} became {_shown(after)}"
    return f"{escape(pointer_to(path))}: {text}"


def _members_of(change: _Change) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    return {"pointer": pointer_to(change.path), **{name: value for name, value in sides.items() if value is not UNSET}}


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return "an object" if isinstance(value, dict) else shorten(json.dumps(value, ensure_ascii=False))


def _is_ignored(path: Sequence[str], names: Sequence[str]) -> bool:
    return len(path) >= len(names) and all(name in ("*", part) for name, part in zip(names, path, strict=False))
