"""The commands of `jsonrpc-fast`, their options and help texts.

Each command runs in its own module, which is imported when it runs. `call`, `list` and `replay` show payloads, and
`tap` if requested.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, NoReturn

from .._version import __version__
from ..framing import FRAMINGS
from ..profile import PRESETS
from .output import Status, escape, prepare_stdout, print_error, silence_closed_outputs

_DESCRIPTION: Final = """\
Call a JSON-RPC 2.0 server, list what it offers, write its typed interface,
validate messages, log and record the messages of a server, replay them, serve
templates over MCP, serve many MCP servers as one, relay MCP between stdio and
HTTP, and show this installation.
"""
_EPILOG: Final = """\
Output to terminals has colours. The environment variable NO_COLOR turns them
off; FORCE_COLOR turns them on for any output.

exit status:
  the status of the command; `jsonrpc-fast COMMAND --help` shows it
  2    the command line is wrong
"""


class _Command(NamedTuple):
    """A command."""

    about: str
    usage: str  # the forms of its command line after the name, separated by "|"; "" for the one of argparse
    options: dict[str, dict[str, Any]]  # the names, such as "-q,--quiet", and the arguments of argparse
    text: str  # the description in its help, and the exit statuses
    module: str = ""  # that runs it; "" for the one of its name
    takes: Literal["server", "program", ""] = ""  # what may follow after "--": a server in place of a TARGET, a program


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


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "help": text}


def _repeated(metavar: str, text: str, default: list[str] | None = None) -> dict[str, Any]:
    return {"action": "append", "default": default, "metavar": metavar, "help": text}


def _number(default: int, text: str, least: int = 0) -> dict[str, Any]:
    kind = partial(_whole_number, least)
    return {"type": kind, "default": default, "metavar": "N", "help": f"{text} (default: %(default)s)"}


def _duration(default: float, text: str) -> dict[str, Any]:
    return {"type": _seconds, "default": default, "metavar": "SECONDS", "help": f"{text} (default: %(default)s)"}


def _framing(default: str | None) -> dict[str, Any]:
    kinds = "; ".join([f"{name}, {row.help}" for name, row in FRAMINGS.items()])
    text = f"how messages are separated: {kinds} (default: {default or 'newline'})"
    return {"choices": FRAMINGS, "default": default, "metavar": "NAME", "help": text}


_SHARED: Final[dict[str, dict[str, Any]]] = {
    "words": {"nargs": "*", "metavar": "WORD", "help": argparse.SUPPRESS},
    "files": {"nargs": "*", "metavar": "FILE", "help": "a file to read; - or no file means standard input"},
    "--profile": {
        "choices": PRESETS,
        "default": "jsonrpc",
        "metavar": "NAME",
        "help": f"the rules for messages: {', '.join(PRESETS)} (default: %(default)s); `jsonrpc-fast info` shows them",
    },
    "--framing": _framing(None),
    "--mcp": _flag("speak the Model Context Protocol (needs the extra mcp)"),
    "--header": _repeated(
        "'NAME: VALUE'", "a header of every request to the URL; ${VARIABLE} is replaced from the environment", []
    ),
    "--timeout": _duration(300.0, "how long to wait for the response"),
    "--http": {
        "metavar": "HOST:PORT",
        "help": "serve Streamable HTTP at http://HOST:PORT/mcp (needs the extra mcp-http)",
    },
    "--allow-host": _repeated(
        "NAME",
        "accept this name in the Host header, such as example.org or example.org:8000; may be repeated "
        "(default: the names of the loopback interface, if the server is reached through it)",
    ),
    "--allow-origin": _repeated(
        "ORIGIN", "accept requests of web pages of this origin, such as https://example.org; may be repeated"
    ),
    "--debug": _flag("log what the connections do to standard error, without payloads"),
}
"""The options of several commands, by name."""


def _shared(*names: str) -> dict[str, dict[str, Any]]:
    return {name: _SHARED[name] for name in names}


_CALL_STATUS: Final = """
exit status:
  0    the server responded with a result, or the notification was sent
  1    the server responded with an error, or the tool's result is an error
  2    the command line is wrong, or an extra is not installed
  3    the server cannot be reached, the connection was lost, or the server sent
       something that is not a response
  4    no response came in time
  126  the server's command cannot be run
  127  the server's command is not found
  129  hung up
  130  interrupted
  141  the reader of the output closed it
  143  terminated
