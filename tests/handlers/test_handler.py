"""Which params fit which signature, and which arguments a function gets."""

from __future__ import annotations

import enum
import functools
import inspect
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import Raw
from jsonrpc_fast.codec import Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers, RequestContext
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, Limits, Profile
from jsonrpc_fast.session import Handler, SessionContext

from ..support.recorder import Recorder
from ..support.tables import rows


def none() -> Any:
    return ()


def two(a: Any, b: Any) -> Any:
    return a, b


def optional(a: Any, b: Any = 5) -> Any:
    return a, b


def variable(a: Any, *rest: Any, **named: Any) -> Any:
    return a, rest, named


def only_positional(a: Any, /, b: Any) -> Any:
    return a, b


def only_named(a: Any, *, b: Any, c: Any = 5) -> Any:
    return a, b, c


def positional_by_any_name(a: Any, /, **named: Any) -> Any:
    return a, named


def optional_positional(a: Any = 1, /, **named: Any) -> Any:
    return a, named


FUNCTIONS = [none, two, optional, variable, only_positional, only_named, positional_by_any_name, optional_positional]


@rows(
    ("function", "params", "expected"),
    [
        (none, None, ()),
        (none, [], ()),
        (none, {}, ()),
        (two, [1, 2], (1, 2)),
        (two, {"b": 2, "a": 1}, (1, 2)),
        (two, Raw(b'{"b":2,"a":1}'), (1, 2)),
        (optional, [1], (1, 5)),
        (optional, {"a": 1}, (1, 5)),
        (optional, {"a": 1, "b": None}, (1, None)),
        (variable, [1, 2, 3], (1, (2, 3), {})),
        (variable, {"a": 1, "z": 2}, (1, (), {"z": 2})),
        (only_positional, [1, 2], (1, 2)),
        (only_named, {"a": 1, "b": 2}, (1, 2, 5)),
        (positional_by_any_name, [1], (1, {})),
        (optional_positional, {"a": 7}, (1, {"a": 7})),
        (functools.partial(two, 1), [2], (1, 2)),
        (functools.partial(two, b=1), {"a": 2}, (2, 1)),
        (len, [[1, 2]], 2),
    ],
)
def test_params_that_fit(function: Any, params: Any, expected: object) -> None:
    assert Handler(function).invoke(params, None) == expected


A, B = ("/a", "is required"), ("/b", "is required")
UNKNOWN = ("", "has an unknown member")


@rows(
    "function, params, problems",
    [
        (none, [1], [("", "must have at most 0 items")]),
        (none, {"a": 1}, [UNKNOWN]),
        (two, None, [A, B]),
        (two, [], [A, B]),
        (two, [1], [B]),
        (two, [1, 2, 3], [("", "must have at most 2 items")]),
        (two, {"a": 1}, [B]),
        (two, {"c": 1}, [A, B, UNKNOWN]),
        (two, {"a": 1, "b": 2, "c": 3}, [UNKNOWN]),
        (two, Raw(b"[1]"), [B]),
        (optional, {"b": 1}, [A]),
        (optional, [1, 2, 3], [("", "must have at most 2 items")]),
        (variable, [], [A]),
        (only_positional, {"a": 1, "b": 2}, [("", "must be an array")]),
        (only_positional, None, [A, B]),
        (only_named, [1], [("", "must be an object")]),
        (only_named, [1, 2], [("", "must be an object")]),
        (only_named, {"a": 1}, [B]),
        (only_named, None, [A, B]),
        (positional_by_any_name, {"a": 1}, [("", "must be an array")]),
    ],
)
def test_params_that_do_not_fit(function: Any, params: Any, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(RpcError) as caught:
        Handler(function).invoke(params, None)
    assert (caught.value.code, caught.value.message) == (-32602, "Invalid params")
    assert [(problem["path"], problem["reason"]) for problem in caught.value.data] == problems


@given(
    st.sampled_from(FUNCTIONS),
    st.one_of(
        st.none(),
        st.lists(st.integers(), max_size=4),
        st.dictionaries(st.sampled_from(["a", "b", "c", "rest", "named", "self", "", "x y"]), st.integers()),
    ),
)
def test_params_fit_exactly_if_python_accepts_the_call(function: Any, params: Any) -> None:
    def called() -> Any:
        return function(**params) if isinstance(params, dict) else function(*(params or ()))

    try:
        expected = called()
    except TypeError:
        with pytest.raises(RpcError):
            Handler(function).invoke(params, None)
    else:
        assert Handler(function).invoke(params, None) == expected


# The context.


def first(context: SessionContext, a: Any) -> Any:
    return context, a


def named(a: Any, *, context: SessionContext) -> Any:
    return context, a


def any_name(context: SessionContext, **names: Any) -> Any:
    return context, names


def evaluated(context: Any, a: Any) -> Any:
    return context, a


evaluated.__annotations__["context"] = SessionContext


class Methods:
    def method(self, context: SessionContext, a: Any) -> Any:
        return context, a


CONTEXT: Any = object()


@rows("function", [first, named, evaluated, Methods().method])
def test_the_context_is_passed(function: Any) -> None:
    handler = Handler(function)
    assert handler.wants_context
    assert handler.invoke([1], CONTEXT) == (CONTEXT, 1) if function is not named else True
    assert handler.invoke({"a": 1}, CONTEXT) == (CONTEXT, 1)
    for params in ({"a": 1, "context": 2}, {"context": 2}, [1, 2], []):
        with pytest.raises(RpcError):
            handler.invoke(params, CONTEXT)


def test_the_peer_cannot_set_the_context() -> None:
    handler = Handler(any_name)
    assert handler.invoke({"a": 1}, CONTEXT) == (CONTEXT, {"a": 1})
    with pytest.raises(RpcError):
        handler.invoke({"a": 1, "context": 2}, CONTEXT)


def test_a_context_that_is_neither_first_nor_named_is_refused() -> None:
    def second(a: Any, context: SessionContext) -> None:
        raise AssertionError

    with pytest.raises(TypeError):
        Handler(second)


def test_functions_without_a_context_parameter_get_none() -> None:
    assert not Handler(two).wants_context


# Registering.


@rows("params", [None, [1], {"a": 1}, Raw(b"[1]")])
def test_params_without_unpacking(params: Any) -> None:
    handlers = Handlers()

    @handlers.register("m", unpack=False)
    def function(whole: Any) -> Any:
        return whole

    handler = handlers.find("m")
    assert handler is not None
    assert handler.invoke(params, None) is params


@rows("function", [first, named])
def test_params_without_unpacking_beside_the_context(function: Any) -> None:
    assert Handler(function, unpack=False).invoke({"context": 1}, CONTEXT) == (CONTEXT, {"context": 1})


def test_reserved_names_are_refused() -> None:
    for name in ("rpc.", "rpc.discover"):
        with pytest.raises(ValueError, match=r"rpc\."):
            Handlers({name: two})
    Handlers({"rpc": two, "rpcs.x": two, "RPC.x": two})


class Named(str, enum.Enum):  # noqa: UP042 - its `str` is "Named.CALL"
    CALL = "tools/call"


@rows(
    "method",
    ["tools/call", b"tools/call".decode(), Named.CALL, type("Sub", (str,), {})("tools/call")],
)
def test_names_of_methods_are_interned_so_that_threads_do_not_wait_for_them(method: str) -> None:
    interned = sys.intern("tools/call")
    handlers = Handlers({"sub/" + method.partition("/")[2]: none, method: none})
    first, name = handlers.functions()
    assert name is interned
    assert first is sys.intern("sub/call")
    assert handlers.dispatch(b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}') == (
        b'{"jsonrpc":"2.0","id":1,"result":[]}\n'
    )


