"""`check`: its counts, faults and output, through `main` or as a process, on streams and other files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jsonrpc_fast
from jsonrpc_fast import JSONRPC, PRESETS
from jsonrpc_fast.cli import check
from jsonrpc_fast.cli import main as cli
from jsonrpc_fast.codec.located import LocatingDecoder
from jsonrpc_fast.framing.frames import FRAMINGS, Framing, frame
from jsonrpc_fast.testing.recordings import record_line

from ..support.command_line import MIXED, MIXED_FAULTS, MIXED_SUMMARY, REQUEST, run, run_here
from ..support.tables import rows


def test_counts_and_faults(mixed: str, tmp_path: Path) -> None:
    done = run("check", mixed, cwd=tmp_path)  # as a process; most others run in this one
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (MIXED_FAULTS + MIXED_SUMMARY).format(name="mixed.ndjson")


def test_valid_file(tmp_path: Path) -> None:
    (tmp_path / "good.ndjson").write_bytes(REQUEST * 3)
    done = run_here("check", "good.ndjson", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "good.ndjson: request 3, notification 0, result 0, error 0, batch 0, invalid 0\n"


@rows("arguments", [["check"], ["check", "-"]])
def test_standard_input(arguments: list[str]) -> None:
    done = run_here(*arguments, data=MIXED)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (MIXED_FAULTS + MIXED_SUMMARY).format(name="-")


def test_empty_standard_input() -> None:
    for data, said in ((b"", "- has no message: it is empty"), (b" \n\r\n", "- has no message")):
        for options in ([], ["--json"], ["--quiet"]):
            done = run_here("check", *options, data=data)
            assert (done.returncode, done.stdout, done.stderr) == (2, "", f"jsonrpc-fast: {said}\n")


def test_several_files(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.ndjson").write_bytes(REQUEST)
    assert cli.main(["check", "good.ndjson", mixed, "good.ndjson"]) == 1
    good = "good.ndjson: request 1, notification 0, result 0, error 0, batch 0, invalid 0\n"
    output = capsys.readouterr()
    assert output.out == good + (MIXED_FAULTS + MIXED_SUMMARY).format(name=mixed) + good
    assert output.err == ""


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 40, 41, 175, 10_000])
def test_chunk_boundaries(
    mixed: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "FILE_CHUNK_BYTES", chunk_bytes)
    assert cli.main(["check", mixed]) == 1
    assert capsys.readouterr().out == (MIXED_FAULTS + MIXED_SUMMARY).format(name=mixed)


CHUNK = st.binary() | st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\xe2\x82",
        b"\xef\xbb\xbf",
        REQUEST,
        REQUEST[:20],
        b"[" + REQUEST,
        b"Content-Length: 39\r\n",
        b"data: ",
    ]
)


@given(chunks=st.lists(CHUNK), framing=st.sampled_from(list(FRAMINGS)))
def test_items_are_those_of_the_decoder(chunks: list[bytes], framing: Framing) -> None:
    decoder = jsonrpc_fast.Decoder(framing)
    expected = [item for chunk in chunks for item in decoder.feed(chunk)] + decoder.close()
    locating = LocatingDecoder(framing, JSONRPC, raw=False)
    located = [pair for chunk in chunks for pair in locating.feed_located(chunk)] + list(locating.close_located())
    assert [item for _, item in located] == expected
    data = b"".join(chunks)
    for found, _ in located:
        if found.text is not None and framing != "sse":
            assert data.startswith(found.text, found.offset)
        if found.line is not None:
            assert data.count(b"\n", 0, found.offset) == found.line - 1
    if framing == "newline":
        assert None not in [frame.text for frame, _ in located]


def test_a_byte_order_mark_on_the_second_line_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mark.ndjson"
    file.write_bytes(REQUEST + b"\xef\xbb\xbf" + REQUEST)
    assert cli.main(["check", str(file)]) == 1
    assert f"{file}:2: byte 40: MALFORMED_JSON" in capsys.readouterr().out


def test_byte_order_mark_counts_in_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mark.ndjson"
    file.write_bytes(b"\xef\xbb\xbf{}\n" + REQUEST)
    assert cli.main(["check", str(file)]) == 1
    assert capsys.readouterr().out == (
        f"{file}:1: byte 3: MISSING_JSONRPC: jsonrpc is missing\n"
        f"{file}: request 1, notification 0, result 0, error 0, batch 0, invalid 1\n"
        f"{file}: MISSING_JSONRPC 1\n"
    )


@rows(
    ("ending", "line"),
    [
        (b'{"jsonrpc":"2.0","id":1,"met', "byte 68: TRUNCATED: the stream ended inside a message"),
        # Cut inside a character.
        (b'{"jsonrpc":"2.0","id":1,"method":"\xe2\x82', "byte 76: TRUNCATED: the stream ended inside a message"),
        # Wrong, not cut short.
        (b'{"jsonrpc":"2.0",]', "byte 57: MALFORMED_JSON: the text is not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff', "byte 74: INVALID_UTF8: the text is not UTF-8"),
    ],
)
def test_end_of_stream(ending: bytes, line: str) -> None:
    done = run_here("check", data=REQUEST + ending)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == f"-:2: {line}"


def test_complete_last_line_without_ending() -> None:
    done = run_here("check", data=REQUEST + REQUEST.rstrip())
    assert done.returncode == 0
    assert done.stdout == "-: request 2, notification 0, result 0, error 0, batch 0, invalid 0\n"


def test_line_over_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PRESETS, "jsonrpc", JSONRPC.replace(limits=JSONRPC.limits.replace(message_bytes=39)))
    monkeypatch.setattr(check, "FILE_CHUNK_BYTES", 16)
    file = tmp_path / "big.ndjson"
    file.write_bytes(REQUEST + b'{"jsonrpc":"2.0","id":1,"method":"addition"}\n' + REQUEST + b"x" * 1000)
    assert cli.main(["check", str(file)]) == 1
    assert capsys.readouterr().out == (
        f"{file}:2: byte 40: MESSAGE_TOO_LARGE: the message is larger than the limit\n"
        f"{file}:4: byte 125: MESSAGE_TOO_LARGE: the message is larger than the limit\n"
        f"{file}: request 2, notification 0, result 0, error 0, batch 0, invalid 2\n"
        f"{file}: MESSAGE_TOO_LARGE 2\n"
    )


def test_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "batch.ndjson"
    file.write_bytes(b"[" + REQUEST.strip() + b',{"jsonrpc":"2.0","id":1.5,"method":""}]\n')
    assert cli.main(["check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: request 2, notification 0, result 0, error 0, batch 1, invalid 0\n"
    assert cli.main(["check", "--profile", "mcp-2025-03-26", str(file)]) == 1
    assert capsys.readouterr().out == (
        f"{file}:1: byte 0, item 1: INVALID_ID_TYPE: the protocol does not allow this type of id here\n"
        f"{file}: request 1, notification 0, result 0, error 0, batch 1, invalid 1\n"
        f"{file}: INVALID_ID_TYPE 1\n"
    )
    assert cli.main(["check", "--profile", "mcp-2025-11-25", str(file)]) == 1
    assert capsys.readouterr().out == (
        f"{file}:1: byte 0: BATCH_NOT_ALLOWED: the protocol does not allow batches\n"
        f"{file}: request 0, notification 0, result 0, error 0, batch 0, invalid 1\n"
        f"{file}: BATCH_NOT_ALLOWED 1\n"
    )


def test_max_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.ndjson").write_bytes(b"1\n" * 12)
    summary = (
        "bad.ndjson: request 0, notification 0, result 0, error 0, batch 0, invalid 12\nbad.ndjson: NOT_AN_OBJECT 12\n"
    )
    faults = [
        f"bad.ndjson:{line}: byte {2 * line - 2}: NOT_AN_OBJECT: the message is not an object\n"
        for line in range(1, 13)
    ]
    more = "more faults not shown: --max-faults all shows them\n"
    assert cli.main(["check", "bad.ndjson"]) == 1
    assert capsys.readouterr().out == "".join(faults[:10]) + f"bad.ndjson: 2 {more}" + summary
    assert cli.main(["check", "--max-faults", "1", "bad.ndjson"]) == 1
    assert capsys.readouterr().out == faults[0] + f"bad.ndjson: 11 {more}" + summary
    assert cli.main(["check", "--max-faults", "12", "bad.ndjson"]) == 1
    assert capsys.readouterr().out == "".join(faults) + summary
    assert cli.main(["check", "--max-faults", "all", "bad.ndjson"]) == 1
    assert capsys.readouterr().out == "".join(faults) + summary
    assert cli.main(["check", "--max-faults=0", "bad.ndjson"]) == 1
    assert capsys.readouterr().out == summary


def test_max_faults_applies_to_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.ndjson").write_bytes(b"1\n")
    assert cli.main(["check", "--max-faults", "1", "bad.ndjson", "bad.ndjson"]) == 1
    assert capsys.readouterr().out.count("bad.ndjson:1: byte 0: NOT_AN_OBJECT") == 2


def test_json(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--json", "--max-faults", "3", mixed]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "type": "fault",
            "file": "mixed.ndjson",
            "line": 6,
            "offset": 179,
            "index": 1,
            "code": "NOT_AN_OBJECT",
            "message": "the message is not an object",
        },
        {
            "type": "fault",
            "file": "mixed.ndjson",
            "line": 6,
            "offset": 179,
            "index": 3,
            "code": "MISSING_ID",
            "message": "the response has no id",
        },
        {
            "type": "fault",
            "file": "mixed.ndjson",
            "line": 7,
            "offset": 321,
            "index": None,
            "code": "MALFORMED_JSON",
            "message": "the text is not JSON",
        },
        {
            "type": "summary",
            "file": "mixed.ndjson",
            "profile": "jsonrpc",
            "counts": {"request": 2, "notification": 1, "result": 2, "error": 1, "batch": 1, "invalid": 5},
            "faults": {"MALFORMED_JSON": 1, "TRUNCATED": 1, "NOT_AN_OBJECT": 1, "MISSING_JSONRPC": 1, "MISSING_ID": 1},
            "shown": 3,
        },
    ]


BODY = REQUEST.strip()
HEADED = b"Content-Length: 39\r\n\r\n" + BODY  # 61 bytes
EVENT = b"event: message\ndata: " + BODY + b"\n\n"  # 62 bytes
FRAMED = [
    ("content-length", 2 * HEADED, 2, []),
    (
        "content-length",
        HEADED + b"Content-Length: 4\r\n\r\n{\n]}" + HEADED,
        2,
        ["byte 84: MALFORMED_JSON: the text is not JSON"],
    ),
    (
        "content-length",
        HEADED + b"X: y\r\nContent-Length: -4\r\n\r\n" + HEADED,
        1,
        ["byte 67: INVALID_FRAMING: the framing is invalid; Content-Length is not a whole number"],
    ),
    ("content-length", HEADED + HEADED[:40], 1, ["byte 101: TRUNCATED: the stream ended inside a message"]),
    ("content-length", HEADED + HEADED[:9], 1, ["byte 70: TRUNCATED: the stream ended inside a message"]),
    (
        "content-length",
        REQUEST,
        0,
        [
            (
                "byte 0: INVALID_FRAMING: the framing is invalid; "
                "it looks like newline framing: one message per line, without headers"
            )
        ],
    ),
    ("auto", 2 * HEADED, 2, []),
    ("auto", b"\n" + REQUEST + b"{]\n" + REQUEST, 2, ["3: byte 42: MALFORMED_JSON: the text is not JSON"]),
    (
        "newline",
        REQUEST + b"data: {}\n" + REQUEST,
        2,
        ["2: byte 40: MALFORMED_JSON: the text is not JSON; it looks like a server-sent event"],
    ),
    ("sse", 2 * EVENT, 2, []),
    ("sse", EVENT + b"data: {]\n\n" + EVENT, 2, ["byte 69: MALFORMED_JSON: the text is not JSON"]),
    ("sse", EVENT + b"data: {\ndata: ]\n\n" + EVENT, 2, ["byte 68: MALFORMED_JSON: the text is not JSON"]),
    ("sse", EVENT + EVENT[:40], 1, ["byte 102: TRUNCATED: the stream ended inside a message"]),
    (
        "concatenated",
        REQUEST[:-1] + b"{]" + REQUEST.replace(b",", b"\n,") + b"{",
        2,
        ["byte 40: MALFORMED_JSON: the text is not JSON", "byte 84: TRUNCATED: the stream ended inside a message"],
    ),
]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 10_000])
@pytest.mark.parametrize(("framing", "data", "requests", "faults"), FRAMED)
def test_framings(
    framing: str,
    data: bytes,
    requests: int,
    faults: list[str],
    chunk_bytes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(check, "FILE_CHUNK_BYTES", chunk_bytes)
    monkeypatch.chdir(tmp_path)
    Path("f").write_bytes(data)
    assert cli.main(["check", "--framing", framing, "f"]) == (1 if faults else 0)
    shown = capsys.readouterr().out.splitlines()
    count = len(faults)
    assert shown[:count] == [f"f:{fault}" if fault[0].isdigit() else f"f: {fault}" for fault in faults]
    assert shown[count] == f"f: request {requests}, notification 0, result 0, error 0, batch 0, invalid {count}"


def test_json_without_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f"
    file.write_bytes(HEADED + b"Content-Length: 2\r\n\r\n{]")
    assert cli.main(["check", "--json", "--framing", "content-length", str(file)]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {
        "type": "fault",
        "file": str(file),
        "line": None,
        "offset": 83,
        "index": None,
        "code": "MALFORMED_JSON",
        "message": "the text is not JSON",
    }


def test_json_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "good.ndjson").write_bytes(REQUEST)
    process = run_here(
        "check", "--json", "--profile", "lsp", "good.ndjson", "absent.ndjson", "good.ndjson", cwd=tmp_path
    )
    counts = '{"request": 1, "notification": 0, "result": 0, "error": 0, "batch": 0, "invalid": 0}'
    rest = f'"profile": "lsp", "counts": {counts}, "faults": {{}}, "shown": 0'
    summary = f'{{"type": "summary", "file": "good.ndjson", {rest}}}\n'
    assert process.stdout == summary * 2
    assert process.stderr == "jsonrpc-fast: cannot read absent.ndjson: No such file or directory\n"
    assert process.returncode == 2


# The output contains no part of the input.


@rows("form", [[], ["--json"]])
@rows("profile", sorted(PRESETS))
def test_no_content_in_the_output(form: list[str], profile: str) -> None:
    secret = "S3CRET"
    lines = [
        f'{{"jsonrpc":"2.0","id":"{secret}","method":"{secret}","params":{{"{secret}":"{secret}"}}}}',
        f'{{"jsonrpc":"2.0","id":"{secret}","method":"","params":"{secret}"}}',
        f'{{"jsonrpc":"{secret}","id":"{secret}","method":"{secret}"}}',
        f'{{"jsonrpc":"2.0","id":["{secret}"],"method":"{secret}"}}',
        f'{{"jsonrpc":"2.0","id":"{secret}","id":"{secret}","method":"{secret}"}}',
        f'{{"jsonrpc":"2.0","id":"{secret}","error":{{"code":"{secret}","message":"{secret}","data":"{secret}"}}}}',
        f'{{"jsonrpc":"2.0","id":"{secret}","result":"{secret}","error":"{secret}"}}',
        f'[{{"jsonrpc":"2.0","id":"{secret}","method":7}},"{secret}"]',
        f'{{"jsonrpc":"2.0","id":"{secret * 100}","method":"{secret * 200}"}}',
        f'"{secret}"',
        secret,
        f'{{"jsonrpc":"2.0","id":"{secret}"',
    ]
    data = "\n".join(lines).encode() + b"\n\xff" + secret.encode() + b"\n" + f'{{"id":"{secret}'.encode()
    done = run_here("check", "--profile", profile, "--max-faults", "100", *form, data=data)
    assert done.returncode == 1
    assert "S3C" not in done.stdout
    assert done.stderr == ""
    assert done.stdout.count("NOT_AN_OBJECT") >= 1
    assert done.stdout.count("TRUNCATED") >= 1


# Messages of other programs.


MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": [1, {"a": "b"}]}
PRETTY = json.dumps(MESSAGE, indent=2).encode()
SEVERAL_LINES = "a message takes several lines; read it with --framing concatenated"
GZIP = "it is compressed with gzip; read it with: gzip -dc FILE | jsonrpc-fast check"


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
        (2 * HEADED, "f: the messages have Content-Length headers; read it with --framing content-length"),
        (2 * EVENT, "f: the messages are server-sent events; read it with --framing sse"),
        (gzip.compress(REQUEST, mtime=0), f"f: {GZIP}"),
        (bz2.compress(REQUEST), "f: it is compressed with bzip2; read it with: bzip2 -dc FILE | jsonrpc-fast check"),
        (lzma.compress(REQUEST), "f: it is compressed with xz; read it with: xz -dc FILE | jsonrpc-fast check"),
        (
            b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00",
            "f: it is compressed with zstd; read it with: zstd -dc FILE | jsonrpc-fast check",
        ),
        (
            REQUEST.decode().encode("utf-16"),
            "f: it is UTF-16; read it with: iconv -f UTF-16 -t UTF-8 FILE | jsonrpc-fast check",
        ),
    ],
)
def test_a_file_that_is_no_stream_of_lines(
    data: bytes, advice: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(data)
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr() == ("", f"jsonrpc-fast: cannot read {advice}\n")


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\x7fELF\x02\x01\x01\0", b"PK\x03\x04", b"\0\0\0\0"]
)
def test_a_binary_file(data: bytes, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(data)
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr() == ("", "jsonrpc-fast: cannot read f: it is a binary file, not a stream of messages\n")


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
    assert capsys.readouterr() == ("", f"jsonrpc-fast: cannot read f: {GZIP}\n")


def test_other_files_are_checked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(PRETTY)
    Path("good").write_bytes(REQUEST)
    assert cli.main(["check", "f", "good"]) == 2
    assert capsys.readouterr() == (
        "good: request 1, notification 0, result 0, error 0, batch 0, invalid 0\n",
        f"jsonrpc-fast: cannot read f: {SEVERAL_LINES}\n",
    )


def test_standard_input_that_is_compressed() -> None:
    done = run_here("check", data=gzip.compress(REQUEST, mtime=0))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"jsonrpc-fast: cannot read -: {GZIP}\n")


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


@rows("framing", [name for name, row in FRAMINGS.items() if row.delimiter and name != "newline"])
def test_messages_that_end_in_another_byte(file: Path, capsys: pytest.CaptureFixture[str], framing: Framing) -> None:
    file.write_bytes(3 * frame(REQUEST, framing))  # type: ignore[arg-type]
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr().err.endswith(f"read it with --framing {framing}\n")
    assert cli.main(["check", "--framing", framing, "f"]) == 0
    assert capsys.readouterr().out == "f: request 3, notification 0, result 0, error 0, batch 0, invalid 0\n"


# --suggest


@rows(
    ("lines", "advice"),
    [
        ([REQUEST], "valid with --profile jsonrpc"),
        ([b'{"jsonrpc":"2.0","id":1,"error":"x"}\n', REQUEST], "valid with --profile lenient"),
        ([b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}'], "valid with --profile lenient"),
        ([b'{"id":1,"result":3}\n', b'[{"id":2,"result":3}]\n'], "valid with --profile client"),
        ([b'{"id":1,"method":"slim.request","params":[],"result":{}}\n'], "valid with --profile client"),
        (
            [REQUEST, b'{"id":1,"result":3,"error":null}\n', b'{"id":1,"error":"x","params":null}\n'],
            "valid with --profile client",
        ),
        ([REQUEST, b'{"result":3}\n'], "no preset accepts all messages: client refuses MISSING_ID"),
        (
            [REQUEST, b'{"jsonrpc":"2.0","method":1}'],
            "no preset accepts all messages: client refuses INVALID_METHOD_TYPE",
        ),
    ],
)
def test_suggest(file: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes], advice: str) -> None:
    file.write_bytes(b"".join(lines))
    cli.main(["check", "--suggest", "f"])
    assert capsys.readouterr().out.splitlines().count(f"f: {advice}") == 1
    cli.main(["check", "--suggest", "--json", "f"])
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["suggested"] == (None if advice.startswith("no") else advice.rpartition(" ")[2])


def test_headers_suggest_lsp(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(frame(b'{"jsonrpc":"2.0","id":1,"method":"shutdown","params":null}', "content-length"))
    cli.main(["check", "--suggest", "--framing", "content-length", "--quiet", "f"])
    assert capsys.readouterr().out.splitlines()[-1] == "f: valid with --profile lsp"


@pytest.mark.parametrize("start", ["d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d", "0a0d0d0a"])
def test_a_capture_of_packets(start: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(bytes.fromhex(start) + b"\2\0\4\0\0\0")
    assert cli.main(["check", "f"]) == 2
    assert capsys.readouterr().err == (
        "jsonrpc-fast: cannot read f: it is a capture of packets; "
        "write its TCP streams to files, and read those: tcpflow -r FILE\n"
    )


def test_the_messages_of_a_recording(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"id":1,"result":2}', b"printed", b"[1,2]"]
    lines = [record_line(text, "client", time=1764000000.125) for text in texts]
    file.write_bytes(b"".join(lines) + b'{"time":1\n')
    assert cli.main(["check", "--suggest", "f"]) == 1
    places = [sum(map(len, lines[:number])) + lines[number].index(text) for number, text in enumerate(texts)]
    assert capsys.readouterr().out.splitlines() == [
        f"f:2: byte {places[1]}: MISSING_JSONRPC: jsonrpc is missing",
        f"f:3: byte {places[2]}: MALFORMED_JSON: the text is not JSON",
        f"f:4: byte {places[3]}, item 0: NOT_AN_OBJECT: the message is not an object",
        f"f:4: byte {places[3]}, item 1: NOT_AN_OBJECT: the message is not an object",
        f"f:5: byte {sum(map(len, lines)) + 9}: MALFORMED_JSON: the text is not JSON",
        "f: no preset accepts all messages: client refuses MALFORMED_JSON",
        "f: request 1, notification 0, result 0, error 0, batch 1, invalid 5",
        "f: MALFORMED_JSON 2",
        "f: NOT_AN_OBJECT 2",
        "f: MISSING_JSONRPC 1",
    ]
    file.write_bytes(b"".join(lines[:2]))
    assert cli.main(["check", "--suggest", "--json", "f"]) == 1
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["suggested"], summary["shown"]) == ("client", 1)


def test_messages_of_the_debug_adapter_protocol(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(frame(b'{"seq": 1, "type": "event", "event": "initialized"}', "content-length"))
    for options in ([], ["--framing", "content-length"]):
        assert cli.main(["check", *options, "f"]) == 2
        assert capsys.readouterr().err == (
            "jsonrpc-fast: cannot read f: it has messages of the Debug Adapter Protocol, not of JSON-RPC; "
            "framing.FrameReader reads them\n"
        )
