"""Functions by method name. Names that begin with `rpc.` are reserved by JSON-RPC (section 4.3) and refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, overload

from ..codec import Message, RawMessage
from ..codec._backend import serve_plain
from ..codec.encoders import depends_on_peer
from ..profile import JSONRPC, Profile
from ..support import check_callable, check_seconds, check_type, unknown_option
from .dispatch import Dispatch, DispatchByForm, DispatchOptions, EncodeOptions, ParamsReading
from .handler import Handler
from .interface import Function, methods_of
from .middleware import Middleware
from .options import HandlerOptions, make_handler

if TYPE_CHECKING:
    from ..hooks import Hooks


class Handlers:
    """Functions by method name. Several sessions may share one.

    A subclass may override `find` to look methods up in another way.

    Args:
        functions: Functions by method name.
        middleware: Functions around every handler, the outermost first; see `Middleware`.
        timeout: The default `timeout` of the methods; None: no limit.
        discover: The `title` and the `version` of the API: the method `rpc.discover` returns its `openrpc` document.
            None: there is no such method.

    Raises:
        TypeError, ValueError: See `register`.
        ImportError: `discover` needs msgspec, which is not installed.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        timeout: float | None = None,
        discover: Mapping[str, str] | None = None,
    ) -> None:
        check_type("handlers", functions, Mapping, may_be_none=True)
        if middleware != ():  # `isinstance` of a tuple and an abstract class runs Python code each time
            check_type("middleware", middleware, Sequence)
        for function in middleware:
            check_callable("a function of middleware", function, may_be_none=False, may_be_async=True)
        check_seconds("timeout", timeout, may_be_infinite=True)
        self._handlers: dict[str, Handler] = {}
        # In C if no subclass overrides `find`.
        is_overridden = getattr(self.find, "__func__", None) is not Handlers.find
        self._find: Callable[[str], Handler | None] = self.find if is_overridden else self._handlers.get
        self._functions: dict[str, tuple[Callable[..., Any], HandlerOptions]] = {}
        self._middleware = tuple(middleware)
        self._timeout = timeout
        self._reading = ParamsReading()
        self._last: tuple[Profile, Any, Dispatch] | None = None  # the last dispatcher that was made for options
        for method, function in (functions or {}).items():
            self.register(method, function)
        check_type("discover", discover, Mapping, may_be_none=True)
        self._about = discover
        if discover is not None:
            if discover.keys() != {"title", "version"}:
                raise TypeError("discover must have a title and a version, and nothing else")
            self._describe(discover)()  # errors are raised here, not when a client asks

    @cached_property
    def _dispatch(self) -> Dispatch:
        return self.prepare()  # made at first use: a session that got a dict has none

    def __repr__(self) -> str:
        return f"<{type(self).__name__} methods={len(self.functions())}>"

    @overload
    def register(self, method: str, **options: Unpack[HandlerOptions]) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, **options: Unpack[HandlerOptions]) -> Function: ...

    def register(self, method: str, function: Any = None, **options: Unpack[HandlerOptions]) -> Any:
        """Register a function for a method. Without a function, return a decorator.

        Args:
            method: The method name.
            function: A sync or async function, or an async generator function, whose items are the result.
            options: See `HandlerOptions`.

        Returns:
            The function.

        Raises:
            TypeError: `method` is not a str, `function` is not callable, its context parameter is in the wrong place,
                or an option does not fit.
            ValueError: The method already has a handler or begins with `rpc.`, or `timeout` is negative or NaN.
        """
        check_type("method", method, str)
        if method.startswith("rpc."):
            raise ValueError("method names that begin with rpc. are reserved by JSON-RPC")
        if function is None:
            return lambda decorated: self.register(method, decorated, **options)
        if self._has(method):
            raise ValueError("the method already has a handler")
        handler = make_handler(function, options, self._middleware, self._timeout)
        # Without the GIL, `dict.get` waits 30 microseconds for a key of another thread that is not interned, as
        # "tools/call" is not by itself. `str.__str__`: only an exact str can be interned.
        method = sys.intern(str.__str__(method))
        self._handlers[method] = handler
        self._functions[method] = function, options
        if handler.takes_raw:
            self._reading.is_raw = True
        return function

    def add(self, served: object, interface: type[Any], *, prefix: str = "", **options: Unpack[HandlerOptions]) -> None:
        """Register the methods of an object that a class declares. `session.proxies.proxy` calls them.

        Args:
            served: The object.
            interface: The class, such as a `Protocol`: its public methods are served. The annotations of the object's
                methods convert the params; a type checker compares them with those of the class.
            prefix: The prefix of the names of the methods, such as "shop.".
            options: See `HandlerOptions`. Unless they say how to read params, these are converted (`typed`), and no
                parameter may be positional-only.

        Raises:
            TypeError: The object lacks a method of the class, or an option does not fit.
            ValueError: A method already has a handler.
        """
        if "unpack" not in options and "params" not in options:
            options = {"typed": True, **options}
        found: dict[str, Callable[..., Any]] = {}
        for name, declared in methods_of(interface).items():
            function = getattr(served, name, None)
            if not callable(function):
                raise TypeError(f"{type(served).__name__} must have the method {name} of {interface.__name__}")
            if declared.params:
                raise TypeError(f"{name} of {interface.__name__} renames params, which a proxy can and handlers cannot")
            method = prefix + declared.name
            found[method] = function
            if self._has(method):
                raise ValueError("the method already has a handler")
        # After the look-ups: if a method is missing, none is registered.
        for method, function in found.items():
            self.register(method, function, **options)

    def functions(self) -> dict[str, tuple[Callable[..., Any], HandlerOptions]]:
        """Return the functions by method, each with its options, in the order in which they were registered."""
        return dict(self._functions)

    def _describe(self, about: Mapping[str, str]) -> Callable[[], dict[str, Any]]:
        """Register `rpc.discover`, and return its function, which makes the document again after a registration."""
        made: tuple[int, dict[str, Any]] = -1, {}

        def discover() -> dict[str, Any]:
            nonlocal made
            from .openrpc import openrpc  # imports msgspec

            number = len(self.functions())
            # Registered methods are never replaced, so their number tells whether the document is out of date.
            if made[0] != number:
                made = number, openrpc(self, **about)
            return made[1]

        self._handlers[sys.intern("rpc.discover")] = Handler(discover)
        return discover

    def prepare(
        self, profile: Profile = JSONRPC, *, hooks: Hooks | None = None, **options: Unpack[EncodeOptions]
    ) -> Dispatch:
        """Return a dispatcher for these handlers, including those registered later.

        Args:
            profile: The rules and limits for decoding.
            hooks: An object with methods for metrics and traces, see `jsonrpc_fast.hooks`. With hooks, the same decoded
                message must not be served twice at the same time.
            options: See `DispatchOptions`.

        Raises:
            TypeError: An option does not exist or has the wrong type, or a hook is not callable or is async.
        """
        dispatch: Dispatch
        if hooks is None:
            dispatch = Dispatch(self._find, self._reading, profile, **options)
        else:
            from .observed import ObservedDispatch

            dispatch = ObservedDispatch(self._find, self._reading, profile, hooks, **options)
        if depends_on_peer(profile):
            plain = self.prepare(profile.replace(writes="2.0"), hooks=hooks, **options)
            return DispatchByForm(dispatch, plain)
        return dispatch

    def child(self) -> Handlers:
        """Return new handlers that also find the methods of these, now and later, but not the other way round."""
        return _ChildHandlers(self)

    def _has(self, method: str) -> bool:
        return method in self._handlers

    def find(self, method: str) -> Handler | None:
        """Return the handler of a method, or None."""
        return self._handlers.get(method)

    def finder(self) -> Callable[[str], Handler | None]:
        """Return a function that does the same as `find`, in C if no subclass overrides `find`."""
        return self._find

    def dispatch(
        self,
        data: bytes | bytearray | memoryview | str | Message | RawMessage | list[Any],
        profile: Profile = JSONRPC,
        **options: Unpack[DispatchOptions],
    ) -> bytes:
        """Serve a JSON text with sync functions and return the response.

        An exception of a function becomes the response, except KeyboardInterrupt, cancellations and others that are not
        an `Exception`. A function that returns an awaitable needs `dispatch_async`; here its request gets -32603, and
        the log says why.

        Args:
            data: One JSON text (a message or a batch), or what `decode` returned.
            profile: The rules and limits for decoding. `Limits.batch_items` bounds the number of functions that one
                text calls.
            options: See `DispatchOptions`.

        Returns:
            The response as one line of JSON; b"" if no response is due.

        Raises:
            TypeError: `data` is of another type, or an option does not exist.
        """
        if options or profile is not JSONRPC:
            return self._dispatch_for(profile, options).serve(data, options.get("context"), options.get("peer"))
        # Here, and not only in `Dispatch.serve`: it saves a call.
        served = serve_plain(data, self._find, self._reading.is_raw)
        return served if isinstance(served, bytes) else self._dispatch.conclude(served)

    async def dispatch_async(
        self,
        data: bytes | bytearray | memoryview | str | Message | RawMessage | list[Any],
        profile: Profile = JSONRPC,
        *,
        timeout: float | None = None,
        max_handlers: int = 256,
        **options: Unpack[DispatchOptions],
    ) -> bytes:
        """Serve a JSON text with sync and async functions and return the response.

        Under asyncio the async functions of a batch run concurrently, each in a task of its own, and all have ended
        when this returns or is cancelled. Under another event loop, such as trio's, they run one after another.

        Args:
            data: As in `dispatch`; so are the arguments that are not described here.
            timeout: Seconds for the whole message or batch; None: no limit. After that, async functions that still run
                are cancelled, and functions that were not called yet are not called. Each of their requests gets
                `SessionErrorCode.DEADLINE_EXCEEDED`. A sync function is not interrupted.
            max_handlers: Maximum number of async functions of a batch that run at a time. The rest of the batch waits.

        Returns:
            The response as one line of JSON; b"" if no response is due.

        Raises:
            TypeError: `data` is of another type, or an option does not exist.
            RuntimeError: There is a `timeout`, but the event loop is not asyncio's.
        """
        if max_handlers < 1:
            raise ValueError("max_handlers must be 1 or more")
        context, peer = options.get("context"), options.get("peer")
        response = self._dispatch_for(profile, options).start(data, context, peer, timeout, max_handlers)
        return response if isinstance(response, bytes) else await response

    def _dispatch_for(self, profile: Profile, options: DispatchOptions) -> Dispatch:
        """Return the dispatcher with these options: the same object while the options are the same."""
        prepared: Any = {name: value for name, value in options.items() if name not in ("context", "peer")}
        if profile is JSONRPC and not prepared:
            return self._dispatch
        # Callers pass the same options each time, so remembering one dispatcher is enough.
        last = self._last
        if last is not None and last[0] is profile and last[1] == prepared:
            return last[2]
        for name in prepared:
            if name not in DispatchOptions.__annotations__:
                raise unknown_option("dispatch", name, DispatchOptions.__annotations__)
        dispatch = self.prepare(profile, **prepared)
        self._last = profile, prepared, dispatch
        return dispatch


class _ChildHandlers(Handlers):
    """The result of `Handlers.child`: its own methods, and then those of its parent."""

    def __init__(self, parent: Handlers) -> None:
        self._parent = parent
        super().__init__(middleware=parent._middleware, timeout=parent._timeout)
        # Shared: a function that needs raw params may be registered later with either, and affects both.
        self._reading = parent._reading
        self._about = parent._about
        if parent._about is not None:
            self._describe(parent._about)

    def _has(self, method: str) -> bool:
        return method in self._handlers or self._parent._has(method)

    def functions(self) -> dict[str, tuple[Callable[..., Any], HandlerOptions]]:
        return {**self._parent.functions(), **self._functions}

    def find(self, method: str) -> Handler | None:
        handler = self._handlers.get(method)
        return self._parent.find(method) if handler is None else handler
