"""Sign-in of a client with OAuth: the `auth` of `connect`.

    connect(url, auth="oauth")                               # a person, in the browser: the same as oauth.browser()
    connect(url, auth=oauth.browser(client_id="my-app"))     # registered in advance
    connect(url, auth=oauth.client_credentials("reports", secret, issuer="https://login.example.org"))

The official SDK (`mcp`) implements OAuth: it finds and checks metadata, registers the client, and supports PKCE, the
authorization code, refreshed tokens, more scopes on demand (step-up) and client credentials. This module opens the
browser, keeps tokens, and bounds what the SDK reads.

Rules:
  - Tokens go to the server and to the endpoints that its metadata names, over https. Plain http is allowed on this
    machine, if the server is on it.
  - Data from an authorization server is checked before the SDK reads it: addresses, and tokens by the rule that
    `connect` applies to a token of its caller.
  - No error, log or `repr` contains a token, a code, a secret, or data that a server sent, but for the address of a
    server that fails, without its path and query.
  - A sign-in that becomes necessary later, during a call, counts toward that call's timeout: the log says so if it was
    cut off.

Sources: specification 2025-11-25 and 2026-07-28 "Authorization"; RFC 8252, RFC 9700.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
import time
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar, get_args
from urllib.parse import parse_qs, parse_qsl, urlsplit

from ...codec import Raw
from ...errors import SignInError
from ...http.library import exchange_with, tls_context
from ...support import MAX_PORT, check_callable, check_count, check_seconds, check_type, logger_of, say
from ..http.headers import BEARER_TOKEN
from ..http.sending import SIGNING_IN, sent_with_auth
from .token_stores import FileStore, MemoryStore, TokenStore

try:
    import httpx2
    from mcp.client.auth import OAuthClientProvider, OAuthFlowError
    from mcp.client.auth.extensions.client_credentials import (
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
        SignedJWTParameters,
    )
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.server.auth.provider import AuthorizationErrorCode, TokenErrorCode
    from mcp.shared.auth import (
        AuthorizationCodeResult,
        OAuthClientInformationFull,
        OAuthClientMetadata,
        OAuthMetadata,
        OAuthToken,
        ProtectedResourceMetadata,
    )
    from pydantic import AnyUrl, BaseModel, ValidationError
except ImportError as _error:
    raise ImportError(
        'sign-in needs the extra `mcp-client-oauth`: pip install "jsonrpc_fast[mcp-client-oauth]"'
    ) from _error

__all__ = ["OAuth", "browser", "client_credentials", "private_key"]

M = TypeVar("M", bound=BaseModel)
Flow = AsyncGenerator[httpx2.Request, httpx2.Response]

REQUEST_SECONDS: Final = 30.0
"""How long an authorization server may be silent."""

_FAULTS: Final = {
    "start": "the tokens that are kept, or the request for authorization, cannot be used",
    "resource": "the metadata of the server is that of another server",
    "issuer": "the metadata of the authorization server names another issuer than the server does",
    "unread resource": "the server did not give its metadata",
    "unread issuer": "the authorization server did not give its metadata where the specification expects them",
    "bad issuer": "the metadata of the authorization server is malformed",
    "registration": "the authorization server did not register this client: ask its owner for a client_id",
    "redirect": "the browser came back from an issuer other than the one requested",
    "code": "the browser came back without a code",
    "token": "the authorization server gave no token that can be used",
}
"""The fault at each step of the SDK, and the faults that this module finds."""
# Not "localhost", which may be the address of another interface (RFC 8252, section 8.3).
HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
_logger: Final = logger_of("mcp")
_stage: Final[ContextVar[list[str]]] = ContextVar("stage")
"""The SDK's current step, one of _FAULTS, while it runs."""


def _drop_secrets(record: logging.LogRecord) -> bool:
    """Remove exceptions from the SDK's log: their texts contain data from the authorization server."""
    if _stage.get(None):
        record.exc_info = record.exc_text = None
    return True


