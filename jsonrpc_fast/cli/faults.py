"""How a command that connects or serves ends early: the message on stderr, and the exit status."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable
from typing import Final

from ..errors import CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse, ParseError, RpcError
from ..types import UNSET
from .output import (
    CANNOT_RUN,
    FAILURE,
    NOT_FOUND,
    escape,
    is_coloured,
    json_text,
    logging_to_stderr,
    missing_extra,
    print_error,
    styled,
)

ERROR: Final = 1
"""The server responded with an error."""
LOST: Final = 3
"""The connection failed, or what the server sent is not a response."""
_LATE: Final = 4
"""No response came in time."""
_PROGRAM_STATUSES: Final = {errno.ENOENT: NOT_FOUND, errno.EACCES: CANNOT_RUN, errno.ENOEXEC: CANNOT_RUN}


class OutputError(Exception):
    """stdout cannot be written: the argument is the OSError, which the connection did not cause."""


def run_reporting(options: argparse.Namespace, extra: str, run: Callable[[], int]) -> int:
    """Run a command with its log on stderr, and report what ends it early. Return the exit status.

    Args:
        options: The options of the command line.
        extra: The extra that brings what may be missing.
        run: Runs the command.
    """
    program = f"jsonrpc-fast {options.command}"
    status = FAILURE
    reason: object
    try:
        with logging_to_stderr(program, options.debug):
            return run()
    except OutputError as error:
        raise error.args[0] from None
    except RpcError as error:
        said = styled(f"error {error.code}", "red", is_coloured(sys.stderr))
        print_error(f"{said}: {escape(error.message)}", program)
        if error.data is not UNSET:
            print_error(f"data: {escape(json_text(error.data))}", program)
        return ERROR
    except (CallTimeout, ConnectionLost, HandshakeError, HttpStatusError, InvalidResponse, ParseError) as error:
        is_late = isinstance(error, CallTimeout) or isinstance(error.__cause__, CallTimeout)
        reason, status = error, _LATE if is_late else LOST
    except ImportError as error:
        # The package's own errors name no module: their texts say what to install.
        reason = error if error.name is None else missing_extra(error, extra)
    except OSError as error:
        reason = error.strerror or error
        if options.command in ("gateway", "relay", "serve"):  # a file cannot be read
            reason = reason if error.filename is None else f"{escape(str(error.filename))}: {reason}"
        else:
            status = _PROGRAM_STATUSES.get(error.errno or 0, LOST) if options.program else LOST
            if not options.mcp:  # an MCP client says itself what it could not start
                reason = f"{(options.program or options.words)[0]}: {reason}"
    except (ValueError, TypeError) as error:
        reason = error
    print_error("\n".join(map(escape, str(reason).splitlines())), program)
    return status