"""
_SERVED_STATUS: Final = """
exit status:
  0    the client closed standard input, or the HTTP server ended
  1    standard output cannot be written, or the client did not read all of it
  2    the command line is wrong, a file or folder cannot be read or is wrong,
       or the extra `mcp`, `http` or `mcp-http` is not installed
  3    the address of --http is in use, or cannot be listened on
  129  hung up
  130  interrupted
  143  terminated
"""
_COMMANDS: Final = {
    "call": _Command(
        "call a method of a server",
        "TARGET METHOD [NAME=VALUE ... | JSON]",
        {
            **_shared("words", "--mcp", "--profile", "--framing", "--header", "--timeout", "--debug"),
            "--digest": _flag(
                "send the user and the password of the URL by digest authentication (RFC 7616), not as they are"
            ),
            "--extra": _repeated(
                "NAME=VALUE",
                "a further member of the message, beside the params, such as auth=TOKEN; may be repeated",
                [],
            ),
            "--json": _flag('print {"result": ...} or {"error": {"code": ..., ...}} in one line'),
            "--lsp": _flag("speak the Language Server Protocol: its handshake and framing"),
            "--notify": _flag("send a notification, and do not wait for a response"),
            "--follow": _flag("print the server's notifications, until the connection ends or Ctrl-C"),
        },
        """\
Call a method of a server and print its result: JSON in one line as it arrived
(with --mcp, as Python reads and writes it), or indented on a terminal.

TARGET is http://..., https://..., ws://..., wss://..., tcp://HOST:PORT,
tls://HOST:PORT or unix:PATH. Instead of a TARGET, a command after -- is run as
the server.

The params are one JSON object or array, or words NAME=VALUE. A VALUE that is
JSON is that value: n=3 is a number, name=Ada and id='"3"' are strings.

With --mcp, METHOD is the name of a tool, or a method such as resources/read.
"""
        + _CALL_STATUS,
        module="call",
        takes="server",
    ),
    "list": _Command(
        "list what a server offers",
        "TARGET",
        {
            **_shared("words", "--mcp", "--profile", "--framing", "--header", "--timeout", "--debug"),
            "--json": _flag("print one JSON object, with the descriptions as they arrived"),
            "--html": _flag("print a page, in one file, that describes the methods (OpenRPC)"),
        },
        """\
List what a server offers: the methods that it describes by rpc.discover
(OpenRPC), or with --mcp its tools, prompts and resources. TARGET and command
are those of `call`.
"""
        + _CALL_STATUS.replace(", or the notification was sent", "").replace(", or the tool's result is an error", ""),
        module="call",
        takes="server",
    ),
    "stubs": _Command(
        "write the typed interface of a server",
        "SOURCE",
        {
            **_shared("words", "--profile", "--framing", "--header", "--timeout", "--debug"),
            "--name": {"help": "the name of the class (default: from the title of the document)"},
            "--sync": _flag("declare methods without async, for HttpClient"),
            "-o,--output": {"metavar": "FILE", "help": "write the module to FILE (default: standard output)"},
        },
        """\
Write a Python module with the typed interface of a server, for `proxy` in
jsonrpc_fast.session.proxies, from an OpenRPC document.

SOURCE is a file, - for standard input, a URL whose path ends in .json, or a
TARGET or a command as in `call`, which gets the request rpc.discover.

exit status:
  0    the module was written
  2    the command line is wrong, the document cannot be read or is not an
       OpenRPC document, or the output cannot be written
  1, 3, 4, 126 to 143: as in `call`
