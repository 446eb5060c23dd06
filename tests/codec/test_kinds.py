"""The specification as a function of kinds: its numbers, its order, and what both fast paths assume."""

from __future__ import annotations

import itertools
import random
from types import ModuleType
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec import rules
from jsonrpc_fast.codec._kinds import kinds_of
from jsonrpc_fast.codec.rules import DOMAIN, VERDICTS, ExpectedKind, Kinds, Verdict
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, PRESETS, Profile

from ..support.tables import rows

SWITCHES: Final = [name for name in Profile.FIELDS if type(getattr(JSONRPC, name)) is bool]
kinds = st.builds(Kinds, **{name: st.sampled_from(values) for name, values in DOMAIN.items()})
profiles = st.builds(JSONRPC.replace, **{name: st.booleans() for name in SWITCHES})


def number_of(kinds: Kinds) -> int:
    return sum([rules.bits(name, value) for name, value in kinds._asdict().items()])


def every_profile() -> list[Profile]:
    return [
        JSONRPC.replace(**dict(zip(SWITCHES, values, strict=True)))
        for values in itertools.product((False, True), repeat=len(SWITCHES))
    ]


@given(kinds)
def test_kinds_are_one_number(kinds: Kinds) -> None:
    assert rules.kinds_of_bits(number_of(kinds)) == kinds
    assert 0 <= number_of(kinds) < 1 << rules.KIND_BITS


@given(kinds, profiles)
def test_the_verdict_is_the_first_fault(kinds: Kinds, profile: Profile) -> None:
    found = VERDICTS[rules.verdict(number_of(kinds), profile)]
    faults = rules.faults(kinds, profile)
    assert found.fault == (faults[0].code if faults else None)
    assert len(set(faults)) == len(faults)
    assert found.is_id_certain <= (kinds.id in ("integer", "string", "float") and not kinds.has_duplicate)
    if kinds.result != "absent" or kinds.error != "absent":
        assert not found.reply_expected


@given(kinds, profiles)
def test_what_is_expected_only_adds_faults(kinds: Kinds, profile: Profile) -> None:
    """A valid message is valid as the kind that it is, and as no other."""
    if not rules.faults(kinds, profile):
        apparent = rules.apparent_kind(kinds, profile)
        for expected in get_args(ExpectedKind):
            assert (not rules.faults(kinds, profile, expected)) is (expected == apparent)


def test_places_of_verdicts() -> None:
    assert len(VERDICTS) == len(set(VERDICTS)) < 255
    assert {verdict.fault for verdict in VERDICTS} == {None, *ParseErrorCode}


USUAL = [
    ({"method": "m"}, "notification"),
    ({"method": "m", "params": {}}, "notification"),
    ({"id": 1, "method": "m"}, "request"),
    ({"id": "a", "method": "m"}, "request"),
    ({"id": 1, "method": "m", "params": {}}, "request"),
    ({"id": "a", "method": "m", "params": {}}, "request"),
    ({"id": 1, "result": {}}, "result"),
    ({"id": "a", "result": {}}, "result"),
    ({"id": 1, "error": {"code": 1, "message": "m"}}, "error"),
    ({"id": "a", "error": {"code": 1, "message": "m"}}, "error"),
]


@rows(("members", "kind"), USUAL)
@pytest.mark.ci
def test_usual_messages_are_valid_in_every_profile(members: dict[str, Any], kind: str) -> None:
    number = kinds_of({"jsonrpc": "2.0", **members}, JSONRPC.limits, bytes)
    for profile in every_profile():
        found = VERDICTS[rules.verdict(number, profile)]
        assert (found.fault, found.kind) == (None, kind), profile


@pytest.mark.ci
def test_an_integer_and_a_string_are_the_same_id_to_every_profile() -> None:
    differ = rules.bits("id", "integer") - rules.bits("id", "string")
    payloads: list[dict[str, Any]] = [{"method": "m", "params": []}]
    payloads += [{"result": []}, {"result": 1}, {"result": None}]
    for members, profile in itertools.product(payloads, every_profile()):
        number = kinds_of({"jsonrpc": "2.0", "id": "a", **members}, JSONRPC.limits, bytes)
        assert rules.verdict(number, profile) == rules.verdict(number + differ, profile)


def test_a_backend_asks_once(impl: ModuleType) -> None:
    """A profile whose fields run code is read only when it is first used."""
    read: list[str] = []

    class Own(Profile):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            read.append(name)
            return super().__getattribute__(name)

    own = Own(empty_methods=False)
    read.clear()
    texts = [b'{"jsonrpc":"2.0","id":1,"method":""}', b'{"id":1}', b"1", b"[]", b'{"jsonrpc":"2.0","id":1,"result":1}']
    first = [repr(impl.decode(text, own)) for text in texts]
    assert len(read) > 0
    read.clear()
    assert [repr(impl.decode(text, own)) for text in texts] == first
    assert set(read) <= {"__class__"}
    assert "EMPTY_METHOD" in first[0]


def test_a_profile_that_fails_is_asked_again(impl: ModuleType) -> None:
    failures = [ValueError("mine")]

    class Own(Profile):
        __slots__ = ()

        @property
        def null_members(self) -> bool:
            if failures:
                raise failures.pop()
            return True

    own = object.__new__(Own)
    for name in Profile.FIELDS:
        if name != "null_members":
            object.__setattr__(own, name, getattr(JSONRPC, name))
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}'
    with pytest.raises(ValueError, match="mine"):
        impl.decode(text, own)
    assert type(impl.decode(text, own)) is impl.Request


def test_more_profiles_than_are_remembered(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":""}'
    made = [JSONRPC.replace(name=str(number), empty_methods=number % 2 == 0) for number in range(150)]
    turns = [*made, *made]
    random.Random(0).shuffle(turns)
    for profile in turns:
        assert (type(impl.decode(text, profile)) is impl.Request) is profile.empty_methods


def test_verdicts_of_presets() -> None:
    """A few by hand, so that the function is not compared only with itself."""
    request = Kinds(jsonrpc="2.0", id="null", method="string")
    assert rules.faults(request, JSONRPC) == ()
    assert rules.faults(request, MCP_2025_11_25) == ((ParseErrorCode.INVALID_ID_TYPE, "id"),)
    wrong = Kinds(id="other", method="other", params="other", result="null")
    assert [code.name for code, _ in rules.faults(wrong, JSONRPC)] == [
        "MISSING_JSONRPC",
        "INVALID_ID_TYPE",
        "AMBIGUOUS_MESSAGE",
        "INVALID_METHOD_TYPE",
        "INVALID_PARAMS_TYPE",
    ]
    assert VERDICTS[rules.verdict(number_of(wrong), JSONRPC)] == Verdict(
        ParseErrorCode.MISSING_JSONRPC, "request", False, False
    )
    assert len(PRESETS) == 10
