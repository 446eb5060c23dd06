"""Objects that run code in unexpected places, and failing allocations: nothing crashes.

Tests that could crash the interpreter run in a process of their own.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import sysconfig
import textwrap
import traceback
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, errors

from ..support import needs
from ..support.forking import MARK
from ..support.memory import measured
from ..support.places import ROOT
from ..support.tables import rows


def run(impl: ModuleType, script: str, *options: str) -> str:
    """The output of a script in which `impl` is the backend; it must exit on its own, with code 0."""
    needs.require_processes()
    begin = f"{MARK}import faulthandler, {impl.__name__} as impl\nfaulthandler.enable()\n"
    command = [sys.executable, *options, "-c", begin + textwrap.dedent(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@needs.CPYTHON
def test_a_collector_callback_that_uses_the_same_raw(impl: ModuleType) -> None:
    script = """
        import gc
        text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b'"abcdefgh",' * 50_000 + b"1]}"
        for use in (lambda raw: len(raw.decode()), lambda raw: len(impl.encode_request(1, "m", raw))):
            raw = impl.decode(text + b" ", raw=True).params
            gc.callbacks.append(lambda *_: bytes(raw))
            gc.set_threshold(1)
            print(use(raw))
            gc.set_threshold(1000)
            gc.callbacks.clear()
    """
    assert run(impl, script).split() == ["50001", "550051"]


@needs.CPYTHON
def test_a_collector_callback_that_clears_the_parsed_dict(impl: ModuleType) -> None:
    script = """
        import gc
        made = []
        members = {}
        def clear(*_):
            members.clear()
            made.extend([f"xxxxxx {number}" for number in range(10)])
        gc.callbacks.append(clear)
        gc.set_threshold(1)
        kept = []
        for number in range(5000):
            members.update(jsonrpc="2.0", id=f"id {number}", method=f"method {number}", params=[number])
            kept.append((impl.parse, impl.Request.from_dict)[number % 2](members))
        gc.set_threshold(1000)
        gc.callbacks.clear()
        for number, item in enumerate(kept):
            if type(item) is impl.Request:
                assert (item.id, item.method, item.params) == (f"id {number}", f"method {number}", [number])
        print("done")
    """
    assert run(impl, script) == "done\n"


@needs.CPYTHON
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="without the GIL few objects do not trigger a collection"
)
def test_a_collector_callback_that_begins_the_decoder_again(impl: ModuleType) -> None:
    script = """
        import gc
        made = []
        decoder = impl.Decoder()
        def begin_again(*_):
            decoder.__init__()
            made.extend(bytearray(b"x" * size) for size in range(64, 256, 16) for _ in range(20))
        gc.callbacks.append(begin_again)
        line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,{"b":[2]}]}}\\n'
        gc.set_threshold(1)
        found = decoder.feed(line * 50)
        gc.set_threshold(1000)
        gc.callbacks.clear()
        print(len(found), len(made) >= 240)  # from Python 3.12 on, a collection waits for the end of a call
    """
    assert run(impl, script) == "50 True\n"


def test_a_key_whose_comparison_replaces_the_members(impl: ModuleType) -> None:
    script = """
        made = []
        for name in ("jsonrpc", "id", "method", "params", "result", "error"):
            for number in range(200):
                members = {}
                class Key:
                    def __hash__(self):
                        return hash(name)
                    def __eq__(self, other):
                        if armed[0]:
                            armed[0] = False
                            members.clear()
                            made.extend([f"xxxxxx {number}" for number in range(10)])
                            members.update({"jsonrpc": "2." + str(0), "id": f"i {number}", "method": f"m {number}"})
                            members[name] = [number]
                        return False
                armed = [False]
                members[Key()] = 1
                members.update({"jsonrpc": "2." + str(0), "id": f"id {number}", "method": f"method {number}"})
                members["params"] = [number]
                armed[0] = True
                found = impl.parse(members)
                if name == "params":
                    assert repr(found) == f"Request(id='id {number}', method='method {number}', params=[{number}])"
                armed[0] = True
                repr([getattr(impl, kind).from_dict(members) for kind in ("Request", "Notification", "Response")])
                error = {Key(): 1, "code": 10**3 + number, "message": f"message {number}"}
                repr(impl.Error.from_dict(error))
        print("done")
    """
    assert run(impl, script) == "done\n"


class Strided(bytes):
    """Bytes whose `__buffer__`, which Python 3.12 and later call, returns every second byte of another text."""

    def __buffer__(self, flags: int, /) -> memoryview:
        return memoryview(b" ".join(bytes([byte]) for byte in bytes.__iter__(self)))[::2]


def test_a_subclass_whose_buffer_is_not_contiguous(impl: ModuleType) -> None:
    request = impl.Request(1, "m", [2])
    plain = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[2]}\n'
    text = Strided(plain)
    assert impl.decode(text) == request
    assert impl.classify(text).kind == "request"
    assert impl.decode_dict(text)["id"] == 1
    assert bytes(impl.Raw(text)) == plain.strip()
    for framing in ("newline", "concatenated", "auto"):
        assert impl.Decoder(framing).feed(text) == [request]
    assert impl.Decoder("sse").feed(Strided(b"data:" + plain + b"\n")) == [request]
    assert impl.Decoder("content-length").feed(Strided(b"Content-Length: 51\r\n\r\n" + plain)) == [request]


class Loud:
    """A key whose comparison raises."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name = name
        self.error = error

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        raise self.error