""",
        module="call",
        takes="server",
    ),
    "replay": _Command(
        "send a recording to a server, and compare",
        "FILE TARGET",
        {
            **_shared("words", "--profile", "--framing", "--header", "--timeout", "--debug"),
            "--json": _flag("print each difference, and the summary, as one JSON object"),
            "--ignore": _repeated(
                "POINTER", "a place that may differ, such as /result/time or /result/*/id; may be repeated", []
            ),
        },
        """\
Send the requests and notifications of a recording to a server again, and
compare its responses with the recorded ones. `tap --record` writes recordings.

TARGET and command are those of `call`. A difference is shown with the line of
the recording, the method and the place in the response.

exit status:
  0    all responses are as recorded
  1    a response is different
  2    the command line is wrong, the file is not a recording or has nothing to
       send, or an extra is not installed
  3, 4, 126 to 143: as in `call`
""",
        module="call",
        takes="server",
    ),
    "run": _Command(
        "run a program of another library on this codec",
        "PROGRAM [ARGUMENT ...]|-m MODULE [ARGUMENT ...]",
        {},
        """\
Run a program in Python that uses pygls, python-lsp-server, aiorpcX or the MCP
SDK, with the adapter of this package installed. The program is not changed.

PROGRAM is a file, or the name of a script on the path that belongs to the
Python of this command.

exit status:
  that of the program
  2    the command line is wrong
  126  the program is not one in Python, or belongs to another Python
  127  the program is not found
""",
    ),
    "check": _Command(
        "validate streams of messages",
        "",
        {
            **_shared("--profile", "--framing", "files"),
            "--suggest": _flag("name the first profile under which all messages of a file are valid"),
            "--max-faults": {
                **_number(10, "show at most N faults of each file, or all"),
                "type": lambda text: sys.maxsize if text == "all" else _whole_number(0, text),
            },
            "-q,--quiet": _flag("print no summaries, only faults"),
            "--json": _flag("print each fault that is shown (--max-faults), and each summary, as one JSON object"),
        },
        """\
Validate streams of JSON-RPC messages. Print the first faults of each file, and
then the number of messages of each kind and of faults of each code.

A fault is shown with its line (from 1, where messages are lines), its byte in
the file (from 0) and its item in a batch (from 0). A batch counts once, and so
does each of its items. The contents of messages are never shown. Reading stops
at a header that does not tell where the next message begins.

exit status:
  0    all messages are valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read or checked as it is or
       has no message, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
""",
    ),
    "stats": _Command(
        "count methods, sizes, errors and response times",
        "",
        {**_shared("--profile", "--framing", "files"), "--json": _flag("print one JSON object for each file")},
        """\
Count the messages of each method in a recording of `tap --record`, or in a
stream of messages: requests, notifications, errors, requests without a
response, and the sizes of the messages. A recording has times, too: p50 and p99
are the times within which half of the responses, and 99 of 100, have come. The
bars show how these times are distributed. The contents are never shown.

exit status:
  0    the file was read
  2    the command line is wrong, a file cannot be read or has no message, or
       the output cannot be written
  130  interrupted
  141  the reader of the output closed it
""",
    ),
    "bench": _Command(
        "measure this codec with your own messages",
        "",
        {
            **_shared("--profile", "--framing", "files"),
            "--seconds": _duration(3.0, "how long to measure"),
            "--json": _flag("print one JSON object"),
        },
        """\
Decode and encode the messages of a recording, or of a stream, with the
standard library's json, with orjson if it is installed, and with this codec,
each in turn, and show the minimum of many rounds. json and orjson check no rule
of JSON-RPC. At most the first 16 MiB of all files together are used.

exit status:
  0    the messages were measured
  2    the command line is wrong, a file cannot be read or has no valid message,
       or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
