"""The encoders of a profile, and the form of the peer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from jsonrpc_fast import codec
from jsonrpc_fast.codec import Error, Notification, ParseError, Request, Response
from jsonrpc_fast.codec.encoders import PLAIN, Encoders, form_of, response_as
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LSP, Profile

from ..support.tables import rows

UNVERSIONED = JSONRPC.replace(writes="unversioned", optional_jsonrpc=True)
NAMES = ("encode", "encode_request", "encode_notification", "encode_result", "encode_error")


def test_a_usual_profile_has_the_functions_of_the_codec() -> None:
    for encoders in (PLAIN, Encoders(LSP), Encoders(JSONRPC.replace(optional_jsonrpc=True))):
        assert [getattr(encoders, name) for name in NAMES] == [getattr(codec, name) for name in NAMES]
        assert encoders.reader(False) is None
        assert encoders.default_of(None) is None


@rows(
    ("name", "members", "message"),
    [
        ("encode_request", (1, "m", [1]), Request(1, "m", [1])),
        ("encode_request", (1, "m"), Request(1, "m")),
        ("encode_notification", ("m", {"a": 1}), Notification("m", {"a": 1})),
        ("encode_result", (1, None), Response(1, None)),
        ("encode_error", (1, 2, "e", 3), Response(1, error=Error(2, "e", 3))),
    ],
)
def test_each_function(name: str, members: Any, message: Any) -> None:
    for profile in (JSONRPC_1, UNVERSIONED, JSONRPC.replace(floats="decimal")):
        encoders = Encoders(profile)
        expected = codec.encode(message, profile)
        assert getattr(encoders, name)(*members) == encoders.encode(message) == expected
        assert getattr(encoders, name)(*members, delimited=False) == expected[:-1]


def test_decimals_and_default() -> None:
    encoders = Encoders(JSONRPC_1.replace(floats="decimal"))
    expected = b'{"id":1,"result":[1.10,"1j"],"error":null}\n'
    assert encoders.encode_result(1, [Decimal("1.10"), 1j], default=str) == expected


@rows(
    ("text", "profile", "form"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"m"}', JSONRPC_1, "2.0"),
        ('{"id":1,"method":"m","params":[{"jsonrpc":"2.0"}]}', JSONRPC_1, "1.0"),
        ('{"id":1,"method":"m"}', UNVERSIONED, "unversioned"),
        ('{"id":1}', JSONRPC_1, "1.0"),
        ('[{"id":1,"method":"m"}]', UNVERSIONED, "unversioned"),
        ('[{"id":1,"method":"m","jsonrpc":"2.0"}]', UNVERSIONED, "2.0"),
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', JSONRPC_1, None),
        ("[]", UNVERSIONED, None),
        ("x", JSONRPC_1, None),
    ],
)
def test_the_form_of_a_text(text: str, profile: Profile, form: str | None) -> None:
    assert form_of(text, profile) == form_of(text.encode(), profile) == form


def test_the_first_message_settles_the_form() -> None:
    encoders = Encoders(JSONRPC_1)
    read = encoders.reader(False)
    assert read is not None
    assert isinstance(read(b"x"), ParseError)
    assert encoders.form == "1.0"
    assert read(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == Request(1, "m")
    assert encoders.encode_result(1, 2) == b'{"jsonrpc":"2.0","id":1,"result":2}\n'
    assert read(b'{"id":1,"method":"m"}') == Request(1, "m")
    assert encoders.form == "2.0"
    first = Encoders(JSONRPC_1)
    read = first.reader(True)
    assert read is not None
    read(b'{"id":1,"method":"m"}')
    assert bytes(read('{"jsonrpc":"2.0","id":1,"method":"m","params":[ 1]}').params) == b"[ 1]"
    assert first.form == "1.0"


@rows(
    ("text", "expected"),
    [
        ('{"jsonrpc":"2.0","id":1,"result":2}', '{"id":1,"result":2,"error":null}'),
        ('{"jsonrpc":"2.0","id":1,"result":2}\n', '{"id":1,"result":2,"error":null}\n'),
        (
            '[{"jsonrpc":"2.0","id":1,"result":[1.10]},{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"]"}}]\n',
            '[{"id":1,"result":[1.10],"error":null},{"id":null,"error":{"code":1,"message":"]"},"result":null}]\n',
        ),
        ("", ""),
    ],
)
def test_responses(text: str, expected: str) -> None:
    assert response_as(text.encode(), "1.0").decode() == expected
    assert response_as(text.encode(), "2.0").decode() == text
