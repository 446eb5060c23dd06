"""The commands of `jsonrpc-fast`, their options and help texts.

Each command runs in a module of its own. No command shows a payload.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Final

from .._version import __version__
from ..framing.frames import FRAMINGS, Framing
from ..profile import PRESETS
from . import check, info, serve
from .output import FAILURE, INTERRUPTED, OUTPUT_CLOSED, print_error, silence_closed_outputs

_DESCRIPTION: Final = """\
Validate JSON-RPC 2.0 messages, log the messages of a server, serve templates
over MCP, and show this installation.
"""
_CHECK: Final = """\
Validate streams of JSON-RPC messages. Print the first faults of each file, and
then the number of messages of each kind and of faults of each code.

A fault is shown with its line (from 1, where messages are lines), its byte in
the file (from 0) and its item in a batch (from 0). A batch counts once, and so
does each of its items. The contents of messages are never shown. Reading stops
at a header that does not tell where the next message begins.
"""
_TAP: Final = """\
Run a stdio server and log the messages between it and its client. Put this
command in front of the server's command in the client's configuration.

Every byte is passed on at once and unchanged, in both directions. The log has
one line for each message: time, direction (-> from the client, <- from the
server), kind, method, id, size, response time and fault. Payloads are never
logged. The server's standard error is not changed.
"""
_SERVE: Final = """\
Serve the text templates of a folder over the Model Context Protocol (MCP), on
standard input and output. Each template is a prompt, whose arguments are the
variables of the template, and a resource. Clients are notified when files
change. Templates cannot read files outside the folder.
"""
_INFO: Final = """\
Show the versions, the backend (and why the compiled core is not in use), and
the rules of the profiles.
"""

_EXIT_STATUS: Final = """\
exit status:
  0    success
  2    the command line is wrong, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
"""
_COMMAND_STATUS: Final = "`jsonrpc-fast COMMAND --help` shows the options and exit statuses of a command.\n"
_CHECK_STATUS: Final = """\
exit status:
  0    all messages are valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read, or the output cannot be
       written
  130  interrupted
  141  the reader of the output closed it
"""
_TAP_STATUS: Final = """\
exit status:
  that of the server; 128 + N if signal N ended it
  2    the command line is wrong, or the log cannot be opened
  126  the server's command cannot be run
  127  the server's command is not found
"""
_SERVE_STATUS: Final = """\
exit status:
  0    the client closed standard input
  1    standard output cannot be written, or the client did not read all of it
  2    the command line is wrong, the folder cannot be read, or the extra `mcp` is
       not installed
  130  interrupted
  143  terminated
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments; None: those of the process.

    Returns:
        The exit status.
    """
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        print(end="", flush=True)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = OUTPUT_CLOSED
    except OSError as error:
        print_error(f"cannot write: {error.strerror}")
        status = FAILURE
    silence_closed_outputs()
    return status


def _run(arguments: list[str]) -> int:
    parser = _parser()
    tapped: list[str] = []
    if arguments[:1] == ["tap"] and "--" in arguments:
        # The arguments after -- belong to the server's command.
        split = arguments.index("--")
        arguments, tapped = arguments[:split], arguments[split + 1 :]
    try:
        options = parser.parse_args(arguments)
        if options.command == "tap" and not tapped:
            options.parser.error("missing command after --")
    except SystemExit as exit:
        return int(exit.code or 0)
    if options.command == "check":
        return check.run(options)
    if options.command == "tap":
        from . import tap  # imports what no other command needs

        return tap.run(options, tapped)
    if options.command == "serve":
        return serve.run(options)
    if options.command == "info":
        return info.run(options)
    parser.print_help(sys.stderr)
    return FAILURE


def _parser() -> argparse.ArgumentParser:
    layout: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(
        prog="jsonrpc-fast", description=_DESCRIPTION, epilog=f"{_COMMAND_STATUS}\n{_EXIT_STATUS}", **layout
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    command = commands.add_parser(
        "check", help="validate streams of messages", description=_CHECK, epilog=_CHECK_STATUS, **layout
    )
    _add_rules(command, "newline")
    command.add_argument("files", nargs="*", metavar="FILE", help="a file to read; - or no file means standard input")
    command.add_argument(
        "--max-faults",
        type=_whole_number,
        default=10,
        metavar="N",
        help="show at most N faults of each file (default: %(default)s)",
    )
    command.add_argument("--json", action="store_true", help="print each fault and each summary as one JSON object")

    command = commands.add_parser(
        "tap",
        help="log the messages between a server and its client",
        description=_TAP,
        usage="jsonrpc-fast tap [options] -- COMMAND ...",
        epilog=_TAP_STATUS,
        **layout,
    )
    command.set_defaults(parser=command)
    _add_rules(command, "auto")
    command.add_argument("--log", metavar="FILE", help="append the log to FILE (default: standard error)")

    command = commands.add_parser(
        "serve", help="serve a folder of templates over MCP", description=_SERVE, epilog=_SERVE_STATUS, **layout
    )
    command.add_argument(
        "--template-dir", default="templates", metavar="DIR", help="the folder of templates (default: ./%(default)s)"
    )
    command.add_argument(
        "--debug", action="store_true", help="log each message and fault to standard error, without payloads"
    )

    command = commands.add_parser(
        "info", help="show versions, backend and profiles", description=_INFO, epilog=_EXIT_STATUS, **layout
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _add_rules(command: argparse.ArgumentParser, framing: Framing) -> None:
    command.add_argument(
        "--profile",
        choices=PRESETS,
        default="jsonrpc",
        metavar="NAME",
        help=f"the rules for messages: {', '.join(PRESETS)} (default: %(default)s); `jsonrpc-fast info` shows them",
    )
    command.add_argument(
        "--framing",
        choices=FRAMINGS,
        default=framing,
        help="how messages are separated: newline, one message per line; content-length, headers as in LSP; "
        "sse, server-sent events; auto, newline or content-length, whichever the stream begins with "
        "(default: %(default)s)",
    )


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)
