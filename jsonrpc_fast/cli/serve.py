"""The command `serve`: an MCP server that serves the text templates of a folder, on stdin and stdout or over HTTP.

On stdin and stdout, stdout carries the protocol only. Everything else goes to stderr: why the server does not start,
which templates are invalid, and with `--debug` a line for each message and fault, without payloads.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._typing import Self
from .arguments import address_of
from .output import WAITING_FOR_CLIENT, announce_waiting, printable, run_server_command

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
            os.scandir(given).close()  # opening it shows that it can be read, which `os.access` only guesses
        except FileNotFoundError:
            raise ValueError(f"there is no folder {printable(given)}") from None
        except NotADirectoryError:
            raise ValueError(f"{printable(given)} is not a folder") from None
        except OSError as error:
            raise ValueError(f"cannot read the folder {printable(given)}: {error.strerror}") from None
        return cls(
            template_dir=Path(given).absolute(),
            debug=options.debug,
            address=address_of(options),
            allowed_hosts=options.allow_host,
            allowed_origins=options.allow_origin,
        )


def run(options: argparse.Namespace) -> int:
    """Run the command until the client or a signal ends it. Return the exit status."""
    extra = "mcp" if options.http is None else "mcp-http"
    return run_server_command(_PROGRAM, extra, options.debug, lambda: _serve(ServeConfiguration.of(options)))


def _serve(configuration: ServeConfiguration) -> int:
    from ..mcp.templates.server import TemplateFolder, serve_folder, serve_folder_over_http

    folder = TemplateFolder(configuration.template_dir)
    try:
        # On a terminal, where a person would otherwise see nothing happen.
        if configuration.address is None:
            announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
            return serve_folder(folder)
        hosts, origins = configuration.allowed_hosts, configuration.allowed_origins
        return serve_folder_over_http(folder, *configuration.address, allowed_hosts=hosts, allowed_origins=origins)
    finally:
        folder.close()
