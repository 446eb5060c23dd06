"""The checksum of the sources of the compiled core, for `setup.py` and the selector. It imports no other module.

The core holds the checksum of its sources. The Python modules that it imports are not included, because they do not
affect the build.
"""

from __future__ import annotations

import os

PLACES = ("", "_core_parts/")
KINDS = (".pyx", ".pxd", ".pxi")


def checksum(folder: str) -> int | None:
    """Return the CRC-32 of the names and texts of the core's sources in a folder; None for a folder without sources."""
    names = [
        f"{place}{name}" for place in PLACES for name in os.listdir(os.path.join(folder, place)) if name.endswith(KINDS)
    ]
    import zlib  # imported here, because a wheel has no sources to compare

    found = 0
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as source:
            found = zlib.crc32(source.read(), zlib.crc32(name.encode(), found))
    return found if names else None
