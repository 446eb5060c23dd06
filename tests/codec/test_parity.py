"""The backends have one API: names, signatures, reprs, refusals and their texts."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import codec, errors
from jsonrpc_fast.codec import _backend
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.profile import JSONRPC, Limits
from jsonrpc_fast.types import UNSET

from ..support.comparison import Backends, outcome
from ..support.tables import rows

FUNCTIONS = [
    "classify",
    "decode",
    "decode_dict",
    "encode",
    "encode_dict",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "parse",
]
FOR_THE_PACKAGE = ["places", "serve_plain", "too_large_fault"]
"""Functions that the selector gives to other modules of the package, not to users."""
CLASSES = ["Decoder", "Error", "Notification", "ParseError", "Raw", "Request", "Response"]
MESSAGES = ["Request", "Notification", "Response", "Error"]


def members_of(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")} - set(dir(ValueError))


def parameters_of(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"  # positional only in a method of C
    ]


def test_names(backends: Backends) -> None:
    own, pure_own = (
        {
            name
            for name, value in vars(backend).items()
            if callable(value) and getattr(value, "__module__", None) in (backend.__name__, "jsonrpc_fast")
        }
        for backend in backends
    )
    assert {name for name in pure_own if not name.startswith("_")} == {*FUNCTIONS, *FOR_THE_PACKAGE, *CLASSES}
    assert own >= {*FUNCTIONS, *FOR_THE_PACKAGE, *CLASSES}


def test_the_selector_exports_all_names() -> None:
    for name in (*FUNCTIONS, *CLASSES):
        assert getattr(codec, name) is getattr(codec.backend, name)


@rows("name", FOR_THE_PACKAGE)
def test_functions_for_the_package(backends: Backends, name: str) -> None:
    core, pure = (getattr(backend, name) for backend in backends)
    assert list(inspect.signature(core).parameters) == list(inspect.signature(pure).parameters)
    assert getattr(_backend, name) is getattr(codec.backend, name)


@rows("name", FUNCTIONS)
def test_functions(backends: Backends, name: str) -> None:
    core, pure = (getattr(backend, name) for backend in backends)
    assert parameters_of(core) == parameters_of(pure)
    assert core.__name__ == pure.__name__ == core.__qualname__ == pure.__qualname__ == name
    assert inspect.getdoc(core) == inspect.getdoc(pure) != ""


@rows("name", CLASSES)
def test_classes(backends: Backends, name: str) -> None:
    core, pure = (getattr(backend, name) for backend in backends)
    assert parameters_of(core) == parameters_of(pure)
    assert core.__name__ == pure.__name__ == core.__qualname__ == pure.__qualname__ == name
    assert inspect.getdoc(core) == inspect.getdoc(pure) != ""
    assert members_of(core) == members_of(pure)
    assert getattr(core, "__match_args__", None) == getattr(pure, "__match_args__", None)
    assert (core.__hash__ is None) is (pure.__hash__ is None)


@rows("name", CLASSES)
def test_methods(backends: Backends, name: str) -> None:
    core, pure = (getattr(backend, name) for backend in backends)
    for member in sorted(members_of(pure)):
        ours, theirs = getattr(core, member), getattr(pure, member)
        assert callable(ours) is callable(theirs), member
        if callable(theirs):
            assert parameters_of(ours) == parameters_of(theirs), member
        if callable(theirs) or isinstance(theirs, property):
            assert inspect.getdoc(ours) == inspect.getdoc(theirs), member


def test_both_parse_errors_have_one_base_class(backends: Backends) -> None:
    core, pure = backends
    for backend in backends:
        assert backend.ParseError.__bases__ == (errors.ParseError,)
    assert core.decode(b"x") == pure.decode(b"x")
    assert core.ParseError is not pure.ParseError


def samples(backend: ModuleType) -> list[Any]:
    error = backend.Error(-32601, "Method not found", {"a": [1]})
    return [
        backend.Request(1, "m", {"a": [1, "é"]}),
        backend.Request(10**100, "\n" * 500, list(range(100))),
        backend.Request(None, ""),
        backend.Notification("n", [1.5, None, {"k": 1000 * "v"}]),
        backend.Response("x", {str(number): number for number in range(100)}),
        backend.Response(-0.0, backend.Raw(b' {"a":1} ')),
        backend.Response(7, error=error),
        error,
        backend.Error(0, ""),
        backend.Request(1, "m", extra={"a": [1, "é"]}),
        backend.Notification("m", {}, extra={"b": 1000 * "v"}),
        backend.Response(1, [], extra={"params": None}),
        backend.Response(1, error=backend.Error(1, "m", None, extra={"c": 1}), extra={"d": {}}),
        backend.Error(1, "m", extra={"e": 1.5}),
        backend.Raw(b"[" + 1000 * b"1," + b"1]"),
        backend.ParseError(ParseErrorCode.TOO_DEEP, "x", index=3),
        backend.decode(b"[1,"),
    ]


def test_reprs(backends: Backends) -> None:
    core, pure = backends
    assert [repr(value) for value in samples(core)] == [repr(value) for value in samples(pure)]
    assert repr(core.Response(1, 10**5000)) == repr(pure.Response(1, 10**5000))


def test_dicts_and_bytes(backends: Backends) -> None:
    core, pure = backends
    for one, other in zip(samples(core), samples(pure), strict=True):
        for name in ("to_dict", "to_bytes", "to_bytes_delimited", "to_str"):
            if hasattr(other, name):
                assert repr(getattr(one, name)()).replace("_core", "_pure") == repr(getattr(other, name)())


def test_pickles_and_copies(backends: Backends) -> None:
    for backend in backends:
        for value in samples(backend):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                again = pickle.loads(pickle.dumps(value, protocol))
                assert (type(again), again) == (type(value), value)
            assert copy.copy(value) == copy.deepcopy(value) == value


def test_messages_of_two_backends_are_never_equal(backends: Backends) -> None:
    core, pure = backends
    for one, other in zip(samples(core), samples(pure), strict=True):
        assert (one == other) is isinstance(one, errors.ParseError)
        assert (other == one) is isinstance(one, errors.ParseError)


NAN = float("nan")
VALUES: list[Any] = [
    None,
    True,
    0,
    1.5,
    NAN,
    "",
    "a",
    b"a",
    [],
    {},
    (),
    {1},
    UNSET,
    10**5000,
    "\ud800",
    JSONRPC,
    Limits(),
]


def attempts(backend: ModuleType) -> dict[str, Callable[[], Any]]:
    """Every parameter with every value."""
    calls: dict[str, Callable[[], Any]] = {}
    for place, value in enumerate(VALUES):
        calls |= {
            f"{name} {place}": call
            for name, call in {
                "Request id": lambda value=value: backend.Request(value, "m"),
                "Request method": lambda value=value: backend.Request(1, value),
                "Request params": lambda value=value: backend.Request(1, "m", value),
                "Notification method": lambda value=value: backend.Notification(value),
                "Notification params": lambda value=value: backend.Notification("m", value),
                "Response id": lambda value=value: backend.Response(value),
                "Response result": lambda value=value: backend.Response(1, value),
                "Response error": lambda value=value: backend.Response(1, None, value),
                "Response both": lambda value=value: backend.Response(1, value, backend.Error(1, "m")),
                "Error code": lambda value=value: backend.Error(value, "m"),
                "Error message": lambda value=value: backend.Error(1, value),
                "Error data": lambda value=value: backend.Error(1, "m", value),
                "Request extra": lambda value=value: backend.Request(1, "m", extra=value),
                "Notification extra": lambda value=value: backend.Notification("m", extra=value),
                "Response extra": lambda value=value: backend.Response(1, extra=value),
                "Error extra": lambda value=value: backend.Error(1, "m", extra=value),
                "extra name": lambda value=value: backend.Request(1, "m", extra={repr(value): 1, hash(value): 1}),
                "encode extra": lambda value=value: backend.Request(1, "m", extra={"a": value}).to_bytes(),
                "ParseError": lambda value=value: backend.ParseError(value),
                "Raw": lambda value=value: backend.Raw(value),
                "decode": lambda value=value: backend.decode(value),
                "decode profile": lambda value=value: backend.decode(b"{}", value),
                "decode_dict": lambda value=value: backend.decode_dict(value),
                "decode_dict profile": lambda value=value: backend.decode_dict(b"{}", value),
                "encode_dict": lambda value=value: backend.encode_dict(value),
                "encode_dict list": lambda value=value: backend.encode_dict([value]),
                "encode_dict option": lambda value=value: backend.encode_dict(
                    {"jsonrpc": "2.0", "method": "m"}, option=value
                ),
                "parse": lambda value=value: backend.parse(value),
                "parse profile": lambda value=value: backend.parse({}, value),
                "classify": lambda value=value: backend.classify(value),
                "Decoder framing": lambda value=value: backend.Decoder(value),
                "Decoder profile": lambda value=value: backend.Decoder(profile=value),
                "Decoder limits": lambda value=value: backend.Decoder(limits=value).feed(b""),
                "Decoder feed": lambda value=value: backend.Decoder().feed(value),
                "encode": lambda value=value: backend.encode(value),
                "encode list": lambda value=value: backend.encode([value]),
                "encode default": lambda value=value: backend.encode(backend.Response(1, {1}), default=value),
                "encode option": lambda value=value: backend.encode(backend.Response(1, 1), option=value),
                "encode delimited": lambda value=value: backend.encode(backend.Response(1, 1), delimited=value),
                "encode_request id": lambda value=value: backend.encode_request(value, "m"),
                "encode_request method": lambda value=value: backend.encode_request(1, value),
                "encode_request params": lambda value=value: backend.encode_request(1, "m", value),
                "encode_request all": lambda value=value: backend.encode_request(value, value, value),
                "encode_notification": lambda value=value: backend.encode_notification(value, value),
                "encode_notification params": lambda value=value: backend.encode_notification("m", value),
                "encode_result id": lambda value=value: backend.encode_result(value, 1),
                "encode_result": lambda value=value: backend.encode_result(1, value),
                "encode_result both": lambda value=value: backend.encode_result(value, value),
                "encode_error code": lambda value=value: backend.encode_error(1, value, "m"),
                "encode_error message": lambda value=value: backend.encode_error(1, 1, value),
                "encode_error data": lambda value=value: backend.encode_error(1, 1, "m", value),
                "encode_error all": lambda value=value: backend.encode_error(value, value, value, value),
                "from_dict": lambda value=value: [getattr(backend, name).from_dict(value) for name in MESSAGES],
            }.items()
        }
    return calls


def test_refusals_and_their_texts(backends: Backends) -> None:
    core, pure = (attempts(backend) for backend in backends)
    found = {name: outcome(call) for name, call in core.items()}
    assert len(found) == 53 * len(VALUES)
    assert found == {name: outcome(call) for name, call in pure.items()}


@rows("profile", [None, 1, "jsonrpc", {}, Limits()], ids=lambda value: type(value).__name__)
def test_a_profile_of_another_type(impl: ModuleType, profile: Any) -> None:
    for call in (
        lambda: impl.decode(b"{}", profile),
        lambda: impl.decode(b"x", profile=profile),
        lambda: impl.parse({}, profile),
        lambda: impl.parse([{}], profile),
    ):
        with pytest.raises(
            TypeError, match=f"^profile must be a Profile, such as jsonrpc_fast.LENIENT, not {type(profile).__name__}$"
        ):
            call()


def test_wrong_numbers_of_arguments(backends: Backends) -> None:
    def kinds(backend: ModuleType) -> list[str]:
        found = []
        for name in (*FUNCTIONS, *CLASSES):
            for arguments, keywords in (((), {}), (range(9), {}), ((), {"other": 1}), ((1,), {"other": 1})):
                try:
                    getattr(backend, name)(*arguments, **keywords)
                    found.append(f"{name}: nothing")
                except Exception as error:
                    found.append(f"{name}: {type(error).__name__}")
        return found

    core, pure = backends
    assert kinds(core) == kinds(pure)
    assert {kind for kind in kinds(pure) if not kind.endswith(": TypeError")} == {"Decoder: nothing"}


def test_keywords(backends: Backends) -> None:
    for backend in backends:
        assert backend.decode(data=b"1", profile=JSONRPC, raw=False) == backend.parse(obj=1, profile=JSONRPC)
        assert backend.classify(data=b"[1]").kind == "batch"
        message = backend.Request(id=1, method="m", params=[])
        text = backend.encode(message=message, delimited=False, default=None, option=0)
        assert text == backend.encode_request(id=1, method="m", params=[], delimited=False)
        assert backend.encode_error(id=1, code=2, message="m", data=3) == backend.encode(
            backend.Response(id=1, error=backend.Error(code=2, message="m", data=3))
        )
        assert (
            backend.encode_notification(method="m", params=None)
            == backend.Notification(method="m").to_bytes_delimited()
        )


def is_changeable(value: Any, name: str) -> bool:
    for change in (lambda: setattr(value, name, None), lambda: delattr(value, name)):
        with contextlib.suppress(AttributeError, TypeError):
            change()
            return True
    return False


def test_immutability(backends: Backends) -> None:
    for backend in backends:
        for value in samples(backend):
            if isinstance(value, errors.ParseError):
                names = {*value.__match_args__, "rpc_code", "reply_expected"}
            else:
                names = {*members_of(type(value)), "other", "__dict__", "_data", "_exact"}
            assert [name for name in names if is_changeable(value, name)] == []


def test_options_of_orjson(backends: Backends) -> None:
    def written(backend: ModuleType) -> list[str]:
        return [
            outcome(functools.partial(backend.encode_result, 1, payload, option=option))
            for option in [0, *(1 << bit for bit in range(15)), 1 << 40, -1]
            for payload in ({"b": 1, "a": 2}, {1: 2}, "a", [2**60], {1, 2})
        ]

    core, pure = backends
    assert written(core) == written(pure)


PICKLES = """
import pickle, sys
if "--without-the-core" in sys.argv:
    sys.modules["jsonrpc_fast.codec._core"] = None
