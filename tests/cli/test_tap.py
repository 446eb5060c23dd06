"""`tap` around real processes: all bytes are passed on, and each message is logged."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, Raw
from jsonrpc_fast.cli import tap
from jsonrpc_fast.codes import Hint
from jsonrpc_fast.framing.frames import frame
from jsonrpc_fast.testing.recordings import read_recording

from ..support.command_line import environment, run_here_in_bytes
from ..support.needs import unmeasured
from ..support.processes import wait_until_asleep
from ..support.tables import rows
from ..support.waiting import blocking_eventually

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="pipes, signals and terminals as POSIX has them")]

ENVIRONMENT = environment(PYTHONUNBUFFERED="1")
SECONDS = 40

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"add","params":["secret"]}\n'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":"secret"}\n'
LINE = re.compile(r"\d\d:\d\d:\d\d\.\d\d\d (->|<-|--) (.*)")


def tapped(*command: str, options: list[str] | None = None) -> list[str]:
    """Return the command line of a tap around a command."""
    return [sys.executable, "-m", "jsonrpc_fast", "tap", *(options or []), "--", *command]


def python(code: str) -> list[str]:
    """Return the command line of a server in Python."""
    return [sys.executable, "-c", textwrap.dedent(code)]


def run(
    *command: str, data: bytes | None = b"", options: list[str] | None = None, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a tap around a command, with `data` on its stdin; with another stdin, as a process."""
    words = tapped(*command, options=options)
    if data is not None:
        return run_here_in_bytes(*words[3:], data=data)
    return subprocess.run(words, env=ENVIRONMENT, capture_output=True, timeout=SECONDS, **more)


def lines_of(log: bytes) -> list[tuple[str, str]]:
    """Return direction and text of each line of a log."""
    found = [LINE.fullmatch(line) for line in log.decode().splitlines()]
    assert None not in found
    return [(match[1], re.sub(r"\d+\.\d ms", "N ms", match[2])) for match in found if match]


