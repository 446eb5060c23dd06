"""Which sources the compiled core is built from, for `setup.py` and the selector: it imports nothing of the package.

The core holds the checksum of its own sources. The Python modules that it imports are not among them: they are read
when the program runs, and the same core would be built whatever they say.
"""

from __future__ import annotations

import os
import zlib

PLACES = ("", "_core_parts/")
KINDS = (".pyx", ".pxd", ".pxi")


def checksum(folder: str) -> int | None:
    """Returns the CRC-32 of the names and texts of the core's sources in a folder; None if they are not there."""
    names = [
        f"{place}{name}" for place in PLACES for name in os.listdir(os.path.join(folder, place)) if name.endswith(KINDS)
    ]
    found = 0
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as source:
            found = zlib.crc32(source.read(), zlib.crc32(name.encode(), found))
    return found if names else None
