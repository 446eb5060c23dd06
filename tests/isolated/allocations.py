"""Allocations fail, at each point of each call: `python -m tests.isolated.allocations`.

    python -m tests.isolated.allocations --seconds 600 --seed 7    # what `nox -s run -- allocations` runs

Rules:
- A call returns what it returns with enough memory, or raises MemoryError. Then the same call works.
- The calls are those of a table, then the same calls with random messages and payloads, until the time is up.
- The number of the first allocation that fails increases until a call succeeds several times without a failure. One
  allocation fails, or two (then the exception has no traceback), or all from there on.
- No memory is lost: sweeps are repeated until they add less than a block each to the memory in use.
- orjson crashes without memory. While it runs, every allocation succeeds; after it, the count begins again in a second
  pass. So its functions are wrapped before the codec is imported, and this module needs a process of its own.
- The memory that a call gets has been used before, so a field that is read before it is set is not zero. A call fails
  if the interpreter prints that it cannot free an object.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import orjson

try:
    import _testcapi
except ImportError:
    sys.exit("this interpreter has no _testcapi, which makes allocations fail")

printed: list[str] = []
"""What the interpreter would have printed since the call began."""
_functions = {name: getattr(orjson, name) for name in ("dumps", "loads")}


class Memory:
    """Which allocation fails next."""

    after_orjson = False
    """Whether counting begins when orjson returns."""
    number = 0
    span = 1
    """How many fail."""

    @classmethod
    def fail(cls) -> None:
        _testcapi.set_nomemory(cls.number, cls.number + cls.span)


class Count:
    """The calls so far, and those that raised MemoryError."""

    calls = 0
    failed = 0


def with_memory(name: str) -> Callable[..., Any]:
    function = _functions[name]

    def call(*arguments: Any, **named: Any) -> Any:
        _testcapi.remove_mem_hooks()
        found = function(*arguments, **named)
        if Memory.after_orjson:
            Memory.fail()
        return found

    return call


for _name in _functions:
    setattr(orjson, _name, with_memory(_name))

from jsonrpc_fast import JSONRPC, Limits, Profile  # noqa: E402
from jsonrpc_fast.codec import _core as impl  # noqa: E402
from jsonrpc_fast.errors import EncodeError  # noqa: E402
from jsonrpc_fast.framing import FRAMINGS  # noqa: E402
from jsonrpc_fast.types import BYTE_ORDER_MARK  # noqa: E402

from ..fuzz.mutate import message as mutated_message  # noqa: E402
from ..fuzz.objects import Objects  # noqa: E402

SUCCESSES: Final = 4
"""After this many calls in a row without a MemoryError, all allocations of a call have failed."""
MOST: Final = 3000
SPANS: Final = (10**9, 2, 1)
SWEEPS: Final = (4, 8, 16, 32, 64, 128)
"""A block that each sweep of each of these series adds to the memory in use has leaked, and is not kept for later.

The interpreter keeps some tens of blocks by chance in a series of any length, so only a long series distinguishes them
from a leak in each sweep.
"""
NEW_PROFILE: Final = "feed with a new profile"
NOT_JUDGED: Final = {
    NEW_PROFILE,  # the core keeps the rules of up to 64
    # These call Python functions that share a variable with a function inside them. Without memory for its cell,
    # CPython 3.11 and 3.12 lose the arguments of such a function (MAKE_CELL in ceval.c).
    *(
        ("encode with default", "encode with a profile", "encode_dict", "from_dict", "parse")
        if sys.version_info < (3, 13)
        else ()
    ),
}
"""Calls that keep something when an allocation fails."""
FREE_MESSAGES: Final = 2500
"""More than the core keeps of the freed messages of each class."""
USED: Final = tuple([b"\x01" * (size - sys.getsizeof(b"")) for size in range(48, 144, 16)])
"""Contents of bytes objects; each fills the memory of a small object."""
LOST: Final = "error return without exception set"
"""What CPython 3.11 reports where an exception passes a Python frame that finds no memory for its traceback.

