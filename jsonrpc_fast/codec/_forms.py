"""Messages as a profile writes them: the form of the envelope (`Profile.writes`), and decimals.

The encoders write JSON-RPC 2.0. The pure backend makes a message of another form from their text, whose beginning is
known; the core has `set_form`.
"""

from __future__ import annotations

import re
from typing import Final

from ..profile import Profile, WrittenForm
from ._json import Default

# The encoders write the envelope first, without spaces and in this order: `jsonrpc`, `id`, then the method and params,
# the result or the error.
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ENVELOPE: Final = (
    rb'\{"jsonrpc":"2\.0",(?P<id>"id":(?:%b|[^",]+),)?'
    rb'"(?:(?P<result>result)|(?P<error>error)|method":%b(?P<params>,"params")?)' % (_STRING, _STRING)
)


def default_of(profile: Profile, default: Default) -> Default:
    """Return the `default` for payloads, which writes a Decimal as a number if the profile has decimals."""
    if profile.floats == "float":
        return default
    from ._decimals import DecimalDefault  # loaded only for such profiles

    return DecimalDefault(default, profile.limits.message_bytes)


def written_as(text: bytes, form: WrittenForm) -> bytes:
    """Return a message, as the encoders write it without a line ending, in another form.

    Raises ValueError for a request with a null id, which makes a notification of a message without `jsonrpc`.
    """
    if form == "2.0":
        return text
    if text.startswith(b'{"jsonrpc":"2.0","id":null,"method":'):
        raise ValueError("a request without jsonrpc must not have the id null, which makes it a notification")
    rest = text[len(b'{"jsonrpc":"2.0",') :]
    if form == "unversioned":
        return b"{" + rest
    found = re.match(_ENVELOPE, text)
    assert found is not None
    # JSON-RPC 1.0, sections 1.1 to 1.3: a response has both members, a notification the id null, a call its params.
    if found["result"]:
        return b"{%b" % rest[:-1] + b',"error":null}'
    if found["error"]:
        return b"{%b" % rest[:-1] + b',"result":null}'
    head = b"{" if found["id"] else b'{"id":null,'
    return head + rest if found["params"] else head + rest[:-1] + b',"params":[]}'
