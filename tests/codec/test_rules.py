"""Every row of the rules in every preset, decoded and parsed; and docs/rules.md, which shows them."""

from __future__ import annotations

import re
from collections import Counter
from types import ModuleType
from typing import Any, Final

import jsonrpc_fast
from jsonrpc_fast.codec.rules import DOMAIN, Kinds, faults, message_kind
from jsonrpc_fast.framing import frame
from jsonrpc_fast.framing.frames import STREAM_FRAMINGS
from jsonrpc_fast.profile import PRESETS

from ..support.describe import Description, describe
from ..support.oracle import loads_exact
from ..support.pages import table_rows
from ..support.places import ROOT
from ..support.tables import rows
from ..vectors import PRESET_NAMES, VECTORS, Vector, read

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
    parsed = {name: describe(impl.parse(loads_exact(vector.text), profile)) for name, profile in PRESETS.items()}
    assert repr(parsed) == repr(vector.expected)


@of_dicts
def test_from_dict(impl: ModuleType, vector: Vector) -> None:
    classes = {impl.Request: ["Request"], impl.Notification: ["Notification"], impl.Response: ["Result", "Error"]}
    value = loads_exact(vector.text)
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
    assert describe(impl.parse(loads_exact(text))) == expected
    assert describe(impl.Request.from_dict(loads_exact(text))) == expected


PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
PROFILES = {
    name: getattr(jsonrpc_fast, name)
    for name in jsonrpc_fast.__all__
    if isinstance(getattr(jsonrpc_fast, name), jsonrpc_fast.Profile)
}
MARKED = table_rows(PAGE, "text with marks", "`decode`, HTTP", "first line of a stream", "later line")
ROWS = table_rows(PAGE, "text", "`JSONRPC`", "other profiles")
FORMS: Final = ("2.0", "1.0", "unversioned")
WRITTEN = table_rows(PAGE, "message", *[f'`"{form}"`' for form in FORMS])


def code(cell: str) -> str:
    """Return the text of a cell that is one literal."""
    found = re.fullmatch(r"`(.+)`", cell)
    assert found, cell
    return found[1]


def verdict(item: Any, backend: ModuleType) -> str:
    if isinstance(item, list):
        return "batch: " + ", ".join([verdict(part, backend) for part in item])
    if isinstance(item, backend.ParseError):
        return f"`{item.code.name}`"
    if isinstance(item, backend.Response):
        return "error" if item.is_error else "result"
    return {backend.Request: "request", backend.Notification: "notification"}[type(item)]


def exceptions(cell: str) -> dict[str, str]:
    """Return the verdicts of the other profiles; a revision of MCP comes before all of them."""
    found: dict[str, str] = {}
    for part in filter(None, cell.split("; ")):
        name, _, expected = part.partition(": ")
        name = code(name)
        assert name in PROFILES or name == "MCP", name
        names = [preset for preset in PROFILES if preset.startswith("MCP")] if name == "MCP" else [name]
        found |= dict.fromkeys(names, expected)
    return found


@rows("row", ROWS, ids=[row[0].strip("`") for row in ROWS])
def test_verdicts(impl: ModuleType, row: list[str]) -> None:
    text, expected, others = row
    expected_by_profile = dict.fromkeys(PROFILES, expected) | exceptions(others)
    found = {name: verdict(impl.decode(code(text), profile), impl) for name, profile in PROFILES.items()}
    assert found == expected_by_profile


