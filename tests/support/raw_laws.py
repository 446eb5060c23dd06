"""The laws of messages that are forwarded, as an oracle for fuzz targets and property tests.

- `json.loads` accepts each `Raw`, and returns the value of the plain decode.
- The text that a gateway writes for a raw message decodes to that message. A reader that takes the last of two equal
  members sees the same message as one that refuses duplicates.
- `Raw.get`, `keys` and `items` return what the plain decode returns.
- A message that was decoded, plainly or raw, can be encoded by the same profile. Decoding that text returns an equal
  message with the same types, except for integral Decimals. orjson does not write integers beyond 64 bits, nor values
  that nest deeper than 254.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from types import ModuleType
from typing import Any, Final

from jsonrpc_fast import JSONRPC, Limits, Profile
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.errors import EncodeError, ParseError
from jsonrpc_fast.types import UNSET

from .comparison import exactly, plain
from .oracle import loads_exact, orjson

_NOT_WRITTEN: Final = ("Recursion limit reached",)

NEW_ID: Final = 987_654_321
"""The id that a gateway gives to a message."""


def _refuse(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


_FLOATS: Final = json.JSONDecoder(parse_constant=_refuse)
_DECIMALS: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def broken_law(module: ModuleType, text: bytes, profile: Profile) -> str | None:
    """Decode a text with `raw=True` and plainly, and return which law is broken, or None."""
    raw = module.decode(text, profile, raw=True)
    eager = module.decode(text, profile)
    return broken_law_of_item(module, raw, eager, profile) or _broken_dict_law(module, text, eager, profile)


def broken_law_of_stream(module: ModuleType, raw: list[Any], eager: list[Any], profile: Profile) -> str | None:
    """Return which law the items of a stream break, or None. `raw` was decoded with `raw=True`, `eager` plainly."""
    if len(raw) != len(eager):
        return f"raw {raw!r}, plain {eager!r}"
    found = [broken_law_of_item(module, *pair, profile) for pair in zip(raw, eager, strict=True)]
    return next(filter(None, found), None)


def broken_law_of_item(module: ModuleType, raw: Any, eager: Any, profile: Profile) -> str | None:
    """Return which law an item breaks, or None. `raw` was decoded with `raw=True`, `eager` plainly."""
    if isinstance(raw, list) and isinstance(eager, list):
        return broken_law_of_stream(module, raw, eager, profile) or _broken_batch_law(module, raw, eager, profile)
    if type(raw) is not type(eager) or isinstance(raw, ParseError):
        return None if plain(module, raw) == plain(module, eager) else f"raw {raw!r}, plain {eager!r}"
    return (
        _broken_payload_law(module, raw, eager, profile)
        or _broken_gateway_law(module, raw, eager, profile)
        or _broken_writing_law(module, raw, eager, profile)
        or _broken_writing_law(module, eager, eager, profile)
    )


def payload_fault(raw: Any, value: Any, profile: Profile = JSONRPC) -> str | None:
    """Return how a `Raw` differs from the value of its text, or None."""
    try:
        found = _loads(bytes(raw), profile)
    except RecursionError:  # how deep the json module can go depends on the caller's stack
        found = value if profile.floats == "decimal" else _loads_deep(bytes(raw), value)
    except ValueError as error:
        return f"{bytes(raw)!r} is not JSON: {error}"
    for which, other in (("the plain decode", value), ("Raw.decode", raw.decode())):
        if exactly(found) != exactly(other):
            return f"json.loads reads {found!r}, {which} {other!r}"
    return None


def _loads_deep(text: bytes, value: Any) -> Any:
    """Return what orjson reads, or `value` if it runs out of the memory that it reserves for indented texts."""
    try:
        return loads_exact(text)
    except RecursionError:  # with a number that orjson alters
        return value
    except orjson.JSONDecodeError as error:
        if not str(error).startswith("failed to allocate memory"):
            raise
        return value


def _loads(text: bytes, profile: Profile) -> Any:
    return (_DECIMALS if profile.floats == "decimal" else _FLOATS).decode(text.decode())


def _broken_payload_law(module: ModuleType, raw: Any, eager: Any, profile: Profile) -> str | None:
    if isinstance(raw, module.Response):
        pairs = [(raw.result, eager.result)] if raw.error is None else [(raw.error.data, eager.error.data)]
    else:
        pairs = [(raw.params, eager.params)]
    for payload, value in pairs:
        if not isinstance(payload, module.Raw):
            if payload is not value or (payload is not None and payload is not UNSET):
                return f"{payload!r} is no Raw"
            continue
        found = payload_fault(payload, value, profile) or _members_fault(payload, value, profile)
        if found is not None:
            return found
    return None


def _members_fault(raw: Any, value: Any, profile: Profile) -> str | None:
    """Return how the members of a `Raw` differ from those of the value, or None. Of many, a sample is compared."""
    parts: dict[Any, Any] = value if type(value) is dict else {}
    items = raw.items()
    if [name for name, _ in items] != list(parts) or raw.keys() != list(parts):
        return f"the names are {raw.keys()!r} instead of {list(parts)!r}"
    if type(value) is list:
        parts = dict(enumerate(value))
    for step in [*parts][:2] + [*parts][-1:]:
        found = raw.get([step])
        if found is None or (type(step) is str and found != dict(items)[step]):
            return f"{step!r} is not found in {raw!r}"
        fault = payload_fault(found, parts[step], profile)
        if fault is not None:
            return fault
    return None if raw.get([len(parts)]) is None else f"{raw!r} has more than {len(parts)} items"


def _broken_gateway_law(module: ModuleType, raw: Any, eager: Any, profile: Profile) -> str | None:
    for line, message in _passed_on(module, raw, eager):
        found = _difference(module, line, message, profile)
        if found is not None:
            return found
    return None


def _broken_writing_law(module: ModuleType, written: Any, eager: Any, profile: Profile) -> str | None:
    """Check what the profile itself writes for a message."""
    try:
        line = module.encode(written, profile)
    except EncodeError as error:
        return None if str(error) in _NOT_WRITTEN else f"{written!r} is not written: {error}"
    except ValueError:
        is_null = profile.writes != "2.0" and isinstance(eager, module.Request) and eager.id is None
        return None if is_null else f"{written!r} is not written"
    found = module.decode(line, profile.replace(limits=_reading(profile).limits))
    if profile.writes == "1.0" and not isinstance(eager, module.Response) and eager.params is None:
        eager = eager.replace(params=[])
    return None if _is_same(module, found, eager, profile) else f"{line!r} decodes to {found!r}, not to {eager!r}"


def _is_same(module: ModuleType, found: Any, eager: Any, profile: Profile) -> bool:
    # 1E0 and -0E0 are the Decimals 1 and -0, which are written as 1 and -0, and decoded as integers.
    return plain(module, found) == plain(module, eager) or (profile.floats == "decimal" and found == eager)


def _broken_batch_law(module: ModuleType, raw: list[Any], eager: list[Any], profile: Profile) -> str | None:
    """Check the messages that a gateway forwards as a batch."""
    messages = [item for item in raw if not isinstance(item, ParseError)]
    try:
        line = module.encode(messages)
    except EncodeError:  # an extra member that cannot be written
        return None
    found = module.decode(line, _reading(profile)) if messages else []
    expected = [item for item in eager if not isinstance(item, ParseError)]
    return None if plain(module, found) == plain(module, expected) else f"{line!r} decodes to {found!r}"


def _broken_dict_law(module: ModuleType, text: bytes, eager: Any, profile: Profile) -> str | None:
    """Check a message that is forwarded by `decode_dict` and `encode_dict`.

    `decode_dict` reads the members that `decode` ignores, too. An integer in one of them that has more digits than the
    interpreter converts is the fault that a profile that keeps the member reports.
    """
    if isinstance(eager, ParseError):
        return None
    kept = module.decode(text, profile.replace(extra_members="keep", big_ints="exact"))
    try:
        dicts = module.decode_dict(text, profile, faults="keep")
    except ParseError as fault:
        dicts = fault
    for value, message, full in zip(*map(_items, (dicts, eager, kept)), strict=True):
        if isinstance(value, ParseError) or isinstance(message, ParseError):
            is_wide = isinstance(full, ParseError) and full.code is ParseErrorCode.INTEGER_TOO_LARGE
            expected = full if is_wide and not isinstance(message, ParseError) else message
            if plain(module, value) != plain(module, expected):
                return f"decode_dict returned {value!r} for {message!r}"
            continue
        read = module.parse(value, profile)
        if plain(module, read) != plain(module, message):
            return f"decode_dict returned {value!r}, which is {read!r}"
        try:
            line = module.encode_dict(value, profile)
        except EncodeError:  # too deep, or an integer too wide to write
            continue
        found = module.decode(line, profile.replace(limits=_reading(profile).limits))
        if not _is_same(module, found, message, profile):
            return f"encode_dict wrote {line!r}"
    return None


def _items(decoded: Any) -> list[Any]:
    return decoded if isinstance(decoded, list) else [decoded]


def _passed_on(module: ModuleType, raw: Any, eager: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield each line that a gateway can write for a raw message, and the message that a reader must get."""
    if isinstance(raw, module.Request):
        yield module.encode_request(NEW_ID, raw.method, raw.params), _with_id(module, eager, NEW_ID)
        yield module.encode_result(raw.id, raw.params), module.Response(eager.id, eager.params)
    elif isinstance(raw, module.Notification):
        yield module.encode_notification(raw.method, raw.params), _with_id(module, eager, None)
    elif raw.error is None:
        yield module.encode_result(NEW_ID, raw.result), _with_id(module, eager, NEW_ID)
    else:
        error = raw.error
        yield module.encode_error(NEW_ID, error.code, error.message, error.data), _with_id(module, eager, NEW_ID)
    try:
        lines = module.encode(raw), raw.to_bytes_delimited(), raw.to_bytes() + b"\n"
    except EncodeError:  # an extra member that cannot be written
        return
    for line in lines:
        yield line, eager


