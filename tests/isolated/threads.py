"""Threads that share decoders, messages and the caches of the codec: `python -m tests.isolated.threads --seconds 60`.

Rules:
- Threads change every microsecond. Collections are frequent, and finalizers release the GIL in the middle of a call.
- What threads feed to a shared decoder is returned once, in the order of each thread, or the call is refused.
- Chunks that tear messages apart give any items, but no crash and no other exception.
- A payload that other threads change is written as JSON, in one of its states or in parts of several.
- The fuzz targets of the codec find nothing when several threads run them at once.

`nox -s run -- thread_sanitizer` runs it where the thread sanitizer watches.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import importlib
import json
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from jsonrpc_fast import JSONRPC
from jsonrpc_fast.codec._json import ORJSON_FAULT
from jsonrpc_fast.framing.frames import FRAMINGS, frame

IN_USE = "the decoder is in use"
THREADS = 4
MAX_JOIN_SECONDS = 600.0
"""How long a thread may take after its time: the thread sanitizer makes one input slow."""


class Cycle:
    """Garbage whose finalizer lets other threads run."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0)


@contextlib.contextmanager
def frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    has_thresholds = sys.implementation.name == "cpython"
    threshold = gc.get_threshold() if has_thresholds else ()
    if has_thresholds:
        gc.set_threshold(20, 2, 2)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if has_thresholds:
            gc.set_threshold(*threshold)