def test_a_method_is_registered_once() -> None:
    handlers = Handlers({"m": two})
    with pytest.raises(ValueError, match="already"):
        handlers.register("m", none)
    handler = handlers.find("m")
    assert handler is not None
    assert handler.invoke([1, 2], None) == (1, 2)


def test_invalid_names_and_functions() -> None:
    with pytest.raises(TypeError):
        Handlers({5: two})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        Handlers({"m": 5})  # type: ignore[dict-item]


def test_an_unknown_method() -> None:
    assert Handlers({"m": two}).find("n") is None


def test_the_repr_names_the_function() -> None:
    assert re.fullmatch(r"Handler\(<function two at 0x[0-9a-f]+>\)", repr(Handler(two)))


def test_the_repr_of_handlers_counts_their_methods() -> None:
    handlers = Handlers({"two": two})
    child = handlers.child()
    child.register("three", two)
    assert (repr(handlers), repr(Handlers())) == ("<Handlers methods=1>", "<Handlers methods=0>")
    assert repr(child) == "<_ChildHandlers methods=2>"


def test_the_repr_of_a_context_has_no_payload() -> None:
    secret = {"authorization": "secret"}
    assert repr(RequestContext("add", 1, False, secret)) == "<RequestContext method='add' id=1>"
    assert repr(RequestContext("add", None, False, secret)) == "<RequestContext method='add' id=None>"
    assert repr(RequestContext("add", None, True, secret)) == "<RequestContext method='add'>"
    assert len(repr(RequestContext("m" * 10_000, "i" * 10_000, False))) < 250


def test_the_repr_of_handlers_inside_others() -> None:
    handlers = Handlers(middleware=[lambda context, params, call_next: call_next(params)], timeout=5)
    handlers.register("two", two, thread=True, ordered=True)
    found = repr(handlers.child().finder()("two"))
    assert "Handler(" in found
    assert "two" in found


CODEX = JSONRPC.replace(optional_jsonrpc=True, writes="unversioned")
BOTH = JSONRPC_1.replace(batches=True)
INVALID = '"error":{"code":-32600,"message":"Invalid Request"}'
NOT_JSON = '"error":{"code":-32700,"message":"Parse error"}'


async def double(number: Any) -> Any:
    return number * 2


HANDLERS = Handlers({"double": lambda number: number * 2, "later": double})

