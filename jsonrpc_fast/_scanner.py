"""Reading a message's envelope from its text, in plain Python: the specification of `_scanner.pxd`.

A strict reader of RFC 8259 that builds no objects. It tells where the text stops being JSON and where the
members of each message lie. The text must be UTF-8 already; then everything outside strings is judged byte by byte.

The offset of a fault is
  - that of the first byte that cannot stand where it does, or the length of the text where it ends too early;
  - in a string, that of the control character, or of the backslash of the escape that is wrong (a lone surrogate is);
  - that of the first digit or minus of a number too large for a double.
So where the offset is the length of the text, more text could have made it JSON. (And where the text ends in a number
that is too large: a negative exponent might have come.)

No function here calls itself: nesting is kept in a bytearray of the closing brackets that are due.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final, NamedTuple

from ._json import is_wide_integer, loads
from .kinds import ERROR_MEMBERS

MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})


class Malformed(Exception):
    """The text is not JSON from `offset` on."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Value(NamedTuple):
    """Where a value lies: text[start:end]. How deep it nests; whether it holds an integer beyond 64 bits."""

    start: int
    end: int
    depth: int
    wide: bool


class Envelope(NamedTuple):
    """One message of a text: the last member of each name that JSON-RPC knows, and what else there was.

    `members` is None for a message that is not an object.
    """

    members: dict[str, Value] | None
    depth: int
    duplicates: bool = False
    unexpected: bool = False


class Text(NamedTuple):
    """A whole text: one message, or the messages of a batch and whether there were more than asked for."""

    is_batch: bool
    envelopes: list[Envelope]
    too_many: bool = False


_space = re.compile(rb"[ \t\n\r]*").match
_plain = re.compile(rb'[^"\\\x00-\x1f]*').match
# A high surrogate must be followed by a low one, and a low one must follow a high one.
_escape = re.compile(
    rb'\\(?:["\\/bfnrt]|u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?![dD][89a-fA-F])[0-9a-fA-F]{4}))'
).match
_escape_begun = re.compile(
    rb"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?)?"
).fullmatch
_surrogate = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# Every beginning of a number: it is one when it ends in a digit.
_number = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:(?<=[0-9])\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?").match
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b'{}[]"')))
_DIGITS_AND_MINUS: Final = frozenset(b"-0123456789")


def scan(text: bytes, *, any_width: bool, batch_items: int) -> Text:
    """The envelopes in `text`, which is UTF-8. Raises Malformed.

    any_width: an integer may be too large for a double. An id always may.
    """
    at = _space(text).end()  # type: ignore[union-attr]
    if at < len(text) and text[at] == _OPEN_ARRAY:
        return _scan_batch(text, at, any_width, batch_items)
    envelope, at = _scan_message(text, at, any_width)
    _end_of_text(text, at)
    return Text(False, [envelope])


def _scan_batch(text: bytes, at: int, any_width: bool, batch_items: int) -> Text:
    envelopes: list[Envelope] = []
    too_many = False
    at = _skip_space(text, at + 1)
    if _byte(text, at) == _CLOSE_ARRAY:
        _end_of_text(text, at + 1)
        return Text(True, envelopes)
    while True:
        envelope, at = _scan_message(text, at, any_width)
        if len(envelopes) < batch_items:
            envelopes.append(envelope)
        else:
            too_many = True
        at = _skip_space(text, at)
        if _byte(text, at) == _CLOSE_ARRAY:
            _end_of_text(text, at + 1)
            return Text(True, envelopes, too_many)
        at = _skip_space(text, _expect(text, at, _COMMA))


def without_surrogates(text: bytes) -> bytes:
    """`text` with other escapes, as long, in place of surrogates and of escaped quotes and backslashes.

    It is JSON where lone surrogates are all that keeps `text` from being that, and its members are at the same places.
    """
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return _surrogate.sub(rb"\\u0000", masked)


class Head(NamedTuple):
    """What the beginning of a text shows: the members' names, and the values that are there whole."""

    names: list[str]
    members: dict[str, Value]


