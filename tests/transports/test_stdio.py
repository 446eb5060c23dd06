"""Real processes on real pipes: how messages, stray output, ends and signals come through."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.transports import StdioClient, StdioServer
from jsonrpc_fast.transports.stdio import client, descriptors
from jsonrpc_fast.transports.stdio.client import LINE_BYTES

from ..support import loops

pytestmark = [
    pytest.mark.timeout(40),
    pytest.mark.usefixtures("loop", "no_descriptor_left", "no_child_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests speak of signals and descriptors"),
]

ECHO = """
    import ctypes, os, signal, subprocess, sys, time
    from jsonrpc_fast import Request, Response
    from jsonrpc_fast.transports import run_stdio

    def answer(transport, message):
        transport.send(Response(message.id, message.params))

    async def serve(transport):
        transport.onmessage = lambda message: answer(transport, message)
        transport.onerror = lambda error: print(type(error).__name__, getattr(error, "code", ""), file=sys.stderr)
        await transport.start()
"""
RUN = """
    sys.exit(run_stdio(serve))
"""
ONE = b'{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":[1]}\n'


def script(*parts: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(textwrap.dedent(part) for part in (loops.prelude(), *parts))]


def echo(changes: str = "") -> list[str]:
    return script(ECHO, changes, RUN)


def end_of(command: list[str], data: bytes, **options: Any) -> tuple[bytes, bytes, int]:
    run = subprocess.run(command, input=data, capture_output=True, timeout=20, **options)
    return run.stdout, run.stderr, run.returncode


# The server.


def test_end_of_stdin() -> None:
    assert end_of(echo(), ONE + ONE) == (ANSWER + ANSWER, b"", 0)
    assert end_of(echo(), b"") == (b"", b"", 0)


def test_end_of_stdin_without_a_line_ending() -> None:
    assert end_of(echo(), ONE[:-1]) == (ANSWER, b"", 0)


def test_end_inside_a_message() -> None:
    assert end_of(echo(), ONE + ONE[:20]) == (ANSWER, b"ParseError ParseErrorCode.TRUNCATED\n", 0)


def test_answers_after_the_end_of_stdin() -> None:
    changes = """
        import asyncio

        async def serve(transport):
            transport.onmessage = lambda message: asyncio.get_running_loop().call_later(
                0.1, transport.send, Response(message.id, message.params)
            )
            transport.onend = lambda: asyncio.get_running_loop().call_later(
                0.2, lambda: closing.append(asyncio.ensure_future(transport.close()))
            )
            await transport.start()

        closing = []
    """
    assert end_of(echo(changes), ONE + ONE) == (ANSWER + ANSWER, b"", 0)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(ONE * 20_000)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        run = subprocess.run(echo(), stdin=stdin, stdout=stdout, timeout=20)
    assert run.returncode == 0
    assert (tmp_path / "out").read_bytes() == ANSWER * 20_000


def test_nothing_on_both_sides() -> None:
    run = subprocess.run(echo(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=20)
    assert run.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_started_without_a_stream(closed: str) -> None:
    run = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *echo()], capture_output=True, input=b"", timeout=20)
    assert run.returncode == 1
    assert run.stderr == b"this process was started with a closed stdin or stdout\n"


def test_sockets() -> None:
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(echo(), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.settimeout(20)
        ours.sendall(ONE * 5000)
        received = b""
        while len(received) < len(ANSWER) * 5000:
            received += ours.recv(65536)
        assert received == ANSWER * 5000
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert process.wait(20) == 0


def test_terminal() -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "raw", "-echo"], stdin=theirs, check=True)
    with subprocess.Popen(echo(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.write(ours, ONE)
        received = b""
        while len(received) < len(ANSWER):
            received += os.read(ours, 4096)
        assert received == ANSWER
        # The terminal is the shell's, too: it blocks as before.
        assert os.get_blocking(theirs)
        os.close(theirs)
        os.close(ours)
        assert process.wait(20) == 0


def test_a_reader_that_has_gone() -> None:
    with subprocess.Popen(echo(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(ONE)
        process.stdin.flush()
        assert process.stdout.readline() == ANSWER
        process.stdout.close()
        process.stdin.write(ONE)
        process.stdin.flush()
        assert process.wait(20) == 1
        assert process.stderr.read() == b"BrokenPipeError \n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_after_what_was_accepted(number: signal.Signals) -> None:
    changes = """
        def answer(transport, message):
            transport.send(Response(message.id, message.params))
            for _ in range(1000):
                transport.send(Response(message.id, "x" * 1000))
            os.kill(os.getpid(), message.params[0])
    """
    with subprocess.Popen(echo(changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":[%d]}\n' % number)
        process.stdin.flush()
        time.sleep(0.5)  # the pipe is full, and stdin stays open
        lines = process.stdout.readlines()
        assert process.wait(20) == -number
    assert len(lines) == 1001
    assert all(line.endswith(b'"}\n') for line in lines[1:])


def test_a_second_signal_does_not_wait() -> None:
    changes = """
        def answer(transport, message):
            transport.send(Response(message.id, "x" * 10_000_000))
            print("ready", file=sys.stderr, flush=True)
    """
    with subprocess.Popen(
        echo(changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(ONE)
        process.stdin.flush()
        assert process.stderr.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(2) == -signal.SIGTERM


def test_the_first_signal_is_told_before_the_channel_closes() -> None:
    """What `on_signal` sends is written, and what a task sends that it wakes."""
    changes = """
        import asyncio

        async def serve(transport):
            global channel, signalled
            channel, signalled = transport, asyncio.Event()
            await transport.start()
            print("ready", file=sys.stderr, flush=True)
            await signalled.wait()
            transport.send(Response(2, []))

        def on_signal():
            channel.send(Response(1, []))
            signalled.set()
    """
    command = script(ECHO, changes, "raise SystemExit(run_stdio(serve, on_signal=on_signal))")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"".join(
            b'{"jsonrpc":"2.0","id":%d,"result":[]}\n' % number for number in (1, 2)
        )
        assert process.wait(20) == -signal.SIGTERM


def test_stray_output_does_not_reach_the_wire() -> None:
    changes = """
        print("banner, before it starts")
        libc = ctypes.CDLL(None)

        def answer(transport, message):
            print("from Python")
            sys.stdout.write("unfinished ")
            os.write(1, b"written to 1\\n")
            libc.printf(b"from C %d\\n", 1)
            libc.fflush(None)
            libc.puts(b"from C, in its buffer")
            subprocess.run([sys.executable, "-c", "print('from a child')"])
            os.system("echo from a shell")
            heard = subprocess.run(["cat"], stdout=subprocess.PIPE).stdout
            transport.send(Response(message.id, [heard.decode(), sys.stdin.read(), os.read(0, 10).decode()]))
    """
    after = """
        code = run_stdio(serve)
        print("after")
        sys.exit(code)
    """
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    stdout, stderr, code = end_of(script(ECHO, changes, after), ONE + ONE, env=buffered)
    answer = b'{"jsonrpc":"2.0","id":1,"result":["","",""]}\n'
    assert stdout == answer + answer
    assert code == 0
    for stray, times in (
        (b"after\n", 1),
        (b"banner, before it starts\n", 1),
        (b"from Python\n", 2),
        (b"unfinished ", 2),
        (b"written to 1\n", 2),
        (b"from C 1\n", 2),
        (b"from C, in its buffer\n", 2),
        (b"from a child\n", 2),
        (b"from a shell\n", 2),
    ):
        assert stderr.count(stray) == times, stray


def test_stray_output_where_stderr_is_closed() -> None:
    changes = """
        def answer(transport, message):
            print("stray", flush=True)
            os.system("echo stray")
            transport.send(Response(message.id, message.params))
    """
    run = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *echo(changes)], stdout=subprocess.PIPE, input=ONE, timeout=20
    )
    assert (run.stdout, run.returncode) == (ANSWER, 0)


def test_children_do_not_hold_the_wire() -> None:
    changes = """
        def answer(transport, message):
            child = subprocess.Popen(["sleep", "30"])
            transport.send(Response(message.id, child.pid))
    """
    started = time.monotonic()
    with subprocess.Popen(echo(changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(ONE)
        process.stdin.flush()
        line = process.stdout.readline()
        process.stdin.close()
        assert process.stdout.read() == b""  # although the child still runs
        assert time.monotonic() - started < 20
        assert process.wait(20) == 0
    found = re.search(rb'"result":(\d+)', line)
    assert found is not None
    os.kill(int(found[1]), signal.SIGKILL)


def test_descriptors_that_are_shared_stay_blocking() -> None:
    changes = """
        def answer(transport, message):
            transport.send(Response(message.id, [os.get_blocking(2), os.get_blocking(0), os.get_blocking(1)]))
    """
    # stdout and stderr are one open file here.
    run = subprocess.run(echo(changes), input=ONE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    assert run.stdout == b'{"jsonrpc":"2.0","id":1,"result":[true,true,true]}\n'


def test_one_server_at_a_time_and_streams_restored() -> None:
    changes = """
        import asyncio
        from jsonrpc_fast import Notification
        from jsonrpc_fast.errors import StateError
        from jsonrpc_fast.transports import StdioServer

        async def main():
            before = len(os.listdir("/proc/self/fd"))
            for number in range(2):
                server = StdioServer()
                await server.connect()
                print("hidden")
                try:
                    await StdioServer().connect()
                except StateError:
                    server.send(Notification(str(number)))
                await server.close()
                print("seen", flush=True)
            assert len(os.listdir("/proc/self/fd")) == before

        asyncio.run(main())
    """
    stdout, stderr, code = end_of(script(ECHO, changes), b"")
    assert stdout == b'{"jsonrpc":"2.0","method":"0"}\nseen\n{"jsonrpc":"2.0","method":"1"}\nseen\n'
    assert (stderr, code) == (b"hidden\nhidden\n", 0)


def test_what_serve_raises_comes_out() -> None:
    changes = """
        async def serve(transport):
            await transport.start()
            raise KeyError("mine")
    """
    stdout, stderr, code = end_of(echo(changes), ONE)
    assert stdout == b""
    assert b"KeyError: 'mine'" in stderr
    assert code == 1


def test_a_serve_that_goes_on_is_ended() -> None:
    changes = """
        import asyncio

        async def serve(transport):
            transport.onmessage = lambda message: answer(transport, message)
            await transport.start()
            try:
                await asyncio.sleep(100)
            finally:
                print("put away", file=sys.stderr)
    """
    assert end_of(echo(changes), ONE) == (ANSWER, b"put away\n", 0)


# The client.


class Child(StdioClient):
    """Notes what it tells, in order."""

    def __init__(self, command: list[str], **options: Any) -> None:
        super().__init__(command, **options)
        self.told: list[Any] = []
        self.onmessage = self.told.append
        self.onerror = self.told.append
        self.onclose = lambda: self.told.append("closed")

    async def tells(self, count: int) -> None:
        while len(self.told) < count:
            await asyncio.sleep(0.001)


async def test_a_child_answers_and_ends() -> None:
    child = Child(echo())
    assert child.pid is None
    await child.start()
    child.send(Request(1, "echo", [1]))
    child.send(Request(2, "echo", ["x" * 1_000_000]))
    await child.tells(2)
    assert child.told == [Response(1, [1]), Response(2, ["x" * 1_000_000])]
    assert child.returncode is None
    os.kill(child.pid or 0, 0)
    await child.close()
    assert child.told[2:] == ["closed"]
    assert child.returncode == 0
    with pytest.raises(StateError):
        await child.connect()


async def test_close_writes_what_was_accepted(tmp_path: Path) -> None:
    child = Child(["sh", "-c", f"sleep 0.5; cat > {tmp_path / 'out'}"])
    await child.start()
    for number in range(3000):
        child.send(Notification("n", [number, "x" * 1000]))
    await child.close()
    assert child.told == ["closed"]
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert len(lines) == 3000
    assert lines[-1].startswith(b'{"jsonrpc":"2.0","method":"n","params":[2999,"x')


@pytest.mark.parametrize(
    ("trap", "returncode", "least", "most"),
    [("", -signal.SIGTERM, 0.3, 5), ("trap '' TERM;", -signal.SIGKILL, 0.6, 5)],
)
async def test_a_child_that_will_not_end(trap: str, returncode: int, least: float, most: float) -> None:
    child = Child(["sh", "-c", f"{trap} while :; do sleep 0.05; done"], exit_seconds=0.3, terminate_seconds=0.3)
    await child.start()
    await asyncio.sleep(0.2)
    started = time.monotonic()
    await child.close()
    assert least < time.monotonic() - started < most
    assert child.returncode == returncode
    assert child.told == ["closed"]  # it was this side's wish


async def test_disconnect_does_not_wait_for_the_child() -> None:
    child = Child(["sleep", "30"])
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    started = time.monotonic()
    await child.disconnect()
    assert time.monotonic() - started < 1
    assert child.returncode == -signal.SIGTERM
    assert child.told == ["closed"]


async def test_a_child_that_does_not_read_is_given_up() -> None:
    child = Child(["sleep", "30"], drain_seconds=0.3)
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    assert child.write_buffer_bytes > 900_000
    started = time.monotonic()
    await child.close()
    assert 0.3 < time.monotonic() - started < 2
    assert child.returncode == -signal.SIGTERM


async def test_a_killed_child() -> None:
    changes = """
        def answer(transport, message):
            if message.method == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            transport.send(Response(message.id, message.params))
            transport._flush()
    """

    child = Child(echo(changes))
    await child.start()
    for number in range(100):
        child.send(Request(number, "echo", [number]))
    child.send(Request("last", "die"))
    await child.wait_closed()
    assert child.told[:100] == [Response(number, [number]) for number in range(100)]
    assert [str(error) for error in child.told[100:101]] == ["the child process ended by signal 9"]
    assert child.told[101:] == ["closed"]
    assert child.returncode == -9
    with pytest.raises(ConnectionLost) as caught:
        child.send(Notification("n"))
    assert caught.value.__cause__ is child.told[100]


async def test_a_child_that_fails() -> None:
    child = Child(["sh", "-c", 'echo \'{"jsonrpc":"2.0","method":"bye"}\'; printf \'{"js\'; exit 3'])
    await child.start()
    await child.wait_closed()
    assert child.told[0] == Notification("bye")
    assert isinstance(child.told[1], ParseError)
    assert isinstance(child.told[2], ConnectionLost)
    assert str(child.told[2]) == "the child process ended with exit code 3"
    assert child.told[3:] == ["closed"]


async def test_a_child_that_ends_before_it_is_started() -> None:
    child = Child(["echo", '{"jsonrpc":"2.0","method":"bye"}'])
    await child.connect()
    await asyncio.sleep(0.3)
    assert child.returncode == 0
    assert child.told == []
    await child.start()
    await child.wait_closed()
    assert child.told == [Notification("bye"), "closed"]


async def test_a_child_that_reads_no_more() -> None:
    child = Child(["sh", "-c", 'exec <&-; echo \'{"jsonrpc":"2.0","method":"deaf"}\'; sleep 0.3'])
    await child.start()
    await child.tells(1)
    child.send(Notification("n"))
    await child.wait_closed()
    assert child.told[0] == Notification("deaf")
    assert isinstance(child.told[1], BrokenPipeError)
    assert child.told[2:] == ["closed"]
    assert child.returncode == 0


async def test_a_program_that_is_not_there() -> None:
    child = Child(["/nonexistent/program"])
    for _ in range(2):  # it may be tried again
        with pytest.raises(FileNotFoundError):
            await child.start()
    assert child.told == []
    await child.close()
    assert child.told == ["closed"]


async def test_given_up_before_it_was_begun() -> None:
    child = Child(["sleep", "30"], stderr=lambda line: None)
    connecting = asyncio.ensure_future(child.start())
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert child.told == []
    assert child.pid is None


async def test_given_up_when_it_was_just_begun() -> None:
    child = Child(["sleep", "30"], stderr=lambda line: None, exit_seconds=0.01)
    connecting = asyncio.ensure_future(child.start())
    await asyncio.sleep(0)
    await child.close()
    await connecting
    assert child.told == ["closed"]
    assert child.returncode == -signal.SIGTERM


def test_an_unclosed_child_ends_with_the_loop() -> None:
    children: list[Child] = []

    async def start() -> None:
        children.append(Child(["sleep", "30"]))
        await children[0].start()

    with pytest.warns(ResourceWarning, match="unclosed stdio client of process"):
        asyncio.run(asyncio.wait_for(start(), 30))
    assert children[0].told == ["closed"]
    assert children[0].returncode == -signal.SIGTERM


def test_a_child_whose_task_closes_it_at_the_loops_end_is_given_its_time() -> None:
    children: list[Child] = []
    using: list[asyncio.Future[None]] = []

    async def use() -> None:
        child = Child(["sh", "-c", "cat > /dev/null; sleep 0.2; exit 7"])
        children.append(child)
        await child.start()
        try:
            await asyncio.sleep(30)
        finally:
            await child.close()

    async def start() -> None:
        using.append(asyncio.ensure_future(use()))
        while not children or children[0].pid is None:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(start(), 30))
    assert children[0].returncode == 7


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread waits for each child")
async def test_where_a_sandbox_refuses_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    child = Child(["sh", "-c", "exit 3"])
    await child.start()
    await child.wait_closed()
    assert str(child.told[0]) == "the child process ended with exit code 3"
    assert child.told[1:] == ["closed"]


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(TypeError):
        StdioClient("one string")
    with pytest.raises(ValueError, match="stderr"):
        StdioClient(["cat"], stderr="elsewhere")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="framing"):
        StdioServer(framing="morse")


async def test_stderr_line_by_line() -> None:
    lines: list[str] = []

    code = f"""
            import os
            os.write(2, b"one\\r\\ntwo\\n\\xff\\n\\n" + b"x" * {2 * LINE_BYTES + 5} + b"\\nlast")
        """
    child = Child(script(code), stderr=lines.append)
    await child.start()
    await child.wait_closed()
    assert child.told == ["closed"]
    assert lines[:4] == ["one", "two", "\\xff", ""]
    assert "".join(lines[4:-1]) == "x" * (2 * LINE_BYTES + 5)
    assert max(map(len, lines)) == LINE_BYTES  # where it is cut depends on the chunks
    assert lines[-1] == "last"


async def test_a_fault_of_the_stderr_callback_is_reported() -> None:
    fault = KeyError("mine")

    def fail(line: str) -> None:
        raise fault

    child = Child(["sh", "-c", "echo a >&2; echo b >&2"], stderr=fail)
    await child.start()
    await child.wait_closed()
    assert child.told == [fault, fault, "closed"]


async def test_stderr_elsewhere(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["sh", "-c", "echo heard >&2"]
    await Child(command).start()
    with (tmp_path / "errors").open("wb") as errors:
        children = [Child(command, stderr="discard"), Child(command), Child(command, stderr=errors)]
        for child in children:
            await child.start()
    for child in children:
        await child.wait_closed()
        assert child.told == ["closed"]
    assert capfd.readouterr().err == "heard\nheard\n"
    assert (tmp_path / "errors").read_bytes() == b"heard\n"


async def test_environment_and_directory(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", 'echo "{\\"jsonrpc\\":\\"2.0\\",\\"method\\":\\"$MINE $PWD\\"}"']
    child = Child(command, env={"MINE": "yes"}, cwd=tmp_path)
    await child.start()
    await child.wait_closed()
    assert child.told == [Notification(f"yes {tmp_path}"), "closed"]


@pytest.mark.parametrize("own_session", [True, False])
async def test_what_a_child_started(own_session: bool, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    # The grandchild holds the pipes open. Its parent ends at once, or must be terminated.
    child = Child(["sh", "-c", f"sleep 30 & echo $! > {note}; sleep 30"], own_session=own_session, exit_seconds=0.2)
    await child.start()
    while not note.exists() or not note.read_text().strip():
        await asyncio.sleep(0.01)
    started = time.monotonic()
    await child.close()
    assert time.monotonic() - started < 2
    assert child.returncode == -signal.SIGTERM
    time.sleep(0.1)
    stat = Path(f"/proc/{note.read_text().strip()}/stat")
    is_running = stat.exists() and stat.read_text().split()[2] != "Z"
    assert is_running is not own_session
    if is_running:
        os.kill(int(note.read_text()), signal.SIGKILL)


async def test_a_stdout_that_outlives_the_child() -> None:
    child = Child(["sh", "-c", 'sleep 3 & echo \'{"jsonrpc":"2.0","method":"bye"}\''])
    await child.start()
    started = time.monotonic()
    await child.wait_closed()
    assert time.monotonic() - started < 2
    assert child.told == [Notification("bye"), "closed"]


async def test_a_stray_print_of_a_child_costs_one_line() -> None:
    child = Child(["sh", "-c", 'echo starting; echo \'{"jsonrpc":"2.0","method":"m"}\''])
    await child.start()
    await child.wait_closed()
    assert isinstance(child.told[0], ParseError)
    assert child.told[1:] == [Notification("m"), "closed"]


def test_a_server_whose_client_is_killed_ends() -> None:
    flood = """
        import asyncio
        from jsonrpc_fast import encode_request
        from jsonrpc_fast.errors import ConnectionLost
        from jsonrpc_fast.transports import StdioClient

        async def main():
            client = StdioClient(eval(sys.argv[1]))
            await client.start()
            print(client.pid, flush=True)
            client.pause_reading()
            while True:
                client.send(encode_request(1, "echo", ["x" * 100_000]))
                await client.drain()

        asyncio.run(main())
    """
    with subprocess.Popen([*script(ECHO, flood), repr(echo())], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        server = Path(f"/proc/{int(client.stdout.readline())}")
        time.sleep(0.3)  # now both wait for the other to read
        assert server.exists()
        client.kill()
    deadline = time.monotonic() + 5
    while server.exists() and server.joinpath("stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Where the loop cannot wait for a descriptor: the way of Windows, on pipes.


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "open_reader", descriptors.ThreadReader)
    monkeypatch.setattr(client, "open_writer", descriptors.ThreadWriter)


@pytest.mark.usefixtures("in_threads")
async def test_a_child_in_threads() -> None:
    child = Child(echo())
    child.pauses_when_blocked = False
    await child.start()
    child.pause_reading()
    for number in range(200):
        child.send(Request(number, "echo", [number, "x" * 10_000]))
    child.resume_reading()
    await child.drain()
    await child.tells(200)
    assert child.told == [Response(number, [number, "x" * 10_000]) for number in range(200)]
    assert child.write_buffer_bytes == 0
    await child.close()
    assert child.told[200:] == ["closed"]
    assert child.returncode == 0


@pytest.mark.usefixtures("in_threads")
async def test_a_killed_child_in_threads() -> None:
    changes = """
        def answer(transport, message):
            transport.send(Response(message.id, message.params))
            transport._flush()
            if message.method == "die":
                os.kill(os.getpid(), signal.SIGKILL)
    """

    child = Child(echo(changes), stderr=lambda line: None)
    await child.start()
    child.send(Request(1, "echo"))
    child.send(Request(2, "die"))
    await child.wait_closed()
    assert child.told[:2] == [Response(1), Response(2)]
    assert str(child.told[2]) == "the child process ended by signal 9"
    assert child.told[3:] == ["closed"]


@pytest.mark.usefixtures("in_threads")
async def test_a_child_that_does_not_read_in_threads() -> None:
    child = Child(["sleep", "30"], drain_seconds=0.2)
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(child.drain(), 0.05)
    await child.close()
    assert child.returncode == -signal.SIGTERM
    assert child.told == ["closed"]


SESSION = """
    import asyncio, os, sys, time
    from jsonrpc_fast import Response
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.transports import run_stdio

    async def work(seconds):
        await asyncio.sleep(seconds)
        return seconds

    async def serve(transport):
        async with Session(transport, {"work": work}) as session:
            await session.wait_closed()

    GRACE = 5.0
