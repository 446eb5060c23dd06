from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from jsonrpc_fast.codec import _messages, _pure

from . import starts, summary
from .data import CORPORA, MAX_TURN_BYTES, payloads, sizes, stream_of, turns, typescript_order

MADE = payloads(Path("nowhere"))


@pytest.fixture
def report() -> Any:
    pytest.importorskip("matplotlib", reason="the group `bench` is not installed")
    return importlib.import_module("benchmarks.report")


def made_up_figures(report: Any, ours: float) -> dict[str, Any]:
    """Return figures in which all others take 1000 ns."""
    times: dict[str, dict[str, dict[str, float]]] = {}
    for bar in report.bars.bars():
        found = times.setdefault(bar.work, {}).setdefault(bar.payload, {report.peers.ORJSON: 1000.0})
        found.update(dict.fromkeys(bar.opponents, 1000.0))
        found[bar.contestant] = ours
    for work, payload, _ in summary.PANELS:
        times.setdefault(work, {}).setdefault(payload, {report.peers.ORJSON: 1000.0})
    kept = {"tiny_request": {report.peers.CORE: 72.0}, "logs_1m": {report.peers.CORE: 2_000_800.0}}
    return {"facts": {"system": "none"}, "sizes": sizes(), "nanoseconds": times, "bytes_kept": kept}


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


def test_turns_are_real_messages_of_moderate_size() -> None:
    found = turns()
    assert len(found["wire"].texts) == 126
    for turn in found.values():
        assert max(map(len, turn.texts)) <= MAX_TURN_BYTES
        assert not [text for text in turn.texts if isinstance(_pure.decode(text), _messages.ParseError)]
    assert set(turns(Path("nowhere"))) == {"wire"}


def test_bars_met(report: Any) -> None:
    figures = made_up_figures(report, 1.0)
    count = len(report.bars.bars())
    assert "MISSED" not in report.bars.table(figures)
    lines = report.bars.summary(figures).splitlines()
    assert lines[0] == f"All {count} bars met."
    first, rows = map(int, re.findall(r"\d+", lines[1]))
    assert lines[1] == f"First in {first} of {rows} eager rows."
    assert first == rows >= 55 + len(turns())  # a new message adds a row
    assert len(lines) == 6


def test_bars_missed(report: Any) -> None:
    figures = made_up_figures(report, 20_000.0)
    count = len(report.bars.bars())
    assert report.bars.table(figures).count("**MISSED**") == count
    lines = report.bars.summary(figures).splitlines()
    assert lines[0] == f"{count} of {count} bars MISSED."
    assert lines[1].startswith("First in 0 of ")


def test_a_rank_counts_only_those_that_do_the_same_work(report: Any) -> None:
    peers = report.peers
    times = {
        "decode": {
            "tiny_request": {
                peers.CORE: 100.0,
                peers.CORE_RAW: 90.0,
                peers.CORE_PARSE: 20.0,
                peers.PURE: 900.0,
                peers.ORJSON: 80.0,
                peers.MSGSPEC: 120.0,
                peers.MSGSPEC_RAW: 60.0,
                peers.SIMDJSON: 50.0,
                peers.PJRPC: 600.0,
            }
        }
    }

    def place(contestant: str) -> object:
        bar = report.bars.Bar("decode", "tiny_request", contestant, (peers.ORJSON,), 1.0)
        found = report.bars.standing(bar, times)
        return found and (found.rank, found.best, found.ratio)

    assert place(peers.CORE) == (2, peers.ORJSON, 1.25)
    assert place(peers.CORE_RAW) == (4, peers.SIMDJSON, 1.8)
    assert place(peers.PURE) == (2, peers.PJRPC, 1.5)
    assert place(peers.CORE_PARSE) is None


@pytest.mark.parametrize(
    ("at_least", "limit", "ratio", "met"),
    [(False, 0.5, 0.25, True), (False, 0.2, 0.25, False), (True, 4.0, 4.0, True), (True, 4.1, 4.0, False)],
)
def test_a_bar(report: Any, at_least: bool, limit: float, ratio: float, met: bool) -> None:
    bar = report.bars.Bar("decode", "tiny_request", "ours", ("one", "other", "not installed"), limit, at_least)
    times = {"decode": {"tiny_request": {"ours": 25.0, "one": 100.0, "other": 200.0}}}
    assert bar.ratio(times) == ratio
    assert bar.is_met(times) is met


