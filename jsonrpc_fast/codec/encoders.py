"""The encoders of one side of a conversation: they write what its profile says, in the form that the peer uses.

A profile that reads messages with and without `jsonrpc` says what this side writes until a message of the peer has been
read. A peer whose first message has `jsonrpc` gets JSON-RPC 2.0 from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ..codes import ParseErrorCode
from ..profile import JSONRPC, Profile, WrittenForm
from ._backend import (
    ParseError,
    Raw,
    decode,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ._forms import default_of, encode_as, is_plain, written_as
from ._json import Default


class Encoders:
    """Functions like those of the codec, for a profile. Where it is a usual one, they are those of the codec.

    Args:
        profile: The profile.

    Attributes:
        encode: As in the codec, like the next four.
        form: The form of what is written.
    """

    __slots__ = (
        "_is_known",
        "_profile",
        "encode",
        "encode_error",
        "encode_notification",
        "encode_request",
        "encode_result",
        "form",
    )

    def __init__(self, profile: Profile = JSONRPC) -> None:
        self._profile = profile
        self._is_known = False  # whether the peer has been heard
        self.form: WrittenForm = profile.writes
        self.encode: Callable[..., bytes] = encode if is_plain(profile) else self._encode
        self.encode_error: Callable[..., bytes] = self._of(encode_error)
        self.encode_notification: Callable[..., bytes] = self._of(encode_notification)
        self.encode_request: Callable[..., bytes] = self._of(encode_request)
        self.encode_result: Callable[..., bytes] = self._of(encode_result)

    def _of(self, function: Callable[..., bytes]) -> Callable[..., bytes]:
        return function if is_plain(self._profile) else partial(self._encode_members, function)

    def default_of(self, default: Default) -> Default:
        """Return the `default` that payloads are written with."""
        return default_of(self._profile, default)

    def reader(self, raw: bool) -> Callable[[Any], Any] | None:
        """Return a `decode` that finds the form of the peer; None if that changes nothing."""
        if self.form == "2.0" or not self._profile.optional_jsonrpc:
            return None
        return partial(self._read, raw=raw)

    def _read(self, text: Any, *, raw: bool) -> Any:
        if not self._is_known:
            form = form_of(text, self._profile)
            if form is not None:
                self._is_known, self.form = True, form
        return decode(text, self._profile, raw=raw)

    def _encode(self, message: Any, *, delimited: bool = True, default: Default = None, option: int = 0) -> bytes:
        return encode_as(encode, message, self._profile, delimited, default, option, self.form)

    def _encode_members(
        self,
        function: Callable[..., bytes],
        *members: Any,
        delimited: bool = True,
        default: Default = None,
        option: int = 0,
    ) -> bytes:
        text = function(*members, delimited=False, default=default_of(self._profile, default), option=option)
        text = written_as(text, self.form)
        return text + b"\n" if delimited else text


PLAIN: Final = Encoders()
"""Those of the codec."""


def form_of(text: Any, profile: Profile) -> WrittenForm | None:
    """Return the form in which to respond to a text: "2.0" if it has `jsonrpc`, else that of the profile.

    Args:
        text: A JSON text.
        profile: A profile that reads messages with and without `jsonrpc`.

    Returns:
        The form; None for what is no message.
    """
    found = decode(text, profile.replace(optional_jsonrpc=False), raw=True)
    first = found[0] if isinstance(found, list) else found
    if not isinstance(first, ParseError):
        return "2.0"
    return profile.writes if first.code is ParseErrorCode.MISSING_JSONRPC else None


def response_as(text: bytes, form: WrittenForm) -> bytes:
    """Return a response, or a batch of them, in a form.

    Args:
        text: The response as the encoders of the codec write it; b"" for none.
        form: The form.
    """
    if form == "2.0" or not text:
        return text
    end = b"\n" if text.endswith(b"\n") else b""
    line = text.removesuffix(b"\n")
    if not line.startswith(b"["):
        return written_as(line, form) + end
    batch = Raw(line)
    texts: list[bytes] = []
    while (part := batch.get([len(texts)])) is not None:
        texts.append(written_as(bytes(part), form))
    return b"[" + b",".join(texts) + b"]" + end
