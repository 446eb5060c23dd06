"""The commands `call`, `list`, `stubs` and `replay`, which send requests to a server of any kind.

Rules:
  - stdout carries only output of the server, as JSON: results, notifications with `--follow`, and errors with `--json`.
    Explanations go to stderr.
  - Output of a server cannot control the terminal: on a terminal, characters that are not printable are escaped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from .._version import __version__
from ..codec import Notification, decode
from ..codes import ErrorCode
from ..errors import ConnectionLost, HttpStatusError, InvalidResponse, RpcError
from ..framing import Framing
from ..profile import PRESETS
from ..types import UNSET
from .arguments import headers_of, params_of, parse_address
from .output import (
    Faults,
    OutputError,
    Status,
    escape,
    is_coloured,
    json_text,
    print_error,
    run_reporting,
    shorten,
    styled,
    write_output,
)
from .replay import handlers_of, plain, replay
from .stubs import ADDRESS, MAX_DOCUMENT_BYTES, document_of, write_stubs

if TYPE_CHECKING:
    from ..session import Caller

_HTTP: Final = ("http", "https")
_WEBSOCKET: Final = ("ws", "wss")
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_TOKEN: Final = re.compile(
    rf"(?P<bold>{_STRING}(?=: ))|(?P<green>{_STRING})|(?P<cyan>-?[0-9][0-9.eE+-]*)|(?P<magenta>true|false|null)"
)
"""Tokens of indented JSON, in one group for each style: names, strings, numbers and other values."""


def run(options: argparse.Namespace) -> int:
    """Run the command `call`, `list`, `stubs` or `replay`. Return the exit status."""
    extra = "mcp" if options.mcp else "http,websocket"
    return run_reporting(options, extra, lambda: asyncio.run(_run_until_signal(options)))


async def _run_until_signal(options: argparse.Namespace) -> int:
    """Run the command. A signal ends the server's program as well, before it ends the command."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    assert task is not None
    # Why the task was cancelled: a signal, or an output that failed. Without a reason, it was Ctrl-C.
    ends: list[int | OutputError] = []

    def end(reason: int | OutputError) -> None:
        ends.append(reason)
        task.cancel()

    def show(method: str, params: Any) -> None:
        try:
            _print_notification(method, params)
        except OutputError as error:  # a callback of the connection must not raise
            end(error)

    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            number = getattr(signal, name)
            # A signal that is ignored (nohup) stays ignored.
            if signal.getsignal(number) is signal.SIG_DFL:
                # Cancelling the task closes the connection and ends the program that serves.
                loop.add_signal_handler(number, end, number)
    try:
        return await _run(options, _Server(options, show if options.follow else None))
    except RpcError as error:
        if not options.json:
            raise
        data = "" if error.data is UNSET else f',"data":{json_text(error.data)}'
        _write(f'{{"error":{{"code":{error.code},"message":{json_text(error.message)}{data}}}}}')
        return Status.FAILED
    except asyncio.CancelledError:
        if not ends:
            raise
        if isinstance(ends[0], OutputError):
            raise ends[0] from None
        return 128 + ends[0]


async def _run(options: argparse.Namespace, server: _Server) -> int:
    if options.command == "stubs":
        document = await _openrpc_document(server)
        try:
            return write_stubs(document, options)
        except OSError as error:
            raise OutputError(error) from error
    if options.command == "replay":
        async with _connected(server, handlers_of(options)) as peer:
            return Status.SUCCESS if await replay(peer, options, _write_line) else Status.FAILED
    if options.command == "list":
        if options.html and options.mcp:
            raise ValueError("--html describes the methods of rpc.discover: leave out --mcp")
        async with _connected(server) as peer:
            if options.html:
                return _print_page(await _described(peer, options), options)
            return _print_list(await _offered(peer, options), options)
    method, *words = options.words[0 if options.program else 1 :]
    params, extra = params_of(words), _members_of(options)
    status: int = Status.SUCCESS
    async with _connected(server) as peer:
        if options.mcp:
            arguments = None if params is None else params.decode(json.loads)
            status = await _call_mcp(peer, method, arguments, options)
        elif options.notify:
            await peer.notify(method, params, extra=extra)
        elif options.lsp and method == "initialize" and params is None:
            _print_result(server.described, options)  # servers refuse a second one
        else:
            _print_result(await peer.call(method, params, extra=extra), options)
        if options.follow:
            # Only an MCP client contains a session. Its class is not imported here: the extra `mcp` may be missing.
            await (peer.session if options.mcp else peer).wait_closed()
    return status