A caller in C then gets no exception at all, so what orjson refuses is left out.
"""
KEEP: Final = Profile(extra_members="keep")
STRICT: Final = Profile(extra_members=False)
SMALL: Final = JSONRPC.replace(limits=Limits(message_bytes=64))
MONEY: Final = Profile(floats="decimal")

PROFILES: Final = (JSONRPC, KEEP, STRICT, MONEY)
REQUEST: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5,"x",{"b\xc3\xa9":null}],"long":"' + b"y" * 100
    + b'\\n\xc3\xa9\xe6\xbc\xa2"}}'
)  # fmt: skip
TEXTS: Final = (
    REQUEST,
    b'{"jsonrpc":"2.0","id":"abc","result":[' + b",".join(b'"s%d"' % number for number in range(300)) + b"]}",
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m\xc3\xa9","data":[[1]]}}',
    b'{"jsonrpc":"2.0","id":1,"x":1,"y":[2],"error":{"code":-5,"message":"m","data":[1e100,-0],"z":9}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b","params":[]},5,{"jsonrpc":"2.0","id":1}]',
    b'{"jsonrpc":"2.0","id":1,"result":123456789012345678901234567890}',
    b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"\\u0061"}',
    b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100 + b"]" * 100 + b"}",
    b'{"jsonrpc":"2.0","id":1.5,"result":"' + b"\xf0\x9f\x98\x80" * 2000 + b'"}',
    b'{"jsonrpc":',
    b"\xff",
    b"",
)


def framed(framing: str, text: bytes) -> bytes:
    """Three frames of a text."""
    if framing == "content-length":
        return b"Content-Length: %d\r\n\r\n%s" % (len(text), text) * 3
    if framing == "sse":
        return b"data: " + text.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n\n" + b"data:\ndata: x\n\n" * 2
    return (text + b"\n") * 3


def fed(framing: str, data: bytes, size: int, profile: Profile = JSONRPC) -> list[Any]:
    """What a decoder returns for each chunk, and at the end."""
    decoder: Any = impl.Decoder(framing, profile)
    items = []
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        items.append(decoder.feed(chunk))
    items.append(decoder.close())
    return items


def reading(text: bytes) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls that read a text, by name."""
    for profile in PROFILES:
        for raw in (False, True):
            yield "decode", lambda profile=profile, raw=raw: impl.decode(text, profile, raw=raw)
        yield "decode_dict", lambda profile=profile: impl.decode_dict(text, profile)
    yield "decode of a bytearray", lambda: impl.decode(bytearray(text))
    yield "decode of a str", lambda: impl.decode(text.decode("utf-8", "replace"))
    yield "classify", lambda: impl.classify(text)
    yield "Raw", lambda: impl.Raw(text)
    yield "Raw.decode", lambda: impl.Raw(text).decode()
    yield "repr", lambda: bool(repr(impl.decode(text, raw=True)))  # reprlib hides the errors of parts
    for framing in FRAMINGS:
        data = framed(framing, text)
        yield f"feed {framing}", lambda framing=framing, data=data: fed(framing, data, 37)
        yield f"feed {framing} at once", lambda framing=framing, data=data: fed(framing, data, len(data))
        yield f"feed {framing} within limits", lambda framing=framing, data=data: fed(framing, data, 37, SMALL)
        data = BYTE_ORDER_MARK + data
        yield f"feed {framing} with a mark", lambda framing=framing, data=data: fed(framing, data, 37)
    yield NEW_PROFILE, lambda: impl.Decoder(limits=SMALL.limits).feed(text + b"\n")
    data = framed("content-length", text)
    yield "feed auto with headers", lambda: fed("auto", data, 37)


