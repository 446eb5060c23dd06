"""The bars and the messages, and that the pages and the pictures are those of the stored figures."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from jsonrpc_fast.codec import _messages, _pure

from .data import CORPORA, MAX_TURN_BYTES, payloads, sizes, stream_of, turns, typescript_order

for library in ("ajsonrpc", "matplotlib", "msgspec"):
    pytest.importorskip(library, reason="the group `dev` is not installed")

from . import bars, bench_threads, connections, pages, serving, site  # noqa: E402

MADE = payloads(Path("nowhere"))


def stored(name: str) -> Any:
    return json.loads((pages.HERE / name).read_bytes())


def tables_of(name: str) -> dict[str, str]:
    """Return the tables that the figures of a run make."""
    if name == "price":
        bench = pytest.importorskip("benchmarks.bench_mcp_price")
        return {"price": bench.table(stored("price.json"))}
    return {"threads": bench_threads.table(stored("threads.json"))} if name == "threads" else site.sections(FIGURES)


FIGURES = stored("figures.json")


@pytest.mark.parametrize(
    ("page", "name"), [*[(page, "site") for page in site.PAGES], ("threads.md", "threads"), ("mcp-http.md", "price")]
)
def test_a_page_has_the_tables_of_the_stored_figures(page: Any, name: str) -> None:
    tables, text = tables_of(name), (pages.DOCS / page).read_text(encoding="utf-8")
    assert pages.with_tables(text, tables) == text
    assert pages.with_tables(text, {name: f"{table} " for name, table in tables.items()}) != text


def test_each_table_stands_on_a_page() -> None:
    found = [found[1] for page in site.PAGES for found in pages.MARKED.findall(page.read_text(encoding="utf-8"))]
    of_servers = ("sessions", "connections", "fairness")  # written by what measures them
    assert sorted(found) == sorted([*site.sections(FIGURES), *of_servers])


@pytest.mark.parametrize(
    ("picture", "figures"), [("sizes.svg", "figures"), ("threads.svg", "threads"), ("price.svg", "price")]
)
def test_a_picture_is_that_of_the_stored_figures(picture: str, figures: str) -> None:
    assert pages.digest(stored(f"{figures}.json")) in (pages.HERE / picture).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["orjson", "msgspec", "pjrpc", "json-rpc", "ajsonrpc", "jsonrpcserver"])
def test_the_comparison_has_the_versions_of_the_run(name: str) -> None:
    assert f"| {name} | {FIGURES['facts'][name]} |" in (pages.DOCS / "comparison.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MADE)
def test_payload_is_valid(name: str) -> None:
    decoded = _pure.decode(MADE[name].text)
    items = decoded if isinstance(decoded, list) else [decoded]
    assert not any(isinstance(item, _messages.ParseError) for item in items)
    calls = (_messages.Request, _messages.Notification)
    assert isinstance(items[0], calls) == MADE[name].kind.startswith(("request", "notification"))
    assert isinstance(items[0], _messages.Notification) == (MADE[name].kind == "notification")


@pytest.mark.parametrize("name", MADE)
def test_made_payload_is_like_the_stored_one(name: str) -> None:
    if not CORPORA.exists():
        pytest.skip("the corpora are not next to the repository")
    made, stored = MADE[name], payloads()[name]
    assert (made.kind, made.carries_object) == (stored.kind, stored.carries_object)
    assert len(made.text) == pytest.approx(len(stored.text), rel=0.05)


def test_streams_and_turns() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'
    assert typescript_order(text) == b'{"method":"m","params":{},"jsonrpc":"2.0","id":1}'
    ids = [orjson.loads(line)["id"] for line in stream_of(MADE["tiny_request"]).splitlines()]
    assert ids == list(range(1, len(ids) + 1))
    assert len(turns()["wire"].texts) == 126
    for turn in turns().values():
        assert max(map(len, turn.texts)) <= MAX_TURN_BYTES
        assert not [text for text in turn.texts if isinstance(_pure.decode(text), _messages.ParseError)]


def test_bars_are_met_and_missed() -> None:
    for at_least, limit, is_met in ((False, 0.5, True), (False, 0.2, False), (True, 4.0, True), (True, 4.1, False)):
        bar = bars.Bar("decode", "tiny_request", "ours", ("one", "other", "not installed"), limit, at_least)
        assert bar.is_met({"decode": {"tiny_request": {"ours": 25.0, "one": 100.0, "other": 200.0}}}) is is_met
    times: bars.Times = {}
    for bar in bars.bars():
        found = times.setdefault(bar.work, {}).setdefault(bar.payload, {})
        found.update({**dict.fromkeys(bar.opponents, 1000.0), bar.contestant: 20_000.0})
    count = len(bars.bars())
    assert bars.table({"nanoseconds": times, "sizes": sizes()}).endswith(f"\n{count} of {count} bars MISSED.")


@pytest.mark.ci
def test_the_contestants_of_every_bar_are_entered() -> None:
    contests = importlib.import_module("benchmarks.contests")
    if contests.jsonrpc_fast.BACKEND != "cython":
        with pytest.raises(RuntimeError, match="compiled core"):
            contests.entered("decode")
        return
    entered = {
        (work, payload): {contestant.name for contestant in contestants}
        for work in contests.WORKS
        for payload, contestants in contests.entered(work).items()
    }
    for bar in bars.bars():
        found = entered[bar.work, bar.payload]
        assert bar.contestant in found
        # A library only for requests does not read a response.
        assert found.intersection(bar.opponents)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # environments of other packages may have to be made
def test_each_measurement_runs(tmp_path: Path) -> None:
    """A short run of each program, which finds that its servers and contestants answer."""
    site.plot(FIGURES, tmp_path / "plot.svg")
    assert serving.measure("asyncio", (*serving.OF_THE_PAGE, *serving.COMPARED), serving.LOADS, 1, 64)
    price = pytest.importorskip("benchmarks.bench_mcp_price")
    figures = price.measure(rounds=1, calls=32)
    assert figures["microseconds"][price.FAST].keys() == {"stdio", "HTTP"}
    price.plot(figures, tmp_path / "price.svg")
    assert connections.count("hold", kind="mcp")["kib"] > 0
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--benchmark-only",
        "-p",
        "no:cacheprovider",
        "-k",
        "tiny and not pydantic",
    ]
    done = subprocess.run(command, cwd=pages.HERE.parent, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout
    assert "of orjson" in done.stdout