@pytest.fixture
def start() -> Iterator[Any]:
    """A function that starts a tap of a command, which ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*command: str, stderr: int = subprocess.DEVNULL, **options: Any) -> subprocess.Popen[bytes]:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr, **options}
            process = stack.enter_context(subprocess.Popen(tapped(*command), env=ENVIRONMENT, **pipes))
            stack.callback(process.kill)
            return process

        yield start


# Bytes


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
@pytest.mark.ci
def test_all_bytes_are_passed_on(size: int, tmp_path: Path) -> None:
    data = random.Random(size).randbytes(size)
    command = tapped("cat", options=["--log", str(tmp_path / "log")])  # as a process; most others run in this one
    done = subprocess.run(command, env=ENVIRONMENT, input=data, capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


@rows("framing", ["newline", "content-length"])
def test_a_large_message(framing: Any) -> None:
    text = b'{"jsonrpc":"2.0","method":"m","params":["%b"]}' % (10_000_000 * b"x")
    data = frame(text, framing)
    done = run("cat", data=data)
    assert done.stdout == data
    assert lines_of(done.stderr) == [
        ("->", "notification m 10000044 B"),
        ("<-", "notification m 10000044 B"),
        ("--", "the server ended with status 0; requests without a response: 0"),
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_log_on_a_full_disk_is_reported() -> None:
    done = run("cat", data=REQUEST, options=["--log", "/dev/full"])
    assert (done.returncode, done.stdout) == (0, REQUEST)
    assert done.stderr == b"jsonrpc-fast: no more messages are logged: No space left on device\n"


def test_a_log_that_becomes_full_ends_with_a_whole_line(tmp_path: Path) -> None:
    """The recording can be read as far as it goes, and the next tap goes on in a line of its own."""
    log, record = tmp_path / "log", tmp_path / "record"
    sent = [b'{"jsonrpc":"2.0","method":"m","params":[%d]}' % number for number in range(1000)]
    data = b"".join([text + b"\n" for text in sent])
    words = tapped("cat", options=["--payloads", "--log", str(log), "--record", str(record)])
    limited = ["sh", "-c", 'ulimit -f 17; exec "$@"', "sh", *words]  # the size of a file, in half KiB or KiB
    variables = unmeasured(PYTHONPATH=ENVIRONMENT["PYTHONPATH"])  # the limit would be that of the file of coverage, too
    done = subprocess.run(limited, env=variables, input=data, capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (0, data)
    assert sorted(done.stderr.splitlines()) == [
        b"jsonrpc-fast: no more messages are logged: File too large",
        b"jsonrpc-fast: no more messages are recorded: File too large",
    ]
    assert lines_of(log.read_bytes())
    assert run("cat", data=REQUEST, options=["--record", str(record)]).returncode == 0
    with record.open("rb") as file:
        *found, last = [bytes(each.message or b"") for each in read_recording(file) if each.sender == "client"]
    assert found == sent[: len(found)]
    assert 10 < len(found) < 1000
    assert last == REQUEST.strip()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_client_on_a_full_disk_is_reported(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        words = tapped("cat", options=["--log", str(tmp_path / "log")])
        done = subprocess.run(
            words, env=ENVIRONMENT, input=REQUEST, stdout=full, stderr=subprocess.PIPE, timeout=SECONDS
        )
    assert done.stderr == b"jsonrpc-fast: no more bytes are passed on to the client: No space left on device\n"


def test_the_servers_stderr_is_unchanged(tmp_path: Path) -> None:
    done = run("sh", "-c", "echo trouble >&2", options=["--log", str(tmp_path / "log")])
    assert (done.stdout, done.stderr) == (b"", b"trouble\n")


def test_bytes_are_passed_on_at_once(start: Any) -> None:
    """Each byte is passed on before the next one is written."""
    process = start("cat", bufsize=0)
    for byte in REQUEST * 3:
        process.stdin.write(bytes([byte]))
        assert process.stdout.read(1) == bytes([byte])


def test_a_file_as_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(REQUEST * 1000)
    with file.open("rb") as stream:
        done = run("cat", data=None, stdin=stream)
    assert done.stdout == REQUEST * 1000
    with open(os.devnull, "rb") as stream:
        assert run("cat", data=None, stdin=stream).stdout == b""


def test_a_terminal_as_standard_input(start: Any) -> None:
    import pty

    keyboard, terminal = pty.openpty()
    try:
        process = start("cat", stdin=terminal)
        os.write(keyboard, REQUEST + b"\x04")  # Ctrl-D at the start of a line: the end
        assert process.communicate(timeout=SECONDS)[0] == REQUEST
    finally:
        os.close(keyboard)
        os.close(terminal)


def test_a_non_blocking_pipe(start: Any) -> None:
    ours, theirs = os.pipe()
    answers, output = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(output, False)
    process = start("cat", stdin=ours, stdout=output)
    os.close(ours)
    os.close(output)
    with open(theirs, "wb") as stream, open(answers, "rb") as back:
        wait_until_asleep(process.pid)
        stream.write(REQUEST)
        stream.flush()
        assert back.read(len(REQUEST)) == REQUEST
        stream.write(120_000 * b"x")
        stream.close()
        assert back.read() == 120_000 * b"x"


# Its end


@rows(
    ("code", "status", "ending"),
    [
        ("exit 0", 0, "status 0"),
        ("exit 3", 3, "status 3"),
        ("exit 255", 255, "status 255"),
        ("kill -KILL $$", 137, "signal 9"),
        ("kill -TERM $$", 143, "signal 15"),
    ],
)
def test_status(code: str, status: int, ending: str) -> None:
    done = run("sh", "-c", code)
    assert (done.returncode, done.stdout) == (status, b"")
    assert lines_of(done.stderr) == [("--", f"the server ended with {ending}; requests without a response: 0")]


def test_commands_that_cannot_be_run(tmp_path: Path) -> None:
    done = run(str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (127, b"")
    assert done.stderr.decode() == f"jsonrpc-fast: cannot run {tmp_path / 'none'}: No such file or directory\n"
    (tmp_path / "text").write_text("text")
    done = run(str(tmp_path / "text"))
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr.decode() == f"jsonrpc-fast: cannot run {tmp_path / 'text'}: Permission denied\n"


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    done = run("touch", str(tmp_path / "started"), options=["--log", str(tmp_path)])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"jsonrpc-fast: cannot write {tmp_path}: Is a directory\n"
    assert not (tmp_path / "started").exists()


def test_the_log_and_the_recording_are_two_files(tmp_path: Path) -> None:
    name = str(tmp_path / "both")
    done = run("cat", options=["--log", name, "--record", name])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"jsonrpc-fast: {name} cannot be both the log and the recording\n"
    assert run("true", options=["--log", os.devnull, "--record", os.devnull]).returncode == 0


@rows("arguments", [[], ["--"], ["cat"], ["--framing", "morse", "--", "cat"]])
def test_usage(arguments: list[str]) -> None:
    done = run_here_in_bytes("tap", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage: jsonrpc-fast" in done.stderr


def test_arguments_after_the_dashes_belong_to_the_server() -> None:
    done = run(*python("import sys; print(sys.argv[1:])"), "--log", "x", "--", "-h")
    assert done.stdout == b"['--log', 'x', '--', '-h']\n"


@pytest.mark.parametrize(
    ("names", "status"),
    [(["SIGINT"], 7), (["SIGTERM"], 7), (["SIGHUP"], 7), (["SIGINT"] * 2, 137)],
    ids=["SIGINT", "SIGTERM", "SIGHUP", "a second interrupt kills a server that ignores them"],
)
def test_signals_are_passed_on(names: list[str], status: int, start: Any) -> None:
    number = getattr(signal, names[0])
    server = python(f"""
        import signal, sys, time
        def note(number, frame):
            print("asked", flush=True)
            if {len(names)} == 1:
                sys.exit(7)
        signal.signal({number}, note)
        print("ready", flush=True)
        while True:
            time.sleep(60)
    """)
    restore = lambda: signal.signal(number, signal.SIG_DFL)  # noqa: E731  the tests may run under nohup
    process = start(*server, start_new_session=True, preexec_fn=restore)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == b"asked\n"
    for _ in names[1:]:
        process.send_signal(number)
    assert process.wait(SECONDS) == status


def test_a_signal_that_another_thread_receives_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = subprocess.Popen.wait

    def receive() -> None:
        wait_until_asleep(os.getpid())  # the main thread, in `wait`
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def waiting(self: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        threading.Thread(target=receive).start()
        return wait(self, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", waiting)
    assert run("sleep", "5").returncode == 130


@pytest.mark.ci
def test_a_client_that_leaves(start: Any) -> None:
    process = start("yes")
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE


def write_on(descriptor: int) -> None:
    """Write until that fails."""
    while True:
        os.write(descriptor, REQUEST)


def test_a_server_that_stops_reading(start: Any) -> None:
    server = python("""
        import os, sys, time
        os.close(0)
        print("closed", flush=True)
        time.sleep(60)
    """)
    process = start(*server)
    assert process.stdout.readline() == b"closed\n"
    with pytest.raises(BrokenPipeError):
        write_on(process.stdin.fileno())
    process.terminate()
    assert process.wait(SECONDS) == 128 + signal.SIGTERM


def test_processes_left_by_the_server_delay_nothing() -> None:
    started = time.monotonic()
    done = run(
        "sh", "-c", "printf before; (sleep 50; echo late) 2>/dev/null & exit 5", data=None, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (5, b"before")
    assert time.monotonic() - started < 30


def test_the_end_of_the_clients_stream_reaches_the_server() -> None:
    server = python("""
        import sys
        data = sys.stdin.buffer.read()
        print(len(data), flush=True)
        sys.exit(4)
    """)
    done = run(*server, data=REQUEST)
    assert (done.returncode, done.stdout) == (4, b"60\n")


# A slow side


def test_a_slow_client_slows_down_the_server(tmp_path: Path, start: Any) -> None:
    server = python(f"""
        import os, time
        os.set_blocking(1, False)
        written, stuck = 0, 0
        while stuck < 10:
            try:
                written += os.write(1, b"x" * 4095 + b"\\n")
                stuck = 0
            except BlockingIOError:
                stuck += 1
                time.sleep(0.02)
        open({str(tmp_path / "written")!r}, "w").write(str(written))
    """)
    process = start(*server)
    blocking_eventually(lambda: (tmp_path / "written").exists() and (tmp_path / "written").read_text())
    written = int((tmp_path / "written").read_text())
    assert 0 < written < 1_000_000
    # The server ends; the client still gets everything that it wrote.
    output, _ = process.communicate(timeout=SECONDS)
    assert output == written // 4096 * (b"x" * 4095 + b"\n")
    assert process.returncode == 0


@pytest.mark.slow
def test_an_unread_log_delays_nothing(start: Any) -> None:
    data = 30_000 * b'{"jsonrpc":"2.0","method":"m"}\n'
    process = start("cat", stderr=subprocess.PIPE)

    def write() -> None:
        process.stdin.write(data)
        process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert process.stdout.read() == data
    writer.join(SECONDS)
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_long_log_is_written_to_its_end(tmp_path: Path) -> None:
    data = b"".join([b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % id for id in range(30_000)])
    done = run("cat", data=data, options=["--log", str(tmp_path / "log")])
    assert done.stdout == data
    lines = lines_of((tmp_path / "log").read_bytes())
    assert [text for direction, text in lines if direction == "->"][-1] == "request m id=29999 41 B"
    assert len(lines) == 60_001
    assert lines[-1] == (
        "--",
        "the server ended with status 0; requests without a response: 60000 (30000 of the client, 30000 of the server)",
    )


def test_a_log_whose_reader_leaves(start: Any) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    data = 1000 * REQUEST
    process = start("cat", stderr=writer)
    os.close(writer)
    output, _ = process.communicate(data, timeout=SECONDS)
    assert (process.returncode, output) == (0, data)


def run_with_closed(closings: str, *command: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a tap with some of its standard descriptors closed."""
    closing = ["sh", "-c", f'exec "$@" {closings}', "sh", *tapped(*command)]
    return subprocess.run(closing, env=ENVIRONMENT, input=data, capture_output=True, timeout=SECONDS)


