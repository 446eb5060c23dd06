"""The envelope scanner in plain Python: the specification of `_scanner.pxd`.

A strict scanner for RFC 8259 that builds no objects. It finds where the text stops being JSON, and where the members of
each message are.

Rules:
  - The text is UTF-8; the caller checks that.
  - The offset of a fault is that of the first byte that is not allowed in its place, or the length of the text if the
    text ends too early: more bytes could make it JSON. In a string, it is that of the control character, or of the
    backslash of the invalid escape (or lone surrogate). A number with a fraction or an exponent that is too large for a
    double has that of the first digit or the minus sign, unless it ends the text, which is then incomplete.
  - No function is recursive: a bytearray holds the closing brackets of the open containers.

Theory of operation: the text is read token by token, but usual values in a row, or usual members, are one match of a
regular expression. Such a match contains no bracket, no escape and no integer beyond 64 bits, and is never wrong: where
it ends, the next token is read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..types import ENVELOPE_MEMBERS, ERROR_MEMBERS
from ._json import is_wide_integer, loads


class Malformed(Exception):
    """The text is not JSON from `offset` on."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class ScannedValue(NamedTuple):
    """The place of a value, text[start:end], its depth, and whether it holds an integer beyond 64 bits."""

    start: int
    end: int
    depth: int
    wide: bool


class Envelope(NamedTuple):
    """The envelope of one message: the last member of each name that JSON-RPC defines.

    `members` is None for a message that is not an object. `duplicates`: 1 if a member occurs twice, 2 if the id does.
    `unexpected`: there are other members. `start`: where the object begins.
    """

    members: dict[str, ScannedValue] | None
    depth: int
    duplicates: int = 0
    unexpected: bool = False
    start: int = 0


class ScannedText(NamedTuple):
    """The messages of a whole text: one, or those of a batch. `too_many`: the batch has more, which were not read."""

    is_batch: bool
    envelopes: list[Envelope]
    too_many: bool = False


_space = re.compile(rb"[ \t\n\r]*").match
_plain = re.compile(rb'[^"\\\x00-\x1f]*').match
# A high surrogate must be followed by a low one, and a low one must follow a high one.
_ESCAPE: Final = (
    rb'\\(?:["\\/bfnrt]|u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?![dD][89a-fA-F])[0-9a-fA-F]{4}))'
)
# `re` stores each repetition of a group, so their number is bounded.
_escapes = re.compile(rb'(?:[^"\\\x00-\x1f]*%b){0,1000}' % _ESCAPE).match
# The beginning of an escape that the end of the text cuts off: of "\\uXXXX", or of a surrogate pair of two of these.
_escape_begun = re.compile(
    rb"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?)?"
).fullmatch
_surrogate = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
# The longest beginning of a number. It is a whole number if its last byte is a digit.
_number = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:(?<=[0-9])\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?").match
_S: Final = rb"[ \t\n\r]*"
_plain_name = re.compile(rb'"([^"\\\x00-\x1f]*)"%b:%b' % (_S, _S)).match
# What most texts consist of. Strings with escapes, longer numbers and containers with parts are read token by token.
# Repetitions are bounded, because `re` stores them.
_STRING: Final = rb'"[^"\\\x00-\x1f]*"'
_NUMBER: Final = rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?(?![0-9.eE])"
_SCALAR: Final = rb"%b|%b|true|false|null" % (_STRING, _NUMBER)
_ITEM: Final = rb"(?:%b|(\[%b\]|\{%b\}))" % (_SCALAR, _S, _S)
_usual_scalar = re.compile(_SCALAR).match
_usual_items, _usual_members = (
    # Each part is followed by a comma, except perhaps the last. The groups are containers, which have a depth.
    re.compile(rb"(?:%b%b%b,){0,500}(?:%b%b)?" % (_S, part, _S, _S, part)).match
    for part in (_ITEM, rb"%b%b:%b%b" % (_STRING, _S, _S, _ITEM))
)
# Members that no object of JSON-RPC has, each followed by a comma.
_unknown_members = re.compile(
    rb'(?:%b"(?!(?:%b)")[^"\\\x00-\x1f]*"%b:%b%b%b,){0,500}'
    % (_S, "|".join(ENVELOPE_MEMBERS | ERROR_MEMBERS).encode(), _S, _S, _ITEM, _S)
).match
_arrays_in_arrays, _end_of_arrays = re.compile(rb"\[+").match, re.compile(rb"\]+").match
# The next two are for checked JSON without escaped quotes.
_scalar = re.compile(rb"[^ \t\n\r,\]}]*").match
_to_bracket = re.compile(rb'[^"{}\[\]]*(?:"[^"]*"[^"{}\[\]]*){0,1000}').match
_NAMES: Final = {name.encode(): name for name in ENVELOPE_MEMBERS | ERROR_MEMBERS}
_OPENING: Final = b"[{"
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"


