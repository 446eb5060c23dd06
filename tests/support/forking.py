"""Fork Python processes from a process that has already imported the package. This takes a tenth of the time (Linux).

It applies when a test, or the package that it tests, starts `python -m jsonrpc_fast`, an example, or code or a file
that begins with MARK. `subprocess.Popen` then requests a child from the forking process instead of starting an
interpreter. Everything else is unchanged: the child is a child of the test process, and has the given streams,
directory and environment. When it ends, it does what an interpreter does, except that it does not free the modules one
by one, because that would copy their memory.

An interpreter is still started if its start matters: with other options, or with settings in the environment. A script
that imports only the standard library gets one without `site`, which takes a quarter of the time.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MARK: Final = "# may be forked\n"
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
READ_AT_THE_START: Final = ("COVERAGE_", "JSONRPC_FAST_", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON")
OF_STREAMS: Final = {"PYTHONIOENCODING": ("", "utf-8"), "PYTHONUNBUFFERED": ("", "1")}
"""Settings that a forked child follows, and their values."""
LEFT_OUT: Final = ("adapters", "testing", "mcp/client/oauth.py")
"""What programs of the package seldom need, and takes longer to import than all the rest: clients of brokers, and the
SDK of MCP."""
OF_A_SCRIPT: Final = re.compile(r"\b(?:import|from)\s+(\w+(?:\s*,\s*\w+)*)")
SET_CHILD_SUBREAPER: Final = 36
MAX_BYTES: Final = 1 << 17
ARGUMENTS: Final = (
    *("args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags"),
    *("shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite", "restore_signals"),
    *("gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)
"""The arguments of the method of `Popen` that starts a process, in the order of CPython 3.11 to 3.14."""
PLAIN: Final = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}


class Forks:
    """The process that forks. It starts when the first child is needed, and ends with the test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._environment: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def descriptors(self) -> int:
        """Return how many descriptors of this process are used for it."""
        return 0 if self._socket is None else 1

    def is_child(self, pid: str) -> bool:
        """Return whether a process is the one that forks."""
        return self.process is not None and pid == str(self.process.pid)

    def child(self, given: dict[str, Any]) -> int | None:
        """Return the id of a new child of this process, or None if an interpreter has to start."""
        words = given["args"]
        is_plain = all(given.get(name, value) == value for name, value in PLAIN.items())
        if isinstance(words, (str, bytes, os.PathLike)) or not is_plain:
            return None
        words = [os.fsdecode(word) for word in words]
        if not _may_be_forked(words):
            return None
        given_environment = os.environ if given["env"] is None else given["env"]
        environment = {os.fsdecode(name): os.fsdecode(value) for name, value in given_environment.items()}
        folder = os.path.abspath(os.fsdecode(given["cwd"] or "."))
        with self._lock:
            self._start()
            if self._socket is None or not os.path.isdir(folder) or not self._has_settings_of(environment):
                return None
            job = json.dumps([words[1:], folder, environment, bool(given["start_new_session"])]).encode()
            if len(job) > MAX_BYTES:
                return None
            ends = (given["p2cread"], given["c2pwrite"], given["errwrite"])
            streams = [number if end == -1 else end for number, end in enumerate(ends)]
            _adopt_orphans(True)
            try:
                socket.send_fds(self._socket, [job], streams)
                pid = int(self._socket.recv(100))
                assert self._socket.recv(100) == b"forked"
            finally:
                _adopt_orphans(False)
            return pid

    def _start(self) -> None:
        if self.process is not None:
            return
        package = importlib.import_module("jsonrpc_fast").__path__[0]
        path = os.pathsep.join(filter(None, [os.path.dirname(package), os.environ.get("PYTHONPATH", "")]))
        self._environment = {**os.environ, "PYTHONPATH": path}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_BYTES)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=self._environment, pass_fds=[theirs.fileno()]
            )
        if ours.recv(100) == b"ready":
            self._socket = ours
        else:
            ours.close()
        atexit.register(self._end, os.getpid())

    def _end(self, pid: int) -> None:
        """At the exit of the process that started it: otherwise Python warns of its socket and its child."""
        if self.process is not None and os.getpid() == pid:
            if self._socket is not None:
                self._socket.close()
            self.process.wait()

    def _has_settings_of(self, environment: dict[str, str]) -> bool:
        for name in {*environment, *self._environment}:
            if name == "PYTHONPATH":
                own, other = (set(each.get(name, "").split(os.pathsep)) for each in (self._environment, environment))
                if not other - {""} <= own:
                    return False
            elif name in OF_STREAMS:
                if environment.get(name, "") not in OF_STREAMS[name]:
                    return False
            elif name.startswith(READ_AT_THE_START) and environment.get(name) != self._environment.get(name):
                return False
        return True


