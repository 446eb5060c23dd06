"""The commands of `jsonrpc-fast`, their options and help texts.

Each command runs in a module of its own. `call`, `list` and `replay` show payloads, and `tap` if it is told to.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from .._version import __version__
from ..framing.frames import FRAMINGS, Framing
from ..profile import PRESETS
from ..types import TIMEOUT_SECONDS
from . import check, gateway, info, relay, serve, stubs
from .output import FAILURE, INTERRUPTED, OUTPUT_CLOSED, print_error, printable, silence_closed_outputs

_DESCRIPTION: Final = """\
Call a JSON-RPC 2.0 server, list what it offers, write its typed interface,
validate messages, log and record the messages of a server, replay them, serve
templates over MCP, serve many MCP servers as one, relay MCP between stdio and
HTTP, and show this installation.
"""
_CALL: Final = """\
Call a method of a server and print its result: JSON in one line as it arrived
(with --mcp, as Python reads and writes it), or indented on a terminal.

TARGET is http://..., https://..., ws://..., wss://..., tcp://HOST:PORT,
tls://HOST:PORT or unix:PATH. Instead of a TARGET, a command after -- is run as
the server.

The params are one JSON object or array, or words NAME=VALUE. A VALUE that is
JSON is that value: n=3 is a number, name=Ada and id='"3"' are strings.

With --mcp, METHOD is the name of a tool, or a method such as resources/read.
"""
_LIST: Final = """\
List what a server offers: the methods that it describes by rpc.discover
(OpenRPC), or with --mcp its tools, prompts and resources. TARGET and command
are those of `call`.
"""
_STUBS: Final = """\
Write a Python module with the typed interface of a server, for `proxy` in
jsonrpc_fast.session.proxies, from an OpenRPC document.

SOURCE is a file, - for standard input, a URL whose path ends in .json, or a
TARGET or a command as in `call`, which gets the request rpc.discover.
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
server), kind, method, id, size, response time and fault. Payloads are logged
only with --payloads; --record keeps them. The server's standard error is not
changed.

With --http, run an HTTP server that passes every request on to the server of
the URL, and log the messages in the bodies and in the streams of events.
"""
_RUN: Final = """\
Run a program in Python that uses pygls, python-lsp-server, aiorpcX or the MCP
SDK, with the adapter of this package installed. The program stays as it is.

PROGRAM is a file, or the name of a script on the path that belongs to the
Python of this command.
"""
_REPLAY: Final = """\
Send the requests and notifications of a recording to a server again, and
compare its responses with the recorded ones. `tap --record` writes recordings.

TARGET and command are those of `call`. A difference is shown with the line of
the recording, the method and the place in the response.
"""
_SERVE: Final = """\
Serve the text templates of a folder over the Model Context Protocol (MCP), on
standard input and output, or over HTTP. Each template is a prompt, whose
arguments are the variables of the template, and a resource. Clients are
notified when files change. Templates cannot read files outside the folder.
"""
_RELAY: Final = """\
Connect an MCP client and an MCP server that use different transports.

With a URL: serve a remote server on standard input and output, for a client
that starts its servers as programs. With --http: serve a program over HTTP;
each session gets a process of its own.
"""
_GATEWAY: Final = """\
Serve many MCP servers as one, on standard input and output, or over HTTP. FILE
has the format of MCP hosts: {"mcpServers": {"NAME": {"command": ..., "args": [...]}}},
or "url" and "headers" in place of a command. ${VARIABLE} and
${VARIABLE:-default} are replaced from the environment, as in Claude Code.

The name of a tool is that of its server, the separator, and its own. Servers
are started when they are needed, for each client.
"""
_INFO: Final = """\
Show the versions, the backend (and why the compiled core is not in use), and
the rules of the profiles.
"""

_PLACE: Final = re.compile("(?:TARGET|SOURCE) ?")
_CALLING: Final = ("call", "list", "stubs", "replay")

_COLOURS: Final = """\
Colours are for terminals. The variable NO_COLOR turns them off, FORCE_COLOR on.
"""
_STATUS: Final = """\
exit status:
  that of the command: `jsonrpc-fast COMMAND --help` shows it, and its options
  2    the command line is wrong
