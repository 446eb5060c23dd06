"""The bars: how fast each operation must be, compared with the other libraries, and whether it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from . import peers
from .calls import CALLS
from .data import payloads, turns
from .peers import CORE, CORE_PARSE, CORE_RAW, MSGSPEC, MSGSPEC_RAW, MSGSPEC_UNTRACKED, ORJSON, PURE, PYDANTIC
from .tables import markdown

Times = dict[str, dict[str, dict[str, float]]]
"""Nanoseconds by work, payload and contestant."""

READY_MADE: Final = frozenset({CORE_PARSE, peers.ORJSON_READY})
"""Contestants whose input is prepared before the measured time. They get no rank."""
LEAVE_PAYLOADS: Final = frozenset({MSGSPEC_RAW, peers.SIMDJSON})
"""Contestants that do not decode payloads. They compete only with `raw=True`."""
EAGER_WORKS: Final = frozenset({"decode", "decode, tight limits", "decode in turn"})


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

    @property
    def is_eager(self) -> bool:
        """Return whether the core decodes the payloads, too."""
        return self.contestant == CORE and self.work in EAGER_WORKS


@dataclass(frozen=True)
class Standing:
    """The place of a contestant among the others that do the same work."""

    rank: int
    best: str
    ratio: float


def standing(bar: Bar, times: Times) -> Standing | None:
    """Return the place of the bar's contestant; None if no other library does the same work."""
    if bar.contestant in READY_MADE:
        return None
    found = times[bar.work][bar.payload]
    if bar.contestant == PURE:
        rivals = {name: time for name, time in found.items() if name in peers.PURE_PYTHON_PEERS}
    else:
        left_out = READY_MADE if bar.contestant == CORE_RAW else READY_MADE | LEAVE_PAYLOADS
        rivals = {name: time for name, time in found.items() if not name.startswith(CORE) and name not in left_out}
    if not rivals:
        return None
    mine = found[bar.contestant]
    best = min(rivals, key=rivals.__getitem__)
    return Standing(1 + sum(time < mine for time in rivals.values()), best, mine / rivals[best])


_TOOLS_CALLS: Final = ("tools_call_217", "tools_call_217_typescript", "tools_call_325", "tools_call_325_typescript")
_STRUCTURED: Final = {
    "tools_list_14k": 0.75,
    "tools_list_14k_typescript": 0.75,
    "resource_text_14k": 0.75,
    "completion_80k": 0.70,
    "simulation_200k": 0.75,
    "logs_1m": 0.65,
    "logs_1m_typescript": 0.65,
}
_ORJSON: Final = (ORJSON,)
_MSGSPEC: Final = (MSGSPEC,)
_ANY_MSGSPEC: Final = (MSGSPEC, MSGSPEC_UNTRACKED)
_RAW_MSGSPEC: Final = (MSGSPEC_RAW,)


def bars() -> list[Bar]:
    """Return all bars, in the order of the report."""
    return [*_decoding(), *_raw(), *_encoding(), *_streaming(), *_others(), *_calls()]


def _decoding() -> Iterable[Bar]:
    for payload, limit, typed_limit in (
        ("tiny_request", 0.18, 0.40),
        ("small_request", 0.26, 0.50),
        ("small_request_spaced", 0.30, 0.50),
    ):
        yield Bar("decode", payload, CORE, _ORJSON, limit)
        yield Bar("decode", payload, CORE, _MSGSPEC, typed_limit)
    for payload in _TOOLS_CALLS:
        yield Bar("decode", payload, CORE, _ORJSON, 0.53)
        yield Bar("decode", payload, CORE, _ANY_MSGSPEC, 0.80)
    for payload, limit in (
        ("did_change", 0.52),
        ("hover", 0.52),
        ("eth_call", 0.44),
        ("completion", 0.70),
        ("electrum_header", 0.70),
        ("progress", 0.70),
    ):
        yield Bar("decode", payload, CORE, _ORJSON, limit)
    yield Bar("decode", "params_first", CORE, _ORJSON, 1.0)
    yield Bar("decode", "unknown_last", CORE, _ORJSON, 1.0)
    yield Bar("decode, tight limits", "tools_call_217", CORE, _ORJSON, 1.0)
    for payload in ("error_77", "error_163"):
        yield Bar("decode", payload, CORE, _ORJSON, 0.50)
    for payload, limit in (("tiny_response", 0.30), ("tools_call_response", 0.51), ("result_1k", 0.92)):
        yield Bar("decode", payload, CORE, _ORJSON, limit)
    for payload in _BATCHES:
        yield Bar("decode", payload, CORE, _ORJSON, 0.51)
    for payload in ("text_10k", "hex_32k", "blob_1m"):
        yield Bar("decode", payload, CORE, _ORJSON, 0.20)
    for payload, limit in _STRUCTURED.items():
        yield Bar("decode", payload, CORE, _ORJSON, limit)
    for name in turns():
        yield Bar("decode in turn", name, CORE, _ORJSON, 0.55)
    for payload, limit in (("chinese", 0.55), ("escapes", 0.60), ("emoji", 1.0), ("floats", 1.0), ("integers", 1.0)):
        yield Bar("decode", payload, CORE, _ORJSON, limit)
    for payload in _UNUSUAL:
        yield Bar("decode", payload, CORE, _ORJSON, 1.0)


