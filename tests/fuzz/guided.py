"""Run a fuzz target on inputs that coverage guides (atheris, on libFuzzer).

    python -m tests.fuzz.guided decode -max_total_time=600

Arguments after the target are those of libFuzzer. It begins with the stored corpus. The Python sources are measured
always; for coverage of the core, build it with clang and
CFLAGS="-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp".
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import atheris

from .mutate import mutated


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Mutate an input as libFuzzer does, or with the grammar."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        return atheris.Mutate(data, max_size)  # type: ignore[no-any-return]
    return mutated(rng, data)[:max_size]


def main() -> None:
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["jsonrpc_fast"]):
        from . import __main__ as command

        targets = command.load_targets()
    if name not in targets:
        sys.exit(f"the target must be one of {', '.join(targets)}")
    with tempfile.TemporaryDirectory() as directory:
        for number, data in enumerate(command.read_corpus(command.CORPUS, name)):
            Path(directory, str(number)).write_bytes(data)

        def run(data: bytes) -> None:
            targets[name].run(data)

        atheris.Setup([sys.argv[0], *arguments, directory], run, custom_mutator=mutate, internal_libfuzzer=True)
        atheris.Fuzz()


if __name__ == "__main__":
    # A core with coverage looks for libFuzzer's functions among those that all libraries share.
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    main()