def run_threads(work: Callable[[int], None], seconds: float = 0.0) -> None:
    """Run `work`, which takes that long or is short, in several threads at once, and raise the first exception."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            barrier.wait(60)
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    with frequent_switches():
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds + MAX_JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    if failures:
        raise failures[0]
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback()
        raise AssertionError("a thread hangs")


def text_of(thread: int, number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":"%d-%d","method":"m%d","params":{"a":[1,{"b":[2]}]}}' % (thread, number, number % 50)


def framed(text: bytes, framing: str) -> bytes:
    return frame(text, "newline" if framing == "auto" else framing)  # type: ignore[arg-type]


def share_a_decoder(impl: ModuleType, framing: str, max_items: int | None, rounds: int) -> int:
    """Feed whole frames from all threads, as bytes and as bytearrays. Return how many calls were refused."""
    decoder = impl.Decoder(framing)
    found: list[list[Any]] = [[] for _ in range(THREADS)]
    refused = [0] * THREADS

    def feed(thread: int, data: Any) -> list[Any]:
        while True:
            try:
                items: list[Any] = decoder.feed(data) if max_items is None else decoder.feed(data, max_items)
                return items
            except ValueError as error:
                if str(error) != IN_USE:
                    raise
                refused[thread] += 1
                time.sleep(0)

    def work(thread: int) -> None:
        for number in range(rounds):
            Cycle()
            data = framed(text_of(thread, number), framing)
            found[thread] += feed(thread, bytearray(data) if number % 3 == 0 else data)

    run_threads(work)
    items = [item for each in found for item in each]
    while decoder.has_more:
        items += decoder.feed(b"", 1)
    items += decoder.close()
    ids = sorted(tuple(map(int, item.id.split("-"))) for item in items)
    assert ids == [(thread, number) for thread in range(THREADS) for number in range(rounds)]
    return sum(refused)


def tear_messages(impl: ModuleType, framing: str, rounds: int, seed: int) -> None:
    """Feed parts of frames from all threads, and close the decoder meanwhile."""
    decoder = impl.Decoder(framing)

    def work(thread: int) -> None:
        choice = random.Random(seed + thread)
        for number in range(rounds):
            Cycle()
            data = framed(text_of(thread, number), framing)
            cut = choice.randrange(len(data))
            try:
                items = decoder.feed(data[:cut], choice.choice((None, 1)))
                items += decoder.feed(bytearray(data[cut:]))
                if thread == 0 and number == rounds * 3 // 4:
                    items += decoder.close()
            except ValueError as error:
                if str(error) not in (IN_USE, "the decoder is closed"):
                    raise
            else:
                flat = [each for item in items for each in (item if type(item) is list else [item])]
                # The beginning of one message and the end of another may be a notification.
                assert {type(each) for each in flat} <= {impl.Request, impl.Notification, impl.ParseError}

    run_threads(work)


def share_messages(impl: ModuleType, rounds: int) -> None:
    """Use the same messages, profiles and payloads everywhere, and fill and empty the caches and free lists."""
    texts = [text_of(0, number) for number in range(50)]
    messages = [impl.decode(text) for text in texts]
    payloads = [impl.decode(text, raw=True) for text in texts]
    # More than the codec remembers: it forgets them again and again.
    profiles = [JSONRPC.replace(empty_methods=bool(number % 2)) for number in range(100)]
    error = impl.Response(1, error=impl.Error(-32000, "no", {"a": [1]}))

    def work(thread: int) -> None:
        for number in range(rounds):
            Cycle()
            place = (number * 7 + thread) % 50
            message = messages[place]
            assert impl.decode(texts[place], profiles[(number + thread) % 100]) == message
            assert impl.encode(message, delimited=False) == texts[place]
            assert impl.encode(payloads[place], delimited=False) == texts[place]
            assert payloads[place].params.decode() == message.params
            assert pickle.loads(pickle.dumps(message)) == message
            assert repr(error) == repr(impl.decode(impl.encode(error)))
            kept = [impl.decode(b'{"jsonrpc":"2.0","id":%d,"method":"n%d-%d"}' % (i, thread, i)) for i in range(20)]
            assert [each.method for each in kept] == [f"n{thread}-{i}" for i in range(20)]

    run_threads(work)


def change_payloads(impl: ModuleType, rounds: int) -> None:
    """Write dicts and lists in two threads, while two others fill and empty them.

    The pure backend can do that with orjson: the `json` module lets other threads run, or needs the GIL.
    """
    if impl.__name__.endswith("_pure") and ORJSON_FAULT is not None:
        return
    inner: dict[str, Any] = {"a": 1}
    items: list[Any] = [inner, "text"]
    payload: dict[str, Any] = {"items": items, "inner": inner, "last": [items]}

    def work(thread: int) -> None:
        for number in range(rounds):
            Cycle()
            if thread % 2:
                text = impl.encode_result(number, payload)
                assert json.loads(text)["result"].keys() >= {"items"}, text
                assert text.count(b"\n") == 1
            else:
                for place in range(number % 12):
                    inner[f"name {place}"] = [place, {"b": "\u00e9"}]
                    items.append({"c": [place, 1.5]})
                inner.clear()
                del items[2:]
                payload["last"] = [[number]]

    run_threads(work)


def change_own_payloads(impl: ModuleType, rounds: int) -> None:
    """Write dicts and lists that the same thread has made, while two others reach into them from the outermost one.

    Without the GIL, the core locks such a payload as a whole, until it waits for a lock or calls Python code.
    """
    if impl.__name__.endswith("_pure") and ORJSON_FAULT is not None:
        return
    shared: list[Any] = [1]
    payloads: dict[int, dict[str, Any]] = {}

    def own() -> dict[str, Any]:
        return {
            "before": [[1.5, "text"], {"a": [{"b": None}]}],
            "inner": {"items": [[0], {"c": [1]}], "shared": shared, "tuple": ([2], {"d": 3}), "last": [4, [5]]},
            "after": {"e": {"f": [True]}},
        }

    def write(thread: int) -> None:
        for number in range(rounds):
            payloads[thread] = own()
            for _ in range(4):
                Cycle()
                text = impl.encode_result(number, payloads[thread])
                assert json.loads(text)["result"].keys() == {"before", "inner", "after"}, text

    def change(thread: int) -> None:
        for number in range(4 * rounds):
            Cycle()
            payload = payloads.get(thread - 1)
            if payload is None:
                continue
            inner = payload["inner"]
            shared[:] = [[number]] * (number % 9)
            for place in range(number % 12):
                inner[f"name {place}"] = [place, {"g": "\u00e9"}]
                inner["items"].append({"h": [place]})
                payload["before"][0].append([place])
            for place in range(number % 12):
                inner.pop(f"name {place}", None)
            del inner["items"][number % 3 :]
            del payload["before"][0][2:]
            payload["after"].clear()
            payload["after"]["e"] = {"f": [number]}
            inner["tuple"][0].append(number)

    run_threads(lambda thread: change(thread) if thread % 2 else write(thread))


def fuzz(seconds: float, seed: int) -> int:
    """Run the fuzz targets of the codec in all threads at once. Return how many inputs that were."""
    from ..fuzz import codec_targets, differential
    from ..fuzz.__main__ import CORPUS, Fuzzer

    counts = [0] * THREADS
    names = sorted(codec_targets.TARGETS)
    share = seconds / 2 / len(names)

    def work(thread: int) -> None:
        own_seed = seed * THREADS + thread
        done, found = differential.run(own_seed, float("inf"), seconds / 2)
        assert found is None, found
        counts[thread] += done
        for name in names:
            rng = random.Random(f"{own_seed} {name}")
            begin = time.monotonic()
            fuzzer = Fuzzer(
                name,
                codec_targets.TARGETS[name],
                rng,
                [CORPUS],
                max_seconds=60,  # the sanitizer is slow
                end=begin + share / 2,
            )
            fuzzer.fuzz(begin + share, float("inf"))
            counts[thread] += fuzzer.inputs

    run_threads(work, seconds)
    return sum(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    rounds = refused = inputs = 0
    while (begin := time.monotonic()) < ends:
        for name in ("_core", "_pure"):
            impl = importlib.import_module(f"jsonrpc_fast.codec.{name}")
            for framing in FRAMINGS:
                for max_items in (None, 1):
                    refused += share_a_decoder(impl, framing, max_items, 200)
                tear_messages(impl, framing, 200, options.seed + rounds)
            share_messages(impl, 200)
            change_payloads(impl, 200)
            change_own_payloads(impl, 200)
        inputs += fuzz(time.monotonic() - begin, options.seed + rounds)  # half of the time of a round
        rounds += 1
    print(f"{rounds} rounds on both backends with {THREADS} threads; {refused} calls refused, {inputs} fuzzed inputs")


if __name__ == "__main__":
    main()