@rows("name", ["jsonrpc", "id", "method", "params", "result", "error"])
def test_from_dict_swallows_exceptions_of_keys(impl: ModuleType, name: str) -> None:
    for kind in (impl.Request, impl.Notification, impl.Response):
        assert kind.from_dict({Loud(name, ValueError("no")): 1}) is None


def test_from_dict_raises_other_exceptions(impl: ModuleType) -> None:
    for error in (MemoryError(), RecursionError(), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            impl.Response.from_dict({Loud("jsonrpc", error): 1})
    with pytest.raises(ValueError, match=r"^no$"):
        impl.parse({Loud("jsonrpc", ValueError("no")): 1})


@rows("name", ["code", "message", "data"])
def test_from_dict_of_an_error_swallows_exceptions_of_keys(impl: ModuleType, name: str) -> None:
    members = {Loud(name, ValueError("no")): 1, **({} if name == "code" else {"code": 1})}
    if name == "data":
        members["message"] = "m"
    assert impl.Error.from_dict(members) is None
    with pytest.raises(MemoryError):
        impl.Error.from_dict({Loud("code", MemoryError()): 1})


class EvilStr(str):
    __slots__ = ()

    def encode(self, *_: object, **__: object) -> Any:
        return None

    def __getitem__(self, _: object) -> Any:
        return None

    def __len__(self) -> int:
        return 10**9


class EvilBytes(bytes):
    def __bytes__(self) -> bytes:
        return b"evil"

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, _: object) -> Any:
        return None

    def find(self, *_: object) -> Any:
        return None


class EvilBytearray(bytearray):
    __bytes__ = EvilBytes.__bytes__
    __len__ = EvilBytes.__len__


TEXT = b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"m","params":[1]}'


def test_methods_of_subclasses_are_not_called(impl: ModuleType) -> None:
    for data in (EvilStr(TEXT.decode()), EvilBytes(TEXT), EvilBytearray(TEXT)):
        assert impl.decode(data) == impl.decode(TEXT)
        assert impl.classify(data) == impl.classify(TEXT)
        assert bytes(impl.Raw(data)) == TEXT
    for text in ('["\ud800"]', 'é"\ud800"'):
        assert impl.decode(EvilStr(text)) == impl.decode(text)
    for framing in ("newline", "auto", "sse", "content-length"):
        for data in (EvilBytes(TEXT + b"\n"), EvilBytearray(TEXT + b"\n")):
            assert repr(impl.Decoder(framing).feed(data)) == repr(impl.Decoder(framing).feed(TEXT + b"\n"))
            decoder = impl.Decoder(framing)
            assert repr(decoder.feed(data, 1)) == repr(impl.Decoder(framing).feed(TEXT + b"\n"))


