"""Each public function of the codec, each option and each preset has a row in the benchmark that gates."""

from __future__ import annotations

import inspect
import re

import pytest

import jsonrpc_fast
from benchmarks.calls import CALLS
from jsonrpc_fast import PRESETS
from jsonrpc_fast.codec import _pure

pytestmark = pytest.mark.lint

FUNCTIONS = sorted(
    name for name, value in vars(_pure).items() if name in jsonrpc_fast.__all__ and inspect.isroutine(value)
)


def test_the_functions_are_found() -> None:
    assert {"decode", "decode_dict", "encode", "encode_dict", "encode_request", "parse"} <= set(FUNCTIONS)


def test_each_public_function_has_a_row() -> None:
    measured = {call.function for call in CALLS}
    missing = [name for name in (*FUNCTIONS, "Decoder") if name not in measured]
    assert missing == [], "each needs a row in benchmarks/calls.py"
    for call in CALLS:
        assert f"{call.function}(" in call.expression or call.function == "Decoder"
        assert call.limits


def test_each_option_of_a_reader_or_writer_has_a_row() -> None:
    for name in ("decode", "decode_dict", "encode", "encode_request", "encode_result"):
        expressions = " ".join([call.expression for call in CALLS if call.function.startswith(name.partition("_")[0])])
        for option, parameter in inspect.signature(getattr(_pure, name)).parameters.items():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                assert f"{option}=" in expressions, (name, option)


def test_each_preset_has_a_row() -> None:
    expressions = " ".join([call.expression for call in CALLS])
    for name in PRESETS:
        assert re.search(rf"\b{name.upper().replace('-', '_')}\b", expressions), name
