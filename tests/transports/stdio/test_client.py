"""`StdioClient` with real child processes: messages, stderr, exit codes, signals, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient, StdioServer
from jsonrpc_fast.transports.stdio import client, descriptors
from jsonrpc_fast.transports.stdio.client import LINE_BYTES

from ...support.clock import moving_clock
from ...support.stdio_process import ECHO, echo, script
from ...support.tables import rows
from ...support.transports import Recorder
from ...support.waiting import blocking_eventually, eventually, forever, settle

pytestmark = [
    pytest.mark.usefixtures("loop", "no_descriptor_left", "no_child_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests use POSIX signals and descriptors"),
]


class Child(StdioClient):
    """A child process whose transport is recorded."""

    def __init__(self, command: list[str], **options: Any) -> None:
        super().__init__(command, **options)
        self.recorder = Recorder(self)
        self.events = self.recorder.events


async def test_a_child_replies_and_ends() -> None:
    child = Child(echo())
    assert child.pid is None
    await child.start()
    child.send(Request(1, "echo", [1]))
    child.send(Request(2, "echo", ["x" * 1_000_000]))
    await child.recorder.wait_for(2)
    assert child.events == [Response(1, [1]), Response(2, ["x" * 1_000_000])]
    assert child.returncode is None
    os.kill(child.pid or 0, 0)
    await child.close()
    assert child.events[2:] == ["closed"]
    assert child.returncode == 0
    with pytest.raises(StateError):
        await child.connect()


async def test_close_writes_what_was_accepted(tmp_path: Path) -> None:
    child = Child(["sh", "-c", 'sleep 0.1; cat > "$0"', str(tmp_path / "out")])
    await child.start()
    for number in range(3000):
        child.send(Notification("n", [number, "x" * 1000]))
    await child.close()
    assert child.events == ["closed"]
    lines = (tmp_path / "out").read_bytes().splitlines()
    assert len(lines) == 3000
    assert lines[-1].startswith(b'{"jsonrpc":"2.0","method":"n","params":[2999,"x')


async def test_a_writer_that_reports_after_the_end() -> None:
    child = Child([sys.executable, "-c", "pass"])
    await child.start()
    await child.wait_closed()
    timer = child.channel._next_step
    # A write that fails is reported in the next turn of the loop, and the exit may be handled in this one.
    child.channel._write_failed(BrokenPipeError())
    assert child.channel._next_step is timer
    assert child.returncode == 0
    assert child.events == ["closed"]


@pytest.mark.time_limit(3600)  # of the clock that it moves
@rows("trap, returncode", [("", -signal.SIGTERM), ("trap 'touch note' TERM;", -signal.SIGKILL)])
async def test_a_child_that_does_not_end(
    trap: str, returncode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    move = moving_clock()
    script = f"""{trap} echo '{{"jsonrpc":"2.0","method":"ready"}}'; while :; do sleep 0.05; done"""
    child = Child(["sh", "-c", script], exit_seconds=60)
    await child.start()
    await child.recorder.wait_for(1)
    closing = asyncio.create_task(child.close())
    for seconds in (0, 59):
        move(seconds)
        await settle()
        assert child.returncode is None
    move(1)  # SIGTERM
    if trap:
        await eventually(Path("note").exists)
        assert child.returncode is None
        move(60)  # SIGKILL
    await closing
    assert child.returncode == returncode
    assert child.events == [Notification("ready"), "closed"]  # no error: this side closed it


async def test_disconnect_does_not_wait_for_the_child() -> None:
    child = Child(["sleep", "30"])
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    await child.disconnect()
    assert child.returncode == -signal.SIGTERM
    assert child.events == ["closed"]


@pytest.mark.time_limit(3600)  # of the clock that it moves
async def test_closing_a_child_that_does_not_read() -> None:
    move = moving_clock()
    child = Child(["sleep", "30"], drain_seconds=60)
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    assert child.write_buffer_bytes > 900_000
    closing = asyncio.create_task(child.close())
    for seconds in (0, 59):
        move(seconds)
        await settle()
        assert child.returncode is None
    move(1)
    await closing
    assert child.returncode == -signal.SIGTERM


async def test_a_killed_child() -> None:
    changes = """
        def reply(transport, message):
            if message.method == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            transport.send(Response(message.id, message.params))
            transport.flush()
    """

    child = Child(echo(changes))
    await child.start()
    for number in range(100):
        child.send(Request(number, "echo", [number]))
    child.send(Request("last", "die"))
    await child.wait_closed()
    assert child.events[:100] == [Response(number, [number]) for number in range(100)]
    assert [str(error) for error in child.events[100:101]] == ["the child process ended by signal 9"]
    assert child.events[101:] == ["closed"]
    assert child.returncode == -9
    with pytest.raises(ConnectionLost) as caught:
        child.send(Notification("n"))
    assert caught.value.__cause__ is child.events[100]


async def test_a_child_that_fails() -> None:
    child = Child(["sh", "-c", 'echo \'{"jsonrpc":"2.0","method":"bye"}\'; printf \'{"js\'; exit 3'])
    await child.start()
    await child.wait_closed()
    assert child.events[0] == Notification("bye")
    assert isinstance(child.events[1], ParseError)
    assert isinstance(child.events[2], ConnectionLost)
    assert str(child.events[2]) == "the child process ended with exit code 3"
    assert child.events[3:] == ["closed"]


async def test_a_child_that_ends_before_it_is_started() -> None:
    child = Child(["echo", '{"jsonrpc":"2.0","method":"bye"}'])
    await child.connect()
    await eventually(lambda: child.returncode is not None)
    assert child.returncode == 0
    assert child.events == []
    await child.start()
    await child.wait_closed()
    assert child.events == [Notification("bye"), "closed"]


async def test_a_child_that_closes_its_stdin() -> None:
    child = Child(["sh", "-c", 'exec <&-; echo \'{"jsonrpc":"2.0","method":"deaf"}\'; sleep 0.3'])
    await child.start()
    await child.recorder.wait_for(1)
    child.send(Notification("n"))
    await child.wait_closed()
    assert child.events[0] == Notification("deaf")
    assert isinstance(child.events[1], BrokenPipeError)
    assert child.events[2:] == ["closed"]
    assert child.returncode == 0


async def test_a_missing_program() -> None:
    child = Child(["/nonexistent/program"])
    for _ in range(2):  # it may be tried again
        with pytest.raises(FileNotFoundError):
            await child.start()
    assert child.events == []
    await child.close()
    assert child.events == ["closed"]


async def test_a_cancelled_start_runs_nothing() -> None:
    child = Child(["sleep", "30"], stderr=lambda line: None)
    connecting = asyncio.ensure_future(child.start())
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert child.events == []
    assert child.pid is None


async def test_a_close_while_starting() -> None:
    child = Child(["sleep", "30"], stderr=lambda line: None, exit_seconds=0.01)
    connecting = asyncio.ensure_future(child.start())
    await asyncio.sleep(0)
    await child.close()
    await connecting
    assert child.events == ["closed"]
    assert child.returncode == -signal.SIGTERM


def test_an_unclosed_child_ends_with_the_loop() -> None:
    children: list[Child] = []

    async def start() -> None:
        children.append(Child(["sleep", "30"]))
        await children[0].start()

    with pytest.warns(ResourceWarning, match="unclosed stdio client of process"):
        asyncio.run(asyncio.wait_for(start(), 30))
    assert children[0].events == ["closed"]
    assert children[0].returncode == -signal.SIGTERM


def test_a_task_may_still_close_its_child_at_the_end_of_the_loop() -> None:
    children: list[Child] = []
    using: list[asyncio.Future[None]] = []

    async def use() -> None:
        child = Child(["sh", "-c", "cat > /dev/null; sleep 0.2; exit 7"])
        children.append(child)
        await child.start()
        try:
            await forever()
        finally:
            await child.close()

    async def start() -> None:
        using.append(asyncio.ensure_future(use()))
        while not children or children[0].pid is None:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(start(), 30))
    assert children[0].returncode == 7


def refuse(*_: object) -> int:
    raise PermissionError


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread waits for each child")
async def test_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", refuse)
    child = Child(["sh", "-c", "exit 3"])
    await child.start()
    await child.wait_closed()
    assert str(child.events[0]) == "the child process ended with exit code 3"
    assert child.events[1:] == ["closed"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Python lacks these, too")
async def test_without_the_calls_that_pypy_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    for owner, name in ((os, "pidfd_open"), (os, "waitid"), (os, "writev"), (fcntl, "F_DUPFD_CLOEXEC")):
        monkeypatch.delattr(owner, name)
    copy = descriptors.duplicate(0)
    assert copy >= 64
    assert not os.get_inheritable(copy)
    os.close(copy)
    child = Child(echo())
    child.pauses_when_blocked = False
    await child.start()
    child.pause_reading()  # what the pipe does not take waits, in pieces
    for number in range(20):
        child.send(Request(number, "echo", [number, "x" * 100_000]))
    child.resume_reading()
    await child.recorder.wait_for(20)
    assert child.events == [Response(number, [number, "x" * 100_000]) for number in range(20)]
    await child.close()
    assert child.returncode == 0


def test_wrong_arguments() -> None:
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
    assert child.events == ["closed"]
    assert lines[:4] == ["one", "two", "\\xff", ""]
    assert "".join(lines[4:-1]) == "x" * (2 * LINE_BYTES + 5)
    assert max(map(len, lines)) == LINE_BYTES  # the place of the split depends on the chunks
    assert lines[-1] == "last"


async def test_an_exception_of_the_stderr_callback_is_reported() -> None:
    fault = KeyError("mine")

    def fail(line: str) -> None:
        raise fault

    child = Child(["sh", "-c", "echo a >&2; echo b >&2"], stderr=fail)
    await child.start()
    await child.wait_closed()
    assert child.events == [fault, fault, "closed"]


async def test_stderr_discarded_or_in_a_file(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["sh", "-c", "echo heard >&2"]
    await Child(command).start()
    with (tmp_path / "errors").open("wb") as errors:
        children = [Child(command, stderr="discard"), Child(command), Child(command, stderr=errors)]
        for child in children:
            await child.start()
    for child in children:
        await child.wait_closed()
        assert child.events == ["closed"]
    assert capfd.readouterr().err == "heard\nheard\n"
    assert (tmp_path / "errors").read_bytes() == b"heard\n"


async def test_environment_and_directory(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", 'echo "{\\"jsonrpc\\":\\"2.0\\",\\"method\\":\\"$MINE $PWD\\"}"']
    child = Child(command, env={"MINE": "yes"}, cwd=tmp_path)
    await child.start()
    await child.wait_closed()
    assert child.events == [Notification(f"yes {tmp_path}"), "closed"]


def state_of(process: Path) -> str:
    """Return the state of a process from its folder in /proc: a letter, or "" if there is no such process."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.parametrize("own_session", [True, False])
