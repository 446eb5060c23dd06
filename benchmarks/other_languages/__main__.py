"""Compare with Node: JSON.parse and the same checks. `python -m benchmarks.other_languages`.

The processes cannot take turns within a round, so the ratios are rougher than those of the report.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from time import perf_counter_ns
from timeit import Timer
from typing import Final

import jsonrpc_fast

from ..data import payloads
from ..tables import markdown

PROGRAM: Final = Path(__file__).parent / "decode.mjs"
PAYLOADS: Final = ("tiny_request", "small_request", "tools_call_217", "tools_call_325")
SAMPLES: Final = 300


def in_node(node: str, texts: dict[str, str]) -> dict[str, float]:
    """Return the nanoseconds of each message in Node."""
    process = subprocess.run(
        [node, str(PROGRAM)], input=json.dumps(texts), capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, float] = json.loads(process.stdout)
    return found


def in_python(text: bytes) -> float:
    """Return the nanoseconds of a message here."""
    names = {"decode": jsonrpc_fast.decode, "data": text}
    timer = Timer("decode(data)", timer=perf_counter_ns, globals=names)
    repeats = max(1, round(1e6 / (timer.timeit(1000) / 1000)))
    return min(timer.repeat(SAMPLES, repeats)) / repeats


def main() -> None:
    node = shutil.which("node")
    if node is None:
        print("Node is not installed: nothing is compared")
        return
    texts = {name: payload.text for name, payload in payloads().items() if name in PAYLOADS}
    theirs = in_node(node, {name: text.decode() for name, text in texts.items()})
    rows = [("payload", "jsonrpc_fast, ns", "Node, ns", "ratio")]
    for name, text in texts.items():
        ours = in_python(text)
        rows.append((name, f"{ours:,.0f}", f"{theirs[name]:,.0f}", f"{ours / theirs[name]:.2f}"))
    print(f"jsonrpc_fast ({jsonrpc_fast.BACKEND}) and JSON.parse with the same checks:\n\n{markdown(rows)}")


if __name__ == "__main__":
    main()
