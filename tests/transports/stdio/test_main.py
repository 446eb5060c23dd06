"""`run_stdio` in real processes: signals, sessions, exit codes, and what is printed at the end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jsonrpc_fast.transports import TcpServer, run_stdio

from ...support.processes import unread_bytes, wait_until_asleep
from ...support.stdio_process import ECHO, ONE, REPLY, echo, end_of, script
from ...support.tables import rows
from ...support.waiting import blocking_eventually

pytestmark = [
    pytest.mark.usefixtures("loop", "no_descriptor_left", "no_child_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests use POSIX signals and descriptors"),
]


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_process_started_with_a_closed_stream(closed: str) -> None:
    run = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *echo()], capture_output=True, input=b"", timeout=20)
    assert run.returncode == 1
    assert run.stderr == b"this process was started with a closed stdin or stdout\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_after_it_wrote_what_was_accepted(number: signal.Signals) -> None:
    changes = """
        def reply(transport, message):
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
        blocking_eventually(lambda: unread_bytes(process.stdout.fileno()) > 30_000)
        wait_until_asleep(process.pid)  # the pipe is full, and stdin stays open
        lines = process.stdout.readlines()
        assert process.wait(20) == -number
    assert len(lines) == 1001
    assert all(line.endswith(b'"}\n') for line in lines[1:])


