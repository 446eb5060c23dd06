"""The bars: how fast each operation must be, compared with the other libraries, and whether it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from . import peers
from .calls import CALLS
from .data import payloads, turns
from .pages import markdown
from .peers import CORE, CORE_PARSE, CORE_RAW, MSGSPEC, MSGSPEC_RAW, MSGSPEC_UNTRACKED, ORJSON, PURE, PYDANTIC

Times = dict[str, dict[str, dict[str, float]]]
"""Nanoseconds by work, payload and contestant."""


@dataclass(frozen=True)
class Bar:
    """A promise: the contestant's time, divided by that of the fastest opponent, is at most `limit`.

    With `at_least` the promise is a speed-up: the fastest opponent's time, divided by the contestant's, is at least
    `limit`.
    """

    work: str
    payload: str
    contestant: str
    opponents: tuple[str, ...]
    limit: float
    at_least: bool = False

    def ratio(self, times: Times) -> float:
        """Return the measured ratio."""
        found = times[self.work][self.payload]
        mine, theirs = found[self.contestant], min(found[name] for name in self.opponents if name in found)
        return theirs / mine if self.at_least else mine / theirs

    def is_met(self, times: Times) -> bool:
        ratio = self.ratio(times)
        return ratio >= self.limit if self.at_least else ratio <= self.limit


_CALLS: Final = "tools_call_217 tools_call_217_typescript tools_call_325 tools_call_325_typescript"
_LARGE: Final = "tools_list_14k tools_list_14k_typescript resource_text_14k simulation_200k"
_LOGS: Final = "logs_1m logs_1m_typescript"
_BATCHES: Final = "batch_10_requests batch_10_responses batch_100_requests batch_100_responses"
_UNUSUAL: Final = (
    "id_19_digits id_float id_null method_escaped names_escaped names_chinese escaped_text latin_text latin_short "
    "chinese_short emoji_short floats_short floats_17_digits deep_arrays deep_objects rows_indented"
)
_ANY_MSGSPEC: Final = (MSGSPEC, MSGSPEC_UNTRACKED)

LIMITS: Final[tuple[tuple[str, str, tuple[str, ...], dict[str, float]], ...]] = (
    (
        "decode",
        CORE,
        (ORJSON,),
        {
            "tiny_request": 0.18,
            "small_request": 0.26,
            "small_request_spaced": 0.30,
            _CALLS: 0.53,
            "eth_call": 0.44,
            "did_change hover": 0.52,
            "completion electrum_header progress": 0.70,
            "error_77 error_163": 0.50,
            "tiny_response": 0.30,
            "tools_call_response": 0.51,
            "result_1k": 0.92,
            _BATCHES: 0.51,
            "text_10k hex_32k blob_1m": 0.20,
            _LARGE: 0.75,
            "completion_80k": 0.70,
            _LOGS: 0.65,
            "chinese": 0.55,
            "escapes": 0.60,
            "params_first unknown_last emoji floats integers": 1.0,
            _UNUSUAL: 1.0,
        },
    ),
    ("decode", CORE, (MSGSPEC,), {"tiny_request": 0.40, "small_request small_request_spaced": 0.50}),
    ("decode", CORE, _ANY_MSGSPEC, {_CALLS: 0.80}),
    ("decode in turn", CORE, (ORJSON,), {" ".join(turns()): 0.55}),
    (
        "decode",
        CORE_RAW,
        (ORJSON,),
        {"error_77 error_163": 0.40, _BATCHES: 0.26, "chinese": 0.50, "escapes floats": 1.0},
    ),
    (
        "decode",
        CORE_RAW,
        (MSGSPEC_RAW,),
        {"tools_call_325 tools_call_325_typescript": 0.50, f"{_LARGE} completion_80k {_LOGS} blob_1m": 0.60},
    ),
    ("decode", CORE_PARSE, (ORJSON,), {"tiny_request": 0.35}),
    (
        "encode",
        CORE,
        (ORJSON,),
        {
            "tiny_response": 0.24,
            "tools_call_response": 0.43,
            "result_1k": 0.60,
            "result_4k result_10k": 0.80,
            "tools_list_14k completion_80k logs_1m": 0.90,
            "blob_1m emoji_short floats_17_digits": 1.0,
        },
    ),
    ("stream", CORE, (ORJSON,), {"tiny_request": 0.10}),
    ("stream", CORE, (MSGSPEC,), {"tiny_request": 0.25}),
)
"""The bars of the works that compare libraries: work, contestant, opponents, and the limits by messages."""


def bars() -> list[Bar]:
    """Return all bars, in the order of the report."""
    found = [
        Bar(work, payload, contestant, opponents, limit)
        for work, contestant, opponents, limits in LIMITS
        for names, limit in limits.items()
        for payload in names.split()
    ]
    for name, payload in payloads().items():
        if payload.carries_object:
            found.append(Bar("decode", name, CORE, (PYDANTIC,), 3, at_least=True))
        found.append(Bar("decode", name, PURE, (ORJSON,), 4.3 if name == "tiny_request" else 10))
        if len(payload.text) < 1000 or payload.kind.endswith("batch"):
            found.append(Bar("decode", name, PURE, peers.PURE_PYTHON_PEERS, 1.0))
    found += [
        Bar(call.work, payload, CORE, (ORJSON,), limit) for call in CALLS for payload, limit in call.limits.items()
    ]
    return found


def table(figures: dict[str, Any]) -> str:
    """Return the bars as a Markdown table, and how many are missed."""
    times: Times = figures["nanoseconds"]
    rows = [("work", "ns", "bar", "ratio", "met")]
    for bar in bars():
        against = bar.opponents[0] if len(bar.opponents) == 1 else "the best of " + ", ".join(bar.opponents)
        rows.append(
            (
                f"{bar.contestant}: {bar.work} {bar.payload} ({figures['sizes'][bar.payload]})",
                f"{times[bar.work][bar.payload][bar.contestant]:,.0f}",
                f"{'at least' if bar.at_least else 'at most'} {bar.limit:g} of {against}",
                f"{bar.ratio(times):.3f}",
                "yes" if bar.is_met(times) else "**MISSED**",
            )
        )
    missed = sum("MISSED" in row[-1] for row in rows)
    count = len(rows) - 1
    return f"{markdown(rows)}\n\n" + (f"{missed} of {count} bars MISSED." if missed else f"All {count} bars met.")
