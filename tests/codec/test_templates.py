"""Dicts that the core makes from templates: in each mode they equal dicts made by insertion, and share nothing."""

from __future__ import annotations

import copy
import gc
import importlib
import json
import marshal
import pickle
import random
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jsonrpc_fast.codec import _core, _pure  # type: ignore[attr-defined]

from ..support import needs
from ..support.forked import forked
from ..support.oracle import orjson
from ..support.places import ROOT
from ..support.tables import rows

RESULT = b'{"jsonrpc":"2.0","id":1,"result":%b}'
WIRE = ROOT / "tests" / "vectors" / "wire"
ALWAYS = 2**60
COUNTS = (1, 2, 3, 4, 5, 6, 9, 10, 11, 20, 21, 22, 31, 32, 33, 42, 43)
MODES: dict[str, tuple[int, ...]] = {
    "on": (),
    "off": (0,),
    "without rests": (1024, 64, ALWAYS),
    "four places": (4, 64, ALWAYS),
    "one hash": (1024, 0, ALWAYS),
    "four places and one hash": (4, 0, ALWAYS),
    "eight places and four hashes": (8, 2, 8),
}
EXPECTED = (
    sys.implementation.name == "cpython"
    and (3, 11) <= sys.version_info < (3, 15)
    and not sysconfig.get_config_var("Py_DEBUG")
)
"""Whether this Python has templates."""


@pytest.fixture(autouse=True)
def templates() -> Iterator[None]:
    _core._use_templates(*MODES["without rests"])
    yield
    _core._use_templates()


of_templates = pytest.mark.skipif(not EXPECTED, reason="this Python has no templates")


def text_of(names: list[str], value: object = 1) -> bytes:
    return RESULT % orjson.dumps(dict.fromkeys(names, value))


def names_of(count: int) -> list[str]:
    return [f"name_{number}" for number in range(count)]


def decoded(text: bytes) -> Any:
    return _core.decode(text).result


def made_of(text: bytes) -> Any:
    """Return a dict with the shapes of a text once those have templates."""
    for _ in range(3):
        found = decoded(text)
    return found


def state_of(value: Any) -> object:
    """Return everything observable of a payload: order, sizes and what the garbage collector tracks."""
    if isinstance(value, dict):
        children: list[object] = [state_of(child) for child in value.values()]
        return list(value), sys.getsizeof(value), gc.is_tracked(value), children
    if isinstance(value, list):
        return [state_of(child) for child in value]
    return marshal.dumps(value, 0)


def tracked(value: Any) -> object:
    if isinstance(value, dict):
        return gc.is_tracked(value), list(map(tracked, value.values()))
    return list(map(tracked, value)) if isinstance(value, list) else None


def test_the_python_that_should_have_templates_has_them() -> None:
    assert (_core._use_templates() is not None) == EXPECTED


@of_templates
def test_shapes_that_come_again_have_templates() -> None:
    for count in COUNTS:
        _core._use_templates()
        for _ in range(5):
            decoded(text_of(names_of(count)))
        assert _core._use_templates() == (3 if count <= 32 else 0), count


def texts() -> Iterator[bytes]:
    yield from [line for path in sorted(WIRE.glob("*.ndjson")) for line in path.read_bytes().splitlines()]
    rng = random.Random(1)
    values = [1, -1.5, "text", "", None, True, [], {}, [1], {"a": 1}, {"a": 1, "b": [], "c": {}}, {"b": 2, "a": 1}]
    pool = [*names_of(36), "", "a", "b", "c", "é", "漢字", 'quo"te', "n" * 64, "n" * 65, "n" * 70]
    for count in [*range(2, 45), *range(2, 12), *range(2, 6)]:
        for _ in range(2):
            names = rng.sample(pool, count)
            yield RESULT % orjson.dumps({name: rng.choice(values) for name in names})
            rng.shuffle(names)
            yield RESULT % orjson.dumps([{name: rng.choice(values) for name in names} for _ in range(3)])
        members = [b'"%b":%d' % (rng.choice((b"a", b"b", b"c", b"\\u0061")), number) for number in range(count)]
        yield RESULT % b"{%b}" % b",".join(members)