""",
    ),
    "tap": _Command(
        "log the messages between a server and its client",
        "[options] -- COMMAND ...|--listen HOST:PORT [options] TARGET|--http HOST:PORT [options] URL",
        {
            **_shared("--profile"),
            "--framing": _framing("auto"),
            "url": {"nargs": "?", "metavar": "URL", "help": "the address of a server; with --listen or --http"},
            "--listen": {"metavar": "HOST:PORT", "help": "where to wait for connections; or unix:PATH"},
            "--http": {"metavar": "HOST:PORT", "help": "where to receive the requests for the URL's server"},
            "--log": {"metavar": "FILE", "help": "append the log to FILE (default: standard error)"},
            "--json": _flag("write each line of the log as one JSON object"),
            "--payloads": _flag("log the messages themselves, too"),
            "--record": {
                "metavar": "FILE",
                "help": "append each message to FILE as a line of JSON, which `replay` reads",
            },
        },
        """\
Run a stdio server and log the messages between it and its client. Put this
command in front of the server's command in the client's configuration.

Every byte is passed on at once and unchanged, in both directions. The log has
one line for each message: time, direction (-> from the client, <- from the
server), kind, method, id, size, response time and fault. Payloads are logged
only with --payloads; --record keeps them. The server's standard error is not
changed.

With --listen, wait for connections, and connect each to the server at TARGET,
which is tcp://HOST:PORT or unix:PATH.

With --http, run an HTTP server that passes every request on to the server of
the URL, and log the messages in the bodies and in the streams of events.

exit status:
  that of the server; 128 + N if signal N ended it
  2    the command line is wrong, the log cannot be opened, standard output is
       closed, or an extra is not installed
  3    the address of --listen or --http is in use, or cannot be listened on
  126  the server's command cannot be run
  127  the server's command is not found
  130  interrupted, with --listen or --http
  143  terminated, with --listen or --http
""",
        takes="program",
    ),
    "serve": _Command(
        "serve a folder of templates over MCP",
        "",
        {
            "--template-dir": {
                "default": "templates",
                "metavar": "DIR",
                "help": "the folder of templates (default: ./%(default)s)",
            },
            **_shared("--http", "--allow-host", "--allow-origin", "--debug"),
        },
        """\
Serve the text templates of a folder over the Model Context Protocol (MCP), on
standard input and output, or over HTTP. Each template is a prompt, whose
arguments are the variables of the template, and a resource. Clients are
notified when files change. Templates cannot read files outside the folder.
"""
        + _SERVED_STATUS,
        module="serving",
    ),
    "relay": _Command(
        "connect an MCP client and a server over other transports",
        "[options] URL|--http HOST:PORT [options] -- COMMAND ...",
        {
            "url": {"nargs": "?", "metavar": "URL", "help": "the URL of a remote server"},
            "--http": {"metavar": "HOST:PORT", "help": "where to serve the command over HTTP, at the path /mcp"},
            "--max-processes": _number(64, "run at most N processes of the command", 1),
            "--idle-seconds": _number(1800, "end a process after N seconds without a request; 0: never"),
            **_shared("--header", "--debug"),
        },
        """\
Connect an MCP client and an MCP server that use different transports.

With a URL: serve a remote server on standard input and output, for a client
that starts its servers as programs. With --http: serve a program over HTTP;
each client has its own process. It is a gateway of one server, whose tools
keep their names.
"""
        + _SERVED_STATUS,
        module="serving",
        takes="program",
    ),
    "gateway": _Command(
        "serve many MCP servers as one",
        "",
        {
            "file": {"metavar": "FILE", "help": "the file of servers"},
            "--status": _flag("print whether each server responds, and what it offers; serve nothing"),
            "--separator": {
                "default": "_",
                "metavar": "TEXT",
                "help": "the separator between the name of a server and that of a tool (default: %(default)s)",
            },
            "--max-servers": _number(64, "run at most N servers for all clients together", 1),
            "--idle-seconds": _number(1800, "end a server after N seconds without a request; 0: never"),
            "--list-seconds": _duration(10.0, "how long a list waits for a server; a slower one is announced later"),
            **_shared("--http", "--allow-host", "--allow-origin", "--debug"),
        },
        """\