# Every callable of the backend with every value, and every method of an object that no constructor has filled. Any
# result is accepted, as long as the process survives.
WALK = """
    import itertools
    import jsonrpc_fast
    from array import array

    class EvilStr(str):
        def encode(self, *_, **__): return None
    class EvilBytes(bytes):
        def __bytes__(self): return b""
    class EvilInt(int):
        def __index__(self): raise ValueError
    class EvilList(list):
        def __len__(self): return 10**6
    class EvilDict(dict):
        def get(self, *_): return None

    request = impl.Request(1, "m", impl.Raw(b"[1]"))
    VALUES = [
        None, 1, EvilInt(5), "x", EvilStr("[1]"), b"{}\\n", EvilBytes(b"[]"), [request, None], EvilList([1]),
        EvilDict(id=1), memoryview(array("i", [1, 2]))[::-1], jsonrpc_fast.JSONRPC, request, impl.Response(1),
        object(), print, 1.5,
    ]
    tried = 0

    def attempt(call, *arguments):
        global tried
        tried += 1
        try:
            return call(*arguments)
        except Exception:
            return None

    def walk(call, most):
        for count in range(most + 1):
            for arguments in itertools.product(VALUES, repeat=count):
                attempt(call, *arguments)

    SKIPPED = ("__class__", "__subclasshook__", "__init_subclass__", "__new__", "__getattribute__", "__dir__")
    seen = set()
    for name, value in sorted(vars(impl).items()):
        if getattr(value, "__module__", None) not in (impl.__name__, "jsonrpc_fast") or not callable(value):
            continue
        seen.add(name)
        walk(value, 3 if isinstance(value, type) else 2)
        if not isinstance(value, type):
            for arguments in itertools.product([None, b"[1]", "x"], repeat=3):
                attempt(value, *arguments)
                attempt(value, *arguments, 1)
            continue
        for member in dir(value):
            if member in SKIPPED:
                continue
            for arguments in ((), (jsonrpc_fast.JSONRPC, True)):
                empty = attempt(value.__new__, value, *arguments)
                if empty is not None and callable(attempt(getattr, empty, member)):
                    for count in range(3):
                        for given in itertools.product(VALUES, repeat=count):
                            attempt(getattr(empty, member), *given)
                    attempt(repr, empty)
    print()
    print(tried > 20_000, sorted(seen))
"""


@pytest.mark.ci
def test_arguments_of_every_type(impl: ModuleType) -> None:
    enough, names = run(impl, WALK).splitlines()[-1].strip().split(" ", 1)
    assert enough == "True"
    assert {"Request", "Raw", "decode", "_make_raw", "Decoder"} <= set(eval(names))
    if impl.__name__.endswith("_core"):
        assert {"LineReader", "BodyReader", "Rules", "_decode_slow"} <= set(eval(names))


@pytest.mark.ci
def test_long_chains_of_messages_are_freed(impl: ModuleType) -> None:
    script = """
        import sys, threading
        def chain(length):
            message = None
            for number in range(length):
                # The constructor refuses a message as the result.
                message = impl.parse({"jsonrpc": "2.0", "id": 1, "result": message})
            for number in range(length // 10):
                message = impl.Response(1, error=impl.Error(1, "m", message))
            message = impl.Notification("m", [message])
            for number in range(length // 10):
                message = impl.Request(1, "m", [message])
        chain(100_000)
        # Python 3.13 frees even nested lists only on larger stacks.
        threading.stack_size(128 * 1024 if sys.version_info < (3, 13) else 1024 * 1024)
        thread = threading.Thread(target=chain, args=(20_000,))
        thread.start()
        thread.join()
        print("done")
    """
    assert run(impl, script) == "done\n"


@pytest.mark.ci
def test_long_chains_of_messages_are_refused(impl: ModuleType) -> None:
    script = """
        import copy, pickle
        from jsonrpc_fast import EncodeError
        def chain(length):
            message = None
            for number in range(length):
                # The constructor refuses a message as the result.
                message = impl.parse({"jsonrpc": "2.0", "id": 1, "result": message})
            return message
        # Python 3.14 nests calls in C as deep as the stack allows.
        one, other = chain(60_000), chain(60_000)
        for call, expected in (
            (lambda: one == other, RecursionError),
            (lambda: pickle.dumps(one), RecursionError),
            (lambda: copy.deepcopy(one), RecursionError),
            (lambda: one.to_bytes(), EncodeError),
            (lambda: impl.encode(one, default=lambda message: message.to_dict()), EncodeError),
        ):
            try:
                call()
            except expected:
                pass
            else:
                print("not refused")
        assert len(repr(one)) < 1000
        assert len(repr(one.to_dict())) < 1000
        assert impl.parse(one.to_dict()).result.result is one.result.result
        print("done")
    """
    assert run(impl, script) == "done\n"