import jsonrpc_fast as own
from jsonrpc_fast import codec
def samples():
    exact = own.JSONRPC
    return [
        own.Request(1, "m", {"a": [1, "\\u00e9"]}), own.Notification("n"), own.Response("x", 1.5),
        own.Response(7, error=own.Error(-1, "m", own.Raw(b"[1]"))), own.Error(1, "m"), own.Raw(b'{"a":1}'),
        own.decode(b'{"jsonrpc":"2.0","id":1,"result":[18446744073709551616]}', exact, raw=True),
        own.ParseError(own.ParseErrorCode.TOO_DEEP, "x", index=3, reply_expected=False), own.decode(b"[1,"),
    ]
if "--write" in sys.argv:
    sys.stdout.buffer.write(pickle.dumps([(codec.BACKEND, protocol, pickle.dumps(samples(), protocol))
                                          for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]))
else:
    for backend, protocol, text in pickle.loads(sys.stdin.buffer.read()):
        found = pickle.loads(text)
        assert found == samples(), (found, protocol)
        assert [type(value) for value in found] == [type(value) for value in samples()]
        assert found[6].result.decode() == [18446744073709551616]
    print(backend, codec.BACKEND)
"""


@pytest.mark.ci
def test_pickles_of_either_backend_load_in_the_other(backends: Backends) -> None:
    def run(*arguments: str, pure: bool, stdin: bytes = b"") -> bytes:
        environment = {**os.environ, "JSONRPC_FAST_PURE": "1" if pure else ""}
        command = [sys.executable, "-c", PICKLES, *arguments]
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, check=True, timeout=60).stdout

    for pure in (False, True):
        written = run("--write", pure=pure)
        writer = b"python" if pure else b"cython"
        assert run(pure=not pure, stdin=written).split() == [writer, b"cython" if pure else b"python"]
        assert run("--without-the-core", pure=False, stdin=written).split() == [writer, b"python"]
