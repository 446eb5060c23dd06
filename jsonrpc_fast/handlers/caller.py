"""Calls of a peer's methods: what all callers share, and results in the type that the caller expects.

Sessions, HTTP clients and the client of services over NATS differ in how a message is sent. That is one method of each,
and one more where a batch can be sent; `call`, `notify`, `call_batch` and the blocking forms of all callers are here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Concatenate, Final, Never, NoReturn, TypeAlias, TypedDict, Unpack, overload

from ..codec import Notification, Params
from ..codec._backend import decoded
from ..errors import InvalidResponse
from ..types import UNSET, P, T, Unset
from .params.problems import Misfit

if TYPE_CHECKING:
    from .params.types import ValueType

BatchItem: TypeAlias = "tuple[str, Any] | Notification[Any]"
"""An item of a batch: method and params of a call, or a notification."""


class SendOptions(TypedDict, total=False):
    """The options of `notify` and `call_batch`. A caller refuses those that it cannot follow, with a TypeError.

    Attributes:
        timeout: Seconds until CallTimeout, with the wait for room and for a connection; None: no limit. The default is
            the caller's, except for the notifications of a session, which wait for room without limit. An HTTP client
            takes no 0, and one timeout for a whole batch; a session takes it for each call of the batch.
        extra: Further members of the message, or of each message of a batch, by name. They come before those of the
            caller's option `extra`, and after those of a `Notification` in the batch.
        headers: Further headers of the HTTP request, or of the message of NATS.
        destination: The `destination` of the peer's request to which the message of a session belongs. Transports such
            as HTTP send the messages of each request on a separate stream.
    """

    timeout: float | Unset | None
    extra: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    destination: Any


class CallOptions(SendOptions, total=False):
    """The options of `call`. A caller refuses those that it cannot follow, with a TypeError.

    Attributes:
        idle_timeout: Maximum seconds without progress. The peer is asked for progress if the convention of the session
            allows it.
        on_progress: Called with each progress value; for a blocking caller, in the thread of the event loop.
    """

    idle_timeout: float | None
    on_progress: Callable[[Any], object] | None


class Caller:
    """Calls the methods of a peer: a session, an HTTP client, or a class of your own that defines `_send`.

    Such a class needs one method:

        class QueueClient(Caller):
            async def _send(self, method, params, is_call, is_typed, *, timeout=UNSET):
                ...  # return the result of a call, or raise what `call` raises
    """

    @overload
    async def call(
        self, method: str, params: Params = None, *, returns: type[T], **options: Unpack[CallOptions]
    ) -> T: ...

    @overload
    async def call(
        self, method: str, params: Params = None, *, returns: Any = ..., **options: Unpack[CallOptions]
    ) -> Any: ...

    async def call(
        self, method: str, params: Params = None, *more: Never, returns: Any = UNSET, **options: Unpack[CallOptions]
    ) -> Any:
        """Call a method of the peer and return its result.

        If the waiting task is cancelled, the call is cancelled too.

        Args:
            method: The method to call.
            params: A list (positional), a dict (named) or None.
            returns: The type of the result: plain types, dataclasses, TypedDicts, Structs of msgspec and models of
                pydantic, such as `list[Item]`. The default is the result as it was decoded. Needs the extra `typed`,
                unless it is a pydantic type.
            options: `timeout`, `idle_timeout`, `on_progress`, `extra`, `headers` and `destination`: see `CallOptions`.

        Returns:
            The result.

        Raises:
            RpcError: The peer responded with an error. The session's option `errors` may map its code to a subclass.
            CallTimeout: No response came in time.
            CallCancelled: `cancel` was called.
            ConnectionLost: The peer cannot be reached, or the connection was lost or closed, or the peer is closing it.
                `was_sent` is False if the peer has not served the request and never will.
            HttpStatusError: The server responded with a status other than 2xx, and without a JSON-RPC response.
            InvalidResponse: The response is malformed, too large, or none to this call: the text says how. Or the
                result is not of the type `returns`: the text names the method and the place.
            StateError: The caller is not started.
            EncodeError, TypeError: The params or `extra` cannot be encoded, the type `returns` is not supported, or
                this caller cannot follow an option.
            ValueError: JSON-RPC defines a name in `extra`, the carrier does not allow a header or the size of the
                message, or a timeout is out of range.
        """
        if more:
            raise several_params("call")
        read = None if returns is UNSET else result_reader(returns)
        try:
            sending = self._send(method, params, True, read is not None, **options)
        except TypeError as error:
            raise _refused("call", self, self._send, options) or error from None
        return await sending if read is None else read(method, await sending)

    async def notify(self, method: str, params: Params = None, *more: Never, **options: Unpack[SendOptions]) -> None:
        """Send a notification. An HTTP client returns when the server has accepted it, with a status of 2xx.

        Args:
            method: The method.
            params: As in `call`.
            options: `timeout`, `extra`, `headers` and `destination`: see `SendOptions`.

        Raises:
            RpcError: An HTTP server refuses the message with an error.
            Exception: As in `call`, but no InvalidResponse: any other body of an HTTP response is ignored.
        """
        if more:
            raise several_params("notify")
        try:
            sending = self._send(method, params, False, False, **options)
        except TypeError as error:
            raise _refused("notify", self, self._send, options) or error from None
        await sending

    if not TYPE_CHECKING:  # type checkers refuse `with`

        def __enter__(self) -> NoReturn:
            cure = "without an event loop, use session.blocking, mcp.blocking or HttpClient in `with`"
            raise TypeError(f"use {type(self).__name__} in `async with`; {cure}")

        def __exit__(self, *_: object) -> None: ...

    # `*_`, which is always empty, lets type checkers accept the options of each subclass.
    async def _send(self, method: str, params: Params, is_call: bool, is_typed: bool, *_: Any, **options: Any) -> Any:
        """Send a call and return its result, or send a notification. The result may be `Raw` if it will get a type."""
        raise NotImplementedError


class BatchCaller(Caller):
    """A caller that can also send several calls in one batch: it defines `_send_batch`, too."""

    async def call_batch(
        self, items: Iterable[BatchItem], *more: Never, returns: Any = UNSET, **options: Unpack[SendOptions]
    ) -> list[Any]:
        """Send several calls and notifications in one batch.

        Args:
            items: A tuple `(method, params)` for each call, or a `Notification`.
            returns: The type of all results, as in `call`; or a list with a type for each item, in which that of a
                notification is not used.
            options: `timeout`, `extra` and `headers`: see `SendOptions`.

        Returns:
            One value for each item, in order: the result of the call, the exception that `call` would raise for it, or
            None for a notification.

        Raises:
            RpcError: An HTTP server refused the batch as a whole.
            InvalidResponse: A response over HTTP belongs to no call, or two belong to one: none of them is used.
            ValueError: There are no items, there are more calls than the session's `max_calls`, or `returns` has a
                different number of types; or the profile does not allow batches, so the results could not be read.
            Exception: As in `call`.
        """
        # Checked before any wait: an invalid item must not take a place in a queue.
        if more or not isinstance(items, Iterable):
            raise TypeError("call_batch takes one list of tuples (method, params) and of notifications")
        items = list(items)
        for item in items:
            if not isinstance(item, Notification) and not (isinstance(item, (tuple, list)) and len(item) == 2):
                raise TypeError("an item of a batch must be a tuple (method, params) or a Notification")
        read = None
        if returns is not UNSET:
            read = results_reader(returns, [None if isinstance(item, Notification) else item[0] for item in items])
        try:
            sending = self._send_batch(items, read is not None, **options)
        except TypeError as error:
            raise _refused("call_batch", self, self._send_batch, options) or error from None
        return await sending if read is None else read(await sending)

    async def _send_batch(self, items: list[BatchItem], is_typed: bool, *_: Any, **options: Any) -> list[Any]:
        """Send a batch and return its results: see `call_batch`, which converts them."""
        raise NotImplementedError


def several_params(name: str) -> TypeError:
    """Return the exception for params that are given as several arguments.

    Args:
        name: The method of the caller, such as `call`.
    """
    return TypeError(f'{name} takes the params as one list or one dict: {name}("add", [1, 2])')


def _refused(name: str, caller: object, send: Callable[..., object], options: Mapping[str, object]) -> TypeError | None:
    """Return the exception for options that a caller cannot follow, or that are none; None if there are no such."""
    known = inspect.signature(send).parameters
    unknown = [option for option in options if option not in known]
    if not unknown or Parameter.VAR_KEYWORD in {each.kind for each in known.values()}:
        return None
    if unknown[0] in CallOptions.__annotations__:
        return TypeError(f"{name} of {type(caller).__name__} has no option {unknown[0]!r}")
    cure = "" if name == "call_batch" else f': the params are one list or one dict, as in {name}("add", {{"a": 1}})'
    return TypeError(f"{name} has no option {unknown[0]!r}{cure}")


def blocking_form(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return the blocking form of an asynchronous method, for a class that has its object behind it.

        ping: Final = blocking_form(Client.ping)

    Args:
        method: The asynchronous method, as a function of its class.
    """

    @functools.wraps(method)
    def wait(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._wait(method, *args, **kwargs)
        return result

    del wait.__wrapped__  # with it, it would be taken for a coroutine function
    wait.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return wait


class BlockingCaller:
    """The methods of a `Caller`, which wait for their results."""

    call: Final = blocking_form(Caller.call)
    notify: Final = blocking_form(Caller.notify)

    def _wait(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Call a method of the asynchronous object, and wait for its result."""
        raise NotImplementedError


class BlockingBatchCaller(BlockingCaller):
    """The methods of a `BatchCaller`, which wait for their results."""

    call_batch: Final = blocking_form(BatchCaller.call_batch)


def result_reader(returns: Any) -> Callable[[str, Any], Any]:
    """Return the function that converts a result: called with the method and the result, a JSON value or a `Raw`.

    It raises InvalidResponse if the result has another type: the text names the method and the place, but no value. A
    type that is not supported raises TypeError here, one that needs msgspec ImportError.
    """
    if returns is Any:
        return _plain
    try:
        type_ = _type_of(returns)
    except TypeError:  # it is not hashable, or not supported
        type_ = _type_of.__wrapped__(returns)  # raises the explaining TypeError for an unsupported type

    def read(method: str, result: Any) -> Any:
        try:
            return type_.convert(result)
        except Misfit as misfit:
            path, reason = misfit.problems[0]
        # Outside `except`, as in `TypedHandler`. Only one problem is named, since the caller cannot correct the result.
        raise InvalidResponse(f"the result of {method} has another type: {path or 'the result'}: {reason}")

    return read


def results_reader(returns: Any, methods: Sequence[str | None]) -> Callable[[list[Any]], list[Any]]:
    """Return the function that converts the outcomes of a batch, in which exceptions stay unchanged.

    `methods` has None for a notification. Raises like `result_reader`, and ValueError for another number of types.
    """
    types = returns if isinstance(returns, list) else [returns] * len(methods)
    if len(types) != len(methods):
        raise ValueError(f"returns has {len(types)} types for {len(methods)} items")
    readers = [
        None if method is None else (method, result_reader(each)) for method, each in zip(methods, types, strict=True)
    ]

    def read(outcomes: list[Any]) -> list[Any]:
        found = []
        for reader, outcome in zip(readers, outcomes, strict=True):
            if reader is not None and not isinstance(outcome, Exception):
                method, convert = reader
                try:
                    outcome = convert(method, outcome)
                except InvalidResponse as error:
                    outcome = error
            found.append(outcome)
        return found

    return read


# Making a decoder for a type takes longer than a call, and callers pass the same few types.
@lru_cache(256)
def _type_of(returns: Any) -> ValueType:
    from .params.types import type_of  # imported here: sessions without typed results do not need it

    return type_of(returns)


def _plain(method: str, result: Any) -> Any:
    return decoded(result)