def _members_of(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the further members of the message, as they were written. Raises ValueError."""
    members = params_of(options.extra)
    if members is None:
        return None
    if options.mcp:
        raise ValueError("--extra is for JSON-RPC: MCP has _meta in the params")
    extra = {name: value.decode() for name, value in members.items()}
    Notification("", extra=extra)
    return extra


class _Server:
    """The server of a command. Raises ValueError if a header is malformed, or has no URL."""

    def __init__(self, options: argparse.Namespace, on_notification: Callable[[str, Any], None] | None) -> None:
        self.options = options
        self.on_notification = on_notification
        self.described: Any = None  # the result of the handshake of LSP
        self.target: str = "" if options.program else options.words[0]  # its address
        found = ADDRESS.match(self.target)
        self.scheme: str = "" if found is None else found[0].partition(":")[0].lower()
        self.headers: dict[str, str] = headers_of(options.header, os.environ)
        if not self.scheme and not options.program:
            words = {"call": "call METHOD", "replay": "replay FILE"}.get(options.command, options.command)
            later = next(filter(ADDRESS.match, options.words), None)
            if later is not None:
                raise ValueError(f"the address stands first: jsonrpc-fast {options.command} {escape(later)} ...")
            raise ValueError(
                f"{escape(self.target)} is not an address: expected http://, https://, ws://, wss://, "
                "tcp://HOST:PORT, tls://HOST:PORT or unix:PATH; the command of a server stands after --, as in "
                f"jsonrpc-fast {words} -- COMMAND"
            )
        if self.headers and self.scheme not in (*_HTTP, *_WEBSOCKET):
            raise ValueError("--header needs a URL")
        if options.digest and (self.scheme not in _HTTP or options.mcp or "@" not in self.target):
            raise ValueError("--digest needs a URL such as http://user:password@host/ of a server without --mcp")

    def transport(self) -> Any:
        """Return the transport to a server that is a program or has a socket."""
        options, target = self.options, self.target
        profile = PRESETS["lsp" if options.lsp and options.profile == "jsonrpc" else options.profile]

        # Notifications are shown as they are read, so the order on stdout is that of the wire. `--follow` needs no
        # handlers.
        def read(data: Any) -> Any:
            message = decode(data, profile, raw=True)
            if self.on_notification is not None:
                for item in message if isinstance(message, list) else [message]:
                    if isinstance(item, Notification):
                        self.on_notification(item.method, item.params)
            return message

        framing: Framing = options.framing or ("content-length" if options.lsp else "newline")
        common: dict[str, Any] = {"profile": profile, "raw": True, "decode": read}
        seconds = min(options.timeout, 30.0)
        if options.program:
            from ..transports import StdioClient

            return StdioClient(options.program, framing=framing, **common)
        if self.scheme in ("tcp", "tls"):
            from ..transports import TcpClient

            context = None
            if self.scheme == "tls":
                import ssl  # a Python may be built without

                context = ssl.create_default_context()
            host, port = parse_address(target[6:])
            return TcpClient(host, port, ssl=context, framing=framing, connect_seconds=seconds, **common)
        if self.scheme == "unix":
            from ..transports import UnixClient

            return UnixClient(target[5:], framing=framing, **common)
        from websockets.exceptions import InvalidURI

        from ..transports.websocket import WebSocketClient

        try:
            return WebSocketClient(target, headers=self.headers, connect_seconds=seconds, **common)
        except InvalidURI as error:
            raise ValueError(str(error)) from None


async def _call_mcp(peer: Any, method: str, params: Any, options: argparse.Namespace) -> int:
    """Call a method of MCP, or a tool, and return the exit status."""
    if options.notify:
        await peer.notify(method, params)
        return Status.SUCCESS
    # Names of tools and methods of MCP share one argument. A tool with the name of a method is called by `tools/call`.
    if method not in _mcp_requests():
        method, params = "tools/call", {"name": method, "arguments": params or {}}
    is_shown = sys.stderr is not None and sys.stderr.isatty()
    try:
        result = await peer.call(method, params, on_progress=_show_progress if is_shown else None)
    except InvalidResponse:
        raise
    except ValueError as error:  # the result breaks the protocol
        raise InvalidResponse(str(error)) from None
    finally:
        if is_shown:
            _write_progress("")
    _print_result(result, options)
    return Status.FAILED if result.get("isError") is True else Status.SUCCESS


def _show_progress(value: Any) -> None:
    """Show the progress of a tool in one line of the terminal: "2 of 5: message"."""
    if not isinstance(value, dict):
        return
    count, total, message = value.get("progress"), value.get("total"), value.get("message")
    shown = f"{count}" if total is None else f"{count} of {total}"
    _write_progress(shorten(shown if message is None else f"{shown}: {message}"))


def _write_progress(text: str) -> None:
    """Replace the line of progress."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"\r{text}\033[K")
        sys.stderr.flush()


def _mcp_requests() -> frozenset[str]:
    from ..mcp.protocol.versions import REVISIONS

    return frozenset[str]().union(*(revision.client_requests for revision in REVISIONS.values()))


@contextlib.asynccontextmanager
async def _connected(server: _Server, handlers: Mapping[str, Callable[[Any], Any]] | None = None) -> AsyncIterator[Any]:
    """Connect to a server and yield the `Caller` that calls it. `handlers` serve its requests."""
    options, headers, is_http = server.options, server.headers, server.scheme in _HTTP
    on_notification, timeout = server.on_notification, options.timeout
    if options.mcp:
        from ..mcp import connect

        if not is_http and not options.program:
            raise ValueError("--mcp needs a URL that begins with http:// or https://, or a command after --")
        words, given = options.program or [server.target], headers if is_http else None
        faults = Faults(options.command, 0)  # the client's own errors show what a program has printed
        rules: Any = {"headers": given, "timeout": timeout, "on_notification": on_notification, "hooks": faults}
        async with faults, connect(*words, **rules) as client:
            yield client
    elif is_http:
        from ..http.client import AsyncHttpClient

        if options.lsp or on_notification is not None:
            raise ValueError("--lsp and --follow need a connection that stays open")
        rules = {"profile": PRESETS[options.profile], "raw": True}
        if options.digest:
            import httpx2

            url = httpx2.URL(server.target)
            rules["auth"] = httpx2.DigestAuth(url.username, url.password)
        async with AsyncHttpClient(server.target, headers=headers, timeout=timeout, **rules) as http:
            yield http
    else:
        from ..session import LspConvention, Session

        transport = server.transport()
        convention = LspConvention() if options.lsp else None
        faults = Faults(options.command)
        session = Session(transport, convention=convention, timeout=timeout, hooks=faults)
        for method, function in (handlers or {}).items():
            session.register(method, function, unpack=False)
        # Around the session, so that the exceptions of `connect` are translated, too.
        async with faults, _session_errors(server.scheme), session:
            # The timeout is 5 minutes by default, and a peer that waits for the end of a message says nothing.
            asyncio.get_running_loop().call_later(min(5.0, timeout / 2), _report_silence, server, transport)
            try:
                if options.lsp:
                    server.described = await _initialize(session)
                yield session
            except asyncio.CancelledError:  # a signal: a person is waiting for the prompt
                # How long a program may take to end after its stdin is closed, if a signal has ended the command.
                asyncio.get_running_loop().call_later(0.2, transport.abort)
                raise
            # LSP 3.17, "Shutdown Request": the server ends after both, with exit code 0.
            if options.lsp:
                await session.call("shutdown")
                await session.notify("exit")


_LSP_CURES: Final = {
    "call": "a language server needs --lsp",
    "replay": "a language server needs --framing content-length",
    **dict.fromkeys(("list", "stubs"), "a language server describes itself in the result of `call --lsp initialize`"),
}
"""What a command can do about a language server. Only `call` has --lsp."""


def _report_silence(server: _Server, transport: Any) -> None:
    """Say what may be wrong if nothing has arrived from the server."""
    options = server.options
    if transport.received_chunks != 0:
        return
    guesses = ["it may still be busy"] if server.scheme else []
    if server.scheme not in _WEBSOCKET:
        guesses.append(
            "another --framing may be right"
            if options.framing or options.lsp
            else f"{_LSP_CURES[options.command]}, and other servers may need another --framing"
        )
    print_error(f"nothing has arrived from the server yet: {'; '.join(guesses)}", f"jsonrpc-fast {options.command}")


@contextlib.asynccontextmanager
async def _session_errors(scheme: str) -> AsyncIterator[None]:
    """Translate the exceptions of the WebSocket library."""
    if scheme not in _WEBSOCKET:
        yield
        return
    from websockets.exceptions import WebSocketException

    try:
        yield
    except WebSocketException as error:
        raise ConnectionLost(str(error), was_sent=False) from None


async def _initialize(peer: Caller) -> Any:
    """Perform the LSP handshake, and return how the server describes itself."""
    about = {"name": "jsonrpc-fast", "version": __version__}
    params = {"processId": os.getpid(), "clientInfo": about, "rootUri": None, "capabilities": {}}
    described = await peer.call("initialize", params)
    await peer.notify("initialized", {})
    return described


async def _openrpc_document(server: _Server) -> Any:
    """Return the OpenRPC document of a server, or the one at a URL that names a file."""
    if re.match(r"(?i)https?://[^?#]*\.json(?:[?#]|$)", server.target):
        return document_of(await _fetched(server.target, server.headers, server.options.timeout))
    async with _connected(server) as peer:
        return await _described(peer, server.options)


async def _fetched(url: str, headers: Mapping[str, str], seconds: float) -> bytes:
    """Return the file at a URL. Stop reading once it is larger than a document may be."""
    import httpx2

    try:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=seconds, follow_redirects=True) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise HttpStatusError(response.status_code, response.headers, b"")
            found = bytearray()
            async for chunk in response.aiter_bytes():
                found += chunk
                if len(found) > MAX_DOCUMENT_BYTES:
                    break  # `document_of` has the same bound, and refuses it
            return bytes(found)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionLost(str(error) or type(error).__name__, was_sent=False) from None


async def _described(peer: Any, options: argparse.Namespace) -> Any:
    """Return a server's description of its methods: the result of `rpc.discover`."""
    try:
        return plain(await peer.call("rpc.discover"))
    except RpcError as error:
        if error.code != ErrorCode.METHOD_NOT_FOUND:
            raise
        cure = "; an MCP server needs --mcp" if options.command == "list" else ""
        raise ValueError(f"the server does not describe its methods: it has no rpc.discover (OpenRPC){cure}") from None


async def _offered(peer: Any, options: argparse.Namespace) -> dict[str, list[Any]]:
    """Return the methods, tools, prompts and resources of a server, by kind."""
    if not options.mcp:
        described = await _described(peer, options)
        methods = described.get("methods") if isinstance(described, dict) else None
        if not isinstance(methods, list):
            raise InvalidResponse("the result of rpc.discover is not an OpenRPC document")
        return {"methods": methods}
    return await offered_by(peer)


async def offered_by(client: Any) -> dict[str, list[Any]]:
    """Return the tools, prompts and resources that an MCP server says it has, by kind."""
    lists = {
        "tools": [("tools", client.list_tools)],
        "prompts": [("prompts", client.list_prompts)],
        "resources": [("resources", client.list_resources), ("resourceTemplates", client.list_resource_templates)],
    }
    offered = {}
    for capability, kinds in lists.items():
        for kind, list_items in kinds if client.server.capabilities.supports(capability) else ():
            try:
                offered[kind] = await list_items()
            except RpcError as error:
                # A server with a capability may lack one of its lists, for example that of resource templates.
                if error.code != ErrorCode.METHOD_NOT_FOUND:
                    raise
            except ValueError as error:  # the result breaks the protocol
                raise InvalidResponse(str(error)) from None
    return offered


def _print_page(document: Any, options: argparse.Namespace) -> int:
    from ..http.page import methods_page

    if not isinstance(document, dict):
        raise InvalidResponse("the result of rpc.discover is not an OpenRPC document")
    words = options.program or options.words
    command = " ".join([shlex.quote(word) for word in words])
    before, after = (
        ("jsonrpc-fast call ", f" -- {command}") if options.program else (f"jsonrpc-fast call {command} ", "")
    )
    _write_line(methods_page(document, before, after))
    return Status.SUCCESS


def _print_list(offered: dict[str, list[Any]], options: argparse.Namespace) -> int:
    if options.json:
        _write(json_text(offered))
        return Status.SUCCESS
    coloured = is_coloured(sys.stdout)
    for kind, items in offered.items():
        for item in items:
            members = item if isinstance(item, dict) else {}
            about = members.get("uri") or members.get("uriTemplate") or ""
            first = str(members.get("summary") or members.get("description") or "").strip().partition("\n")[0]
            name = escape(str(members.get("name")))
            shown = styled(name, "bold", coloured) + _signature(members)
            _write_line(
                "  ".join(filter(None, [f"{kind.removesuffix('s')} {shown}", escape(str(about)), escape(first)]))
            )
    return Status.SUCCESS


def _write_line(line: str) -> None:
    """Write a line whose control characters are already escaped."""
    try:
        print(line, flush=True)
    except OSError as error:
        raise OutputError(error) from error


def _signature(members: Mapping[str, Any]) -> str:
    """Return the params of a method, a tool or a prompt: "(a: integer, b?: string)"; "" for a resource."""
    if "uri" in members or "uriTemplate" in members:
        return ""
    schema = members.get("inputSchema")
    listed = members.get("params", members.get("arguments"))
    params: list[tuple[object, object, object]] = []  # name, schema, whether it is required
    if isinstance(schema, dict):
        properties, required = schema.get("properties"), schema.get("required")
        for name, kind in (properties if isinstance(properties, dict) else {}).items():
            params.append((name, kind, isinstance(required, list) and name in required))
    elif isinstance(listed, list):
        params = [
            (param.get("name"), param.get("schema"), param.get("required"))
            for param in listed
            if isinstance(param, dict)
        ]
    shown = []
    for name, kind, required in params:
        type = kind.get("type") if isinstance(kind, dict) else None
        shown.append(f"{name}{'' if required is True else '?'}{f': {type}' if isinstance(type, str) else ''}")
    return escape(f"({', '.join(shown)})")


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _print_notification(method: str, params: Any) -> None:
    members = f'"method":{json.dumps(method, ensure_ascii=False)}'
    _write(f"{{{members}}}" if params is None else f'{{{members},"params":{json_text(params)}}}')


def _print_result(result: Any, options: argparse.Namespace) -> None:
    """Print a result: indented on a terminal; elsewhere on one line as it arrived."""
    if options.json:
        _write(f'{{"result":{json_text(result)}}}')
        return
    if not _is_terminal():
        _write(json_text(result))
        return
    text = json.dumps(plain(result), ensure_ascii=False, indent=2)
    if is_coloured(sys.stdout):
        _write(text, lambda shown: _TOKEN.sub(lambda match: styled(match[0], str(match.lastgroup), True), shown))
    else:
        _write(text)


def _write(text: str, decorate: Callable[[str], str] = str) -> None:
    """Write lines to stdout, as UTF-8 whatever the locale. On a terminal, escape control characters and decorate."""
    try:
        if _is_terminal():
            # In JSON, control characters occur only in strings, where the escape has the same meaning.
            text = decorate("".join([c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text]))
        # Bytes, because the encoding of stdout depends on the locale, and JSON is UTF-8 (RFC 8259, section 8.1).
        write_output(f"{text}\n".encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise OutputError(error) from error
