"""Faults as values: one factory for each code, and no part of the input in their text."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import pickle
import sys
import traceback
from collections.abc import Iterator
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import errors
from jsonrpc_fast.codes import ErrorCode, Hint, ParseErrorCode
from jsonrpc_fast.profile import JSONRPC, LENIENT, MCP_2025_11_25, Limits, Profile
from jsonrpc_fast.types import UNSET

from .fuzz.mutate import LINES, MADE, TOKEN, mutants
from .support.examples import scaled_examples
from .support.memory import measured
from .support.oracle import orjson
from .support.tables import rows

TEXT_FAULTS = ["MALFORMED_JSON", "INVALID_UTF8", "TRUNCATED", "INVALID_FRAMING"]
OF_RESPONSES = [
    "MISSING_ID",
    "AMBIGUOUS_MESSAGE",
    "RESULT_AND_ERROR",
    "INVALID_RESULT_TYPE",
    "INVALID_ERROR_TYPE",
    "INVALID_ERROR_CODE",
    "INVALID_ERROR_MESSAGE",
]
codes = rows("code", ParseErrorCode, ids=lambda code: code.name)


def make(impl: ModuleType, code: ParseErrorCode, *args: Any, **fields: Any) -> Any:
    return getattr(impl.ParseError, code.name.lower())(*args, **fields)


@codes
def test_factory(impl: ModuleType, code: ParseErrorCode) -> None:
    fault = make(impl, code)
    assert type(fault) is impl.ParseError
    assert (fault.code, fault.message) == (code, code.value)
    assert (fault.id, fault.offset, fault.index) == (None, None, None)
    assert fault.rpc_code is (ErrorCode.PARSE_ERROR if code.name in TEXT_FAULTS else ErrorCode.INVALID_REQUEST)
    assert fault.reply_expected is (code.name not in OF_RESPONSES)


def test_every_factory_is_tested(impl: ModuleType) -> None:
    factories = {name for name, found in inspect.getmembers(impl.ParseError) if isinstance(found, partial)}
    assert factories == {code.name.lower() for code in ParseErrorCode}


@codes
def test_factory_arguments(impl: ModuleType, code: ParseErrorCode) -> None:
    for reply_expected in (True, False):
        fields = {"offset": 7, "index": 8, "reply_expected": reply_expected, "hint": Hint.MISSING_LENGTH}
        assert make(impl, code, "x", **fields) == impl.ParseError(code, "x", **fields)
    with pytest.raises(TypeError):
        make(impl, code, "x", None)
    with pytest.raises(TypeError):
        make(impl, code, unknown=1)


def test_constructor(impl: ModuleType) -> None:
    fault = impl.ParseError(ParseErrorCode.TOO_DEEP, 1, offset=2, index=3, reply_expected=False)
    assert (fault.code.name, fault.id, fault.offset, fault.index, fault.reply_expected) == ("TOO_DEEP", 1, 2, 3, False)
    for code in ("TOO_DEEP", -32700, None, ErrorCode.PARSE_ERROR):
        with pytest.raises(TypeError, match=f"^code must be a ParseErrorCode, not {type(code).__name__}$"):
            impl.ParseError(code)


@codes
def test_repr_and_message(impl: ModuleType, code: ParseErrorCode) -> None:
    fault = impl.ParseError(code, "an id", offset=1, index=2)
    assert str(fault) == code.value
    assert fault.args == (code.value,)
    assert repr(fault) == f"ParseError({code.name}, offset=1, index=2, reply_expected=True)"


def test_repr_and_message_with_a_hint(impl: ModuleType) -> None:
    fault = impl.ParseError(ParseErrorCode.MALFORMED_JSON, offset=0, hint=Hint.NEWLINE_FRAMING)
    text = "the text is not JSON; it looks like newline framing: one message per line, without headers"
    assert (fault.message, str(fault), fault.args) == (text, text, (text,))
    assert repr(fault) == (
        "ParseError(MALFORMED_JSON, offset=0, index=None, reply_expected=True, hint=NEWLINE_FRAMING)"
    )
    assert fault.to_response() == impl.ParseError.malformed_json(offset=0).to_response()


def test_every_text_is_unique() -> None:
    assert len({code.value for code in ParseErrorCode}) == len(ParseErrorCode)


def test_invalid_params() -> None:
    error = errors.RpcError.invalid_params("name must be a string")
    assert (error.code, error.message, error.data) == (-32602, "name must be a string", UNSET)
    assert str(error) == "name must be a string (-32602)"


def test_read_only(impl: ModuleType) -> None:
    fault = impl.ParseError.malformed_json(offset=1)
    for name in ("code", "message", "id", "rpc_code", "offset", "index", "reply_expected", "hint"):
        with pytest.raises(AttributeError):
            setattr(fault, name, None)
        with pytest.raises(AttributeError):
            delattr(fault, name)


def test_comparison(impl: ModuleType) -> None:
    def fault(*args: Any, **fields: Any) -> Any:
        return impl.ParseError(ParseErrorCode.TOO_DEEP, *args, **fields)

    different = [
        impl.ParseError(ParseErrorCode.ID_TOO_LONG),
        fault(),
        fault(1),
        fault(1.0),
        fault("1"),
        fault(offset=1),
        fault(index=1),
        fault(reply_expected=False),
        fault(hint=Hint.PRINTED_TEXT),
        fault(hint=Hint.SSE_FRAMING),
    ]
    for place, one in enumerate(different):
        assert [one == other for other in different] == [place == other for other in range(len(different))]
    assert fault(1, index=2) == fault(1, index=2)
    assert hash(fault(1, index=2)) == hash(fault(1, index=2))
    assert fault() != ValueError("the message nests deeper than the limit")


def test_replace(impl: ModuleType) -> None:
    fault = impl.ParseError.malformed_json(7, offset=3)
    changed = fault.replace(index=2, id=8)
    assert type(changed) is type(fault)
    assert changed == impl.ParseError(ParseErrorCode.MALFORMED_JSON, 8, offset=3, index=2)
    assert fault.replace() == type(fault).__replace__(fault) == fault == impl.ParseError.malformed_json(7, offset=3)


@rows("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(impl: ModuleType, protocol: int) -> None:
    for code in ParseErrorCode:
        fault = impl.ParseError(code, "x", offset=1, index=2, reply_expected=False, hint=Hint.PRINTED_TEXT)
        for again in (pickle.loads(pickle.dumps(fault, protocol)), copy.copy(fault), copy.deepcopy(fault)):
            assert type(again) is impl.ParseError
            assert again == fault
            assert again.args == fault.args


def test_raised_and_caught(impl: ModuleType) -> None:
    assert issubclass(impl.ParseError, errors.ParseError)
    assert impl.ParseError.__bases__ == (errors.ParseError,)
    assert errors.ParseError.__bases__ == (ValueError,)
    fault = impl.decode(b"{")
    with pytest.raises(ValueError, match=r"^the text is not JSON$") as caught:
        raise fault
    assert caught.value is fault
    assert fault.__context__ is None
    assert fault.__cause__ is None


@codes
def test_to_response(impl: ModuleType, code: ParseErrorCode) -> None:
    response = impl.ParseError(code, "x").to_response()
    assert type(response) is impl.Response
    if code.name in TEXT_FAULTS:
        assert response.to_bytes() == b'{"jsonrpc":"2.0","id":"x","error":{"code":-32700,"message":"Parse error"}}'
    else:
        assert response.to_bytes() == b'{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"Invalid Request"}}'


def test_to_response_of_decoded_faults(impl: ModuleType) -> None:
    def reply(text: str) -> bytes:
        return impl.decode(text).to_response().to_bytes()

    assert reply("{") == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    assert reply('{"id":18446744073709551616,"method":1}') == (
        b'{"jsonrpc":"2.0","id":18446744073709551616,"error":{"code":-32600,"message":"Invalid Request"}}'
    )
    assert reply('{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}') == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}'
    )


# The input is not in a fault.


MARK = "XyZzY"
DIGITS = "31415926535897"


def marked(line: bytes) -> Iterator[bytes]:
    """Yield the line with a mark in place of each string and number, one at a time."""
    for token in TOKEN.finditer(line):
        before, text, after = line[: token.start()], token.group(), line[token.end() :]
        if text.startswith(b'"'):
            yield before + b'"' + MARK.encode() + text[1:] + after
        elif text.isdigit():
            yield before + DIGITS.encode() + after


MARKED = [
    *(text for line in [*LINES, *MADE] for text in marked(line)),
    b'{"jsonrpc":"2.0","id":"%b","method":["%b"],"params":%b}' % (MARK.encode(), MARK.encode(), DIGITS.encode()),
    b'{"jsonrpc":"%b","id":%b,"method":"m"}' % (MARK.encode(), DIGITS.encode()),
    b'{"jsonrpc":"2.0","id":"%b","result":{},"error":"%b","%b":1}' % (3 * (MARK.encode(),)),
]
PROFILES = [
    JSONRPC,
    LENIENT,
    MCP_2025_11_25,
    JSONRPC.replace(extra_members=False, big_ints="reject", limits=Limits(depth=1, method_bytes=8, id_bytes=32)),
    JSONRPC.replace(limits=Limits(message_bytes=50)),
]


def faults_of(item: Any) -> list[Any]:
    return [each for each in (item if isinstance(item, list) else [item]) if isinstance(each, errors.ParseError)]


def all_shown(fault: Any) -> str:
    try:
        raise fault
    except ValueError as raised:
        shown = [str(raised), repr(raised), repr(raised.args), raised.message, ascii(raised), f"{raised}"]
        shown += traceback.format_exception_only(raised)
        shown += [repr(raised.__cause__), repr(raised.__context__), repr(getattr(raised, "__notes__", ""))]
        shown += [repr(value) for name, value in vars(raised).items() if name != "_id"]
    fault.__traceback__ = None
    return "".join(shown)


def check_nothing_is_shown(impl: ModuleType, text: bytes, profile: Profile) -> int:
    """Check all faults of a text; return their number."""
    found = faults_of(impl.decode(text, profile))
    with contextlib.suppress(orjson.JSONDecodeError):
        found += faults_of(impl.parse(orjson.loads(text), profile))
    decoder = impl.Decoder(profile=profile)
    found += [fault for item in (*decoder.feed(text), *decoder.close()) for fault in faults_of(item)]
    for fault in found:
        shown = all_shown(fault)
        assert MARK not in shown
        assert DIGITS not in shown
    return len(found)


@pytest.mark.ci
def test_faults_show_nothing_of_a_marked_message(impl: ModuleType) -> None:
    assert len(MARKED) > 1000
    for profile in PROFILES:
        assert sum(check_nothing_is_shown(impl, text, profile) for text in MARKED) > 1000


@scaled_examples(2)
@given(text=mutants(MARKED), profile=st.sampled_from(PROFILES))
def test_faults_show_nothing_of_a_mutated_message(impl: ModuleType, text: bytes, profile: Profile) -> None:
    check_nothing_is_shown(impl, text, profile)


@given(text=st.one_of(mutants(), st.binary(max_size=40), st.text(max_size=40)))
@pytest.mark.ci
def test_decoding_returns_faults(impl: ModuleType, text: bytes | str) -> None:
    item = impl.decode(text)
    kinds = (impl.Request, impl.Notification, impl.Response, impl.ParseError)
    for each in item if type(item) is list else [item]:
        assert type(each) in kinds


def test_faults_do_not_keep_the_input(impl: ModuleType) -> None:
    text = bytes(bytearray(b'{"jsonrpc":"2.0","id":1,"method":1}'))
    broken = text[:-2]
    before = sys.getrefcount(text), sys.getrefcount(broken)
    kept = [impl.decode(text), impl.decode(broken), impl.decode(broken.decode())]
    assert (sys.getrefcount(text), sys.getrefcount(broken)) == before
    assert len(kept) == 3


@rows("data", [b'"secret\xff"', "secret\ud800", b'"secret', b"[" * 2000 + b"]" * 2000, "secret"])
def test_a_raised_fault_has_no_context(impl: ModuleType, data: bytes | str) -> None:
    with pytest.raises(impl.ParseError) as caught:
        impl.Raw(data)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


FAULTS = [
    (b"x", "MALFORMED_JSON", {"offset": 0, "hint": Hint.PRINTED_TEXT}),
    (b"{", "MALFORMED_JSON", {"offset": 1}),
    (b"\xff", "INVALID_UTF8", {"offset": 0, "hint": Hint.PRINTED_TEXT}),
    (b'{"a":"\xc3\xa4\xed\xa0\x80"}', "INVALID_UTF8", {"offset": 8}),
    (b"x\xf0\x9f\x98\x80\xf0\x9f\x98", "INVALID_UTF8", {"offset": 5, "hint": Hint.PRINTED_TEXT}),
    (b"1", "NOT_AN_OBJECT", {}),
    (b"[]", "EMPTY_BATCH", {}),
    (b'{"jsonrpc":"2.0","id":[]}', "INVALID_ID_TYPE", {}),
    (b'{"id":"a","method":"m"}', "MISSING_JSONRPC", {"id": "a"}),
    (b'{"method":"m"}', "MISSING_JSONRPC", {"reply_expected": False}),
    (b'{"jsonrpc":"2.0","id":7,"error":1}', "INVALID_ERROR_TYPE", {"id": 7, "reply_expected": False}),
]


@rows(("line", "code", "fields"), FAULTS)
def test_faults_of_a_stream_equal_those_of_the_class(
    impl: ModuleType, line: bytes, code: str, fields: dict[str, Any]
) -> None:
    (item,) = impl.Decoder().feed(line + b"\n")
    expected = impl.ParseError(ParseErrorCode[code], **fields)
    assert item == expected
    assert type(item) is type(expected)
    assert (repr(item), str(item), item.args) == (repr(expected), str(expected), expected.args)
    assert (item.__dict__, item.__traceback__, item.__context__, item.__cause__) == ({}, None, None, None)
    assert (pickle.loads(pickle.dumps(item)), copy.deepcopy(item)) == (expected, expected)
    with pytest.raises(errors.ParseError) as caught:
        raise item
    assert caught.value is item
    assert traceback.format_exception_only(item) == traceback.format_exception_only(expected)


def test_faults_are_made_without_python_code(backends: tuple[ModuleType, ModuleType]) -> None:
    """A stream of garbage takes the core about as long as a stream of messages."""
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        called.append(f"{event} {argument if event == 'c_call' else frame.f_code.co_name}")

    core, _ = backends
    feed = core.Decoder().feed
    data = b"".join(line + b"\n" for line, _, _ in FAULTS)
    feed(data)  # each verdict is computed once
    gc.disable()  # it runs Python code of other tests
    sys.setprofile(note)
    try:
        items = feed(100 * data)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(items) == 100 * len(FAULTS)
    assert len(called) < 100, called[:10]


def test_a_batch_over_the_limit_is_not_built(backends: tuple[ModuleType, ModuleType]) -> None:
    core, _ = backends
    text = b"[" + 10_000 * b'{"jsonrpc":"2.0","method":"a","id":1},' + b"{}]"
    with measured() as memory:
        assert core.decode(text) == core.ParseError.batch_too_large()
    assert memory.peak < 100_000
    for items, count_at in ((16, 1), (17, 1), (40, 2)):
        limited = JSONRPC.replace(limits=Limits(batch_items=items))
        for count in (count_at, count_at + 1, items - 1, items, items + 1, 2 * items):
            batch = b"[" + b" , ".join(count * [b"1"]) + b"]"
            found, unfinished = core.decode(batch, limited), core.decode(batch[:-1], limited)
            if count > items:
                assert found == unfinished == core.ParseError.batch_too_large()
            else:
                assert [item.index for item in found] == list(range(count))
                assert unfinished == core.ParseError.malformed_json(offset=len(batch) - 1)


def test_a_lost_connection_says_whether_the_message_was_sent() -> None:
    for loss in (errors.ConnectionLost("gone"), errors.ConnectionLost("gone", was_sent=False)):
        for again in (pickle.loads(pickle.dumps(loss)), copy.copy(loss)):
            assert (again.args, again.was_sent) == (("gone",), loss.was_sent)
    assert errors.ConnectionLost().was_sent == "maybe"
