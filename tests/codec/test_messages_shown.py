"""Matching, repr, dicts and text of messages, and the memory that they hold."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import sys
import weakref
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.types import UNSET, Unset

from ..support import needs
from ..support.tables import rows
from .test_messages import samples


def test_match(impl: ModuleType) -> None:
    def name(message: object) -> object:
        match message:
            case impl.Request(id, "add", [a, b]):
                return "add", id, a, b
            case impl.Request(id=id, method=method, params=None):
                return "request", id, method
            case impl.Notification(method, {"a": a}):
                return "notification", method, a
            case impl.Response(id, _, impl.Error(-32601, message, data)):
                return "error", id, message, data
            case impl.Response(id, result, None):
                return "result", id, result
            case impl.ParseError(code, message, id, offset, index):
                return "fault", code.name, message, id, offset, index
        return None

    assert name(impl.Request(1, "add", [2, 3])) == ("add", 1, 2, 3)
    assert name(impl.Request(1, "m")) == ("request", 1, "m")
    assert name(impl.Request(1, "m", [])) is None
    assert name(impl.Notification("n", {"a": 1})) == ("notification", "n", 1)
    assert name(impl.Response(1, error=impl.Error(-32601, "e"))) == ("error", 1, "e", UNSET)
    assert name(impl.Response(1, [])) == ("result", 1, [])
    assert name(impl.decode(b"x")) == ("fault", "MALFORMED_JSON", "the text is not JSON", None, 0, None)


class TestRepr:
    def test_short(self, impl: ModuleType) -> None:
        assert [repr(message) for message in samples(impl)] == [
            "Request(id=1, method='m', params={'a': [1, 'é']})",
            "Request(id=None, method='', params=None)",
            "Notification(method='n', params=[1, None])",
            "Notification(method='n', params=None)",
            "Response(id='x', result={'a': 1}, error=None)",
            "Response(id=1.5, result=None, error=None)",
            "Response(id=7, result=None, error=Error(code=-32601, message='Method not found', data={'a': [1]}))",
            "Error(code=-32601, message='Method not found', data={'a': [1]})",
            "Error(code=0, message='', data=UNSET)",
            "Error(code=0, message='', data=None)",
        ]
        assert str(impl.Request(1, "m")) == "Request(id=1, method='m', params=None)"

    def test_long(self, impl: ModuleType) -> None:
        params = {f"k{number}": 1000 * "v" for number in range(1000)}
        text = repr(impl.Request("i" * 600, "m" * 1000, params))
        assert text.startswith("Request(id='iiiiiiiiii")
        assert text.count("...") == 7
        assert len(text) < 700
        assert repr(impl.Response(1, list(range(1000)))) == (
            "Response(id=1, result=[0, 1, 2, 3, 4, 5, ...], error=None)"
        )
        four = {"a": 1, "b": 2, "c": 3, "d": 4}
        assert repr(impl.Response(1, four)) == "Response(id=1, result={'a': 1, 'b': 2, 'c': 3, 'd': 4}, error=None)"
        assert repr(impl.Response(1, {**four, "e": 5})) == (
            "Response(id=1, result={'a': 1, 'b': 2, 'c': 3, 'd': 4, ...}, error=None)"
        )

    def test_bounded_for_any_payload(self, impl: ModuleType) -> None:
        deep: Any = []
        for _ in range(900):
            deep = {"k": [deep]}
        wide = [[[[[["v" * 500] * 100] * 100] * 100] * 100] * 100]
        payloads = [deep, wide, {"k" * 10_000: 10**4000}, ["\n" * 10_000], [10**5000] * 10]
        lengths = [len(repr(impl.Response(1, payload))) for payload in payloads]
        assert max(lengths) < 20_000
        assert len(repr(impl.Response(1, deep))) < 200

    def test_huge_integers(self, impl: ModuleType) -> None:
        assert repr(impl.Request(10**153, "m")) == f"Request(id={10**153}, method='m', params=None)"
        assert repr(impl.Request(10**600, "m")) == "Request(id=<int of 1994 bits>, method='m', params=None)"
        assert repr(impl.Error(-(2**63), "m")) == f"Error(code=-{2**63}, message='m', data=UNSET)"
        assert repr(impl.Response(1, 10**5000)) == "Response(id=1, result=<int of 16610 bits>, error=None)"

    def test_payloads_whose_repr_fails(self, impl: ModuleType) -> None:
        class Bad:
            def __repr__(self) -> str:
                raise ValueError

        assert repr(impl.Response(1, Bad())).startswith("Response(id=1, result=<Bad instance at 0x")


class TestDicts:
    def test_to_dict(self, impl: ModuleType) -> None:
        assert [list(message.to_dict().items()) for message in samples(impl)] == [
            [("jsonrpc", "2.0"), ("id", 1), ("method", "m"), ("params", {"a": [1, "é"]})],
            [("jsonrpc", "2.0"), ("id", None), ("method", "")],
            [("jsonrpc", "2.0"), ("method", "n"), ("params", [1, None])],
            [("jsonrpc", "2.0"), ("method", "n")],
            [("jsonrpc", "2.0"), ("id", "x"), ("result", {"a": 1})],
            [("jsonrpc", "2.0"), ("id", 1.5), ("result", None)],
            [
                ("jsonrpc", "2.0"),
                ("id", 7),
                ("error", {"code": -32601, "message": "Method not found", "data": {"a": [1]}}),
            ],
            [("code", -32601), ("message", "Method not found"), ("data", {"a": [1]})],
            [("code", 0), ("message", "")],
            [("code", 0), ("message", ""), ("data", None)],
        ]

    def test_the_payload_is_shared_and_the_dict_is_not(self, impl: ModuleType) -> None:
        message = impl.Request(1, "m", {})
        assert message.to_dict()["params"] is message.params
        message.to_dict()["id"] = 2
        assert message == impl.Request(1, "m", {})

    def test_from_dict(self, impl: ModuleType) -> None:
        for message in samples(impl):
            assert type(message).from_dict(message.to_dict()) == message

    def test_parse(self, impl: ModuleType) -> None:
        messages = [message for message in samples(impl) if type(message) is not impl.Error]
        assert impl.parse([message.to_dict() for message in messages]) == messages


class TestText:
    def test_three_forms(self, impl: ModuleType) -> None:
        message = impl.Notification("é\n", ["\u2028", 1])
        text = '{"jsonrpc":"2.0","method":"é\\n","params":["\u2028",1]}'
        assert message.to_str() == text
        assert message.to_bytes() == text.encode()
        assert message.to_bytes_delimited() == text.encode() + b"\n"

    def test_every_message(self, impl: ModuleType) -> None:
        for message in samples(impl):
            if type(message) is impl.Error:
                assert not hasattr(message, "to_bytes")
                continue
            line = message.to_bytes_delimited()
            assert line.count(b"\n") == 1
            assert line == message.to_bytes() + b"\n" == message.to_str().encode() + b"\n"
            assert impl.decode(line) == message

    @rows("data", [None, 0, "", False, [], {}])
    def test_falsy_data(self, impl: ModuleType, data: object) -> None:
        message = impl.Response(1, error=impl.Error(1, "", data))
        again = impl.decode(message.to_bytes())
        assert again == message
        assert repr(again.error.data) == repr(data)
        assert "data" in message.to_dict()["error"]

    def test_no_data(self, impl: ModuleType) -> None:
        message = impl.Response(1, error=impl.Error(1, ""))
        assert message.to_bytes() == b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}'
        assert impl.decode(message.to_bytes()).error.data is UNSET

    def test_unset(self) -> None:
        assert repr(UNSET) == "UNSET"
        assert not UNSET
        assert copy.deepcopy(UNSET) is copy.copy(UNSET) is Unset.UNSET is UNSET
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(UNSET, protocol)) is UNSET

    def test_unset_is_not_written(self, impl: ModuleType) -> None:
        for value in (UNSET, [UNSET], {"cursor": UNSET}):
            with pytest.raises(EncodeError):
                impl.encode_result(1, value)
            with pytest.raises(EncodeError):
                impl.encode_notification("m", {"a": value})


class TestMemory:
    def test_payloads_are_freed_with_the_message(self, impl: ModuleType) -> None:
        class Payload(dict[str, Any]):
            pass

        def gone(make: Any) -> bool:
            payload = Payload()
            message = make(payload)
            alive = weakref.ref(payload)
            del payload
            assert alive() is not None
            del message
            gc.collect()
            return alive() is None

        assert gone(lambda payload: impl.Request(1, "m", payload))
        assert gone(lambda payload: impl.Notification("m", payload))
        assert gone(lambda payload: impl.Response(1, payload))
        assert gone(lambda payload: impl.Response(1, error=impl.Error(1, "m", payload)))
        assert gone(lambda payload: impl.parse({"jsonrpc": "2.0", "id": 1, "method": "m", "params": payload}))

    def test_cycles_are_collected(self, impl: ModuleType) -> None:
        class Payload(dict[str, Any]):
            pass

        for make in (
            lambda payload: impl.Request(1, "m", payload),
            lambda payload: impl.Notification("m", payload),
            lambda payload: impl.Response(1, payload),
            lambda payload: impl.Error(1, "m", payload),
        ):
            payload = Payload()
            payload["self"] = make(payload)
            alive = weakref.ref(payload)
            del payload
            gc.collect()
            assert alive() is None

    @needs.CPYTHON
    def test_references_are_balanced(self, impl: ModuleType) -> None:
        payload: dict[str, Any] = {"a": 1}
        method = "a method of some length"
        before = sys.getrefcount(payload), sys.getrefcount(method)
        for _ in range(100):
            message = impl.Request(10**20, method, payload)
            impl.Request.from_dict(message.to_dict())
            message.to_bytes()
            with contextlib.suppress(TypeError):
                impl.Request(True, method, payload)
            repr(message), copy.copy(message), message == message
        del message
        assert (sys.getrefcount(payload), sys.getrefcount(method)) == before
