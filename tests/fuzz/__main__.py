"""Run the fuzz targets on random inputs, each for a share of the time.

    python -m tests.fuzz --seconds 60                                # all targets, from the stored corpus
    python -m tests.fuzz --seconds 3600 --processes 2 --directory D  # the corpus and the counts grow in D
    python -m tests.fuzz engine mcp-server --seconds 600             # two targets
    python -m tests.fuzz --minimize --directory D                    # store a part of D's inputs with the targets

An input is made by the target's grammar, or is a mutation of the corpus, which holds the shortest known input of each
kind of outcome. A finding is an oracle that does not hold, an exception that is not documented, an input that takes
more than a second, or memory that grows. It is printed with the input, and the exit status is 1. JSONRPC_FAST_PURE=1
runs the targets of endpoints on the pure backend.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import json
import math
import os
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Hashable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from .differential import run as run_differential
from .mutate import mutated
from .target import CANARY, MAX_INPUT_BYTES, Finding, Target

CORPUS: Final = Path(__file__).parent / "corpus"
DIFFERENTIAL: Final = "differential"
TURN_SECONDS: Final = 5.0
"""A target runs for this long before the next one does."""
MAX_SECONDS: Final = 1.0
"""Maximum processor time of one input."""
MAX_GROWTH_BYTES: Final = 200 * 1024 * 1024
MAX_STORED: Final = 40
"""How many inputs of one target are stored next to the targets."""
MAX_STORED_BYTES: Final = 500
MAX_KINDS: Final = 4000
"""Maximum number of inputs in the corpus of one target."""


def load_targets() -> dict[str, Target]:
    """Return the targets by name."""
    from .codec_targets import TARGETS as codec_targets
    from .engine_targets import TARGETS as engine_targets
    from .http_targets import TARGETS as http_targets
    from .mcp_targets import TARGETS as mcp_targets
    from .session_targets import TARGETS as session_targets

    return {**codec_targets, **engine_targets, **session_targets, **http_targets, **mcp_targets}


class Fuzzer:
    """One target with its corpus.

    Args:
        name: The name of the target.
        target: The target.
        rng: The source of the inputs.
        directories: Where the corpus is read from.
        max_seconds: Maximum processor time of one input.
        end: No stored input begins after this time of `time.monotonic`.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        rng: random.Random,
        directories: list[Path],
        max_seconds: float = MAX_SECONDS,
        end: float = math.inf,
    ) -> None:
        self.name = name
        self.inputs = 0
        self.has_grown = False
        self.corpus: dict[Hashable, bytes] = {}
        self._target = target
        self._rng = rng
        self._max_seconds = max_seconds
        self._order: list[Hashable] = []
        for directory in directories:
            for data in read_corpus(directory, name):
                if time.monotonic() >= end:
                    return
                self.run(data)

    def fuzz(self, end: float, inputs: float) -> None:
        """Run new inputs until a time, or until that many have run in all. Raises what a finding raises."""
        while self.inputs < inputs and time.monotonic() < end:
            for _ in range(16):
                self.run(self._next())

    def run(self, data: bytes) -> None:
        """Run one input."""
        begin = time.perf_counter()
        try:
            outcome = self._target.run(data)
        except Exception as error:
            raise Finding(f"target {self.name}, input {data!r}") from error
        self.inputs += 1
        if time.perf_counter() - begin > self._max_seconds:
            self._check_time(data)
        known = self.corpus.get(outcome)
        if known is None and len(self.corpus) < MAX_KINDS:
            self._order.append(outcome)
        if (known is None and len(self.corpus) < MAX_KINDS) or (known is not None and len(data) < len(known)):
            self.corpus[outcome] = data
            self.has_grown = True

    def _check_time(self, data: bytes) -> None:
        """Run a slow input twice more: the machine may be busy."""
        times = []
        for _ in range(2):
            begin = time.thread_time()
            self._target.run(data)
            times.append(time.thread_time() - begin)
        if min(times) > self._max_seconds:
            raise Finding(f"target {self.name}: {min(times):.2f} s of processor time, input {data!r}")

    def _next(self) -> bytes:
        rng = self._rng
        if not self._order or rng.random() < 0.4:
            return self._target.make(rng)
        data = self.corpus[rng.choice(self._order)]
        choice = rng.random()
        if choice < 0.2:
            other = self.corpus[rng.choice(self._order)]
            data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
        elif choice < 0.3 and data:
            data = bytes([rng.randrange(256)]) + data[1:]
        elif choice < 0.35:
            data = data.replace(rng.choice((b'"m"', b'"a"', b'"name"', b'"tools/call"')), f'"{CANARY}"'.encode())
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            data = mutated(rng, data)
        return data[:MAX_INPUT_BYTES]


def read_corpus(directory: Path, name: str) -> Iterator[bytes]:
    """Yield the stored inputs of a target: one literal of bytes per line."""
    path = directory / f"{name}.txt"
    if path.exists():
        for line in path.read_text("ascii").splitlines():
            yield ast.literal_eval(line)