def test_a_closed_stdin_counts_as_empty() -> None:
    ran = run_with_closed("<&-", "sh", "-c", "echo hi; cat; exit 3", data=REQUEST)
    assert (ran.returncode, ran.stdout) == (3, b"hi\n")
    assert [direction for direction, _ in lines_of(ran.stderr)] == ["<-", "--"]


@pytest.mark.parametrize("closings", [">&-", ">&- <&-", ">&- 2>&-"])
def test_with_a_closed_stdout_no_server_is_started(closings: str, tmp_path: Path) -> None:
    """Nobody would get its responses."""
    ran = run_with_closed(closings, "touch", str(tmp_path / "started"), data=REQUEST)
    assert (ran.returncode, ran.stdout) == (2, b"")
    said = b"jsonrpc-fast: this process was started with a closed stdout: the client could not get anything\n"
    assert ran.stderr == (b"" if "2>" in closings else said)
    assert not os.listdir(tmp_path)


def test_an_stdout_that_is_open_for_reading_is_reported() -> None:
    ran = run_with_closed("1</dev/null", "sh", "-c", "cat; exit 3", data=REQUEST)
    assert ran.returncode == 3
    assert b"jsonrpc-fast: no more bytes are passed on to the client: Bad file descriptor\n" in ran.stderr


