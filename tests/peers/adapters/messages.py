"""Payloads of a language server, small and of 80 kB."""

from __future__ import annotations

from typing import Any, Final

SMALL: Final[dict[str, Any]] = {
    "textDocument": {"uri": "file:///home/user/project/module.py"},
    "position": {"line": 12, "character": 8},
}
ITEM: Final[dict[str, Any]] = {
    "label": "calculate",
    "kind": 3,
    "detail": "def calculate(self, value: int) -> int",
    "documentation": {"kind": "markdown", "value": "Return the result of the calculation for `value`."},
    "sortText": None,
}
LARGE: Final[dict[str, Any]] = {
    "isIncomplete": False,
    "items": [{**ITEM, "label": f"name{number}"} for number in range(390)],
}