@needs.FAILING_ALLOCATIONS
def test_every_allocation_of_the_core_may_fail(backends: tuple[ModuleType, ModuleType]) -> None:
    # Nothing here reaches orjson, which crashes without memory.
    script = """
        import _testcapi
        request = b'{"jsonrpc":"2.0","id":1,"method":"m","params":["b",15]}'
        batch = b"[" + request + b"," + request + b"]"
        members = {"jsonrpc": "2.0", "id": 1, "method": "m" * 100, "params": [1]}
        calls = [
            lambda: impl.decode(request),
            lambda: impl.decode(request, raw=True),
            lambda: impl.decode(batch, raw=True),
            lambda: impl.decode(b'{"jsonrpc":"2.0","id":1,"method":1}'),
            lambda: impl.decode(b"x"),
            lambda: impl.decode(request.decode() + " ", raw=True),
            lambda: impl.decode('{"jsonrpc":"2.0","id":1,"method":"m","params":["\u00e9"]}', raw=True),
            lambda: impl.parse(members),
            lambda: impl.parse([members, 1]),
            lambda: impl.Raw(b"[1]").decode(),
            lambda: impl.encode(impl.Request(1, "m", impl.Raw(b"[1]"))),
            lambda: impl.encode([impl.Response(1, impl.Raw(b"[1]"))] * 100),
            lambda: impl.classify(batch),
            lambda: impl.Decoder().feed(3 * (request + b"\\n") + b"x\\n"),
            lambda: impl.Decoder("content-length").feed(3 * (b"Content-Length: 56\\r\\n\\r\\n" + request)),
            lambda: impl.Decoder("sse").feed(3 * (b"data: " + request + b"\\n\\n" + b"data:\\ndata: x\\n\\n")),
        ]
        expected = [repr(call()) for call in calls]
        failed = 0
        for call, found in zip(calls, expected):
            for number in range(40):
                try:
                    _testcapi.set_nomemory(number, number + 1)
                    try:
                        call()
                    finally:
                        _testcapi.remove_mem_hooks()
                except MemoryError:
                    failed += 1
                assert repr(call()) == found
                assert impl.Raw.__new__(impl.Raw).decode() is None
        print(failed > 50)
    """
    assert run(backends[0], script) == "True\n"


@pytest.mark.slow  # so does `nox -s run -- allocations`
@needs.FAILING_ALLOCATIONS
def test_allocations_that_fail_in_calls_with_orjson() -> None:
    """A short run; `nox -s run -- allocations` is a longer one."""
    pytest.importorskip("jsonrpc_fast.codec._core")
    pytest.importorskip("orjson")
    command = [sys.executable, "-m", "tests.isolated.allocations", "--calls", "17"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.startswith("17 different calls, ")


def test_the_traceback_of_a_refused_text_does_not_hold_it(impl: ModuleType) -> None:
    for data in (b"[" + 5000 * b"x", "[" + 5000 * "x", "[" + 5000 * "x" + "\ud800", 2000 * b"[" + 2000 * b"]"):
        with pytest.raises(errors.ParseError) as caught:
            impl.Raw(data)
        frames = list(traceback.walk_tb(caught.value.__traceback__))[1:]
        assert [frame.f_locals for frame, _ in frames if data in frame.f_locals.values()] == []
        assert caught.value.__context__ is None


def test_a_decoder_is_neither_copied_nor_pickled(impl: ModuleType) -> None:
    for framing in ("newline", "content-length", "sse", "auto"):
        for use in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"^cannot pickle 'Decoder' object$"):
                use(impl.Decoder(framing))


@needs.CPYTHON
def test_a_str_keeps_no_copy_of_its_utf_8(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"method":"m","params":["' + 1000 * "é" + '"]}'
    before = sys.getsizeof(text)
    impl.decode(text)
    impl.decode(text, raw=True)
    impl.classify(text)
    impl.Raw(text)
    assert sys.getsizeof(text) == before


class Raising:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("asked for its class")


class RaisingInt(int):
    __class__ = Raising.__class__  # type: ignore[assignment]


class RaisingStr(str):
    __slots__ = ()
    __class__ = Raising.__class__  # type: ignore[assignment]


class RaisingFault(RuntimeError):
    __class__ = Raising.__class__  # type: ignore[assignment]