class OAuth(httpx2.Auth):
    """Gets tokens for one server, keeps them, and sends them. The functions of this module make it.

    Each server needs its own: a request to a server other than the first raises SignInError.

    Args:
        make: Makes the provider of the SDK, from the URL of the server and the stored data.
        store: Keeps the tokens; None: in memory.
        sign_in_seconds: How long a person may take; None: no person is needed.
    """

    def __init__(
        self,
        make: Callable[[str, Any], OAuthClientProvider],
        store: TokenStore | None,
        sign_in_seconds: float | None,
    ) -> None:
        self._make = make
        self._store: TokenStore = MemoryStore() if store is None else store
        self._sign_in_seconds = sign_in_seconds
        self._provider: OAuthClientProvider | None = None
        self._storage: _Storage
        # The first requests may come together, but the store is read only once.
        self._opening = asyncio.Lock()
        self._header: str | None = None
        self._is_ready = False
        # `addFilter` ignores a filter that the logger already has.
        logging.getLogger("mcp.client.auth.oauth2").addFilter(_drop_secrets)

    async def sign_in(self, server: str) -> None:
        """Let a person sign in, if tokens require that and none are stored. `connect` calls this.

        Args:
            server: The URL of the server.

        Raises:
            SignInError: The sign-in failed, or took longer than `sign_in_seconds`.
        """
        if self._sign_in_seconds is None:
            return
        await self._open(server)
        # Tokens that are valid, or can be refreshed, need no person.
        kept = await self._storage.get_tokens()
        if kept is not None and (kept.refresh_token is not None or kept.expires_in is None or kept.expires_in > 0):
            return
        with contextlib.suppress(httpx2.HTTPError):  # the handshake will report the fault
            try:
                await asyncio.wait_for(self._ask(server), self._sign_in_seconds)
            except TimeoutError:
                raise _too_late(self._sign_in_seconds) from None

    async def _ask(self, server: str) -> None:
        """Send a request without a token, which a server that needs one refuses."""
        # The smallest possible request: only its refusal matters, which tells where to sign in.
        message = {"jsonrpc": "2.0", "id": "sign-in", "method": "ping"}
        accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        client = httpx2.AsyncClient(auth=self, verify=tls_context(), timeout=REQUEST_SECONDS)
        async with client:
            request = client.build_request("POST", server, json=message, headers=accept)
            await (await sent_with_auth(client, request)).aclose()

    async def _open(self, server: str) -> OAuthClientProvider:
        async with self._opening:
            if self._provider is None:
                self._storage = _Storage(self._store, server)
                await self._storage.read()
                self._provider = self._make(server, self._storage)
                self._storage.context = self._provider.context
            return self._provider

    async def async_auth_flow(self, request: httpx2.Request) -> Flow:
        """Send a request with a token; get one where the server says that it needs one."""
        provider = self._provider or await self._open(str(request.url))
        _check_server(request.url, httpx2.URL(self._storage.server))
        flow: Flow | None = None
        outgoing = request
        response: httpx2.Response | None = None
        stage = "start"
        refreshing = contextlib.AsyncExitStack()  # holds the lock of the store while tokens are refreshed
        is_refresh = False
        try:
            if not self._is_ready:
                flow = provider.async_auth_flow(request)
                outgoing = await _step(flow.__anext__(), stage)
            # Fast path: the last token is sent without the SDK, whose lock would make requests wait for each other.
            elif self._header is not None:
                request.headers["authorization"] = self._header
            while True:
                if outgoing is request:
                    # `outgoing is request` distinguishes the caller's request from those that the SDK sends to get a
                    # token.
                    await refreshing.aclose()
                    is_refresh = False
                    sent = self._header = request.headers.get("authorization")
                    self._is_ready = True
                    stage = "start"
                else:
                    # A request that follows a redirect belongs to the same step, whatever its path is.
                    if response is None or outgoing is not response.next_request:
                        before, stage = stage, _stage_of(outgoing)
                        if stage == "resource" != before:
                            self._storage.faults.clear()  # those of an earlier sign-in
                    if stage == "registration":
                        # Without the metadata of its server, the client would be registered elsewhere.
                        self._storage.check_metadata()
                    if (
                        not is_refresh
                        and stage == "token"
                        and (await _form_of(outgoing)).get("grant_type") == "refresh_token"
                    ):
                        is_refresh = True
                        await refreshing.enter_async_context(self._store.lock(self._storage.server))
                        # A server that rotates refresh tokens ends all of them if an old one is used.
                        if await self._storage.read_again():
                            await flow.aclose()  # type: ignore[union-attr]  # it has made this request
                            flow = provider.async_auth_flow(request)
                            outgoing = await _step(flow.__anext__(), stage)
                            continue
                    outgoing = _prepare(outgoing, self._storage.server)
                    outgoing.extensions[SIGNING_IN] = _asked(stage, is_refresh=is_refresh)
                try:
                    response = yield outgoing
                except GeneratorExit:
                    task = asyncio.current_task()
                    if outgoing is not request and task is not None and task.cancelling():
                        what, role = outgoing.extensions[SIGNING_IN]
                        place = exchange_with(outgoing.url)
                        text = "%s: the timeout of a call, or its cancellation, came before a response%s (%s)"
                        _logger.warning(text, what, place, role)
                    raise
                # Only these responses are read here. The body of any other belongs to the caller, who may stream it.
                if outgoing is not request or response.status_code in (401, 403):
                    _bound(response)
                    if outgoing is not request:
                        await response.aread()
                        response = self._checked(response, outgoing, stage, is_refresh=is_refresh)
                elif flow is None:
                    return
                if outgoing is request and sent is not None:
                    request.headers["authorization"] = sent
                if flow is None:
                    # The SDK is used only after a refusal: it holds its lock for as long as its flow is open.
                    flow = provider.async_auth_flow(request)
                    outgoing = await _step(flow.__anext__(), stage)
                    # Another request has obtained a new token meanwhile: try that one before requesting another.
                    if outgoing is not request or request.headers.get("authorization") != sent:
                        continue
                outgoing = await _step(flow.asend(response), stage, response, self._storage.faults.get(stage))
        except StopAsyncIteration:
            return
        finally:
            if flow is not None:
                await flow.aclose()
            await refreshing.aclose()

    def _checked(
        self, response: httpx2.Response, outgoing: httpx2.Request, stage: str, *, is_refresh: bool
    ) -> httpx2.Response:
        """Check a response of an authorization server. Return it in a form that the SDK reads; {} if unusable."""
        status, faults = response.status_code, self._storage.faults
        is_given = status in (200, 201)
        found = _members(response.content)
        if is_refresh and (not is_given or _tokens(found) is None):
            _check_refusal(status, found.get("error"))
        if not is_given:
            is_metadata = stage in ("resource", "issuer")
            # Metadata may be at one of several places: that the others have none is no fault.
            if not (is_metadata and status == 404 and stage in faults):
                faults[stage] = f"{_FAULTS[f'unread {stage}' if is_metadata else stage]} (HTTP status {status})"
            response.headers.pop("content-type", None)  # the charset is the server's choice, and some codecs are slow
            return response
        faults.pop(stage, None)
        if stage == "issuer":
            # The servers of some large providers name themselves with a slash at the end, and their metadata without.
            expected = self._storage.context.auth_server_url
            self._storage.issuer = str(found.get("issuer", ""))
            if expected is not None and _is_same_issuer(found.get("issuer"), expected):
                found["issuer"] = expected
            for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
                if isinstance(address := found.get(name), str):
                    _check_address(address, self._storage.server)
        if stage == "token":
            found = {} if _tokens(found) is None else found
            status = 200  # the SDK takes no other one for a refreshed token
        content = b"{}"
        with contextlib.suppress(ValueError, RecursionError):  # Python writes no integer of more than 4300 digits
            content = json.dumps(found).encode()
        if stage == "issuer" and (names := _wrong_members(content)):
            wrong = f"these members are missing or malformed: {', '.join(names)}" if found else "it is no JSON object"
            faults[stage] = f"{_FAULTS['bad issuer']}: {wrong}"
        return httpx2.Response(status, content=content, request=outgoing)