@pytest.mark.ci
def test_the_contestants_of_every_bar_are_entered(report: Any) -> None:
    if report.jsonrpc_fast.BACKEND != "cython":
        with pytest.raises(RuntimeError, match="compiled core"):
            report.entered("decode")
        return
    entered = {
        (work, payload): {contestant.name for contestant in contestants}
        for work in report.WORKS
        for payload, contestants in report.entered(work).items()
    }
    for bar in report.bars.bars():
        found = entered[bar.work, bar.payload]
        assert bar.contestant in found
        # A library only for requests does not read a response.
        assert found.intersection(bar.opponents)


@pytest.mark.ci
def test_the_whole_report(report: Any) -> None:
    counts = {"tiny_request": {"jsonrpc_fast": 1234, "orjson": 5678}}
    shown = report.text(made_up_figures(report, 1.0), counts)
    assert "| tiny_request           | 1,234        | 5,678  |" in shown
    assert "| tiny_request, bytes | 72           |" in shown
    assert "| logs_1m, MB per MB  | 2.00         |" in shown
    assert shown.splitlines()[-1].startswith("First in ")
    assert "Not counted: valgrind is not installed." in report.text(made_up_figures(report, 1.0), None)


@pytest.mark.parametrize(("expression", "size"), [("bytes(data)", 74), ("None", 0), ("data[:10]", 43)])
def test_memory_kept(report: Any, expression: str, size: int) -> None:
    contests = importlib.import_module("benchmarks.contests")
    contestant = contests.Contestant("any", expression, {"data": b"0" * 41})
    assert report.memory.kept(contestant, b"0" * 41) == pytest.approx(size, abs=1)


def test_instructions_need_valgrind(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "nowhere")
    assert report.instructions.measure() is None


def test_instructions_of_a_call(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    instructions = report.instructions

    def run(command: tuple[str, ...], **options: Any) -> None:
        """Write the dumps of calls of 1000, 2000, ... instructions, in a loop of 50 a turn."""
        output = next(option for option in command if option.startswith("--callgrind-out-file=")).partition("=")[2]
        per_call = [0, *range(1000, 1000 * 1000, 1000)][: 1 + sum(map(len, names))]
        totals = [(50 + call) * turns + 7 for call in per_call for turns in (100, 300)]
        for number, total in enumerate(totals, 1):
            Path(f"{output}.{2 * number - 1}").write_text("totals: 999999\n")  # what ran between the calls
            Path(f"{output}.{2 * number}").write_text(f"version: 1\ntotals: {total}\n")

    names = [list(instructions.calls(MADE[payload].text)) for payload in instructions.PAYLOADS]
    monkeypatch.setattr(instructions.shutil, "which", lambda program: program)
    monkeypatch.setattr(instructions.subprocess, "run", run)
    counts = instructions.measure()
    assert [list(by_name) for by_name in counts.values()] == names
    assert counts["tiny_request"][instructions.FLOOR] == 1000
    assert [count for by_name in counts.values() for count in by_name.values()][-1] == 1000 * sum(map(len, names))


@pytest.mark.slow
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
    assert summary.bars(figures) in text
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
    assert cells[2] == ["Reading a tiny request (7 B)", "200 ns", *(f"{at / 2:.2f}\u00d7" for at in range(1, 7))]
    assert cells[5] == ["Reading a large result (7 B)", "1.23 ms", "", "", "", "", "", "1.62\u00d7"]
    assert len(lines) == 2 + len(summary.PANELS)
    times["decode"]["tools_call_325"] |= {"orjson": 400.0, "json": 1000.0}
    assert summary.bars({"nanoseconds": times}).splitlines()[1:4] == [
        "jsonrpc_fast, rules checked    \u2588 0.25\u00d7",
        "orjson, nothing checked        \u2588\u2588 1.00\u00d7",
        "json, nothing checked          \u2588\u2588\u2588\u2588\u2588 2.50\u00d7",
    ]


def run_benchmarks(*options: str) -> str:
    command = [sys.executable, "-m", "pytest", "--benchmark-only", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
def test_the_benchmarks_are_the_rows_of_the_readme(report: Any) -> None:
    if report.jsonrpc_fast.BACKEND != "cython":
        pytest.skip("the benchmarks need the compiled core")
    shown = run_benchmarks("-k", "tiny and not pydantic", "--benchmark-disable-gc")
    for _, payload, title in summary.PANELS:
        assert (f"{title} ({sizes()[payload]})" in shown) == ("tiny" in title)
    assert "of orjson" in shown
    assert max(map(len, shown.splitlines()[8:])) <= 100


@pytest.mark.ci
def test_the_start_of_a_server_is_measured(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(starts.SERVERS["jsonrpc_fast"])
    seconds, modules = starts.start(program)
    assert seconds > 0
    assert modules > 100
