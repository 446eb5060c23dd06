"""The command `serve`: an MCP server on stdin and stdout that serves the text templates of a folder.

stdout carries the protocol only. Everything else goes to stderr: why the server does not start, which templates are
invalid, and with `--debug` a line for each message and fault, without payloads.
"""

from __future__ import annotations

import argparse
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .output import FAILURE, print_error, printable

if TYPE_CHECKING:
    from typing_extensions import Self

_PROGRAM: Final = "jsonrpc-fast serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfiguration:
    """The checked options of the command line.

    Attributes:
        template_dir: The absolute path of the folder, which exists and can be read.
        debug: Whether to log each message and fault to stderr.
    """

    template_dir: Path
    debug: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Return the configuration of a parsed command line.

        Raises:
            ValueError: The folder cannot be served. The error's text is for the user.
        """
        given: str = options.template_dir
        if not given:
            raise ValueError("the name of the folder is empty")
        try:
            os.scandir(given).close()
        except FileNotFoundError:
            raise ValueError(f"there is no folder {printable(given)}") from None
        except NotADirectoryError:
            raise ValueError(f"{printable(given)} is not a folder") from None
        except OSError as error:
            raise ValueError(f"cannot read the folder {printable(given)}: {error.strerror}") from None
        return cls(template_dir=Path(given).absolute(), debug=options.debug)


def run(options: argparse.Namespace) -> int:
    """Run the command until the client or a signal ends it. Return the exit status."""
    try:
        configuration = ServeConfiguration.of(options)
    except ValueError as error:
        return _fail(str(error))
    try:
        from ..mcp.templates.server import TemplateFolder, serve_folder
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__.partition(".")[0]):
            raise
        return _fail(f"{error.name} is missing; install the extra: pip install 'jsonrpc_fast[mcp]'")
    from ..errors import ConnectionLost
    from ..transports import debug

    if configuration.debug:
        debug.enable()
    else:
        warnings = logging.StreamHandler()
        warnings.setFormatter(logging.Formatter(f"{_PROGRAM}: %(message)s"))
        debug.logger.addHandler(warnings)
    try:
        folder = TemplateFolder(configuration.template_dir)
    except (OSError, ValueError) as error:
        return _fail(getattr(error, "strerror", None) or str(error))
    try:
        return serve_folder(folder)
    except ConnectionLost as error:
        return _fail(str(error))
    finally:
        folder.close()


def _fail(message: str) -> int:
    print_error(message, _PROGRAM)
    return FAILURE