@rows("row", MARKED, ids=[row[0].strip("`") for row in MARKED])
def test_byte_order_marks(impl: ModuleType, row: list[str]) -> None:
    text = code(row[0]).replace("\\ufeff", "\ufeff")
    message = '{"jsonrpc":"2.0","id":1,"method":"m"}'
    for profile in PROFILES.values():
        found = [verdict(impl.decode(text, profile), impl), verdict(impl.decode(text.encode(), profile), impl)]
        first, later = (
            impl.Decoder("newline", profile).feed("".join([f"{line}\n" for line in lines]).encode())
            for lines in ([text, message], [message, text])
        )
        assert [verdict(item, impl) for item in (first[1], later[0])] == ["request", "request"]
        assert [*found, verdict(first[0], impl), verdict(later[1], impl)] == [row[1], *row[1:]]
        body = f"Content-Length: {len(text.encode())}\r\n\r\n{text}".encode()
        assert [verdict(item, impl) for item in impl.Decoder("content-length", profile).feed(body)] == [row[1]]


def test_no_byte_order_mark_is_written(impl: ModuleType) -> None:
    text = impl.encode_request(1, "\ufeff", ["\ufeff"])
    assert text.startswith(b'{"jsonrpc"')
    for framing in STREAM_FRAMINGS:
        assert not frame(text, framing).startswith(b"\xef\xbb\xbf")


@rows("row", WRITTEN, ids=[row[0].strip("`") for row in WRITTEN])
def test_what_is_written(impl: ModuleType, row: list[str]) -> None:
    message = eval(code(row[0]), vars(impl))  # a literal of the page
    for form, expected in zip(FORMS, row[1:], strict=True):
        profile = jsonrpc_fast.JSONRPC.replace(writes=form)
        assert impl.encode(message, profile, delimited=False).decode() == code(expected)


CALL: Final = Kinds(jsonrpc="2.0", id="integer", method="string")
RESULT: Final = Kinds(jsonrpc="2.0", id="integer", result="object")
ERROR: Final = Kinds(jsonrpc="2.0", id="integer", error="object", has_error_code=True, has_error_message=True)
CHANGES: Final = [
    *[("a call", CALL, name) for name in ("jsonrpc", "id", "method", "params")],
    *[("a result", RESULT, name) for name in ("id", "result")],
    *[("an error", ERROR, name) for name in ("id", "error", "has_error_code", "has_error_message")],
]
MEANT: Final = {
    ("has_error_code", False): ("code", "not a 64-bit integer"),
    ("has_error_message", False): ("message", "not a string"),
}
COLUMNS: Final = ("LENIENT", "CLIENT", "JSONRPC_1", "LSP", "MCP_2024_11_05", "MCP_2025_11_25")


def table_of_kinds() -> list[str]:
    """Return the lines of the table that the function of the rules gives: usual messages with one member changed."""
    names = " | ".join([f"`{name}`" for name in ("JSONRPC", *COLUMNS)])
    lines = [f"| in | member | kind | {names} |", "|---" * (4 + len(COLUMNS)) + "|"]
    for message, usual, name in CHANGES:
        for value in DOMAIN[name]:
            if value != getattr(usual, name):
                changed = usual._replace(**{name: value})
                expected = verdict_of_kinds(changed, jsonrpc_fast.JSONRPC)
                others = [verdict_of_kinds(changed, PROFILES[column]) for column in COLUMNS]
                cells = " | ".join([expected, *["" if other == expected else other for other in others]])
                member, kind = MEANT.get((name, value), (name, value))
                lines.append(f"| {message} | `{member}` | {kind} | {cells} |".replace("  ", " "))
    return lines


def verdict_of_kinds(kinds: Kinds, profile: jsonrpc_fast.Profile) -> str:
    found = faults(kinds, profile)
    return f"`{found[0].code.name}`" if found else message_kind(kinds, profile)


def test_the_table_of_kinds_is_that_of_the_function() -> None:
    """`python -m tests.codec.test_rules` prints it."""
    assert "\n".join(["", *table_of_kinds(), ""]) in PAGE


def test_all_profiles_are_meant() -> None:
    assert len(PROFILES) == len(jsonrpc_fast.PRESETS) == 10
    assert len(ROWS) > 40


