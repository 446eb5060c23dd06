from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from jsonrpc_fast.codec import _pure

from . import summary
from .data import CORPORA, payloads, stream_of, typescript_order

MADE = payloads(Path("nowhere"))


@pytest.fixture
def report() -> Any:
    pytest.importorskip("matplotlib", reason="the extra `bench` is not installed")
    return importlib.import_module("benchmarks.report")


def made_up_figures(report: Any, ours: float) -> dict[str, Any]:
    """Return figures in which all others take 1000 ns."""
    times: dict[str, dict[str, dict[str, float]]] = {}
    for bar in report.BARS:
        found = times.setdefault(bar.work, {}).setdefault(bar.payload, {report.peers.ORJSON: 1000.0})
        found.update(dict.fromkeys(bar.opponents, 1000.0))
        if bar.contestant != report.peers.CORE_RAW:
            found[bar.contestant] = ours
    for work, payload, _ in report.PANELS:
        times.setdefault(work, {}).setdefault(payload, {report.peers.ORJSON: 1000.0})
    sizes = {name: payload.size for name, payload in MADE.items()}
    return {"facts": {"system": "none"}, "sizes": sizes, "nanoseconds": times}


@pytest.mark.parametrize("name", MADE)
def test_payload_is_valid(name: str) -> None:
    decoded = _pure.decode(MADE[name].text)
    items = decoded if isinstance(decoded, list) else [decoded]
    assert not any(isinstance(item, _pure.ParseError) for item in items)
    assert isinstance(items[0], _pure.Request) == MADE[name].kind.startswith("request")


@pytest.mark.parametrize("name", MADE)
def test_made_payload_is_like_the_stored_one(name: str) -> None:
    if not CORPORA.exists():
        pytest.skip("the corpora are not there")
    made, stored = MADE[name], payloads()[name]
    assert (made.kind, made.carries_object) == (stored.kind, stored.carries_object)
    assert len(made.text) == pytest.approx(len(stored.text), rel=0.05)


@pytest.mark.parametrize(
    ("name", "length"),
    [("tiny_request", 41), ("small_request", 63), ("small_request_spaced", 63), ("tools_call_217", 217)],
)
def test_length(name: str, length: int) -> None:
    assert len(MADE[name].text) == length


def test_typescript_order() -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'
    assert typescript_order(text) == b'{"method":"m","params":{},"jsonrpc":"2.0","id":1}'


def test_stream_is_whole_lines() -> None:
    chunk = stream_of(MADE["tiny_request"])
    assert 65_000 < len(chunk) <= 65_536
    assert chunk.endswith(b"}\n")
    ids = [orjson.loads(line)["id"] for line in chunk.splitlines()]
    assert ids == list(range(1, len(ids) + 1))


def test_bars_reached(report: Any) -> None:
    table = report.ratio_table(made_up_figures(report, 1.0))
    assert "MISSED" not in table
    assert "bars reached" in table
    assert "not yet" in table


def test_bars_missed(report: Any) -> None:
    table = report.ratio_table(made_up_figures(report, 10_000.0))
    measured = sum(bar.contestant != report.peers.CORE_RAW for bar in report.BARS)
    assert table.count("**MISSED**") == measured
    assert f"{measured} of {measured} bars MISSED" in table


def test_the_contestants_of_every_bar_are_entered(report: Any) -> None:
    if report.jsonrpc_fast.BACKEND != "cython":
        with pytest.raises(RuntimeError, match="compiled core"):
            report.entered("decode")
        return
    for work in ("decode", "encode", "stream"):
        entered = {
            payload: {contestant.name for contestant in contestants}
            for payload, contestants in report.entered(work).items()
        }
        for bar in report.BARS:
            if bar.work == work and bar.contestant != report.peers.CORE_RAW:
                assert {bar.contestant, *bar.opponents} <= entered[bar.payload]


@pytest.mark.parametrize("name", ["plot.svg", "plot.png"])
def test_plot_from_stored_figures(report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stored = tmp_path / "figures.json"
    stored.write_bytes(orjson.dumps(made_up_figures(report, 500.0)))
    arguments = ["report", "--plot-only", "--json", str(stored), "--output", str(tmp_path / name)]
    monkeypatch.setattr("sys.argv", arguments)
    report.main()
    assert (tmp_path / name).stat().st_size > 10_000


def test_the_table_of_the_readme_is_that_of_the_figures(tmp_path: Path) -> None:
    figures = orjson.loads((summary.HERE / "figures.json").read_bytes())
    text = summary.README.read_text(encoding="utf-8")
    assert summary.table(figures) in text
    copy = tmp_path / "README.md"
    copy.write_text(text, encoding="utf-8")
    summary.write(figures, copy)
    assert copy.read_text(encoding="utf-8") == text
    figures["nanoseconds"]["decode"]["tiny_request"]["jsonrpc_fast"] *= 10
    summary.write(figures, copy)
    assert copy.read_text(encoding="utf-8") != text


def test_the_table() -> None:
    names = {name: 100.0 * at for at, name in enumerate(summary.COLUMNS.values(), 1)}
    times: dict[str, dict[str, dict[str, float]]] = {}
    for work, payload, _ in summary.PANELS:
        times.setdefault(work, {})[payload] = {"orjson": 200.0, **names}
    times["decode"]["logs_1m"] = {"orjson": 1_234_567.0, "json": 2_000_000.0}
    sizes = {payload: "7 B" for _, payload, _ in summary.PANELS}
    lines = summary.table({"nanoseconds": times, "sizes": sizes}).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["work", "orjson", *summary.COLUMNS]
    assert cells[2] == ["Reading a tiny request (7 B)", "200 ns", "0.50", "1.00", "1.50", "2.00", "2.50", "3.00"]
    assert cells[5] == ["Reading a large result (7 B)", "1.23 ms", "", "", "", "", "", "1.62"]
    assert len(lines) == 2 + len(summary.PANELS)
