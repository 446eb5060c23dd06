"""Targets of the codec: each runs one input on both backends, and compares what they return or raise.

The first byte of an input selects the profile and whether payloads stay raw; for streams, the second one selects the
sizes of the chunks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

from jsonrpc_fast import Profile
from jsonrpc_fast.codec import _core, _pure
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.errors import EncodeError, ParseError
from jsonrpc_fast.framing.frames import STREAM_FRAMINGS

from ..support.raw_laws import broken_law_of_stream, payload_fault
from .differential import (
    PRINTED,
    PROFILES,
    disagreement,
    entry_disagreement,
    framed,
    seeds,
    shown,
    value_disagreement,
    written_disagreement,
)
from .mutate import Values, message
from .objects import Objects
from .target import CANARY, Target, check

_SEEDS: Final = seeds()
_CHUNKS: Final = (0, 0, 1, 2, 3, 7, 16, 64, 300, 1000)  # 0: at once


def head(rng: random.Random) -> bytes:
    """Return the bytes that select a profile and chunks."""
    return bytes((rng.randrange(256), rng.randrange(256)))


def chunks(data: bytes, selector: int) -> list[bytes]:
    """Return data in pieces."""
    size = _CHUNKS[selector % len(_CHUNKS)] or max(1, len(data))
    return [data[start : start + size] for start in range(0, len(data), size)] or [b""]


def kind(item: Any) -> Hashable:
    """Return what kind of item `decode` returned."""
    if isinstance(item, list):
        return ("batch", *sorted({str(kind(each)) for each in item})[:3])
    return item.code.name if isinstance(item, ParseError) else type(item).__name__


def check_fault(item: Any) -> None:
    """Check that no fault contains a part of the input, except the id, which is sent back."""
    for fault in item if isinstance(item, list) else [item]:
        if isinstance(fault, ParseError):
            check(CANARY not in fault.message and CANARY not in str(fault), "the input is in a fault", fault.code)
            check(isinstance(fault.code, ParseErrorCode), "not a code", fault.code)
            check(fault.__cause__ is None and fault.__context__ is None, "a fault keeps an exception", fault.code)


def _profile(selector: int) -> tuple[Profile, bool]:
    return PROFILES[(selector >> 1) % len(PROFILES)], bool(selector & 1)


def decode(data: bytes) -> Hashable:
    """Fast path, slow path and pure backend decode a text alike, as bytes, bytearray and str."""
    if not data:
        return None
    profile, raw = _profile(data[0])
    text = data[1:]
    found = disagreement(text, profile, raw) or entry_disagreement(text, profile, raw)
    check(found is None, profile, raw, found)
    item = _core.decode(text, profile, raw=raw)
    check_fault(item)
    return kind(item), raw


def parse(data: bytes) -> Hashable:
    """Both backends treat a value of another decoder alike, with more types and texts than orjson allows."""
    if not data:
        return None
    profile, raw = _profile(data[0])
    try:
        value = json.loads(data[1:])
    except (ValueError, RecursionError):
        return "not JSON"
    found = [_parsed(module, value, profile, raw) for module in (_core, _pure)]
    check(found[0] == found[1], profile, found)
    item = _core.parse(value, profile)
    check_fault(item)
    return kind(item)


def _parsed(module: Any, value: Any, profile: Profile, raw: bool) -> object:
    del raw
    return shown(module, module.parse(value, profile))


def decoder(framing: str, data: bytes) -> Hashable:
    """The decoders of both backends read a stream alike, in any chunks and with any bound."""
    if len(data) < 2:
        return None
    profile, raw = _profile(data[0])
    stream = data[2:]
    bound, resync = (None, 1, 2)[data[1] % 3], data[1] % 2 == 1
    found = []
    for module, pieces, items in (
        (_core, [stream], None),
        (_core, chunks(stream, data[1]), bound),
        (_pure, [stream], None),
        (_pure, chunks(stream, data[1]), bound),
    ):
        read = _read(module, framing, pieces, items, profile, raw, resync)
        found.append([shown(module, item) for item in read])
        if raw:
            plain = _read(module, framing, [stream], None, profile, False, resync)
            broken = broken_law_of_stream(module, read, plain, profile)
            check(broken is None, framing, profile, broken)
    check(found[0] == found[1] == found[2] == found[3], framing, profile, raw, found)
    items = _read(_core, framing, [stream], None, profile, raw, resync)
    for item in items:
        check_fault(item)
    return tuple(sorted({str(kind(item)) for item in items})[:4]), raw


def _read(
    module: Any, framing: str, pieces: list[bytes], bound: int | None, profile: Profile, raw: bool, resync: bool
) -> list[Any]:
    reader = module.Decoder(framing, profile, raw=raw, resync=resync)
    items: list[Any] = []
    for piece in pieces:
        items += reader.feed(piece, bound)
        while reader.has_more:
            got = reader.feed(b"", bound)
            check(bool(got) or not reader.has_more, "has_more, but there is nothing")
            items += got
    return [*items, *reader.close()]


def raw(data: bytes) -> Hashable:
    """`Raw` accepts a text exactly if `orjson` does, and writes one line with the same value."""
    found = [_raw(module, data) for module in (_core, _pure)]
    check(found[0] == found[1], found)
    return found[0][0]


def _raw(module: Any, data: bytes) -> tuple[Hashable, ...]:
    try:
        value = module.Raw(data)
    except ParseError as fault:
        check_fault(fault)
        return fault.code, fault.message, fault.offset
    written: bytes = module.encode_result(1, value)
    check(written.count(b"\n") == 1 and written.endswith(b"\n"), "a line break", written)
    again = module.decode(written)
    check(type(again) is module.Response, "what was written is not a response", again)
    broken = payload_fault(value, again.result)
    check(broken is None, broken)
    return "valid", bytes(value), written


def reader(data: bytes) -> Hashable:
    """The core's reader returns what orjson returns for a payload, or leaves it to orjson."""
    found = value_disagreement(data)
    check(found is None, found)
    return kind(_core.decode(b'{"jsonrpc":"2.0","id":1,"result":%b}' % data))