"""
_CALL_STATUS: Final = """\
exit status:
  0    the server responded with a result, or the notification was sent
  1    the server responded with an error, or the tool's result is an error
  2    the command line is wrong, or an extra is not installed
  3    the server cannot be reached, the connection was lost, or what it sent is
       not a response
  4    no response came in time
  126  the server's command cannot be run
  127  the server's command is not found
  129  hung up
  130  interrupted
  141  the reader of the output closed it
  143  terminated
"""
_STUBS_STATUS: Final = """\
exit status:
  0    the module was written
  2    the command line is wrong, the document cannot be read or is not one of
       OpenRPC, or the output cannot be written
  1, 3, 4, 126 to 143: as in `call`
"""
_REPLAY_STATUS: Final = """\
exit status:
  0    all responses are as recorded
  1    a response is different
  2    the command line is wrong, the file is not a recording or has nothing to
       send, or an extra is not installed
  3, 4, 126 to 143: as in `call`
"""
_RUN_STATUS: Final = """\
exit status:
  that of the program
  2    the command line is wrong
  126  the program is not one in Python, or belongs to another Python
  127  the program is not found
"""
_CHECK_STATUS: Final = """\
exit status:
  0    all messages are valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read or checked as it is or has
       no message, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
"""
_TAP_STATUS: Final = """\
exit status:
  that of the server; 128 + N if signal N ended it; with --http: 0
  2    the command line is wrong, the log cannot be opened, or an extra is not
       installed
  3    the address of --http is in use, or cannot be listened on
  126  the server's command cannot be run
  127  the server's command is not found
  130  interrupted, with --http
"""
_RELAY_STATUS: Final = """\
exit status:
  0    the client closed standard input
  1    standard output cannot be written, or the client did not read all of it
  2    the command line is wrong, or an extra is not installed
  3    the server of the URL failed and sent no message, or the address of --http
       is in use, or cannot be listened on
  129  hung up
  130  interrupted
  143  terminated
"""
_SERVING_STATUS: Final = """\
exit status:
  0    the client closed standard input, or the HTTP server ended
  1    standard output cannot be written, or the client did not read all of it
  2    the command line is wrong, {}
  3    the address is in use, or cannot be listened on
  129  hung up
  130  interrupted
  143  terminated
"""
_SERVE_STATUS: Final = _SERVING_STATUS.format(
    "the folder cannot be read, or the extra `mcp` or\n       `mcp-http` is not installed"
)
_GATEWAY_STATUS: Final = _SERVING_STATUS.format(
    "the file cannot be read or is wrong, or the\n       extra `mcp`, `http` or `mcp-http` is not installed"
)
_INFO_STATUS: Final = """\
exit status:
  0    success
  2    the command line is wrong, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