@dataclass(eq=False, repr=False)
class _Storage:
    """The SDK's store, over a `TokenStore`. It also keeps what the SDK forgets: when tokens expire, and their issuer.

    Attributes:
        context: The context of the SDK, once its provider is made.
        client: The client, if it was registered in advance.
        port: The port of the redirect, if there is one.
        faults: Why metadata could not be read, or a request was refused, by step.
        issuer: The name of the authorization server in its metadata; "" if it is not known.
    """

    _store: TokenStore
    server: str
    _record: dict[str, Any] = field(default_factory=dict)
    context: OAuthContext = field(init=False)
    client: OAuthClientInformationFull | None = None
    port: int | None = None
    faults: dict[str, str] = field(default_factory=dict)
    issuer: str = ""

    async def read_again(self) -> bool:
        """Take the tokens that another client has stored meanwhile. Return whether there are other ones."""
        if (text := await self._store.load(self.server)) is None:
            return False
        found = _tokens(_members(text).get("tokens"))
        current = self.context.current_tokens
        if found is None or (current is not None and found.access_token == current.access_token):
            return False
        await self.read()
        self.context.current_tokens = await self.get_tokens()
        self.context.client_info = await self.get_client_info()
        return True

    async def read(self) -> None:
        text = await self._store.load(self.server)
        self._record = _members(text or "{}")

    async def get_tokens(self) -> OAuthToken | None:
        tokens = _tokens(self._record.get("tokens"))
        until = self._record.get("until")
        if tokens is not None and isinstance(until, (int, float)):
            # The remaining time: the SDK counts from the moment at which it gets the tokens.
            tokens.expires_in = int(until - time.time())
        if tokens is not None:
            self.context.update_token_expiry(tokens)
            self.context.oauth_metadata = _model(OAuthMetadata, self._record.get("issuer"))
            self.issuer = str(self._record.get("issuer_name", ""))
            resource = self.context.protected_resource_metadata = _model(
                ProtectedResourceMetadata, self._record.get("resource")
            )
            if resource is not None:
                self.context.auth_server_url = str(resource.authorization_servers[0])
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        # The time of expiry, not a duration, because the record outlives the process.
        until = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._record.update(tokens=_plain(tokens), until=until)
        self._record["issuer"] = _plain(self.context.oauth_metadata)
        self._record["issuer_name"] = self.issuer
        self._record["resource"] = _plain(self.context.protected_resource_metadata)
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client or _model(OAuthClientInformationFull, self._record.get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._record.update(client=_plain(client_info), port=self.port)
        await self._save()

    def kept_port(self) -> int | None:
        """Return the port of the redirect with which the client was registered; None if it was not."""
        port = self._record.get("port")
        return port if type(port) is int and 0 < port <= MAX_PORT else None

    def check_metadata(self) -> None:
        """Raise SignInError if the authorization server has no metadata that can be used."""
        # Servers of 2025-03-26 have no metadata of the resource, and may have none at all.
        if self.context.oauth_metadata is None and self.context.protected_resource_metadata is not None:
            raise SignInError(f"sign-in failed: {self.faults.get('issuer', _FAULTS['bad issuer'])}")

    async def _save(self) -> None:
        await self._store.save(self.server, json.dumps(self._record))


def browser(
    *,
    client_id: str | None = None,
    client_secret: str | None = None,
    client_metadata_url: str | None = None,
    client_name: str = "jsonrpc_fast",
    store: TokenStore | None = None,
    redirect_port: int | None = None,
    sign_in_seconds: float = 300.0,
    open_browser: Callable[[str], object] = webbrowser.open,
) -> OAuth:
    """Return an `auth` with which a person signs in, in the browser. Later connections use the stored tokens.

    Args:
        client_id: The id of this client, if the authorization server knows it; by default the client registers itself.
        client_secret: Its secret, if it has one.
        client_metadata_url: The https URL of a document about this client, used as its id if the authorization server
            supports that.
        client_name: The name that the person sees, of a client that registers itself.
        store: Keeps the tokens; by default a `FileStore`.
        redirect_port: The port of 127.0.0.1 to which the browser returns (`http://127.0.0.1:PORT/callback`); None: a
            free one.
        sign_in_seconds: How long a sign-in may take.
        open_browser: Called with the address to open, in a thread. If it returns False, the address goes to stderr.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """
    check_type("client_id", client_id, str, may_be_none=True)
    check_type("client_secret", client_secret, str, may_be_none=True)
    check_type("client_name", client_name, str)
    check_count("redirect_port", redirect_port, 1, MAX_PORT)
    check_seconds("sign_in_seconds", sign_in_seconds, may_be_none=False, may_be_zero=False)
    check_callable("open_browser", open_browser, may_be_none=False)
    if client_secret is not None and client_id is None:
        raise ValueError("client_secret needs a client_id")

    def make(server: str, storage: _Storage) -> OAuthClientProvider:
        # The same port as last time: authorization servers compare the whole address with the registered one.
        port = storage.port = redirect_port or storage.kept_port() or _free_port()
        redirect_uri = f"http://{HOST}:{port}{PATH}"
        if client_id is not None:
            storage.client = OAuthClientInformationFull(
                client_id=client_id,
                client_secret=client_secret,
                redirect_uris=[AnyUrl(redirect_uri)],
                token_endpoint_auth_method="none" if client_secret is None else "client_secret_basic",
            )
        waiting = _Redirect(port, open_browser, sign_in_seconds, storage)
        provider = OAuthClientProvider(
            server,
            OAuthClientMetadata(client_name=client_name, redirect_uris=[AnyUrl(redirect_uri)]),
            storage,
            waiting.begin,
            waiting.result,
            client_metadata_url,
        )
        waiting.context = provider.context
        return provider

    return OAuth(make, FileStore() if store is None else store, sign_in_seconds)


def client_credentials(client_id: str, client_secret: str, *, issuer: str, store: TokenStore | None = None) -> OAuth:
    """Return an `auth` for a program that has its own id and secret, and acts for no user.

    Args:
        client_id: The id by which the authorization server knows the program.
        client_secret: Its secret.
        issuer: The issuer to which they belong. No other server gets them, even if the MCP server names one.
        store: Keeps the tokens; by default in memory.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """
    _check_program(issuer, client_id=client_id, client_secret=client_secret)
    return OAuth(
        lambda server, storage: ClientCredentialsOAuthProvider(
            server, storage, client_id, client_secret, issuer=issuer
        ),
        store,
        None,
    )


def private_key(
    client_id: str,
    key: str | Callable[[str], Awaitable[str]],
    *,
    issuer: str,
    algorithm: str = "ES256",
    store: TokenStore | None = None,
) -> OAuth:
    """Return an `auth` for a program that proves its identity with a signed JWT instead of a secret (RFC 7523).

    Args:
        client_id: The id by which the authorization server knows the program.
        key: The private key, as PEM. Or an async function that takes the audience and returns the JWT, for a key that
            must not leave its store.
        issuer: The issuer to which they belong. No other server gets a JWT.
        algorithm: The algorithm of the signature.
        store: Keeps the tokens; by default in memory.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """
    _check_program(issuer, client_id=client_id, algorithm=algorithm)
    if isinstance(key, str):
        signed = SignedJWTParameters(issuer=client_id, subject=client_id, signing_key=key, signing_algorithm=algorithm)
        assertion = signed.create_assertion_provider()
    else:
        check_callable("key", key, may_be_none=False, may_be_async=True)
        assertion = key
    return OAuth(
        lambda server, storage: PrivateKeyJWTOAuthProvider(
            server, storage, client_id, partial(_asserted, assertion), issuer=issuer
        ),
        store,
        None,
    )


def _check_program(issuer: str, **texts: str) -> None:
    for name, text in {"issuer": issuer, **texts}.items():
        check_type(name, text, str)
        if not text:
            raise ValueError(f"{name} must not be empty")
    if urlsplit(issuer).scheme not in ("http", "https"):
        raise ValueError("issuer must be the URL of an authorization server")


@dataclass(eq=False, repr=False)
class _Redirect:
    """The visit to the authorization server in the browser, and the redirect back."""

    _port: int
    _open_browser: Callable[[str], object]
    _seconds: float
    storage: _Storage
    context: OAuthContext = field(init=False)
    _address: str = ""
    _state: str = ""

    async def begin(self, address: str) -> None:
        _check_address(address, self.context.server_url)
        self.storage.check_metadata()
        metadata = self.context.oauth_metadata
        if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise SignInError("the authorization server does not say that it supports PKCE with S256")
        # The SDK appends its query with a "?", even to an address that already has a query.
        endpoint, _, query = address.rpartition("?")
        self._address = f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"
        [self._state] = parse_qs(query)["state"]

    async def result(self) -> AuthorizationCodeResult:
        async with redirect_to(self._port, self._state) as redirect:
            if await asyncio.to_thread(self._open_browser, self._address) is False:
                say(f"Open this address to sign in:\n{self._address}")
            try:
                # Not `wait_for`, which would cancel the future that the listener sets.
                await asyncio.wait([redirect], timeout=self._seconds)
            except asyncio.CancelledError:
                _logger.warning("a sign-in in the browser was cut off by the timeout of a call, or by its cancellation")
                raise
            if not redirect.done():
                raise _too_late(self._seconds)
            found = redirect.result()
        if "code" not in found:
            raise SignInError(f"the authorization server did not let you in{_reason(found.get('error'))}")
        if not found["code"]:
            raise SignInError(f"sign-in failed: {_FAULTS['code']}")
        _stage.get().append("redirect")
        metadata, iss = self.context.oauth_metadata, found.get("iss")
        if metadata is not None and iss is not None and self.storage.issuer:
            # RFC 9207, section 2.4: the very characters of the metadata, unlike the name in the resource's metadata.
            if iss != self.storage.issuer:
                raise SignInError(f"sign-in failed: {_FAULTS['redirect']}")
            iss = str(metadata.issuer)
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=iss)


