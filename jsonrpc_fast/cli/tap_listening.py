"""The command `tap` with `--http` or `--listen`: clients connect to it, and it passes each on to the server.

Rules:
  - Over HTTP, method, path, query, headers and bodies are passed on unchanged, in both directions and at once. Two
    headers differ: `Host`, and `Accept-Encoding`, so that the server does not compress what the log decodes.
  - A response belongs to the request of the same HTTP exchange, or of the same session.
  - Redirects are not followed, and no request is repeated. Without a response of the server the client gets the status
    502, with a text that says whether the server may have processed the request, which is logged in any case.
  - Between sockets, an end of one direction ends that direction alone; a connection that breaks ends both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final

from ..framing import Framing
from ..profile import PRESETS, Profile
from .arguments import parse_address
from .output import Status, escape, missing_extra, print_error
from .tap import CHUNK_BYTES, SENDERS, Direction, Logs, Pending, Side, Watcher, sides, with_logs

# RFC 9110, section 7.6.1: headers for one hop, which a proxy does not pass on; and the two headers that the tap sets.
_OF_THE_CONNECTION: Final = (
    b"accept-encoding",
    b"connection",
    b"host",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
)


def run(options: argparse.Namespace) -> int:
    """Run the command `tap` with a URL, or with the address of a server. Return the exit status."""
    return with_logs(options, partial(_tap_sockets if options.http is None else _tap_http, options))


@contextlib.contextmanager
def _watching(logs: Logs, framing: Framing, profile: Profile) -> Iterator[tuple[Watcher, Callable[[], None]]]:
    """Write the log in a thread. Yield its watcher, and what ends the log, which happens at the end in any case."""
    watcher = Watcher(logs, framing, profile)
    watching = threading.Thread(target=watcher.run, daemon=True)
    watching.start()

    def end() -> None:
        watcher.finish("the tap ended")
        watching.join(2.0)

    try:
        yield watcher, end
    finally:
        end()


def _tap_http(options: argparse.Namespace, logs: Logs) -> int:
    """Pass requests on to the server of a URL until a signal. Only the scheme, host and port of the URL are used."""
    try:
        import httpx2  # noqa: F401
        import uvicorn  # noqa: F401

        from ..http.library import url_of
        from ..mcp.http import run_http

        host, port = parse_address(options.http)
        target = url_of(options.url)
        if target.scheme not in ("http", "https") or not target.host:
            raise ValueError(f"{escape(options.url)} is not a URL that begins with http:// or https://")
    except (ImportError, ValueError) as error:
        print_error(missing_extra(error, "mcp-http") if isinstance(error, ImportError) else str(error))
        return Status.WRONG
    profile = PRESETS[options.profile]
    with _watching(logs, "newline", profile) as (watcher, end):
        application = _Tap(target, watcher, profile, end)
        return run_http(application, host, port, uvicorn_options={"lifespan": "on", "timeout_graceful_shutdown": None})


def _tap_sockets(options: argparse.Namespace, logs: Logs) -> int:
    with _watching(logs, options.framing, PRESETS[options.profile]) as (watcher, _):
        try:
            return asyncio.run(_serve(options, watcher))
        except ValueError as error:  # an address
            print_error(str(error))
            return Status.WRONG
        except KeyboardInterrupt:
            return Status.INTERRUPTED


async def _serve(options: argparse.Namespace, watcher: Watcher) -> int:
    """Listen until a signal. Return the exit status."""
    connect = _opener(options.url)
    tap = partial(_pass_on, connect, watcher, options.framing, PRESETS[options.profile], count(1))
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # On Python 3.11 asyncio logs a connection whose task is cancelled, as at the end, as a failure.
        with contextlib.suppress(asyncio.CancelledError):
            await tap(reader, writer)

    try:
        if options.listen.startswith("unix:"):
            server = await asyncio.start_unix_server(serve, options.listen[5:], limit=CHUNK_BYTES)
        else:
            server = await asyncio.start_server(
                serve, *parse_address(options.listen.removeprefix("tcp://")), limit=CHUNK_BYTES
            )
    except OSError as error:
        print_error(f"cannot listen on {escape(options.listen)}: {error.strerror}")
        return Status.LOST
    ended = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with server:
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return 128 + signal.SIGTERM


def _opener(target: str) -> Any:
    """Return a function that connects to a server. Raises ValueError."""
    if target.startswith("unix:"):
        return partial(asyncio.open_unix_connection, target[5:], limit=CHUNK_BYTES)
    if target.startswith("tcp://"):
        return partial(asyncio.open_connection, *parse_address(target[6:]), limit=CHUNK_BYTES)
    raise ValueError(f"{escape(target)} is not tcp://HOST:PORT or unix:PATH")


async def _pass_on(
    connect: Any,
    watcher: Watcher,
    framing: Framing,
    profile: Profile,
    numbers: Any,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Connect a client to the server, and pass on everything until both directions have ended."""
    channel = sides(framing, profile, number=next(numbers))
    writers = [writer]
    try:
        try:
            async with asyncio.timeout(30.0):
                server_reader, server_writer = await connect()
        except OSError as error:  # also a TimeoutError
            why = error.strerror or type(error).__name__
            watcher.add(channel["<-"], b"", f"the server cannot be reached: {why}")
        else:  # not `return` above: PyPy's compiler aborts at one before `except*`
            writers.append(server_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, server_writer, watcher, channel["->"]))
                group.create_task(_pump(server_reader, writer, watcher, channel["<-"]))
    except* OSError as errors:
        reason = errors.exceptions[0]
        why = getattr(reason, "strerror", None) or type(reason).__name__
        watcher.add(channel["<-"], b"", f"the connection broke: {why}")
    finally:
        for each in writers:
            each.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watcher: Watcher, side: Side) -> None:
    """Pass one direction on until it ends."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            watcher.add(side, chunk)
            writer.write(chunk)
            await writer.drain()
    finally:
        watcher.add(side, b"")
    watcher.add(side, b"", partial(_ending, side))
    if writer.can_write_eof():
        writer.write_eof()


def _ending(side: Side) -> str:
    """Return what the log says at the end of a direction: nothing, if every request has its response."""
    return f"the {SENDERS[side.direction]} ended its stream with requests in flight" * bool(side.pending or side.called)


class _Tap:
    """The ASGI application. `end` is called at the end, before a signal ends the process."""

    def __init__(self, target: Any, watcher: Watcher, profile: Profile, end: Callable[[], None]) -> None:
        self._target = target
        self._watcher = watcher
        self._profile = profile
        self._end = end
        self._http: Any = None
        self._sessions: OrderedDict[bytes, tuple[Pending, Pending, int]] = OrderedDict()
        self._numbers = count(1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            import httpx2

            # A connection may carry a stream for hours: a limit would make later requests wait for it.
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
            timeout = httpx2.Timeout(None, connect=30.0)
            async with httpx2.AsyncClient(timeout=timeout, limits=limits) as self._http:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await asyncio.to_thread(self._end)
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._pass_on(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Let the requests in progress end."""

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, until its response has ended or the client has disconnected."""
        has_body = asyncio.Event()  # set when the whole body has been read

        async def body() -> AsyncIterator[bytes]:
            """Yield what has not been read of the body."""
            while not has_body.is_set():
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the client is gone")
                chunk = message.get("body", b"")
                if chunk:
                    self._watcher.add(channel["->"], chunk)
                if not message.get("more_body", False):
                    self._watcher.add(channel["->"], b"")
                    # Only one of the two may call `receive` at a time: `watch` begins when the body has been read.
                    has_body.set()
                if chunk:
                    yield chunk

        async def watch() -> None:
            await has_body.wait()
            while (await receive())["type"] != "http.disconnect":
                pass

        fields = [(name, value) for name, value in scope["headers"] if name not in _OF_THE_CONNECTION]
        channel = self._channel(dict(fields).get(b"mcp-session-id"))
        if scope["method"] == "DELETE":
            self._watcher.add(channel["->"], b"", "DELETE")
        if not any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
            has_body.set()
        content = None if has_body.is_set() else body
        exchange = asyncio.ensure_future(self._exchange(scope, fields, content, channel, send))
        watcher = asyncio.ensure_future(watch())
        try:
            # A client that disconnects must not leave a stream of the server open.
            await asyncio.wait([exchange, watcher], return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Both are awaited after their cancellation, so that no task outlives the request.
            for task in (exchange, watcher):
                task.cancel()
            await asyncio.wait([exchange, watcher])
        if not has_body.is_set():  # the server has responded to a part of the request, or the client has left
            self._watcher.add(channel["->"], b"", "the request was not read to its end")
        if not exchange.cancelled():
            exchange.result()

    def _channel(self, session: bytes | None) -> dict[Direction, Side]:
        requests: tuple[Pending, Pending, int] = (OrderedDict(), OrderedDict(), next(self._numbers))
        if session is not None:
            # A response may come on a different stream of the session than its request.
            requests = self._sessions.setdefault(session, requests)
            self._sessions.move_to_end(session)
            if len(self._sessions) > 1024:
                self._sessions.popitem(last=False)
        # A body is JSON in any spacing, so it is not one line.
        return sides("concatenated", self._profile, requests[:2], requests[2])

    async def _exchange(self, scope: Any, fields: Any, body: Any, channel: dict[Direction, Side], send: Any) -> None:
        import httpx2

        from ..http.library import ERRORS

        # The raw path, because decoding and encoding it again could change it.
        path = scope.get("raw_path") or scope["path"].encode()
        query = scope.get("query_string", b"")
        url = self._target.copy_with(raw_path=path + (b"?" + query if query else b""), fragment=None)
        fields = [(b"host", url.netloc), *fields, (b"accept-encoding", b"identity")]
        try:
            request = httpx2.Request(scope["method"], url, headers=fields, content=body and body())
            response = await self._http.send(request, stream=True, follow_redirects=False)
        except (*ERRORS, ConnectionError) as error:
            # The log and the recording have the request, although the server did not get it.
            if body is not None:
                with contextlib.suppress(ConnectionError):  # the client has left: the log says so
                    async for _ in body():
                        pass
            why = _failure(error)
            self._watcher.add(channel["<-"], b"", f"no response: {why}")
            await _refuse(send, f"{why}\n".encode())
            return
        try:
            if 200 <= response.status_code <= 599:
                await self._respond(response, channel, send)
            else:  # not the status of a final response (RFC 9110, section 15); uvicorn cannot send it
                self._watcher.add(channel["<-"], b"", f"status {response.status_code}")
                await _refuse(send, b"The status of the server is invalid.\n")
        finally:
            await response.aclose()

    async def _respond(self, response: Any, channel: dict[Direction, Side], send: Any) -> None:
        import httpx2

        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = kind in ("application/json", "application/json-rpc", "application/jsonrequest")
        is_stream = kind == "text/event-stream"
        side = channel["<-"]
        if is_stream:
            side = Side("<-", "sse", self._profile, side.pending, side.called, side.number)
        if response.status_code != 200:
            self._watcher.add(side, b"", f"status {response.status_code}")
        elif not (is_json or is_stream):
            # It may be the response to a request that counts as one without a response.
            self._watcher.add(
                side, b"", "status 200, and a body that is not logged: its Content-Type is not that of JSON"
            )
        fields = [(name.lower(), value) for name, value in response.headers.raw]
        fields = [(name, value) for name, value in fields if name not in _OF_THE_CONNECTION]
        await send({"type": "http.response.start", "status": response.status_code, "headers": fields})
        try:
            # Raw: the client gets the bytes as the server sent them, compressed ones included.
            async for chunk in response.aiter_raw():
                if is_json or is_stream:
                    self._watcher.add(side, chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if is_json or is_stream:
                self._watcher.add(side, b"")
            await send({"type": "http.response.body", "body": b""})
        except httpx2.HTTPError as error:  # uvicorn closes the connection of an unfinished response
            self._watcher.add(side, b"", f"the response broke off: {type(error).__name__}")


def _failure(error: Exception) -> str:
    """Say why there is no response, without what the server sent, which the text of an error may hold."""
    import httpx2

    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return f"the server cannot be reached: {escape(str(error) or type(error).__name__)}"
    if isinstance(error, ConnectionError):
        return "the client left within its request"
    if isinstance(error, httpx2.NetworkError):
        what = "the connection to the server broke"
    elif not isinstance(error, httpx2.RemoteProtocolError):
        what = f"the exchange with the server failed ({type(error).__name__})"
    elif "without sending a response" in str(error):  # also after a part of the head of a response
        what = "the server closed the connection, and sent no HTTP response"
    else:
        what = "what the server sent is not valid HTTP"
    return f"{what}; it may have processed the request"


async def _refuse(send: Any, data: bytes) -> None:
    """Send a response for a server that sent none."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(data))]
    await send({"type": "http.response.start", "status": 502, "headers": headers})
    await send({"type": "http.response.body", "body": data})
