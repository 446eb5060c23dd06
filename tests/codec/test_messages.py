"""Messages as values: checks, immutability, comparison, copies, pickles, matching, reprs and memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import sys
import weakref
from types import ModuleType
from typing import Any, get_args

import pytest
from hypothesis import given

from jsonrpc_fast.codes import ErrorCode
from jsonrpc_fast.errors import EncodeError, RpcError
from jsonrpc_fast.types import UNSET, Classification, Kind, Unset

from ..fuzz.mutate import mutants
from ..support import needs
from ..support.tables import rows


def samples(impl: ModuleType) -> list[Any]:
    error = impl.Error(-32601, "Method not found", {"a": [1]})
    return [
        impl.Request(1, "m", {"a": [1, "é"]}),
        impl.Request(None, "", None),
        impl.Notification("n", [1, None]),
        impl.Notification("n"),
        impl.Response("x", {"a": 1}),
        impl.Response(1.5),
        impl.Response(7, error=error),
        error,
        impl.Error(0, ""),
        impl.Error(0, "", None),
    ]


def replace(value: Any, **changes: Any) -> Any:
    """The method, which is also what `copy.replace` calls."""
    changed = value.replace(**changes)
    assert type(value).__replace__(value, **changes) == changed
    return changed


NOT_A_MESSAGE = "message must be a Request, a Notification or a Response"


class TestConstructors:
    def test_an_error_or_a_message_is_not_a_result(self, impl: ModuleType) -> None:
        error = impl.Error(-32000, "m")
        for result in (
            error,
            impl.Request(1, "m"),
            impl.Notification("m"),
            impl.Response(1, 2),
            impl.ParseError.missing_id(),
            RpcError(-32000, "m"),
            UNSET,
        ):
            with pytest.raises(
                TypeError, match=f"^result must be a JSON value, not {type(result).__name__}; pass an error as error=$"
            ):
                impl.Response(1, result)
        assert impl.Response(1, error=error).error is error
        assert impl.Response(1, impl.Raw(b"[1]")).to_bytes() == b'{"jsonrpc":"2.0","id":1,"result":[1]}'

    def test_a_result_is_judged_by_its_class_alone(self, impl: ModuleType) -> None:
        class Proxy:
            @property
            def __class__(self) -> Any:
                return impl.Request

        class Broken:
            @property
            def __class__(self) -> Any:
                raise RuntimeError("read")

        for result in (Proxy(), Broken(), impl.Request, {}, None, [], 5, "", True, ()):
            assert impl.Response(1, result).result is result

    @rows(
        ("make", "fault"),
        [
            (lambda impl: impl.Request("m", 1), "method must be a str, not int"),
            (lambda impl: impl.Request("m", {"a": 1}), "method must be a str, not dict"),
            (lambda impl: impl.Request({"a": 1}, "m"), "id must be an int, a str, a float or None, not dict"),
            (
                lambda impl: impl.Notification("m", 1),
                "params must be a dict, a list, a tuple, a Raw of an object or array, or None, not int",
            ),
            (lambda impl: impl.Notification(1, "m"), "method must be a str, not int"),
            (lambda impl: impl.Error("m", -32000), "code must be an int, not str"),
            (lambda impl: impl.Response({"a": 1}, 1), "id must be an int, a str, a float or None, not dict"),
            (lambda impl: impl.Response(1, None, {"code": 1}), "error must be an Error or None, not dict"),
            (lambda impl: impl.encode_request("m", 1), "method must be a str, not int"),
            (lambda impl: impl.encode_error(1, "m", -32000), "code must be an int, not str"),
            (lambda impl: impl.encode_error(-32000, "m", 1), "code must be an int, not str"),
            (lambda impl: impl.encode_result({"a": 1}, 1), "id must be an int, a str, a float or None, not dict"),
        ],
    )
    def test_swapped_arguments_are_named(self, impl: ModuleType, make: Any, fault: str) -> None:
        with pytest.raises(TypeError) as caught:
            make(impl)
        assert str(caught.value) == fault

    @rows(
        ("make", "fault"),
        [
            (
                lambda impl: impl.Request(),
                "Request.__new__() missing 2 required positional arguments: 'id' and 'method'",
            ),
            (lambda impl: impl.Request(1), "Request.__new__() missing 1 required positional argument: 'method'"),
            (lambda impl: impl.Request(method="m"), "Request.__new__() missing 1 required positional argument: 'id'"),
            (
                lambda impl: impl.Notification(),
                "Notification.__new__() missing 1 required positional argument: 'method'",
            ),
            (lambda impl: impl.Response(), "Response.__new__() missing 1 required positional argument: 'id'"),
            (lambda impl: impl.Error(1), "Error.__new__() missing 1 required positional argument: 'message'"),
            (lambda impl: impl.Error(message="m"), "Error.__new__() missing 1 required positional argument: 'code'"),
            (lambda impl: impl.encode({}), f"{NOT_A_MESSAGE}, not dict; use encode_dict"),
            (lambda impl: impl.encode([{}]), f"{NOT_A_MESSAGE}, not dict; use encode_dict"),
            (lambda impl: impl.encode(1), f"{NOT_A_MESSAGE}, not int"),
        ],
    )
    def test_missing_arguments_and_other_values_are_named(self, impl: ModuleType, make: Any, fault: str) -> None:
        with pytest.raises(TypeError) as caught:
            make(impl)
        assert str(caught.value) == fault

    def test_fields(self, impl: ModuleType) -> None:
        request = impl.Request(1, "m")
        assert (request.id, request.method, request.params) == (1, "m", None)
        request = impl.Request(id="a", method="m", params=[1])
        assert (request.id, request.method, request.params) == ("a", "m", [1])
        notification = impl.Notification("m")
        assert (notification.method, notification.params) == ("m", None)
        notification = impl.Notification(method="m", params={})
        assert (notification.method, notification.params) == ("m", {})
        response = impl.Response(1)
        assert (response.id, response.result, response.error, response.is_error) == (1, None, None, False)
        error = impl.Error(code=5, message="e")
        assert (error.code, error.message, error.data) == (5, "e", UNSET)
        response = impl.Response(id=None, result=None, error=error)
        assert (response.id, response.result, response.error, response.is_error) == (None, None, error, True)

    def test_payloads_are_kept_as_they_are(self, impl: ModuleType) -> None:
        payload: dict[str, Any] = {}
        assert impl.Request(1, "m", payload).params is payload
        assert impl.Notification("m", payload).params is payload
        assert impl.Response(1, payload).result is payload
        assert impl.Error(1, "m", payload).data is payload

    @rows("id", [0, -1, 10**600, "", "é", 1.5, -0.0, None])
    def test_ids(self, impl: ModuleType, id: object) -> None:
        assert repr(impl.Request(id, "m").id) == repr(id)
        assert repr(impl.Response(id).id) == repr(id)

    @rows("id", [True, False, b"1", [], {}, (), 1j, object(), UNSET, type("Measure", (float,), {})(1.5)])
    def test_ids_of_another_type(self, impl: ModuleType, id: object) -> None:
        expected = f"id must be an int, a str, a float or None, not {type(id).__name__}"
        for make in (lambda: impl.Request(id, "m"), lambda: impl.Response(id)):
            with pytest.raises(TypeError) as caught:
                make()
            assert str(caught.value) == expected

    @rows("id", [float("nan"), float("inf"), float("-inf")])
    def test_infinite_ids_and_nan(self, impl: ModuleType, id: float) -> None:
        for make in (lambda: impl.Request(id, "m"), lambda: impl.Response(id)):
            with pytest.raises(ValueError, match=r"^id must be a finite number$"):
                make()

    @rows("method", [None, 1, b"m", ["m"], UNSET])
    def test_methods_of_another_type(self, impl: ModuleType, method: object) -> None:
        expected = f"^method must be a str, not {type(method).__name__}$"
        for make in (lambda: impl.Request(1, method), lambda: impl.Notification(method)):
            with pytest.raises(TypeError, match=expected):
                make()

    @rows("params", [0, 1, "", "a", b"", True, False, {1}, 1.5, UNSET])
    def test_params_of_another_type(self, impl: ModuleType, params: object) -> None:
        expected = (
            f"^params must be a dict, a list, .* a Raw of an object or array, or None, not {type(params).__name__}$"
        )
        for make in (lambda: impl.Request(1, "m", params), lambda: impl.Notification("m", params)):
            with pytest.raises(TypeError, match=expected):
                make()

    def test_errors_of_another_type(self, impl: ModuleType) -> None:
        for code in (True, "1", 1.0, None):
            with pytest.raises(TypeError, match=f"^code must be an int, not {type(code).__name__}$"):
                impl.Error(code, "m")
        for message in (None, 1, b"m"):
            with pytest.raises(TypeError, match=f"^message must be a str, not {type(message).__name__}$"):
                impl.Error(1, message)
        for error in (1, "e", {}, {"code": 1, "message": "m"}, False):
            with pytest.raises(TypeError, match=f"^error must be an Error or None, not {type(error).__name__}$"):
                impl.Response(1, error=error)

    def test_a_response_has_a_result_or_an_error(self, impl: ModuleType) -> None:
        for result in (1, 0, "", False, {}, []):
            with pytest.raises(ValueError, match=r"^a response has a result or an error, not both$"):
                impl.Response(1, result, impl.Error(1, "m"))

    def test_a_raw_payload_is_never_empty(self, impl: ModuleType) -> None:
        try:
            raw = impl.Raw.__new__(impl.Raw)
        except TypeError:
            return
        assert bytes(raw) == b"null"
        assert raw.decode() is None

    def test_codes_are_plain_ints(self, impl: ModuleType) -> None:
        error = impl.Error(ErrorCode.PARSE_ERROR, "m")
        assert type(error.code) is int
        assert error == impl.Error(-32700, "m")


class TestImmutability:
    def test_attributes(self, impl: ModuleType) -> None:
        for message in samples(impl):
            before = repr(message)
            for name in (*message.__match_args__, "other", "is_error", "__class__"):
                with pytest.raises((AttributeError, TypeError)):
                    setattr(message, name, 1)
                with pytest.raises((AttributeError, TypeError)):
                    delattr(message, name)
            assert repr(message) == before

    def test_no_dict(self, impl: ModuleType) -> None:
        for message in samples(impl):
            assert not hasattr(message, "__dict__")

    def test_init_cannot_be_called_again(self, impl: ModuleType) -> None:
        others = {
            impl.Request: (2, "other", []),
            impl.Notification: ("other", []),
            impl.Response: (2, "other"),
            impl.Error: (2, "other", 2),
        }
        for message in samples(impl):
            before = repr(message)
            with contextlib.suppress(TypeError):
                message.__init__(*others[type(message)])
            assert repr(message) == before
        decoded = impl.decode('{"jsonrpc":"2.0","id":null,"result":null}')
        with contextlib.suppress(TypeError):
            decoded.__init__(2, "other")
        assert repr(decoded) == "Response(id=None, result=None, error=None)"

    def test_final(self, impl: ModuleType) -> None:
        for cls in (impl.Request, impl.Notification, impl.Response, impl.Error):
            with pytest.raises(TypeError, match="is not an acceptable base type"):
                type("Sub", (cls,), {})


class TestComparison:
    def test_equal_to_a_second_instance(self, impl: ModuleType) -> None:
        for one, other in zip(samples(impl), samples(impl), strict=True):
            assert one is not other
            assert one == other
            assert (one != other) is False

    def test_different_from_all_others(self, impl: ModuleType) -> None:
        messages = samples(impl)
        for index, one in enumerate(messages):
            assert [one == other for other in messages] == [other == index for other in range(len(messages))]
            assert one != repr(one)
            assert one != (one.__match_args__ and tuple(getattr(one, name) for name in one.__match_args__))

    def test_ids_of_different_types_differ(self, impl: ModuleType) -> None:
        assert impl.Request(1, "m") != impl.Request(1.0, "m")
        assert impl.Response(0, 1) != impl.Response(-0.0, 1)
        assert impl.Request(1, "m") != impl.Request("1", "m")
        assert impl.Response(None, 1) != impl.Response(0, 1)

    def test_payloads_are_compared_as_python_does(self, impl: ModuleType) -> None:
        assert impl.Request(1, "m", [1]) == impl.Request(1, "m", [1.0])
        assert impl.Request(1, "m", []) != impl.Request(1, "m", None)
        assert impl.Error(1, "m", None) != impl.Error(1, "m")

    def test_other_classes_may_implement_equality(self, impl: ModuleType) -> None:
        class Anything:
            __hash__ = None  # type: ignore[assignment]

            def __eq__(self, other: object) -> bool:
                return True

        for message in samples(impl):
            assert message == Anything()

    def test_no_order_and_no_hash(self, impl: ModuleType) -> None:
        for message in samples(impl):
            with pytest.raises(TypeError, match="unhashable type"):
                hash(message)
            with pytest.raises(TypeError):
                message < message  # noqa: B015


class TestCopies:
    def test_copy(self, impl: ModuleType) -> None:
        for message in samples(impl):
            backend = copy.copy(message)
            assert (type(backend), backend) == (type(message), message)
            for name in message.__match_args__:
                assert getattr(backend, name) is getattr(message, name)

    def test_deepcopy(self, impl: ModuleType) -> None:
        params: dict[str, Any] = {"a": []}
        message = impl.Request(1, "m", params)
        backend = copy.deepcopy(message)
        assert backend == message
        params["a"].append(1)
        assert backend != message
        for each in samples(impl):
            assert copy.deepcopy(each) == each

    @rows("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle(self, impl: ModuleType, protocol: int) -> None:
        for message in samples(impl):
            backend = pickle.loads(pickle.dumps(message, protocol))
            assert (type(backend), backend) == (type(message), message)
        error = pickle.loads(pickle.dumps(impl.Error(1, "m"), protocol))
        assert error.data is UNSET

    def test_replace(self, impl: ModuleType) -> None:
        request = impl.Request(1, "m", [1], extra={"trace": 7})
        changed = replace(request, id=2, params=None)
        assert changed == impl.Request(2, "m", extra={"trace": 7})
        assert request == impl.Request(1, "m", [1], extra={"trace": 7})
        assert replace(request, extra=None) == impl.Request(1, "m", [1])
        assert replace(impl.Notification("n", [1]), method="o") == impl.Notification("o", [1])
        assert replace(impl.Error(1, "m"), message="n") == impl.Error(1, "n")
        assert replace(impl.Error(1, "m"), data=None) == impl.Error(1, "m", None)
        error = impl.Error(1, "m")
        assert replace(impl.Response(1, [2]), result=None, error=error) == impl.Response(1, error=error)
        for message in samples(impl):
            again = replace(message)
            assert (type(again), again, again is message) == (type(message), message, False)
        decoded = impl.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', raw=True)
        assert replace(decoded, id="a").to_bytes() == b'{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}'

    def test_replacements_are_checked(self, impl: ModuleType) -> None:
        with pytest.raises(TypeError, match=r"^id must be an int, a str, a float or None, not bool$"):
            replace(impl.Request(1, "m"), id=True)
        with pytest.raises(TypeError, match="code"):
            replace(impl.Request(1, "m"), code=1)
        with pytest.raises(ValueError, match=r"^a response has a result or an error, not both$"):
            replace(impl.Response(1, 2), error=impl.Error(1, "m"))

    @pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace is new in Python 3.13")
    def test_copy_replace(self, impl: ModuleType) -> None:
        for message in samples(impl):
            assert copy.replace(message) == message  # type: ignore[attr-defined,unused-ignore]

    def test_messages_in_messages(self, impl: ModuleType) -> None:
        batch = samples(impl)
        assert pickle.loads(pickle.dumps(batch)) == copy.deepcopy(batch) == batch


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


CASES = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{}}', ("request", "m", 1)),
    ('{"jsonrpc":"2.0","id":null,"method":""}', ("request", "", None)),
    ('{"jsonrpc":"2.0","id":18446744073709551616,"method":"m"}', ("request", "m", 18446744073709551616)),
    ('{"jsonrpc":"2.0","method":"é"}', ("notification", "é", None)),
    ('{"jsonrpc":"2.0","id":"x","result":null}', ("result", None, "x")),
    ('{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":""}}', ("error", None, 1.5)),
    ('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', ("error", None, None)),
    ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', ("batch", None, None)),
    ("[1]", ("batch", None, None)),
    ('{"id":7,"method":"m"}', ("invalid", None, 7)),
    ('{"jsonrpc":"2.0","id":7,"id":7,"method":"m"}', ("invalid", None, None)),
    ("[]", ("invalid", None, None)),
    ("1", ("invalid", None, None)),
    ("{", ("invalid", None, None)),
    ("", ("invalid", None, None)),
]


@rows(("text", "expected"), CASES)
def test_classify(impl: ModuleType, text: str, expected: tuple[object, ...]) -> None:
    for data in (text, text.encode()):
        found = impl.classify(data)
        assert type(found) is Classification
        assert repr(tuple(found)) == repr(expected)


def test_every_kind_is_covered() -> None:
    assert {expected[0] for _, expected in CASES} == set(get_args(Kind))


def test_fields() -> None:
    assert Classification("batch") == ("batch", None, None)
    assert Classification._fields == ("kind", "method", "id")


@given(text=mutants())
def test_classify_agrees_with_decode(impl: ModuleType, text: bytes) -> None:
    message = impl.decode(text)
    kind, method, id = impl.classify(text)
    assert repr(id) == repr(getattr(message, "id", None))
    if kind == "batch":
        assert type(message) is list
    elif kind == "invalid":
        assert type(message) is impl.ParseError
    else:
        assert method == getattr(message, "method", None)
        assert (kind in ("result", "error")) is (type(message) is impl.Response)
