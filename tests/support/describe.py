"""Describe messages as plain tuples. Tests compare them with literals, and between the two backends.

Compare the `repr` of two descriptions if 1, 1.0 and True must differ.
"""

from __future__ import annotations

from typing import Any

Description = tuple[Any, ...] | list[Any]

REQUEST, NOTIFICATION, RESULT, ERROR, FAULT = "Request", "Notification", "Result", "Error", "ParseError"


def fill(template: str, *tokens: str) -> str:
    """Return the template with a token for each `%s`. `str.format` would interpret the braces of the JSON."""
    return template % tokens


def request(id: object, method: str, params: object = None) -> Description:
    return REQUEST, id, method, params


def notification(method: str, params: object = None) -> Description:
    return NOTIFICATION, method, params


def result(id: object, value: object) -> Description:
    return RESULT, id, value


def error(id: object, code: int, message: str, data: object = "UNSET") -> Description:
    """Describe an error response. `data` is a list with one value, or "UNSET" if it is absent."""
    return ERROR, id, code, message, data


def fault(code: str, id: object = None, *, reply: bool = True, index: int | None = None) -> Description:
    """Describe an InvalidMessage of one message."""
    return FAULT, code, -32600, id, None, index, reply


def text_fault(code: str, offset: int | None, id: object = None, *, reply: bool = True) -> Description:
    """Describe an InvalidMessage of the text, which is not valid JSON or exceeds a limit."""
    return FAULT, code, -32700, id, offset, None, reply


def payload(value: Any) -> Any:
    """Describe a payload: its value, or its text if it is Raw."""
    return ("Raw", bytes(value)) if type(value).__name__ == "Raw" else value


def describe(item: Any) -> Description:
    """Describe what decoding returned."""
    if isinstance(item, list):
        return [describe(each) for each in item]
    if getattr(item, "extra", None) is not None:
        return *_described(item), {"extra": item.extra}
    return _described(item)


def _described(item: Any) -> Description:
    kind = type(item).__name__
    if kind == "Request":
        return request(item.id, item.method, payload(item.params))
    if kind == "Notification":
        return notification(item.method, payload(item.params))
    if kind == "Response" and not item.is_error:
        return result(item.id, payload(item.result))
    if kind == "Response":
        data = item.error.data
        return error(
            item.id, item.error.code, item.error.message, "UNSET" if repr(data) == "UNSET" else [payload(data)]
        )
    if kind == "ParseError":
        rpc_code = int(item.rpc_code)
        return FAULT, item.code.name, rpc_code, item.id, item.offset, item.index, item.reply_expected
    raise AssertionError(f"decoding returned a {kind}")
