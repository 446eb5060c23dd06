"""The command `serve`: an MCP server on stdin and stdout that serves the text templates of a folder as prompts.

stdout belongs to the protocol. What there is to say goes to stderr: why it does not start, which templates it cannot
use, and with `--debug` a line for each message and each fault, without what they hold.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Self

USAGE: Final = 2
"""The exit code when the command line is wrong, or what it needs is not there."""

_DESCRIPTION: Final = """\
Serves the text templates of a folder over the Model Context Protocol, on standard input and output: each as a prompt,
whose arguments are the variables of the template, and as a resource to read. Clients are told when files change. No
template can read a file outside of the folder.
"""
_EXIT_STATUS: Final = """\
exit status:
  0    the client closed standard input
  1    standard output could not be written any more
  2    the command line is wrong, the folder cannot be read or the extra `mcp` is not installed
  130  interrupted
  143  terminated
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfiguration:
    """What the command line says, checked.

    template_dir  the folder, absolute, which was there and could be read
    debug         tell on stderr what goes on
    """

    template_dir: Path
    debug: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """The configuration of a parsed command line. Raises ValueError, with a text for people."""
        given: str = options.template_dir
        if not given:
            raise ValueError("the name of the folder is empty")
        try:
            os.scandir(given).close()
        except FileNotFoundError:
            raise ValueError(f"there is no folder {_shown(given)}") from None
        except NotADirectoryError:
            raise ValueError(f"{_shown(given)} is not a folder") from None
        except OSError as error:
            raise ValueError(f"the folder {_shown(given)} cannot be read: {error.strerror}") from None
        return cls(template_dir=Path(given).absolute(), debug=options.debug)


def add_parser(commands: Any) -> None:
    """Adds the command to those of an `argparse` parser: `commands` is what its `add_subparsers` returned."""
    parser = commands.add_parser(
        "serve",
        help="serve a folder of templates as MCP prompts",
        description=_DESCRIPTION,
        epilog=_EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folder = "the folder of the templates (default: ./%(default)s)"
    parser.add_argument("--template-dir", default="templates", metavar="DIR", help=folder)
    parser.add_argument("--debug", action="store_true", help="tell on stderr what comes, goes and is wrong")


def run(options: argparse.Namespace) -> int:
    """Runs the command until the client or a signal ends it. Returns the exit status."""
    try:
        configuration = ServeConfiguration.of(options)
    except ValueError as error:
        return _complain(str(error))
    try:
        from ..mcp.templates.server import TemplateFolder, serve_folder
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__):
            raise
        return _complain(f"it needs the extra `mcp`: pip install 'jsonrpc_fast[mcp]' ({error.name} is missing)")
    from ..errors import ConnectionLost
    from ..transports import debug

    if configuration.debug:
        debug.enable()
    else:
        warnings = logging.StreamHandler()
        warnings.setFormatter(logging.Formatter("jsonrpc-fast serve: %(message)s"))
        debug.logger.addHandler(warnings)
    try:
        folder = TemplateFolder(configuration.template_dir)
    except (OSError, ValueError) as error:
        return _complain(getattr(error, "strerror", None) or str(error))
    try:
        return serve_folder(folder)
    except ConnectionLost as error:
        return _complain(str(error))
    finally:
        folder.close()


def _complain(message: str) -> int:
    print(f"jsonrpc-fast serve: {message}", file=sys.stderr)
    return USAGE


def _shown(path: str) -> str:
    """A name from the command line, with what does not print escaped."""
    return ascii(path) if not path.isprintable() else path


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `serve` with `arguments`, which are the process's own if None. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="jsonrpc-fast")
    commands = parser.add_subparsers(required=True)
    add_parser(commands)
    return run(parser.parse_args(["serve", *(sys.argv[1:] if arguments is None else arguments)]))


if __name__ == "__main__":
    sys.exit(main())