def scan(text: bytes, *, batch_items: int) -> ScannedText:
    """Return the envelopes in `text`, which is UTF-8. Raises Malformed."""
    at = _space(text).end()  # type: ignore[union-attr]
    if at < len(text) and text[at] == _OPEN_ARRAY:
        return _scan_batch(text, at, batch_items)
    envelope, at = _scan_message(text, at)
    _end_of_text(text, at)
    return ScannedText(False, [envelope])


def _scan_batch(text: bytes, at: int, batch_items: int) -> ScannedText:
    envelopes: list[Envelope] = []
    at = _skip_space(text, at + 1)
    if _byte(text, at) == _CLOSE_ARRAY:
        _end_of_text(text, at + 1)
        return ScannedText(True, envelopes)
    while True:
        envelope, at = _scan_message(text, at)
        envelopes.append(envelope)
        at = _skip_space(text, at)
        if _byte(text, at) == _CLOSE_ARRAY:
            _end_of_text(text, at + 1)
            return ScannedText(True, envelopes)
        at = _expect(text, at, _COMMA)
        # After the comma, which promises another item. The rest of the text is not scanned, so the time
        # is bounded by the limit.
        if len(envelopes) == batch_items:
            return ScannedText(True, envelopes, too_many=True)
        at = _skip_space(text, at)


def without_surrogates(text: bytes) -> bytes:
    """Return `text` with surrogates, escaped quotes and escaped backslashes replaced by text of the same length.

    The result is JSON if lone surrogates are the only fault of `text`, with its members at the same places.
    """
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return _surrogate.sub(rb"\\u0000", masked)


class Head(NamedTuple):
    """The members at the beginning of an object: all names, and the values that are complete."""

    names: list[str]
    members: dict[str, ScannedValue]


def scan_begun(text: bytes, batch_items: int = 1) -> tuple[list[Envelope], Head, int]:
    """Return what the beginning of a text holds, up to its end or its first fault: the complete items of a batch, the
    members of the object that is incomplete (or is no item), and where the end or the fault is.

    Of a batch with more than `batch_items` items, only these are read.
    """
    complete: list[Envelope] = []
    head = Head([], {})
    at = _space(text).end()  # type: ignore[union-attr]
    try:
        if _byte(text, at) == _OPEN_OBJECT:
            _end_of_text(text, _scan_object(text, at, ENVELOPE_MEMBERS, head)[1])
            return complete, head, len(text)
        at = _expect(text, at, _OPEN_ARRAY)
        while True:
            at = _skip_space(text, at)
            head = Head([], {})
            if _byte(text, at) == _OPEN_OBJECT:
                envelope, at = _scan_object(text, at, ENVELOPE_MEMBERS, head)
            else:
                envelope, at = _scan_message(text, at)
            complete.append(envelope)
            head = Head([], {})
            at = _expect(text, _skip_space(text, at), _COMMA)
            if len(complete) == batch_items:
                return complete, head, at
    except Malformed as malformed:
        return complete, head, malformed.offset


def scan_head(text: bytes) -> Head | None:
    """Return the members in the beginning of an object; None if `text` is not the beginning of an object."""
    complete, head, fault = scan_begun(text)
    # The end of the head is not a fault: the rest of the text was not given.
    return None if fault < len(text) or complete or not text.lstrip(b" \t\r\n").startswith(b"{") else head


def scan_value(text: bytes) -> ScannedValue:
    """Return the place of the single value in `text`, which is UTF-8. Raises Malformed."""
    value = _scan_value(text, _skip_space(text, 0))
    _end_of_text(text, value.end)
    return value


def scan_error(text: bytes, error: ScannedValue) -> Envelope | None:
    """Return the members of an error object, as of a message; None if the value is not an object."""
    if text[error.start] != _OPEN_OBJECT:
        return None
    return _scan_object(text, error.start, ERROR_MEMBERS)[0]


