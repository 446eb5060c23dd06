"""Helpers of all commands: exit statuses, messages, colours, escaped names, closed outputs, and reports of failures."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Final

from ..codec import Raw
from ..codes import ErrorCode
from ..errors import CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse, ParseError, RpcError
from ..support import say
from ..types import UNSET


class Status(IntEnum):
    """The exit statuses of the commands; a signal gives 128 and its number."""

    SUCCESS = 0
    FAILED = 1  # a message is invalid, a response is an error or differs, or nobody agreed to a change
    WRONG = 2  # the command line is wrong, or something cannot be read or written
    LOST = 3  # the connection failed, or what arrived is not a response
    LATE = 4  # no response came in time
    CANNOT_RUN = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141  # as a shell reports SIGPIPE, 13


_STYLES: Final = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}


def program_status(error: OSError, other: Status) -> Status:
    """Return the status for a program that cannot be started; `other` if something else failed."""
    if error.errno == errno.ENOENT:
        return Status.NOT_FOUND
    return Status.CANNOT_RUN if error.errno in (errno.EACCES, errno.ENOEXEC) else other


def print_error(text: str, program: str = "jsonrpc-fast") -> None:
    """Print an error message on stderr, if that is open."""
    say(f"{program}: {text}")


def write_output(data: bytes) -> None:
    """Write all bytes to stdout."""
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:
        # With PYTHONUNBUFFERED, a single `write` may write only a part, for example until the reader of a pipe exits.
        written = sys.stdout.buffer.write(rest)
        if not written:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[written:]
    sys.stdout.buffer.flush()


class _ClosedOutput(io.TextIOBase):
    """The stdout of a process that was started without one: `print` would drop its text without a word."""

    def write(self, text: str) -> int:
        return len(text and self.buffer)

    @property
    def buffer(self) -> bytes:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def prepare_stdout() -> None:
    """Let every text be printed in any encoding of stdout, as on stderr, and report an stdout that is closed."""
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def missing_extra(error: ImportError, extra: str) -> str:
    """Return the message for a library that is not installed. A module of this package is a bug: raises it again."""
    # A missing module of this package is a bug, not a missing extra.
    if (error.name or "").startswith(__package__.partition(".")[0]):
        raise error
    return f"{error.name} is missing; install the extra: pip install 'jsonrpc_fast[{extra}]'"


@contextlib.contextmanager
def logging_to_stderr(program: str, debug: bool) -> Iterator[None]:
    """Print the package's warnings on stderr as messages of a command; with `debug`, everything it logs."""
    import logging

    # Only on the package's logger: the libraries below keep their own settings.
    logger = logging.getLogger("jsonrpc_fast")
    handler = logging.StreamHandler()
    if debug:
        handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))
    else:
        handler.setFormatter(logging.Formatter(f"{program}: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def announce_waiting(text: str, program: str = "jsonrpc-fast") -> None:
    """Say on stderr that a command waits for input if its stdin is a terminal: it would seem to hang otherwise."""
    if os.isatty(0):
        print_error(text, program)


def input_files(options: argparse.Namespace) -> list[str]:
    """Return the files that a command reads, by default "-" for stdin. Say on a terminal that it waits for input."""
    files: list[str] = options.files or ["-"]
    if "-" in files:
        announce_waiting("reading messages from the terminal; end the input with Ctrl-D (see --help)")
    return files


def open_input(file: str, buffering: int = -1) -> Any:
    """Open a file, or stdin for "-", to read its bytes."""
    return open(0 if file == "-" else file, "rb", buffering, closefd=file != "-")


def cannot_read(file: str, error: OSError | ValueError) -> Status:
    """Report that a file cannot be read, and return the exit status."""
    print_error(f"cannot read {escape(file)}: {error.strerror if isinstance(error, OSError) else error}")
    return Status.WRONG


def printable_name(file: str) -> str:
    """Return the name of a file with escapes for bytes that are not valid in JSON."""
    return file.encode(errors="backslashreplace").decode()


def is_coloured(stream: Any) -> bool:
    """Return whether to write colours: to terminals only, unless NO_COLOR or FORCE_COLOR is set and not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    # Windows consoles may print the escape sequences as text.
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"


def styled(text: str, style: str, coloured: bool) -> str:
    """Return `text` in a style of `_STYLES`; unchanged unless `coloured`."""
    return f"\033[{_STYLES[style]}m{text}\033[0m" if coloured else text


def escape(text: str) -> str:
    """Return `text` with non-printable characters escaped."""
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def shorten(text: str) -> str:
    """Return a string from a message as one line, shortened and escaped."""
    return escape(text if len(text) <= 60 else f"{text[:60]}…")


def json_text(value: Any) -> str:
    """Return a value as JSON on one line; a `Raw` value keeps its spelling."""
    if isinstance(value, Raw):
        return value.decode(bytes).decode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def point_at_null(descriptor: int, flags: int) -> None:
    """Replace a descriptor's file with the null device, so that the number stays in use."""
    nothing = os.open(os.devnull, flags)
    # `dup2` closes the file and takes its number in one step: no other thread can open a file with that number in
    # between.
    os.dup2(nothing, descriptor)
    os.close(nothing)


def silence_closed_outputs() -> None:
    """Redirect closed outputs to the null device: otherwise the interpreter complains when it flushes them at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            point_at_null(stream.fileno(), os.O_WRONLY)


class OutputError(Exception):
    """stdout cannot be written: the argument is the OSError, which the connection did not cause."""


class Faults:
    """The hooks of a session: shows input that is not a message, without which a call would only time out.

    Args:
        command: The name of the command.
        shown: The maximum number of faults to show: a server that prints a log to stdout causes one for each line.
    """

    def __init__(self, command: str, shown: int = 10) -> None:
        self._program = f"jsonrpc-fast {command}"
        self._left = shown
        self._loss: ConnectionLost | None = None

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        # What waits for the connection says why it was lost. If nothing does, this says it.
        if self._loss is not None and not isinstance(error, ConnectionLost | HandshakeError):
            print_error(escape(str(self._loss)), self._program)

    def fault(self, error: BaseException) -> None:
        """Print the first faults."""
        if isinstance(error, ConnectionLost):
            self._loss = error
        elif self._left:
            self._left -= 1
            print_error(escape(str(error)), self._program)


def run_reporting(options: argparse.Namespace, extra: str, run: Callable[[], int]) -> int:
    """Run a command with its log on stderr, and report its exception, or the missing extra. Return the exit status."""
    program = f"jsonrpc-fast {options.command}"
    status = Status.WRONG
    reason: object
    try:
        with logging_to_stderr(program, options.debug):
            return run()
    except OutputError as error:
        raise error.args[0] from None
    except RpcError as error:
        said = styled(f"error {error.code}", "red", is_coloured(sys.stderr))
        print_error(f"{said}: {escape(error.message)}", program)
        if error.data is not UNSET:
            print_error(f"data: {escape(json_text(error.data))}", program)
        # A server of MCP or LSP refuses what comes before its handshake, in these words or as an unknown method.
        if options.command == "call" and not (options.mcp or options.lsp):
            method = options.words[0 if options.program else 1]
            if "initialized" in error.message:
                print_error("an MCP server needs --mcp, a language server --lsp", program)
            elif error.code == ErrorCode.METHOD_NOT_FOUND or method.startswith(("tools/", "resources/", "prompts/")):
                print_error("an MCP server needs --mcp", program)
        return Status.FAILED
    except (CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse, ParseError) as error:
        is_late = isinstance(error, CallTimeout) or isinstance(error.__cause__, CallTimeout)
        reason, status = error, Status.LATE if is_late else Status.LOST
        # Streamable HTTP wants an Accept header with both types, and answers others with 406.
        can_speak_mcp = options.command in ("call", "list") and not options.mcp
        if isinstance(error, HttpStatusError) and error.status == 406 and can_speak_mcp:
            reason = f"{error}; if this is an MCP server, add --mcp"
    except ImportError as error:
        # The package's own errors name no module: their texts say what to install.
        reason = error if error.name is None else missing_extra(error, extra)
    except OSError as error:
        reason = error.strerror or error
        if options.command in ("gateway", "relay", "serve"):  # a file cannot be read
            reason = reason if error.filename is None else f"{escape(str(error.filename))}: {reason}"
        else:
            status = program_status(error, Status.LOST) if options.program else Status.LOST
            if not options.mcp:  # an MCP client says itself what it could not start
                reason = f"{(options.program or options.words)[0]}: {reason}"
    except (ValueError, TypeError) as error:
        reason = error
    print_error("\n".join(map(escape, str(reason).splitlines())), program)
    return status
