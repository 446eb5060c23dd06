"""Objects that change what is read or written, at every hook that Python has: `python -m tests.isolated.hooks`.

    python -m tests.isolated.hooks --seconds 600             # also: nox -s run -- sanitized -m tests.isolated.hooks
    python -m tests.isolated.hooks --inputs 500 --seed 7
    python -m tests.isolated.hooks --only 7/123              # one input of that seed

Rules:
- A hook is any Python code that the interpreter runs inside a call: methods of an object and of its metaclass,
  descriptors, comparisons, finalizers, callbacks of weak references, of the collector, of the codec itself.
- A hook clears, refills or extends a container of the call, calls the codec again, or raises.
- A call returns or raises an exception, but never SystemError. What it writes is JSON, line by line, and afterwards the
  codec works as before.
- While orjson writes, hooks neither change the containers nor raise: orjson would crash (docs/security.md). So orjson's
  function is wrapped before the codec is imported, and this module needs a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import datetime
import enum
import faulthandler
import gc
import itertools
import json
import logging
import pickle
import random
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import orjson

_dumps = orjson.dumps


class Hooks:
    """What the hooks of one input do, chosen by a seed."""

    rng = random.Random(0)
    containers: list[Any]
    """What the hooks change: lists, dicts and bytearrays of the call."""
    decoders: list[Any]
    in_orjson = 0
    depth = 0
    is_on = False


FIRED: Final[Counter[str]] = Counter()
"""How many times each hook has run, in all inputs."""


def written_by_orjson(*arguments: Any, **named: Any) -> bytes:
    Hooks.in_orjson += 1
    try:
        return _dumps(*arguments, **named)
    finally:
        Hooks.in_orjson -= 1


orjson.dumps = written_by_orjson

from jsonrpc_fast import JSONRPC, LENIENT, Profile  # noqa: E402
from jsonrpc_fast.codec import _core, _pure  # noqa: E402
from jsonrpc_fast.framing import FRAMINGS  # noqa: E402

LONG: Final = "x" * 600
"""A text after which the core lets orjson write objects of other types one by one."""
KEPT: Final[list[Any]] = [1, {"a": [1]}]
"""What attributes return: orjson reads a value from an attribute after it has released it."""
TEXTS: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,{"b":[2.5,[]]}]}}',
    b'{"jsonrpc":"2.0","id":"i","result":[[1],[2,[3]],{"c":{}}]}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m\xc3\xa9","data":[[1],{"b":[]}]}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"result":[[1]]},5]',
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":[123456789012345678901234567890,[[]]],"x":[[]]}',
    b'{"jsonrpc":"2.0","id":1,"method":',
    b'{"jsonrpc":"2.0","id":1,"result":[' + b"[" * 70 + b"]" * 70 + b"]}",
)
EXPECTED: Final = [repr(_core.decode(text)) for text in TEXTS]
PROFILES: Final = (
    JSONRPC,
    LENIENT,
    Profile(extra_members="keep"),
    Profile(extra_members=False),
    Profile(floats="decimal"),
)


def fire(name: str) -> None:
    """Run a hook."""
    if not Hooks.is_on or Hooks.depth >= 3:
        return
    FIRED[name] += 1
    Hooks.depth += 1
    rng = Hooks.rng
    try:
        if Hooks.containers and not Hooks.in_orjson and rng.random() < 0.7:
            change(rng.choice(Hooks.containers))
        choice = rng.random()
        if choice < 0.1:
            again(rng)
        elif choice < 0.15:
            gc.collect()
        elif choice < 0.2 and not Hooks.in_orjson:
            raise rng.choice((ValueError, TypeError, AttributeError, KeyError, RuntimeError))(name)
    finally:
        Hooks.depth -= 1


def change(container: Any) -> None:
    """Change a container, so that its items are freed unless another object holds them."""
    rng = Hooks.rng
    if isinstance(container, bytearray):
        if rng.random() < 0.5:
            container[:] = b"\xff" * len(container)  # it keeps its size: a view may be open
        else:
            with contextlib.suppress(BufferError):
                container.clear()
        return
    choice = rng.randrange(5)
    if choice == 0:
        container.clear()
    elif isinstance(container, list):
        if choice == 1:
            container[:] = [rng.choice((1, "y" * 600, [2], {"z": 3}))] * rng.randrange(40)
        elif choice == 2:
            container.extend([[1], {"q": 1}] * 60)
        elif choice == 3 and container:
            del container[rng.randrange(len(container))]
        else:
            container.insert(0, [value(rng, 2)])
    elif isinstance(container, dict):
        if choice == 1:
            dict.update(container, {str(number): [number] for number in range(rng.randrange(40))})
        elif choice == 2 and container:
            dict.popitem(container)
        elif choice == 3:
            for name in ("jsonrpc", "id", "method", "params", "result", "error", "code", "message"):
                dict.pop(container, name, None)
        else:
            dict.update(container, jsonrpc="2." + "0", id=f"id {rng.random()}", method=f"m {rng.random()}")


def again(rng: random.Random) -> None:
    """Call the codec inside a call of the codec."""
    index = rng.randrange(len(TEXTS))
    if repr(_core.decode(TEXTS[index])) != EXPECTED[index]:
        raise SystemError("a call inside a call reads another message")
    _core.encode_result(1, [{"a": 1.5}, (LONG,)])
    for decoder in Hooks.decoders:
        choice = rng.randrange(4)
        try:
            if choice == 0:
                decoder.__init__(rng.choice(list(FRAMINGS)))
            elif choice == 1:
                decoder.close()
            else:
                decoder.feed(TEXTS[index] + b"\n", rng.choice((None, 1)))
        except ValueError:
            pass  # it is at work, or closed


def hook(name: str, result: Callable[..., Any]) -> Any:
    """A method that runs a hook and then does its work."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        fire(name)
        return result(self, *arguments, **named)

    return method


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        fire(f"metaclass.__getattr__ {name}" if name == "__dataclass_fields__" else "metaclass.__getattr__")
        if name == "__dataclass_fields__" and Hooks.rng.random() < 0.5:
            return {}
        raise AttributeError(name)

    def __getattribute__(cls, name: str) -> Any:
        fire("metaclass.__getattribute__")
        return type.__getattribute__(cls, name)

    __instancecheck__ = hook("metaclass.__instancecheck__", lambda cls, value: type.__instancecheck__(cls, value))
    __subclasscheck__ = hook("metaclass.__subclasscheck__", lambda cls, value: type.__subclasscheck__(cls, value))
    __eq__ = hook("metaclass.__eq__", lambda cls, other: cls is other)
    __hash__ = hook("metaclass.__hash__", lambda cls: 1)