Serve many MCP servers as one, on standard input and output, or over HTTP. FILE
has the format of MCP hosts:
  {"mcpServers": {"NAME": {"command": ..., "args": [...]}}}
or "url" and "headers" in place of a command. ${VARIABLE} and
${VARIABLE:-default} are replaced from the environment, as in Claude Code.

The name of a tool consists of the name of its server, the separator and its own
name. Each client has its own servers, which are started when they are needed.

With --status: start each server once, and print whether it responds and what it
offers. The exit status is 1 if one does not respond.
"""
        + _SERVED_STATUS,
        module="serving",
    ),
    "install": _Command(
        "add an MCP server to an editor or another host",
        "--client NAME [options] SERVER.py [ARGUMENT ...]|--client NAME [options] -- COMMAND ...",
        {
            **_shared("words"),
            "--name": {"help": "the name of the server (default: that of its file or command)"},
            "--client": {
                "required": True,
                "metavar": "NAME",
                "help": "claude (Claude Desktop), claude-code, cursor, vscode or gemini",
            },
            "--env": _repeated("NAME=VALUE", "a variable for the server; may be repeated", []),
            "--project": _flag("write the file of the project in this folder, instead of the user's"),
            "--yes": _flag("write without asking"),
        },
        """\
Write the entry of an MCP server into the configuration of a host: Claude
Desktop, Claude Code, Cursor, VS Code or the Gemini CLI. The change is shown
first. The file that was there is kept beside the new one.

exit status:
  0    the entry is in the file
  1    nothing was written, because nobody agreed
  2    the command line is wrong, the server is not found, or the file cannot be
       read as JSON or cannot be written
""",
        takes="program",
    ),
    "info": _Command(
        "show versions, backend and profiles",
        "",
        {"--json": _flag("print one JSON object")},
        """\
Show the versions, the backend (and why the compiled core is not in use), and
the rules of the profiles.

exit status:
  0    success
  2    the command line is wrong, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