@pytest.mark.parametrize("closings", ["2>&-", "2>&- <&-"])
def test_with_a_closed_stderr_the_log_goes_nowhere(closings: str, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    server = 'cat >"$1"; cat "$1"; exit 3'
    ran = run_with_closed(closings, "sh", "-c", server, "sh", str(seen), data=3 * REQUEST)
    passed = b"" if "<" in closings else 3 * REQUEST
    assert (ran.returncode, seen.read_bytes(), ran.stdout) == (3, passed, passed)


# The log


ANSWERS = b"".join(
    [
        RESULT,
        b'{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"secret"}}\n',
        b'{"jsonrpc":"2.0","id":"1","result":"secret"}\n',
        b'[{"jsonrpc":"2.0","method":"tick","params":["secret"]},{"jsonrpc":"2.0","id":9,"method":"ask"}]\n',
        b"secret\n",
        b'{"jsonrpc":"2.0","id":5,"method":7}\n',
    ]
)
CALLS = b"".join(
    [
        REQUEST,
        b'{"jsonrpc":"2.0","id":2,"method":"sub"}\n',
        b'{"jsonrpc":"2.0","id":"a \\u2028\\n\\" %b","method":"m\\n\\u001b[31m%b"}\n' % (80 * b"i", 80 * b"m"),
        b'{"jsonrpc":"2.0","method":"tock"}\n',
        b"\n",
        b'{"jsonrpc":"2.0","id":9,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":1,"meth',
    ]
)
LOGGED = [
    ("->", "request add id=1 59 B"),
    ("->", "request sub id=2 39 B"),
    ("->", r"request m\n\x1b[31m" + 53 * "m" + r"… id=" + r'"a \u2028\n\" ' + 51 * "i" + "… 223 B"),
    ("->", "notification tock 33 B"),
    ("->", "result id=9 36 B to no request of the server"),
    ("->", "invalid from the client 29 B TRUNCATED: the stream ended inside a message"),
    ("<-", "result add id=1 42 B N ms"),
    ("<-", "error -32601 sub id=2 67 B N ms"),
    ("<-", 'result id="1" 44 B to no request of the client'),
    ("<-", "batch of 2 95 B"),
    ("<-", "notification tick"),
    ("<-", "request ask id=9"),
    ("<-", f"invalid from the server 6 B MALFORMED_JSON: the text is not JSON; {Hint.PRINTED_TEXT.value}"),
    ("<-", "invalid from the server id=5 35 B INVALID_METHOD_TYPE: method is not a string"),
    ("--", "the server ended with status 0; requests without a response: 2 (1 of the client, 1 of the server)"),
]


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "answers").write_bytes(ANSWERS)
    log = tmp_path / "log"
    log.write_text("00:00:00.000 -- what was there before\n")
    done = run("sh", "-c", 'cat > /dev/null; cat "$0"/answers', str(tmp_path), data=CALLS, options=["--log", str(log)])
    assert (done.returncode, done.stdout, done.stderr) == (0, ANSWERS, b"")
    assert lines_of(log.read_bytes()) == [("--", "what was there before"), *LOGGED]
    assert b"secret" not in log.read_bytes()