class Plain(metaclass=Meta):
    def __init__(self) -> None:
        self.a = [1]


class Watched:
    """An object with a hook at every access."""

    def __init__(self) -> None:
        self.a = [1]

    def __getattribute__(self, name: str) -> Any:
        fire("__getattribute__")
        return object.__getattribute__(self, name)

    __class__ = property(hook("__class__", lambda self: Watched))  # type: ignore[assignment]
    __repr__ = hook("__repr__", lambda self: "Watched()")
    __str__ = hook("__str__", lambda self: "watched")
    __eq__ = hook("__eq__", lambda self, other: False)
    __hash__ = hook("__hash__", lambda self: 1)
    __bool__ = hook("__bool__", lambda self: True)
    __len__ = hook("__len__", lambda self: 1)
    __iter__ = hook("__iter__", lambda self: iter(()))
    __index__ = hook("__index__", lambda self: 1)


class Lying:
    """An object that claims another class."""

    def __init__(self, claimed: type) -> None:
        self.claimed = claimed

    @property
    def __class__(self) -> Any:
        fire("__class__ of another")
        return self.claimed


class Key:
    """A key that compares with a name of a member."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        fire("key.__hash__")
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        fire("key.__eq__")
        return Hooks.rng.random() < 0.5 and self.name == other


class TextKey(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        fire("text key.__eq__")
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Finalized:
    def __del__(self) -> None:
        fire("__del__")


class Cyclic(Finalized):
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


class Referenced:
    """An object whose finalizer calls back."""

    def __init__(self) -> None:
        self.reference = weakref.ref(self, lambda _: None)
        CALLBACKS.append(weakref.ref(self, called_back))


CALLBACKS: list[weakref.ref[Any]] = []


def called_back(_: object) -> None:
    fire("weak reference")


class WholeNumber(int):
    __int__ = hook("int.__int__", lambda self: 5)
    __index__ = hook("int.__index__", lambda self: 5)
    __eq__ = hook("int.__eq__", lambda self, other: False)
    __hash__ = int.__hash__
    __repr__ = hook("int.__repr__", lambda self: "5")
    bit_length = hook("int.bit_length", lambda self: 900)


class Fraction(float):
    __float__ = hook("float.__float__", lambda self: 1.0)
    __repr__ = hook("float.__repr__", lambda self: "1.0")


class Text(str):
    __slots__ = ()
    encode = hook("str.encode", lambda self, *_: b"x")
    isascii = hook("str.isascii", lambda self: True)
    __len__ = hook("str.__len__", lambda self: 3)
    __getitem__ = hook("str.__getitem__", lambda self, _: "x")
    __eq__ = hook("str.__eq__", lambda self, other: str.__eq__(self, other))
    __hash__ = str.__hash__


class Members(dict):  # type: ignore[type-arg]
    values = hook("dict.values", lambda self: dict.values(self))
    items = hook("dict.items", lambda self: dict.items(self))
    keys = hook("dict.keys", lambda self: dict.keys(self))
    get = hook("dict.get", lambda self, *arguments: dict.get(self, *arguments))
    __iter__ = hook("dict.__iter__", lambda self: dict.__iter__(self))
    __len__ = hook("dict.__len__", lambda self: 10**6)
    __getitem__ = hook("dict.__getitem__", lambda self, name: dict.__getitem__(self, name))
    __contains__ = hook("dict.__contains__", lambda self, name: dict.__contains__(self, name))
    copy = hook("dict.copy", lambda self: dict.copy(self))


class Items(list):  # type: ignore[type-arg]
    __iter__ = hook("list.__iter__", lambda self: list.__iter__(self))
    __len__ = hook("list.__len__", lambda self: 10**6)
    __getitem__ = hook("list.__getitem__", lambda self, index: list.__getitem__(self, index))


class Level(enum.Enum):
    LOW = 1

    @property
    def value(self) -> Any:
        fire("enum.value")
        return KEPT


@dataclasses.dataclass
class Record:
    a: Any = 1
    b: Any = dataclasses.field(default_factory=lambda: [1, [2]])

    def __getattribute__(self, name: str) -> Any:
        fire("dataclass.__getattribute__")
        return object.__getattribute__(self, name)


@dataclasses.dataclass
class WithDict:
    a: Any = 1

    @property
    def __dict__(self) -> Any:
        fire("dataclass.__dict__")
        return KEPT[1]

    @__dict__.setter
    def __dict__(self, _: object) -> None: ...


class Described:
    def __get__(self, owner: object, kind: object = None) -> Any:
        fire("descriptor.__get__")
        return KEPT

    def __set__(self, owner: object, value: object) -> None: ...


@dataclasses.dataclass
class Slotted:
    __slots__ = ("__weakref__",)
    a: Any

    def __init__(self) -> None: ...


Slotted.a = Described()


class Pair(NamedTuple):
    first: Any
    second: Any


class Zone(datetime.tzinfo):
    utcoffset = hook("tzinfo.utcoffset", lambda self, _: datetime.timedelta(0))


class Rules(Profile):
    """A profile whose attributes run code."""

    def __getattribute__(self, name: str) -> Any:
        fire("profile.__getattribute__")
        return Profile.__getattribute__(self, name)


def keyed_class() -> Any:
    """An object of a class with a key that is compared where its members are looked up."""
    members: Any = {Key("__dataclass_fields__"): 1}
    return type("Keyed", (), members)()


ODD: Final[tuple[Callable[[], Any], ...]] = (
    Plain, Plain, Watched, lambda: Lying(dict), lambda: Lying(str), Cyclic, Finalized, Referenced, keyed_class,
    lambda: WholeNumber(7), lambda: Fraction(1.5), lambda: Text("text"), lambda: Members(a=1, b=[2]),
    lambda: Items([1, [2]]), lambda: Level.LOW, Record, WithDict, Slotted, lambda: Pair([1], {"a": 1}),
    lambda: datetime.datetime(2026, 11, 23, tzinfo=Zone()), lambda: {Key("a"): 1}, lambda: {TextKey("a"): [1]},
    lambda: _core.Raw(b"[1]"), lambda: b"bytes", lambda: {1}, lambda: Plain,
)  # fmt: skip


def value(rng: random.Random, level: int = 0) -> Any:
    """A payload in which one of three values is odd. Its containers are registered."""
    choice = rng.random()
    if choice < 0.35 or level > 3:
        return rng.choice(ODD)()
    if choice < 0.5:
        return rng.choice((1, 2.5, None, True, LONG, "é" * 300, f"text {choice}"))
    made: Any
    count = rng.randrange(5)
    if choice < 0.75:
        made = [value(rng, level + 1) for _ in range(count)]
    elif choice < 0.95:
        made = {f"name {number}": value(rng, level + 1) for number in range(count)}
    else:
        return tuple([value(rng, level + 1) for _ in range(count)])
    if rng.random() < 0.5:
        made = [LONG, *made] if type(made) is list else {"long": LONG, **made}
    Hooks.containers.append(made)
    return made


def members(rng: random.Random) -> dict[Any, Any]:
    """A message as a dict, whose names may be odd keys."""
    found: dict[Any, Any] = {}
    names = ["jsonrpc", "id", "method", "params", "result", "error", "x"]
    rng.shuffle(names)
    for name in names[: rng.randrange(2, 7)]:
        key = rng.choice((name, name, name, Key(name), TextKey(name)))
        error: dict[Any, Any] = rng.choice((
            {"code": 1, "message": "m"},
            {Key("code"): 1, TextKey("message"): Text("m"), "data": [1]},
            Members(code=WholeNumber(1), message=Text("m"), data=[2]),
        ))  # fmt: skip
        Hooks.containers.append(error)
        found[key] = {
            "jsonrpc": rng.choice(("2.0", "2." + "0", Text("2.0"))),
            "id": rng.choice((1, "a", WholeNumber(3), Text("u"), Fraction(2.0), 10**30, Watched())),
            "method": rng.choice(("m", f"m {rng.random()}", Text("m"))),
            "params": value(rng, 1),
            "result": value(rng, 1),
            "error": error,
            "x": value(rng, 2),
        }[name]
    Hooks.containers.append(found)
    return found


def default(_: object) -> Any:
    fire("default")
    return Hooks.rng.choice(([1], {"a": [2]}, "text", value(Hooks.rng, 3)))


def calls(rng: random.Random, impl: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One call of the codec with its name. Only its arguments hold what it reads."""
    profile: Any = rng.choice((*PROFILES, Rules()))
    payload = value(rng)
    given: dict[str, Any] = {"default": default} if rng.random() < 0.2 else {}
    if rng.random() < 0.2:
        given["option"] = rng.choice((orjson.OPT_NON_STR_KEYS, orjson.OPT_PASSTHROUGH_SUBCLASS, orjson.OPT_SORT_KEYS))
    identifier = rng.choice((1, "i", WholeNumber(4), Text("i"), 2.5, 10**30))
    method = rng.choice(("m", Text("m")))
    yield "encode_request", lambda: impl.encode_request(identifier, method, payload, **given)
    yield "encode_notification", lambda: impl.encode_notification(method, payload, **given)
    yield "encode_result", lambda: impl.encode_result(identifier, payload, **given)
    yield "encode_error", lambda: impl.encode_error(identifier, WholeNumber(3), method, payload, **given)
    messages: list[Any] = [impl.Response(1, payload if type(payload) is not type else 1) for _ in range(3)]
    if type(payload) in (dict, list):
        messages.append(impl.Request(identifier, method, payload, extra={"x": value(rng, 2)}))
    last = messages[-1]
    other = copy.copy(last)
    yield "encode", lambda: impl.encode(last, **given)
    yield "to_bytes", lambda: (last.to_bytes(), last.to_str(), None)[2]
    if not given:
        Hooks.containers.append(messages)
    yield "encode batch", lambda: impl.encode(messages, **given)
    yield "==", lambda: (last == other, other == last, messages == [last], None)[3]
    yield "repr", lambda: (repr(last), repr(messages), None)[2]
    yield "copy", lambda: (copy.deepcopy(last), pickle.loads(pickle.dumps(last)), None)[2]
    message = members(rng)
    yield "parse", lambda: impl.parse(message, profile)
    batch = [message, members(rng), payload]
    Hooks.containers.append(batch)
    yield "parse batch", lambda: impl.parse(batch, profile)
    yield (
        "from_dict",
        lambda: [
            kind.from_dict(message, profile) for kind in (impl.Request, impl.Notification, impl.Response, impl.Error)
        ],
    )
    yield "encode_dict", lambda: impl.encode_dict(message, profile, **given)
    yield (
        "constructors",
        lambda: [
            impl.Request(identifier, method, payload),
            impl.Notification(method, payload, extra=message),
            impl.Response(identifier, payload),
            impl.Error(WholeNumber(3), method, payload, extra=message),
        ],
    )
    text = rng.choice(TEXTS)
    buffer = bytearray(text)
    Hooks.containers.append(buffer)
    data: Any = rng.choice((text, buffer, memoryview(buffer), memoryview(bytearray(text)), Text(text.decode())))
    raw = rng.random() < 0.5
    yield "decode", lambda: impl.decode(data, profile, raw=raw)
    yield "decode_dict", lambda: impl.decode_dict(data, profile)
    yield "classify", lambda: impl.classify(data)
    yield "Raw", lambda: impl.Raw(data)
    taken = impl.decode(TEXTS[0], raw=True).params
    yield "Raw.decode", lambda: (taken.decode(), taken.decode(lambda text: fire("decoder")), repr(taken), None)[3]
    framing = rng.choice(list(FRAMINGS))
    decoder = impl.Decoder(framing, rng.choice(PROFILES), raw=raw)
    Hooks.decoders.append(decoder)
    stream = bytearray(framed(framing, TEXTS))
    Hooks.containers.append(stream)
    yield "feed", lambda: decoder.feed(stream if rng.random() < 0.5 else bytes(stream), rng.choice((None, None, 2)))
    yield "close", decoder.close