class Claiming:
    def __init__(self, claimed: type) -> None:
        self._claimed = claimed

    @property
    def __class__(self) -> Any:
        return self._claimed


# A class looks up missing attributes in its metaclass, whose code empties the list that holds the object.
METACLASS = """
    import json
    from jsonrpc_fast import EncodeError
    import jsonrpc_fast.codec._json as engine

    asked = []

    class Meta(type):
        def __getattr__(cls, name):
            asked.append(name)
            items.clear()
            raise AttributeError(name)

    class Plain(metaclass=Meta):
        pass

    class Key:
        # Compared with __dataclass_fields__ where the members of the class are looked up.
        def __hash__(self):
            return hash("__dataclass_fields__")
        def __eq__(self, other):
            items.clear()
            return False

    Keyed = type("Keyed", (), {Key(): 1})
    for cls in (Plain, Keyed):
        for first in ([], ["x" * 600]):  # the second lets orjson write only the object
            for call in (
                lambda: impl.encode_result(1, items),
                lambda: impl.encode_request(1, "m", items),
                lambda: impl.encode(impl.Response(1, {"a": items})),
                lambda: impl.encode_error(1, 2, "m", (items,)),
            ):
                items = [*first, cls()]
                try:
                    json.loads(call())
                except EncodeError as error:
                    assert str(error) == f"Type is not JSON serializable: {cls.__name__}"
    print(asked)
"""


@needs.CPYTHON
def test_a_class_whose_lookup_empties_the_list(impl: ModuleType) -> None:
    assert run(impl, METACLASS) == "[]\n"


def test_an_item_that_is_freed_while_a_list_shows_it(impl: ModuleType) -> None:
    script = """
        class Shown:
            def __repr__(self):
                items.clear()
                return "shown"
        for make in (
            lambda: impl.Request(1, "m", [Shown()]),
            lambda: impl.Notification("m", [Shown()]),
            lambda: impl.Response(1, Shown()),
            lambda: impl.Response(1, None, impl.Error(1, "m", Shown())),
            lambda: impl.Error(1, "m", Shown()),
        ):
            items = [make(), 1]
            assert "shown" in repr(items)
            assert items == []
            expected = [make() for _ in range(100)]  # none of them in the place of another
            assert len(set(map(id, expected))) == 100
        print("done")
    """
    assert run(impl, script) == "done\n"


@needs.CPYTHON
def test_a_buffer_that_a_finalizer_changes(impl: ModuleType) -> None:
    """Before Python 3.12 the collector runs in the middle of a text, where a list is made."""
    script = """
        import gc
        text = b'{"jsonrpc":"2.0","id":1,"method":"method","params":[' + b",".join([b"[[1],[2]]"] * 200) + b"]}"
        other = text.replace(b"[[1],[2]]", b"[[3],[4]]").replace(b':"method"', b':"m\\xc3\\xa9thd"')
        assert len(other) == len(text)

        class Cycle:
            def __init__(self):
                self.itself = self
            def __del__(self):
                if buffer:
                    buffer[:] = other

        def use(call, data):
            for _ in range(20):
                Cycle()
            gc.set_threshold(1)
            try:
                return call(data)
            finally:
                gc.set_threshold(1000)

        def told(found):
            params = found.params
            return found.method, params.decode() if isinstance(params, impl.Raw) else params

        decoder = impl.Decoder("concatenated")
        whole = told(impl.decode(text)), told(impl.decode(other))
        changed = 0
        for call in (
            impl.decode,
            lambda data: impl.decode(data, raw=True),
            lambda data: impl.parse(impl.decode_dict(data)),
            lambda data: decoder.feed(data)[0],
        ):
            for view in (bytearray, memoryview):
                buffer = bytearray(text)
                found = told(use(call, buffer if view is bytearray else memoryview(buffer)))
                assert found in whole
                assert found[0].encode() in (b"method", b"m\\xc3\\xa9thd")
                changed += buffer == other
        assert changed
        print("done")
    """
    assert run(impl, script) == "done\n"


