"""The scanner of decoded messages: the kinds of the members of a dict, as one number of `rules.bits`."""

from __future__ import annotations

import math
from typing import Any, Final

from ..codes import is_error_code
from ..profile import Limits
from ..types import ENVELOPE_MEMBERS, ERROR_MEMBERS, has_type
from ._json import has_surrogates, is_integer_longer, is_longer
from .rules import bits

_ABSENT: Final = object()
_VERSION, _OTHER_VERSION = bits("jsonrpc", "2.0"), bits("jsonrpc", "other")
_NULL_ID, _INTEGER_ID, _STRING_ID = bits("id", "null"), bits("id", "integer"), bits("id", "string")
_FLOAT_ID, _LONG_ID, _OTHER_ID = bits("id", "float"), bits("id", "too long"), bits("id", "other")
_METHOD, _EMPTY_METHOD = bits("method", "string"), bits("method", "empty")
_LONG_METHOD, _OTHER_METHOD = bits("method", "too long"), bits("method", "other")
_NULL_PARAMS, _OBJECT_PARAMS = bits("params", "null"), bits("params", "object")
_ARRAY_PARAMS, _OTHER_PARAMS = bits("params", "array"), bits("params", "other")
_NULL_RESULT, _OBJECT_RESULT, _OTHER_RESULT = (bits("result", kind) for kind in ("null", "object", "other"))
_NULL_ERROR, _OBJECT_ERROR, _OTHER_ERROR = (bits("error", kind) for kind in ("null", "object", "other"))
_HAS_CODE, _HAS_MESSAGE = bits("has_error_code"), bits("has_error_message")
_HAS_EXTRA_IN_ERROR, _HAS_EXTRA = bits("has_extra_in_error"), bits("has_extra")
_NO_OBJECT: Final = bits("is_no_object")


def kinds_of(obj: object, limits: Limits, raw_type: type[Any]) -> int:
    """Return the kinds of a message that has already been decoded from JSON. `raw_type`: the backend's `Raw`."""
    # Most values have the exact type, and `isinstance` is replaced by a slower Python function here.
    if type(obj) is not dict and not has_type(obj, dict):
        return _NO_OBJECT
    number = 0
    known = 0
    version = obj.get("jsonrpc", _ABSENT)
    if version is not _ABSENT:
        known += 1
        is_text = type(version) is str or has_type(version, str)
        number += _VERSION if is_text and version == "2.0" else _OTHER_VERSION
    id = obj.get("id", _ABSENT)
    if id is not _ABSENT:
        known += 1
        number += _id_kind(id, limits)
    method = obj.get("method", _ABSENT)
    if method is not _ABSENT:
        known += 1
        if type(method) is not str and not has_type(method, str):
            number += _OTHER_METHOD
        elif is_longer(method, limits.method_bytes):
            number += _LONG_METHOD
        else:
            number += _METHOD if method else _EMPTY_METHOD
    # `known` counts the members found so far. Most calls without params need no further look-up.
    if known < len(obj):
        params = obj.get("params", _ABSENT)
        if params is not _ABSENT:
            known += 1
            if is_object(params, raw_type):
                number += _OBJECT_PARAMS
            elif is_array(params, raw_type):
                number += _ARRAY_PARAMS
            else:
                number += _NULL_PARAMS if _is_null(params, raw_type) else _OTHER_PARAMS
        result = obj.get("result", _ABSENT)
        if result is not _ABSENT:
            known += 1
            if is_object(result, raw_type):
                number += _OBJECT_RESULT
            else:
                number += _NULL_RESULT if _is_null(result, raw_type) else _OTHER_RESULT
        error = obj.get("error", _ABSENT)
        if error is not _ABSENT:
            known += 1
            number += error_kinds(error, raw_type)
        if known < len(obj) and not obj.keys() <= ENVELOPE_MEMBERS:
            number += _HAS_EXTRA
    return number


def error_kinds(error: object, raw_type: type[Any]) -> int:
    """Return the kinds of an error object and of its members."""
    if not has_type(error, dict):
        return _NULL_ERROR if _is_null(error, raw_type) else _OTHER_ERROR
    number = _OBJECT_ERROR
    if is_error_code(error.get("code")):
        number += _HAS_CODE
    if has_type(error.get("message"), str):
        number += _HAS_MESSAGE
    if not error.keys() <= ERROR_MEMBERS:
        number += _HAS_EXTRA_IN_ERROR
    return number


def is_error_object(error: object) -> bool:
    """Return whether an error is an object with a code and a message, as section 5.1 requires."""
    return has_type(error, dict) and is_error_code(error.get("code")) and has_type(error.get("message"), str)


def _id_kind(id: object, limits: Limits) -> int:
    if type(id) is int and -(2**63) <= id < 2**64:
        return _INTEGER_ID  # nearly every id; a wider one may be too long
    if id is None:
        return _NULL_ID
    if type(id) is float or has_type(id, float):
        # JSON has no NaN and no infinities (RFC 8259, section 6): such an id could not be written back.
        return _FLOAT_ID if math.isfinite(id) else _OTHER_ID
    if is_id_too_long(id, limits.id_bytes):
        return _LONG_ID
    if has_type(id, str):
        return _STRING_ID if id.isascii() or not has_surrogates(id) else _OTHER_ID
    # bool is a subclass of int, but true and false are not numbers in JSON.
    return _INTEGER_ID if has_type(id, int) and not has_type(id, bool) else _OTHER_ID


def is_id_too_long(id: object, limit: int) -> bool:
    """Return whether an id of any type is a string or an integer of more than `limit` bytes."""
    if has_type(id, str):
        return is_longer(id, limit)
    return has_type(id, int) and is_integer_longer(id, limit)


def is_object(value: object, raw_type: type[Any]) -> bool:
    """Return whether a payload is an object: a dict, or a `Raw` of one."""
    return type(value) is dict or has_type(value, dict) or (type(value) is raw_type and bytes(value).startswith(b"{"))  # type: ignore[call-overload]


def is_array(value: object, raw_type: type[Any]) -> bool:
    """Return whether a payload is an array: a list, a tuple, or a `Raw` of one."""
    if type(value) is raw_type:
        return bytes(value).startswith(b"[")  # type: ignore[call-overload, no-any-return]
    return has_type(value, list) or type(value) is tuple


def _is_null(value: object, raw_type: type[Any]) -> bool:
    return value is None or (type(value) is raw_type and bytes(value) == b"null")  # type: ignore[call-overload]
