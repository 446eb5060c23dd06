"""Profiles and limits: their arguments, and the presets field by field."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

import jsonrpc_fast
from jsonrpc_fast.profile import CLIENT, JSONRPC, PRESETS, Limits, Profile, is_at_least_as_strict

from .support.tables import rows

DEFAULTS = {
    "null_request_ids": True,
    "null_result_ids": True,
    "float_ids": True,
    "missing_ids": False,
    "optional_jsonrpc": False,
    "empty_methods": True,
    "array_params": True,
    "null_members": False,
    "any_errors": False,
    "repeated_calls": False,
    "object_results": False,
    "batches": True,
    "extra_members": True,
    "big_ints": "exact",
    "floats": "float",
    "writes": "2.0",
    "limits": Limits(),
}
MCP = {
    "null_request_ids": False,
    "null_result_ids": False,
    "float_ids": False,
    "empty_methods": False,
    "array_params": False,
    "object_results": True,
    "batches": False,
}
LENIENT = {"missing_ids": "errors", "null_members": True, "any_errors": True}
PRESET_FIELDS: dict[str, dict[str, Any]] = {
    "jsonrpc": {},
    "lenient": LENIENT,
    "client": {**LENIENT, "optional_jsonrpc": True, "repeated_calls": True, "extra_members": "keep"},
    "jsonrpc-1": {
        "missing_ids": "errors",
        "optional_jsonrpc": True,
        "null_members": True,
        "any_errors": True,
        "batches": False,
        "writes": "1.0",
    },
    "lsp": {"null_members": "params", "null_request_ids": False, "float_ids": False, "batches": False},
    "mcp-2024-11-05": MCP,
    "mcp-2025-03-26": {**MCP, "batches": True},
    "mcp-2025-06-18": MCP,
    "mcp-2025-11-25": {**MCP, "missing_ids": "errors"},
    "mcp-2026-07-28": {**MCP, "missing_ids": "errors"},
}


def test_presets() -> None:
    assert list(PRESETS) == list(PRESET_FIELDS)
    for name, fields in PRESET_FIELDS.items():
        assert PRESETS[name] == Profile(**{**DEFAULTS, **fields, "name": name})


def test_presets_by_their_public_names() -> None:
    for name, profile in PRESETS.items():
        assert getattr(jsonrpc_fast, name.upper().replace("-", "_")) is profile


def test_defaults() -> None:
    assert {name: getattr(Profile(), name) for name in Profile.FIELDS} == {"name": "custom", **DEFAULTS}
    assert {name: getattr(Limits(), name) for name in Limits.FIELDS} == {
        "message_bytes": 67108864 if jsonrpc_fast.BACKEND == "cython" else 16777216,
        "depth": 1024,
        "batch_items": 10_000,
        "method_bytes": 1024,
        "id_bytes": 512,
    }


def test_the_repr_shows_changed_fields() -> None:
    assert repr(Profile()) == "Profile()"
    assert repr(JSONRPC) == "Profile(name='jsonrpc')"
    assert repr(Limits(depth=5)) == "Limits(depth=5)"
    shown = "Profile(name='lsp', null_request_ids=False, float_ids=False, null_members='params', batches=False)"
    assert repr(PRESETS["lsp"]) == shown
    tiny = Profile(batches=False, limits=Limits(depth=5))
    assert eval(repr(tiny)) == tiny
    for profile in PRESETS.values():
        assert eval(repr(profile)) == profile


def test_frozen() -> None:
    for value, name in ((JSONRPC, "batches"), (Limits(), "depth"), (JSONRPC, "other")):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
        with pytest.raises(AttributeError):
            delattr(value, name)
    assert JSONRPC.batches is True


def test_keyword_only_arguments() -> None:
    with pytest.raises(TypeError):
        Profile("custom")  # type: ignore[misc]
    with pytest.raises(TypeError):
        Limits(100)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"^Profile.__init__\(\) got an unexpected keyword argument 'other'$"):
        Profile(other=True)  # type: ignore[call-arg]
    assert str(inspect.signature(Limits)).startswith("(*, message_bytes: 'int' = ")
    assert list(inspect.signature(Profile).parameters) == ["name", *DEFAULTS]


def test_signature_of_subclass() -> None:
    class Named(Profile):
        name: str = "named"

    class Tagged(Profile):
        def __init__(self, tag: str) -> None:
            super().__init__(name=tag)

    assert str(inspect.signature(Named)).startswith("(*, name: 'str' = 'named', null_request_ids: 'bool' = True, ")
    assert str(inspect.signature(Tagged)) == "(tag: 'str') -> 'None'"


def test_replace() -> None:
    strict = JSONRPC.replace(extra_members=False, limits=JSONRPC.limits.replace(depth=5))
    assert (strict.extra_members, strict.limits.depth, strict.name) == (False, 5, "jsonrpc")
    assert (JSONRPC.extra_members, JSONRPC.limits.depth) == (True, 1024)
    assert strict.replace() == strict
    # A function that replaces a field in each call does not prepare the rules in each call.
    assert CLIENT.replace(missing_ids=True) is CLIENT.replace(missing_ids=True)
    assert type(JSONRPC.limits.replace(depth=5)) is Limits
    with pytest.raises(TypeError, match="limits must be of type Limits, not list"):
        JSONRPC.replace(limits=[])
    assert JSONRPC.replace(name="other") != JSONRPC
    with pytest.raises(TypeError):
        JSONRPC.replace(other=True)
    with pytest.raises(TypeError, match=r"^batches must be of type bool, not int$"):
        JSONRPC.replace(batches=1)
    with pytest.raises(ValueError, match=r"^depth must be 1 to 1024$"):
        Limits().replace(depth=1025)


def test_values() -> None:
    for value in (JSONRPC, Limits(depth=7)):
        assert hash(value) == hash(copy.deepcopy(value))
        assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == value


@rows("name", [name for name, value in DEFAULTS.items() if isinstance(value, bool)])
def test_switches_are_bools(name: str) -> None:
    assert getattr(Profile(**{name: not DEFAULTS[name]}), name) is not DEFAULTS[name]
    for value in (0, 1, None, "yes"):
        with pytest.raises(TypeError, match=f"^{name} must be of type bool, not {type(value).__name__}$"):
            Profile(**{name: value})


def test_other_fields() -> None:
    for big_ints in ("exact", "reject"):
        assert Profile(big_ints=big_ints).big_ints == big_ints  # type: ignore[arg-type]
    for big_ints in ("", "EXACT", "float"):
        with pytest.raises(ValueError, match=r'^big_ints must be "exact" or "reject"$'):
            Profile(big_ints=big_ints)  # type: ignore[arg-type]
    for floats in ("float", "decimal"):
        assert Profile(floats=floats).floats == floats  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'^floats must be "float" or "decimal"$'):
        Profile(floats="Decimal")  # type: ignore[arg-type]
    for writes in ("2.0", "1.0", "unversioned"):
        assert Profile(writes=writes).writes == writes  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'^writes must be "2.0", "1.0" or "unversioned"$'):
        Profile(writes="1.1")  # type: ignore[arg-type]
    for fields, expected, found in (
        ({"floats": Decimal}, "str", "type"),
        ({"writes": 1.0}, "str", "float"),
        ({"big_ints": True}, "str", "bool"),
        ({"name": None}, "str", "NoneType"),
        ({"limits": None}, "Limits", "NoneType"),
        ({"limits": 5}, "Limits", "int"),
    ):
        [name] = fields
        with pytest.raises(TypeError, match=f"^{name} must be of type {expected}, not {found}$"):
            Profile(**fields)  # type: ignore[arg-type]


BOUNDS = [
    ("message_bytes", 1, 2**62 - 1),
    ("depth", 1, 1024),
    ("batch_items", 1, 2**62 - 1),
    ("method_bytes", 1, 2**62 - 1),
    ("id_bytes", 32, 640),
]


@rows(("name", "least", "most"), BOUNDS)
def test_bounds(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(Limits(**{name: value}), name) == value
    for value in (least - 1, most + 1, 0, -1, 2**62, 10**30):
        with pytest.raises(ValueError, match=f"^{name} must be "):
            Limits(**{name: value})
    for value in (True, 1.5, "10", None):
        with pytest.raises(TypeError, match=f"^{name} must be an int, not {type(value).__name__}$"):
            Limits(**{name: value})  # type: ignore[arg-type]


def test_each_of_many_profiles_has_its_own_rules(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"method":"%s"}'
    for turn in range(3):
        profiles = [Profile(name=str(turn), limits=Limits(method_bytes=number)) for number in range(1, 200)]
        for number, profile in enumerate(profiles, 1):
            assert type(impl.decode(text % (number * "m"), profile)) is impl.Request
            assert impl.decode(text % ((number + 1) * "m"), profile).code.name == "METHOD_TOO_LONG"
        for number in (1, 70, 199):
            assert type(impl.decode(text % (number * "m"), profiles[number - 1])) is impl.Request


STRICTEST = Profile(
    null_request_ids=False,
    null_result_ids=False,
    float_ids=False,
    empty_methods=False,
    array_params=False,
    object_results=True,
    extra_members=False,
    limits=Limits(method_bytes=8, id_bytes=40),
)
LOOSER: list[dict[str, Any]] = [
    {"null_request_ids": True},
    {"null_result_ids": True},
    {"float_ids": True},
    {"missing_ids": "errors"},
    {"missing_ids": True},
    {"any_errors": True},
    {"repeated_calls": True},
    {"optional_jsonrpc": True},
    {"empty_methods": True},
    {"array_params": True},
    {"null_members": "params"},
    {"null_members": True},
    {"object_results": False},
    {"extra_members": True},
    {"limits": Limits(method_bytes=9, id_bytes=40)},
    {"limits": Limits(method_bytes=8, id_bytes=41)},
]
NOT_COMPARED: list[dict[str, Any]] = [
    {"name": "other"},
    {"batches": False},
    {"big_ints": "reject"},
    {"floats": "decimal"},
    {"writes": "1.0"},
    {"limits": Limits(message_bytes=1, depth=1, batch_items=1, method_bytes=8, id_bytes=40)},
]


def test_each_field_has_a_row() -> None:
    """One in LOOSER or NOT_COMPARED, the limits too."""
    found = {name for fields in (*LOOSER, *NOT_COMPARED) for name in fields if name != "limits"}
    for fields in (*LOOSER, *NOT_COMPARED):
        limits = fields.get("limits", STRICTEST.limits)
        found |= {name for name in Limits.FIELDS if getattr(limits, name) != getattr(STRICTEST.limits, name)}
    assert found == {*Profile.FIELDS, *Limits.FIELDS} - {"limits"}, "each is in LOOSER or NOT_COMPARED"


@rows(
    ("record", "default", "changed"),
    [(Profile, "x", "y"), (Profile, False, True), (Profile, True, False), (Limits, 5, 6), (Limits, None, "x")],
)
def test_profiles_that_differ_in_a_field_without_a_rule_are_not_comparable(
    record: Any, default: object, changed: object
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "FIELDS", (*record.FIELDS, "new"))
        patch.setattr(record, "new", default, raising=False)
        new = record(new=changed)
        one, other = Profile(), new if record is Profile else Profile(limits=new)
        assert is_at_least_as_strict(one, one)
        assert is_at_least_as_strict(other, other)
        assert not is_at_least_as_strict(one, other)
        assert not is_at_least_as_strict(other, one)


@rows("half", [{"missing_ids": "errors"}, {"null_members": "params"}], ids=str)
def test_half_a_permission_is_stricter_than_a_whole_one(half: dict[str, Any]) -> None:
    whole = dict.fromkeys(half, True)
    assert is_at_least_as_strict(STRICTEST.replace(**half), STRICTEST.replace(**whole))
    assert not is_at_least_as_strict(STRICTEST.replace(**whole), STRICTEST.replace(**half))


@rows("fields", LOOSER, ids=str)
def test_one_permission_makes_a_profile_looser(fields: dict[str, Any]) -> None:
    looser = STRICTEST.replace(**fields)
    assert is_at_least_as_strict(STRICTEST, looser)
    assert not is_at_least_as_strict(looser, STRICTEST)


@rows("fields", NOT_COMPARED, ids=str)
def test_fields_that_strictness_ignores(fields: dict[str, Any]) -> None:
    other = STRICTEST.replace(**fields)
    assert is_at_least_as_strict(STRICTEST, other)
    assert is_at_least_as_strict(other, STRICTEST)


@pytest.mark.ci
def test_a_looser_profile_accepts_all_messages_of_a_stricter_one(impl: ModuleType) -> None:
    members = {
        "jsonrpc": ["2.0"],
        "id": [1, "a", None, 1.5, "i" * 41, 10**40],
        "method": ["m", "", "m" * 9],
        "params": [{}, [], None],
        "result": [{}, 1, None],
        "error": [{"code": 1, "message": "m"}, {"code": 1, "message": "m", "more": 1}, None],
        "more": [1],
    }
    absent = object()
    messages: list[dict[str, Any]] = [
        {name: value for name, value in zip(members, values, strict=True) if value is not absent}
        for values in itertools.product(*[[absent, *values] for values in members.values()])
        if sum(value is not absent for value in values) <= 5
    ]
    profiles = [STRICTEST, *[STRICTEST.replace(**fields) for fields in LOOSER], *PRESETS.values()]
    accepted = [
        {index for index, message in enumerate(messages) if type(impl.parse(message, profile)) is not impl.ParseError}
        for profile in profiles
    ]
    assert all(len(indexes) > 10 for indexes in accepted)
    pairs = list(itertools.product(range(len(profiles)), repeat=2))
    assert sum(is_at_least_as_strict(profiles[one], profiles[other]) for one, other in pairs) > 3 * len(profiles)
    for one, other in pairs:
        if is_at_least_as_strict(profiles[one], profiles[other]):
            assert accepted[one] <= accepted[other], (profiles[one], profiles[other])
