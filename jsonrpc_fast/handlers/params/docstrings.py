"""Descriptions of parameters in docstrings, as Google, NumPy and Sphinx write them.

Rules:
  - A description may have several lines; they are joined.
  - The part about parameters is taken out of the text: a client finds it in the schema.
  - Parts that are not understood stay in the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection

Descriptions = dict[str, str]


def read_docstring(text: str | None, names: Collection[str]) -> tuple[str | None, Descriptions]:
    """Return a docstring without its part about parameters, and the descriptions of the parameters with these names."""
    if not text:
        return None, {}
    lines = text.splitlines()
    kept: list[str] = []
    found: Descriptions = {}
    index = 0
    while index < len(lines):
        read = _google(lines, index) or _numpy(lines, index) or _sphinx(lines, index)
        # A heading such as "Parameters:" may begin another text: a block without a name of the function is not taken.
        if read is None or not read[1].keys() & set(names):
            kept.append(lines[index])
            index += 1
        else:
            index, described = read
            found |= {name: shown for name, shown in described.items() if name in names and shown}
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() or None, found


def _google(lines: list[str], start: int) -> tuple[int, Descriptions] | None:
    if not re.fullmatch(r"(?:Args|Arguments|Parameters|Params):\s*", lines[start]):
        return None
    end = _end_of_block(lines, start + 1, _indent(lines[start]) + 1)
    return end, _items(lines[start + 1 : end], r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def _numpy(lines: list[str], start: int) -> tuple[int, Descriptions] | None:
    if not re.fullmatch(r"(?:Other )?Parameters\s*", lines[start]) or start + 1 == len(lines):
        return None
    if not re.fullmatch(r"-{3,}\s*", lines[start + 1]):
        return None
    # Up to the next heading, which is the line above a line of dashes.
    end = start + 2
    while end < len(lines) and not re.fullmatch(r"-{3,}\s*", "".join(lines[end + 1 : end + 2])):
        end += 1
    described: Descriptions = {}
    for names, text in _items(lines[start + 2 : end], r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?").items():
        described |= dict.fromkeys(re.split(r"\s*,\s*", names), text)
    return end, described


def _sphinx(lines: list[str], start: int) -> tuple[int, Descriptions] | None:
    if (typed := re.fullmatch(r":type\s+(\w+)\s*:.*", lines[start])) is not None:
        return start + 1, {typed[1]: ""}
    if (
        item := re.fullmatch(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)", lines[start])
    ) is None:
        return None
    end = _end_of_block(lines, start + 1, 1)
    return end, {item[1]: _joined([item[2], *lines[start + 1 : end]])}


def _items(lines: list[str], pattern: str) -> Descriptions:
    """The items of a block: each begins at the smallest indentation, and continues with lines of a larger one."""
    # The smallest indentation: a docstring may be indented by any number of spaces.
    indent = min((_indent(line) for line in lines if line.strip()), default=0)
    texts: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        item = re.fullmatch(pattern, line.strip()) if line.strip() and _indent(line) == indent else None
        if item is not None:
            name = item[1]
            texts[name] = [item[2]] if item.re.groups > 1 else []
        elif name:
            texts[name].append(line)
    return {name: _joined(parts) for name, parts in texts.items()}


def _end_of_block(lines: list[str], start: int, indent: int) -> int:
    """The index after the last line that is indented at least this far."""
    # Blank lines belong to the block if more of it follows.
    end = start
    for index in range(start, len(lines)):
        if lines[index].strip():
            if _indent(lines[index]) < indent:
                break
            end = index + 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
