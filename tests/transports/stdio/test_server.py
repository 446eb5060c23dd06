"""`StdioServer` in real processes, on pipes, files, sockets and terminals: messages, and stray input and output."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tty
from pathlib import Path

import pytest

from jsonrpc_fast.transports.stdio.descriptors import open_writer

from ...support.stdio_process import ECHO, ONE, REPLY, echo, end_of, script

pytestmark = [
    pytest.mark.usefixtures("loop", "no_descriptor_left", "no_child_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests use POSIX signals and descriptors"),
]


def test_end_of_stdin() -> None:
    assert end_of(echo(), ONE + ONE) == (REPLY + REPLY, b"", 0)
    assert end_of(echo(), b"") == (b"", b"", 0)


def test_end_of_stdin_without_a_line_ending() -> None:
    assert end_of(echo(), ONE[:-1]) == (REPLY, b"", 0)


def test_end_inside_a_message() -> None:
    assert end_of(echo(), ONE + ONE[:20]) == (REPLY, b"ParseError ParseErrorCode.TRUNCATED\n", 0)


def test_replies_after_the_end_of_stdin() -> None:
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
    assert end_of(echo(changes), ONE + ONE) == (REPLY + REPLY, b"", 0)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(ONE * 20_000)
    with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        run = subprocess.run(echo(), stdin=stdin, stdout=stdout, timeout=20)
    assert run.returncode == 0
    assert (tmp_path / "out").read_bytes() == REPLY * 20_000


def test_null_devices() -> None:
    run = subprocess.run(echo(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=20)
    assert run.returncode == 0


def test_sockets() -> None:
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen(echo(), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.settimeout(20)
        ours.sendall(ONE * 5000)
        received = b""
        while len(received) < len(REPLY) * 5000:
            received += ours.recv(65536)
        assert received == REPLY * 5000
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert process.wait(20) == 0


def test_terminal() -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "raw", "-echo"], stdin=theirs, check=True)
    with subprocess.Popen(echo(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.write(ours, ONE)
        received = b""
        while len(received) < len(REPLY):
            received += os.read(ours, 4096)
        assert received == REPLY
        # The shell shares the terminal: it is still blocking.
        assert os.get_blocking(theirs)
        os.close(theirs)
        os.close(ours)
        assert process.wait(20) == 0


def test_a_client_that_stopped_reading() -> None:
    with subprocess.Popen(echo(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(ONE)
        process.stdin.flush()
        assert process.stdout.readline() == REPLY
        process.stdout.close()
        process.stdin.write(ONE)
        process.stdin.flush()
        assert process.wait(20) == 1
        assert process.stderr.read() == b"BrokenPipeError \nstdin or stdout failed: Broken pipe\n"


def test_stray_output_does_not_reach_the_wire() -> None:
    changes = """
        print("banner, before it starts")
        libc = ctypes.CDLL(None)

        def reply(transport, message):
            print("from Python")
            sys.stdout.write("unfinished ")
            os.write(1, b"written to 1\\n")
            libc.printf(b"from C %d\\n", 1)
            libc.fflush(None)
            libc.puts(b"from C, in its buffer")
            subprocess.run([sys.executable, "-I", "-S", "-c", "print('from a child')"])
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


def test_stray_output_with_a_closed_stderr() -> None:
    changes = """
        def reply(transport, message):
            print("stray", flush=True)
            os.system("echo stray")
            transport.send(Response(message.id, message.params))
    """
    run = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *echo(changes)], stdout=subprocess.PIPE, input=ONE, timeout=20
    )
    assert (run.stdout, run.returncode) == (REPLY, 0)


def test_children_do_not_inherit_the_wire() -> None:
    changes = """
        def reply(transport, message):
            child = subprocess.Popen(["sleep", "60"])
            transport.send(Response(message.id, child.pid))
    """
    with subprocess.Popen(echo(changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(ONE)
        process.stdin.flush()
        line = process.stdout.readline()
        process.stdin.close()
        assert process.stdout.read() == b""  # although the child still runs: the test has a limit of 40 seconds
        assert process.wait(20) == 0
    found = re.search(rb'"result":(\d+)', line)
    assert found is not None
    os.kill(int(found[1]), signal.SIGKILL)


def test_shared_descriptors_stay_blocking() -> None:
    changes = """
        def reply(transport, message):
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


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_what_is_written_to_the_master_of_a_pseudo_terminal_is_read_by_its_slave() -> None:
    """Opening the master again, through /proc, makes another pseudo-terminal, which nobody reads."""
    master, slave = os.openpty()
    tty.setraw(slave)
    writer = open_writer(master, lambda: None, lambda fault: None)
    writer.write(b"hello\n")
    assert await asyncio.to_thread(os.read, slave, 100) == b"hello\n"
    writer.finish(lambda: None)
    os.close(slave)
