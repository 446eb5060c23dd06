"""Compare fast path and slow path, and both backends, on as many texts as there is time for.

    python -m tests.fuzz.differential --inputs 1000000 --seed 1

The core's fast path, its slow path and the pure backend decode each text, eagerly or raw, in one of the profiles; the
fast path and orjson decode payloads; now and then the decoders of both read a stream of texts in different chunks. Any
difference in class, values, types, error fields or bytes written back is printed with the text, and the exit status
is 1. Another seed gives other texts; --seconds bounds the time instead of the number.
"""

from __future__ import annotations

import argparse
import marshal
import random
import sys
import time
from array import array
from typing import Any

import orjson

from jsonrpc_fast import JSONRPC, PRESETS, Limits, Profile
from jsonrpc_fast.codec import _core, _pure
from jsonrpc_fast.errors import EncodeError, ParseError
from jsonrpc_fast.framing.frames import FRAMINGS

from ..support.comparison import plain
from ..support.places import WIRE
from .mutate import Values, message

VALUES = 24  # payloads that are compared for each message

HEADERS_ENDS = [
    b"\r\n\r\n",
    b"\r\n\r\n",
    b"\n\n",
    b" \r\nX: y\r\n\r\n",
    b"\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
    b"\r\nContent-Type: x; charset=latin1\r\n\r\n",
]

PROFILES: list[Profile] = [
    *[JSONRPC] * 6,
    *PRESETS.values(),
    JSONRPC.replace(extra_members=False),
    JSONRPC.replace(big_ints="exact"),
    JSONRPC.replace(big_ints="reject"),
    JSONRPC.replace(limits=Limits(depth=2, id_bytes=32, method_bytes=4, batch_items=2, message_bytes=300)),
]


def seeds() -> list[bytes]:
    """The short captured lines."""
    lines = [line for file in sorted(WIRE.iterdir()) for line in file.read_bytes().splitlines()]
    return [line for line in lines if len(line) < 1000]


def shown(module: Any, item: Any) -> object:
    """A decoded item as a value that is equal for equal items of either backend, and only for them."""
    if isinstance(item, list):
        return [shown(module, message) for message in item]
    if isinstance(item, ParseError):
        return plain(module, item)
    return plain(module, item), module.encode(item) if _is_writable(item) else None


def _is_writable(item: Any) -> bool:
    """Whether orjson can write the payload: no wide integer (`big_ints="exact"`), and not too deep."""
    try:
        item.to_bytes()
    except EncodeError:
        return False
    return True


def disagreement(text: bytes, profile: Profile, raw: bool) -> str | None:
    """Return a difference between paths or backends for one text, or None."""
    # The bytes of an array end where its memory does, without a zero byte after them.
    fast = shown(_core, _core.decode(memoryview(array("B", text)), profile, raw=raw))
    if len(text) <= profile.limits.message_bytes:
        slow = shown(_core, _core._decode_slow(text, profile, raw))
        if fast != slow:
            return f"fast {fast!r}, slow {slow!r}"
    pure = shown(_pure, _pure.decode(text, profile, raw=raw))
    if len(text) <= profile.limits.message_bytes:
        slow = shown(_pure, _pure._decode_slow(text, profile, raw))
        if pure != slow:
            return f"pure {pure!r}, its slow path {slow!r}"
    if fast != pure:
        return f"core {fast!r}, pure {pure!r}"
    return None


def value_disagreement(text: bytes) -> str | None:
    """What differs between the core's fast path and orjson over a payload, or None."""
    message = b'{"jsonrpc":"2.0","id":1,"result":%b}' % text
    found = _core.decode(memoryview(array("B", message)))
    try:
        expected = orjson.loads(text)
    except orjson.JSONDecodeError:
        # What is no value may still be one with members behind it.
        slow = shown(_core, _core._decode_slow(message, JSONRPC, False))
        return None if shown(_core, found) == slow else f"fast {found!r}, slow {slow!r}"
    # The bytes tell types apart, and -0.0 from 0.0; only a str in its one right form is equal to another.
    if (
        type(found) is not _core.Response
        or marshal.dumps(found.result, 0) != marshal.dumps(expected, 0)
        or (text.count(b"[") < 500 and found.result != expected)
    ):
        return f"fast {found!r}, orjson {expected!r}"
    return None


def stream_disagreement(rng: random.Random, texts: list[bytes], profile: Profile, raw: bool) -> str | None:
    """Return a difference between the backends for one stream in different chunks, or None."""
    framing = rng.choice(("newline", "newline", *FRAMINGS))
    stream = b"".join([_framed(rng, text, framing) for text in texts])
    cuts = sorted([rng.randrange(len(stream) + 1) for _ in range(rng.randrange(8))])
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = []
    for module, pieces in ((_core, chunks), (_core, [stream]), (_pure, [stream])):
        decoder = module.Decoder(framing, profile, raw=raw)
        bound = rng.choice((None, 1, 2))
        items = [item for piece in pieces for item in _fed(decoder, piece, bound)] + decoder.close()
        found.append([shown(module, item) for item in items])
    if found[0] != found[1] or found[0] != found[2]:
        return f"{framing} {chunks!r}: in chunks {found[0]!r}, at once {found[1]!r}, pure {found[2]!r}"
    return None


def _fed(decoder: Any, piece: bytes, bound: int | None) -> list[Any]:
    """The items that a piece of a stream completes, sometimes without those of the last call."""
    items = decoder.feed(piece, bound)
    while decoder.has_more and len(items) < 3:
        items += decoder.feed(b"", bound)
    return items  # type: ignore[no-any-return]


def _framed(rng: random.Random, text: bytes, framing: str) -> bytes:
    """A text as a frame, sometimes a bad one."""
    if framing == "newline" or rng.random() < 0.1:
        return text + rng.choice((b"\n", b"\n", b"\r\n", b""))
    if framing == "sse":
        return b"data:" + text.replace(b"\n", b"\ndata: ") + rng.choice((b"\n\n", b"\r\n\r\n", b"\r\r", b"\n"))
    name = rng.choice((b"Content-Length: ", b"Content-Length: ", b"content-length:"))
    length = len(text) + (rng.random() < 0.05)
    return b"%b%d%b%b" % (name, length, rng.choice(HEADERS_ENDS), text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many texts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="maximum time")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default: %(default)s)")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    texts = seeds()
    values = Values(rng)
    ends = time.monotonic() + options.seconds
    done = 0
    while done < options.inputs and (done % 1000 or time.monotonic() < ends):
        text = message(rng, texts)
        profile = rng.choice(PROFILES)
        raw = rng.random() < 0.3
        found = disagreement(text, profile, raw)
        done += 1
        for _ in range(VALUES):
            if found is None:
                text = values.next()
                found = value_disagreement(text)
                done += 1
        if found is None and done % 50 == 0:
            found = stream_disagreement(rng, [message(rng, texts) for _ in range(rng.randrange(6))], profile, raw)
        if found is not None:
            print(f"{profile!r} raw={raw} {text!r}: {found}")
            return 1
    print(f"{done} inputs, seed {options.seed}: no disagreement")
    return 0


if __name__ == "__main__":
    sys.exit(main())
