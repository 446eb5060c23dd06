"""What the layers share, and authors of layers, transports and adapters use, without an event loop.

Checks of arguments: a wrong argument is refused where it is passed, and the error names it. The package's loggers, JSON
pointers (RFC 6901), files of settings, shortened reprs, and keys for ids. The rule for exceptions of a user's function,
what waits for an event, and what can be cancelled on its own.

The names in `__all__` are public.
"""

from __future__ import annotations

import contextlib
import os
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import islice
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final, Self

from .types import UNSET, IdKey, id_key, is_awaitable

if TYPE_CHECKING:
    import asyncio
    import logging

__all__ = [
    "MAX_PORT",
    "IdKey",
    "Waiters",
    "check_callable",
    "check_count",
    "check_headers",
    "check_number",
    "check_seconds",
    "check_texts",
    "check_type",
    "child_of",
    "has_surrogates",
    "id_key",
    "is_failure",
    "is_header_name",
    "is_header_value",
    "loader",
    "logger_of",
    "nearest_of",
    "on_failure",
    "pointer_parts",
    "pointer_to",
    "read_settings",
    "reference_target",
    "say",
]

MAX_PORT: Final = 65535
"""The largest number of a port."""


def check_seconds(
    name: str, value: object, *, may_be_none: bool = True, may_be_zero: bool = True, may_be_infinite: bool = False
) -> None:
    """Check a duration.

    Args:
        name: The name of the option, for the error's text.
        value: What the caller gave.
        may_be_none, may_be_zero, may_be_infinite: Whether these are accepted.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is negative or NaN, or 0 or infinite where that is not accepted.
    """
    if value is None and may_be_none:
        return
    # bool is a subclass of int: `timeout=True` is a mistake, not one second.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    # `not value >= 0` instead of `value < 0`, because every comparison with NaN is false.
    # An int beyond the range of floats could not be added to the time.
    is_too_large = value > sys.float_info.max and not (may_be_infinite and value == inf)
    if not value >= 0 or (value == 0 and not may_be_zero) or is_too_large:
        wanted = "0 seconds or more" if may_be_zero else "more than 0 seconds"
        bound = "" if may_be_infinite and not is_too_large else ", and finite"
        raise ValueError(f"{name} must be {wanted}{bound}")


def check_count(
    name: str,
    value: object,
    minimum: int,
    maximum: int | None = sys.maxsize,
    *,
    may_be_none: bool = True,
    show: Callable[[int], str] = str,
) -> None:
    """Check a whole number that has a minimum.

    Args:
        name, value, may_be_none: As in `check_seconds`.
        minimum: The smallest accepted value.
        maximum: The largest one; None: no limit. By default the largest that C can hold.
        show: How the error's text writes the range, such as `oct`.

    Raises:
        TypeError: `value` is not an int.
        ValueError: `value` is out of range.
    """
    if value is None and may_be_none:
        return
    if type(value) is not int:  # not True, which is an int in Python
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value >= minimum and (maximum is None or value <= maximum):
        return
    if maximum is None or (maximum == sys.maxsize and value < minimum):
        raise ValueError(f"{name} must be {show(minimum)} or more")
    raise ValueError(f"{name} must be {show(minimum)} to {show(maximum)}")


def check_number(name: str, value: object, *, may_be_none: bool = True) -> None:
    """Check a number that is sent.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is NaN or infinite, which JSON does not have.
    """
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{name} must be finite")


