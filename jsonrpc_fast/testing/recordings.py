"""Recorded conversations: a file with one line of JSON for each message, for `tap --record`, `replay` and tests.

    {"time":1764000000.125,"connection":1,"from":"client","message":{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}}
    {"time":1764000000.127,"connection":1,"from":"server","message":{"jsonrpc":"2.0","id":1,"result":3}}

Rules:
  - `time` is in seconds since 1970, `connection` is a number that distinguishes conversations in one file, and `from`
    is "client" or "server".
  - `message` is a message or a batch as it was sent, with spaces in place of line breaks between tokens. Input that is
    not JSON is in the member `invalid` instead, as a string.
  - Readers ignore other members. Blank lines are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal, NamedTuple, TypeAlias, get_args

from ..codec import Raw
from ..codec._json import on_one_line
from ..profile import Limits

__all__ = ["Recorded", "Sender", "is_recording", "read_recording", "record_line"]

Sender: TypeAlias = Literal["client", "server"]
"""Which side sent a message."""

# A message of the largest default size, and the members around it.
MAX_LINE_BYTES: Final = Limits().message_bytes + 4096
"""The maximum size of a line, in bytes."""


class Recorded(NamedTuple):
    """A line of a recording.

    Attributes:
        time: When the message was sent, in seconds since 1970.
        sender: Who sent it.
        message: The message or batch; None if the input was not JSON.
        connection: The number of the conversation.
        line: The number of the line in its file, counted from 1; 0 if it was not read from one.
    """

    time: float
    sender: Sender
    message: Raw | None
    connection: int = 1
    line: int = 0


def record_line(text: bytes, sender: Sender, *, time: float, connection: int = 1) -> bytes:
    """Return the line for a message that was sent.

    Args:
        text: The bytes of the message, without framing.
        sender: "client" or "server".
        time: Seconds since 1970.
        connection: The number of the conversation.

    Returns:
        One line of JSON, with its line break.
    """
    try:
        member, value = b"message", on_one_line(bytes(Raw(text)))
    except ValueError:
        # Escaped as ASCII. Bytes that are not UTF-8 are shown, but cannot be restored.
        member, value = b"invalid", json.dumps(text.decode("utf-8", "replace")).encode()
    return b'{"time":%.6f,"connection":%d,"from":"%s","%s":%s}\n' % (time, connection, sender.encode(), member, value)


def is_recording(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is a recording."""
    return start.lstrip().startswith(b'{"time":')


def read_recording(file: BinaryIO) -> Iterator[Recorded]:
    """Read a recording line by line.

    Args:
        file: A file that is opened for reading bytes.

    Raises:
        ValueError: A line is malformed or too long. The text has its number.
    """
    number = 0
    # Not `for line in file`, because an endless line would take all memory.
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"line {number} of the recording is longer than {MAX_LINE_BYTES} bytes")
        if line.isspace():
            continue
        try:
            recorded = _recorded(line, number)
        except ValueError:
            recorded = None
        if recorded is None:
            raise ValueError(f"line {number} is not a line of a recording")
        yield recorded


def _recorded(line: bytes, number: int) -> Recorded | None:
    members = dict(Raw(line).items())
    # Kept as `Raw`: `replay` sends the text that was recorded, and numbers keep their digits.
    message = members.pop("message", None)
    found = {name: members[name].decode() for name in ("time", "connection", "from", "invalid") if name in members}
    sender: Any
    time, connection, sender = (found.get(name) for name in ("time", "connection", "from"))
    if not isinstance(time, (int, float)) or type(connection) is not int or sender not in get_args(Sender):
        return None
    if abs(time) > 2**53:  # a float cannot hold every int
        return None
    if (message is None) is not isinstance(found.get("invalid"), str):
        return None
    return Recorded(float(time), sender, message, connection, number)
