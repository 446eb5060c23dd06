"""`check` of files that are not streams of lines, and its options `--quiet` and `--methods`."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from jsonrpc_fast.cli import check
from jsonrpc_fast.cli import main as cli

from ..support.command_line import MIXED, MIXED_FAULTS, REQUEST, run_here

MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": [1, {"a": "b"}]}
PRETTY = json.dumps(MESSAGE, indent=2).encode()
BODY = REQUEST.strip()
HEADED = b"Content-Length: 39\r\n\r\n" + BODY
EVENT = b"event: message\ndata: " + BODY + b"\n\n"
SEVERAL_LINES = "a message takes several lines; check it with --framing concatenated"
GZIP = "is compressed with gzip; check it with: gzip -dc FILE | jsonrpc-fast check"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("f")


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (PRETTY, f"f: {SEVERAL_LINES}"),
        (PRETTY + b"\n" + PRETTY, f"f: {SEVERAL_LINES}"),
        (b"\xef\xbb\xbf\r\n " + PRETTY.replace(b"\n", b"\r\n"), f"f: {SEVERAL_LINES}"),
        (b"[\n" + BODY + b",\n" + BODY + b"\n]\n", f"f: {SEVERAL_LINES}"),
        (BODY.replace(b",", b",\n  "), f"f: {SEVERAL_LINES}"),
        # Whatever is wrong with the message.
        (b'{\n  "id": 1,\n  "method": [\n', f"f: {SEVERAL_LINES}"),
        (2 * HEADED, "f: the messages have Content-Length headers; check it with --framing content-length"),
        (2 * EVENT, "f: the messages are server-sent events; check it with --framing sse"),
        (gzip.compress(REQUEST, mtime=0), f"f {GZIP}"),
        (bz2.compress(REQUEST), "f is compressed with bzip2; check it with: bzip2 -dc FILE | jsonrpc-fast check"),
        (lzma.compress(REQUEST), "f is compressed with xz; check it with: xz -dc FILE | jsonrpc-fast check"),
        (
            b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00",
            "f is compressed with zstd; check it with: zstd -dc FILE | jsonrpc-fast check",
        ),
        (
            REQUEST.decode().encode("utf-16"),
            "f is UTF-16; check it with: iconv -f UTF-16 -t UTF-8 FILE | jsonrpc-fast check",
        ),
    ],
)
def test_a_file_that_is_no_stream_of_lines(
    data: bytes, advice: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(data)
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr() == ("", f"jsonrpc-fast: {advice}\n")


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\x7fELF\x02\x01\x01\0", b"PK\x03\x04", b"\0\0\0\0"]
)
def test_a_binary_file(data: bytes, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(data)
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr() == ("", "jsonrpc-fast: f is a binary file, not a stream of messages\n")


@pytest.mark.parametrize(
    "data",
    [
        REQUEST + PRETTY,  # the first message is a line
        b"event: started\n" + REQUEST,  # a printed line
        b"Content-Length: unknown\n" + REQUEST,
        b'{"jsonrpc":"2.0","id":1,"met\n' + REQUEST,
        b'[{"jsonrpc":"2.0","id":1},\n' + REQUEST,
        b"BZip\n" + REQUEST,
        b"\n\n" + REQUEST,
        b"printed \xff text\n" + REQUEST,
        b"\x1b[31mcoloured\x1b[0m\n" + REQUEST,
        b'{"jsonrpc":"2.0","id":1,"method":"\0"}\n',
    ],
)
def test_a_stream_of_lines_is_checked_whatever_is_in_it(
    data: bytes, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(data)
    assert cli.main(["check", "f"]) in (0, 1)
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith("f:")


def test_the_advised_framing_reads_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for framing, data in (("concatenated", PRETTY), ("content-length", HEADED), ("sse", EVENT)):
        file.write_bytes(data)
        assert cli.main(["check", "--framing", framing, "f"]) == 0
        assert capsys.readouterr().out == "f: request 1, notification 0, result 0, error 0, batch 0, invalid 0\n"


def test_a_framing_that_was_asked_for_is_used(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(HEADED)
    assert cli.main(["check", "--framing", "newline", "f"]) == 1
    assert "it looks like a header of Content-Length framing" in capsys.readouterr().out
    file.write_bytes(gzip.compress(HEADED, mtime=0))  # no framing has compressed messages
    assert cli.main(["check", "--framing", "content-length", "f"]) == 2
    assert capsys.readouterr() == ("", f"jsonrpc-fast: f {GZIP}\n")


def test_other_files_are_checked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(PRETTY)
    Path("good").write_bytes(REQUEST)
    assert cli.main(["check", "f", "good"]) == 2
    assert capsys.readouterr() == (
        "good: request 1, notification 0, result 0, error 0, batch 0, invalid 0\n",
        f"jsonrpc-fast: f: {SEVERAL_LINES}\n",
    )


def test_standard_input_that_is_compressed() -> None:
    done = run_here("check", data=gzip.compress(REQUEST, mtime=0))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"jsonrpc-fast: - {GZIP}\n")


# --quiet


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_shows_faults_only(option: str, mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", option, mixed]) == 1
    assert capsys.readouterr() == (MIXED_FAULTS.format(name=mixed), "")
    assert cli.main(["check", option, "--max-faults", "0", mixed]) == 1
    assert capsys.readouterr() == ("", "")
    assert cli.main(["check", option, "--json", mixed]) == 1
    assert [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()] == ["fault"] * 5
    Path("good").write_bytes(REQUEST)
    assert cli.main(["check", option, "good"]) == 0
    assert capsys.readouterr() == ("", "")


# --methods


def test_methods(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tick = b'{"jsonrpc":"2.0","method":"tick"}\n'
    escaped = b'{"jsonrpc":"2.0","method":"a\\n\\u001b[31m%b"}\n' % (b"x" * 100)
    file.write_bytes(MIXED + b"\n" + tick * 3 + REQUEST.replace(b"add", b"tick") + escaped)
    assert cli.main(["check", "-q", "--methods", "f"]) == 1
    assert "tick" not in capsys.readouterr().out
    assert cli.main(["check", "--max-faults", "0", "--methods", "f"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "f: request 3, notification 5, result 2, error 1, batch 1, invalid 5"
    assert lines[-3:] == [
        "f: tick: request 1, notification 4",
        "f: add: request 2",
        f"f: a\\n\\x1b[31m{'x' * 53}…: notification 1",
    ]
    assert cli.main(["check", "--max-faults", "0", "--methods", "--json", "f"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["methods"] == {
        "tick": {"request": 1, "notification": 4},
        "add": {"request": 2},
        f"a\n\x1b[31m{'x' * 100}": {"notification": 1},
    }


def test_the_number_of_methods_is_bounded(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "_MAX_METHODS", 2)
    methods = b"a", b"b", b"c", b"d", b"b", b"a"
    file.write_bytes(b"".join([REQUEST.replace(b"add", method) for method in methods]))
    assert cli.main(["check", "--methods", "f"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "f: (other methods): request 2",
        "f: a: request 2",
        "f: b: request 2",
    ]