_UNUSUAL: Final = (
    "id_19_digits",
    "id_float",
    "id_null",
    "method_escaped",
    "names_escaped",
    "names_chinese",
    "escaped_text",
    "latin_text",
    "latin_short",
    "chinese_short",
    "emoji_short",
    "floats_short",
    "floats_17_digits",
    "deep_arrays",
    "deep_objects",
    "rows_indented",
)
_BATCHES: Final = ("batch_10_requests", "batch_10_responses", "batch_100_requests", "batch_100_responses")


def _raw() -> Iterable[Bar]:
    for payload in ("error_77", "error_163"):
        yield Bar("decode", payload, CORE_RAW, _ORJSON, 0.40)
    for payload in _BATCHES:
        yield Bar("decode", payload, CORE_RAW, _ORJSON, 0.26)
    for payload in ("tools_call_325", "tools_call_325_typescript"):
        yield Bar("decode", payload, CORE_RAW, _RAW_MSGSPEC, 0.50)
    for payload in (*_STRUCTURED, "blob_1m"):
        yield Bar("decode", payload, CORE_RAW, _RAW_MSGSPEC, 0.60)
    for payload, limit in (("chinese", 0.50), ("escapes", 1.0), ("floats", 1.0)):
        yield Bar("decode", payload, CORE_RAW, _ORJSON, limit)


def _encoding() -> Iterable[Bar]:
    limits = {
        "tiny_response": 0.24,
        "tools_call_response": 0.43,
        "result_1k": 0.60,
        **dict.fromkeys(("result_4k", "result_10k"), 0.80),
        **dict.fromkeys(("tools_list_14k", "completion_80k", "logs_1m"), 0.90),
        **dict.fromkeys(("blob_1m", "emoji_short", "floats_17_digits"), 1.0),
    }
    for payload, limit in limits.items():
        yield Bar("encode", payload, CORE, _ORJSON, limit)
    for payload in ("tiny_response", "tools_call_response"):
        yield Bar("encode a batch", payload, CORE, _ORJSON, 0.50)


def _streaming() -> Iterable[Bar]:
    yield Bar("stream", "tiny_request", CORE, _ORJSON, 0.10)
    yield Bar("stream", "tiny_request", CORE, _MSGSPEC, 0.25)
    yield Bar("feed one message", "tiny_request", CORE, _ORJSON, 0.40)
    yield Bar("stream, sse", "tiny_request", CORE, _ORJSON, 1.0)
    yield Bar("classify", "tiny_request", CORE, _ORJSON, 0.50)


def _others() -> Iterable[Bar]:
    yield Bar("decode", "tiny_request", CORE_PARSE, _ORJSON, 0.35)
    messages = payloads()
    for name, payload in messages.items():
        if payload.carries_object:
            yield Bar("decode", name, CORE, (PYDANTIC,), 3, at_least=True)
    for name in messages:
        yield Bar("decode", name, PURE, _ORJSON, 4.3 if name == "tiny_request" else 10)
    for name, payload in messages.items():
        if len(payload.text) < 1000 or payload.kind.endswith("batch"):
            yield Bar("decode", name, PURE, peers.PURE_PYTHON_PEERS, 1.0)


def _calls() -> Iterable[Bar]:
    for call in CALLS:
        for payload, limit in call.limits.items():
            yield Bar(call.work, payload, CORE, _ORJSON, limit)


def table(figures: dict[str, Any]) -> str:
    """Return the bars as a Markdown table, with the rank of each contestant."""
    times: Times = figures["nanoseconds"]
    rows = [("work", "ns", "rank", "best other", "ratio to it", "bar", "ratio", "met")]
    for bar in bars():
        place = standing(bar, times)
        ratio = bar.ratio(times)
        against = bar.opponents[0] if len(bar.opponents) == 1 else "the best of " + ", ".join(bar.opponents)
        rows.append(
            (
                f"{bar.contestant}: {bar.work} {bar.payload} ({figures['sizes'][bar.payload]})",
                f"{times[bar.work][bar.payload][bar.contestant]:,.0f}",
                str(place.rank) if place else "",
                place.best if place else "",
                f"{place.ratio:.2f}" if place else "",
                f"{'at least' if bar.at_least else 'at most'} {bar.limit:g} of {against}",
                f"{ratio:.1f}" if bar.at_least else f"{ratio:.3f}",
                "yes" if bar.is_met(times) else "**MISSED**",
            )
        )
    return markdown(rows)


def summary(figures: dict[str, Any]) -> str:
    """Return how many bars are met, and in how many contests the core is first."""
    times: Times = figures["nanoseconds"]
    everything = bars()
    missed = sum(not bar.is_met(times) for bar in everything)
    lines = [f"{missed} of {len(everything)} bars MISSED." if missed else f"All {len(everything)} bars met."]
    groups = {
        "eager": [bar for bar in everything if bar.is_eager and PYDANTIC not in bar.opponents],
        "raw": [bar for bar in everything if bar.contestant == CORE_RAW],
        "encoding": [bar for bar in everything if bar.work.startswith("encode")],
        "call": [bar for bar in everything if bar.work.startswith("call ")],
        "stream and classify": [bar for bar in everything if bar.work.startswith(("stream", "feed", "classify"))],
    }
    for name, group in groups.items():
        # A contest may have several bars.
        contests = {(bar.work, bar.payload): standing(bar, times) for bar in group}
        first = sum(place is not None and place.rank == 1 for place in contests.values())
        lines.append(f"First in {first} of {len(contests)} {name} rows.")
    return "\n".join(lines)