def write_corpus(directory: Path, fuzzer: Fuzzer, maximum: int, max_bytes: int = MAX_INPUT_BYTES) -> None:
    """Store the corpus of a target: that many inputs, of all lengths up to a maximum."""
    directory.mkdir(parents=True, exist_ok=True)
    inputs = [data for data in set(fuzzer.corpus.values()) if len(data) <= max_bytes]
    inputs.sort(key=lambda data: (len(data), data))
    inputs = inputs[:: -(-len(inputs) // maximum) or 1]
    path = directory / f"{fuzzer.name}.txt"
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text("".join(f"{data!r}\n" for data in inputs), "ascii")
    scratch.replace(path)


def run_targets(
    names: list[str], seed: int, seconds: float, inputs: float, directory: Path | None
) -> tuple[Counter[str], str | None]:
    """Run targets in turn. Return the number of inputs by target, and the first finding."""
    targets = load_targets()
    directories = [CORPUS] if directory is None else [CORPUS, directory]
    counts: Counter[str] = Counter()
    earlier = Counter[str]() if directory is None else read_counts(directory)
    fuzzers: dict[str, Fuzzer] = {}
    end = time.monotonic() + seconds
    turn = min(TURN_SECONDS, seconds / (2 * len(names)))
    base = 0
    try:
        rounds = 0
        while time.monotonic() < end and any(counts[name] < inputs for name in names):
            for name in names:
                # The differential run has the longest history, and as much time as the targets together.
                until = min(end, time.monotonic() + turn * (len(names) - 1 or 1 if name == DIFFERENTIAL else 1))
                if name == DIFFERENTIAL:
                    seconds_left, inputs_left = until - time.monotonic(), inputs - counts[name]
                    done, difference = run_differential(seed + rounds, inputs_left, seconds_left)
                    counts[name] += done
                    if difference is not None:
                        raise Finding(difference)
                    continue
                if name not in fuzzers:
                    # The inputs of a target depend only on the seed, not on the time that other targets took.
                    rng = random.Random(f"{seed} {name}")
                    fuzzers[name] = Fuzzer(name, targets[name], rng, directories)
                fuzzer = fuzzers[name]
                try:
                    fuzzer.fuzz(until, inputs)
                finally:
                    counts[name] = fuzzer.inputs
                if directory is not None and fuzzer.has_grown:
                    write_corpus(directory, fuzzer, MAX_KINDS)
                    fuzzer.has_grown = False
            if directory is not None:
                write_counts(directory, earlier + counts)
            rounds += 1
            used = _used_bytes()
            if rounds == 2:
                base = used
            if base and used > base + MAX_GROWTH_BYTES:
                raise Finding(f"the memory has grown from {base} to {used} bytes")
    except Finding as finding:
        return counts, "".join(traceback.format_exception(finding))
    except KeyboardInterrupt:
        pass
    return counts, None


def _used_bytes() -> int:
    """Return the memory of this process; its maximum where the system does not report it."""
    # The address sanitizer keeps freed memory for a while, and returns little of it to the system.
    allocated = getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None)
    if allocated is not None:
        allocated.restype = ctypes.c_size_t
        return int(allocated())
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read_counts(directory: Path) -> Counter[str]:
    """Return how many inputs each target has run with a directory, in all its runs."""
    path = directory / "counts.json"
    return Counter(json.loads(path.read_text()) if path.exists() else {})


def write_counts(directory: Path, counts: Counter[str]) -> None:
    """Store the counts of a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "counts.json").write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")


def main(arguments: list[str] | None = None) -> int:
    names = [DIFFERENTIAL, *load_targets()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of: {', '.join(names)} (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together (default: %(default)s)")
    parser.add_argument("--inputs", type=float, default=float("inf"), help="maximum number of inputs for each target")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="each runs all targets, with a seed of its own")
    parser.add_argument("--directory", type=Path, help="where the corpus and the counts grow")
    parser.add_argument("--minimize", action="store_true", help="store a part of the corpus beside this file")
    options = parser.parse_args(arguments)
    for name in options.targets:
        if name not in names:
            parser.error(f"there is no target {name}")
    chosen = options.targets or names
    if options.minimize:
        for name in chosen:
            if name != DIFFERENTIAL:
                directories = [CORPUS, *([options.directory] if options.directory else [])]
                fuzzer = Fuzzer(name, load_targets()[name], random.Random(0), directories)
                write_corpus(CORPUS, fuzzer, MAX_STORED, MAX_STORED_BYTES)
        return 0
    found: list[tuple[Counter[str], str | None]]
    if options.processes == 1:
        found = [run_targets(chosen, options.seed, options.seconds, options.inputs, options.directory)]
    else:
        count = options.processes
        folders = [options.directory and options.directory / str(number) for number in range(count)]
        with ProcessPoolExecutor(count) as pool:
            found = list(
                pool.map(
                    run_targets,
                    [chosen] * count,
                    range(options.seed, options.seed + count),
                    [options.seconds] * count,
                    [options.inputs] * count,
                    folders,
                )
            )
    counts = sum((done for done, _ in found), Counter())
    for name in chosen:
        print(f"{counts[name]:>12,} {name}")
    print(f"{sum(counts.values()):>12,} inputs in all, seed {options.seed}")
    findings = [finding for _, finding in found if finding is not None]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