def _may_be_forked(words: list[str]) -> bool:
    if len(words) < 2 or words[0] != sys.executable:
        return False
    if words[1] == "-c":
        return len(words) > 2 and words[2].startswith(MARK)
    if words[1:3] == ["-I", "-c"]:  # the processes that render templates
        return len(words) > 3 and "jsonrpc_fast.mcp.templates.sandbox" in words[3]
    if words[1] == "-m":
        # `run` replaces libraries, so they must not be imported yet.
        return words[2:3] == ["jsonrpc_fast"] and "run" not in words
    path = Path(words[1])
    if path.parent == EXAMPLES:
        return True
    return path.suffix == ".py" and path.is_file() and path.read_text(encoding="utf-8").startswith(MARK)


def without_site(words: Any) -> Any:
    """Return the arguments that start a script without `site`, if it imports modules of the standard library alone."""
    if not isinstance(words, (list, tuple)) or len(words) < 2 or words[0] != sys.executable:
        return words
    code = words[2] if words[1] == "-c" and len(words) > 2 else ""
    if str(words[1]).endswith(".py") and os.path.isfile(words[1]):
        code = Path(words[1]).read_text(encoding="utf-8")
    if not isinstance(code, str):
        return words
    found = {name.strip() for names in OF_A_SCRIPT.findall(code) for name in names.split(",")}
    uses_site = not found or "exit(" in code.replace("sys.exit(", "").replace("_exit(", "") or "site" in code
    uses_site |= not found.isdisjoint(("importlib", "runpy")) or "__import__" in code  # they may load any module
    return words if uses_site or not found <= sys.stdlib_module_names else [words[0], "-S", *words[1:]]


def _adopt_orphans(is_on: bool) -> None:
    """Make this process the parent of its descendants whose own parent has ended: a grandchild becomes a child."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


forks: Final = Forks()


def is_possible() -> bool:
    is_measured = any(name.startswith("COVERAGE_") for name in os.environ)
    return sys.platform == "linux" and sys.implementation.name == "cpython" and not is_measured


def install() -> None:
    """Make `subprocess.Popen`, and therefore asyncio and the package, use the process that forks."""
    if not is_possible():
        return
    start = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    if start.__module__ == __name__:  # a run of pytest inside a test
        return

    def fork(process: Any, *arguments: Any) -> None:
        given = dict(zip(ARGUMENTS, arguments, strict=False))
        pid = forks.child(given)
        if pid is None:
            start(process, without_site(arguments[0]), *arguments[1:])
            return
        process.pid, process._child_created = pid, True
        process._close_pipe_fds(*arguments[10:16])

    subprocess.Popen._execute_child = fork  # type: ignore[attr-defined]


def serve(connection: socket.socket) -> tuple[list[str], str, dict[str, str], bool]:
    """Fork a child for each message. In a child, take its streams and return its job."""
    connection.send(b"ready")
    while True:
        job, streams, _, _ = socket.recv_fds(connection, MAX_BYTES, 3)
        if not job:
            os._exit(0)
        middle = os.fork()
        if not middle:
            own = os.getpid()
            child = os.fork()
            if child:
                connection.send(str(child).encode())
                os._exit(0)
            while os.getppid() == own:  # wait until the test process is the parent
                os.sched_yield()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            connection.close()
            for stream in streams:
                os.close(stream)
            words, folder, environment, is_new_session = json.loads(job)
            return words, folder, environment, is_new_session
        os.waitpid(middle, 0)
        for stream in streams:
            os.close(stream)
        connection.send(b"forked")


def become(words: list[str], folder: str, environment: dict[str, str], is_new_session: bool) -> None:
    """Run in this process what `python` would run with these arguments in that directory."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if is_new_session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        stream = io.TextIOWrapper(
            open(number, "wb", closefd=False),  # noqa: SIM115
            encoding="utf-8",
            errors=errors,
            line_buffering=number == 2 or os.isatty(number),
            write_through=is_unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    end(lambda: run(words, folder))


def run(words: list[str], folder: str) -> None:
    if words[0] == "-I":
        words = words[1:]
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], folder
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), module.__dict__)
    else:
        sys.argv, sys.path[0] = words, os.path.dirname(words[0])
        runpy.run_path(words[0], run_name="__main__")


def end(work: Callable[[], None]) -> None:
    """Call a function, and end this process as an interpreter ends."""
    status: Any = 0
    try:
        work()
    except SystemExit as exit:
        status = exit.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    program = vars(sys.modules["__main__"])
    if program is not globals():
        program.clear()
    gc.collect()  # objects of the program may print something when they are freed
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"Exception ignored in: {sys.stdout}\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        status = 120
    ctypes.CDLL(None).fflush(None)  # as `exit` does: without PYTHONUNBUFFERED C keeps what it prints
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


def import_package() -> None:
    folder = Path(importlib.import_module("jsonrpc_fast").__path__[0])
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(LEFT_OUT) and path.stem != "__main__":
            with contextlib.suppress(ImportError):  # an extra is not installed
                importlib.import_module(".".join(path.relative_to(folder.parent).with_suffix("").parts))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.pop(0)
    sys.path.insert(0, "")
    gc.disable()
    import_package()
    assert threading.active_count() == 1
    gc.freeze()
    gc.enable()
    become(*serve(socket.socket(fileno=int(sys.argv[1]))))