def test_profile_and_framing(tmp_path: Path) -> None:
    options = ["--profile", "mcp-2025-11-25", "--framing", "content-length"]
    done = run("cat", data=b"Content-Length: 59\r\n\r\n" + REQUEST, options=options)
    assert lines_of(done.stderr)[:2] == [
        (
            "->",
            "invalid from the client id=1 59 B INVALID_PARAMS_TYPE: the protocol does not allow this type of params",
        ),
        (
            "<-",
            "invalid from the server id=1 59 B INVALID_PARAMS_TYPE: the protocol does not allow this type of params",
        ),
    ]
    done = run("cat", data=REQUEST + b"Content-Length: 5\r\n", options=options)
    assert [line for line in lines_of(done.stderr) if line[0] == "->"] == [
        ("->", f"invalid from the client INVALID_FRAMING: the framing is invalid; {Hint.NEWLINE_FRAMING.value}"),
        ("->", "the rest of this direction is not logged"),
    ]


def test_each_direction_detects_its_own_framing() -> None:
    done = run("sh", "-c", r"cat > /dev/null; printf 'Content-Length: 2\r\n\r\n{}'", data=REQUEST)
    assert lines_of(done.stderr)[:2] == [
        ("->", "request add id=1 59 B"),
        ("<-", "invalid from the server 2 B MISSING_JSONRPC: jsonrpc is missing"),
    ]


def test_payloads_are_logged_on_demand() -> None:
    text = b'{"jsonrpc":"2.0","method":\r"a\x1b[31m"}\nno \xff\x07json\n'
    done = run("cat", data=text, options=["--payloads", "--framing", "newline"])
    shown = {line for _, line in lines_of(done.stderr)}
    assert any(line.endswith(r'{"jsonrpc":"2.0","method": "a\x1b[31m"}') for line in shown)
    assert any(line.endswith(r"no \xff\x07json") for line in shown)


def test_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "record.ndjson"
    text = b'[{"jsonrpc":"2.0","id":1,"method":"add"}, 7]\n{"jsonrpc":"2.0",\r"method":"tick"}\nprinted\n'
    for _ in range(2):
        done = run("cat", data=text, options=["--record", str(path)])
        assert done.returncode == 0
        assert b"secret" not in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("rb") as file:
        found = list(read_recording(file))
    sent = [Raw(b'[{"jsonrpc":"2.0","id":1,"method":"add"}, 7]'), Raw(b'{"jsonrpc":"2.0", "method":"tick"}'), None]
    for sender in ("client", "server"):
        assert [each.message for each in found if each.sender == sender] == 2 * sent
    assert {each.connection for each in found} == {1}
    assert run("cat", data=text, options=["--record", str(tmp_path)]).returncode == 2


