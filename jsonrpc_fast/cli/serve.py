"""The command `serve`: an MCP server that serves the text templates of a folder, on stdin and stdout or over HTTP.

On stdin and stdout, stdout carries the protocol only. Everything else goes to stderr: why the server does not start,
which templates are invalid, and with `--debug` a line for each message and fault, without payloads.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .arguments import parse_address
from .output import (
    FAILURE,
    WAITING_FOR_CLIENT,
    announce_waiting,
    logging_to_stderr,
    missing_extra,
    print_error,
    printable,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_PROGRAM: Final = "jsonrpc-fast serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfiguration:
    """The checked options of the command line.

    Attributes:
        template_dir: The absolute path of the folder, which exists and can be read.
        debug: Whether to log each message and fault to stderr.
        address: Host and port to serve HTTP on; None: serve stdin and stdout.
        allowed_hosts: Names for the `Host` header; None: those of the loopback interface.
        allowed_origins: Values for the `Origin` header; None: those of the loopback interface.
    """

    template_dir: Path
    debug: bool = False
    address: tuple[str, int] | None = None
    allowed_hosts: list[str] | None = None
    allowed_origins: list[str] | None = None

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
        if options.http is None and (options.allow_host or options.allow_origin):
            raise ValueError("--allow-host and --allow-origin need --http")
        return cls(
            template_dir=Path(given).absolute(),
            debug=options.debug,
            address=None if options.http is None else parse_address(options.http),
            allowed_hosts=options.allow_host,
            allowed_origins=options.allow_origin,
        )


def run(options: argparse.Namespace) -> int:
    """Run the command until the client or a signal ends it. Return the exit status."""
    try:
        configuration = ServeConfiguration.of(options)
    except ValueError as error:
        return _fail(str(error))
    try:
        with logging_to_stderr(_PROGRAM, configuration.debug):
            return _serve(configuration)
    except ModuleNotFoundError as error:
        return _fail(missing_extra(error, "mcp" if configuration.address is None else "mcp-http"))


def _serve(configuration: ServeConfiguration) -> int:
    from ..errors import ConnectionLost
    from ..mcp.templates.server import TemplateFolder, serve_folder, serve_folder_over_http

    try:
        folder = TemplateFolder(configuration.template_dir)
    except (OSError, ValueError) as error:
        return _fail(getattr(error, "strerror", None) or str(error))
    try:
        if configuration.address is None:
            announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
            return serve_folder(folder)
        hosts, origins = configuration.allowed_hosts, configuration.allowed_origins
        return serve_folder_over_http(folder, *configuration.address, allowed_hosts=hosts, allowed_origins=origins)
    except (ConnectionLost, ImportError) as error:
        return _fail(str(error))
    finally:
        folder.close()


def _fail(message: str) -> int:
    print_error(message, _PROGRAM)
    return FAILURE