def _with_id(module: ModuleType, eager: Any, id: int | None) -> Any:
    """Return a copy of a message with another id, and without extra members."""
    if isinstance(eager, module.Request):
        return module.Request(id, eager.method, eager.params)
    if isinstance(eager, module.Notification):
        return module.Notification(eager.method, eager.params)
    if eager.error is None:
        return module.Response(id, eager.result)
    return module.Response(id, error=module.Error(eager.error.code, eager.error.message, eager.error.data))


def _reading(profile: Profile) -> Profile:
    """Return the profile of a reader that only knows JSON-RPC."""
    extra = "keep" if profile.extra_members == "keep" else True
    return JSONRPC.replace(
        big_ints=profile.big_ints,
        floats=profile.floats,
        extra_members=extra,
        limits=Limits(id_bytes=640, method_bytes=2**29),
    )


def _difference(module: ModuleType, line: bytes, message: Any, profile: Profile) -> str | None:
    """Return how a line, read by this decoder and by `json.loads`, differs from the expected message; or None."""
    if line.count(b"\n") != 1 or not line.endswith(b"\n"):
        return f"{line!r} is not a line"
    found = module.decode(line, _reading(profile))
    if plain(module, found) != plain(module, message):
        return f"{line!r} decodes to {found!r}, not to {message!r}"
    try:
        value = _loads(line, profile)
        id = _FLOATS.decode(line.decode()).get("id", UNSET)
    except RecursionError:
        return None
    except ValueError as error:
        return f"{line!r} is not JSON: {error}"
    if (type(id), id) != ((type(message.id), message.id) if hasattr(message, "id") else (type(UNSET), UNSET)):
        return f"{line!r} has another id for json.loads"
    value.pop("id", None)
    expected = message.to_dict()
    expected.pop("id", None)
    if _shape(value) != _shape(expected):
        return f"{line!r} is another message for json.loads"
    return None


def _shape(members: dict[str, Any]) -> dict[str, object]:
    """Return the members of a message as values that are equal only for equal types and values, in any order."""
    return {
        name: _shape(value) if name == "error" and isinstance(value, dict) else exactly(value)
        for name, value in members.items()
    }