def test_each_exception_differs() -> None:
    """A profile that decides as `JSONRPC` does is not listed, unless its family is."""
    for text, expected, others in ROWS:
        for name, verdict_there in exceptions(others).items():
            assert verdict_there != expected or (name.startswith("MCP") and "`MCP`" in others), (text, name)


def test_fields_of_the_presets() -> None:
    names = ("JSONRPC", "LENIENT", "CLIENT", "JSONRPC_1", "LSP")
    rows = table_rows(PAGE, "field of `Profile`", *[f"`{name}`" for name in names], "`MCP`")
    shown = {True: "yes", False: "no"}
    by_revision = {
        "2.0": "11111",
        "errors, from 2025-11-25 on": "00011",
        "2025-03-26 only": "01000",
        "yes": "11111",
        "no": "00000",
    }
    revisions = sorted(name for name in PROFILES if name.startswith("MCP"))
    for field, *cells, mcp in rows:
        values = [getattr(PROFILES[name], code(field)) for name in names]
        assert cells == [shown.get(value, value) for value in values], field
        of_revisions = "".join([str(int(bool(getattr(PROFILES[name], code(field))))) for name in revisions])
        assert by_revision[mcp] == of_revisions, field
    differing = {
        field
        for field in jsonrpc_fast.Profile.FIELDS
        if len({getattr(profile, field) for profile in PROFILES.values()}) > 1
    }
    assert {code(row[0]) for row in rows} == differing - {"name"}, "docs/rules.md, the table of presets"


def test_messages_of_peers(impl: ModuleType) -> None:
    """Captured from aria2, snapserver and OVSDB, or the shape of what devices send; judged by the specifications."""
    found = read("peers")
    for row in found:
        for preset in ("jsonrpc", "client", "jsonrpc-1"):
            decoded = impl.decode(row["text"], PRESETS[preset])
            assert _words(decoded, impl) == row[preset], (row["text"], preset)
            assert impl.parse(loads_exact(row["text"]), PRESETS[preset]) == decoded
    # What these peers write is valid for `CLIENT`, except what no rule of a message can save.
    refused = [row["client"] for row in found if isinstance(row["client"], str) and row["client"].isupper()]
    assert Counter(refused) == {"MISSING_METHOD": 8, "INVALID_ID_TYPE": 1, "EMPTY_BATCH": 1}


def _words(item: Any, backend: ModuleType) -> Any:
    return [_words(part, backend) for part in item] if isinstance(item, list) else verdict(item, backend).strip("`")


def test_errors_of_any_shape(impl: ModuleType) -> None:
    for error, expected in table_rows(PAGE, "`error`", "`Error`"):
        text = f'{{"jsonrpc":"2.0","id":1,"error":{code(error)}}}'
        for profile in (jsonrpc_fast.LENIENT, jsonrpc_fast.CLIENT, jsonrpc_fast.JSONRPC_1):
            found = impl.decode(text, profile)
            assert found.error == eval(code(expected), vars(impl))  # a literal of the page
            assert impl.decode(text, profile, raw=True).error.data.decode() == found.error.data
            assert impl.Error.from_dict(loads_exact(code(error)), profile) == found.error
        assert impl.Error.from_dict(loads_exact(code(error))) is None


def test_limits() -> None:
    rows = table_rows(PAGE, "limit", "default", "fault")
    limits = jsonrpc_fast.Limits(message_bytes=1)
    assert {code(row[0]) for row in rows} == set(jsonrpc_fast.Limits.FIELDS)
    for name, default, fault in rows:
        assert code(fault) in jsonrpc_fast.ParseErrorCode.__members__
        if code(name) != "message_bytes":
            assert default == str(getattr(limits, code(name)))


def test_each_code_of_a_message_is_shown() -> None:
    """The only code that is missing belongs to streams."""
    missing = [name for name in jsonrpc_fast.ParseErrorCode.__members__ if f"`{name}`" not in PAGE]
    assert missing == ["INVALID_FRAMING"]


if __name__ == "__main__":
    print("\n".join(table_of_kinds()))
