"""Messages and loops for the tests of dispatch."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Generator
from typing import Any

SECRET = "the secret text"


def on_another_loop(work: Awaitable[bytes]) -> bytes:
    """Return the result of a coroutine that runs without an asyncio loop, on a minimal one."""
    steps = work.__await__()
    while True:
        try:
            assert next(steps) == "pause"
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class Pause:
    def __await__(self) -> Generator[str, None, None]:
        yield "pause"


def fail() -> None:
    raise LookupError(SECRET)


def exit_now() -> None:
    sys.exit(SECRET)


def call(method: str, id: Any = 1, params: Any = None) -> str:
    members = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps({name: value for name, value in members.items() if value is not None})


def error(code: int, message: str, id: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":"%b"}}' % (id, code, message.encode())


def misfit(path: bytes, reason: bytes) -> bytes:
    """Return the error response for params that do not match the handler."""
    data = b'[{"path":"%b","reason":"%b"}]' % (path, reason)
    return error(-32602, "Invalid params")[:-2] + b',"data":' + data + b"}}"


INTERNAL = error(-32603, "Internal error")


RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}'
