"""Reports of every fault, in agreement with `parse`."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import (
    JSONRPC,
    LENIENT,
    LSP,
    MCP_2024_11_05,
    MCP_2025_11_25,
    Error,
    Limits,
    ParseErrorCode,
    Profile,
    Raw,
    Response,
)
from jsonrpc_fast.validator import Fault, JsonRpcValidator, Report

from .support.tables import rows

STRICT = JSONRPC.replace(extra_members=False)
SMALL = JSONRPC.replace(limits=Limits(method_bytes=8, id_bytes=32, batch_items=3))
PROFILES = [JSONRPC, LENIENT, LSP, MCP_2024_11_05, MCP_2025_11_25, STRICT, SMALL]
validator = JsonRpcValidator()


def found(report: Report) -> list[tuple[str, str]]:
    return [(fault.code.name, fault.path) for fault in report.errors]


@rows(
    "obj",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "add"},
        {"jsonrpc": "2.0", "id": "", "method": "add", "params": []},
        {"jsonrpc": "2.0", "id": None, "method": "add", "params": {"a": 1}, "extra": 1},
        {"jsonrpc": "2.0", "id": 1, "method": "add", "params": Raw("[1]")},
    ],
)
def test_valid_request(obj: object) -> None:
    report = validator.validate_request(obj)
    assert (report.valid, report.errors, report["valid"], report["errors"]) == (True, (), True, ())
    assert report.error_response() is None


@rows(
    ("obj", "faults"),
    [
        (5, [("NOT_AN_OBJECT", "")]),
        ([], [("NOT_AN_OBJECT", "")]),
        ({}, [("MISSING_JSONRPC", "/jsonrpc"), ("MISSING_ID", "/id"), ("MISSING_METHOD", "/method")]),
        (
            {"jsonrpc": 2.0, "id": True, "method": 5, "params": 7, "result": 1, "error": 2},
            [
                ("INVALID_JSONRPC_VERSION", "/jsonrpc"),
                ("INVALID_ID_TYPE", "/id"),
                ("AMBIGUOUS_MESSAGE", "/result"),
                ("AMBIGUOUS_MESSAGE", "/error"),
                ("INVALID_METHOD_TYPE", "/method"),
                ("INVALID_PARAMS_TYPE", "/params"),
            ],
        ),
        ({"jsonrpc": "2.0", "id": 1, "method": ""}, [("EMPTY_METHOD", "/method")]),
        ({"jsonrpc": "2.0", "method": "add"}, [("MISSING_ID", "/id")]),
        ({"jsonrpc": "2.0", "id": 1, "result": 3}, [("AMBIGUOUS_MESSAGE", "/result"), ("MISSING_METHOD", "/method")]),
        ({"jsonrpc": "2.0", "id": "\ud800", "method": "a"}, [("INVALID_ID_TYPE", "/id")]),
    ],
)
def test_every_fault_of_a_request(obj: object, faults: list[tuple[str, str]]) -> None:
    assert found(validator.validate_request(obj)) == faults


def test_every_fault_of_a_notification() -> None:
    assert validator.validate_notification({"jsonrpc": "2.0", "method": "hello"}).valid
    report = validator.validate_notification({"jsonrpc": "1.0", "id": 1, "method": "", "params": None})
    assert found(report) == [
        ("INVALID_JSONRPC_VERSION", "/jsonrpc"),
        ("UNEXPECTED_MEMBER", "/id"),
        ("EMPTY_METHOD", "/method"),
        ("INVALID_PARAMS_TYPE", "/params"),
    ]
    assert report.error_response() is None


@rows(
    ("obj", "profile", "faults"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": None}, JSONRPC, []),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}}, MCP_2024_11_05, []),
        ({"jsonrpc": "2.0", "id": 1, "result": 1, "error": None}, LENIENT, []),
        ({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}, MCP_2025_11_25, []),
        (
            {"id": {}, "method": "add", "result": 1, "error": {"code": True}},
            JSONRPC,
            [
                ("MISSING_JSONRPC", "/jsonrpc"),
                ("AMBIGUOUS_MESSAGE", "/method"),
                ("INVALID_ID_TYPE", "/id"),
                ("RESULT_AND_ERROR", ""),
                ("INVALID_ERROR_CODE", "/error/code"),
                ("INVALID_ERROR_MESSAGE", "/error/message"),
            ],
        ),
        ({"jsonrpc": "2.0"}, JSONRPC, [("MISSING_ID", "/id"), ("MISSING_METHOD", "")]),
        ({"jsonrpc": "2.0", "id": 1, "result": 3}, MCP_2025_11_25, [("INVALID_RESULT_TYPE", "/result")]),
        ({"jsonrpc": "2.0", "id": 1, "error": []}, JSONRPC, [("INVALID_ERROR_TYPE", "/error")]),
        (
            {"jsonrpc": "2.0", "id": 1, "result": 3, "params": 1, "secret": 1},
            STRICT,
            [("UNEXPECTED_MEMBER", "/params"), ("UNEXPECTED_MEMBER", "")],
        ),
    ],
)
def test_every_fault_of_a_response(obj: object, profile: Profile, faults: list[tuple[str, str]]) -> None:
    report = JsonRpcValidator(profile).validate_response(obj)
    assert (found(report), report.valid) == (faults, not faults)


def test_limits() -> None:
    report = JsonRpcValidator(SMALL).validate_request({"jsonrpc": "2.0", "id": 10**40, "method": "m" * 9})
    assert found(report) == [("METHOD_TOO_LONG", "/method"), ("ID_TOO_LONG", "/id")]
    assert report.id is None


def test_faults_are_readable_as_mappings() -> None:
    report = validator.validate_request({"jsonrpc": "2.0", "id": 1})
    [fault] = report["errors"]
    assert (fault["code"], fault["path"], fault["index"]) == (ParseErrorCode.MISSING_METHOD, "/method", None)
    assert fault["message"] == "method is missing"
    with pytest.raises(KeyError):
        report["kind"]  # type: ignore[call-overload]
    with pytest.raises(KeyError):
        fault["nothing"]  # type: ignore[index]


def test_batch() -> None:
    assert validator.validate_batch([{"jsonrpc": "2.0", "method": "a"}, {"jsonrpc": "2.0", "id": 1, "result": 1}]).valid
    report = validator.validate_batch(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "a"},
            {"jsonrpc": "2.0", "id": 2, "method": "", "params": 3},
            7,
            {"jsonrpc": "2.0", "method": "a", "params": 3},
            {"jsonrpc": "2.0", "method": 1},
        ]
    )
    assert [(fault.index, fault.code.name) for fault in report.errors] == [
        (1, "EMPTY_METHOD"),
        (1, "INVALID_PARAMS_TYPE"),
        (2, "NOT_AN_OBJECT"),
        (3, "INVALID_PARAMS_TYPE"),
        (4, "INVALID_METHOD_TYPE"),
    ]
    invalid = Error(-32600, "Invalid Request")
    assert report.error_response() == [
        Response(2, error=invalid),
        Response(None, error=invalid),
        Response(None, error=invalid),
    ]


@rows(
    ("obj", "profile", "code"),
    [
        ([], JSONRPC, "EMPTY_BATCH"),
        ([1, 2, 3, 4], SMALL, "BATCH_TOO_LARGE"),
        ([1], MCP_2025_11_25, "BATCH_NOT_ALLOWED"),
        ({}, JSONRPC, "NOT_AN_OBJECT"),
    ],
)
def test_values_that_are_not_batches(obj: object, profile: Profile, code: str) -> None:
    report = JsonRpcValidator(profile).validate_batch(obj)
    assert found(report) == [(code, "")]
    assert report.error_response() == Response(None, error=Error(-32600, "Invalid Request"))


def test_error_response_to_an_invalid_request() -> None:
    invalid = Error(-32600, "Invalid Request")
    assert validator.validate_request({"id": 7}).error_response() == Response(7, error=invalid)
    assert validator.validate_request({"id": "x", "method": ""}).error_response() == Response("x", error=invalid)
    assert validator.validate_request({"id": [], "method": "a"}).error_response() == Response(None, error=invalid)


def test_error_response_instead_of_an_invalid_response(caplog: pytest.LogCaptureFixture) -> None:
    report = validator.validate_response({"jsonrpc": "2.0", "id": 7, "error": {"code": "SECRET"}})
    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        assert report.error_response() == Response(7, error=Error(-32603, "Internal error"))
    assert caplog.messages == [
        "an outgoing response is invalid: INVALID_ERROR_CODE at /error/code, INVALID_ERROR_MESSAGE at /error/message"
    ]


def test_the_profile_must_be_a_profile() -> None:
    with pytest.raises(TypeError):
        JsonRpcValidator("jsonrpc")  # type: ignore[arg-type]


def test_logging_is_loaded_only_when_needed() -> None:
    code = "import sys, jsonrpc_fast.validator; assert 'logging' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**40),
    st.floats(),
    st.sampled_from(["", "a", "2.0", "\ud800"]),
)
errors = st.one_of(
    scalars,
    st.fixed_dictionaries(
        {},
        optional={
            "code": st.one_of(scalars, st.integers()),
            "message": st.one_of(scalars, st.text(max_size=3)),
            "data": scalars,
        },
    ),
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.one_of(st.just("2.0"), st.just("2.0"), st.just("2.0"), scalars),
        "id": st.one_of(scalars, st.just("i" * 40), st.just([])),
        "method": st.one_of(st.just("add"), st.just("a-long-method"), scalars),
        "params": st.one_of(st.just({}), st.just([]), scalars),
        "result": st.one_of(st.just({}), scalars),
        "error": errors,
        "other": scalars,
    },
)


@given(obj=st.one_of(objects, objects, scalars, st.lists(objects, max_size=2)), profile=st.sampled_from(PROFILES))
def test_agrees_with_parse(impl: ModuleType, obj: Any, profile: Profile) -> None:
    validator = JsonRpcValidator(profile)
    parsed = impl.parse(obj, profile)
    expected = {
        "Request": validator.validate_request,
        "Notification": validator.validate_notification,
        "Response": validator.validate_response,
    }
    for name, validate in expected.items():
        report = validate(obj)
        has_method = name == "Response" or getattr(parsed, "method", None) != ""
        assert report.valid is (type(parsed) is getattr(impl, name) and has_method)
        assert report.valid is not bool(report.errors)
        assert len(set(report.errors)) == len(report.errors)
        assert all(fault.code.value for fault in report.errors)
    if type(parsed) is impl.ParseError and isinstance(obj, dict):
        # The fault that decoding reports is among those of the validator, for the kind that the object looks like.
        kind = "Response" if "method" not in obj and obj.keys() & {"result", "error"} else "Request"
        reports = [expected[kind](obj)] + ([expected["Notification"](obj)] if kind == "Request" else [])
        assert all(parsed.code in {fault.code for fault in report.errors} for report in reports) or "id" in obj
        assert parsed.code in {fault.code for fault in reports[0].errors}


@given(batch=st.lists(st.one_of(objects, scalars), max_size=4), profile=st.sampled_from(PROFILES))
def test_batch_agrees_with_parse(impl: ModuleType, batch: list[Any], profile: Profile) -> None:
    report = JsonRpcValidator(profile).validate_batch(batch)
    parsed = impl.parse(batch, profile)
    if isinstance(parsed, list):
        for index, item in enumerate(parsed):
            faulty = type(item) is impl.ParseError or getattr(item, "method", None) == ""
            assert faulty is any(fault.index == index for fault in report.errors)
    else:
        assert report.errors == (Fault(parsed.code, "", parsed.message),)


def test_the_methods_work_on_the_class() -> None:
    valid = {"jsonrpc": "2.0", "id": 1, "method": "m"}
    assert JsonRpcValidator.validate_request(valid).valid
    assert JsonRpcValidator.validate_request({"jsonrpc": "2.0"})["valid"] is False
    assert JsonRpcValidator.validate_notification({"jsonrpc": "2.0", "method": "m"}).valid
    assert JsonRpcValidator.validate_response({"jsonrpc": "2.0", "id": 1, "result": 1}).valid
    assert JsonRpcValidator.validate_batch([valid]).valid
    assert JsonRpcValidator.validate_request(obj=valid).valid
    batch = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}
    assert JsonRpcValidator.validate_request(batch).valid
    assert not JsonRpcValidator(MCP_2025_11_25).validate_request(batch).valid
    assert (JsonRpcValidator.validate_request.__doc__ or "").startswith("Return the report on a request")


def test_the_methods_of_a_subclass_work_on_the_class() -> None:
    class Strict(JsonRpcValidator):
        def __init__(self) -> None:
            super().__init__(MCP_2025_11_25)

    assert not Strict.validate_request({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [1]}).valid
