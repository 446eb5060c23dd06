"""The expansion of URI templates (RFC 6570, all levels): from the values to a URI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from .uris import RESERVED, Expression, Variable, template_parts

TemplateValue = str | int | float | Sequence[str] | Mapping[str, str] | None


def expand_uri_template(template: str, values: Mapping[str, TemplateValue]) -> str:
    """Return the expansion of a template.

        uri = expand_uri_template("repo://{owner}{/path*}{?ref}", {"owner": "ann", "path": ["src", "a.py"]})
        assert uri == "repo://ann/src/a.py"

    Args:
        template: The template, such as the `uriTemplate` of a resource template.
        values: The values by variable: a str, a number, a list or a dict of strings. Variables without a value, or with
            None or an empty list or dict, are left out.

    Raises:
        ValueError: `template` is not a template.
        TypeError: A value has another type, or a list or a dict has a maximum length in the template.
    """
    expanded = [
        _encode(part, keeps_reserved=True) if isinstance(part, str) else _expand(part, values)
        for part in template_parts(template)
    ]
    return "".join(expanded)


def _expand(expression: Expression, values: Mapping[str, TemplateValue]) -> str:
    operator = expression.operator
    keeps_reserved = operator.characters is RESERVED
    written: list[str] = []
    for variable in expression.variables:
        # An undefined variable leaves no trace, not even a separator (RFC 6570, section 3.2.1).
        value = values.get(variable.name)
        if value is None:
            continue
        if isinstance(value, (str, int, float)):
            pairs = [(variable.name, _encode(str(value)[: variable.maximum], keeps_reserved))]
        else:
            pairs = _pairs(variable, value, keeps_reserved)
        for name, text in pairs:
            is_named = operator.is_named or (variable.explodes and isinstance(value, Mapping))
            # `;` writes an empty value without "=" (RFC 6570, section 3.2.7).
            equals = "=" if text or operator.first != ";" else ""
            written.append(f"{name}{equals}{text}" if is_named else text)
    return operator.first + operator.separator.join(written) if written else ""


def _pairs(variable: Variable, value: object, keeps_reserved: bool) -> list[tuple[str, str]]:
    """Return the names and values for writing a list or a dict."""
    if variable.maximum is not None:
        raise TypeError(f"{variable.name} must be a str: the template limits its length")
    if isinstance(value, Mapping):
        members = [(_encode(name, keeps_reserved), _encode(each, keeps_reserved)) for name, each in value.items()]
        if variable.explodes or not members:
            return members
        return [(variable.name, ",".join(text for member in members for text in member))]
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{variable.name} must be a str, a number, a list or a dict, not {type(value).__name__}")
    items = [_encode(item, keeps_reserved) for item in value]
    if variable.explodes or not items:
        return [(variable.name, item) for item in items]
    return [(variable.name, ",".join(items))]


def _encode(text: object, keeps_reserved: bool) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the items of a list or a dict must be strings, not {type(text).__name__}")
    if not keeps_reserved:
        return quote(text, safe="", errors="surrogateescape")
    pieces = re.split(r"(%[0-9A-Fa-f]{2})", text)  # encoded characters stay unchanged
    pieces[::2] = [quote(piece, safe=":/?#[]@!$&'()*+,;=", errors="surrogateescape") for piece in pieces[::2]]
    return "".join(pieces)