@rows("mode", MODES)
@pytest.mark.ci
def test_each_mode_reads_what_the_pure_backend_and_json_read(mode: str) -> None:
    _core._use_templates(*MODES[mode])
    every = list(texts())
    random.Random(2).shuffle(every)
    for text in every:
        expected = _pure.decode(text)
        for _ in range(5):
            found = _core.decode(text)
            assert repr(found) == repr(expected)
            if isinstance(found, _core.Response) and found.error is None and b"\\u0061" not in text:
                real = json.loads(text)["result"]
                assert marshal.dumps(found.result, 0) == marshal.dumps(real, 0)
                assert tracked(found.result) == tracked(real)


@of_templates
def test_dicts_are_no_larger_than_those_of_json() -> None:
    for count in range(33):
        for value in (1, [1]):
            text = text_of(names_of(count), value)
            found, expected = made_of(text), json.loads(text)["result"]
            assert state_of(found) == state_of(expected), count
            for name in [f"more_{number}" for number in range(100)]:
                found[name] = expected[name] = 1
                assert sys.getsizeof(found) == sys.getsizeof(expected)


def changes() -> Iterator[Callable[[dict[str, Any]], object]]:
    """Yield operations that change a dict, or that make it cache something."""
    yield lambda items: items.clear()
    yield lambda items: items.popitem()
    yield lambda items: items.pop(next(iter(items)))
    yield lambda items: items.pop(next(reversed(items)))
    yield lambda items: items.update(dict.fromkeys(items, "changed"))
    yield lambda items: items.update({f"more_{number}": number for number in range(50)})
    yield lambda items: items.__ior__({"more": 1})
    yield lambda items: items.setdefault("more", items)
    yield lambda items: [items.popitem() for _ in range(len(items))]
    yield lambda items: [items.update({name: items.pop(name)}) for name in list(items)]
    yield lambda items: exec("for i in range(200): name_0 = name_1; global_name = name_0", items)
    yield lambda items: type("Anything", (), {})().__dict__.update(items)
    yield lambda items: setattr(type("Anything", (), {})(), "__dict__", items)
    yield lambda items: (lambda **named: named)(**items)
    yield lambda items: items.update({5: 6})  # type: ignore[dict-item]


@of_templates
@pytest.mark.ci
def test_a_change_of_a_dict_is_seen_in_no_other() -> None:
    for count in (2, 3, 5, 6, 10, 11, 21, 22, 32):
        # All dicts of a text have one shape: five may share their places, and one of them then has no template.
        for value in (1, [2], {name: [2] for name in names_of(count)}):
            text = text_of(names_of(count), value)
            for change in changes():
                real = json.loads(text)["result"]
                before = made_of(text)
                found = decoded(text)
                change(found)
                change(real)
                real.pop("__builtins__", None), found.pop("__builtins__", None)
                if real.get("more") is not real:
                    assert list(found.items()) == list(real.items())
                expected = state_of(json.loads(text)["result"])
                assert state_of(before) == state_of(decoded(text)) == expected


