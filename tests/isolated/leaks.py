"""Call each function of the codec a million times on good and bad inputs: no memory and no objects leak.

    python -m tests.isolated.leaks                         # the backend in use; JSONRPC_FAST_PURE=1 for the other one
    python -m tests.isolated.leaks --iterations 10000000

As many kilobytes run through one `Decoder`: a gigabyte by default. Only a chunk is kept.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import jsonrpc_fast
from jsonrpc_fast import (
    Decoder,
    EncodeError,
    ParseError,
    Raw,
    Request,
    decode,
    encode,
    encode_error,
    encode_result,
    parse,
)

from ..support.processes import resident_bytes

MAX_GROWTH_BYTES: Final = 2 * 1024 * 1024
MAX_OBJECTS: Final = 100
CALL: Final = (
    b'{"jsonrpc":"2.0","id":"abc","method":"tools/call","params":{"name":"x","arguments":[1,2.5,null,"\\u00e9"]}}'
)
BATCH: Final = b"[" + CALL + b",1," + CALL + b"]"
WIDE: Final = CALL.replace(b'"abc"', b"123456789012345678901234567890")


def raised(call: Callable[[], Any]) -> None:
    """Call a function that must raise an exception of this package."""
    try:
        call()
    except (EncodeError, ParseError, TypeError):
        return
    raise AssertionError("nothing was raised")


WORK: Final[dict[str, Callable[[], Any]]] = {
    "decode": lambda: decode(CALL),
    "decode raw": lambda: decode(CALL, raw=True),
    "decode a wide id": lambda: decode(WIDE),
    "decode a batch": lambda: decode(BATCH),
    "decode a cut text": lambda: decode(CALL[:-9]),
    "decode invalid UTF-8": lambda: decode(CALL[:60] + b"\xff" + CALL[60:]),
    "decode a duplicate": lambda: decode(CALL.replace(b"{", b'{"id":1,', 1)),
    "parse": lambda: parse({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}),
    "parse a fault": lambda: parse({"jsonrpc": "2.0", "id": 1, "method": 1}),
    "Raw": lambda: Raw(b"[1]").decode(),
    "Raw of a bad text": lambda: raised(lambda: Raw(b"[1")),
    "Decoder": lambda: Decoder().feed(CALL + b"\n" + CALL[:30]),
    "encode": lambda: encode(Request(1, "m", {"a": ["é"]})),
    "encode_result": lambda: encode_result(1, {"a": [1, 2.5, None]}),
    "encode what cannot be": lambda: raised(lambda: encode_result(1, {"a": object()})),
    "encode_error": lambda: encode_error(1, -32000, "no", {"a": 1}),
}


BLOCK: Final = b"".join([CALL.replace(b'"abc"', b"%d" % number) + b"\n" for number in range(10_000)])
CHUNKS: Final = {size: [BLOCK[at : at + size] for at in range(0, len(BLOCK), size)] for size in (65536, 7)}
"""A megabyte in chunks. It is no multiple of them, so the cuts move through the messages."""


def stream(decoder: Decoder, size: int) -> None:
    """Feed a megabyte to a decoder that has read others before."""
    items = [item for chunk in CHUNKS[size] for item in decoder.feed(chunk)]
    assert len(items) == 10_000
    assert not any(isinstance(item, ParseError) for item in items)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1_000_000, help="of each function (default: %(default)s)")
    count = parser.parse_args().iterations
    status = 0
    decoders = {size: Decoder() for size in CHUNKS}
    streams = {f"a stream in {size}": (lambda size=size: stream(decoders[size], size)) for size in CHUNKS}
    works = [(name, work, count) for name, work in WORK.items()]
    works += [(name, work, max(1, count // 1000)) for name, work in streams.items()]
    for name, work, times in works:
        for _ in range(min(times, 20_000 if name in WORK else 2)):
            work()
        gc.collect()
        memory, objects, begin = resident_bytes(), len(gc.get_objects()), time.perf_counter()
        for _ in range(times):
            work()
        seconds = time.perf_counter() - begin
        gc.collect()
        grown, left = resident_bytes() - memory, len(gc.get_objects()) - objects
        print(f"{name:22} {times:,} times, {seconds:.1f} s: {grown:+,} bytes, {left:+} objects", flush=True)
        if grown > MAX_GROWTH_BYTES or left > MAX_OBJECTS:
            status = 1
    print(f"backend {jsonrpc_fast.BACKEND}: {'no leak' if status == 0 else 'memory or objects are left'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
