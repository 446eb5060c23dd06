"""Texts from the test suites of some 60 repositories: both backends agree with the verdict `spec` of the corpora.

`spec` is the verdict of an independent strict checker. Each text for which they differ is listed here, with the reason.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.framing.content_length import ContentLengthFrames
from jsonrpc_fast.framing.frames import frame
from jsonrpc_fast.framing.sse import Event, EventDecoder
from jsonrpc_fast.profile import JSONRPC, LENIENT, LSP, PRESETS, Limits, Profile
from jsonrpc_fast.validator import JsonRpcValidator

from ..support.chunks import bytewise, is_utf_8
from ..support.describe import Description, describe, error, fault, payload, request
from ..support.oracle import loads_exact, orjson
from ..support.tables import rows

Record = dict[str, Any]


@pytest.fixture(scope="session")
def outside(corpora: Path) -> Path:
    folder = corpora / "outside"
    if not folder.is_dir():
        pytest.skip("the corpora beside the repository have no folder outside")
    return folder


@functools.cache
def records(path: Path) -> list[Record]:
    # Not by splitlines: a string may hold U+2028.
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def text_of(record: Record) -> bytes:
    if "raw_b64" in record:
        return base64.b64decode(record["raw_b64"])
    return record["raw"].encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]


def verdict(item: Any) -> str | list[Any]:
    """The result of decoding, in the terms of the corpora."""
    if isinstance(item, list):
        return [verdict(each) for each in item]
    described = describe(item)
    if described[0] == "ParseError":
        return "unparsable" if described[2] == -32700 else "invalid"
    return str(described[0]).lower()


def opened(item: Any) -> Description:
    """A description in which raw payloads are decoded."""

    def open_payload(value: Any) -> Any:
        return loads_exact(value[1]) if isinstance(value, tuple) and value[:1] == ("Raw",) else value

    if isinstance(item, list):
        return [opened(each) for each in item]
    fields = [open_payload(value) for value in describe(item)]
    if fields[0] == "Error" and isinstance(fields[4], list):
        fields[4] = [open_payload(fields[4][0])]
    return tuple(fields)


def headed(text: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(text), text)


def stream(impl: ModuleType, chunks: list[bytes], framing: str, profile: Profile = JSONRPC) -> list[Any]:
    decoder = impl.Decoder(framing, profile)
    items = [item for chunk in chunks for item in decoder.feed(chunk)]
    return items + decoder.close()  # type: ignore[no-any-return]


# Messages

JUDGED = PRESETS | {"lenient": LENIENT.replace(any_errors=False, missing_ids=False)}
"""The profiles that the files mean. Their lenient one accepts nulls only."""

FILES = {
    "labelled.ndjson": (
        1134,
        {"jsonrpc": 690, "lenient": 5, "lsp": 317, "mcp-2024-11-05": 1, "mcp-2025-03-26": 2}
        | {"mcp-2025-06-18": 1, "mcp-2025-11-25": 118, "mcp-2026-07-28": 9},
    ),
    "messages_rpc.ndjson": (1493, {"jsonrpc": 1493, "lenient": 1493}),
    "messages_lsp.ndjson": (276, {"jsonrpc": 276, "lsp": 276}),
    "messages_mcp.ndjson": (931, {"jsonrpc": 931, "mcp-2025-03-26": 931, "mcp-2025-11-25": 931, "mcp-2026-07-28": 931}),
    "lsprotocol_sample.ndjson": (1909, {"lsp": 1909}),
}


@functools.cache
def verdicts_of(path: Path) -> dict[str, list[tuple[bytes, Any]]]:
    """The texts of a file with their verdicts, by profile."""
    by_profile: dict[str, list[tuple[bytes, Any]]] = {}
    for record in records(path):
        specs = record["spec"] if isinstance(record["spec"], dict) else {"lsp": record["spec"]}
        for name, spec in specs.items():
            by_profile.setdefault(name, []).append((text_of(record), spec))
    return by_profile


@rows("name", FILES)
def test_all_files_are_present(outside: Path, name: str) -> None:
    count, by_profile = FILES[name]
    assert len(records(outside / name)) == count
    assert {profile: len(texts) for profile, texts in verdicts_of(outside / name).items()} == by_profile


@rows("name", FILES)
@pytest.mark.ci
def test_messages(impl: ModuleType, outside: Path, name: str) -> None:
    for preset, texts in verdicts_of(outside / name).items():
        profile = JUDGED[preset]
        for text, spec in texts:
            item = impl.decode(text, profile)
            assert verdict(item) == spec, (preset, text)
            expected = repr(describe(item))
            assert repr(opened(impl.decode(text, profile, raw=True))) == expected, (preset, text)
            assert repr(describe(impl.decode(bytearray(text), profile))) == expected, (preset, text)


@rows("name", FILES)
@pytest.mark.ci
def test_messages_that_are_dicts(impl: ModuleType, outside: Path, name: str) -> None:
    """`parse` agrees with `decode`: these texts have no duplicate members."""
    for preset, texts in verdicts_of(outside / name).items():
        profile = JUDGED[preset]
        for text, spec in texts:
            try:
                obj = orjson.loads(text)
            except ValueError:
                assert spec == "unparsable", (preset, text)
                continue
            assert repr(describe(impl.parse(obj, profile))) == repr(describe(impl.decode(text, profile))), (
                preset,
                text,
            )


@rows("name", FILES)
@pytest.mark.ci
def test_messages_in_streams(impl: ModuleType, outside: Path, name: str) -> None:
    for preset, texts in verdicts_of(outside / name).items():
        profile = JUDGED[preset]
        expected = [repr(describe(impl.decode(text, profile))) for text, _ in texts if text]
        framed = b"".join([headed(text) for text, _ in texts if text])
        assert [repr(describe(item)) for item in stream(impl, [framed], "content-length", profile)] == expected
        # Blank lines are skipped, and a line break inside a text would end its message.
        lines = [text for text, _ in texts if b"\n" not in text and not text.endswith(b"\r") and text.strip()]
        expected = [repr(describe(impl.decode(text, profile))) for text in lines]
        delimited = b"".join([line + b"\n" for line in lines])
        assert [repr(describe(item)) for item in stream(impl, [delimited], "newline", profile)] == expected


@rows("framing", ["newline", "content-length", "sse"])
@rows("name", FILES)
@pytest.mark.ci
def test_messages_byte_by_byte(impl: ModuleType, outside: Path, name: str, framing: str) -> None:
    preset, texts = next(iter(verdicts_of(outside / name).items()))
    profile = JUDGED[preset]
    lines = [text for text, _ in texts if text.strip() and not {0x0A, 0x0D} & set(text)][:150]
    framed = b"".join([frame(line, framing) for line in lines])  # type: ignore[arg-type]
    expected = [repr(describe(impl.decode(line, profile))) for line in lines]
    assert [repr(describe(item)) for item in stream(impl, bytewise(framed), framing, profile)] == expected
    assert [repr(describe(item)) for item in stream(impl, [framed], framing, profile)] == expected


def validated(validator: JsonRpcValidator, obj: object) -> str | list[Any]:
    """The result of validation, in the terms of the corpora."""
    if isinstance(obj, list):
        report = validator.validate_batch(obj)
        if not report.items:
            return "invalid"
        return [validated(validator, item) if not isinstance(item, list) else "invalid" for item in obj]
    valid = {
        kind
        for kind, report in (
            ("request", validator.validate_request(obj)),
            ("notification", validator.validate_notification(obj)),
            ("response", validator.validate_response(obj)),
        )
        if report.valid
    }
    assert len(valid) <= 1
    if not valid:
        return "invalid"
    if valid == {"response"}:
        has_error = isinstance(obj, dict) and obj.get("error") is not None
        return "error" if has_error else "result"
    return valid.pop()


# The validator refuses an empty method in every profile, as its docstring says.
EMPTY_METHODS = b'"method":""', b'"method": ""'


@rows("name", FILES)
@pytest.mark.ci
def test_messages_validated(outside: Path, name: str) -> None:
    for preset, texts in verdicts_of(outside / name).items():
        validator = JsonRpcValidator(JUDGED[preset])
        for text, spec in texts:
            if spec != "unparsable" and not any(empty in text for empty in EMPTY_METHODS):
                assert validated(validator, orjson.loads(text)) == spec, (preset, text)


# Framing

MALFORMED = ["MALFORMED_JSON"]
NO_VERSION = ["MISSING_JSONRPC"]
# The items of each stream: a kind, or the code of a fault and its hint.
FRAMINGS: list[list[str]] = [
    *(4 * [MALFORMED]),
    ["INVALID_FRAMING MISSING_LENGTH"],
    NO_VERSION,
    ["INVALID_FRAMING PRINTED_TEXT"],
    MALFORMED,
    NO_VERSION,
    MALFORMED,
    *(4 * [["notification"]]),
    MALFORMED,
    ["notification"],
    ["notification", "request"],
    ["result", "notification", "request"],
    *(3 * [NO_VERSION]),
    # Differs: params are an object or an array (JSON-RPC 2.0, section 4.2), and here a number or a string.
    ["INVALID_PARAMS_TYPE", "result", "INVALID_PARAMS_TYPE", "error", "INVALID_PARAMS_TYPE", "notification"],
    # Differs: the same.
    ["INVALID_PARAMS_TYPE", "result", "error"],
    # Differs: clangd uses the last of two Content-Lengths. Two readers would read two bodies: the stream ends.
    ["request", "notification", "notification", "request", "request", "INVALID_FRAMING DUPLICATE_LENGTH"],
    ["MESSAGE_TOO_LARGE"],
    ["request", "notification", "request", "notification"],
    ["TRUNCATED"],
    ["request"],
    ["INVALID_FRAMING MISSING_LENGTH"],
    ["INVALID_FRAMING INVALID_LENGTH"],
]
DIFFERING_FRAMINGS = (21, 22, 23)
# The verdict of the corpora on a frame, and the results that agree with it.
EXPECTED_FRAMES = {
    "fault": ("INVALID_FRAMING", "MESSAGE_TOO_LARGE"),
    "none-or-fault": ("INVALID_FRAMING",),
    "unparsable": ("MALFORMED_JSON",),
    "truncated": ("TRUNCATED",),
    "body": ("MALFORMED_JSON", "MISSING_JSONRPC"),
}


def framed_verdict(item: Any) -> str:
    described = describe(item)
    if described[0] != "ParseError":
        return str(described[0]).lower()
    return described[1] if item.hint is None else f"{described[1]} {item.hint.name}"


@pytest.mark.ci
def test_framing(impl: ModuleType, outside: Path) -> None:
    for place, (record, expected) in enumerate(zip(records(outside / "framing.ndjson"), FRAMINGS, strict=True)):
        data = text_of(record)
        assert [framed_verdict(item) for item in stream(impl, [data], "content-length", LSP)] == expected, record
        items = [repr(describe(item)) for item in stream(impl, [data], "content-length", LSP)]
        assert [repr(describe(item)) for item in stream(impl, bytewise(data), "content-length", LSP)] == items
        for at in range(0, len(data), 3):
            assert [
                repr(describe(item)) for item in stream(impl, [data[:at], data[at:]], "content-length", LSP)
            ] == items
        if place not in DIFFERING_FRAMINGS:
            for theirs, ours in zip(record["expect"], expected, strict=True):
                word, _, body = theirs.partition(":")
                assert ours.partition(" ")[0] in EXPECTED_FRAMES.get(word, (word,)), record
                if body:
                    assert [found.text for found in ContentLengthFrames(100, resync=False).feed(data)] == [
                        body.encode()
                    ]


# Server-sent events

# Differs: go-sdk accepts an event without data, one that the end of the stream cuts off, and no unknown field. By
# WHATWG HTML, 9.2.6, the first and the second are dropped, and the third is ignored.
EVENTS_OF_GO_SDK = {
    b"data: hello": [],
    b"invalid line\n\n": [],
    b"event: message\ndata: hello\ndata: hello\ndata: hello\n\nevent:keepalive": [["message", "hello\nhello\nhello"]],
    b"event: foo\n\nevent: bar": [],
    b"event: foo\ndata:\n\nevent: bar": [["foo", ""]],
    b"event: foo\ndata: 123\nretry: 5\ndata: 456": [],
    b"someline": [],
}


def read_events(chunks: list[bytes], limit: int = 100_000) -> tuple[list[Event], str, int | None]:
    decoder = EventDecoder(limit)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events, decoder.last_event_id, decoder.retry


@pytest.mark.ci
def test_events(outside: Path) -> None:
    differing = set()
    for record in records(outside / "sse.ndjson"):
        data = text_of(record)
        expected = record["events"]
        if record["note"]:
            expected = EVENTS_OF_GO_SDK[data]
            differing.add(data)
        found = read_events([data])
        events, last_id, retry = found
        assert [
            [event.type, event.data.decode(errors="replace")] for event in events if event.data is not None
        ] == expected
        assert record["last"] in (None, last_id), record
        assert record["retry"] in (None, retry), record
        assert read_events(bytewise(data)) == found
        for at in range(min(len(data), 400)):
            assert read_events([data[:at], data[at:]]) == found
        if b"\r" not in data:
            for ending in (b"\r", b"\r\n"):
                text = data.replace(b"\n", ending)
                assert read_events([text]) == read_events(bytewise(text)) == found
    assert differing == EVENTS_OF_GO_SDK.keys()


def test_events_at_their_limit(outside: Path) -> None:
    """Data at the limit is read, data one byte larger is not, and the events around it are unaffected."""
    tried = 0
    for record in records(outside / "sse.ndjson"):
        # An event over the limit is reported at once, even if the end of the stream cuts it off. Here, the
        # stream ends after an event.
        data = text_of(record) + b"\n\n"
        events, last_id, retry = read_events([data])
        longest = max([len(event.data or b"") for event in events], default=0)
        if longest < 2:
            continue
        tried += 1
        for chunks in ([data], bytewise(data)):
            assert read_events(chunks, longest) == (events, last_id, retry)
            bounded, *rest = read_events(chunks, longest - 1)
            assert rest == [last_id, retry]
            assert [event.data for event in bounded] == [
                None if len(event.data or b"") == longest else event.data for event in events
            ]
    assert tried > 40


# A server's scripts

# Responses that differ from go-ethereum's, with the reason. A response is an id and the code of a fault, or only an id.
GETH_DIFFERS = {
    # Differs: a batch over the limit is not read further, so no id is known; geth responds with the first one.
    "rpc/testdata/invalid-batch-toolarge.js": Counter({(None, -32600): 2}),
    # Differs: params are never null (section 4.2). LENIENT accepts them.
    "rpc/testdata/reqresp-paramsnull.js": Counter({(3, -32600): 1}),
}


def flat(item: Any) -> list[Any]:
    return item if isinstance(item, list) else [item]


@rows("raw", [False, True])
def test_scripts_of_geth(impl: ModuleType, outside: Path, raw: bool) -> None:
    scripts = records(outside / "geth_scripts.ndjson")
    assert len(scripts) == 18
    for script in scripts:
        profile = JSONRPC.replace(limits=Limits(batch_items=script["batch_limit"]))
        ours, theirs = Counter[Any](), Counter[Any]()
        for direction, text in script["steps"]:
            item = impl.decode(text, profile, raw=raw)
            for each in flat(item):
                kind = type(each).__name__
                if direction == "<--":
                    assert kind != "ParseError", text
                if direction == "-->" and kind == "Request":
                    ours[each.id, None] += 1
                elif direction == "-->" and kind == "ParseError":
                    assert each.reply_expected
                    ours[each.to_response().id, int(each.rpc_code)] += 1
                elif direction == "<--" and kind == "Response":
                    is_fault = each.is_error and each.error.code in (-32700, -32600)
                    theirs[each.id, each.error.code if is_fault else None] += 1
        assert ours == GETH_DIFFERS.get(script["path"], theirs), script["path"]
    [null_params] = [script for script in scripts if script["path"].endswith("paramsnull.js")]
    assert describe(impl.decode(null_params["steps"][0][1], LENIENT)) == request(3, "test_noArgsRets")


def test_replies_of_geth(impl: ModuleType, outside: Path) -> None:
    """Where geth refuses, the response has the same shape: one object, or a batch in the same order."""
    compared = 0
    for script in records(outside / "geth_scripts.ndjson"):
        if script["path"] in GETH_DIFFERS:
            continue
        for (sent, text), (received, reply) in itertools.pairwise(script["steps"]):
            if (sent, received) != ("-->", "<--"):
                continue
            theirs = orjson.loads(reply)
            faults = [each.get("error", {}).get("code") in (-32700, -32600) for each in flat(theirs)]
            if any(faults):
                decoded = impl.decode(text)
                due = [item for item in flat(decoded) if getattr(item, "reply_expected", type(item) is impl.Request)]
                made = [impl.Response(item.id, 0) if type(item) is impl.Request else item.to_response() for item in due]
                ours = orjson.loads(impl.encode(made if isinstance(decoded, list) else made[0]))
                assert isinstance(ours, list) is isinstance(theirs, list)
                for one, other, is_fault in zip(flat(ours), flat(theirs), faults, strict=True):
                    assert one["id"] == other["id"]
                    assert not is_fault or one["error"]["code"] == other["error"]["code"]
                compared += 1
    assert compared == 17


# JSON texts in every position of a payload

# Differs from the grammar of RFC 8259: a lone surrogate cannot be written as UTF-8, so no response could carry it.
LONE_SURROGATES = {
    rb'["\uD800"]',
    rb'["\uDFFF"]',
    rb'["\uD801"]',
    rb'["\uDC01"]',
    rb'["\uD801\uD801"]',
    rb'["\uDC01\uDC01"]',
    rb'["\uDC01\uD801"]',
    rb'["\uD888\u3210 (first surrogate and invalid second surrogate)"]',
    rb"""["\uDFAA (second surrogate on it's own)"]""",
    rb'["\uDADA (first surrogate without the second)"]',
    rb'["\ud834"]',
    rb'["\udd61"]',
    rb'{"\uDFAA":0}',
    rb'["\uDADA"]',
    rb'["\uD888\u1234"]',
    rb'["\uD800\n"]',
    rb'["\uDd1ea"]',
    rb'["\uD800\uD800\n"]',
    rb'["\ud800"]',
    rb'["\ud800abc"]',
    rb'["\uDd1e\uD834"]',
    rb'["\uDFAA"]',
    rb'"\uD83C\uFFFF"',
    rb'{"\ud800":"\udfff"}',
    rb'"\udc7f"',
    rb'"\uD800"',
    rb'"a\uD800b"',
    rb'"\uDEAD"',
    rb'"a\uDEADb"',
    rb'"\uD83D\uD83D\uDCA9"',
    rb'"\uDCA9\uD83D\uDCA9"',
    rb'"\uD83D\uDCA9\uD83D"',
    rb'"\uD83D\uDCA9\uDCA9"',
    rb'"\uD83D \uDCA9"',
}
# Differs from the grammar of RFC 8259: the number is beyond a double, and infinity is not JSON.
BEYOND_A_DOUBLE = {
    b"[1e+1111]",
    b"10000000000000000000000000000000000000000000e+308",
    b"test/data/json/test_yyjson/num_real_7(bignum).json",
    b"12340000E00001234",
    b"[-123123e100000]",
    b"[123123e100000]",
    b"[-1e+9999, 1e+9999]",
    b"test/corelib/input/JSONTestSuite/i_number_huge_exp.json",
    b"[-1e+9999]",
    b"[1.5e+9999]",
    b"100e777777777777777777777777777",
    b"-100e777777777777777777777777777",
}


def key(record: Record) -> bytes:
    """The name of a text in the two sets above: the text, or the path of a long one."""
    text = text_of(record).strip()
    return text if len(text) <= 80 else record["path"].encode()


PLACES: dict[str, bytes] = {
    "result": b'{"jsonrpc":"2.0","id":1,"result":%b}',
    "result first": b'{"result":%b,"id":1,"jsonrpc":"2.0"}',
    "params": b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}',
    "params first": b'{"params":%b,"method":"m","id":1,"jsonrpc":"2.0"}',
    "params of a notification": b'{"jsonrpc":"2.0","method":"m","params":%b}',
    "data": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":%b}}',
    "data first": b'{"error":{"data":%b,"message":"m","code":1},"id":1,"jsonrpc":"2.0"}',
    "an unknown member": b'{"jsonrpc":"2.0","id":1,"result":0,"x":%b}',
    "in a batch": b'[{"jsonrpc":"2.0","id":1,"result":%b}]',
}


def expected_in(place: str, value: Any) -> Description:
    """The description of a message with a valid payload in a position."""
    if place.startswith("params"):
        has_id = place != "params of a notification"
        if not isinstance(value, (dict, list)):
            return fault("INVALID_PARAMS_TYPE", 1 if has_id else None, reply=has_id)
        return ("Request", 1, "m", value) if has_id else ("Notification", "m", value)
    if place.startswith("data"):
        return error(1, 1, "m", [value])
    return ("Result", 1, 0 if place == "an unknown member" else value)


@pytest.mark.ci
def test_json_texts(impl: ModuleType, outside: Path) -> None:
    exceptions = LONE_SURROGATES | BEYOND_A_DOUBLE
    met = set()
    for record in records(outside / "json_texts.ndjson"):
        text = text_of(record)
        is_valid = record["valid_rfc8259"]
        if key(record) in exceptions:
            met.add(key(record))
            assert is_valid
            is_valid = False
        for place, template in PLACES.items():
            message = template % text
            item, raw_item = impl.decode(message), impl.decode(message, raw=True)
            if place == "in a batch" and is_valid:
                [item], [raw_item] = item, raw_item
            if is_valid:
                value = loads_exact(text)
                assert repr(describe(item)) == repr(expected_in(place, value)), message
                assert repr(opened(raw_item)) == repr(expected_in(place, value)), message
                if place == "result":
                    assert payload(raw_item.result) == ("Raw", text.strip(b" \t\n\r"))
            else:
                code = "MALFORMED_JSON" if is_utf_8(message) else "INVALID_UTF8"
                assert describe(item)[1:3] == (code, -32700), message
                assert describe(raw_item) == describe(item), message
        if is_valid:
            assert repr(impl.Raw(text).decode()) == repr(loads_exact(text))
        else:
            with pytest.raises(impl.ParseError):
                impl.Raw(text)
    assert met == exceptions


# Numbers


def numbers(outside: Path, is_wanted: Callable[[str], bool]) -> Iterator[str]:
    found = json.loads((outside / "numbers.json").read_bytes())["numbers"]
    return (number for name, listed in found.items() if is_wanted(name) for number in listed)


def is_json(name: str) -> bool:
    """Whether a list contains JSON numbers. (ext) and (fail) do not, nor do the literals; (inf) is beyond a double."""
    return name.startswith(("int", "real")) and not any(word in name for word in ("(ext)", "(fail)", "(inf)"))


def exact_value(token: str) -> tuple[int, int]:
    """Digits without a zero at their end, and a power of ten: exact, where `Decimal` bounds exponents."""
    mantissa, _, exponent = token.lower().partition("e")
    sign, digits, power = Decimal(mantissa).as_tuple()
    number = int("".join(map(str, digits)))
    while number and number % 10 == 0:
        number //= 10
        power += 1  # type: ignore[operator]  # a number has an int there
    return (-number if sign else number), (int(power) + int(exponent or "0") if number else 0)


@pytest.mark.ci
def test_numbers_as_ids(impl: ModuleType, outside: Path) -> None:
    """An id is echoed with the same value, or refused."""
    seen = Counter[str]()
    for token in numbers(outside, is_json):
        message = impl.decode(b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % token.encode())
        found = describe(message)
        if found[0] == "Request":
            seen["accepted"] += 1
            assert type(message.id) is (float if set(token) & set(".eE") else int)
            echo = impl.encode_result(message.id, None, delimited=False)
            written = echo.removeprefix(b'{"jsonrpc":"2.0","id":').removesuffix(b',"result":null}').decode()
            assert exact_value(written) == exact_value(token)
            if isinstance(message.id, float):
                assert math.copysign(1, message.id) == (-1 if token.startswith("-") else 1)
        elif math.isinf(float(token)):
            seen["beyond a double"] += 1
            assert found[1:3] == ("MALFORMED_JSON", -32700)
        else:
            seen["not exact"] += 1
            assert found == fault("INVALID_ID_TYPE"), token
            assert exact_value(repr(float(token))) != exact_value(token), token
    assert seen == {"accepted": 7406, "not exact": 5752, "beyond a double": 10}


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def bits_of_all(values: list[Any]) -> tuple[list[int], bytes]:
    floats = [value for value in values if type(value) is float]
    return [value for value in values if type(value) is int], struct.pack(f">{len(floats)}d", *floats)


def test_numbers_in_payloads(impl: ModuleType, outside: Path) -> None:
    tokens = [token for token in numbers(outside, is_json) if not math.isinf(float(token))]
    text = b'{"jsonrpc":"2.0","id":1,"result":[%b]}' % ",".join(tokens).encode()
    message = impl.decode(text)
    expected = [int(token) if not set(token) & set(".eE") else float(token) for token in tokens]
    for found in (
        message.result,
        impl.decode(text, raw=True).result.decode(),
        impl.decode(impl.encode(message)).result,
    ):
        assert list(map(type, found)) == list(map(type, expected))
        if bits_of_all(found) != bits_of_all(expected):
            pairs = zip(tokens, found, expected, strict=True)
            assert [token for token, value, wanted in pairs if (value, repr(value)) != (wanted, repr(wanted))] == []


def test_wide_integers_in_payloads(impl: ModuleType, outside: Path) -> None:
    tokens = list(numbers(outside, lambda name: name in ("int.txt", "int(big).txt")))
    refusing = JSONRPC.replace(big_ints="reject")
    for token in tokens:
        text = b'{"jsonrpc":"2.0","id":1,"result":[%b]}' % token.encode()
        assert describe(impl.decode(text)) == ("Result", 1, [int(token)])
        assert impl.decode(text, raw=True).result.decode() == [int(token)]
        is_wide = not -(2**63) <= int(token) < 2**64
        expected = fault("INTEGER_TOO_LARGE", 1, reply=False) if is_wide else ("Result", 1, [int(token)])
        assert describe(impl.decode(text, refusing)) == expected


@pytest.mark.ci
def test_numbers_as_codes(impl: ModuleType, outside: Path) -> None:
    for token in numbers(outside, is_json):
        message = impl.decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":%b,"message":"m"}}' % token.encode())
        if math.isinf(float(token)):
            assert describe(message)[1] == "MALFORMED_JSON"
        elif set(token) & set(".eE") or not -(2**63) <= int(token) < 2**64:
            assert describe(message) == fault("INVALID_ERROR_CODE", 1, reply=False), token
        else:
            assert describe(message) == error(1, int(token), "m"), token


def test_tokens_that_are_not_numbers(impl: ModuleType, outside: Path) -> None:
    for token in numbers(outside, lambda name: not is_json(name)):
        for template in (b'{"jsonrpc":"2.0","id":%b,"method":"m"}', b'{"jsonrpc":"2.0","id":1,"result":%b}'):
            for raw in (False, True):
                found = describe(impl.decode(template % token.encode(), raw=raw))
                assert found[1:3] == ("MALFORMED_JSON", -32700), token
