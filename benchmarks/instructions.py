"""Count the instructions of a call under valgrind's callgrind: `python -m benchmarks.instructions`.

The number of instructions is the same on a busy machine as on an idle one. The lower limit is `marshal.loads` of the
decoded fields: it makes the same objects from a format that needs no parsing.

Rules:
  - one process under callgrind runs all calls; callgrind writes a dump at each call of the C function `getppid`, which
    is called before and after each measured call;
  - each call runs N times and 3N times, and so does an empty loop; the count is the difference of the differences.
"""

from __future__ import annotations

import marshal
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from timeit import Timer
from typing import Any, Final

import msgspec
import orjson

import jsonrpc_fast

from .data import payloads
from .pages import HERE, markdown

PAYLOADS: Final = (
    "tiny_request",
    "small_request",
    "tools_call_217",
    "tools_call_325",
    "error_163",
    "tools_call_response",
)
REPEATS: Final = 100
FLOOR: Final = "floor: the same objects from marshal"
LOOP: Final = "pass"

Counts = dict[str, dict[str, int]]
"""Instructions by payload and call."""


def calls(text: bytes) -> dict[str, Timer]:
    """Return the calls whose instructions are counted for a text, by name."""
    message: Any = jsonrpc_fast.decode(text)
    fields = tuple([getattr(message, name) for name in message.__match_args__])
    if isinstance(message, jsonrpc_fast.Response) and message.error is not None:
        fields = (message.id, None, message.error.to_dict())
    decode = jsonrpc_fast.decode
    return {
        FLOOR: Timer("loads(data)", globals={"loads": marshal.loads, "data": marshal.dumps(fields)}),
        "jsonrpc_fast": Timer("decode(data)", globals={"decode": decode, "data": text}),
        "jsonrpc_fast, raw=True": Timer("decode(data, raw=True)", globals={"decode": decode, "data": text}),
        "orjson": Timer("loads(data)", globals={"loads": orjson.loads, "data": text}),
        "msgspec, untyped": Timer("decode(data)", globals={"decode": msgspec.json.Decoder().decode, "data": text}),
    }


def _run_all() -> None:
    """Run every call between two marks. Only this function runs under callgrind."""
    messages = payloads(Path("nowhere"))
    timers = [Timer(LOOP)] + [timer for name in PAYLOADS for timer in calls(messages[name].text).values()]
    for timer in timers:
        timer.timeit(10)
        for repeats in (REPEATS, 3 * REPEATS):
            os.getppid()
            timer.timeit(repeats)
            os.getppid()


def counted(*command: str) -> list[int] | None:
    """Run a program under callgrind. Return the instructions between its first and its second mark, and so on.

    Returns:
        The counts; None if valgrind is not installed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "calls")
        options = ("--tool=callgrind", f"--callgrind-out-file={output}", "--dump-before=getppid")
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        run = (valgrind, "-q", *options, sys.executable, "-m", *command)
        subprocess.run(run, cwd=HERE.parent, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=3600)
        # A dump counts the instructions since the previous mark.
        dumps = len(list(Path(folder).glob("calls.*")))
        totals = [re.search(r"^totals: (\d+)", Path(f"{output}.{n}").read_text(), re.M) for n in range(2, dumps + 1, 2)]
    return [int(total[1]) for total in totals if total is not None]


def measure() -> Counts | None:
    """Return the instructions of each call; None if valgrind is not installed."""
    totals = counted("benchmarks.instructions", "--run")
    if totals is None:
        return None
    per_call = [(more - less) / (2 * REPEATS) for less, more in zip(totals[0::2], totals[1::2], strict=True)]
    loop, *counts = per_call
    messages = payloads(Path("nowhere"))
    names = [(payload, name) for payload in PAYLOADS for name in calls(messages[payload].text)]
    found: Counts = {}
    for (payload, name), count in zip(names, counts, strict=True):
        found.setdefault(payload, {})[name] = round(count - loop)
    return found


def table(found: Counts) -> str:
    """Return the counts as Markdown."""
    names = list(next(iter(found.values())))
    rows = [("instructions of a call", *names)]
    rows += [(payload, *[f"{by_name[name]:,}" for name in names]) for payload, by_name in found.items()]
    return markdown(rows)


def main() -> None:
    if sys.argv[1:] == ["--run"]:
        _run_all()
        return
    found = measure()
    print("valgrind is not installed: no instructions are counted" if found is None else table(found))


if __name__ == "__main__":
    main()