async def _asserted(assertion: Callable[..., Awaitable[str]], *arguments: str) -> str:
    try:
        return await assertion(*arguments)
    except Exception as error:
        raise SignInError("the assertion for the authorization server could not be made") from error


async def _step(
    step: Awaitable[httpx2.Request], stage: str, response: httpx2.Response | None = None, fault: str | None = None
) -> httpx2.Request:
    """Advance the SDK to its next request.

    Args:
        fault: What is wrong with the responses of this stage; None: not known.
    """
    stages = [stage]
    token = _stage.set(stages)
    try:
        return await step
    # A new exception without a cause, because the texts of the SDK's exceptions contain data from the server.
    except (OAuthFlowError, ValueError, httpx2.InvalidURL):
        text = _FAULTS[stages[-1]] if fault is None or stages[-1] != stage else fault
        if response is not None and stage == "token":
            # Only a standard error code of the response is shown.
            text += _reason(_members(response.content).get("error"))
        made = SignInError(f"sign-in failed: {text}")
    finally:
        _stage.reset(token)
    raise made


def _asked(stage: str, *, is_refresh: bool) -> tuple[str, str]:
    """Return what fails if a request of the SDK does, and the role of the server."""
    what = "the token could not be refreshed" if is_refresh else "sign-in failed"
    return what, "the metadata of the server" if stage == "resource" else "the authorization server"