def framed(framing: str, texts: tuple[bytes, ...]) -> bytes:
    if framing == "content-length":
        return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(text), text) for text in texts)
    if framing == "sse":
        return b"".join(b"data: %s\r\n\r\n" % text for text in texts)
    return b"\n".join(texts) + b"\n"


def collected(phase: str, _: object) -> None:
    if phase == "stop":
        fire("collector")


def run(seed: int, number: int) -> int:
    """Run one input: one set of objects through every call. Return the number of calls.

    Raises:
        SystemError: a call has raised one, or what it wrote is not JSON.
    """
    rng = Hooks.rng = random.Random(f"{seed}/{number}")
    impl = _pure if number % 16 == 15 else _core
    Hooks.containers = []
    Hooks.decoders = []
    count = 0
    threshold = gc.get_threshold()
    for name, call in calls(rng, impl):
        count += 1
        trash = [Cyclic() for _ in range(rng.randrange(3))]
        del trash
        gc.set_threshold(rng.choice((1, 3, 700)))
        Hooks.is_on = True
        try:
            found = call()
            Hooks.is_on = False
            if type(found) is bytes:
                for line in found.splitlines():
                    json.loads(line)
        except SystemError:
            raise
        except json.JSONDecodeError as error:
            raise SystemError(f"{name}: what is written is not JSON: {error}") from error
        except Exception:
            pass
        finally:
            Hooks.is_on = False
            gc.set_threshold(*threshold)
    Hooks.containers = []
    Hooks.decoders = []
    CALLBACKS.clear()
    index = number % len(TEXTS)
    if repr(_core.decode(TEXTS[index])) != EXPECTED[index]:
        raise SystemError("the codec reads another message than before")
    return count


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--inputs", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="SEED/NUMBER: the input to run alone")
    options = parser.parse_args(arguments)
    faulthandler.enable()
    sys.unraisablehook = lambda _: None  # hooks raise in finalizers, too
    gc.callbacks.append(collected)
    logging.disable()  # of failing handlers
    if options.only:
        seed, number = map(int, options.only.split("/"))
        run(seed, number)
        return 0
    end = time.monotonic() + options.seconds
    inputs = done = 0
    for inputs in itertools.count():
        if inputs >= options.inputs or time.monotonic() >= end:
            break
        if inputs % 200 == 0:
            print(f"from {options.seed}/{inputs}", file=sys.stderr, flush=True)  # so that a crash can be found
        done += run(options.seed, inputs)
    for name, count in sorted(FIRED.items()):
        print(f"{count:>12,} {name}")
    print(f"{inputs:,} inputs, {done:,} calls, {sum(FIRED.values()):,} hooks, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