def check_type(name: str, value: object, *kinds: Any, may_be_none: bool = False) -> None:
    """Check the type of an argument.

    Args:
        name, value, may_be_none: As in `check_seconds`.
        kinds: The classes that are accepted, which may be protocols.

    Raises:
        TypeError: `value` is not an instance of any of them.
    """
    if not (value is None and may_be_none) and not isinstance(value, kinds):
        wanted = " or ".join([f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}" for kind in kinds])
        raise TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


def check_items(name: str, value: object, *kinds: Any) -> None:
    """Check a list or tuple, or None. A string is refused, because it is a sequence of its characters.

    Raises:
        TypeError: `value` is neither, or an item of it is not an instance of any of `kinds`.
    """
    check_type(name, value, list, tuple, may_be_none=True)
    if isinstance(value, list | tuple):
        for item in value:
            check_type(f"an item of {name}", item, *kinds)


def nearest_of(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like one that is unknown.

    Args:
        name: The unknown name. Its first 200 characters count.
        known: The known names, of which the first 100 are compared.
        cutoff: How much they must be alike, from 0 to 1.

    Returns:
        The known name; None if none is like it.
    """
    import difflib  # loaded for the first that is unknown

    # Bounded, because the comparison takes quadratic time.
    bounded = [each for each in islice(known, 100) if len(each) <= 200]
    return next(iter(difflib.get_close_matches(name[:200], bounded, n=1, cutoff=cutoff)), None)


def unknown_option(owner: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the exception for an option that does not exist, with the one that was probably meant."""
    nearest = nearest_of(name, known)
    return TypeError(f"{owner} has no option {name!r}{'' if nearest is None else f'; did you mean {nearest!r}?'}")


def check_callable(name: str, value: object, *, may_be_none: bool = True, may_be_async: bool = False) -> None:
    """Check an argument that is a function.

    Raises:
        TypeError: `value` is not callable, or it is async where nothing awaits what it returns.
    """
    if value is None and may_be_none:
        return
    if not callable(value):
        raise TypeError(f"{name} must be callable, not {type(value).__name__}")
    # Its coroutine would never run, or would count as true, and the interpreter would only print a warning.
    if not may_be_async and is_async(value):
        raise TypeError(f"{name} must not be async")


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function is a coroutine function, or an object whose `__call__` is one."""
    import inspect  # the codec does not need it

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def check_serve(serve: object) -> None:
    """Check the function that serves connections.

    Raises:
        TypeError: It is not callable. For handlers the text says what makes a function of them.
    """
    if not callable(serve):
        kind = type(serve).__name__
        raise TypeError(f"serve must be a function, not {kind}: jsonrpc_fast.session.serving(handlers) makes one")


def check_texts(name: str, value: object) -> None:
    """Check a mapping of names to strings, such as headers, or None.

    Raises:
        TypeError: `value` is not a mapping, or a name or a value in it is not a str.
    """
    check_type(name, value, Mapping, may_be_none=True)
    if isinstance(value, Mapping):
        for key, text in value.items():
            check_type(f"a name in {name}", key, str)
            check_type(f"a value in {name}", text, str)


def checked_path(name: str, value: object, at: int = 0) -> str:
    """Return text that is passed to the system, such as a path or a part of a command.

    Raises TypeError if the value is neither a str nor a path; ValueError if it contains a lone surrogate, or a NUL from
    the index `at` on.
    """
    check_type(name, value, str, os.PathLike)
    text = os.fspath(value)  # type: ignore[call-overload]
    check_type(name, text, str)
    if "\0" in text[at:]:
        raise ValueError(f"{name} must not contain a NUL{' after its first character' if at else ''}")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{name} must not contain a lone surrogate") from None
    return str(text)


def is_header_name(text: str) -> bool:
    """Return whether a text can be the name of an HTTP header (RFC 9110, section 5.1)."""
    return re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", text) is not None


def is_header_value(text: str) -> bool:
    """Return whether a text can be the value of an HTTP header, in ASCII only (RFC 9110, section 5.5)."""
    return re.fullmatch(r"(?:[!-~](?:[ -~]*[!-~])?)?", text) is not None


def check_headers(headers: Mapping[str, str] | None, *, any_values: bool = False) -> None:
    """Check the user's headers. An HTTP library would show their values in its errors and logs.

    Args:
        headers: The headers, or None.
        any_values: Whether only the names are checked.

    Raises:
        TypeError: They do not map strings to strings.
        ValueError: HTTP does not allow a name or a value. The text contains the name, if it is allowed, but no value.
    """
    check_texts("headers", headers)
    if not all(map(is_header_name, headers or ())):
        raise ValueError("the names of headers must consist of letters, digits, - and _")
    for name, value in () if any_values else (headers or {}).items():
        if not is_header_value(value):
            raise ValueError(f"the header {name} must be one line of ASCII characters, without blanks around it")


def say(text: str) -> None:
    """Write a message to stderr at once, so that nothing of other threads comes between its parts.

    Where stderr is closed or its disk is full, what the message is about goes on.

    Args:
        text: One line or several, without the end of the last.
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")  # `print` writes the end of the line by itself


def logger_of(part: str) -> logging.Logger:
    """Return the logger of a part of the package: the child of `jsonrpc_fast` with this name.

    The application configures it. Importing sets no level, adds no handler and reads no environment variable. So Python
    prints warnings and errors on stderr if the application has not configured logging: the exception of a handler is
    not lost.
    """
    import logging  # `import jsonrpc_fast` must not load it

    return logging.getLogger(f"jsonrpc_fast.{part}")


class Seldom:
    """Limits a line of the log that others can cause: once a second, with the number of those that were left out."""

    __slots__ = ("_left_out", "_next")

    def __init__(self) -> None:
        self._next = -1.0
        self._left_out = 0

    def take(self, now: float) -> str | None:
        """Return what to append to the line, or None if it is left out.

        Args:
            now: The time in seconds, from any monotonic clock.
        """
        if now < self._next:
            self._left_out += 1
            return None
        self._next = now + 1.0
        count, self._left_out = self._left_out, 0
        return f" ({count} more were not logged before)" if count else ""


def has_surrogates(text: str) -> bool:
    """Return whether `text` holds a lone surrogate, so that it cannot be written as UTF-8."""
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return True
    return False


# SystemExit, because a library that a handler calls may call `sys.exit`: a peer must not end the server that way.
HANDLER_FAILURES: Final = (Exception, SystemExit)
"""Exceptions of a handler that fail only its own message. KeyboardInterrupt and the cancellations of asyncio, anyio and
trio propagate to the caller of the handler."""


def cancelled_errors() -> tuple[type[BaseException], ...]:
    """Return asyncio's CancelledError; nothing where asyncio is not loaded, and nobody raises it."""
    asyncio = sys.modules.get("asyncio")
    return () if asyncio is None else (asyncio.CancelledError,)


def is_future(value: object) -> bool:
    """Return whether a value is a future of asyncio, which need not be loaded."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio.isfuture(value)


def is_foreign_cancellation(error: BaseException | None) -> bool:
    """Return whether an exception is a CancelledError although the current task was not cancelled."""
    if not isinstance(error, cancelled_errors()):
        return False
    asyncio = sys.modules["asyncio"]
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop is running
        return True
    # `cancelling` counts the calls of `cancel` that the task has not taken back (`uncancel`).
    return task is None or not task.cancelling()


def is_failure(error: BaseException | None) -> bool:
    """Return whether an exception of a user's function fails only the message or the request that called it.

    An `Exception`, SystemExit, and a foreign cancellation, such as the cancellation of a future that the function
    awaits, do. Everything else propagates: KeyboardInterrupt, the cancellation of the task itself, and those of anyio
    and trio.
    """
    return isinstance(error, HANDLER_FAILURES) or is_foreign_cancellation(error)


class on_failure:  # as a function, like `contextlib.suppress`
    """A context manager that undoes begun work if its block raises. The exception propagates.

        with on_failure(process.kill):
            read_first_line(process)

    Args:
        undo: Called without arguments. It may be async in an `async with`.
    """

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._undo()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            undone = self._undo()
            if is_awaitable(undone):
                await undone  # type: ignore[misc]


class TaskPart:
    """A block that can be cancelled without the rest of the running task of asyncio, as in `asyncio.timeout`.

    Its own cancellation ends with the block. A cancellation of the whole task is passed on. `cancellations`: how many
    times the part was cancelled. It may still have ended in another way.
    """

    task: Any
    cancellations: int = 0
    _has_ended = False

    def __init__(self) -> None:
        import asyncio

        self.task = task = asyncio.current_task()
        assert task is not None
        self._before = task.cancelling()

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the block. Return False, and do nothing, if it has ended."""
        if self._has_ended:
            return False
        self.cancellations += 1
        cancelled: bool = self.task.cancel()
        return cancelled

    @property
    def is_task_cancelled(self) -> bool:
        """Whether something else has cancelled the whole task since the part has begun; known when it has ended."""
        return bool(self.task.cancelling() > self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self._has_ended = True
        if not self.cancellations:
            return False
        # A cancellation that is not taken back would make an `asyncio.timeout` around this block fail.
        for _ in range(self.cancellations):
            self.task.uncancel()
        return isinstance(error, cancelled_errors()) and not self.is_task_cancelled


class Waiters(list["asyncio.Future[None]"]):
    """Coroutines on asyncio that wait for the same event: until `wake` is called."""

    __slots__ = ()

    async def wait(self) -> None:
        """Wait for the next call of `wake`."""
        import asyncio

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.append(future)
        # A cancelled waiter is still in the list; one that was woken is not.
        try:
            await future
        finally:
            if future in self:
                self.remove(future)

    def wake(self) -> None:
        """Let all waiters continue."""
        # The list is emptied first: a waiter that waits again, as in a loop, is not woken by this call.
        futures = self[:]
        self.clear()
        for future in futures:
            if not future.done():  # cancelled, but its task has not run yet
                future.set_result(None)


INDEX_DIGITS: Final = 18
"""The maximum number of digits of an index of an array: it fits into a Py_ssize_t."""


def pointer_to(parts: Iterable[str | int]) -> str:
    """Return the pointer to a place: the names and indexes on the way to it."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def pointer_parts(pointer: str) -> list[str]:
    """Return the names and indexes of a pointer, which is "" or begins with a slash."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def index_of(part: str) -> int:
    """Return the index of an array that a part of a pointer is (section 4); -1 if it is none."""
    is_index = part.isascii() and part.isdigit() and len(part) <= INDEX_DIGITS and (part[0] != "0" or part == "0")
    return int(part) if is_index else -1


def child_of(value: Any, part: str) -> Any:
    """Return the member or the item that one part of a pointer leads to; UNSET if it leads nowhere."""
    if isinstance(value, Mapping):
        return value.get(part, UNSET)
    if isinstance(value, list) and 0 <= (index := index_of(part)) < len(value):
        return value[index]
    return UNSET


def reference_target(document: Any, reference: str) -> Any:
    """Return the value to which a `$ref` within a document leads.

    Args:
        document: The JSON value that contains the reference.
        reference: A URI reference. Only a fragment that is a pointer (section 6) is followed.

    Returns:
        The value; UNSET if the reference leads nowhere, or out of the document.
    """
    if not (reference == "#" or reference.startswith("#/")):
        return UNSET
    from urllib.parse import unquote  # imported here: the codec imports this module, and few documents have references

    for part in pointer_parts(unquote(reference[1:])):
        document = child_of(document, part)
    return document


SHOWN_BYTES: Final = 64
"""Longer bytes are shown by half as many at each end."""


def read_settings(data: bytes) -> Any:
    """Return the value in a file of settings, which is JSON in UTF-8. A mark of its bytes may precede it.

    Raises:
        ValueError: It is malformed, or an object has a member twice, of which one would be dropped. The text begins
            with "it", and shows no value, since that may be a secret.
    """
    import json  # loaded for the first file

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"it has the member {name!r} twice")
            found[name] = value
        return found

    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=unique)
    # Without the causes: these hold the text.
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not plain JSON: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not plain JSON, at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ValueError("it nests too deeply") from None


class _Shortener(reprlib.Repr):
    # `reprlib` finds a method by the name of the value's class: `repr_` and the name.

    def __init__(self) -> None:
        super().__init__()
        # Shows a message, its payload, and one level inside the payload.
        self.maxlevel = 3
        # Real methods and ids are shorter, so they are shown whole.
        self.maxstring = 80

    def repr_int(self, x: int, level: int) -> str:
        # CPython refuses to convert a huge int: with the lowest limit, one of 641 digits. 512 bits are 155 digits.
        return repr(x) if x.bit_length() < 512 else f"<int of {x.bit_length()} bits>"

    def repr_bytes(self, x: bytes, level: int) -> str:
        # `reprlib` would make the whole repr first, and then shorten it.
        if len(x) > SHOWN_BYTES:
            x = x[: SHOWN_BYTES // 2] + x[-SHOWN_BYTES // 2 :]
        return self.repr_instance(x, level)

    repr_bytearray = repr_bytes

    def repr_Error(self, x: object, level: int) -> str:
        # An Error shortens its own repr.
        return repr(x)

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        # `reprlib` would sort the whole dict first.
        if x and level <= 0:
            return "{...}"
        items = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key in islice(x, self.maxdict)]
        return "{" + ", ".join(items + ["..."] * (len(x) > self.maxdict)) + "}"


_shortener = _Shortener()


def shorten(value: object) -> str:
    """Return `repr(value)`, shortened so that its length and its time are bounded."""
    return _shortener.repr(value)


def within(seconds: float | None) -> str:
    """Return what a text says of a time that was too short: "in 5 s", or "in time" if it is not known."""
    return "in time" if seconds is None else f"in {round(seconds, 3):g} s"


def loader(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562).

    Args:
        package: Its `__name__`.
        homes: The names by the module of it that defines them. Type checkers see imports beside it.
    """
    found = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{found[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