TEXTS = [
    (BOTH, '{"id":1,"method":"double","params":[2]}', '{"id":1,"result":4,"error":null}'),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":"double","params":[2]}', '{"jsonrpc":"2.0","id":1,"result":4}'),
    (BOTH, '{"params":["jsonrpc"],"id":1,"method":"double"}', '{"id":1,"result":"jsonrpcjsonrpc","error":null}'),
    (BOTH, '{"params":[2],"id":1,"method":"double","jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":1,"result":4}'),
    (BOTH, '{"id":null,"method":"double","params":[2]}', ""),
    (CODEX, '{"id":1,"method":"double","params":[2]}', '{"id":1,"result":4}'),
    (JSONRPC.replace(writes="1.0"), '{"jsonrpc":"2.0","id":1}', '{"id":1,' + INVALID + ',"result":null}'),
    # Faults.
    (BOTH, '{"jsonrpc":"1.0","id":1,"method":"m"}', '{"jsonrpc":"2.0","id":1,' + INVALID + "}"),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":7}', '{"jsonrpc":"2.0","id":1,' + INVALID + "}"),
    (BOTH, '{"jsonrpc":"2.0","id":1,"method":"m"', '{"jsonrpc":"2.0","id":null,' + NOT_JSON + "}"),
    (BOTH, '{"id":1,"method":7}', '{"id":1,' + INVALID + ',"result":null}'),
    (BOTH, "x", '{"id":null,' + NOT_JSON + ',"result":null}'),
    (BOTH, "[]", '{"id":null,' + INVALID + ',"result":null}'),
    (JSONRPC_1, '[{"jsonrpc":"2.0","id":1,"method":"m"}]', '{"jsonrpc":"2.0","id":null,' + INVALID + "}"),
    (JSONRPC_1, '[{"id":1,"method":"m"}]', '{"id":null,' + INVALID + ',"result":null}'),
    (
        BOTH.replace(limits=Limits(message_bytes=40)),
        '{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2,3,4]}',
        '{"jsonrpc":"2.0","id":1,' + INVALID + "}",
    ),
    # A batch with one item of 2.0 is one of 2.0.
    (
        BOTH,
        '[{"id":1,"method":"double","params":[2]},7,{"jsonrpc":"2.0","id":2,"method":"later","params":[2]}]',
        '[{"jsonrpc":"2.0","id":1,"result":4},{"jsonrpc":"2.0","id":null,'
        + INVALID
        + '},{"jsonrpc":"2.0","id":2,"result":4}]',
    ),
    (
        BOTH,
        '[{"id":1,"method":"later","params":["]"]},7]',
        '[{"id":1,"result":"]]","error":null},{"id":null,' + INVALID + ',"result":null}]',
    ),
]


@rows(("profile", "text", "response"), TEXTS)
async def test_each_text(profile: Profile, text: str, response: str) -> None:
    for data in (text, text.encode()):
        found = await HANDLERS.dispatch_async(data, profile, delimited=False)
        assert found.decode() == response
        if "later" not in text:
            assert HANDLERS.dispatch(data, profile, delimited=False).decode() == response
    hooks = Recorder()
    observed = HANDLERS.prepare(profile, hooks=hooks, delimited=False).continuing({}).start(text)
    assert (observed if isinstance(observed, bytes) else await observed).decode() == response
    assert [event[-2:] for event in hooks.events if event[0] == "served"] == [
        (Outcome.RESULT, None) for method in text.split('"method":"')[1:] if method[0] in "dl"
    ]


def test_what_is_decoded_has_no_text() -> None:
    dispatch = HANDLERS.prepare(JSONRPC_1)
    assert dispatch.serve(Request(1, "double", [2])) == b'{"id":1,"result":4,"error":null}\n'


@pytest.mark.parametrize("is_registered_first", [True, False])
def test_raw_params(is_registered_first: bool) -> None:
    handlers = Handlers()
    if is_registered_first:
        handlers.register("size", lambda params: len(bytes(params)), unpack=False)
    dispatch = handlers.prepare(JSONRPC_1, raw=True, delimited=False)
    if not is_registered_first:
        handlers.register("size", lambda params: len(bytes(params)), unpack=False)
    assert dispatch.serve(b'{"id":1,"method":"size","params":[ 1]}') == b'{"id":1,"result":4,"error":null}'
    assert dispatch.serve(b'{"jsonrpc":"2.0","id":1,"method":"size","params":[ 1]}') == (
        b'{"jsonrpc":"2.0","id":1,"result":4}'
    )


def test_a_signature_is_read_once_for_all_functions_with_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    signature = inspect.signature

    def counted(function: Any) -> inspect.Signature:
        read.append(function)
        return signature(function)

    monkeypatch.setattr("jsonrpc_fast.handlers.handler.inspect.signature", counted)
    for _ in range(3):
        assert Handler(lambda one, two: one + two).invoke([1, 2], None) == 3
    assert len(read) == 1

    def make(annotation: Any, **attributes: Any) -> Any:
        def function(value: Any) -> Any:
            return value

        function.__annotations__["value"] = annotation
        vars(function).update(attributes)
        return function

    assert not Handler(make(int)).wants_context
    assert Handler(make(RequestContext)).wants_context
    assert not Handler(make(RequestContext, __signature__=signature(lambda value: value))).wants_context
