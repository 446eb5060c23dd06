"""Write the tables and the plot of README and the pages from the stored figures: `python -m benchmarks.site`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import peers
from .calls import BATCH, CALLS
from .pages import DOCS, HERE, README, markdown, save, shown, write

FIGURES: Final = HERE / "figures.json"
DISTRIBUTION: Final = HERE / "distribution.json"
"""The figures of a Python that was built by a Linux distribution."""
PAGES: Final = (README, DOCS / "performance.md", DOCS / "comparison.md")
PLOT: Final = HERE / "sizes.svg"

PANELS: Final = [
    ("decode", "tiny_request", "Reading a tiny request"),
    ("decode", "tools_call_325", "Reading an MCP tools/call request"),
    ("decode", "tools_list_14k", "Reading an MCP tools/list response"),
    ("decode", "logs_1m", "Reading a large result"),
    ("encode", "tools_call_response", "Writing an MCP tools/call response"),
    ("call decode_dict", "tools_call_325", "Reading the same request as a dict"),
    ("call encode_dict", "tools_call_325", "Writing a dict"),
    ("stream", "tiny_request", "Reading 64 KB of tiny requests"),
]
"""The rows of the table of README: work, payload, title."""

COLUMNS: Final = {
    "jsonrpc_fast": "jsonrpc_fast",
    "with raw=True": "jsonrpc_fast, raw=True",
    "pure Python": "jsonrpc_fast, pure backend",
    "msgspec Struct": "msgspec Struct",
    "pydantic (MCP SDK)": "MCP SDK's pydantic adapter",
    "json": "json",
}
"""The columns of the table, and the contestant in each."""

BLOCK: Final = "\u2588"

BARS: Final = {
    "jsonrpc_fast, rules checked": "jsonrpc_fast",
    "orjson, nothing checked": "orjson",
    "json, nothing checked": "json",
    "the MCP SDK's pydantic models": "MCP SDK's pydantic adapter",
}
"""The bars, and the contestant of each."""

LINES: Final = {
    peers.CORE: ("jsonrpc_fast", "#1d5fd1", "o-"),
    peers.CORE_RAW: ("jsonrpc_fast, raw=True", "#1d5fd1", "o--"),
    peers.PURE: ("jsonrpc_fast, pure backend", "#7aa7ee", "o-"),
    peers.MSGSPEC: ("msgspec Struct", "#c2571a", "s-"),
    peers.PYDANTIC: ("MCP SDK (pydantic)", "#7b3fa0", "^-"),
    peers.STDLIB: ("json", "#6b7280", "d-"),
}
"""The lines of the plot: contestant, label, colour and style."""

SIZES: Final = (
    "tiny_request small_request tools_call_126 tools_call_217 tools_call_325 result_1k result_4k "
    "tools_list_14k completion_80k simulation_200k logs_1m"
)
"""The points of the plot: structured messages from small to large."""

TITLES: Final = {
    "tiny_request": "request without params",
    "tiny_response": "result: a number",
    "small_request": "request, two numbers in a list",
    "error_77": "error without data",
    "error_163": "error with data",
    "eth_call": "Ethereum: eth_call",
    "did_change": "LSP: didChange",
    "hover": "LSP: hover",
    "electrum_header": "Electrum: header",
    "tools_call_217": "MCP: tools/call",
    "tools_call_325": "MCP: tools/call, more arguments",
    "tools_call_response": "MCP: result of tools/call",
    "tools_list_14k": "MCP: result of tools/list",
    "result_1k": "result, structured",
    "result_10k": "result, structured",
    "text_10k": "result: one text",
    "hex_32k": "result: one hexadecimal string",
    "chinese": "Chinese text",
    "emoji": "emoji",
    "escapes": "`\\u` escapes",
    "integers": "integers",
    "floats": "floats",
    "completion_80k": "LSP: completion items",
    "logs_1m": "Ethereum: logs",
    "blob_1m": "result: one base64 string",
    "batch_10_requests": "batch of 10 requests",
    "batch_100_responses": "batch of 100 responses",
}
"""The description of each payload."""

READING: Final = tuple(name for name in TITLES if name != "tools_call_response")
WRITING: Final = "tiny_response tools_call_response result_1k result_10k tools_list_14k logs_1m blob_1m"
MAIN: Final = "tiny_request small_request eth_call tools_call_217 tools_call_325 tools_list_14k completion_80k logs_1m"
"""The messages for the table of the second interpreter."""
KEPT: Final = ("tiny_request", "tools_call_325", "tools_list_14k", "logs_1m")
CODECS: Final = {
    peers.CORE: "jsonrpc_fast",
    peers.CORE_RAW: "with raw=True",
    peers.PURE: "pure backend",
    peers.MSGSPEC: "msgspec Struct",
    peers.PYDANTIC_CORE: "pydantic_core",
    peers.PYDANTIC: "MCP SDK",
    peers.STDLIB: "json",
}
"""The contestants in the tables, and the headers of their columns."""

WRITERS: Final = {name: CODECS[name] for name in (peers.CORE, peers.PURE, peers.MSGSPEC, peers.PYDANTIC, peers.STDLIB)}
LIBRARIES: Final = {
    **{name: CODECS[name] for name in (peers.CORE, peers.PURE)},
    **{name: name for name in peers.PURE_PYTHON_PEERS},
}
COMPARED: Final = {
    **{name: CODECS[name] for name in (peers.CORE, peers.PURE, peers.MSGSPEC, peers.PYDANTIC)},
    **{name: name for name in peers.PURE_PYTHON_PEERS},
}
KEEPERS: Final = {
    peers.CORE: "jsonrpc_fast",
    peers.CORE_RAW: "with raw=True",
    peers.ORJSON: "orjson",
    peers.MSGSPEC: "msgspec Struct",
    peers.PYDANTIC: "MCP SDK",
}


def bars(figures: dict[str, Any]) -> str:
    """Return the ratios to orjson alone for one message as bars in a block of text."""
    found = figures["nanoseconds"]["decode"]["tools_call_325"]
    width = max(map(len, BARS))
    ratios = {label: found[name] / found["orjson"] for label, name in BARS.items()}
    lines = [f"{label:{width}}  {BLOCK * max(1, round(at * 2))} {at:.2f}\u00d7" for label, at in ratios.items()]
    return "\n".join(["```text", *lines, "```"])


def ratios_of_readme(figures: dict[str, Any]) -> str:
    """Return the ratios to orjson alone for the rows of README."""
    rows = [("work", "orjson", *COLUMNS)]
    for work, payload, title in PANELS:
        found = figures["nanoseconds"][work][payload]
        ratios = [f"{found[name] / found['orjson']:.2f}\u00d7" if name in found else "" for name in COLUMNS.values()]
        rows.append((f"{title} ({figures['sizes'][payload]})", shown(found["orjson"]), *ratios))
    return markdown(rows)


def ratios(figures: dict[str, Any], work: str, payloads: Sequence[str], names: Mapping[str, str]) -> str:
    """Return a table of times as multiples of orjson's time."""
    rows = [("message", "size", "orjson", *names.values())]
    for payload in payloads:
        found = figures["nanoseconds"][work][payload]
        cells = [f"{found[name] / found[peers.ORJSON]:.2f}" if name in found else "" for name in names]
        title = TITLES[payload]
        rows.append((title, figures["sizes"][payload], shown(found[peers.ORJSON]), *cells))
    return markdown(rows)


