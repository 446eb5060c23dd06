"""The core is not slower than the pure backend on any hostile input, in any framing, eager or raw.

    python -m tests.isolated.hostile_ratios              # print the slowest; exit status 1 if the core is slower
    python -m tests.isolated.hostile_ratios --inputs sse

Both backends read each input of `hostile_codec.py` in turn, in one process. The ratio is that of the minima of several
rounds, in processor time. An input is ignored if the core reads a byte of it in less than MIN_NANOSECONDS, because it
cannot stall anything.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Final, NamedTuple

from jsonrpc_fast.codec import _core, _pure

from .hostile_codec import INPUTS, Input, Read

MAX_RATIO: Final = 1.25
"""More than 1, because the clock is noisy on a busy machine."""
MIN_NANOSECONDS: Final = 2.0
"""The bar of the core for a byte of a faulty text."""
ROUNDS: Final = 5
ATTEMPTS: Final = 4


class Ratio(NamedTuple):
    """The cost of the core on one input, read in one way, compared with the pure backend."""

    ratio: float
    core: float
    pure: float
    layer: str
    name: str
    way: str

    @property
    def is_broken(self) -> bool:
        return self.core > MIN_NANOSECONDS and self.ratio > MAX_RATIO

    def __str__(self) -> str:
        return f"{self.ratio:5.2f}  {self.core:8.1f} {self.pure:8.1f}  {self.layer}: {self.name} ({self.way})"


def measure(source: Input, way: str, data: bytes) -> Ratio:
    """Measure one way of reading an input, again if the core is slower in the first measurement."""
    for _ in range(ATTEMPTS):
        best = {_core: float("inf"), _pure: float("inf")}
        for _ in range(ROUNDS):
            for backend in best:
                best[backend] = min(best[backend], _nanoseconds(source.ways[way], backend, data))
        found = Ratio(best[_core] / best[_pure], best[_core], best[_pure], source.layer, source.name, way)
        if not found.is_broken:
            break
    return found


def _nanoseconds(read: Read, backend: ModuleType, data: bytes) -> float:
    gc.collect()
    gc.disable()
    try:
        begin = time.process_time()
        read(backend, data)
        return (time.process_time() - begin) / len(data) * 1e9
    finally:
        gc.enable()


def measure_all(sources: Iterable[Input], factor: float = 4) -> list[Ratio]:
    """Measure inputs of `factor` times their small size in all ways, and return the ratios, the highest first."""
    found = []
    for source in sources:
        data = source.make(round(factor * source.size))
        found += [measure(source, way, data) for way in source.ways]
    return sorted(found, reverse=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", default="", help="only those whose layer or name contains this text")
    options = parser.parse_args(arguments)
    chosen = [source for source in INPUTS if options.inputs in f"{source.layer}: {source.name}"]
    ratios = measure_all(chosen)
    print("ratio   core ns  pure ns  of a byte")
    shown = [ratio for ratio in ratios if ratio.core > MIN_NANOSECONDS]
    print("\n".join(map(str, shown[:40])))
    broken = [ratio for ratio in ratios if ratio.is_broken]
    print(f"{len(ratios)} measured: {len(broken)} break the law")
    for ratio in broken:
        print(f"the core is slower: {ratio}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