"""


_Layout: Final = argparse.RawDescriptionHelpFormatter  # the texts above have their line breaks
_Add: TypeAlias = Callable[..., argparse.ArgumentParser]

_COMMANDS: Final = {"check": check.run, "serve": serve.run, "gateway": gateway.run, "info": info.run}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments; None: those of the process.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"] and words[1:2] not in ([], ["-h"], ["--help"]):
        from . import run

        return run.run(words[1:])  # the program handles its own exceptions and signals
    # Not in a thread; and a signal that is ignored (nohup) stays ignored.
    handles_signal = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if handles_signal:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        status = _run(words)
        print(end="", flush=True)  # a full disk or a closed pipe shows here, and not in the interpreter's exit
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        status = OUTPUT_CLOSED
    except OSError as error:
        # Faults of input files are handled by the commands: this one is of an output.
        name = "" if error.filename is None else f" {printable(str(error.filename))}"
        print_error(f"cannot write{name}: {error.strerror}")
        status = FAILURE
    silence_closed_outputs()
    # For programs, such as the tests, that call `main` and go on.
    if handles_signal and signal.getsignal(signal.SIGINT) in (_interrupt, _end):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return status


def _interrupt(number: int, _: object) -> None:
    """Interrupt the command. Another signal ends the process: interrupting the clean-up would show a traceback."""
    signal.signal(number, _end)
    raise KeyboardInterrupt


def _end(number: int, _: object) -> None:
    """End the process by the signal, after the programs that it has started."""
    stdio = sys.modules.get(f"{__package__.partition('.')[0]}.transports.stdio.child")  # loaded if there are any
    if stdio is not None:
        stdio.kill_children()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _run(arguments: list[str]) -> int:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser)
    # By hand: argparse would mix the words of the server's command with those before the "--".
    program: list[str] = []
    if arguments[:1] in (["tap"], ["relay"], ["call"], ["list"], ["stubs"], ["replay"]) and "--" in arguments:
        split = arguments.index("--")
        arguments, program = arguments[:split], arguments[split + 1 :]
    try:
        options, unknown = parser.parse_known_args(arguments)
        if options.command == "run":  # without a program: `main` runs all others
            options.parser.error("expected PROGRAM, or -m MODULE")
        if options.command in ("tap", "relay"):
            _check_ends(options, program)
        if options.command in _CALLING:
            # argparse takes only the words before the first option, or only those after it.
            options.words += [word for word in unknown if not word.startswith("-")]
            unknown = [word for word in unknown if word.startswith("-")]
            _check_words(options, program)
        if unknown:
            getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as exit:  # argparse has printed the help, the version, or what is wrong
        return int(exit.code or 0)
    if options.command == "stubs" and not program and stubs.is_file(options.words[0]):
        return stubs.run(options)
    if options.command in _CALLING:
        from . import call  # imports asyncio

        return call.run(options, program)
    if options.command == "tap" and options.http is not None:
        from . import tap_http

        return tap_http.run(options)
    if options.command == "tap":
        from . import tap  # imports what no other command needs

        return tap.run(options, program)
    if options.command == "relay":
        return relay.run(options, program)
    if options.command is None:
        parser.print_help(sys.stderr)
        return FAILURE
    return _COMMANDS[options.command](options)


def _check_ends(options: argparse.Namespace, program: list[str]) -> None:
    """Check that a command has what it connects. Exits with a message otherwise."""
    error, name, url = options.parser.error, options.command, options.url
    if (name == "tap") == (options.http is None):
        http = "" if options.http is None else f" --http {options.http}"
        if url is not None and url.startswith(("http://", "https://")) and not program:
            error("--http needs a command after --, and no URL" if http else f"missing --http HOST:PORT before {url}")
        if url is not None and not program:
            error(f"missing -- before the command: jsonrpc-fast {name}{http} -- {url} ...")
        if name == "tap" and not program:
            error("missing command after --")
        if url is not None or not program:
            error(f"{'--http needs' if http else 'expected'} a command after --, and no URL")
    elif url is None or program:
        error(
            "--http needs a URL, and no command"
            if name == "tap"
            else "expected a URL, or --http and a command after --"
        )


def _check_words(options: argparse.Namespace, program: list[str]) -> None:
    """Check that a call has a server and a method. Exits with a message otherwise."""
    place = "SOURCE" if options.command == "stubs" else "TARGET"
    names = ["FILE"] if options.command == "replay" else []
    names += [] if program else [f"{place}, or a command after --"]
    names += ["METHOD"] if options.command == "call" else []
    missing = names[len(options.words) :]
    if missing:
        options.parser.error(f"expected {missing[0]}")
    if options.command != "call" and len(options.words) > len(names):
        options.parser.error(f"unrecognized arguments: {' '.join(options.words[len(names) :])}")
    if options.command == "replay":
        options.file = options.words.pop(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jsonrpc-fast", description=_DESCRIPTION, epilog=f"{_COLOURS}\n{_STATUS}", formatter_class=_Layout
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    def add(name: str, about: str, text: str, status: str, usage: str | None = None) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(
            name, help=about, description=text, epilog=status, usage=usage, formatter_class=_Layout
        )
        command.set_defaults(parser=command)
        return command

    _add_calling(add)
    _add_reading(add)
    _add_serving(add)
    command = add("info", "show versions, backend and profiles", _INFO, _INFO_STATUS)
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _add_calling(add: _Add) -> None:
    """Add the commands that call a server."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name, about, text, status, usage in (
        ("call", "call a method of a server", _CALL, _CALL_STATUS, "TARGET METHOD [NAME=VALUE ... | JSON]"),
        ("list", "list what a server offers", _LIST, _CALL_STATUS, "TARGET"),
        ("stubs", "write the typed interface of a server", _STUBS, _STUBS_STATUS, "SOURCE"),
        ("replay", "send a recording to a server, and compare", _REPLAY, _REPLAY_STATUS, "FILE TARGET"),
    ):
        usage = f"%(prog)s [options] {usage}\n       %(prog)s [options] {_PLACE.sub('', usage + ' ')}-- COMMAND ..."
        command = found[name] = add(name, about, text, status, usage)
        command.add_argument("words", nargs="*", metavar="WORD", help=argparse.SUPPRESS)
        if name in ("call", "list"):
            command.add_argument(
                "--mcp", action="store_true", help="speak the Model Context Protocol (needs the extra mcp)"
            )
        _add_rules(command, None)
        _add_shared(command, "--header")
        command.add_argument(
            "--timeout",
            type=_seconds,
            default=TIMEOUT_SECONDS,
            metavar="SECONDS",
            help="how long to wait for the response (default: %(default)s)",
        )
        if name in ("call", "list"):
            command.add_argument("--raw", action="store_true", help="print JSON in one line on a terminal, too")
        command.add_argument("--debug", action="store_true", help="log what the connection does to standard error")
        command.set_defaults(lsp=False, notify=False, follow=False, mcp=False)
    command = found["call"]
    command.add_argument(
        "--lsp", action="store_true", help="speak the Language Server Protocol: its handshake and framing"
    )
    command.add_argument("--notify", action="store_true", help="send a notification, and wait for nothing")
    command.add_argument(
        "--follow", action="store_true", help="print the server's notifications, until the connection ends or Ctrl-C"
    )

    command = found["stubs"]
    command.add_argument("--name", help="the name of the class (default: from the title of the document)")
    command.add_argument("--sync", action="store_true", help="declare methods without async, for HttpClient")
    command.add_argument("-o", "--output", metavar="FILE", help="write the module to FILE (default: standard output)")

    command = found["replay"]
    command.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="POINTER",
        help="a place that may differ, such as /result/time or /result/*/id; may be repeated",
    )


