"""The encoders of one side of a conversation: they follow its profile, and use the form of messages that the peer uses.

A profile that reads messages without `jsonrpc` sets the form for a peer that has not written yet, or whose first
message has no `jsonrpc`. A peer whose first message has it, valid or not, gets JSON-RPC 2.0 from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from ..errors import EncodeError
from ..profile import JSONRPC, Profile, is_plain
from ..support import pointer_to
from ..types import UNSET, MessageId, Unset
from ._backend import (
    Notification,
    Request,
    dumps,
    encode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ._json import Default


class Encoders:
    """The encoders of the codec, adapted to a profile. For a usual profile they are the functions of the codec itself.

    Attributes:
        encode: Like `jsonrpc_fast.encode`. The next four are like the functions of the same names.
        profile: The profile by which messages are written now: what the peer writes may change it.
    """

    __slots__ = (
        "_is_peer_known",
        "encode",
        "encode_error",
        "encode_notification",
        "encode_request",
        "encode_result",
        "profile",
    )

    def __init__(self, profile: Profile) -> None:
        self.profile: Profile = profile
        self._is_peer_known = not depends_on_peer(profile)
        self.encode: Callable[..., bytes] = self._of(encode)
        self.encode_error: Callable[..., bytes] = self._of(encode_error)
        self.encode_notification: Callable[..., bytes] = self._of(encode_notification)
        self.encode_request: Callable[..., bytes] = self._of(encode_request)
        self.encode_result: Callable[..., bytes] = self._of(encode_result)

    def _of(self, function: Callable[..., bytes]) -> Callable[..., bytes]:
        return function if is_plain(self.profile) else partial(self._encode, function)

    def default_of(self, default: Default) -> Default:
        """Return the `default` that payloads are written with."""
        if is_plain(self.profile):
            return default
        from ._forms import default_of  # loaded only for such profiles

        return default_of(self.profile, default)

    def encode_call(
        self,
        method: str,
        params: Any,
        id: MessageId | Unset = UNSET,
        *,
        delimited: bool = True,
        default: Default = None,
        option: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return a request, or a notification without an id. The error of the encoder also says where the value is.

        `extra` holds further members of the message.
        """
        try:
            if extra:
                more: Any = dict(extra)
                message: Any = (
                    Notification(method, params, extra=more)
                    if isinstance(id, Unset)
                    else Request(id, method, params, extra=more)
                )
                return self.encode(message, delimited=delimited, default=default, option=option)
            if isinstance(id, Unset):
                return self.encode_notification(method, params, delimited=delimited, default=default, option=option)
            return self.encode_request(id, method, params, delimited=delimited, default=default, option=option)
        except EncodeError as error:
            found = explained(error, method, params, self.default_of(default), option, id=id, extra=extra)
            raise found from error.__cause__

    def listener(self) -> Callable[[Any], bool] | None:
        """Return a function to call with each input of the peer before it is decoded; None if the form cannot change.

        It returns whether the form is settled: no further input changes it.
        """
        return None if self._is_peer_known else self._listen

    def _listen(self, text: Any) -> bool:
        if not self._is_peer_known:
            # None for a line of a log, for example, which does not show the form that the peer uses.
            found = has_jsonrpc(text)
            self._is_peer_known = found is not None
            if found:
                self.profile = _plain_of(self.profile)
        return self._is_peer_known

    def _encode(self, function: Callable[..., bytes], *members: Any, **options: Any) -> bytes:
        return function(*members, profile=self.profile, **options)


def depends_on_peer(profile: Profile) -> bool:
    """Return whether messages are written in the form that the peer uses."""
    return profile.writes != "2.0" and profile.optional_jsonrpc


@lru_cache(8)  # the same object each time: the rules of a profile are found by its identity
def _plain_of(profile: Profile) -> Profile:
    return profile.replace(writes="2.0")


# These are compiled when a profile needs them, not when the module is imported.
_TOKEN: Final = rb'(?s)"([^"\\]*(?:\\.[^"\\]*)*)"?(\s*:)?|([\[{]+)|[\]}]+'


def has_jsonrpc(text: bytes | bytearray | memoryview | str) -> bool | None:
    """Return whether a message, or an item of a batch, has the member `jsonrpc`. The input need not be valid, nor JSON.

    Returns:
        None for input without any member of a message, such as a line of a log.
    """
    data = text.encode(errors="replace") if isinstance(text, str) else bytes(text)
    # Fast path: most writers begin with `jsonrpc`.
    if re.match(rb'\s*(?:\[\s*)?\{\s*"jsonrpc"\s*:', data) is not None:
        return True
    otherwise = None if re.search(rb'"(?:id|method|params|result|error)"\s*:', data) is None else False
    # Without this text and without an escape for a lower-case letter, no member can have the name.
    if re.search(rb"jsonrpc|\\u00[67]", data) is None:
        return otherwise
    depth = place = 0  # place: the depth of the members
    # Only strings, colons and brackets are read, so input that is cut off or not JSON is understood as far as possible.
    for token in re.finditer(_TOKEN, data):
        name, colon, opened = token.groups()
        if colon is not None:
            # Only at the depth of the members: a payload may have a member of this name, too.
            if depth == place and re.sub(rb"\\u00([67][0-9a-fA-F])", _letter, name) == b"jsonrpc":
                return True
        elif opened is not None:
            # The first brackets: "{" for a message, "[{" for a batch, whose members are one level deeper.
            place = place or 1 + opened.startswith(b"[")
            depth += len(opened)
        elif name is None:
            depth -= token.end() - token.start()
    return otherwise


def _letter(escape: re.Match[bytes]) -> bytes:
    return bytes((int(escape[1], 16),))


PLAIN: Final = Encoders(JSONRPC)
"""The encoders of the codec itself."""


# The search for a value that cannot be written, after the encoder has refused the payload.


def explained(
    error: EncodeError,
    method: str,
    params: Any,
    default: Default = None,
    option: int = 0,
    *,
    id: MessageId | Unset = UNSET,
    extra: Mapping[str, Any] | None = None,
) -> EncodeError:
    """Return the error for a request or notification that an encoder has refused: it names the method and the place of
    the value."""
    # A lone surrogate in one of these: the text of the error cannot show it, either.
    for name, member in (("method", method), ("id", id)):
        try:
            str(member).encode()
        except UnicodeEncodeError:
            return EncodeError(f"{error}: the {name}")
    place = _place_of(params, default, option)
    if not place and extra and (place := _place_of(dict(extra), default, option)):
        return EncodeError(f"{error}: {place} of extra, in {method}")
    return EncodeError(f"{error}: {place or 'the params'} of {method}")


def _place_of(value: Any, default: Default, option: int) -> str:
    """Return the JSON pointer to the first value that cannot be written, as deep as can be determined."""
    place: list[str | int] = []
    # The largest number of values that are tried, so that the search takes less time than the call.
    left = 1000
    while isinstance(value, (dict, list, tuple)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            left -= 1
            if not left:
                return pointer_to(place)
            try:
                # Encoding each part again takes quadratic time in the worst case, so the number of tries is bounded.
                dumps(part, default, option)
            except (EncodeError, RecursionError):
                place.append(name)
                value = part
                break
            except Exception:  # whatever a `default` raises
                return pointer_to(place)
        else:
            break  # a key
    return pointer_to(place)