def test_json(tmp_path: Path) -> None:
    (tmp_path / "answers").write_bytes(
        RESULT + b"[7]\n" + b'{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}\n'
    )
    command = ("sh", "-c", 'cat > /dev/null; cat "$0"/answers', str(tmp_path))
    done = run(*command, data=REQUEST, options=["--json"])
    logged = [json.loads(line) for line in done.stderr.splitlines()]
    times = [entry.pop("time") for entry in logged]
    assert times == sorted(times)
    (milliseconds,) = [entry.pop("ms") for entry in logged if "ms" in entry]
    assert 0 < milliseconds < 30_000
    client, server = ({"connection": 1, "from": name} for name in ("client", "server"))
    reason = "the message is not an object"
    assert logged == [
        {**client, "kind": "request", "method": "add", "id": 1, "bytes": 59},
        {**server, "kind": "result", "id": 1, "method": "add", "bytes": 42},
        {**server, "kind": "batch", "items": 1, "bytes": 3},
        {**server, "kind": "invalid", "code": "NOT_AN_OBJECT", "reason": reason},
        {**server, "kind": "error", "code": -1, "id": 2, "bytes": 59},
        {"note": "the server ended with status 0; requests without a response: 0"},
    ]
    # The messages themselves, as in a recording.
    data = b'{"jsonrpc":"2.0","method":"a","params":[1e4,{}]}\nprinted\n'
    done = run("cat", data=data, options=["--json", "--payloads"])
    lines = [line for line in done.stderr.splitlines() if b'"from":"client"' in line]
    assert b',"message":{"jsonrpc":"2.0","method":"a","params":[1e4,{}]},"kind":"notification",' in b"".join(lines)
    assert json.loads(lines[1])["invalid"] == "printed"


def sides() -> tuple[tap.Side, tap.Side]:
    made = tap.sides("auto", JSONRPC)
    return made["->"], made["<-"]


def lines_to_log(side: tap.Side, now: float, chunk: bytes) -> list[str]:
    return ["".join(tap._words_of(entry, side)) for entry, _ in side.entries(now, chunk)]


def test_latency() -> None:
    client, server = sides()
    assert lines_to_log(client, 10.0, REQUEST) == ["request add id=1 59 B"]
    assert lines_to_log(server, 10.25, RESULT[:9]) == []
    assert lines_to_log(server, 11.5, RESULT[9:]) == ["result add id=1 42 B 1500.0 ms"]
    assert lines_to_log(server, 11.5, RESULT) == ["result id=1 42 B to no request of the client"]


def test_pending_calls_have_a_bound() -> None:
    client, server = sides()
    for id in range(5000):
        assert len(lines_to_log(client, 0.0, b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % id)) == 1
    assert len(client.pending) == 4096
    assert lines_to_log(server, 0.0, b'{"jsonrpc":"2.0","id":903,"result":1}\n') == [
        "result id=903 37 B to no request of the client"
    ]
    assert lines_to_log(server, 0.0, b'{"jsonrpc":"2.0","id":904,"result":1}\n') == ["result m id=904 37 B 0.0 ms"]


def test_bytes_skipped_by_a_slow_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "_WAITING_BYTES", 100_000)
    reader, writer = os.pipe()
    with open(reader, "rb") as log:
        watcher = tap.Watcher(tap.Logs(writer, None, False), "auto", JSONRPC)
        watcher.add("->", REQUEST + REQUEST[:10])
        watcher.add("->", 100_001 * b" ")
        for _ in range(10):
            watcher.add("->", 9 * b"x")
        watcher._waiting_bytes -= 100_257
        watcher._waiting.pop()
        watcher.add("->", b"middle of a line\n" + REQUEST)
        watcher.add("->", b"")
        watcher.finish("the server ended with status 0")
        watcher.run()
        os.close(writer)
        assert lines_of(log.read()) == [
            ("->", "request add id=1 59 B"),
            ("->", "90 bytes are not logged: the log is too slow"),
            ("->", "request add id=1 59 B"),
            ("--", "the server ended with status 0; requests without a response: 2 (2 of the client)"),
        ]


def test_skipped_bytes_end_the_log_unless_messages_are_lines() -> None:
    client, _ = sides()
    headed = b"Content-Length: 60\r\n\r\n" + REQUEST
    assert lines_to_log(client, 0.0, headed) == ["request add id=1 60 B"]
    assert client.skip() == ["the rest of this direction is not logged"]
    assert client.skip() == []
    assert lines_to_log(client, 0.0, headed) == []
    assert lines_to_log(client, 0.0, b"") == []


# Real peers