def calls(figures: dict[str, Any]) -> str:
    """Return the table of the public functions, one by one."""
    rows = [("function", "form", "message", "orjson", "jsonrpc_fast", "at most", "pure backend", "json")]
    for call in CALLS:
        for payload, limit in call.limits.items():
            found = figures["nanoseconds"][call.work][payload]
            times = [found[name] / found[peers.ORJSON] for name in (peers.CORE, peers.PURE, peers.STDLIB)]
            core = f"{times[0]:.2f}" if times[0] <= limit else f"**{times[0]:.2f}**"
            size = figures["sizes"][payload] + (", batch" if payload == BATCH else "")
            others = f"{times[1]:.1f}", f"{times[2]:.1f}"
            rows.append(
                (f"`{call.function}`", call.form, size, shown(found[peers.ORJSON]), core, f"{limit:g}", *others)
            )
    return markdown(rows)


def kept(figures: dict[str, Any]) -> str:
    """Return the table of the memory of a decoded message."""
    rows = [("message", "size", *KEEPERS.values())]
    for payload in KEPT:
        found = figures["bytes_kept"][payload]
        cells = [f"{found[name]:,.0f}" if name in found else "" for name in KEEPERS]
        rows.append((TITLES[payload], figures["sizes"][payload], *cells))
    return markdown(rows)


def facts(figures: dict[str, Any]) -> str:
    return markdown([("what", "version"), *figures["facts"].items()])


def distribution() -> str:
    """Return the tables of the second interpreter: its times and its version."""
    figures = json.loads(DISTRIBUTION.read_bytes())
    names = {name: CODECS[name] for name in (peers.CORE, peers.CORE_RAW, peers.PURE, peers.MSGSPEC)}
    known = {name: figures["facts"][name] for name in ("jsonrpc_fast", "CPython", "orjson", "msgspec", "rounds")}
    return f"{ratios(figures, 'decode', MAIN.split(), names)}\n\n{facts({'facts': known})}"


def sections(figures: dict[str, Any]) -> dict[str, str]:
    """Return the generated parts of the pages by name."""
    return {
        "bars": bars(figures),
        "ratios": ratios_of_readme(figures),
        "reading": ratios(figures, "decode", READING, CODECS),
        "streams": ratios(figures, "stream", ("tiny_request", "tools_call_325"), CODECS),
        "calls": calls(figures),
        "writing": ratios(figures, "encode", WRITING.split(), WRITERS),
        "libraries": ratios(figures, "decode", ("tiny_request", "tools_call_325", "batch_10_requests"), LIBRARIES),
        "comparison": ratios(figures, "decode", ("tiny_request", "tools_call_325"), COMPARED),
        "memory": kept(figures),
        "versions": facts(figures),
        "distribution": distribution(),
    }


def plot(figures: dict[str, Any], output: Path) -> None:
    """Draw the ratio to orjson over the size of the message."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.4), layout="constrained")
    axes = figure.subplots()
    times = figures["nanoseconds"]["decode"]
    for name, (label, colour, style) in LINES.items():
        points = [
            (_bytes(figures["sizes"][at]), times[at][name] / times[at][peers.ORJSON])
            for at in SIZES.split()
            if name in times[at]
        ]
        axes.plot(*zip(*points, strict=True), style, color=colour, label=label, linewidth=1.6, markersize=4)
    axes.axhline(1, color="#333333", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="size of the message, bytes", ylabel="time, as a multiple of orjson's")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(color="#e3e6ea", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title("Reading structured messages (below the line is faster than orjson alone)", loc="left", fontsize=12)
    save(figure, output, figures)


def _bytes(size: str) -> float:
    number, unit = size.split()
    return float(number) * {"B": 1, "KB": 1e3, "MB": 1e6}[unit]


def main() -> None:
    figures = json.loads(FIGURES.read_bytes())
    write(sections(figures), *PAGES)
    plot(figures, PLOT)


if __name__ == "__main__":
    main()