def _stage_of(request: httpx2.Request) -> str:
    if request.method == "GET":
        # The server may name any address as that of its own metadata.
        known = ("oauth-authorization-server", "openid-configuration")
        return "issuer" if any(name in request.url.path for name in known) else "resource"
    is_form = "form" in request.headers.get("content-type", "")
    return "token" if is_form else "registration"


async def _form_of(request: httpx2.Request) -> dict[str, str]:
    # Not `content`, which a request that follows a redirect does not have before it is read.
    return dict(parse_qsl((await request.aread()).decode()))


def _check_refusal(status: int, code: object) -> None:
    """Raise SignInError if a refresh failed, but the authorization server did not say that the token is of no use.

    A person who signs in again would not help, and the token can be refreshed later.
    """
    # The codes with which an authorization server says that a refresh token is of no more use (RFC 6749, section 5.2).
    # The last one is that of GitHub, with the status 200.
    if code not in ("invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"):
        usable = ", but without a token that can be used" if status in (200, 201) else ""
        text = f"the authorization server responded with the HTTP status {status}{usable}{_reason(code)}"
        raise SignInError(f"the token could not be refreshed: {text}. Try again later")


def _wrong_members(metadata: bytes) -> list[str]:
    """Return the names of the members of an authorization server's metadata that are missing or malformed."""
    try:
        OAuthMetadata.model_validate_json(metadata)
    except ValidationError as error:
        return list(dict.fromkeys(str(fault["loc"][0]) for fault in error.errors()))  # names of the model's own fields
    return []


