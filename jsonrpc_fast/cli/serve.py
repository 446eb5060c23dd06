"""The command `serve`: an MCP server that serves the text templates of a folder, on stdin and stdout or over HTTP.

On stdin and stdout, stdout carries the protocol only. Everything else goes to stderr: why the server does not start,
which templates are invalid, and with `--debug` a line for each message and fault, without payloads.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Final

from .arguments import address_of
from .output import WAITING_FOR_CLIENT, announce_waiting, escape, run_server_command

_PROGRAM: Final = "jsonrpc-fast serve"


def run(options: argparse.Namespace) -> int:
    """Run the command until the client or a signal ends it. Return the exit status."""
    extra = "mcp" if options.http is None else "mcp-http"
    return run_server_command(_PROGRAM, extra, options.debug, partial(_serve, options))


def _serve(options: argparse.Namespace) -> int:
    path = _folder_of(options.template_dir)
    place = address_of(options)
    from ..mcp.templates.server import TemplateFolder, serve_folder, serve_folder_over_http

    folder = TemplateFolder(path)
    try:
        # On a terminal, where a person would otherwise see nothing happen.
        if place is None:
            announce_waiting(WAITING_FOR_CLIENT, _PROGRAM)
            return serve_folder(folder)
        hosts, origins = options.allow_host, options.allow_origin
        return serve_folder_over_http(folder, *place, allowed_hosts=hosts, allowed_origins=origins)
    finally:
        folder.close()


def _folder_of(given: str) -> Path:
    """Return the absolute path of a folder that exists and can be read.

    Raises:
        ValueError: The folder cannot be served. The error's text is for the user.
    """
    if not given:
        raise ValueError("the name of the folder is empty")
    try:
        os.scandir(given).close()  # opening it shows that it can be read, which `os.access` only guesses
    except FileNotFoundError:
        raise ValueError(f"there is no folder {escape(given)}") from None
    except NotADirectoryError:
        raise ValueError(f"{escape(given)} is not a folder") from None
    except OSError as error:
        raise ValueError(f"cannot read the folder {escape(given)}: {error.strerror}") from None
    return Path(given).absolute()