def writing(payload: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The calls that write a payload, by name."""
    response = impl.Response(1, payload)
    error = impl.Response("\u6f22", error=impl.Error(2**40, "\xe9" * 300, payload))
    yield "encode_request", lambda: impl.encode_request("\u6f22" * 50, "m\xe9", [payload])
    yield "encode_notification", lambda: impl.encode_notification("m", {"a": payload})
    yield "encode_result", lambda: impl.encode_result(1, payload)
    yield "encode_error", lambda: impl.encode_error(2**80, -1, "\xe9" * 3000, payload)
    yield "encode", lambda: impl.encode([response, error, impl.Notification("m", [payload], extra={"x": 1})])
    yield "encode with a profile", lambda: impl.encode([response, impl.Response(2, Decimal("1.50"))], MONEY)
    yield "encode with default", lambda: impl.encode(response, default=str)
    yield "encode a batch", lambda: impl.encode([response] * 20 + [error])
    yield "encode_dict", lambda: impl.encode_dict({"jsonrpc": "2.0", "id": 2**70, "method": "m", "params": [payload]})
    yield "to_dict", lambda: error.to_dict()
    yield "parse", lambda: impl.parse([{"jsonrpc": "2.0", "id": 1, "result": payload, "x": 1}, {}], KEEP)
    yield "from_dict", lambda: impl.Error.from_dict({"code": 1, "message": "m", "data": payload, "x": 1}, KEEP)
    yield "constructors", lambda: (impl.Request(1, "m", [payload]), impl.Response(1, error=impl.Error(1, "m", payload)))


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """What a call returns or raises, to compare."""
    try:
        return "returned", call()
    except MemoryError:
        raise
    except SystemError as error:
        if str(error) == LOST:
            raise MemoryError from None
        raise
    except (EncodeError, ValueError, TypeError) as error:
        return "raised", f"{type(error).__name__}: {error}"


def use_memory() -> None:
    """Fill free memory with bytes that are not zero."""
    objects = [bytes(bytearray(content)) for content in USED for _ in range(100)]
    del objects


def shown(found: object) -> str:
    """What a call has returned, to compare."""
    try:
        return repr(found)
    except RecursionError:
        return "too deep to show"


def sweep(name: str, call: Callable[[], Any], expected: str, after_orjson: bool) -> None:
    """Make a call once for each of its allocations, which is the first that fails.

    Raises:
        SystemError: a call has another outcome.
    """
    succeeded = number = 0
    while succeeded < SUCCESSES and number < MOST:
        Memory.number = number
        Memory.after_orjson = after_orjson
        found: Any = None
        has_failed = False
        printed.clear()
        use_memory()
        try:
            if not after_orjson:
                Memory.fail()
            found = outcome(call)
        except MemoryError:
            has_failed = True
        except SystemError as error:
            raise SystemError(f"{name}, allocation {number}") from error
        finally:
            Memory.after_orjson = False
            _testcapi.remove_mem_hooks()
        if printed:
            raise SystemError(f"{name}, allocation {number}: printed {printed}")
        number += 1
        Count.calls += 1
        if has_failed:
            Count.failed += 1
            succeeded = 0
            found = outcome(call)
        else:
            succeeded += 1
        if shown(found) != expected:
            raise SystemError(f"{name}, allocation {number - 1}: {found!r:.300} instead of {expected:.300}")


def attempt(name: str, call: Callable[[], Any]) -> None:
    """Let allocations of a call fail in all ways.

    Raises:
        SystemError: a call has another outcome, or loses memory each time.
    """
    kind, value = outcome(call)
    if kind == "raised" and value.startswith("EncodeError"):
        return
    expected = shown((kind, value))
    for after_orjson in (False, True):
        for Memory.span in SPANS:
            sweep(name, call, expected, after_orjson)
        if name in NOT_JUDGED or sys.getallocatedblocks() == 0:  # PYTHONMALLOC=malloc, as with the sanitizers
            continue
        for sweeps in SWEEPS:
            before = blocks()
            for _ in range(sweeps):
                sweep(name, call, expected, after_orjson)
            if blocks() - before < sweeps:
                break
        else:
            raise SystemError(f"{name}: memory is lost each time that its allocations fail")


def blocks() -> int:
    """The blocks of memory in use, while the core keeps no freed message."""
    messages.clear()
    for make in MAKERS:
        messages.extend([make() for _ in range(FREE_MESSAGES)])
    gc.collect()
    return sys.getallocatedblocks()


messages: list[Any] = []
MAKERS: Final = (
    lambda: impl.Request(1, "m"),
    lambda: impl.Notification("m"),
    lambda: impl.Response(1, 1),
    lambda: impl.Error(1, "m"),
)


def inputs(seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The table, and then random calls without end."""
    for text in TEXTS:
        yield from reading(text)
    for payload in (
        {"a": [1, 2.5, "x" * 5000, "\xe9" * 3000, None, (True,)], "e": {"z": [{}] * 50}},
        [impl.Raw(b"[1]")],
    ):
        yield from writing(payload)
    rng = random.Random(seed)
    objects = Objects(rng)
    while True:
        yield from reading(mutated_message(rng, list(TEXTS)))
        yield from writing(objects.next())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--calls", type=int, default=sys.maxsize, help="maximum number of different calls")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    faulthandler.enable()
    gc.collect()
    gc.freeze()  # so that the collections of `blocks` are short
    logging.disable()  # of failing handlers
    end = time.monotonic() + options.seconds
    different = 0
    sys.excepthook = lambda kind, error, traceback: printed.append(f"{kind.__name__}: {error}")
    try:
        for name, call in itertools.islice(inputs(options.seed), options.calls):
            if time.monotonic() >= end:
                break
            if different % 100 == 0:
                print(f"from call {different}, {name}", file=sys.stderr, flush=True)  # so that a crash can be found
            attempt(name, call)
            different += 1
    finally:
        sys.excepthook = sys.__excepthook__
    print(
        f"{different:,} different calls, {Count.calls:,} runs, {Count.failed:,} raised MemoryError, seed {options.seed}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
