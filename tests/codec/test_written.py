"""The values that the core writes itself: the bytes are those of orjson, and no memory is lost or overrun."""

from __future__ import annotations

import contextlib
import datetime
import enum
import gc
import itertools
import random
import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.codec._json import ORJSON_VERSION
from jsonrpc_fast.errors import EncodeError

from ..support import guard_pages
from ..support.forked import forked
from ..support.oracle import orjson
from ..support.tables import rows
from .test_encode import nested
from .test_hostile_objects import run

# Every way to write an ASCII character, and the borders of every length in UTF-8.
CHARACTERS = [
    *map(chr, range(0x81)),
    "\xff",
    "\u07ff",
    "\u0800",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "\U00010000",
    "\U0010ffff",
]
WIDTHS = ["", "\x80", "\u0100", "\U00010000"]  # one, one, two and four bytes for each character
LENGTHS = [*range(20), *range(30, 35), *range(62, 67), 80, 127, 128, 129]


def assert_written(impl: ModuleType, value: Any) -> None:
    expected = b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % orjson.dumps(value)
    assert impl.encode_result(1, value) == expected


def anew(text: str) -> str:
    """An equal str without cached UTF-8."""
    return "".join([text[:1], text[1:]])


class TestStrings:
    @rows("width", WIDTHS, ids=ascii)
    def test_each_character_at_each_place(self, impl: ModuleType, width: str) -> None:
        for length in LENGTHS:
            values = [
                "p" * place + character + "s" * (length - place) + width
                for character in (CHARACTERS if length < 35 else CHARACTERS[:36])
                for place in sorted({0, length // 2, max(0, length - 1), length})
            ]
            assert_written(impl, [anew(value) for value in values])
            assert_written(impl, {anew(value): 1 for value in values})
            assert_written(impl, values * 2)

    @rows("width", WIDTHS, ids=ascii)
    def test_runs_of_characters(self, impl: ModuleType, width: str) -> None:
        for character in ("a", "\n", "\x01", '"', "\xe9", "\u4e2d", "\U0001f600"):
            for length in [*range(40), 600, 4090, 20_000]:
                assert_written(impl, anew(character * length + width + "tail of text"))

    @rows("surrogate", ["\ud800", "\udc00\ud800"], ids=ascii)
    def test_surrogates(self, impl: ModuleType, surrogate: str) -> None:
        for text in (surrogate, "a" * 50 + surrogate, surrogate + "\U0001f600", "\n" * 5000 + surrogate):
            for value in (text, [1, text], {text: 1}, {"a": {"b": text}}):
                with pytest.raises(EncodeError, match=r"^str is not valid UTF-8: surrogates not allowed$"):
                    impl.encode_result(1, value)

    def test_a_str_keeps_no_utf8(self, core: ModuleType) -> None:
        text = "\u4e2d" * 10_000
        size = sys.getsizeof(text)
        for _ in range(20):  # after a payload that was left to orjson, so are some of the next ones
            core.encode_result(1, None)
        core.encode_result(1, text)
        assert sys.getsizeof(text) == size


class TestNumbers:
    def test_integers(self, impl: ModuleType) -> None:
        borders = [10**power + step for power in range(20) for step in (-1, 0, 1)]
        borders += [2**power + step for power in range(64) for step in (-1, 0, 1)]
        assert_written(impl, borders + [-border for border in borders if border <= 2**63])
        for number in (2**64, -(2**63) - 1, 10**30, 10**4299, -(10**4299)):
            assert impl.encode_result(1, [number, "a"]) == b'{"jsonrpc":"2.0","id":1,"result":[%d,"a"]}\n' % number
        for number in (10**4300, -(10**4300)):
            with pytest.raises(EncodeError, match=r"^an int has more digits than CPython converts"):
                impl.encode_result(1, [number])

    def test_floats(self, impl: ModuleType) -> None:
        values = [float(f"{digits}e{power}") for digits in ("1", "9", "2.5", "1.234567", "9.999999999999999")
                  for power in range(-323, 308)]  # fmt: skip
        powers = [2.0**power for power in range(-1074, 1024)]
        for power in powers:
            # The doubles next to a power of two are at different distances from it.
            bits = struct.unpack("q", struct.pack("d", power))[0]
            values += struct.unpack("3d", struct.pack("3q", bits - 1, bits, bits + 1))
        values += [0.0, sys.float_info.max, sys.float_info.min, 5e-324, float("inf"), float("nan"), 123456789012345.6]
        assert_written(impl, values + [-value for value in values])
        rng = random.Random(1)
        assert_written(impl, [struct.unpack("d", rng.randbytes(8))[0] for _ in range(20_000)])
        assert_written(impl, [round(rng.uniform(-1e7, 1e7), places) for places in range(12) for _ in range(2000)])
        assert_written(impl, [rng.uniform(-1, 1) * 10.0**power for power in range(-8, 19) for _ in range(1000)])
        # Some are as far from a shorter number as from the midpoint to the next double.
        assert_written(impl, [float(rng.randrange(2**53, 2**63)) for _ in range(20_000)])
        assert_written(impl, [rng.randrange(2**53) / 2 ** rng.randrange(1, 12) for _ in range(20_000)])


class Level(enum.Enum):
    LOW = "low"
    LIST = ("a", "b")


class Name(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


@dataclass
class Point:
    x: int


class Order(dict[str, Any]):
    pass


OTHERS = [
    *(datetime.datetime(2026, 11, 22, 1, 2, 3), datetime.date(2026, 11, 22), uuid.UUID(int=5), Point(1)),
    *(Level.LOW, Level.LIST, Name("n\n"), Number(5), Order(a=1), nested(200), 2**64 - 1),
    *([] if ORJSON_VERSION is None else [orjson.Fragment(b"[1, 2]")]),
]


class TestContainers:
    def test_shapes(self, impl: ModuleType) -> None:
        shapes: list[Any] = [
            {},
            [],
            (),
            {"": ""},
            [[]],
            [{}],
            {"a": {}},
            ((), ([],)),
            [{}, [], ()],
            [None, True, False],
        ]
        for shape in shapes:
            assert_written(impl, shape)
            assert_written(impl, {"a": shape, "b": [shape, shape]})
        emptied = dict.fromkeys("abc")
        for name in "abc":
            del emptied[name]
        assert_written(impl, emptied)

    def test_depths(self, impl: ModuleType) -> None:
        for depth in (1, 62, 63, 64, 65, 66, 253, 254):
            value: Any = nested(depth)
            assert_written(impl, value)
            assert_written(impl, {"a": 1, "b": value} if depth < 254 else value)
        for depth in (255, 300):
            with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
                impl.encode_result(1, nested(depth))
        cycle: list[Any] = [1]
        cycle.append(cycle)
        with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
            impl.encode_result(1, cycle)

    @rows("other", OTHERS, ids=lambda value: type(value).__name__)
    @rows("before", [0, 400, 600, 5000])
    def test_values_of_other_types(self, impl: ModuleType, other: Any, before: int) -> None:
        for value in (
            {"a": "x" * before, "b": other, "c": 1},
            ["x" * before, other, other],
            {"a": ["y" * before, (other,)]},
        ):
            assert_written(impl, value)

    @rows("before", [0, 600])
    def test_depth_counts_through_values_of_other_types(self, impl: ModuleType, before: int) -> None:
        value: Any = Order(a=nested(250))
        assert_written(impl, ["x" * before, value])
        for _ in range(10):
            value = [value]
        with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
            impl.encode_result(1, ["x" * before, value])

    @rows("before", [0, 600])
    def test_values_that_cannot_be_written(self, impl: ModuleType, before: int) -> None:
        for value, text in (
            ({1}, "Type is not JSON serializable: set"),
            (b"b", "Type is not JSON serializable: bytes"),
            ({1: 2}, "Dict key must be str"),
            ({Name("a"): 1}, "Dict key must be str"),
        ):
            for payload in (value, ["x" * before, value], {"a": "x" * before, "b": {"c": value}}):
                with pytest.raises(EncodeError) as caught:
                    impl.encode_result(1, payload)
                assert str(caught.value) == text
                with pytest.raises(EncodeError):
                    impl.encode([impl.Response(1, "a"), impl.Response(2, payload)])

    def test_dicts_of_every_form(self, impl: ModuleType) -> None:
        """With deleted members, their own table or that of a class, with or without other keys, small and large."""

        class Plain:
            pass

        plain = Plain()
        plain.__dict__ = {"a": 1}
        first, second = Plain(), Plain()
        first.a, first.b = 1, [2]  # type: ignore[attr-defined]
        second.b = 3  # type: ignore[attr-defined]
        without_first = {"a": 1, "b": 2, "c": 3}
        del without_first["a"]
        without_last = {"a": 1, "b": 2, "c": 3}
        del without_last["c"]
        emptied = {"a": 1}
        emptied.clear()
        once_general: dict[Any, int] = {1: 0, "a": 1, "b": 2}
        del once_general[1]
        general_with_gaps: dict[Any, int] = {1: 0, "a": 1, "b": 2, "c": 3, "d": 4}
        for gap in (1, "b", "d"):
            del general_with_gaps[gap]
        large_general: dict[Any, int] = {None: 0, **dict.fromkeys(map(str, range(300)), 1)}
        for gap in (None, *map(str, range(1, 299))):
            del large_general[gap]
        large = {f"n{number}": number for number in range(70_000)}
        for number in range(2, 70_000):
            del large[f"n{number}"]
        for value, expected in (
            (plain.__dict__, b'{"a":1}'),
            (first.__dict__, b'{"a":1,"b":[2]}'),
            (second.__dict__, b'{"b":3}'),
            (without_first, b'{"b":2,"c":3}'),
            (without_last, b'{"a":1,"b":2}'),
            ({**without_first, "a": 4}, b'{"b":2,"c":3,"a":4}'),
            (without_first.copy(), b'{"b":2,"c":3}'),
            (emptied, b"{}"),
            (once_general, b'{"a":1,"b":2}'),
            (general_with_gaps, b'{"a":1,"c":3}'),
            (large_general, b'{"0":1,"299":1}'),
            (large, b'{"n0":0,"n1":1}'),
        ):
            assert impl.dumps_json([value]) == b"[%b]" % expected
            assert impl.encode_result(1, value) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % expected
        many = {f"n{number}": number for number in range(300)}
        assert impl.dumps_json(many) == b"{%b}" % b",".join(b'"n%d":%d' % (number, number) for number in range(300))


class TestSizes:
    """The memory of the output grows at every place of a text."""

    @rows("edge", [4096, 8192])
    def test_one_message(self, impl: ModuleType, edge: int) -> None:
        ends: list[Any] = [
            "s", "\u4e2d" * 9, "\n" * 40, "\U0001f600", 1, -(2**63), -1.2345678901234567e-300, None, {"name": []},
            [[[[[]]]]], [True, False], Level.LOW,
        ]  # fmt: skip
        for size in range(edge - 200, edge + 20):
            for end in ends:
                assert_written(impl, ["x" * size, end, end])

    def test_many_messages(self, impl: ModuleType) -> None:
        for size in range(30):
            messages = [impl.Response(number, ["x" * size, 1.5]) for number in range(300)]
            texts = [b'{"jsonrpc":"2.0","id":%d,"result":["%b",1.5]}' % (number, b"x" * size) for number in range(300)]
            assert impl.encode(messages) == b"[" + b",".join(texts) + b"]\n"
            assert impl.encode(messages, delimited=False) == b"[" + b",".join(texts) + b"]"

    def test_every_part_of_an_envelope(self, impl: ModuleType) -> None:
        for size in range(3900, 4200):
            text = "x" * size
            expected = b'{"jsonrpc":"2.0","id":-9223372036854775808,"error":{"code":-32000,"message":"%b","data":7}}\n'
            assert impl.encode_error(-(2**63), -32000, text, 7) == expected % text.encode()
            expected = b'{"jsonrpc":"2.0","id":"\\n","method":"%b","params":[-1.5]}\n' % text.encode()
            assert impl.encode_request("\n", text, [-1.5]) == expected
            batch = [impl.Notification(text), impl.Request(10**30, text), impl.Response(None, impl.Raw(b"[\n1]"))]
            expected = b'[{"jsonrpc":"2.0","method":"%b"},{"jsonrpc":"2.0","id":1%b,"method":"%b"},'
            expected += b'{"jsonrpc":"2.0","id":null,"result":[ 1]}]\n'
            assert impl.encode(batch) == expected % (text.encode(), b"0" * 30, text.encode())


def test_code_that_changes_containers_while_they_are_written(core: ModuleType) -> None:
    # The core only: orjson itself may crash.
    script = """
        import enum
        class Changing(enum.Enum):
            ONE = 1
            @property
            def value(self):
                change()
                return 1
        one = Changing.ONE
        for width in (1, 3, 40):
            outer, inner, members = [], [], {}
            inner += ["x" * 600, one, *[[str(number)] for number in range(width)]]
            members.update({"a": "x" * 600, "b": one, **{str(number): [number] for number in range(width)}})
            outer += ["x", inner, (members, [one]), "y"]
            for change in (inner.clear, members.clear, outer.clear, lambda: members.update(dict.fromkeys(range(99)))):
                for payload in (list(inner), dict(members), outer, [outer]):
                    try:
                        impl.encode_result(1, payload)
                        impl.encode([impl.Response(1, payload)])
                    except TypeError:
                        pass
                outer[:] = ["x", inner, (members, [one]), "y"]
                inner[:] = ["x" * 600, one, *[[str(number)] for number in range(width)]]
        print("done")
    """
    assert run(core, script, "-X", "dev") == "done\n"


@pytest.fixture(scope="module")
def page() -> Iterator[tuple[int, int]]:
    if not guard_pages.is_possible():
        pytest.skip("memory is guarded as Linux does it")
    with guard_pages.guarded_page() as found:
        yield found


class TestGuardPages:
    """The writer reads no byte outside a value.

    A str, an int, a float, a tuple and bytes are one block of memory each, so that a copy of it is a value, too: it is
    placed at either end of a page between two that cannot be read. The array of a list is placed in the same way. Two
    things cannot be placed: a dict, which the core reads only through `PyDict_Next`, and the output, which begins on
    the C stack and continues in a bytes object. The sanitizers watch the output (docs/proof.md), as does CPython's
    debug allocator in `test_the_output_keeps_inside_its_memory`.
    """

    @rows("at_end", [True, False], ids=["at the end", "at the beginning"])
    @rows("width", WIDTHS)
    def test_strings(self, core: ModuleType, page: tuple[int, int], width: str, at_end: bool) -> None:
        for size in LENGTHS:
            for character in ("a", '"', "\n", "\x7f", width or "b"):
                for where in {0, size // 2, max(0, size - 1)}:
                    value = width + ("x" * size)[:where] + character * (size > 0) + "x" * max(0, size - where - 1)
                    expected = orjson.dumps(anew(value))
                    self.check_text(core, guard_pages.place(anew(value), page, at_end), expected)

    def check_text(self, core: ModuleType, text: str, expected: bytes) -> None:
        assert core.encode_result(1, text) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % expected
        assert core.encode_result(text, [text, text]) == (
            b'{"jsonrpc":"2.0","id":%b,"result":[%b,%b]}\n' % (expected, expected, expected)
        )
        assert core.encode_notification(text, {text: text}) == (
            b'{"jsonrpc":"2.0","method":%b,"params":{%b:%b}}\n' % (expected, expected, expected)
        )
        assert core.encode_error(None, -1, text) == (
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":%b}}\n' % expected
        )

    @rows("at_end", [True, False], ids=["at the end", "at the beginning"])
    def test_other_values(self, core: ModuleType, page: tuple[int, int], at_end: bool) -> None:
        numbers = [0, 2**64 - 1]
        numbers += [sign * (2**bits - less) for bits in (0, 15, 30, 31, 60, 63) for less in (0, 1) for sign in (1, -1)]
        for value in (*numbers, 0.0, -1.5, 1e300, 5e-324, (), ("a",), (1, None, "b")):
            self.check_value(core, guard_pages.place(value, page, at_end), orjson.dumps(value))
        for number in numbers[2:-4]:
            self.check_number(core, guard_pages.place(number, page, at_end), b"%d" % number)
        for size in range(40):
            items = [str(number) for number in range(size)]
            self.check_value(core, guard_pages.place_items(items, page, at_end), orjson.dumps(items))
            text = b"[%b]" % (b"1," * size + b"\n2")
            self.check_raw(core, guard_pages.place(text, page, at_end), text.replace(b"\n", b" "))

    def check_value(self, core: ModuleType, value: object, expected: bytes) -> None:
        assert core.encode_result(1, value) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % expected
        assert core.encode_result(1, [value]) == b'{"jsonrpc":"2.0","id":1,"result":[%b]}\n' % expected

    def check_number(self, core: ModuleType, number: int, expected: bytes) -> None:
        assert core.encode_error(number, number, "m") == (
            b'{"jsonrpc":"2.0","id":%b,"error":{"code":%b,"message":"m"}}\n' % (expected, expected)
        )

    def check_raw(self, core: ModuleType, data: bytes, expected: bytes) -> None:
        raw = core.Raw(data)
        assert core.encode_result(1, raw) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % expected
        assert core.encode(core.Response(1, raw)) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % expected


def test_the_output_keeps_inside_its_memory(core: ModuleType) -> None:
    pytest.importorskip("orjson")
    script = """
        import orjson
        ends = ["s", "\\u4e2d" * 9, "\\n" * 40, "\\U0001f600", -(2**63), -1.2345678901234567e-300, {"n": []}, [[[[]]]]]
        for edge in (4096, 8192):
            for size in range(edge - 160, edge + 10):
                for end in ends:
                    value = ["x" * size, end, end]
                    expected = b'{"jsonrpc":"2.0","id":1,"result":%b}\\n' % orjson.dumps(value)
                    assert impl.encode_result(1, value) == expected
                    assert impl.encode([impl.Response(1, value)]) == b"[%b]\\n" % expected[:-1]
        print("done")
    """
    assert run(core, script, "-X", "dev") == "done\n"


@pytest.fixture
def calls(core: ModuleType) -> list[Callable[[], object]]:
    """Calls that allocate memory without orjson, which crashes when memory runs out."""
    rows = [{"id": number, "name": "\u4e2d\n" * 20, "price": number / 7, "tags": ("a", None)} for number in range(200)]
    batch = [core.Response(number, row) for number, row in enumerate(rows)]
    return [
        lambda: core.encode_result(1, [1, "a", {"b": 2.5}]),
        lambda: core.encode_result(1, rows),
        lambda: core.encode_result("i" * 600, {"a": "x" * 100_000, "b": "\n" * 100_000}),
        lambda: core.encode_request(1, "\xe9" * 5000, [2**64 - 1, -(2**63), "\U0001f600" * 5000]),
        lambda: core.encode_notification("m", ("x" * 4000, {"y": "z" * 4000})),
        lambda: core.encode_error(10**30, 1, "m" * 9000, rows),
        lambda: core.encode(batch),
        lambda: core.encode([core.Notification("m" * 3000)] * 9),
        lambda: core.encode([core.Request("\xe9" * 300, "\xe9" * 1000)] * 9),
        lambda: core.encode(core.Response(1, core.Raw(b"[\n%b1]" % (b" " * 9000)))),
        batch[0].to_bytes_delimited,
    ]


@forked
def test_memory_that_is_not_there(calls: list[Callable[[], object]]) -> None:
    import _testcapi as testcapi

    for call in calls:
        expected = call()
        failures = 0
        for place in range(200):
            testcapi.set_nomemory(place, place + 1)
            try:
                found = call()
            except MemoryError:
                found = None
                failures += 1
            finally:
                testcapi.remove_mem_hooks()
            assert found in (None, expected)
            if found is not None:
                break
        else:
            pytest.fail("there is no end of allocations")
        assert failures > 0


@pytest.mark.ci
def test_nothing_is_leaked(core: ModuleType, calls: list[Callable[[], object]]) -> None:
    refused = [
        [1, {"a": {1}}],
        ["x" * 5000, object()],
        ["x" * 5000, "\ud800"],
        [10**4300],
        {1: 2},
        ["x" * 600, Level.LIST],
    ]

    def blocks() -> int:
        for call in calls:
            call()
        for value in refused:
            for _ in range(30):
                with contextlib.suppress(EncodeError):
                    core.encode([core.Response(1, value)])
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(10):
        blocks()  # fills the free lists
    # A leak shows in each round, and what other threads of the test runner allocate does not.
    counts = [blocks() for _ in range(6)]
    assert min(after - before for before, after in itertools.pairwise(counts)) < 50
