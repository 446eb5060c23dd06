"""A server that is a program. Its last output is added to the error if it ends or does not respond.

A report has the last 20 lines of stderr, and up to 3 lines of the first 4 KiB of stdout that are not messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal

from ...codec import ParseError, decode
from ...errors import ProgramReport, ProgramStartError
from ...transports import ChildChannel, Events, StdioClient

Stderr = Literal["inherit", "discard"] | Callable[[str], None]

EXIT_SECONDS: Final = 0.5
"""How long to wait for the exit status of a program whose stdout has ended."""

_LINE_CHARACTERS: Final = 200
_PRINTED_BYTES: Final = 4096  # of stdout, before the first messages


def _cure(command: Sequence[str], error: OSError) -> str:
    """Return what to do about a command that does not exist and looks like a URL."""
    if not isinstance(error, FileNotFoundError) or len(command) != 1 or error.filename != command[0]:
        return ""
    return "; a URL begins with http:// or https://" if re.match(r"[\w.\-\[\]:]+:\d+(/|$)", command[0]) else ""


class _Channel(ChildChannel):
    """Keeps the beginning of the program's output, and counts the messages that are sent to it."""

    printed: bytes = b""
    sent_bytes: int = 0

    async def open(self, events: Events) -> None:
        try:
            await super().open(events)
        except OSError as error:
            report = ProgramReport(tuple(self.program.command), None, "", "")
            place = f": {error.filename}" if error.filename else ""
            cure = _cure(self.program.command, error)
            text = explained(f"cannot start the server: {error.strerror or error}{place}{cure}", report)
            fault = ProgramStartError(error.errno, text, report)
            fault.is_of_cwd = self.program.cwd is not None and error.filename == self.program.cwd
            raise fault from error

    def received(self, data: bytes) -> None:
        # The beginning is enough: a program that is not a server prints its text at once.
        if len(self.printed) < _PRINTED_BYTES:
            self.printed += data[: _PRINTED_BYTES - len(self.printed)]
        super().received(data)

    def write(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        super().write(data)


class ProgramTransport(StdioClient):
    """A `StdioClient` that remembers the beginning of its program's stdout and the end of its stderr.

    Args:
        stderr: Where its stderr goes: "inherit" (to `sys.stderr`, by lines), "discard", or a function that is called
            with each line.
    """

    channel: _Channel
    channel_class: ClassVar[type[ChildChannel]] = _Channel

    def __init__(self, command: Sequence[str | os.PathLike[str]], stderr: Stderr, **options: Any) -> None:
        if not callable(stderr) and stderr not in ("inherit", "discard"):
            raise ValueError('stderr must be "inherit", "discard" or a function')
        super().__init__(command, stderr=self._keep_line, **options)
        self._show: Stderr = stderr
        # The last lines, which contain the reason for a crash.
        self._lines: deque[str] = deque(maxlen=20)

    @property
    def has_read(self) -> bool:
        """Whether the program has read any input, as far as the system reports it."""
        # The pipe holds the unread bytes: if these are fewer than were sent, the program has read.
        unread = self.channel.unread_bytes
        return unread is None or unread < self.channel.sent_bytes

    async def report(self, seconds: float = EXIT_SECONDS) -> ProgramReport:
        """Return a report on the program; wait for its exit status if it is about to end."""
        with contextlib.suppress(asyncio.TimeoutError):
            # Its stdout ends a moment before its exit status is known.
            await asyncio.wait_for(self.channel.wait_exited(), seconds)
        return ProgramReport(
            tuple(self.channel.program.command), self.returncode, "\n".join(self._lines), "\n".join(self._noise())
        )

    async def end(self, seconds: float) -> None:
        """End the program within this time: by SIGTERM, then by SIGKILL."""
        ending = asyncio.ensure_future(self.disconnect())
        await asyncio.wait([ending], timeout=seconds)
        if not ending.done():
            # A program may ignore SIGTERM.
            self.kill()
        await ending

    def _keep_line(self, line: str) -> None:
        self._lines.append(_cut(line, _LINE_CHARACTERS))
        if callable(self._show):
            self._show(line)
        elif self._show == "inherit" and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                sys.stderr.write(line + "\n")

    def _noise(self) -> list[str]:
        lines = self.channel.printed.split(b"\n")
        if len(self.channel.printed) == _PRINTED_BYTES:
            lines.pop()  # cut off by the limit
        found = [line for line in lines if line.strip() and isinstance(decode(line, self.profile), ParseError)]
        return [_cut(line.decode(errors="backslashreplace"), _LINE_CHARACTERS) for line in found[:3]]


def explained(fault: str, report: ProgramReport) -> str:
    """Return the text of an error about a program: what happened, then the command and its output."""
    status = report.exit_status
    if status is not None:
        fault = f"the server ended with exit code {status}" if status >= 0 else f"signal {-status} ended the server"
    # Escaped, so that a line break in an argument does not look like a line of the report.
    command = shlex.join(report.command).replace("\n", "\\n")
    lines = [fault, f"command: {_cut(command, 300)}"]
    for name, text in (("stdout", report.noise), ("stderr", report.stderr)):
        if text:
            lines += [f"{name}: {line}" for line in text.split("\n")]
    return "\n".join(lines)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[:characters] + "…"