def _add_reading(add: _Add) -> None:
    """Add the commands that read messages of others, and the one that runs a program of another library."""
    usage = "%(prog)s PROGRAM [ARGUMENT ...]\n       %(prog)s -m MODULE [ARGUMENT ...]"
    add("run", "run a program of another library on this codec", _RUN, _RUN_STATUS, usage)

    command = add("check", "validate streams of messages", _CHECK, _CHECK_STATUS)
    _add_rules(command, None)
    command.add_argument("files", nargs="*", metavar="FILE", help="a file to read; - or no file means standard input")
    _add_number(command, "--max-faults", 10, "show at most N faults of each file")
    command.add_argument("--methods", action="store_true", help="count the requests and notifications of each method")
    command.add_argument("-q", "--quiet", action="store_true", help="print no summaries, only faults")
    command.add_argument("--json", action="store_true", help="print each fault and each summary as one JSON object")

    usage = "jsonrpc-fast tap [options] -- COMMAND ...\n       jsonrpc-fast tap --http HOST:PORT [options] URL"
    command = add("tap", "log the messages between a server and its client", _TAP, _TAP_STATUS, usage)
    _add_rules(command, "auto")
    command.add_argument("url", nargs="?", metavar="URL", help="the URL of a server on HTTP; with --http")
    command.add_argument("--http", metavar="HOST:PORT", help="where to receive the requests for the URL's server")
    command.add_argument("--log", metavar="FILE", help="append the log to FILE (default: standard error)")
    command.add_argument("--payloads", action="store_true", help="log the messages themselves, too")
    command.add_argument(
        "--record", metavar="FILE", help="append each message to FILE as a line of JSON, which `replay` reads"
    )