"""
RUN_SESSION = """
    sys.exit(run_stdio(serve, grace_seconds=GRACE))
"""


def asked(seconds: float) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"work","params":[%g]}\n' % seconds


def answered(seconds: float) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":%g}\n' % seconds


def end_by_signals(command: list[str], data: bytes, *signals: signal.Signals) -> tuple[bytes, bytes, int]:
    """The end of a process that has begun to work on `data`."""
    first = b'{"jsonrpc":"2.0","id":0,"method":"none"}\n'
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(data + first)
        process.stdin.flush()
        process.stdout.readline()  # the answer to `first`
        for number in signals:
            process.send_signal(number)
            time.sleep(0.1)
        process.wait(20)
        return process.stdout.read(), process.stderr.read(), process.returncode


@pytest.mark.parametrize("grace", ["5.0", "None"])
def test_a_handler_at_work_answers_after_a_signal(grace: str) -> None:
    command = script(SESSION, f"GRACE = {grace}", RUN_SESSION)
    assert end_by_signals(command, asked(0.5), signal.SIGTERM) == (answered(0.5), b"", -signal.SIGTERM)


def test_an_answer_that_is_cut_off_is_told() -> None:
    stdout, stderr, code = end_by_signals(script(SESSION, "GRACE = 0.2", RUN_SESSION), asked(30), signal.SIGTERM)
    assert (stdout, code) == (b"", -signal.SIGTERM)
    assert stderr.splitlines()[-1] == b"the server ended with unanswered requests: 1"


def test_a_second_signal_does_not_wait_for_handlers() -> None:
    command = script(SESSION, "GRACE = None", RUN_SESSION)
    started = time.monotonic()
    stdout, _, code = end_by_signals(command, asked(30), signal.SIGTERM, signal.SIGINT)
    assert (stdout, code) == (b"", -signal.SIGTERM)
    assert time.monotonic() - started < 10


def test_after_the_end_of_stdin_a_handler_has_as_long_as_it_takes() -> None:
    changes = """
        async def serve(transport):
            async with Session(transport, {"work": work}, close_seconds=0.1) as session:
                await session.wait_closed()
    """
    assert end_of(script(SESSION, changes, RUN_SESSION), asked(1)) == (answered(1), b"", 0)


def test_a_session_that_is_closed_too_early_is_an_exit_code() -> None:
    changes = """
        async def serve(transport):
            async with Session(transport, {"work": work}) as session:
                await asyncio.sleep(0.5)
                await session.close(grace_seconds=0)
    """
    with subprocess.Popen(
        script(SESSION, changes, RUN_SESSION), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(asked(30))
        process.stdin.flush()
        assert process.wait(20) == 1
        assert process.stdout.read() == b""
        assert b"the server ended with unanswered requests: 1\n" in process.stderr.read()


def test_bytes_that_the_client_does_not_take_in_time_are_an_exit_code() -> None:
    changes = """
        async def work(seconds):
            return "x" * 1_000_000
    """
    run = "sys.exit(run_stdio(serve, drain_seconds=0.2))"
    with subprocess.Popen(
        script(SESSION, changes, run), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(asked(0))
        process.stdin.close()
        assert process.wait(20) == 1
        assert re.fullmatch(rb"the client did not read all output in time; dropped bytes: \d+\n", process.stderr.read())


def test_what_is_printed_after_the_end_does_not_reach_the_wire() -> None:
    changes = """
        code = run_stdio(serve)
        print("printed", flush=True)
        os.system("echo by a child")
        sys.exit(code)
    """
    stdout, stderr, code = end_of(script(ECHO, changes), ONE)
    assert (stdout, code) == (ANSWER, 0)
    assert stderr == b"printed\nby a child\n"
