"""The command `replay`: a recording against servers that behave the same, or differently."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.testing.recordings import Sender, record_line

from ..support.command_line import run_here
from ..support.forking import MARK
from ..support.tables import rows

SERVER = (
    MARK
    + """
import asyncio, sys
from jsonrpc_fast import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import run_stdio

async def ask(session):
    return await session.call("name", ["?"])

def fail():
    raise RpcError(5, "no", {"why": "secret"})

gate = []

async def wait():
    while not gate:
        await asyncio.sleep(0.01)
    return gate

async def serve(transport):
    handlers = {"add": lambda a, b: a + b, "fail": fail, "wait": wait, "open": lambda: gate.append(1)}
    async with Session(transport, handlers) as session:
        session.register("ask", lambda: ask(session))
        await session.wait_closed()
raise SystemExit(run_stdio(serve))
"""
)
MUTE = "import sys; sys.stdin.read()"
COMMAND = ["--", sys.executable, "-c", SERVER]


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    members = {"jsonrpc": "2.0", "id": id, "method": method}
    return members if params is None else {**members, "params": params}


def result(id: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Any, code: int, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", **more}}


SILENT = (
    "no response to 'add' came in 0.01 s, and nothing has arrived from the peer: it may still be busy, or speak "
    "another framing or protocol"
)


def replayed(
    tmp_path: Path, *lines: tuple[Sender, Any], options: tuple[str, ...] = (), server: list[str] | None = None
) -> tuple[int, str, str]:
    path = tmp_path / "recording.ndjson"
    path.write_bytes(b"".join(record_line(json.dumps(each).encode(), sender, time=0) for sender, each in lines))
    done = run_here("replay", *options, str(path), *(COMMAND if server is None else ["--", *server]))
    return done.returncode, done.stdout, done.stderr


def test_a_response_that_does_not_come_in_time(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        ("client", request(1, "add", [1, 2])),
        ("server", result(1, 3)),
        options=("--timeout", "0.01"),
        server=[sys.executable, "-c", MUTE],
    )
    assert found == (
        4,
        f"line 2: add: {SILENT}\nresponses 0, different 0, notifications 0\n",
        (
            "jsonrpc-fast replay: nothing has arrived from the server yet: a language server needs --framing "
            "content-length, and other servers may need another --framing\n"
            "jsonrpc-fast replay: responses that did not come in time: 1\n"
        ),
    )


def test_the_same_responses(tmp_path: Path) -> None:
    """Overlapping calls, requests of the server, batches, and requests without a response."""
    found = replayed(
        tmp_path,
        ("client", request("a", "add", [1, 2])),
        ("server", result("a", 3.0)),
        ("client", request(1, "wait")),
        ("client", [request(2, "fail"), {"jsonrpc": "2.0", "method": "open"}]),
        ("server", [error(2, 5, data={"why": "secret"})]),
        ("server", result(1, [1])),
        ("client", request(3, "ask")),
        ("server", request(3, "name", ["?"])),
        ("client", result(3, "Ada")),
        ("server", result(3, "Ada")),
        ("client", request(4, "add", [1, 2])),
        ("client", "no message"),
    )
    assert found == (0, "responses 4, different 0, notifications 1, 1 without a recorded response\n", "")


def test_other_responses(tmp_path: Path) -> None:
    lines: list[tuple[Sender, Any]] = [
        ("client", request(1, "add", [{"a": 1}, 1])),
        ("server", result(1, {"a": [1, True, {"x/y": 0}], "b": "long " * 20})),
        ("client", request(2, "fail")),
        ("server", error(2, 6, data={"when": 1})),
        ("client", request(3, "add", ["1", "2"])),
        ("server", result(3, 12)),
    ]
    status, shown, errors = replayed(tmp_path, *lines)
    assert status == 1
    assert errors.startswith("the handler of 'add' failed, id 1\nTraceback")  # why the response differs
    assert shown.splitlines() == [
        "line 2: add: /result: an object is gone",
        "line 2: add: /error: an object is new",
        "line 4: fail: /error/code: 6 became 5",
        "line 4: fail: /error/data/when: 1 is gone",
        'line 4: fail: /error/data/why: "secret" is new',
        'line 6: add: /result: 12 became "12"',
        "responses 3, different 3, notifications 0",
    ]
    options = ("--ignore", "/error/*", "--ignore", "/result", "--ignore", "/error")
    assert replayed(tmp_path, *lines, options=options)[:2] == (0, "responses 3, different 0, notifications 0\n")


@rows(
    ("before", "after", "expected"),
    [
        (1, 1.0, []),
        (True, 1, ["/result: true became 1"]),
        ([1, 2], [1], ["/result: an array of 2 became an array of 1"]),
        ([1, {"a/b": None}], [1, {"a/b": 0}], ["/result/1/a~1b: null became 0"]),
        ({"a": 1}, [], ["/result: an object became an array of 0"]),
        (
            list(range(7)),
            [7] * 7,
            [*[f"/result/{number}: {number} became 7" for number in range(5)], "2 more differences not shown"],
        ),
    ],
)
@pytest.mark.ci
def test_differences(before: Any, after: Any, expected: list[str], tmp_path: Path) -> None:
    code = "import sys; [print(sys.argv[1], flush=True) for _ in sys.stdin]"
    path = tmp_path / "recording.ndjson"
    lines = [("client", request(1, "m")), ("server", result(1, before))]
    path.write_bytes(b"".join(record_line(json.dumps(each).encode(), sender, time=0) for sender, each in lines))  # type: ignore[arg-type]
    done = run_here("replay", str(path), "--", sys.executable, "-c", code, json.dumps(result(1, after)))
    assert done.stdout.splitlines()[:-1] == [f"line 2: m: {line}" for line in expected]
    assert done.returncode == (1 if expected else 0)


def test_json(tmp_path: Path) -> None:
    """Every difference with both values, and a pointer that --ignore takes."""
    before = {"a/b": 1, "gone": None, "long": list(range(7))}
    lines: list[tuple[Sender, Any]] = [
        ("client", request(1, "add", [{"a/b": 2, "long": [8] * 7}, 0])),
        ("client", request(2, "echo")),
        ("client", request(3, "tick")),
        ("server", result(1, before)),
    ]
    code = "import sys; [print(sys.argv[1], flush=True) for _ in sys.stdin]"
    after = {"a/b": 2, "new": "x", "long": [8] * 7}
    server = [sys.executable, "-c", code, json.dumps(result(1, after))]
    status, shown, _ = replayed(tmp_path, *lines, options=("--json",), server=server)
    place = {"type": "difference", "line": 4, "method": "add"}
    assert (status, [json.loads(line) for line in shown.splitlines()]) == (
        1,
        [
            {**place, "pointer": "/result/a~1b", "before": 1, "after": 2},
            {**place, "pointer": "/result/gone", "before": None},
            *[{**place, "pointer": f"/result/long/{n}", "before": n, "after": 8} for n in range(7)],
            {**place, "pointer": "/result/new", "after": "x"},
            {"type": "summary", "responses": 1, "different": 1, "notifications": 0, "late": 0, "unrecorded": 2},
        ],
    )
    options = ("--json", "--ignore", "/result/a~1b", "--ignore", "/result/gone", "--ignore", "/result/long")
    status, shown, _ = replayed(tmp_path, *lines, options=(*options, "--ignore", "/result/new"), server=server)
    assert (status, shown.count("\n")) == (0, 1)
    mute = [sys.executable, "-c", MUTE]
    status, shown, _ = replayed(tmp_path, *lines, options=("--json", "--timeout", "0.01"), server=mute)
    late, summary = map(json.loads, shown.splitlines())
    assert (status, late, summary["late"]) == (4, {**place, "reason": SILENT}, 1)


def test_what_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"jsonrpc": "2.0"}\n')
    done = run_here("replay", str(path), *COMMAND)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jsonrpc-fast replay: line 1 is not a line of a recording\n"
    done = run_here("replay", str(tmp_path / "none"), *COMMAND)
    assert done.returncode == 2
    assert done.stderr.endswith("none: No such file or directory\n")
    path.write_bytes(gzip.compress(record_line(b"{}", "client", time=0), mtime=0))
    done = run_here("replay", str(path), *COMMAND)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"jsonrpc-fast replay: cannot read {path}: it is compressed with gzip; "
        "read it with: gzip -dc FILE > OTHER; jsonrpc-fast replay OTHER ...\n"
    )


def test_a_recording_with_nothing_to_send(tmp_path: Path) -> None:
    """Success would mean that the responses are as recorded."""
    notice = ("server", {"jsonrpc": "2.0", "method": "hello"})
    lines: tuple[tuple[Sender, Any], ...]
    for lines in ((), (notice,), (("server", result(1, 2)),)):  # type: ignore[assignment]
        status, output, errors = replayed(tmp_path, *lines)
        assert (status, output) == (2, "")
        assert errors.endswith("recording.ndjson contains neither a request nor a notification of a client\n")


def test_a_pointer_without_a_slash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    done = run_here("replay", "--ignore", "result/time", str(path), *COMMAND)
    assert (done.returncode, done.stderr) == (
        2,
        "jsonrpc-fast replay: --ignore takes a JSON pointer, which begins with a slash\n",
    )


@pytest.mark.parametrize("words", [[], ["file"], ["file", "tcp://localhost:1", "more"]])
def test_a_command_line_that_is_wrong(words: list[str]) -> None:
    assert run_here("replay", *words).returncode == 2