@of_templates
def test_copies_are_equal() -> None:
    for count in (2, 5, 6, 10, 11, 32):
        found = made_of(text_of(names_of(count), [1]))
        for again in (
            *(pickle.loads(pickle.dumps(found, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
            *(copy.copy(found), copy.deepcopy(found), json.loads(json.dumps(found))),
            *(dict(found), {**found}, found | {}),
        ):
            assert list(again.items()) == list(found.items())
        assert list(reversed(found)) == names_of(count)[::-1]
        assert [found[name] for name in names_of(count)] == [[1]] * count
        assert "other" not in found


@of_templates
def test_the_last_of_equal_names_counts() -> None:
    members = [b'"a":1,"b":2,"a":3', b'"a":1,"a":2,"a":3', b'"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"b":7']
    for text in [RESULT % b"{%b}" % part for part in members]:
        _core._use_templates()
        for _ in range(9):
            assert list(decoded(text).items()) == list(json.loads(text)["result"].items())
        assert _core._use_templates() == 0


@of_templates
def test_names_that_are_not_cached_have_no_template() -> None:
    for name, is_cached in (("n" * 65, False), ("é" * 33, False), ("é", True), ("\\u0061" * 4, True), ('\\"', True)):
        text = RESULT % b'{"x":1,"y":2,"%b":3}' % name.encode()
        _core._use_templates()
        for _ in range(50):
            assert decoded(text) == json.loads(text)["result"]
        assert (_core._use_templates() > 40) is is_cached


@of_templates
def test_names_that_the_cache_has_forgotten() -> None:
    """The template owns its names; new ones with their text are other objects."""
    text = text_of(names_of(7))
    first = made_of(text)
    for number in range(0, 60_000, 30):
        decoded(text_of([f"other_{number + index}" for index in range(30)]))
    second = made_of(text)
    assert first == second == json.loads(text)["result"]
    assert [name is again for name, again in zip(first, second, strict=True)].count(False) > 3


@of_templates
def test_the_names_and_shapes_of_real_traffic_find_room() -> None:
    texts = [text_of([f"{'name' * (size % 9)}_{size}_{index}" for index in range(3)]) for size in range(100)]
    for _ in range(3):
        kept = [decoded(text) for text in texts]
    _core._use_templates()
    for _ in range(6):
        again = [decoded(text) for text in texts]
    same = [name is other for one, two in zip(kept, again, strict=True) for name, other in zip(one, two, strict=True)]
    assert same.count(False) < 15
    assert _core._use_templates() > 300


@of_templates
def test_cycles_are_collected() -> None:
    class Anything:
        freed = 0

        def __del__(self) -> None:
            Anything.freed += 1

    for count in (2, 6):
        for value in (1, [1]):
            found = made_of(text_of(names_of(count), value))
            found["name_1"] = [found, Anything()]
            del found
            gc.collect()
    assert Anything.freed == 4


@of_templates
def test_references_are_given_back() -> None:
    gc.collect()  # garbage of other tests may refer to None
    for count in (2, 5, 6, 10, 32):
        text = text_of(names_of(count), [1])
        found = made_of(text)
        names = list(found)
        kept: list[Any] = [decoded(text) for _ in range(1000)]
        held = [sys.getrefcount(name) for name in names]
        nones = sys.getrefcount(None)
        kept = [decoded(text) for _ in range(1000)]
        assert abs(sys.getrefcount(None) - nones) < 50
        assert [sys.getrefcount(name) for name in names] == held
        assert [sys.getrefcount(found[name]) for name in names] == [2] * count
        kept.clear()
        assert [sys.getrefcount(name) for name in names] == [number - 1000 for number in held]
        assert abs(sys.getrefcount(None) - nones) < 50


@of_templates
def test_no_code_can_find_a_template() -> None:
    names = list(made_of(text_of(names_of(7))))
    found = [each for each in gc.get_objects() if isinstance(each, dict) and list(each) == names]
    assert found == []


@of_templates
def test_each_dict_has_versions_of_its_own() -> None:
    version = getattr(pytest.importorskip("_testcapi"), "dict_get_version", None)
    if version is None:
        pytest.skip("this Python shows no versions of dicts")
    for count in (2, 5, 6, 32):
        text = text_of(names_of(count))
        dicts = [made_of(text) for _ in range(20)]
        versions = {version(each) for each in dicts}
        for each in dicts:
            each["name_0"] = 2
        versions |= {version(each) for each in dicts}
        assert len(versions) == 40


@of_templates
def test_a_watcher_sees_its_own_dict_alone() -> None:
    testcapi = pytest.importorskip("_testcapi")
    if not hasattr(testcapi, "add_dict_watcher"):
        pytest.skip("this Python has no watchers of dicts")
    watcher = testcapi.add_dict_watcher(0)
    try:
        watched = [made_of(text_of(names_of(count))) for count in (2, 6)]
        for found in watched:
            testcapi.watch_dict(watcher, found)
            found["name_0"] = 5
            decoded(text_of(list(found)))["name_0"] = 6
        assert testcapi.get_dict_watcher_events() == ["mod:name_0:5"] * 2
    finally:
        testcapi.clear_dict_watcher(watcher)


@of_templates
def test_where_shapes_do_not_repeat_the_search_rests() -> None:
    rng = random.Random(3)
    pool = names_of(40)
    _core._use_templates()
    for _ in range(20_000):
        names = rng.sample(pool, 8)
        assert list(decoded(text_of(names))) == names
    assert _core._use_templates() < 20


@of_templates
def test_shapes_that_repeat_again_end_the_rest() -> None:
    rng = random.Random(4)
    _core._use_templates()
    for _ in range(3_000):
        decoded(text_of(rng.sample(names_of(40), 8)))
    for _ in range(6_000):
        decoded(text_of(names_of(8)))
    assert _core._use_templates() > 1_000


@of_templates
@pytest.mark.ci
def test_memory_is_bounded() -> None:
    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    def read(first: int) -> None:
        for number in range(first, first + 30_000):
            text = text_of([f"{'n' * 50}_{number}_{index}" for index in range(4)])
            decoded(text)
            decoded(text)

    read(0)
    before = blocks()
    read(30_000)
    assert abs(blocks() - before) < 512 * 6


@of_templates
@needs.FAILING_ALLOCATIONS
@forked
def test_failing_allocations() -> None:
    """Without memory for a dict or a template, the call fails or returns what it should, and the next one works."""
    testcapi = importlib.import_module("_testcapi")
    kept: list[Any] = [{"a": number} for number in range(300)]  # so that no dict comes from a free list
    for text in [text_of(names_of(count), value) for count in (3, 6, 32) for value in (1, [1])]:
        expected = json.loads(text)["result"]
        refused = 0
        for seen in range(5):
            failures = 0
            for place in range(10_000):
                _core._use_templates(*MODES["without rests"])
                kept += [decoded(text) for _ in range(seen)]
                kept += [{"a": number} for number in range(9)]
                found = None
                testcapi.set_nomemory(place, place + 1)
                try:
                    found = _core.decode(text)
                except MemoryError:
                    failures = place + 1
                finally:
                    testcapi.remove_mem_hooks()
                assert found is None or found.result == expected
                kept += [found, decoded(text), decoded(text), decoded(text)]
                assert state_of(kept[-1]) == state_of(expected)
                if found is not None and place > failures + 3:
                    break
            refused += failures
        assert refused > 0


@of_templates
def test_a_collection_that_reads_the_same_shapes() -> None:
    """Before Python 3.12 a collection begins during an allocation, and so in the middle of a dict."""
    shapes = [text_of(names_of(count), [1]) for count in (2, 4, 6, 11, 22)]
    modes = [MODES[name] for name in ("without rests", "four places", "one hash", "off")]
    rng = random.Random(5)
    is_reading = False

    def read(phase: str, _: object) -> None:
        nonlocal is_reading
        if not is_reading:
            is_reading = True
            if rng.random() < 0.3:
                _core._use_templates(*rng.choice(modes))
            kept = [decoded(rng.choice(shapes)) for _ in range(3)]
            kept[0].clear()
            is_reading = False

    threshold = gc.get_threshold()
    gc.callbacks.append(read)
    gc.set_threshold(1)
    try:
        kept = []
        for _ in range(3_000):
            index = rng.randrange(len(shapes))
            kept.append((index, decoded(shapes[index])))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(read)
    for index, found in kept:
        assert [list(found), list(found.values())] == [names_of(len(found)), [[1]] * len(found)]
        assert len(found) == len(json.loads(shapes[index])["result"])
        assert gc.is_tracked(found)


@rows("mode", MODES)
def test_threads_read_the_same_shapes(mode: str) -> None:
    _core._use_templates(*MODES[mode])
    shapes = [text_of(names_of(count), value) for count in (2, 5, 6, 11) for value in (1, [1])]
    expected = [json.loads(text)["result"] for text in shapes]
    wrong: list[object] = []

    def read(seed: int) -> None:
        rng = random.Random(seed)
        for number in range(2_000):
            index = rng.randrange(len(shapes))
            found = decoded(shapes[index])
            if found != expected[index]:
                wrong.append(found)
            found.popitem()
            if seed == 0 and number % 50 == 0:
                _core._use_templates(*MODES[mode])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
