"""Registered functions: their arguments, read from the signature.

A parameter annotated with `Context` or `Context | None`, whatever its name, gets the context; there may be only one.
Each other parameter is an argument. What cannot be supported is a TypeError when the function is registered.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import types
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from inspect import Parameter
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

from ...handlers import Handlers, json_of
from ...handlers.params import Arguments, UndefinedName, name_of, signature_of, type_of
from ...handlers.schemas import arguments_schema
from .context import Context, begin_as
from .session import check_level

Role = Literal["tool", "prompt", "resource", "method"]

_REFUSED: Final[dict[Role, tuple[type, ...]]] = {
    "tool": (),
    "prompt": (int, float, bytes, bytearray, types.NoneType),
    "resource": (int, float),
    "method": (str, int, float, bytes, bytearray, list, tuple, set, frozenset, types.NoneType),
}
"""The types that are never a valid result, by role."""


T = TypeVar("T")


class ThreadContext(Context):
    """The context of a function in a thread.

    It may be used from the thread: log messages and progress are sent by the loop. `wait` waits for the methods that
    are coroutines.
    """

    __slots__ = ("_is_ended", "_loop", "_waits")

    def __init__(self, context: Context) -> None:
        begin_as(self, context)
        self._loop = asyncio.get_running_loop()
        self._is_ended = False
        # `set.add` and `set.discard` are atomic, so the thread and the loop need no lock.
        self._waits: set[concurrent.futures.Future[Any]] = set()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and return its result: see `Context.wait`."""
        # The coroutine runs on the loop: the session and the transport may be used only in its thread.
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._waits.add(future)
        if self._is_ended:  # checked after the addition: `end_waits` runs in another thread
            future.cancel()
        try:
            return future.result()
        finally:
            self._waits.discard(future)

    def end_waits(self) -> None:
        """Cancel the coroutines that the thread waits for, now and later."""
        self._is_ended = True
        for future in [*self._waits]:
            future.cancel()

    def _report_progress(self, progress: float, total: float | None, message: str | None) -> bool:
        # The session writes on the loop, because a transport is not thread-safe.
        self._loop.call_soon_threadsafe(super()._report_progress, progress, total, message)
        return self._rules.progress_token is not None

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message: see `Context.log`."""
        # Checked here: no caller could catch an exception on the loop.
        check_level(level)
        self._loop.call_soon_threadsafe(super().log, level, data, logger)


class ThreadFunction:
    """A sync function that is called in a thread of the loop's default executor.

    It gets a copy of the context variables of its request. A thread cannot be interrupted: if the request is cancelled,
    the function continues and its result is dropped. It can check `Context.is_cancelled`.

    Raises TypeError: the function is async.
    """

    __slots__ = ("_context_name", "_function", "_handler")

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self._function = function
        self._context_name = context_name
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("an async function runs on the loop: it needs no thread and no executor")
        handlers = Handlers()
        handlers.register("call", self._call, unpack=False, thread=True)
        self._handler: Any = handlers.find("call")

    async def __call__(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call the function in a thread, and return its result."""
        if self._context_name is None:
            return await self._handler.invoke(arguments, None)
        thread_context = ThreadContext(context)
        try:
            return await self._handler.invoke({**arguments, self._context_name: thread_context}, None)
        except asyncio.CancelledError:
            # The thread cannot be interrupted, but it must not wait for a client that has disconnected.
            thread_context.end_waits()
            raise

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        return self._function(**arguments)


