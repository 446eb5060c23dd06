"""Parsers of arguments that several commands share: addresses, headers, and params as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..codec import Raw
from ..support import is_header_name, is_header_value
from .output import escape

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def parse_address(text: str) -> tuple[str, int]:
    """Return the host, by default 127.0.0.1, and the port in "HOST:PORT", "[HOST]:PORT", ":PORT" or "PORT"."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"the address {escape(text)} is malformed: write IPv6 addresses as [HOST]:PORT")
    # `isdigit` accepts digits of every script, and `int` of a long text takes quadratic time.
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise ValueError(f"the address {escape(text)} must be HOST:PORT, with a port of 0 to 65535")
    return host or "127.0.0.1", int(port)


def headers_of(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return headers given as "NAME: VALUE", with environment variables expanded. No error has a value."""
    headers = {}
    for text in given:
        name, colon, value = text.partition(":")
        missing = [found for found in _VARIABLE.findall(value) if found not in environment]
        # A missing variable is not replaced by "": the server would refuse an empty token without saying why.
        if missing:
            raise ValueError(f"the environment has no variable {missing[0]}")
        value = _VARIABLE.sub(lambda found: environment[found[1]], value).strip(" \t")
        if not (colon and is_header_name(name) and is_header_value(value)):
            raise ValueError("a header must be NAME: VALUE")
        headers[name] = value
    return headers


def params_of(words: Sequence[str]) -> Raw | None:
    """Return the params in words of the command line: one JSON object or array, pairs NAME=VALUE, or no words.

    A VALUE that is JSON is passed on as written. Any other VALUE is a string. Raises ValueError.
    """
    if not words:
        return None
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "["):
        found = _checked(words[0])
        if found is None:
            raise ValueError("the params are not JSON")
        return found
    named: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if word.lstrip()[:1] in ("{", "["):
            raise ValueError("a JSON object or array must be the only word of the params")
        if not name or not equals:
            raise ValueError(f"{escape(word)} is not NAME=VALUE, nor a JSON object or array")
        if name in named:
            raise ValueError(f"{escape(name)} is given twice")
        # The text itself, not its value, so that integers of any width and the spelling of floats are kept.
        named[name] = json.dumps(text) if _checked(text) is None else text
    # The only possible fault is a lone surrogate, from bytes that the locale cannot decode (PEP 383).
    found = _checked("{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in named.items()) + "}")
    if found is None:
        raise ValueError("a name or a value is not text")
    return found


def _checked(text: str) -> Raw | None:
    """Return a JSON text as the codec accepts it: no NaN, no number beyond a float. None for any other text."""
    try:
        return Raw(text)
    except ValueError:
        return None
