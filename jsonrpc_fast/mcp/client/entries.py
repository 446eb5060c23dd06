"""The place of a server: a program or a URL, as an argument or as an entry of the `mcpServers` file of hosts.

    {"mcpServers": {"fs": {"command": "npx", "args": ["-y", "server-filesystem", "${HOME}"]},
                    "db": {"type": "http", "url": "https://db.example/mcp", "auth": "${TOKEN}"},
                    "hr": {"url": "https://hr.example/mcp", "auth": "oauth", "headers": {"X-Tenant": "7"}}}}

No error shows a value. A `${…}` that is neither replaced nor has a default is an error: such values come from the
host's user, or name folders that only the host knows.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from ...profile import Profile
from ...support import logger_of, nearest_of, read_settings
from ...transports import Transport
from ..http.headers import BEARER_TOKEN
from ..protocol.records import Record, members_of
from .program import ProgramTransport, Stderr

_logger: Final = logger_of("mcp")


class ToolChange(Record, frozen=True, kw_only=True, eq=False):
    """How one tool is shown.

    Attributes:
        name: Its other name; "": that of the server.
        description: Its other description; "": that of the server.
    """

    name: str = ""
    description: str = ""
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class ToolRules:
    """What a gateway shows of the tools of one server: `includeTools`, `excludeTools` and `tools` of its entry.

        "includeTools": ["query*", "tables"], "excludeTools": ["query_admin"],
        "tools": {"query": {"name": "ask", "description": "Ask the shop's database.", "fixed": {"database": "shop"}}}

    A call that has a fixed argument is refused, because nothing that a client sends is replaced without a word.

    Args:
        included: Patterns of the names of the tools that are shown.
        excluded: Patterns of the names of those that are not.
        changes: How tools are changed, by name: an object with `name`, `description` and `fixed`.

    Raises:
        ValueError: A change is malformed, or two tools would have one name.
    """

    included: tuple[str, ...] = ("*",)
    excluded: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read = {
            name: ToolChange.from_dict(dict(change), path=f"/tools/{name}") for name, change in self.changes.items()
        }
        inner: dict[str, str] = {}
        for name, change in read.items():
            if change.extra:
                raise ValueError(f"/tools/{name} may have name, description and fixed, not {next(iter(change.extra))}")
            if change.name:
                # Specification 2025-11-25, "Tool Names".
                if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", change.name):
                    raise ValueError(f"/tools/{name}/name must consist of letters, digits, _, - and .")
                if inner.setdefault(change.name, name) != name:
                    raise ValueError(f"/tools/{name}/name is also that of another tool")
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_inner", inner)

    _read: Mapping[str, ToolChange] = field(init=False, repr=False, compare=False)
    _inner: Mapping[str, str] = field(init=False, repr=False, compare=False)  # by other names

    def __bool__(self) -> bool:
        return self != ToolRules()

    def inner(self, shown: str) -> str | None:
        """Return the server's name of a tool that is shown by a name; None if no tool can be."""
        name = self._inner.get(shown, shown)
        is_included = any(fnmatchcase(name, pattern) for pattern in self.included)
        is_excluded = any(fnmatchcase(name, pattern) for pattern in self.excluded)
        return name if is_included and not is_excluded and self._shown(name) == shown else None

    def _shown(self, name: str) -> str:
        change = self._read.get(name)
        return name if change is None or not change.name else change.name

    def fixed(self, name: str) -> Mapping[str, Any]:
        """Return the fixed arguments of a tool, by the server's name of it."""
        change = self._read.get(name)
        return {} if change is None else change.fixed

    def item(self, tool: dict[str, Any]) -> dict[str, Any] | None:
        """Return an item of the server's list as it is shown; None if it is not."""
        shown = self._shown(tool["name"])
        if self.inner(shown) != tool["name"]:
            return None
        change = self._read.get(tool["name"])
        if change is None:
            return tool
        changed = {**tool, "name": shown}
        if change.description:
            changed["description"] = change.description
        schema = tool.get("inputSchema")
        if change.fixed and isinstance(schema, dict):
            changed["inputSchema"] = _without(schema, change.fixed)
        return changed

    def unfit(self, tools: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the names and arguments in the rules that the tools of a server do not have."""
        schemas = {tool["name"]: tool.get("inputSchema") for tool in tools}
        # "*" fits a server without tools.
        patterns = [pattern for pattern in (*self.included, *self.excluded) if pattern != "*"]
        found = [each for each in patterns if not any(fnmatchcase(name, each) for name in schemas)]
        found += [name for name in self._read if name not in schemas]
        for name, change in self._read.items():
            schema = schemas.get(name)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            if isinstance(properties, dict):
                found += [f"{name}.{argument}" for argument in change.fixed if argument not in properties]
        return found


def _without(schema: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object without some of its members."""
    found = dict(schema)
    if isinstance(properties := schema.get("properties"), dict):
        found["properties"] = {name: each for name, each in properties.items() if name not in names}
    if isinstance(required := schema.get("required"), list):
        found["required"] = [name for name in required if name not in names]
    return found


SAFE_VARIABLES: Final = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""The variables that a server inherits: the same as with the official SDKs, none of which contains a secret."""

MAX_FILE_BYTES: Final = 1024 * 1024
"""The maximum size of a file with servers."""

_TOOL_MEMBERS: Final = ("includeTools", "excludeTools", "tools")


@runtime_checkable
class LocalServer(Protocol):
    """A server of this process, such as `jsonrpc_fast.mcp.server.Server`."""

    def in_process(self) -> Transport:
        """Return the client's end of a new channel to the server, which serves the other end."""
        ...

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes that a call of a tool needs over HTTP. A caller that passes calls on has to check them."""
        ...


@runtime_checkable
class SignsIn(Protocol):
    """An `auth` with which a person may have to sign in before the client connects."""

    async def sign_in(self, server: str) -> None:
        """Let the person sign in at a server, if that is necessary."""
        ...


Servers = Mapping[
    str, "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | LocalServer | ServerEntry | Mapping[str, Any]"
]
"""Servers by name: a URL, a program, a program with its arguments, a `Server`, or an entry of `mcpServers`; or one of
these as the member `server` of an entry with rules for its tools."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How to start or to reach a server.

    Attributes:
        command: The program and its arguments; () for a URL.
        url: The URL; "" for a program.
        env: Variables for the program in addition to SAFE_VARIABLES.
        cwd: The working directory of the program; None: the current one.
        headers: Further headers of every HTTP request.
        auth: The `Auth` of every HTTP request; None: none.
        local: A server of this process, in place of a program and a URL.
        tools: What a gateway shows of its tools.
    """

    command: tuple[str | os.PathLike[str], ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | os.PathLike[str] | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    auth: Any = field(default=None, repr=False)
    local: LocalServer | None = None
    tools: ToolRules = field(default_factory=ToolRules)

    def authorized(self, auth: Any, what: str) -> ServerEntry:
        """Return the same server with an `auth`, as `connect` takes it.

        Raises:
            ValueError: A text is neither "oauth" nor a token. The error names `what`.
            ImportError: The extra `mcp-client-oauth` is not installed.
        """
        if not isinstance(auth, str):
            return replace(self, auth=auth)
        if auth == "oauth":
            from .oauth import browser  # needs another extra

            return replace(self, auth=browser())
        if not BEARER_TOKEN.fullmatch(auth):
            raise ValueError(f'{what} must be "oauth", a bearer token, or an Auth')
        return replace(self, headers={**(self.headers or {}), "Authorization": f"Bearer {auth}"})

    async def sign_in(self) -> None:
        """Let a person sign in, if the `auth` needs it."""
        if isinstance(self.auth, SignsIn):
            await self.auth.sign_in(self.url)

    def program(self, profile: Profile, *, stderr: Stderr = "inherit", raw: bool = False) -> ProgramTransport:
        """Return a new transport to the program, not started. The arguments are those of `transport`."""
        env = {**_safe_environment(), **self.env}
        return ProgramTransport(self.command, env=env, cwd=self.cwd, stderr=stderr, profile=profile, raw=raw)

    def transport(self, profile: Profile, *, raw: bool = False, **http: Any) -> Transport:
        """Return a new transport to the server, not started. The stderr of a program goes to `sys.stderr`.

        Args:
            profile: The rules for decoding.
            raw: Whether payloads stay `Raw`.
            http: Further options of `StreamableHttpClient`, for a URL.

        Raises:
            TypeError, ValueError: The command, the URL or an option is wrong.
            ImportError: The server has a URL, and the extra `http` is not installed.
        """
        if self.local is not None:
            return self.local.in_process()
        if not self.url:
            return self.program(profile, raw=raw)
        from ..http.client import StreamableHttpClient  # needs another extra

        return StreamableHttpClient(self.url, headers=self.headers, auth=self.auth, profile=profile, raw=raw, **http)


def is_url(text: object) -> bool:
    """Return whether a string is the URL of a server."""
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))


def read_servers(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, ServerEntry]:
    """Return the servers of a file, or of its content, by their names, with the variables replaced.

    Args:
        source: The path of a file, or its decoded content.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON, it has a member twice, an entry is malformed, or a variable is missing.
    """
    if not isinstance(source, Mapping):
        with Path(source).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise ValueError(f"the file of servers has more than {MAX_FILE_BYTES} bytes")
        try:
            source = read_settings(text)
        except ValueError as error:
            raise ValueError(f"the file of servers cannot be read: {error}") from None
    servers = source.get("mcpServers", source.get("servers")) if isinstance(source, Mapping) else None
    if not isinstance(servers, Mapping):
        raise ValueError('the servers must be an object with the member "mcpServers"')
    found: dict[str, ServerEntry] = {}
    for name, entry in servers.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"the server {name!r} must be an object")
        if not isinstance(entry.get("disabled", False), bool):
            raise ValueError(f"the server {name!r} must have true or false as its member disabled")
        if not entry.get("disabled"):
            # Only in used members, so that a variable for another host need not exist.
            used = {member: _expanded(name, entry[member]) for member in members_of(_Entry, None) if member in entry}
            _warn_of_misspelled(name, entry)
            found[name] = entry_of(name, used)
    return found


def entry_of(name: str, server: Any) -> ServerEntry:
    """Return the entry of a server given as an argument: see `Servers`.

    Raises TypeError or ValueError: it is malformed.
    """
    if isinstance(server, ServerEntry):
        return server
    if isinstance(server, LocalServer):
        return ServerEntry(local=server)
    if isinstance(server, (str, os.PathLike)):
        return ServerEntry(url=str(server)) if is_url(server) else ServerEntry(command=(server,))
    if isinstance(server, Sequence) and server and all(isinstance(part, (str, os.PathLike)) for part in server):
        return ServerEntry(command=tuple(server))
    if not isinstance(server, Mapping):
        raise TypeError(f"the server {name!r} must be a URL, a command, a Server or an object")
    return _read(name, server)


class _Entry(Record, frozen=True, kw_only=True, eq=False):
    """The members of an entry of `mcpServers`."""

    type: str = ""
    command: str = ""
    args: list[str] = msgspec.field(default_factory=list)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    auth: Any = None
    include_tools: list[str] = msgspec.field(default_factory=lambda: ["*"])
    exclude_tools: list[str] = msgspec.field(default_factory=list)
    tools: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


def _read(name: str, members: Mapping[str, Any]) -> ServerEntry:
    try:
        entry = _Entry.from_dict(dict(members))
        rules = ToolRules(tuple(entry.include_tools), tuple(entry.exclude_tools), entry.tools)
    except ValueError as error:
        raise ValueError(f"the server {name!r}: {error}") from None
    if "server" in members:
        if set(members) - {"server", *_TOOL_MEMBERS} or isinstance(members["server"], Mapping):
            raise ValueError(f"the server {name!r} may have beside its server only {', '.join(_TOOL_MEMBERS)}")
        return replace(entry_of(name, members["server"]), tools=rules)
    _warn_of_misspelled(name, members)
    if entry.type == "sse":
        fault = "has the type sse, HTTP+SSE of 2024-11-05, which is not supported"
    elif entry.type not in ("", "stdio", "http", "streamable-http", "streamableHttp"):
        fault = "has a type that is not known"
    elif bool(entry.command) == bool(entry.url) or (entry.type and (entry.type == "stdio") != bool(entry.command)):
        fault = "must have either a command, or a url"
    elif entry.url and not is_url(entry.url):
        fault = "has a url that does not begin with http:// or https://"
    elif entry.auth is not None and not entry.url:
        fault = "has an auth, but no url"
    elif isinstance(entry.auth, (bool, int, float, list, Mapping)):
        fault = "has an auth that is not a string"
    else:
        found = ServerEntry(
            command=(entry.command, *entry.args) if entry.command else (),
            url=entry.url,
            env=entry.env,
            cwd=entry.cwd or None,
            headers=entry.headers or None,
            tools=rules,
        )
        return found if entry.auth is None else found.authorized(entry.auth, f"the auth of the server {name!r}")
    raise ValueError(f"the server {name!r} {fault}")


def _warn_of_misspelled(server: str, entry: Iterable[str]) -> None:
    """Warn of members that are nearly known ones. Others are not mentioned: hosts have members of their own."""
    known = {*members_of(_Entry, None), "disabled"}
    for name in entry:
        # With 0.6, `envFile` of VS Code would be like `env`.
        if name not in known and (nearest := nearest_of(name, sorted(known), 0.75)) is not None:
            _logger.warning("the server %r: %r is unknown; did you mean %r?", server, name, nearest)


def _expanded(name: str, value: Any) -> Any:
    """Return a value with the variables in its strings replaced."""
    if isinstance(value, str):
        return re.sub(r"\$\{([^}]*)\}", lambda found: _variable(name, found[1]), value)
    if isinstance(value, list):
        return [_expanded(name, item) for item in value]
    if isinstance(value, Mapping):
        return {key: _expanded(name, item) for key, item in value.items()}
    return value


def _variable(server: str, text: str) -> str:
    found = re.fullmatch(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", text, re.DOTALL)
    if found is None:
        raise ValueError(f"the server {server!r} has a ${{…}} that is not an environment variable")
    value = os.environ.get(found[1], found[2])
    if value is None:
        raise ValueError(f"the server {server!r} needs the variable {found[1]}, which the environment does not have")
    return value


def _safe_environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in SAFE_VARIABLES if name in os.environ}
    return {
        name: value for name, value in found.items() if not value.startswith("()")
    }  # a function exported by an old bash
