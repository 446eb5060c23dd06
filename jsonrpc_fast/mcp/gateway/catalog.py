"""The features of the servers of one client: the owner of each name and URI, and the lists.

If all servers fail, a list is an error, because an empty one would look like success.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from ...codec import Raw, dumps
from ...codes import ErrorCode
from ...errors import EncodeError, RpcError
from ...session import detached, waits_for_peer
from ...support import logger_of
from ..client.entries import ServerEntry
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.meta import HEADER_KEY, INPUT_REQUESTS, LIST_CHANGES, LIST_METHODS, UPDATED, Prefixes, method_not_found
from ..protocol.uris import UriTemplate, not_found
from ..protocol.versions import Revision
from .payloads import GATEWAY_ERROR, member, object_of, replaced, text_member, with_members
from .upstream import Places, Upstream

RETURN_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""How long to wait before a server that was left out is asked again. One with a URL is asked every minute from then on;
a program that cannot be started is left to the next request."""
CHANGES: Final = {change.method: kind for kind, change in LIST_CHANGES.items()}
"""The notifications that a list has changed, and its kind."""

_NAMED: Final = ("prompts/get", "tools/call")

_logger: Final = logger_of("gateway")


class CatalogClient(Protocol):
    """The client to which the servers of a `Catalog` belong."""

    async def forward(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        """Send a request of the client to a server, and return the result."""

    async def ask(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        """Pass a request of a server on to the client, which has declared the capability for it."""

    def tell(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> None:
        """Pass a notification of a server on to the client."""

    def changed(self, method: str, subject: str) -> None:
        """Tell the client soon that a list, or a resource that it subscribed to, has changed."""


_Listing = asyncio.Task[list[dict[str, Any]] | RpcError]
"""Requests a list of one server; the error for the client if it fails."""


@dataclass(eq=False, repr=False)
class Catalog:
    """The servers of one client."""

    _entries: Mapping[str, ServerEntry]
    _prefixes: Prefixes
    _places: Places
    _is_modern: bool
    _info: Implementation
    _capabilities: ClientCapabilities
    _client: CatalogClient
    upstreams: dict[str, Upstream] = field(init=False)
    _listings: dict[tuple[str, str], _Listing] = field(default_factory=dict)  # in progress
    _late: set[_Listing] = field(default_factory=set)
    _returns: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _is_closed: bool = False
    _knows_resources: bool = False
    _owners: dict[str, Upstream] = field(default_factory=dict)  # of URIs
    _templates: list[tuple[UriTemplate, Upstream]] = field(default_factory=list)

    def __post_init__(self) -> None:
        given = self._capabilities
        # Tasks and extensions of the client do not reach the servers.
        self._capabilities = ClientCapabilities(
            roots=given.roots, sampling=given.sampling, elicitation=given.elicitation
        )
        self.upstreams = {name: self.make(name) for name in self._entries}
        # By the name of a server: the lists that lack it, and those that the client has with it.
        self._left_out: dict[str, set[str]] = {name: set() for name in self._entries}
        self._shown: dict[str, set[str]] = {name: set() for name in self._entries}

    def make(self, name: str) -> Upstream:
        """Return a server, not started."""
        return Upstream(
            name,
            self._entries[name],
            self._places,
            self._info,
            self._capabilities,
            self._is_modern,
            self._ask,
            self._tell,
            self._on_loss,
        )

    async def close(self) -> None:
        """End the servers."""
        self._is_closed = True
        for task in [*self._listings.values(), *self._late, *self._returns.values()]:
            task.cancel()
        await asyncio.gather(*[upstream.close() for upstream in self.upstreams.values()])

    # Names.

    def find(self, method: str, params: Raw) -> tuple[Upstream, Raw]:
        """Return the server of a request with a name, and the params as the server knows them.

        Raises RpcError: the name is unknown, or is not a string (-32602).
        """
        # A completion names a prompt inside `ref`.
        path = ("name",) if method in _NAMED else ("ref", "name")
        server, name = self._prefixes.split(text_member(params, *path)) or ("", None)
        rules = self._entries[server].tools if name is not None and method == "tools/call" else None
        if rules is not None and name is not None:
            name = rules.inner(name)
        if name is None:
            # "tools/call" becomes "Unknown tool", the text that servers use.
            raise RpcError.invalid_params(
                f"Unknown {method.partition('/')[0][:-1]}" if method in _NAMED else "ref is unknown"
            )
        params = replaced(params, path, name)
        if rules is not None and (fixed := rules.fixed(name)):
            params = _with_arguments(params, fixed)
        return self.upstreams[server], params

    async def call(self, method: str, params: Raw, origin: Any, revision: Revision) -> Any:
        """Send a request to the server whose name or URI it has, and return the result.

        Raises RpcError: the server's error; or no server has what the request names.
        """
        if method == "completion/complete" and member(params, ("ref", "type")) == "ref/resource":
            return await self._ask_owners(method, params, text_member(params, "ref", "uri"), origin, revision)
        if method.startswith("resources/"):
            return await self._ask_owners(method, params, text_member(params, "uri"), origin, revision)
        upstream, params = self.find(method, params)
        return await self._client.forward(upstream, method, params, origin)

    # Resources.

    async def _ask_owners(self, method: str, params: Raw, uri: str, origin: Any, revision: Revision) -> Any:
        """Return the result of the first server that has a resource."""
        if not self._knows_resources:
            # Before the lists are requested: requests that arrive meanwhile must not request them again.
            self._knows_resources = True
            await self._listed("resources/list")
            await self._listed("resources/templates/list")
        owner = self._owners.get(uri)
        last: RpcError | None = None
        for upstream in [owner] if owner is not None else self._possible_owners(uri):
            # A server that has not been started is unknown and must be asked.
            if upstream.server is not None and not upstream.supports("resources"):
                continue
            try:
                if method in ("resources/subscribe", "resources/unsubscribe"):
                    return await upstream.subscribe(method, params, origin)
                return await self._client.forward(upstream, method, params, origin)
            except RpcError as error:
                # Another server may have the resource. If none has, the client gets the last error, or that of a server
                # that could not be asked.
                if last is None or last.code != GATEWAY_ERROR:
                    last = error
        raise not_found(uri, revision) if last is None else last

    def _possible_owners(self, uri: str) -> list[Upstream]:
        """Return the servers that may have an unlisted URI, the most likely first."""
        # A template shows only that the server may have the URI, so all other servers follow.
        first = [upstream for template, upstream in self._templates if template.match(uri) is not None]
        return list(dict.fromkeys([*first, *self.upstreams.values()]))

    # Lists.

    async def merged(self, method: str, params: Raw) -> Raw:
        """Return the list of all servers, as the result of a request.

        Raises RpcError: there is a cursor: every list has a single page (-32602). Or no server responds (-32000).
        """
        _, name, key, _ = LIST_METHODS[method]
        # The gateway never gives out a cursor: it reads all pages of all servers before it sends the list.
        if params.get(("cursor",)) is not None:
            raise RpcError.invalid_params("Invalid cursor")
        found: dict[str, Raw] = {}
        # In the order of the configuration, so that the list does not depend on which server was faster.
        listed, reasons = await self._listed(method)
        if len(reasons) == len(self.upstreams):
            raise RpcError(GATEWAY_ERROR, "; ".join(reasons))
        for upstream, items in listed:
            if method == "tools/list":
                items = self._shown_tools(upstream.name, items)
            for item in items:
                identity = item[key]
                if key == "name":
                    identity = self._prefixes.join(upstream.name, identity)
                try:
                    # The first server wins: the client could call only one of two items with the same name.
                    if identity in found:
                        raise ValueError(f"it has the {key} of an item before it")
                    # An item may be too deep to be written as JSON: only this item is left out.
                    found[identity] = Raw(dumps({**item, key: identity}))
                except (EncodeError, ValueError) as error:
                    _logger.warning("%s: an item of %s is left out: %s", upstream.name, method, error)
                else:
                    self._note_schema(method, identity, item, found[identity])
        return Raw(b'{"%b":[%b]}' % (name.encode(), b",".join(map(bytes, found.values()))))

    def _shown_tools(self, name: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rules = self._entries[name].tools
        if not rules:
            return tools
        if name not in self._places.checked:
            self._places.checked.add(name)
            if unfit := rules.unfit(tools):
                _logger.warning(
                    "%s: its rules name tools or arguments that it does not have: %s", name, ", ".join(unfit)
                )
        return [shown for tool in tools if (shown := rules.item(tool)) is not None]

    def _note_schema(self, method: str, name: str, item: dict[str, Any], raw: Raw) -> None:
        schemas = self._places.schemas
        # Searched in the bytes: few tools ask for headers over HTTP, and the schemas may be large.
        if method == "tools/list" and HEADER_KEY.encode() in bytes(raw) and len(schemas) < 10_000:
            schemas[name] = item.get("inputSchema")
        else:
            schemas.pop(name, None)

    async def _listed(self, method: str) -> tuple[list[tuple[Upstream, list[dict[str, Any]]]], list[str]]:
        """Return the list of each server that responds in time, and the reasons of those that fail."""
        listings = {upstream: self._listing(method, upstream) for upstream in self.upstreams.values()}
        # A late server is not awaited again before its listing has ended.
        if awaited := [task for task in listings.values() if task not in self._late]:
            with waits_for_peer():
                await asyncio.wait(awaited, timeout=self._places.list_seconds)
        found: list[tuple[Upstream, list[dict[str, Any]]]] = []
        reasons: list[str] = []
        for upstream, task in listings.items():
            if not task.done():
                if task not in self._late:
                    _logger.warning("%s: is left out of %s, because it is slow", upstream.name, method)
                    self._late.add(task)
            elif not task.cancelled():
                items = task.result()
                if isinstance(items, RpcError):
                    reasons.append(items.message)
                else:
                    found.append((upstream, items))
        if method == "resources/list":
            # Reversed, so that the first server overwrites the later ones.
            named = [(item["uri"], upstream) for upstream, items in reversed(found) for item in items]
            self._owners = dict(named[:100_000])
        elif method == "resources/templates/list":
            named = [(item["uriTemplate"], upstream) for upstream, items in found for item in items]
            # Each unlisted URI is compared with all of them.
            self._templates = list(_templates(named[:1000]))
        return found, reasons

    def _listing(self, method: str, upstream: Upstream) -> _Listing:
        """Return the task that requests a list of one server. Callers share one that is in progress."""
        place = method, upstream.name
        task = self._listings.get(place)
        if task is None:
            task = self._listings[place] = detached(asyncio.ensure_future, _list_of(upstream, method))
            task.add_done_callback(partial(self._on_listed, place))
        return task

    def _on_listed(self, place: tuple[str, str], task: _Listing) -> None:
        # A change of the list may have replaced it.
        if self._listings.get(place) is task:
            del self._listings[place]
        is_late = task in self._late
        self._late.discard(task)
        if task.cancelled():
            return
        items = task.result()
        method, name = place
        if isinstance(items, RpcError):
            # A server that responds with an error of its own would do so again.
            if items.code == GATEWAY_ERROR:
                self._leave_out(name, [method])
                self._show(name, items.message, method)
            return
        self._left_out[name].discard(method)
        # An empty list changes nothing for the client.
        if is_late and items:
            self._announce(method)
        elif not is_late:
            self._shown[name].add(method)

    # Servers that are gone, and return.

    def _leave_out(self, name: str, methods: Iterable[str]) -> None:
        """Note that lists lack a server, and ask it again later."""
        self._left_out[name].update(methods)
        if name not in self._returns and not self._is_closed:
            task = self._returns[name] = detached(asyncio.ensure_future, self._wait_for(name))
            task.add_done_callback(lambda _: self._returns.pop(name, None))

    def _show(self, name: str, reason: str, method: str) -> None:
        """Show a person that a list lacks a server: a list has no place for an error."""
        message = {"level": "error", "logger": "gateway", "data": f"{reason}; it is left out of {method}"}
        self._client.tell(self.upstreams[name], "notifications/message", Raw(dumps(message)), None)

    async def _wait_for(self, name: str) -> None:
        """Ask a server again until it responds."""
        upstream = self.upstreams[name]
        later = RETURN_SECONDS[-1:] if self._entries[name].url else ()
        for seconds in itertools.chain(RETURN_SECONDS, itertools.cycle(later)):
            await asyncio.sleep(seconds)
            for method in sorted(self._left_out[name]):
                try:
                    await upstream.list(method)
                except (RpcError, ValueError):
                    # What the client has listed before is gone.
                    if method in self._shown[name]:
                        self._shown[name].discard(method)
                        self._announce(method)
                else:
                    self._left_out[name].discard(method)
                    self._announce(method)
            if not self._left_out[name]:  # or a request of the client was first
                return

    def _on_loss(self, upstream: Upstream) -> None:
        # Another process of the server, of one call, is not in the lists.
        if self.upstreams.get(upstream.name) is upstream and (shown := self._shown[upstream.name]):
            self._leave_out(upstream.name, shown)

    def _announce(self, method: str) -> None:
        kind = LIST_METHODS[method].kind
        self._knows_resources = self._knows_resources and kind != "resources"
        self._client.changed(LIST_CHANGES[kind].method, kind)

    # The messages of the servers.

    async def _ask(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        needed = INPUT_REQUESTS.get(method)
        # MCP: a server must not send requests for which the client has not declared a capability. The gateway refuses
        # them in place of the client.
        if needed is None or not self._capabilities.supports(needed):
            raise method_not_found()
        return await self._client.ask(upstream, method, params, origin)

    def _tell(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> None:
        if method in CHANGES:
            for place in [place for place in self._listings if place[1] == upstream.name]:
                del self._listings[place]  # a listing in progress may show the state before the change
            # The owners of URIs may have changed with the list.
            self._knows_resources = self._knows_resources and "resources" not in method
            self._client.changed(method, CHANGES[method])
        elif method == UPDATED:
            # A server might announce resources that the client did not subscribe to. Only the URI is kept, because a
            # server chooses the other members, and their size.
            uri = member(params, ("uri",))
            if isinstance(uri, str) and uri in upstream.subscriptions:
                self._client.changed(method, uri)
        else:
            self._client.tell(upstream, method, params, origin)


def _with_arguments(params: Raw, fixed: Mapping[str, Any]) -> Raw:
    """Return the params of a call of a tool with further arguments.

    Raises RpcError: the call has one of them, or its arguments are no object (-32602).
    """
    given = params.get(("arguments",))
    text = b"{}" if given is None or bytes(given) == b"null" else bytes(given)
    if not text.startswith(b"{"):
        raise RpcError.invalid_params("arguments must be an object")
    arguments = {} if given is None or text == b"{}" else dict(given.items())
    if both := [name for name in arguments if name in fixed]:
        raise RpcError.invalid_params(f"the gateway sets the argument {both[0]}: leave it out")
    return with_members(params, {"arguments": object_of({**arguments, **fixed})})


async def _list_of(upstream: Upstream, method: str) -> list[dict[str, Any]] | RpcError:
    """Return the items of a list of one server; the error for the client if it fails."""
    try:
        return await upstream.list(method)
    except (RpcError, ValueError) as error:
        # Many servers have resources, but no templates.
        if isinstance(error, RpcError) and error.code == ErrorCode.METHOD_NOT_FOUND:
            return []
        # The text of the error is not logged, because the server has chosen it.
        code = f", error {error.code}" if isinstance(error, RpcError) else ""
        _logger.warning("%s: is left out of %s%s", upstream.name, method, code)
        if isinstance(error, RpcError) and error.code == GATEWAY_ERROR:
            return error
        what = f"the error {error.code}" if isinstance(error, RpcError) else "an invalid result"
        return RpcError(ErrorCode.INTERNAL_ERROR, f"the server {upstream.name!r} responds to {method} with {what}")


def _templates(named: Iterable[tuple[str, Upstream]]) -> Iterator[tuple[UriTemplate, Upstream]]:
    """Yield the templates that can be read, with their servers."""
    for text, upstream in named:
        with suppress(ValueError):
            yield UriTemplate(text, unsafe_parts=True), upstream