def _add_serving(add: _Add) -> None:
    """Add the commands that are servers of MCP."""
    command = add("serve", "serve a folder of templates over MCP", _SERVE, _SERVE_STATUS)
    command.add_argument(
        "--template-dir", default="templates", metavar="DIR", help="the folder of templates (default: ./%(default)s)"
    )
    _add_shared(command, "--http", "--allow-host", "--allow-origin")
    _add_shared(command, "--debug")

    usage = "jsonrpc-fast relay [options] URL\n       jsonrpc-fast relay --http HOST:PORT [options] -- COMMAND ..."
    command = add("relay", "connect an MCP client and a server over other transports", _RELAY, _RELAY_STATUS, usage)
    command.add_argument("url", nargs="?", metavar="URL", help="the URL of a remote server")
    _add_shared(command, "--header")
    command.add_argument("--http", metavar="HOST:PORT", help="where to serve the command over HTTP, at the path /mcp")
    _add_number(command, "--max-processes", 64, "run at most N processes of the command", 1)
    _add_number(
        command, "--idle-seconds", 1800, "end a session, and its process, after N seconds without a request or a stream"
    )
    _add_shared(command, "--debug")

    command = add("gateway", "serve many MCP servers as one", _GATEWAY, _GATEWAY_STATUS)
    command.add_argument("file", metavar="FILE", help="the file of servers")
    _add_shared(command, "--http", "--allow-host", "--allow-origin")
    command.add_argument(
        "--separator",
        default="_",
        metavar="TEXT",
        help="what stands between the name of a server and that of a tool (default: %(default)s)",
    )
    _add_number(command, "--max-servers", 64, "run at most N servers, of all clients", 1)
    _add_number(command, "--idle-seconds", 1800, "end a server after N seconds without a request; 0: never")
    command.add_argument(
        "--list-seconds",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long a list waits for a server; a slower one is announced later (default: %(default)s)",
    )
    _add_shared(command, "--debug")


def _add_rules(command: argparse.ArgumentParser, framing: Framing | None) -> None:
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
        "sse, server-sent events; concatenated, JSON values in any spacing; "
        "auto, newline or content-length, whichever the stream begins with "
        f"(default: {framing or 'newline'})",
    )


def _add_number(command: argparse.ArgumentParser, name: str, default: int, text: str, least: int = 0) -> None:
    kind = partial(_whole_number, least)
    command.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (default: %(default)s)")


_SHARED: Final[dict[str, dict[str, Any]]] = {
    "--http": {
        "metavar": "HOST:PORT",
        "help": "serve Streamable HTTP at http://HOST:PORT/mcp (needs the extra mcp-http)",
    },
    "--allow-host": {
        "action": "append",
        "metavar": "NAME",
        "help": "accept this name in the Host header, such as example.org or example.org:8000; may be repeated "
        "(default: the names of the loopback interface, if the server is reached through it)",
    },
    "--allow-origin": {
        "action": "append",
        "metavar": "ORIGIN",
        "help": "accept requests of web pages of this origin, such as https://example.org; may be repeated",
    },
    "--header": {
        "action": "append",
        "default": [],
        "metavar": "'NAME: VALUE'",
        "help": "a header of every request to the URL; ${VARIABLE} is replaced from the environment",
    },
    "--debug": {
        "action": "store_true",
        "help": "log each message and fault to standard error, without payloads",
    },
}
"""The options of several commands."""


def _add_shared(command: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        command.add_argument(name, **_SHARED[name])


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of seconds, more than 0")
    return seconds


def _whole_number(least: int, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number, {least} or more")
    return int(text)