def _is_same_issuer(one: object, other: str) -> bool:
    """Whether two issuers are the same but for one slash at the end."""
    return isinstance(one, str) and one.removesuffix("/") == other.removesuffix("/") != ""


def _prepare(request: httpx2.Request, server: str) -> httpx2.Request:
    """Return a request of the SDK with limits."""
    _check_address(request.url, server)
    # A compressed response could expand to any size.
    request.headers["accept-encoding"] = "identity"
    request.extensions["timeout"] = httpx2.Timeout(REQUEST_SECONDS).as_dict()
    return request


def _check_server(url: httpx2.URL, server: httpx2.URL) -> None:
    """Check that a request goes to the server that the tokens are for; a redirect may have added https."""
    is_same = (url.host, url.port) == (server.host, server.port) and url.scheme in (server.scheme, "https")
    if not is_same:
        raise SignInError("these tokens are for another server: make an `auth` for each server")


def _check_address(address: httpx2.URL | str, server: str) -> None:
    """Check an address to which a secret or the person is sent: https, or this machine for a server on this machine."""
    with contextlib.suppress(httpx2.InvalidURL, UnicodeError):
        url = httpx2.URL(address)
        is_local = {url.host, httpx2.URL(server).host} <= {"localhost", "127.0.0.1", "::1"}
        # A fragment would be lost, and user information can hide the host from a person who reads the address.
        is_plain = not url.fragment and not url.userinfo
        if is_plain and (url.scheme == "https" or (url.scheme == "http" and is_local)):
            return
    raise SignInError("an address of the authorization server is malformed or not https: nothing is sent there")


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = 256 * 1024
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise SignInError("the server's response to the sign-in is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _bound(response: httpx2.Response) -> None:
    """Limit how much of a response is read."""
    if response.headers.get("content-encoding", "identity") != "identity":
        # Compressed data could expand to any size. Without the header it is not expanded, and does not parse.
        del response.headers["content-encoding"]
    if not response.is_stream_consumed:
        response.stream = _BoundedStream(response.stream)


def _reason(code: object) -> str:
    # The error codes of RFC 6749 and RFC 8707: the only text of a server that an exception may contain.
    return (
        f": {code}"
        if isinstance(code, str) and code in get_args(AuthorizationErrorCode) + get_args(TokenErrorCode)
        else ""
    )


def _too_late(seconds: float) -> SignInError:
    return SignInError(f"the sign-in in the browser was not finished within {seconds:g} s (sign_in_seconds): try again")


def _free_port() -> int:
    # The redirect has to be known before the browser is opened. If another program takes the port meanwhile, the
    # listener reports it.
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _members(text: str | bytes) -> dict[str, Any]:
    """Return the members of an object of JSON; {} if it is malformed."""
    with contextlib.suppress(ValueError, RecursionError):
        found = Raw(text.encode() if isinstance(text, str) else text).decode()
        return found if isinstance(found, dict) else {}
    return {}


def _tokens(value: object) -> OAuthToken | None:
    """Return tokens; None if they are malformed, or do not fit into a header."""
    tokens = _model(OAuthToken, value)
    if tokens is None or not BEARER_TOKEN.fullmatch(tokens.access_token):
        return None
    return tokens if abs(tokens.expires_in or 0) < 2**53 else None  # a time is a float


def _model(kind: type[M], value: object) -> M | None:
    """Return a stored object as a model of the SDK; None if it is malformed."""
    with contextlib.suppress(ValueError):
        return kind.model_validate(value)
    return None


def _plain(value: BaseModel | None) -> Any:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)