def scan_head(text: bytes) -> Head | None:
    """The members of the object that `text` is the beginning of; None if it cannot be the beginning of one."""
    head = Head([], {})
    at = _space(text).end()  # type: ignore[union-attr]
    try:
        if _byte(text, at) != _OPEN_OBJECT:
            return None
        _end_of_text(text, _scan_object(text, at, True, MEMBERS, head)[1])
    except Malformed as malformed:
        if malformed.offset < len(text):
            return None
    return head


def scan_proven(text: bytes, is_batch: bool) -> list[Envelope]:
    """The envelopes in `text`, which is JSON, and holds an object with members or an array of such.

    Depths and widths are left out. Strings cannot hide what is between them: split at its quotes, the text is outside
    and inside of strings in turn, and the brackets outside tell how deep each string is.
    """
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text
    parts = masked.split(b'"')
    outside = parts[::2]
    brackets = b'"'.join(outside).translate(None, _NOT_BRACKETS).split(b'"')
    depths = accumulate(map(_Deltas().__getitem__, brackets))
    ends = list(accumulate(map(len, parts)))
    level = 2 if is_batch else 1
    envelopes: list[Envelope] = []
    members: dict[str, Value] = {}
    duplicates = unexpected = False
    name, start = "", 0  # of the member begun

    def end_member(end: int) -> None:
        if name in MEMBERS:
            members[name] = Value(start, start + len(text[start:end].rstrip(b" \t\n\r")), 0, False)

    for index in [index for index, depth in enumerate(depths) if depth == level]:
        before = outside[index].rstrip(b" \t\n\r")
        if before.endswith(b":"):
            continue  # a value
        at = ends[2 * index] + 2 * index  # the name's opening quote
        before_at = at - len(outside[index])
        if before.endswith(b"{"):
            if before_at:
                end_member(text.rindex(b"}", before_at, before_at + len(before) - 1))
                envelopes.append(Envelope(members, 0, duplicates, unexpected))
            members = {}
            duplicates = unexpected = False
        else:
            end_member(before_at + len(before) - 1)
        end = ends[2 * index + 1] + 2 * index + 2
        name = _member_name(text[at:end])
        if name in MEMBERS:
            duplicates = duplicates or name in members
        else:
            unexpected = True
        start = _skip_space(text, text.index(b":", end) + 1)
    last = len(text.rstrip(b" \t\n\r"))
    if is_batch:
        last = len(text[: last - 1].rstrip(b" \t\n\r"))
    end_member(last - 1)
    envelopes.append(Envelope(members, 0, duplicates, unexpected))
    return envelopes


class _Deltas(dict[bytes, int]):
    """How much deeper it is behind brackets than before them."""

    def __missing__(self, brackets: bytes) -> int:
        opened = brackets.count(b"{") + brackets.count(b"[")
        delta = self[brackets] = 2 * opened - len(brackets)
        return delta


def scan_value(text: bytes) -> Value:
    """The one value that `text`, which is UTF-8, holds. Raises Malformed."""
    value = _scan_value(text, _skip_space(text, 0), any_width=False)
    _end_of_text(text, value.end)
    return value


def scan_error(text: bytes, error: Value) -> Envelope | None:
    """The members of an error object, as of a message; None if the value is no object."""
    if text[error.start] != _OPEN_OBJECT:
        return None
    return _scan_object(text, error.start, True, ERROR_MEMBERS)[0]


def _scan_message(text: bytes, at: int, any_width: bool) -> tuple[Envelope, int]:
    if _byte(text, at) == _OPEN_OBJECT:
        return _scan_object(text, at, any_width, MEMBERS)
    value = _scan_value(text, at, any_width)
    return Envelope(None, value.depth), value.end


