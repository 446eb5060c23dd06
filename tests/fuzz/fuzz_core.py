"""The same comparison as `differential.py`, on texts that coverage guides (atheris, on libFuzzer).

    python -m tests.fuzz.fuzz_core -max_total_time=600 corpus/

The first byte of an input chooses the profile and whether payloads stay raw; the rest is the text, which also goes
through the decoders of both backends in chunks. For coverage of the core, build it with clang and
CFLAGS="-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp".
"""

from __future__ import annotations

import os
import random
import sys

import atheris


def one_input(data: bytes) -> None:
    """Raise where paths or backends differ."""
    from .differential import PROFILES, disagreement, stream_disagreement

    if not data:
        return
    profile = PROFILES[(data[0] >> 1) % len(PROFILES)]
    raw = bool(data[0] & 1)
    text = data[1:]
    found = disagreement(text, profile, raw) or stream_disagreement(random.Random(len(data)), [text], profile, raw)
    if found is not None:
        raise AssertionError(found)


if __name__ == "__main__":
    # A core with coverage looks for libFuzzer's functions among those that all libraries share, so libFuzzer has to
    # be loaded that way, by Setup, before the core is.
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    atheris.Setup(sys.argv, one_input, internal_libfuzzer=True)
    atheris.Fuzz()