def writer(data: bytes) -> Hashable:
    """Both writers write a value as orjson does, or refuse it with the same text."""
    if not data:
        return None
    value: Any
    if data[0] & 1:
        value = Objects(random.Random(data)).next()
    else:
        try:
            value = json.loads(data[1:])  # with integers of any width, NaN and lone surrogates
        except (ValueError, RecursionError):
            return "not JSON"
    found = written_disagreement(value)
    check(found is None, found)
    try:
        _core.encode_result(1, value)
    except EncodeError as error:
        check(CANARY not in str(error), "the value is in an error")
        return str(error)[:20]
    return type(value).__name__


def _make_text(rng: random.Random) -> bytes:
    return head(rng)[:1] + message(rng, _SEEDS)


def _make_stream(framing: Any, rng: random.Random) -> bytes:
    return head(rng) + b"".join(
        [rng.choice(PRINTED) + framed(rng, message(rng, _SEEDS), framing) for _ in range(rng.randrange(1, 5))]
    )


class _MakeValues:
    """Payloads from `Values`, which keeps some of its work between inputs."""

    def __init__(self, prefix: bytes = b"") -> None:
        self._values: Values | None = None
        self._prefix = prefix

    def __call__(self, rng: random.Random) -> bytes:
        if self._values is None:
            self._values = Values(rng)
        return self._prefix + self._values.next()


def _make_written(rng: random.Random) -> bytes:
    if rng.random() < 0.7:
        return b"\x01" + rng.randbytes(8)
    return _VALUES(rng)


_VALUES: Final = _MakeValues(b"\x00")

_DECODERS: Final[dict[str, Callable[[bytes], Hashable]]] = {
    f"decoder-{framing}": partial(decoder, framing) for framing in STREAM_FRAMINGS
}

TARGETS: Final[dict[str, Target]] = {
    "decode": Target(decode, _make_text),
    "parse": Target(parse, _make_text),
    **{name: Target(run, partial(_make_stream, name.removeprefix("decoder-"))) for name, run in _DECODERS.items()},
    "raw": Target(raw, _MakeValues()),
    "reader": Target(reader, _MakeValues()),
    "writer": Target(writer, _make_written),
}
"""The targets of the codec, by name."""