""",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of these arguments, or of the process. Return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"] and words[1:2] not in ([], ["-h"], ["--help"]):
        from . import run

        return run.run(words[1:])  # the program handles its own exceptions and signals
    prepare_stdout()
    # Only in the main thread. A signal that is ignored (nohup) stays ignored.
    handles_signal = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if handles_signal:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        status = _run(words)
        sys.stdout.flush()  # reports a full disk or a closed pipe here, not at the interpreter's exit
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except BrokenPipeError:
        status = Status.OUTPUT_CLOSED
    except OSError as error:
        # The commands handle errors of input files, so this error is about an output.
        name = "" if error.filename is None else f" {escape(str(error.filename))}"
        print_error(f"cannot write{name}: {error.strerror}")
        status = Status.WRONG
    silence_closed_outputs()
    # For programs, such as the tests, that call `main` and continue.
    if handles_signal and signal.getsignal(signal.SIGINT) in (_interrupt, _end):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return status


def _interrupt(number: int, _: object) -> None:
    """Interrupt the command. Another signal ends the process: interrupting the clean-up would show a traceback."""
    signal.signal(number, _end)
    raise KeyboardInterrupt


def _end(number: int, _: object) -> None:
    """End the process by the signal, after the programs that it has started."""
    stdio = sys.modules.get(f"{__package__.partition('.')[0]}.transports.stdio")  # loaded if there are any
    if stdio is not None:
        stdio.signal_children("SIGKILL")
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _run(arguments: list[str]) -> int:
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser)
    # Split here, because argparse would mix the words of the server's command with those before the "--".
    program: list[str] = []
    named = _COMMANDS.get(arguments[0]) if arguments else None
    is_split = named is not None and bool(named.takes) and "--" in arguments
    if is_split:
        split = arguments.index("--")
        arguments, program = arguments[:split], arguments[split + 1 :]
    try:
        options, unknown = parser.parse_known_args(arguments)
        if options.command == "run":  # without a program: `main` runs all others
            options.parser.error("expected PROGRAM, or -m MODULE")
        # Before the checks of the words, which would miss a word that only a call without a command has.
        if is_split and not program:
            options.parser.error("missing command after --")
        if options.command in ("tap", "relay"):
            _check_ends(options, program)
        if named is not None and named.takes == "server":
            # argparse takes only the words before the first option, or only those after it.
            options.words += [word for word in unknown if not word.startswith("-")]
            unknown = [word for word in unknown if word.startswith("-")]
            _check_words(options, program)
        if unknown:
            getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as exit:  # argparse has printed the help, the version, or what is wrong
        return int(exit.code or 0)
    if options.command is None:
        parser.print_help(sys.stderr)
        return Status.WRONG
    options.program = program
    module = _COMMANDS[options.command].module or options.command
    if options.command == "tap" and not program:
        module = "tap_listening"
    elif options.command == "stubs" and not program:
        from .stubs import is_file

        module = "stubs" if is_file(options.words[0]) else module
    status: int = import_module(f".{module}", __package__).run(options)
    return status


def _check_ends(options: argparse.Namespace, program: list[str]) -> None:
    """Check that a command has both ends that it connects. Exit with a message otherwise."""
    error, name, url = options.parser.error, options.command, options.url
    if name == "tap" and options.listen is not None:
        if options.http is not None:
            error("--listen and --http exclude each other")
        if url is None or program:
            error("--listen needs the TARGET of a server, and no command")
        return
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
        if name == "relay" and options.header:
            error("--header is for the URL of a remote server; a command has none")
    elif url is None or program:
        error(
            "--http needs a URL, and no command"
            if name == "tap"
            else "expected a URL, or --http and a command after --"
        )


def _check_words(options: argparse.Namespace, program: list[str]) -> None:
    """Check that a call has a server and a method. Exit with a message otherwise."""
    place = "SOURCE" if options.command == "stubs" else "TARGET"
    names = ["FILE"] if options.command == "replay" else []
    names += [] if program else [f"{place}, or a command after --"]
    names += ["METHOD"] if options.command == "call" else []
    missing = names[len(options.words) :]
    if missing:
        options.parser.error(f"expected {missing[0]}")
    if options.command != "call" and len(options.words) > len(names):
        cure = "" if program else "; the command of a server stands after --"
        options.parser.error(f"unrecognized arguments: {' '.join(options.words[len(names) :])}{cure}")
    if options.command == "replay":
        options.file = options.words.pop(0)


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the command that was probably meant."""

    def error(self, message: str) -> NoReturn:
        if found := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            from ..support import nearest_of  # loaded only for the message

            nearest = nearest_of(found[1], [choice.strip("' ") for choice in found[2].split(",")])
            message += "" if nearest is None else f"; did you mean {nearest}?"
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter  # the texts have their line breaks
    parser = _Parser(prog="jsonrpc-fast", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=layout)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for name, row in _COMMANDS.items():
        text, heading, status = row.text.partition("\nexit status:\n")
        forms = [form for form in row.usage.split("|") if form]
        if row.takes == "server":
            without = re.sub("(?:TARGET|SOURCE) ?", "", f"{row.usage} ")
            forms = [f"[options] {row.usage}", f"[options] {without}-- COMMAND ..."]
        usages = "\n       ".join(f"%(prog)s {form}" for form in forms) or None
        command = commands.add_parser(
            name, help=row.about, description=text, epilog=heading + status, usage=usages, formatter_class=layout
        )
        command.set_defaults(parser=command, **_DEFAULTS)
        for names, settings in row.options.items():
            command.add_argument(*names.split(","), **settings)
    return parser


_DEFAULTS: Final = {
    **dict.fromkeys(("lsp", "notify", "follow", "mcp", "json", "digest"), False),
    "allow_host": None,
    "allow_origin": None,
}
"""The values of options that only some of the commands of a module have, for the others."""