def scan_unexpected(text: bytes, start: int, names: frozenset[str]) -> list[tuple[str, ScannedValue]]:
    """Return the members of the object at `start`, which is JSON, except those in `names`; duplicates too."""
    members: list[tuple[str, ScannedValue]] = []
    at = _skip_space(text, start + 1)
    while text[at] != _CLOSE_OBJECT:
        end = _scan_string(text, at)
        name = loads(text[at:end])
        value = _scan_value(text, _skip_space(text, text.index(b":", end) + 1))
        if name not in names:
            members.append((name, value))
        at = _skip_space(text, value.end)
        if text[at] == _COMMA:
            at = _skip_space(text, at + 1)
    return members


def parts_of(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the parts of an object or an array in checked JSON: the token of each name, and the value.

    The names are empty in an array. Any other value has no parts. This is much faster than a scan that checks.
    """
    parts: list[tuple[bytes, bytes]] = []
    is_object = text.startswith(b"{")
    if not is_object and not text.startswith(b"["):
        return parts
    # In the masked text, each string ends at the next quote.
    masked = text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text
    at = _skip_space(text, 1)
    while text[at] not in b"]}":
        name = b""
        if is_object:
            end = masked.index(b'"', at + 1) + 1
            name = text[at:end]
            at = _skip_space(text, text.index(b":", end) + 1)
        end = _end_of_value(masked, at)
        parts.append((name, text[at:end]))
        at = _skip_space(text, end)
        if text[at] == _COMMA:
            at = _skip_space(text, at + 1)
    return parts


def _end_of_value(masked: bytes, at: int) -> int:
    """Where the value ends that begins at `at`, in a checked text without escaped quotes."""
    byte = masked[at]
    if byte == _QUOTE:
        return masked.index(b'"', at + 1) + 1
    if byte not in _OPENING:
        return _scalar(masked, at).end()  # type: ignore[union-attr]
    depth = 0
    while True:
        byte = masked[at]
        if byte in _OPENING:
            depth += 1
        elif byte != _QUOTE:  # a bracket
            depth -= 1
            if depth == 0:
                return at + 1
        # At a quote, more strings follow than the pattern repeats: the search continues there.
        at = _to_bracket(masked, at if byte == _QUOTE else at + 1).end()  # type: ignore[union-attr]


def _scan_message(text: bytes, at: int) -> tuple[Envelope, int]:
    if _byte(text, at) == _OPEN_OBJECT:
        return _scan_object(text, at, ENVELOPE_MEMBERS)
    value = _scan_value(text, at)
    return Envelope(None, value.depth), value.end


def _scan_object(text: bytes, at: int, names: frozenset[str], head: Head | None = None) -> tuple[Envelope, int]:
    """The envelope of the object at `at`, with the members in `names`, and where it ends.

    head: collects the members even if the text ends too early.
    """
    members: dict[str, ScannedValue] = {} if head is None else head.members
    depth = 0
    duplicates = 0
    unexpected = False
    opened = at
    at = _skip_space(text, at + 1)
    if _byte(text, at) == _CLOSE_OBJECT:
        return Envelope(members, depth), at + 1
    while True:
        name, value = _scan_member(text, at, names, head)
        depth = max(depth, value.depth)
        if name in names:
            if name in members:
                duplicates = max(duplicates, 2 if name == "id" else 1)
            members[name] = value
        else:
            unexpected = True
        at = _skip_space(text, value.end)
        if _byte(text, at) == _CLOSE_OBJECT:
            return Envelope(members, depth, duplicates, unexpected, opened), at + 1
        at = _expect(text, at, _COMMA)
        # One unknown member may be the first of many.
        if unexpected:
            others = _unknown_members(text, at)
            at = others.end()  # type: ignore[union-attr]
            if others.lastindex is not None:  # type: ignore[union-attr]
                depth = max(depth, 1)
        at = _skip_space(text, at)


def _scan_member(text: bytes, at: int, names: frozenset[str], head: Head | None = None) -> tuple[str, ScannedValue]:
    """The name and the value of the member at `at`."""
    plain = _plain_name(text, at)
    if plain is not None:
        name = _NAMES.get(plain[1], "")
        at = plain.end()
    else:
        end = _scan_string(text, at)
        name = _member_name(text[at:end])
        at = _skip_space(text, _expect(text, _skip_space(text, end), _COLON))
    if head is not None and name in names:
        head.names.append(name)
    return name, _scan_value(text, at)


def _member_name(token: bytes) -> str:
    """The name in a string token, with escapes decoded; "" if it is longer than any known name."""
    # The longest known name with each character written as an escape of six bytes. A longer name is an unknown one, and
    # may be of any size.
    if len(token) > len('""') + len("jsonrpc") * len("\\u0000"):
        return ""
    name: str = loads(token)
    return name


# What may follow, according to the last byte that is neither space nor part of a scalar.
_FIRST: Final = 0  # after "[" or "{"
_NEXT: Final = 1  # after ","
_VALUE: Final = 2  # after ":"
_AFTER: Final = 3  # after a value


def _scan_value(text: bytes, at: int) -> ScannedValue:
    """The place of the value at `at`."""
    scalar = _usual_scalar(text, at)
    if scalar is not None:
        return ScannedValue(at, scalar.end(), 0, False)
    start, size = at, len(text)
    due = bytearray()  # the closing brackets of the open containers
    depth = 0
    wide = False
    state = _VALUE
    while True:
        # Not in front of a container with parts, which does not match.
        if state < _VALUE and (text[at : at + 1] not in _OPENING or text[at : at + 2] in (b"[]", b"{}")):
            usual = (_usual_members if due[-1] == _CLOSE_OBJECT else _usual_items)(text, at)
            end = usual.end()  # type: ignore[union-attr]
            if end != at:
                state = _NEXT if text[end - 1] == _COMMA else _AFTER
                at = end
                if usual.lastindex is not None:  # type: ignore[union-attr]
                    depth = max(depth, len(due) + 1)
        if text[at : at + 1] <= b" ":
            at = _space(text, at).end()  # type: ignore[union-attr]
        if at == size:
            raise Malformed(at)
        byte = text[at]
        if state == _AFTER or (state == _FIRST and byte == due[-1]):
            if byte == due[-1]:
                count = _arrays_ending(text, at, due) if text[at : at + 2] == b"]]" else 1
                del due[-count:]
                at += count
                if not due:
                    return ScannedValue(start, at, depth, wide)
                state = _AFTER
                if text[at : at + 1] == b",":
                    at += 1
                    state = _NEXT
            else:
                at = _expect(text, at, _COMMA)
                state = _NEXT
        elif state != _VALUE and due[-1] == _CLOSE_OBJECT:
            plain = _plain_name(text, at)
            if plain is not None:
                at = plain.end()
            else:
                at = _expect(text, _skip_space(text, _scan_string(text, at)), _COLON)
            state = _VALUE
        elif byte in _OPENING:
            count = 1
            if text[at : at + 2] == b"[[":
                count = _arrays_in_arrays(text, at).end() - at  # type: ignore[union-attr]
            due += (b"}" if byte == _OPEN_OBJECT else b"]") * count
            depth = max(depth, len(due))
            at += count
            state = _FIRST
        else:
            at, is_wide = _scan_scalar(text, at)
            wide = wide or is_wide
            if not due:
                return ScannedValue(start, at, depth, wide)
            state = _AFTER


def _arrays_ending(text: bytes, at: int, due: bytearray) -> int:
    """How many of the open arrays end with the brackets at `at`."""
    ending = due[at - _end_of_arrays(text, at).end() :]  # type: ignore[union-attr]
    return len(ending) - len(ending.rstrip(b"]"))


def _scan_scalar(text: bytes, at: int) -> tuple[int, bool]:
    """Where the scalar at `at` ends, and whether it is an integer beyond 64 bits."""
    if text[at] == _QUOTE:
        return _scan_string(text, at), False
    if text[at] in b"-0123456789":
        end = _scan_number(text, at)
        return end, is_wide_integer(text[at:end])
    return _scan_literal(text, at), False


def _scan_string(text: bytes, at: int) -> int:
    at = _expect(text, at, _QUOTE)
    while True:
        at = _plain(text, at).end()  # type: ignore[union-attr]
        byte = _byte(text, at)
        if byte == _QUOTE:
            return at + 1
        end = _escapes(text, at).end()  # type: ignore[union-attr]
        if end == at:
            # Either cut off, or invalid. The longest escape, a surrogate pair, has 12 bytes.
            raise Malformed(len(text) if len(text) - at < 12 and _escape_begun(text, at) else at)
        at = end


def _scan_number(text: bytes, at: int) -> int:
    end = _number(text, at).end()  # type: ignore[union-attr]
    if text[end - 1] not in b"0123456789":
        raise Malformed(end)
    token = text[at:end]
    # An integer is exact, and has any width.
    if not token.removeprefix(b"-").isdigit() and float(token) in (float("inf"), float("-inf")):
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
    if text[at : at + 1] > b" ":
        # Usually there is no space, and a comparison takes half the time of a match.
        return at
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
