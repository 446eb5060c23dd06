"""Every row of the rules in every preset, decoded from the text, and parsed from the dict if that can show it."""

from __future__ import annotations

from types import ModuleType

from jsonrpc_fast.profile import PRESETS

from ..support.describe import Description, describe
from ..support.oracle import orjson
from ..support.tables import rows
from ..vectors import PRESET_NAMES, VECTORS, Vector

IDS = [f"{vector.row} {number}" for number, vector in enumerate(VECTORS)]
of_dicts = rows(
    "vector",
    [vector for vector in VECTORS if not vector.text_only],
    ids=[name for name, vector in zip(IDS, VECTORS, strict=True) if not vector.text_only],
)


def test_the_vectors_cover_all_presets() -> None:
    assert tuple(PRESETS) == PRESET_NAMES


@rows("vector", VECTORS, ids=IDS)
def test_decode(impl: ModuleType, vector: Vector) -> None:
    decoded = {name: describe(impl.decode(vector.text, profile)) for name, profile in PRESETS.items()}
    assert repr(decoded) == repr(vector.expected)


@of_dicts
def test_parse(impl: ModuleType, vector: Vector) -> None:
    parsed = {name: describe(impl.parse(orjson.loads(vector.text), profile)) for name, profile in PRESETS.items()}
    assert repr(parsed) == repr(vector.expected)


@of_dicts
def test_from_dict(impl: ModuleType, vector: Vector) -> None:
    classes = {impl.Request: ["Request"], impl.Notification: ["Notification"], impl.Response: ["Result", "Error"]}
    value = orjson.loads(vector.text)
    for name, profile in PRESETS.items():
        expected = vector.expected[name]
        for cls, kinds in classes.items():
            message = cls.from_dict(value, profile)
            if expected[0] in kinds:
                assert type(message) is cls
                assert repr(describe(message)) == repr(expected)
            else:
                assert message is None


def test_the_default_profile_is_json_rpc(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":null,"method":"","params":[]}'
    expected: Description = ("Request", None, "", [])
    assert describe(impl.decode(text)) == expected
    assert describe(impl.parse(orjson.loads(text))) == expected
    assert describe(impl.Request.from_dict(orjson.loads(text))) == expected
