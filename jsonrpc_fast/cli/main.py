"""The command line: `jsonrpc-fast`, or `python -m jsonrpc_fast`.

It shows nothing of what it reads but counts, places and the fixed texts of the faults: no payload, no id.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from .._version import __version__
from ..framing.frames import FRAMINGS, Framing
from ..profile import PRESETS
from . import serve
from .check import _check, _printable
from .info import _info
from .output import _CLOSED_OUTPUT, _INTERRUPTED, _USAGE, _complain, _forsake_closed_outputs

_DESCRIPTION: Final = "Checks JSON-RPC 2.0 messages, watches a server at work, and shows how this package is set up."
_INFO: Final = "Shows the versions, the backend (and why it is not the compiled core), and the rules of the profiles."
_CHECK: Final = """\
Validates streams of JSON-RPC messages. For each file it shows the first faults, each with its line (from 1) where
messages are lines, its byte in the file (from 0) and its item in a batch (from 0), and then the number of messages of
each kind and of faults of each code. Each item of a batch counts, and the batch itself once. Nothing that the messages
hold is ever shown. Headers that leave no way to the next message are the last that is read of a file.
"""
_TAP: Final = """\
Runs a server that speaks on its standard input and output, between it and its client: put it before the server's
command where the client is told that command. Every byte is passed on as it comes, in both directions. For each
message one line is written to standard error, or to a file: the time, -> for the client's and <- for the server's,
the kind, the method, the id, the size, how long an answer took, and faults. Payloads are never shown. The server's own
standard error stays as it is.
"""
_TAP_STATUS: Final = """\
exit status:
  that of the command; 128 and the signal's number where a signal ended it
  2    the command line is wrong, or the log cannot be written
  126  the command cannot be run
  127  there is no such command
"""
_EXIT_STATUS: Final = """\
exit status:
  0    every message is valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read or the output cannot be written
  130  interrupted
  141  the reader of the output went away
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line `arguments`, which are the process's own if None. Returns the exit status."""
    try:
        status = _run(arguments)
        print(end="", flush=True)
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BrokenPipeError:
        status = _CLOSED_OUTPUT
    except OSError as error:
        _complain(f"cannot write: {error.strerror}")
        status = _USAGE
    _forsake_closed_outputs()
    return status


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    tapped: list[str] = []
    if arguments[:1] == ["tap"] and "--" in arguments:
        # What follows is not this parser's, whatever it looks like.
        split = arguments.index("--")
        arguments, tapped = arguments[:split], arguments[split + 1 :]
    try:
        options = parser.parse_args(arguments)
        if options.command == "tap" and not tapped:
            options.parser.error("it needs a command to run, after --")
    except SystemExit as exit:
        return int(exit.code or 0)
    if options.command == "tap":
        return _tap(options, tapped)
    if options.command == "serve":
        return serve.run(options)
    if options.command == "check":
        return _check(options)
    if options.command == "info":
        return _info(options)
    parser.print_help(sys.stderr)
    return _USAGE


def _parser() -> argparse.ArgumentParser:
    layout: dict[str, Any] = {"epilog": _EXIT_STATUS, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="jsonrpc-fast", description=_DESCRIPTION, **layout)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    check = commands.add_parser("check", help="validate streams of messages", description=_CHECK, **layout)
    _add_rules(check, "newline")
    files = "what to read; - or no name at all stands for standard input"
    check.add_argument("files", nargs="*", metavar="FILE", help=files)
    faults = "faults to show for each file (default: %(default)s; 0 for none)"
    check.add_argument("--max-faults", type=_natural, default=10, metavar="N", help=faults)
    check.add_argument("--json", action="store_true", help="one JSON object a line, for each fault and each summary")

    tap = commands.add_parser(
        "tap",
        help="watch the messages between a server and its client",
        description=_TAP,
        usage="jsonrpc-fast tap [options] -- COMMAND ...",
        **{**layout, "epilog": _TAP_STATUS},
    )
    tap.set_defaults(parser=tap)
    _add_rules(tap, "auto")
    tap.add_argument(
        "--log", metavar="FILE", help="where the lines go; they are put at its end (default: standard error)"
    )

    serve.add_parser(commands)

    info = commands.add_parser("info", help="show versions, backend and profiles", description=_INFO, **layout)
    info.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _add_rules(command: argparse.ArgumentParser, framing: Framing) -> None:
    profiles = f"the protocol whose rules hold: {', '.join(PRESETS)} (default: %(default)s); `info` shows the rules"
    command.add_argument("--profile", choices=PRESETS, default="jsonrpc", metavar="NAME", help=profiles)
    framings = (
        "how messages are told apart: newline, a message a line; content-length, headers as language servers have "
        "them; sse, the data of server-sent events; auto, one of the first two (default: %(default)s)"
    )
    command.add_argument("--framing", choices=FRAMINGS, default=framing, help=framings)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


def _tap(options: argparse.Namespace, command: list[str]) -> int:
    # Only here: the other commands need none of what it imports.
    from .tap import CannotRun, fill_standard_descriptors, tap

    fill_standard_descriptors()
    log = 2
    try:
        if options.log is not None:
            log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        return tap(command, log, options.framing, PRESETS[options.profile])
    except CannotRun as error:
        _complain(f"cannot run {_printable(command[0])}: {error}")
        return error.status
    except OSError as error:
        _complain(f"cannot write {_printable(options.log)}: {error.strerror}")
        return _USAGE
    finally:
        if log != 2:
            os.close(log)