def test_a_second_signal_does_not_wait() -> None:
    changes = """
        def reply(transport, message):
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
        wait_until_asleep(process.pid)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(2) == -signal.SIGTERM


def test_a_signal_ends_a_process_whose_handler_goes_on_after_the_end() -> None:
    program = """
        import asyncio

        from jsonrpc_fast.session import Session
        from jsonrpc_fast.transports import run_stdio

        async def stay():
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    pass

        async def serve(transport):
            async with Session(transport, {"stay": stay}, end_seconds=0, close_seconds=0.01) as session:
                await session.wait_closed()

        raise SystemExit(run_stdio(serve))
    """
    with subprocess.Popen(
        script(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"stay"}\n')
        process.stdin.close()
        assert process.stderr.readline() == b"StateError: a handler continues although it was cancelled: 'stay'\n"
        assert process.stderr.readline() == b"the server ended with requests without a response: 1\n"
        wait_until_asleep(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM


def test_on_signal_is_called_before_the_channel_closes() -> None:
    """What `on_signal` sends is written, and so is what a task sends that it wakes."""
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


def test_run_stdio_raises_what_serve_raises() -> None:
    changes = """
        async def serve(transport):
            await transport.start()
            raise KeyError("mine")
    """
    stdout, stderr, code = end_of(echo(changes), ONE)
    assert stdout == b""
    assert b"KeyError: 'mine'" in stderr
    assert code == 1


@pytest.mark.slow
def test_a_serve_function_that_goes_on_is_cancelled() -> None:
    changes = """
        import asyncio

        async def serve(transport):
            transport.onmessage = lambda message: reply(transport, message)
            await transport.start()
            try:
                await asyncio.sleep(100)
            finally:
                print("put away", file=sys.stderr)
    """
    assert end_of(echo(changes), ONE) == (REPLY, b"put away\n", 0)


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


WRONG_WAY = b"this process was started with a %b that is not open for %b\n"
FULL = b"a connection broke: [Errno 28] No space left on device\nstdin or stdout failed: No space left on device\n"


@rows(
    "redirection, said",
    [
        ("1</dev/null", WRONG_WAY % (b"stdout", b"writing")),
        ("1<$0", WRONG_WAY % (b"stdout", b"writing")),
        ("0>/dev/null", WRONG_WAY % (b"stdin", b"reading")),
        pytest.param("1>/dev/full", FULL, id="full"),
    ],
)
@pytest.mark.ci
def test_a_stdout_that_cannot_be_written_is_said(redirection: str, said: bytes, tmp_path: Path) -> None:
    if "full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    (tmp_path / "file").write_bytes(b"")
    command = ["sh", "-c", f'exec "$@" {redirection}', str(tmp_path / "file"), *script(SESSION, RUN_SESSION)]
    assert end_of(command, asked(0)) == (b"", said, 1)


def test_a_client_that_sends_too_much_that_is_invalid_is_said() -> None:
    command = script(SESSION, "sys.exit(run_stdio(serve, max_faults=0))")
    refused = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}\n'
    broke = b"the peer sent more invalid messages than max_faults allows\n"
    said = b"a connection broke: " + broke + b"stdin or stdout failed: " + broke
    assert end_of(command, b"{}\n") == (refused, said, 1)


def end_by_signals(command: list[str], data: bytes, *signals: signal.Signals) -> tuple[bytes, bytes, int]:
    """Send signals to a process that works on `data`; return its outputs and exit code."""
    first = b'{"jsonrpc":"2.0","id":0,"method":"none"}\n'
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(data + first)
        process.stdin.flush()
        process.stdout.readline()  # the response to `first`
        for number in signals:
            wait_until_asleep(process.pid)  # the signal before is handled
            process.send_signal(number)
        process.wait(20)
        return process.stdout.read(), process.stderr.read(), process.returncode


@pytest.mark.parametrize("grace", ["5.0", "None"])
def test_a_running_handler_replies_after_a_signal(grace: str) -> None:
    command = script(SESSION, f"GRACE = {grace}", RUN_SESSION)
    assert end_by_signals(command, asked(0.2), signal.SIGTERM) == (answered(0.2), b"", -signal.SIGTERM)


def test_unanswered_requests_are_reported() -> None:
    stdout, stderr, code = end_by_signals(script(SESSION, "GRACE = 0.2", RUN_SESSION), asked(30), signal.SIGTERM)
    assert (stdout, code) == (b"", -signal.SIGTERM)
    assert stderr.splitlines()[-1] == b"the server ended with requests without a response: 1"


def test_a_second_signal_does_not_wait_for_handlers() -> None:
    command = script(SESSION, "GRACE = None", RUN_SESSION)
    stdout, _, code = end_by_signals(command, asked(60), signal.SIGTERM, signal.SIGINT)
    assert (stdout, code) == (b"", -signal.SIGTERM)


@pytest.mark.ci
@pytest.mark.parametrize(("where", "is_late"), [("loop", True), ("thread", True), ("thread", False)])
@pytest.mark.parametrize("server", ["stdio", "tcp"])
def test_a_second_signal_ends_a_process_whose_function_blocks(server: str, where: str, is_late: bool) -> None:
    runs = {
        "stdio": "run_stdio(serving(handlers))",
        "tcp": "TcpServer(serving(handlers), sock=listener).run(grace_seconds=60)",
    }
    program = f"""
        import socket, sys, time
        from jsonrpc_fast.handlers import Handlers
        from jsonrpc_fast.session import serving
        from jsonrpc_fast.transports import TcpServer, run_stdio

        def block(seconds):
            print("begun", file=sys.stderr, flush=True)
            time.sleep(seconds)

        handlers = Handlers()
        handlers.register("work", block, thread={where == "thread"})
        listener = socket.socket(fileno=int(sys.argv[1])) if len(sys.argv) > 1 else None
        sys.exit({runs[server]})
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        descriptors = [listener.fileno()] if server == "tcp" else []
        process = subprocess.Popen(
            [*script(program), *map(str, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
        )
        with process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(asked(60))
            process.stdin.flush()
            client.sendall(asked(60))
            lines = iter(process.stderr.readline, b"begun\n")
            assert all(line.startswith(b"listening on ") for line in lines)
            wait_until_asleep(process.pid)
            process.send_signal(signal.SIGTERM)
            if is_late:
                # The system gives one of two signals at a time to another thread: the function is not interrupted.
                wait_until_asleep(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(20) in (-signal.SIGTERM, -signal.SIGINT)
            said = b"a second signal has come, and something still runs: the process ends\n"
            dropped = b"the server ended with requests without a response: 1\n"  # not while the loop is blocked
            assert process.stderr.read() == (dropped + said if where == "thread" else said)


@pytest.mark.slow
def test_after_the_end_of_stdin_handlers_have_no_time_limit() -> None:
    changes = """
        async def serve(transport):
            async with Session(transport, {"work": work}, close_seconds=0.1) as session:
                await session.wait_closed()
    """
    assert end_of(script(SESSION, changes, RUN_SESSION), asked(1)) == (answered(1), b"", 0)


@pytest.mark.ci
@pytest.mark.parametrize("where", ["loop", "thread"])
def test_a_process_ends_after_its_stdin_whatever_runs(where: str) -> None:
    """Its stderr may have no reader left."""
    changes = f"""
        from jsonrpc_fast.handlers import Handlers
        from jsonrpc_fast.session import serving

        def block(seconds):
            print("begun", file=sys.stderr, flush=True)
            time.sleep(seconds)

        handlers = Handlers()
        handlers.register("work", block, thread={where == "thread"})
        sys.exit(run_stdio(serving(handlers), end_seconds=0.0))
    """
    program = script(SESSION, changes)
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(asked(60))
        process.stdin.flush()
        assert process.stderr.readline() == b"begun\n"
        process.stderr.close()
        process.stdin.close()
        assert process.wait(20) == 1


def test_the_exit_code_of_a_session_closed_too_early() -> None:
    changes = """
        begun = asyncio.Event()

        async def work(seconds):
            begun.set()
            await asyncio.sleep(seconds)

        async def serve(transport):
            async with Session(transport, {"work": work}) as session:
                await begun.wait()
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
        assert b"the server ended with requests without a response: 1\n" in process.stderr.read()


def test_the_exit_code_when_the_client_does_not_read_in_time() -> None:
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
        said = rb"the peer did not read all messages before the connection closed; dropped bytes: \d+\n"
        assert re.fullmatch(said, process.stderr.read())


def test_output_printed_after_the_end_does_not_reach_the_wire() -> None:
    changes = """
        code = run_stdio(serve)
        print("printed", flush=True)
        os.system("echo by a child")
        sys.exit(code)
    """
    stdout, stderr, code = end_of(script(ECHO, changes), ONE)
    assert (stdout, code) == (REPLY, 0)
    assert stderr == b"printed\nby a child\n"


def test_handlers_in_place_of_a_function_are_refused_with_the_cure() -> None:
    cure = r"^serve must be a function, not dict: jsonrpc_fast\.session\.serving\(handlers\) makes one$"
    for start in (run_stdio, lambda serve: TcpServer(serve, "127.0.0.1", 0)):
        with pytest.raises(TypeError, match=cure):
            start({"add": 1})  # type: ignore[arg-type]
