"""`connect` and `blocking`: a client of a program, of a URL, of what a transport reaches, or of several servers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, Unpack

from ..errors import ConnectionLost, StateError
from ..profile import MCP_2025_11_25
from ..session import Blocking, BlockingCaller, SessionOptions, blocking_form
from ..support import check_texts, check_type
from ..transports import Transport
from ..types import UNSET, Unset
from .client.client import Client
from .client.entries import LocalServer, ServerEntry, entry_of, is_url, read_servers
from .client.handshake import ServerContext
from .client.session import NotificationHandler, ServerRequestHandler
from .protocol.capabilities import ClientCapabilities, Implementation
from .protocol.versions import REVISIONS

if TYPE_CHECKING:
    import httpx2

    from .http.client import HttpAuth

P = ParamSpec("P")


def connect(
    server: str | os.PathLike[str] | LocalServer | Transport | ServerEntry | Mapping[str, Any],
    *arguments: str | os.PathLike[str],
    mode: str = "auto",
    handlers: Mapping[str, ServerRequestHandler | NotificationHandler] | None = None,
    on_notification: Callable[[str, dict[str, Any]], object] | None = None,
    info: Implementation | None = None,
    capabilities: ClientCapabilities | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Literal["inherit", "discard"] | Callable[[str], None] = "inherit",
    max_restarts: int = 3,
    headers: Mapping[str, str] | None = None,
    auth: HttpAuth | str | None = None,
    http_client: httpx2.AsyncClient | None = None,
    **options: Unpack[SessionOptions],
) -> Client:
    """Return a client of a server, for use in `async with`.

        async with connect("python", "server.py") as client:
            tools = await client.list_tools()
            result = await client.call_tool("add", {"a": 1, "b": 2})

        async with connect("https://example.org/mcp", headers={"Authorization": "Bearer …"}) as client:
            tools = await client.list_tools()

    Entering the `async with` block may raise ProgramStartError, an OSError, if the system cannot start the program;
    HandshakeError if the handshake fails; ConnectionLost; and CallTimeout after the `timeout` of the options. It raises
    SignInError if a sign-in in the browser fails, which has its own limit: `timeout` begins after it. When an error is
    raised, the program has been ended. The text of the error, and its attribute `program`, show the command, the exit
    status, the last lines of stderr, and the first lines of stdout that are not messages.

    If a program ends on its own, the calls in flight fail with ConnectionLost. The next call starts it again. State of
    the old process is lost, such as subscriptions and the level of log messages (2025-11-25).

    Args:
        server: The program, searched for on PATH; a URL that begins with http:// or https://; a `Server`, which runs in
            this process; or a transport that is not started. Or the configuration of hosts: `{"mcpServers": {…}}`, or
            the path of such a file, which ends in ".json": one server, or several behind a `Gateway` (see
            `read_servers`); or an entry that `read_servers` has returned.
        arguments: The arguments of the program.
        mode: "auto": the latest revision that the server supports, found with a probe, and for several servers behind a
            gateway "legacy"; "legacy": the handshake with `initialize`, without a probe; "modern": no such handshake;
            or a single revision: "2025-06-18".
        handlers: Functions by method, sync or async, called with the params. A handler of a server's request
            ("roots/list", "sampling/createMessage", "elicitation/create") returns the result. An RpcError that it
            raises is sent as the response; in 2026-07-28, which allows no such response, the call that needed the input
            raises it. Handlers of notifications ("notifications/…") return nothing.
        on_notification: Called with the method and the params of notifications without a handler; sync or async. The
            progress of a call with an `on_progress` goes there instead.
        info: The client's name and version.
        capabilities: What the client supports, including extensions; by default derived from `handlers`.
        env: Variables for the program in addition to those that every program gets: PATH, HOME, LOGNAME, SHELL, TERM
            and USER; on Windows PATH, APPDATA, SYSTEMROOT, TEMP, USERPROFILE and a few more. `os.environ` passes all.
        cwd: The working directory of the program; None: the current one.
        stderr: Where the program's stderr goes: "inherit" (to `sys.stderr`, line by line), "discard", or a function
            that is called with each line, without the line ending.
        max_restarts: How many times a program that ended on its own is started again within 60 seconds; 0: never.
        headers: Further headers of every HTTP request.
        auth: Authorization over HTTP. "oauth": a person signs in, in the browser (`oauth.browser`); any other str is a
            bearer token. Or the result of a function of `jsonrpc_fast.mcp.client.oauth`, an `Auth` of httpx2,
            or user and password.
        http_client: The `AsyncClient` of httpx2 to use, with its own `auth`, proxies and certificates. It is
            not closed.
        options: Options of `Session`: `timeout` (seconds that entering the block may take, and each method unless it
            says otherwise, 300 by default; None: no timeout), `hooks`, `max_handlers`, … The convention is MCP's and
            the response policy "never", unless the options say otherwise.

    Raises:
        TypeError: There are arguments for a program but no program, or for HTTP but no URL; or one has the wrong type.
        ValueError: The mode is unknown, the URL has another scheme, an option is out of range, or the file is wrong.
        OSError: The file cannot be read.
        ImportError: The server is a URL, and the extra `http` is not installed.
    """
    check_type("mode", mode, str)
    check_texts("headers", headers)
    check_texts("env", env)
    found = _found(server)
    if isinstance(found, LocalServer):
        # With a handshake, all servers behind a gateway, modern or legacy, may ask and notify this client at any time.
        mode = "legacy" if mode == "auto" and not isinstance(server, LocalServer) else mode
        found = found.in_process()
    entry = found if isinstance(found, ServerEntry) else ServerEntry()
    if not entry.url and (headers is not None or auth is not None or http_client is not None):
        raise TypeError("headers, auth and http_client apply to a URL")
    if not entry.command and (arguments or env is not None or cwd is not None or stderr != "inherit"):
        raise TypeError("arguments, env, cwd and stderr apply to a program")
    # The revision is not known yet, and one revision has batches.
    profile = REVISIONS[mode].profile if mode in REVISIONS else MCP_2025_11_25.replace(name="mcp", batches=True)
    make = partial(
        Client,
        mode=mode,
        handlers=handlers,
        on_notification=on_notification,
        info=info,
        capabilities=capabilities,
        max_restarts=max_restarts,
        **options,
    )
    if not isinstance(found, ServerEntry):
        return make(found)
    if entry.url:
        if headers is not None:
            entry = replace(entry, headers={**(entry.headers or {}), **headers})
        if auth is not None:
            entry = entry.authorized(auth, "auth")
        return make(entry.transport(profile, http_client=http_client), sign_in=entry.sign_in)
    command, variables = (*entry.command, *arguments), {**entry.env, **(env or {})}
    entry = replace(entry, command=command, env=variables, cwd=entry.cwd if cwd is None else cwd)
    return make(partial(entry.program, profile, stderr=stderr))


def _found(server: object) -> ServerEntry | LocalServer | Transport:
    """Return the entry of a server, or the given server or transport; for several servers, a gateway."""
    if isinstance(server, (LocalServer, ServerEntry)):
        return server
    if isinstance(server, Mapping) or (
        isinstance(server, (str, os.PathLike)) and os.fspath(server).lower().endswith(".json") and not is_url(server)
    ):
        entries = read_servers(server)
        if len(entries) != 1:
            from .gateway import Gateway  # a client of one server does without

            return Gateway(entries)
        [(name, entry)] = entries.items()
        if entry.tools:
            # Without a word, a tool that is excluded could be called.
            raise ValueError(f"only a gateway applies the rules for the tools of {name!r}: connect to a Gateway of it")
        return entry
    if isinstance(server, (str, os.PathLike)):
        if isinstance(server, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", server) and not is_url(server):
            raise ValueError("server must be a program, or a URL that begins with http:// or https://: unknown scheme")
        return entry_of("", server)
    if not isinstance(server, Transport):
        raise TypeError(f"server must be a program, a URL, a Server or a transport, not {type(server).__name__}")
    return server


class BlockingClient(Blocking, BlockingCaller):
    """A client whose methods block: see `blocking`. Arguments, results and exceptions are those of `Client`.

    Attributes:
        client: The asynchronous client, which belongs to the thread of the event loop.
    """

    ping: Final = blocking_form(Client.ping)
    list_prompts: Final = blocking_form(Client.list_prompts)
    list_resources: Final = blocking_form(Client.list_resources)
    list_resource_templates: Final = blocking_form(Client.list_resource_templates)
    list_tools: Final = blocking_form(Client.list_tools)
    get_prompt: Final = blocking_form(Client.get_prompt)
    call_tool: Final = blocking_form(Client.call_tool)
    read_resource: Final = blocking_form(Client.read_resource)
    complete: Final = blocking_form(Client.complete)
    set_level: Final = blocking_form(Client.set_level)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.client: Client = client

    @property
    def server(self) -> ServerContext:
        """The server: its revision, capabilities, name and instructions; see `Client.server`."""
        return self.client.server

    @contextmanager
    def listen(self, *uris: str, timeout: float | Unset | None = UNSET) -> Iterator[None]:
        """Subscribe to resources, and to the changes of lists, inside `with`: see `Client.listen`.

            changes = queue.SimpleQueue()
            on_notification = lambda method, params: changes.put((method, params))
            with blocking("server.py", on_notification=on_notification) as client, client.listen("notes://today"):
                method, params = changes.get(timeout=60)

        `on_notification` is called in the thread of the event loop; a queue brings the changes to this one.
        """
        listening = self.client.listen(*uris, timeout=timeout)
        self.wait_for(listening.__aenter__)
        try:
            yield
        finally:
            # Closing the client has ended the subscription, too.
            with suppress(ConnectionLost, StateError):
                self.wait_for(lambda: listening.__aexit__(None, None, None))


def _with_arguments_of(
    function: Callable[P, Client],
) -> Callable[[Callable[..., BlockingClient]], Callable[P, BlockingClient]]:
    """Give a function the arguments of another one, for type checkers."""
    return lambda decorated: decorated


@_with_arguments_of(connect)
def blocking(*args: object, **kwargs: object) -> BlockingClient:
    """Return a client for a program without an event loop. `with` connects it and closes it.

        with blocking("python", "server.py") as client:
            print(client.call_tool("add", {"a": 1, "b": 2}))

    Several threads may use it. It runs in the thread of all blocking clients, in which handlers are called, too.

    The arguments and the exceptions are those of `connect`.
    """
    return BlockingClient(connect(*args, **kwargs))  # type: ignore[arg-type]
