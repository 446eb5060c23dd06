"""Objects that run code where the codec does not expect it, and memory that is not there: nothing crashes.

What could end the interpreter runs in one of its own.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
import textwrap
import traceback
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import errors


def run(impl: ModuleType, script: str) -> str:
    """What a script prints to which `impl` is the backend; it has to end by itself, with exit code 0."""
    source = f"import {impl.__name__} as impl\n{textwrap.dedent(script)}"
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", source], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_a_collector_callback_that_reads_the_raw_at_work(impl: ModuleType) -> None:
    script = """
        import gc
        text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b'"abcdefgh",' * 500_000 + b"1]}"
        for use in (lambda raw: len(raw.decode()), lambda raw: len(impl.encode_request(1, "m", raw))):
            raw = impl.decode(text, raw=True).params
            gc.callbacks.append(lambda *_: bytes(raw))
            gc.set_threshold(1)
            print(use(raw))
            gc.set_threshold(1000)
            gc.callbacks.clear()
    """
    assert run(impl, script).split() == ["500001", "5500051"]


def test_a_collector_callback_that_clears_the_dict_at_work(impl: ModuleType) -> None:
    script = """
        import gc
        made = []
        members = {}
        def clear(*_):
            members.clear()
            made.append("x" * 60)
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
        print()
    print(tried > 20_000, sorted(seen))
"""


def test_arguments_of_every_type(impl: ModuleType) -> None:
    enough, names = run(impl, WALK).splitlines()[-1].strip().split(" ", 1)
    assert enough == "True"
    assert {"Request", "Raw", "decode", "_make_raw", "Decoder"} <= set(eval(names))
    if impl.__name__.endswith("_core"):
        assert {"LineReader", "BodyReader", "Rules", "Buffer", "_decode_by_envelopes"} <= set(eval(names))


def test_long_chains_of_messages_are_freed(impl: ModuleType) -> None:
    script = """
        import threading
        def chain(length):
            message = None
            for number in range(length):
                message = impl.Response(1, message)
            for number in range(length // 10):
                message = impl.Response(1, error=impl.Error(1, "m", message))
            message = impl.Notification("m", [message])
            for number in range(length // 10):
                message = impl.Request(1, "m", [message])
        chain(1_000_000)
        threading.stack_size(128 * 1024)
        thread = threading.Thread(target=chain, args=(20_000,))
        thread.start()
        thread.join()
        print("done")
    """
    assert run(impl, script) == "done\n"


def test_long_chains_of_messages_are_refused(impl: ModuleType) -> None:
    script = """
        import copy, pickle
        from jsonrpc_fast import EncodeError
        def chain(length):
            message = None
            for number in range(length):
                message = impl.Response(1, message)
            return message
        one, other = chain(20_000), chain(20_000)
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


@pytest.mark.skipif(importlib.util.find_spec("_testcapi") is None, reason="this interpreter has no _testcapi")
def test_every_allocation_of_the_core_may_fail(twins: tuple[ModuleType, ModuleType]) -> None:
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
            lambda: impl.encode_many([impl.Response(1, impl.Raw(b"[1]"))] * 100),
            lambda: impl.classify(batch),
            lambda: impl.Decoder().feed(3 * (request + b"\\n") + b"x\\n"),
            lambda: impl.Decoder("content-length").feed(3 * (b"Content-Length: 56\\r\\n\\r\\n" + request)),
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
    assert run(twins[0], script) == "True\n"


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


def test_a_str_keeps_no_copy_of_its_utf_8(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"method":"m","params":["' + 1000 * "é" + '"]}'
    before = sys.getsizeof(text)
    impl.decode(text)
    impl.decode(text, raw=True)
    impl.classify(text)
    impl.Raw(text)
    assert sys.getsizeof(text) == before