def _scan_object(
    text: bytes, at: int, any_width: bool, names: frozenset[str], head: Head | None = None
) -> tuple[Envelope, int]:
    """The object at `at`, of whose members those of `names` count, and where it ends.

    head: takes what is read even if the text ends too early.
    """
    members: dict[str, Value] = {} if head is None else head.members
    depth = 0
    duplicates = unexpected = False
    at = _skip_space(text, at + 1)
    if _byte(text, at) == _CLOSE_OBJECT:
        return Envelope(members, depth), at + 1
    while True:
        end = _scan_string(text, at)
        name = _member_name(text[at:end])
        at = _skip_space(text, _expect(text, _skip_space(text, end), _COLON))
        if head is not None and name in names:
            head.names.append(name)
        value = _scan_value(text, at, any_width or name == "id")
        depth = max(depth, value.depth)
        if name in names:
            duplicates = duplicates or name in members
            members[name] = value
        else:
            unexpected = True
        at = _skip_space(text, value.end)
        if _byte(text, at) == _CLOSE_OBJECT:
            return Envelope(members, depth, duplicates, unexpected), at + 1
        at = _skip_space(text, _expect(text, at, _COMMA))


def _member_name(token: bytes) -> str:
    """The name that a string token stands for, escapes read; "" where it is too long for any that counts."""
    if len(token) > len('""') + len("jsonrpc") * len("\\u0000"):
        return ""
    name: str = loads(token)
    return name


def _scan_value(text: bytes, at: int, any_width: bool) -> Value:
    """The value that begins at `at`."""
    start = at
    due = bytearray()
    depth = 0
    wide = False
    while True:
        # A value begins here.
        byte = _byte(text, at)
        if byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            closing = _CLOSE_OBJECT if byte == _OPEN_OBJECT else _CLOSE_ARRAY
            at = _skip_space(text, at + 1)
            if _byte(text, at) != closing:
                due.append(closing)
                depth = max(depth, len(due))
                if closing == _CLOSE_OBJECT:
                    at = _scan_name(text, at)
                continue
            depth = max(depth, len(due) + 1)
            at += 1
        elif byte == _QUOTE:
            at = _scan_string(text, at)
        elif byte in _DIGITS_AND_MINUS:
            end = _scan_number(text, at, any_width)
            wide = wide or is_wide_integer(text[at:end])
            at = end
        else:
            at = _scan_literal(text, at)
        # A value ended here, and with it perhaps the containers around it.
        while True:
            if not due:
                return Value(start, at, depth, wide)
            at = _skip_space(text, at)
            if _byte(text, at) != due[-1]:
                break
            due.pop()
            at += 1
        at = _skip_space(text, _expect(text, at, _COMMA))
        if due[-1] == _CLOSE_OBJECT:
            at = _scan_name(text, at)


def _scan_name(text: bytes, at: int) -> int:
    """Past a member's name, its colon and the space around it."""
    return _skip_space(text, _expect(text, _skip_space(text, _scan_string(text, at)), _COLON))


def _scan_string(text: bytes, at: int) -> int:
    at = _expect(text, at, _QUOTE)
    while True:
        at = _plain(text, at).end()  # type: ignore[union-attr]
        byte = _byte(text, at)
        if byte == _QUOTE:
            return at + 1
        escape = _escape(text, at)
        if escape is None:
            # Too short, or wrong?
            raise Malformed(len(text) if len(text) - at < 12 and _escape_begun(text, at) else at)
        at = escape.end()


def _scan_number(text: bytes, at: int, any_width: bool) -> int:
    end = _number(text, at).end()  # type: ignore[union-attr]
    if text[end - 1] not in b"0123456789":
        raise Malformed(end)
    token = text[at:end]
    is_integer = token.removeprefix(b"-").isdigit()
    if not (is_integer and (any_width or len(token) <= 308)) and float(token) in (float("inf"), float("-inf")):
        raise Malformed(at)
    return end


def _scan_literal(text: bytes, at: int) -> int:
    literal = _LITERALS.get(text[at])
    if literal is None:
        raise Malformed(at)
    for byte in literal:
        at = _expect(text, at, byte)
    return at


def _skip_space(text: bytes, at: int) -> int:
    return _space(text, at).end()  # type: ignore[union-attr]


def _byte(text: bytes, at: int) -> int:
    if at == len(text):
        raise Malformed(at)
    return text[at]


def _expect(text: bytes, at: int, byte: int) -> int:
    if at == len(text) or text[at] != byte:
        raise Malformed(at)
    return at + 1


def _end_of_text(text: bytes, at: int) -> None:
    at = _skip_space(text, at)
    if at != len(text):
        raise Malformed(at)