async def test_processes_that_a_child_started(own_session: bool, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    # The grandchild holds the pipes open. Its parent ends at once, or must be terminated.
    child = Child(
        ["sh", "-c", 'sleep 30 & echo $! > "$0"; sleep 30', str(note)], own_session=own_session, exit_seconds=0.2
    )
    await child.start()
    await eventually(lambda: note.exists() and note.read_text().strip())
    await child.close()
    assert child.returncode == -signal.SIGTERM
    grandchild = Path(f"/proc/{note.read_text().strip()}")

    def is_running() -> bool:
        return state_of(grandchild) not in ("", "Z")

    if own_session:
        await eventually(lambda: not is_running())
    else:
        assert is_running()
        os.kill(int(note.read_text()), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="needs os.waitid")
@pytest.mark.parametrize("has_pidfds", [True, False])
async def test_what_a_child_leaves_behind_ends_with_it(
    has_pidfds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pidfds:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    note = tmp_path / "pid"
    # The child ends by itself when its stdin is closed. One of the processes that it started leads a session.
    script = 'sleep 30 <&- >&- & echo $! > "$0"; setsid sleep 30 <&- >&- & echo $! >> "$0"; cat > /dev/null'
    child = Child(["sh", "-c", script, str(note)])
    await child.start()
    await eventually(lambda: note.exists() and len(note.read_text().split()) == 2)
    left, daemon = (Path(f"/proc/{pid}") for pid in note.read_text().split())
    await eventually(lambda: os.getsid(int(daemon.name)) == int(daemon.name))
    await child.close()
    assert child.returncode == 0
    await eventually(lambda: state_of(left) in ("", "Z"))
    assert state_of(daemon) not in ("", "Z")
    os.kill(int(daemon.name), signal.SIGKILL)


async def test_a_stdout_that_outlives_the_child() -> None:
    child = Child(["sh", "-c", 'sleep 20 & echo \'{"jsonrpc":"2.0","method":"bye"}\''])
    await child.start()
    await asyncio.wait_for(child.wait_closed(), 15)
    assert child.events == [Notification("bye"), "closed"]


async def test_a_stray_print_of_a_child_is_one_fault() -> None:
    child = Child(["sh", "-c", 'echo starting; echo \'{"jsonrpc":"2.0","method":"m"}\''])
    await child.start()
    await child.wait_closed()
    assert isinstance(child.events[0], ParseError)
    assert child.events[1:] == [Notification("m"), "closed"]


async def test_a_child_that_prints_between_bodies() -> None:
    """As lines, so bodies: the call after the printed text is answered, and the text is reported."""
    message = '{"jsonrpc":"2.0","method":"m"}'
    body = f"printf 'Content-Length: {len(message)}\\r\\n\\r\\n%s' '{message}'"
    child = Child(["sh", "-c", f"echo starting; {body}; printf glued; {body}"], framing="content-length")
    await child.start()
    await child.wait_closed()
    faults = [fault for fault in child.events if isinstance(fault, ParseError)]
    assert [(fault.code.name, fault.offset) for fault in faults] == [("INVALID_FRAMING", 9), ("INVALID_FRAMING", 5)]
    assert child.events == [faults[0], Notification("m"), faults[1], Notification("m"), "closed"]
    strict = Child(["sh", "-c", f"echo starting; {body}"], framing="content-length", resync=False)
    await strict.start()
    await strict.wait_closed()
    fault, lost, end = strict.events
    assert isinstance(fault, ParseError)
    assert isinstance(lost, ConnectionLost)
    assert str(lost) == str(fault)
    assert end == "closed"


@pytest.mark.ci
async def test_what_a_child_prints_gets_no_response() -> None:
    """The child prints more than its pipe holds, then responds to the first line that it reads, and counts the rest."""
    source = """
        import sys
        print("noise\\n" * 30_000, flush=True)
        call = sys.stdin.readline()
        print('{"jsonrpc":"2.0","id":1,"result":"' + str('"method":"m"' in call) + '"}', flush=True)
        sys.exit(min(len(sys.stdin.readlines()), 99))
    """
    faults: list[Exception] = []

    class Hooks:
        def fault(self, error: Exception) -> None:
            faults.append(error)

    client = StdioClient(script(source))
    async with Session(client, hooks=Hooks()) as session:
        assert await session.call("m") == "True"
    assert len(faults) == 30_000
    assert client.returncode == 0


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
        blocking_eventually(lambda: state_of(server) == "S")  # now both wait for the other to read
        client.kill()
    blocking_eventually(lambda: state_of(server) in ("", "Z"))


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads read and write, as on Windows, where the loop cannot wait for descriptors."""
    reader = descriptors.ThreadReader
    monkeypatch.setattr(client, "open_reader", lambda *arguments: reader(*arguments, *(4096,) * (4 - len(arguments))))
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
    await child.recorder.wait_for(200)
    assert child.events == [Response(number, [number, "x" * 10_000]) for number in range(200)]
    await eventually(lambda: child.write_buffer_bytes == 0)  # the thread reports after the bytes have left
    await child.close()
    assert child.events[200:] == ["closed"]
    assert child.returncode == 0


@pytest.mark.usefixtures("in_threads")
async def test_a_killed_child_in_threads() -> None:
    changes = """
        def reply(transport, message):
            transport.send(Response(message.id, message.params))
            transport.flush()
            if message.method == "die":
                os.kill(os.getpid(), signal.SIGKILL)
    """

    child = Child(echo(changes), stderr=lambda line: None)
    await child.start()
    child.send(Request(1, "echo"))
    child.send(Request(2, "die"))
    await child.wait_closed()
    assert child.events[:2] == [Response(1), Response(2)]
    assert str(child.events[2]) == "the child process ended by signal 9"
    assert child.events[3:] == ["closed"]


@pytest.mark.usefixtures("in_threads")
async def test_a_child_that_does_not_read_in_threads() -> None:
    child = Child(["sleep", "30"], drain_seconds=0.2)
    await child.start()
    child.send(Notification("n", ["x" * 1_000_000]))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(child.drain(), 0.05)
    await child.close()
    assert child.returncode == -signal.SIGTERM
    assert child.events == ["closed"]


@pytest.mark.parametrize("code", ["", "import time; time.sleep(0.05)"])
async def test_a_call_says_how_the_child_ended(code: str) -> None:
    """Its stdout ends before its exit code is known."""
    command = script(f"import os, sys; sys.stdin.readline(); os.close(1); {code or 'pass'}; os._exit(3)")
    async with Session(StdioClient(command)) as session:
        with pytest.raises(ConnectionLost, match="the child process ended with exit code 3") as caught:
            await session.call("m")
        assert caught.value.__cause__ is session.fault