@contextlib.asynccontextmanager
async def redirect_to(port: int, state: str) -> AsyncIterator[asyncio.Future[dict[str, str]]]:
    """Listen for the redirect of a sign-in (RFC 8252, section 7.3). Yield a future of the parameters of its URL.

    A request without the right `state` is refused, and the sign-in continues: any page in the browser could send it.

    Raises SignInError: the port is in use.
    """
    found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    writers: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Browsers open spare connections. The oldest one is closed, so that silent ones cannot block the redirect.
        if len(writers) >= 16:
            oldest = next(iter(writers))
            del writers[oldest]
            oldest.transport.abort()
        writers[writer] = None
        try:
            parameters = _parameters(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10.0))
            # Compared in constant time, because any local program may guess the state.
            is_ours = parameters is not None and secrets.compare_digest(
                parameters.get("state", "").encode(), state.encode()
            )
            status, text = (
                ("200 OK", "You are signed in, or the program says why not. You can close this page.")
                if is_ours
                else ("404 Not Found", "Not found.")
            )
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\n"
                "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
            )
            writer.write((head + text).encode())
            await writer.drain()
            if is_ours and parameters is not None and not found.done():
                found.set_result(parameters)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writers.pop(writer, None)
            writer.close()

    try:
        server = await asyncio.start_server(serve, HOST, port, limit=16 * 1024)
    except OSError:
        raise SignInError(
            f"the browser is to return to port {port}, which another program uses: end it, or set redirect_port"
        ) from None
    try:
        yield found
    finally:
        server.close()
        for writer in writers:
            # A browser that keeps its connection open would keep the listener waiting.
            writer.transport.abort()


def _parameters(head: bytes) -> dict[str, str] | None:
    """Return the parameters of a request for PATH; None for other requests, and if a parameter is repeated."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET":
        return None
    try:
        url = urlsplit(words[1].decode("ascii"))
        query = parse_qsl(url.query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        return None
    # A repeated parameter is refused, because readers differ in which value they use.
    parameters = dict(query)
    return parameters if url.path == PATH and len(parameters) == len(query) else None
