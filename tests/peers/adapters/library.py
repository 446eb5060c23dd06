"""A library, for the command: its tests, its adapter and how to measure both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Works = dict[str, tuple[float, float]]
"""Operations, and the seconds that each takes without and with the adapter.

Names are "decode small", "decode 80 kB" and "decode: 1 MB blob".
"""


@dataclass
class Library:
    """A library with an adapter.

    Attributes:
        name: Its name on the package index.
        adapter: The name of the adapter's module.
        install: Python code that replaces the library's own classes by the adapter.
        tests: Arguments of pytest; none for a module of Python.
        package: The folder of the library in its sources, which is removed: the tests import the installed one.
        needs: What its tests need.
        failures: Why a test fails only with the adapter, and which side is right.
        measure: Measures operations, if given.
        label: Its name on the command line, if another release of the library has the same one.
    """

    name: str
    adapter: str
    install: str
    tests: list[str]
    package: str | None = None
    needs: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    measure: Callable[[], Works] | None = None
    label: str = ""
