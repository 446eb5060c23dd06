"""The command `bench`: this codec, json and orjson with the user's own messages.

Rule: the contestants take turns in one process, and the minimum of many rounds counts, so that a busy machine slows all
of them alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

from ..codec import BACKEND, ORJSON_VERSION, ParseError, decode, encode
from ..profile import PRESETS
from .output import Status, cannot_read, escape, input_files, print_error
from .stats import read_texts

MAX_BYTES: Final = 16 * 1024 * 1024

Work: TypeAlias = "Callable[[Any], object]"


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    files = input_files(options)
    profile = PRESETS[options.profile]
    texts: list[bytes] = []
    size = invalid = 0
    for file in files:
        try:
            for text, _, _ in read_texts(file, options):
                message = decode(text, profile)
                if any(isinstance(each, ParseError) for each in (message if isinstance(message, list) else [message])):
                    invalid += 1
                    continue
                size += len(text)
                if size > MAX_BYTES and texts:
                    break
                texts.append(text)
        except (OSError, ValueError) as error:
            return cannot_read(file, error)
    if not texts:
        print_error(f"{escape(files[0])} has no valid message of the profile {options.profile}")
        return Status.WRONG
    rows = _measured(texts, profile, options.seconds)
    used = sum(map(len, texts))
    if options.json:
        ratios = {name: {"seconds_per_message": seconds, **more} for name, seconds, more in rows}
        facts = {"messages": len(texts), "invalid": invalid, "bytes": used, "backend": BACKEND}
        print(json.dumps({**facts, "rows": ratios}))
        return Status.SUCCESS
    left_out = f"; invalid and left out: {invalid}" if invalid else ""
    print(f"{len(texts)} messages, {used / len(texts):.0f} bytes on average; the backend is {BACKEND}{left_out}")
    for name, seconds, more in rows:
        ratio = "".join(f"  {value:.2f} x {of}" for of, value in more.items())
        print(f"{name:<34} {seconds * 1e6:10.3f} us{ratio}")
    return Status.SUCCESS


def _measured(texts: list[bytes], profile: Any, seconds: float) -> list[tuple[str, float, dict[str, float]]]:
    """Return each contestant with its seconds for a message, and its ratios to json and orjson."""
    values = [json.loads(text) for text in texts]
    messages = [decode(text, profile) for text in texts]
    reading: dict[str, tuple[Work, list[Any]]] = {"json.loads": (json.loads, texts)}
    writing: dict[str, tuple[Work, list[Any]]] = {"json.dumps": (json.dumps, values)}
    if ORJSON_VERSION:
        orjson = import_module("orjson")
        reading["orjson.loads"] = orjson.loads, texts
        writing["orjson.dumps"] = orjson.dumps, values
    # With the same argument by position, as a program calls it in its loop.
    reading["jsonrpc_fast.decode"] = (lambda text: decode(text, profile)), texts
    reading["jsonrpc_fast.decode, raw=True"] = (lambda text: decode(text, profile, raw=True)), texts
    writing["jsonrpc_fast.encode"] = (lambda message: encode(message, profile=profile)), messages
    all_work = {**reading, **writing}
    best = dict.fromkeys(all_work, float("inf"))
    end = time.perf_counter() + seconds
    while True:
        for name, (work, items) in all_work.items():
            begin = time.perf_counter()
            for item in items:
                work(item)
            best[name] = min(best[name], time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    rows = []
    for group in (reading, writing):
        bases = [name for name in group if not name.startswith("jsonrpc_fast")]
        for name in group:
            ratios = {base: best[name] / best[base] for base in bases if name.startswith("jsonrpc_fast")}
            rows.append((name, best[name] / len(texts), ratios))
    return rows