@pytest.mark.ci
def test_objects_that_change_containers_at_every_hook() -> None:
    """A short run; `nox -s run -- sanitized -m tests.isolated.hooks` is a longer one, with the sanitizers."""
    pytest.importorskip("jsonrpc_fast.codec._core")
    pytest.importorskip("orjson")
    command = [sys.executable, "-m", "tests.isolated.hooks", "--inputs", "40", "--seed", "3"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    fired = {line.split(maxsplit=1)[1] for line in ran.stdout.splitlines()[:-1]}
    assert fired >= {"__del__", "collector", "default", "enum.value", "key.__eq__", "metaclass.__getattribute__"}
    assert fired >= {"dataclass.__dict__", "descriptor.__get__", "profile.__getattribute__", "weak reference"}


@rows("framing, frame", [("newline", b"x\n"), ("concatenated", b"{}"), ("newline", b"[1,1,1,1]\n")])
def test_the_memory_of_tiny_frames(impl: ModuleType, framing: str, frame: bytes) -> None:
    data = frame * (1500 // len(frame))
    decoder = impl.Decoder(framing)
    decoder.feed(data[: len(frame)])
    with measured() as memory:
        items = decoder.feed(data)
    assert len(items) == len(data) // len(frame)
    assert memory.held / len(data) < (80 if impl.__name__.endswith("_core") else 120)
    items = decoder.feed(data, 10)
    assert decoder.has_more
    assert len(items) <= 10


@rows("framing", ["newline", "auto"])
def test_a_profile_that_claims_its_class(impl: ModuleType, framing: str) -> None:
    for call in (
        lambda: impl.Decoder(framing, Claiming(JSONRPC.__class__)),
        lambda: impl.decode(b"{}", Claiming(JSONRPC.__class__)),
        lambda: impl.decode_dict(b"{}", Claiming(JSONRPC.__class__)),
        lambda: impl.parse({}, Claiming(JSONRPC.__class__)),
        lambda: impl.Request.from_dict({}, Claiming(JSONRPC.__class__)),
    ):
        with pytest.raises(TypeError, match=r"^profile must be a Profile, such as jsonrpc_fast.LENIENT, not Claiming$"):
            call()


def test_the_class_that_an_object_claims_does_not_count(impl: ModuleType) -> None:
    for value in (Raising(), Claiming(int), Claiming(str), Claiming(dict), Claiming(bytes), Claiming(list)):
        name = type(value).__name__
        for call, told in (
            (lambda value: impl.Request(value, "m"), f"id must be an int, a str, a float or None, not {name}"),
            (lambda value: impl.Request(1, value), f"method must be a str, not {name}"),
            (
                lambda value: impl.Request(1, "m", value),
                f"params must be a dict, a list, a tuple, a Raw of an object or array, or None, not {name}",
            ),
            (lambda value: impl.Response(1, error=value), f"error must be an Error or None, not {name}"),
            (lambda value: impl.Error(1, value), f"message must be a str, not {name}"),
            (impl.Raw, f"data must be bytes, bytearray, memoryview or str, not {name}"),
            (impl.decode, f"data must be bytes, bytearray, memoryview or str, not {name}"),
            (impl.classify, f"data must be bytes, bytearray, memoryview or str, not {name}"),
            (
                lambda value: impl.decode(b"{}", value),
                f"profile must be a Profile, such as jsonrpc_fast.LENIENT, not {name}",
            ),
            (impl.encode, f"message must be a Request, a Notification or a Response, not {name}"),
            (lambda value: impl.encode_result(value, 1), f"id must be an int, a str, a float or None, not {name}"),
            (lambda value: impl.encode_result(1, value), f"Type is not JSON serializable: {name}"),
        ):
            with pytest.raises(TypeError) as caught:
                call(value)
            assert str(caught.value) == told
        assert repr(impl.parse(value)).startswith("ParseError(NOT_AN_OBJECT,")
        assert repr(impl.parse({"jsonrpc": "2.0", "id": value, "method": "m"})).startswith(
            "ParseError(INVALID_ID_TYPE,"
        )
        assert impl.Request(1, "m") != value


def test_the_real_class_counts_where_asking_for_it_fails(impl: ModuleType) -> None:
    assert impl.encode_request(RaisingInt(5), RaisingStr("m"), {"a": RaisingInt(6)}) == (
        b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":6}}\n'
    )
    assert impl.decode(RaisingStr('{"jsonrpc":"2.0","method":"m"}')) == impl.Notification("m")
    assert type(impl.Response(1, RaisingFault()).result) is RaisingFault