class RegisteredFunction:
    """A registered function and its arguments.

    Args:
        converts: Whether to check and convert the arguments. If False they are passed as received.
        role: What the function is registered as; None for a notification. With a role, the annotated result is checked.
        name: The name for error texts; by default the name of the function.

    Attributes:
        is_async: Whether it returns an awaitable; other functions may do so, too.
        description: The docstring of the function, without its part about parameters; None without one.
        returns: The annotation of the result; `Parameter.empty` without one.

    Raises TypeError: the function is not callable, its signature cannot be served, or a type is not
    supported. The text names the role, the name and the parameter.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        converts: bool = True,
        role: Role | None = None,
        name: str | None = None,
        *,
        thread: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"the function must be callable, not {type(function).__name__}")
        self._function = function
        self.name: str = name_of(function)
        label = (name or self.name) if role is None else f"{role} {name or self.name}"
        self._context_name: str | None = None
        self._plain_shapes: set[tuple[Any, ...]] = set()  # names and types of arguments that were found plain
        self.parameters: dict[str, Parameter] = {}
        try:
            signature = signature_of(function)
            self._read(signature.parameters, converts)
            self._arguments: Arguments | None = Arguments(self.parameters) if converts else None
            self._thread: ThreadFunction | None = ThreadFunction(function, self._context_name) if thread else None
            self._schema = {} if self._arguments is None else arguments_schema(self._arguments)
            if role is not None:
                self._check_result(signature.returns, role)
        except TypeError as error:
            kind = UndefinedName if isinstance(error, UndefinedName) else TypeError
            raise kind(f"{label}: {error}") from error
        self.is_async: bool = thread or any(
            inspect.iscoroutinefunction(each)
            for each in (function, getattr(type(function), "__call__", None))  # noqa: B004
        )
        self.takes_context: bool = thread or self._context_name is not None
        self.returns: Any = signature.returns
        self.description: str | None = signature.description
        for parameter_name, text in signature.descriptions.items() if converts else ():
            if parameter_name in self.parameters:
                self._schema["properties"][parameter_name].setdefault("description", text)

    def _read(self, parameters: Mapping[str, Parameter], converts: bool) -> None:
        for name, parameter in parameters.items():
            is_context = _is_context(parameter.annotation)
            # The context, and arguments that are not converted, are passed by name.
            if parameter.kind is Parameter.POSITIONAL_ONLY and (is_context or not converts):
                raise TypeError(f"parameter {name} must not be positional-only")
            if not is_context:
                self.parameters[name] = parameter
            elif self._context_name is not None:
                raise TypeError(f"{self._context_name} and {name} are both a Context")
            else:
                self._context_name = name

    @property
    def required(self) -> frozenset[str]:
        """The names of the arguments without a default."""
        if self._arguments is not None:
            return self._arguments.required
        return frozenset(name for name, each in self.parameters.items() if each.default is Parameter.empty)

    def schema(self, *, ignores_unknown: bool = False) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the arguments; {} if they are not converted."""
        if not ignores_unknown:
            return self._schema
        return {name: value for name, value in self._schema.items() if name != "additionalProperties"}

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of arguments, by name."""
        properties = self._schema.get("properties", {})
        return {name: schema["description"] for name, schema in properties.items() if "description" in schema}

    def convert(self, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """Convert arguments to the annotated types.

        Args:
            strict: If False, strings are converted where the type requires it: to numbers, booleans and so on, and as
                JSON texts to arrays and objects.

        Raises Misfit: an argument is missing, unknown, or of the wrong type.
        """
        if self._arguments is None:
            return dict(arguments)
        return self._arguments.convert(arguments, None if strict else json_of)

    def are_plain(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether arguments are valid and need no conversion, as far as their classes show it.

        Only arguments without constraints are checked: str, int, float, bool, None, and unions of these.
        """
        shape = (*arguments, *map(type, arguments.values()))
        if shape in self._plain_shapes:
            return True
        found = self._arguments
        plain = None if found is None else found.plain
        if found is None or plain is None:
            return False
        # If there are as many arguments as parameters, and each is known (the loop checks it), none is missing.
        if len(arguments) != len(plain) and not found.required <= arguments.keys():
            return False
        for name, value in arguments.items():
            if name not in plain or type(value) not in plain[name]:
                return False
        # Bounded, because the names and the classes come from the client.
        if len(self._plain_shapes) < 64:
            self._plain_shapes.add(shape)
        return True

    def invoke(self, arguments: Mapping[str, Any], context: Context | None) -> Any:
        """Call the function with converted arguments. Return its result, or an awaitable of it.

        Args:
            context: The context; None only if `takes_context` is False.
        """
        if self._thread is not None:
            assert context is not None
            return self._thread(arguments, context)
        if self._context_name is None:
            return self._function(**arguments)
        return self._function(**arguments, **{self._context_name: context})

    def _check_result(self, returns: Any, role: Role) -> None:
        # Its result would be a generator, which has no JSON form, and which no code would close.
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise TypeError("a generator is not supported")
        if returns is not Parameter.empty and (part := _unsupported(returns, _REFUSED[role])) is not None:
            is_class = isinstance(part, type) and not get_args(part)
            raise TypeError(f"a result of type {part.__qualname__ if is_class else part} is not supported")


def _is_context(annotation: Any) -> bool:
    """Whether an annotation is `Context`, perhaps with None or metadata."""
    if get_origin(annotation) in (typing.Union, types.UnionType, Annotated):
        return any(_is_context(part) for part in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _unsupported(annotation: Any, refused: tuple[type, ...]) -> Any:
    """The part of a result's annotation that certainly has no JSON form, or None."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    inner: tuple[Any, ...] = ()
    if origin is Annotated:
        inner = (annotation.__origin__,)
    elif origin is typing.Union or origin is types.UnionType:
        inner = tuple(part for part in arguments if part is not types.NoneType)
    elif isinstance(origin, type) and issubclass(origin, Awaitable):
        inner = arguments[-1:]
    elif origin is None and hasattr(annotation, "__supertype__"):
        inner = (annotation.__supertype__,)
    if inner:
        return next((part for part in inner if _unsupported(part, refused) is not None), None)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (Any, object) or isinstance(annotation, TypeVar):
        return None
    if issubclass(kind, refused) or issubclass(kind, (Iterator, AsyncIterable)):
        return annotation
    # The type of the items matters: `list[Generator]` is as wrong as a generator.
    if issubclass(kind, Iterable) and not typing.is_typeddict(kind):
        parts = (part for part in arguments if part is not Ellipsis)
        return next((part for part in parts if _unsupported(part, ()) is not None), None)
    # msgspec does not know paths, but they are written as strings.
    if issubclass(kind, (PurePath, types.NoneType)):
        return None
    try:
        type_of(annotation)
    except Exception:
        return annotation
    return None
