"""Count the messages of a captured stream by kind and method, without decoding a payload.

python examples/capture.py tests/vectors/wire/*.ndjson
"""

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from jsonrpc_fast import LENIENT, Decoder, Notification, ParseError, Request


def count(paths: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        decoder = Decoder("newline", LENIENT, raw=True)
        with open(path, "rb") as file:
            while data := file.read(65536):
                add(found, decoder.feed(data))
        add(found, decoder.close())
    return found


def add(found: Counter[str], messages: Iterable[Any]) -> None:
    for message in messages:
        for item in message if isinstance(message, list) else [message]:
            if isinstance(item, (Request, Notification)):
                found[f"{type(item).__name__} {item.method}"] += 1
            elif isinstance(item, ParseError):
                found[f"invalid: {item.code.name}"] += 1
            else:
                found["error" if item.is_error else "result"] += 1


if len(sys.argv) < 2:
    sys.exit(__doc__)
for name, number in sorted(count(sys.argv[1:]).items()):
    print(f"{number:6} {name}")
