"""The commands `stats` and `bench`: what they count, and that they show no contents."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.cli import stats
from jsonrpc_fast.cli.main import main
from jsonrpc_fast.testing.recordings import Sender, record_line

from ..support.command_line import run_here
from ..support.tables import rows


def recording(path: Path, lines: list[tuple[float, Sender, bytes]]) -> Path:
    path.write_bytes(b"".join(record_line(text, sender, time=time) for time, sender, text in lines))
    return path


def printed(*arguments: str) -> str:
    done = run_here(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def request(id: int, method: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":["secret"]}' % (id, method.encode())


def result(id: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":"secret"}' % id


ERROR = b'{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":"secret"}}'
CONVERSATION: list[tuple[float, Sender, bytes]] = [
    (1.0, "client", request(1, "add")),
    (1.25, "server", result(1)),
    (2.0, "client", b"[" + request(2, "add") + b"," + request(3, "sub") + b"]"),
    (2.5, "server", b"[" + result(2) + b"," + ERROR % 3 + b"]"),
    (3.0, "server", request(1, "ask")),  # an id of its own
    (4.0, "client", result(1)),
    (5.0, "client", request(9, "add")),  # without a response
    (6.0, "client", b'{"jsonrpc":"2.0","method":"news"}'),
    (7.0, "server", result(77)),  # nobody has asked
    (8.0, "client", b"{"),
]


def test_a_recording(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.ndjson", CONVERSATION)
    out = printed("stats", "--json", str(path))
    found = json.loads(out)
    assert {name: found[name] for name in ("messages", "invalid", "unpaired_responses")} == {
        "messages": 12,
        "invalid": 1,
        "unpaired_responses": 1,
    }
    counts = {name: {key: value for key, value in method.items() if value} for name, method in found["methods"].items()}
    seconds = {name: method.pop("seconds", None) for name, method in counts.items()}
    for method in counts.values():
        method.pop("bytes")
    assert counts == {
        "add": {"requests": 3, "results": 2},
        "ask": {"requests": 1, "results": 1},
        "news": {"notifications": 1},
        "sub": {"requests": 1, "errors": 1},
    }
    assert seconds == {
        "add": {"p50": 0.5, "p99": 0.5},
        "ask": {"p50": 1.0, "p99": 1.0},
        "news": None,
        "sub": {"p50": 0.5, "p99": 0.5},
    }
    assert "secret" not in out


def test_the_table(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.ndjson", CONVERSATION)
    assert printed("stats", str(path)) == (
        "method  requests  notifications  errors  unanswered  bytes p50  p99  ms p50   p99\n"
        "add            3              0       0           1         59  121     500   500\n"
        "ask            1              0       0           0         59   59    1000  1000\n"
        "sub            1              0       1           0        121  121     500   500\n"
        "news           0              1       0           0         33   33\n"
        f"{path}: 12 messages, 1 invalid, 1 responses unpaired\n"
    )


def test_a_stream_has_no_times_and_pairs_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(b"\n".join([request(1, "add"), result(1), request(2, "add"), b"{"]) + b"\n")
    assert printed("stats", str(path)) == (
        "method  requests  notifications  errors  unanswered  bytes p50  p99\n"
        "add            2              0       0           1         59   59\n"
        f"{path}: 4 messages, 1 invalid, 0 responses unpaired\n"
    )


GZIP = gzip.compress(request(1, "add"), mtime=0)
# Longer than the buffer of a file: the first message decides.
PRETTY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "add", "params": ["x" * 20_000]}, indent=2).encode()


@rows(
    ("command", "content", "said"),
    [
        ("stats", b"", "has no message"),
        ("stats", b'{"time":1,"connection":1}\n', "line 1 is not a line of a recording"),
        ("stats", None, "No such file or directory"),
        ("stats", GZIP, "x: it is compressed with gzip; read it with: gzip -dc FILE | jsonrpc-fast stats\n"),
        ("stats", PRETTY, "x: a message takes several lines; read it with --framing concatenated\n"),
        ("stats", b"\0" * 9, "x: it is a binary file, not a stream of messages\n"),
        ("bench", GZIP, "x: it is compressed with gzip; read it with: gzip -dc FILE | jsonrpc-fast bench\n"),
        ("bench", b"", "has no valid message"),
        ("bench", b"{}\n", "has no valid message of the profile jsonrpc"),
        ("bench", None, "No such file or directory"),
    ],
)
def test_what_cannot_be_read(command: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    elif path.exists():
        path.unlink()
    done = run_here(command, str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_what_is_advised_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(PRETTY)
    assert f"{path}: 1 messages, 0 invalid" in printed("stats", "--framing", "concatenated", str(path))


def test_bench_measures_all_contestants(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.ndjson", CONVERSATION)
    found = json.loads(printed("bench", "--seconds", "0.01", "--json", str(path)))
    assert found["messages"] == 9  # without the input that is not JSON; a batch counts once
    names = ["json.loads", "orjson.loads", "jsonrpc_fast.decode", "jsonrpc_fast.decode, raw=True"]
    names += ["json.dumps", "orjson.dumps", "jsonrpc_fast.encode"]
    if "orjson" not in sys.modules:
        names = [name for name in names if not name.startswith("orjson")]
    assert list(found["rows"]) == names
    ratios: dict[str, Any] = found["rows"]["jsonrpc_fast.decode"]
    assert ratios["json.loads"] == pytest.approx(
        ratios["seconds_per_message"] / found["rows"]["json.loads"]["seconds_per_message"]
    )
    assert " x json.loads" in printed("bench", "--seconds", "0.01", str(path))


def test_the_number_of_methods_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hostile file may invent a method for each message."""
    monkeypatch.setattr(stats, "MAX_METHODS", 2)
    path = tmp_path / "f"
    path.write_text("".join([f'{{"jsonrpc":"2.0","method":"{name}"}}\n' for name in "abcdba"]))
    assert main(["stats", "--json", str(path)]) == 0
    methods = json.loads(capsys.readouterr().out)["methods"]
    assert {name: counts["notifications"] for name, counts in methods.items()} == {"a": 2, "b": 2, "(other methods)": 2}
