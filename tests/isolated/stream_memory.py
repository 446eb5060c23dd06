"""Measure the memory and the time per byte of `Decoder` on a short and on a long stream.

    python -m tests.isolated.stream_memory

For each chunk size it feeds 1 MB and then 1 GB of messages, and prints the time per byte and the growth of the process.
Only the chunk is kept. The run fails if the process grows by more than 2 MiB.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

from jsonrpc_fast import Decoder, ParseError

from ..support.processes import resident_bytes

MAX_GROWTH_BYTES: Final = 2 * 1024 * 1024
LINE = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":[2,"three"]}}}\n'


def run(block: bytes, repeats: int, chunk_bytes: int) -> tuple[float, int]:
    """Feed `block` repeatedly. Returns nanoseconds per byte, and the growth in bytes after the first round."""
    lines = block.count(b"\n")
    # The block is not a multiple of the chunk, so the cuts move through the messages.
    chunks = [block[start : start + chunk_bytes] for start in range(0, len(block), chunk_bytes)]
    decoder = Decoder()
    before = 0
    started = time.perf_counter_ns()
    for done in range(repeats):
        items = 0
        for chunk in chunks:
            found = decoder.feed(chunk)
            items += len(found)
            for item in found:
                if isinstance(item, ParseError):
                    raise item
        if items != lines:
            raise AssertionError(f"{items} items of {lines} lines")
        if done == 0:
            before = resident_bytes()
    took = time.perf_counter_ns() - started
    return took / (len(block) * repeats), resident_bytes() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the long stream (default: %(default)s)")
    options = parser.parse_args()
    lines: list[bytes] = []
    while sum(map(len, lines)) < 1_000_000:
        lines += [LINE % number for number in range(len(lines), len(lines) + 100)]
    block = b"".join(lines)
    for chunk_bytes in (65536, 7):
        for repeats in (1, options.megabytes):
            cost, growth = run(block, repeats, chunk_bytes)
            print(f"chunks of {chunk_bytes:5} bytes, {repeats:5} MB: {cost:6.2f} ns per byte, {growth / 1e6:+.1f} MB")
            if growth > MAX_GROWTH_BYTES:
                raise SystemExit("the decoder keeps what it has read")


if __name__ == "__main__":
    main()
