"""The command `stubs`: a module with the typed interface of a server, from its OpenRPC document.

Rules:
  - The module has a `Protocol` for `session.proxies.proxy`, and a TypedDict for each kind of object. shapes.py says
    which types schemas have.
  - Params are passed by name if the document says "by-name" or "either", and as an array otherwise: documents without
    this member often describe servers that take only arrays.
  - No part of the document can become code: names are replaced by ones that Python allows, and texts become literals
    (by `repr`, which escapes quotes, line breaks, and other unprintable characters) or docstrings without escapes.
"""

from __future__ import annotations

import argparse
import builtins
import keyword
import re
from collections.abc import Container, Iterable
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..codec import Raw
from .output import Status, escape, open_input, print_error, write_output
from .shapes import DocumentError, Shape, Shapes

ADDRESS: Final = re.compile(r"(?:https?|wss?|tcp|tls)://|unix:", re.IGNORECASE)
"""The beginning of the address of a server."""
MAX_DOCUMENT_BYTES: Final = 64 * 1024 * 1024
_MAX_NAME: Final = 80
_MAX_TEXT: Final = 300

_RESERVED: Final = frozenset(
    {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, "annotations", "Any", "Literal", "Protocol", "TypedDict"}
    | {"method", "self"}
)
"""Names that a module uses itself: no class, function or type of the document gets one of them."""
_HIDING: Final = frozenset({"bool", "int", "float", "str", "list", "dict", "Any", "Literal", "method"})
"""Names that functions and fields must not have: in their class, the name would hide a type."""


def write_stubs(document: Any, options: argparse.Namespace) -> int:
    """Write the module for a document to the output, and return the exit status. Raises DocumentError."""
    text = stubs_of(document, name=options.name, is_async=not options.sync).encode()
    if options.output is None:
        write_output(text)
    else:
        Path(options.output).write_bytes(text)
    return Status.SUCCESS


def is_file(source: str) -> bool:
    """Return whether the source of a document is a file, or "-" for standard input, not the address of a server."""
    return source == "-" or not ADDRESS.match(source)


def run(options: argparse.Namespace) -> int:
    """Run the command with a file. Return the exit status."""
    source = options.words[0]
    try:
        try:
            with open_input(source) as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise DocumentError(error.strerror) from None
        return write_stubs(document_of(data), options)  # an OSError here is about the output
    except DocumentError as error:
        print_error(f"{escape(source)}: {escape(str(error))}", "jsonrpc-fast stubs")
        return Status.WRONG


def document_of(data: bytes) -> Any:
    """Return the document in a file. Raises DocumentError."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"the document is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return Raw(data).decode()
    except ValueError:
        raise DocumentError("the document is not JSON") from None


def stubs_of(document: Any, *, name: str | None = None, is_async: bool = True) -> str:
    """Return the module with the interface that an OpenRPC document describes. Raises DocumentError.

    The name of the class is by default made from the title. For all callers but `HttpClient`, its methods are async.
    """
    if not isinstance(document, dict) or not isinstance(document.get("methods"), list):
        raise DocumentError("this is not an OpenRPC document: it has no list of methods")
    return _Module(document, name, is_async).text


class _Module:
    """The module for a document."""

    def __init__(self, document: dict[str, Any], name: str | None, is_async: bool) -> None:
        self._shapes = Shapes(document)
        self._taken: set[str] = set(_RESERVED)  # the names in use in the module
        self._names: dict[int, str] = {}  # of classes, by number
        self._is_async = is_async
        info = document.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        title = title if isinstance(title, str) else ""
        class_name = _unique(_camel_case(title if name is None else name, "Server"), self._taken)
        methods = self._methods(document["methods"])
        # The types come first: a function must not have the name of a class, which it would hide.
        signatures = {wire: self._signature(method) for wire, method in methods.items()}
        classes = self._classes()
        functions: set[str] = set()
        body = [line for wire in methods for line in self._function(wire, methods[wire], signatures[wire], functions)]
        code = "\n".join([*classes, *body])
        # Import only the names that are used, so that linters accept the module.
        used = [each for each in ("Any", "Literal", "Protocol", "TypedDict") if each == "Protocol" or each in code]
        lines = [
            f'"""The interface of {_doc(title) or "a server"}, from its OpenRPC document: for `proxy`."""',
            "",
            "from __future__ import annotations",
            "",
            f"from typing import {', '.join(used)}",
        ]
        if "    @method(" in code:
            lines += ["", "from jsonrpc_fast.handlers.interface import method"]
        lines += [*classes, "", "", f"class {class_name}(Protocol):", *body[1:]]
        if not any(" def " in line for line in body):
            lines.append("    pass")
        self.text: str = "\n".join(lines) + "\n"

    def _methods(self, given: list[Any]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for item in given:
            method = self._shapes.resolve(item)
            if not isinstance(method, dict) or not isinstance(method.get("name"), str):
                raise DocumentError("a method of the document has no name")
            # Of two methods with the same name, the first is kept: OpenRPC requires unique names.
            found.setdefault(method["name"], method)
        return found

    def _signature(self, method: dict[str, Any]) -> _Signature:
        structure = method.get("paramStructure")
        given = method.get("params")
        params = [_param(self._shapes.resolve(each)) for each in (given if isinstance(given, list) else [])]
        is_array = structure not in ("by-name", "either")
        required = [is_required for _, _, is_required in params]
        last_required = max((place for place, is_required in enumerate(required) if is_required), default=-1)
        first_optional = (*required, False).index(False)
        parts: list[str] = []
        renamed: dict[str, str] = {}
        taken = {"self"}
        # `renamed` says how the peer calls a parameter whose name Python does not allow.
        for place, (wire, schema, is_required) in enumerate(params):
            name = _unique(wire if _is_plain(wire) else _snake_case(wire, "param"), taken)
            if name != wire:
                renamed[name] = wire
            shape = self._shapes.of(schema, wire)
            type_ = self._type(shape)
            default = schema.get("default") if isinstance(schema, dict) else None
            if is_required or (is_array and place < last_required):
                parts.append(f"{name}: {type_}")
            # A default value is only written as a literal of a scalar type: a mutable one would be shared by all calls.
            elif _fits(default, shape):
                parts.append(f"{name}: {type_} = {default!r}")
            else:
                none = type_ if "Any" in shape.plain or "None" in shape.plain else f"{type_} | None"
                parts.append(f"{name}: {none} = None")
        if is_array and parts:
            parts.append("/")
        # Keyword-only where Python would refuse a required parameter after an optional one.
        elif parts and (structure == "by-name" or last_required > first_optional):
            parts.insert(0, "*")
        result = self._shapes.resolve(method.get("result"))
        returns = None
        if isinstance(result, dict):
            returns = self._type(self._shapes.of(result.get("schema"), f"{method['name']} result"))
        return _Signature(", ".join(["self", *parts]), returns, {} if is_array else renamed)

    def _function(self, wire: str, method: dict[str, Any], signature: _Signature, taken: set[str]) -> list[str]:
        if signature.returns is None:
            return ["", f"    # {wire!r} is a notification, which `notify` sends."]
        is_plain = _is_plain(wire) and wire not in self._taken.difference(_RESERVED) | _HIDING
        name = _unique(wire if is_plain else _snake_case(wire, "method"), taken, self._taken)
        lines = [""]
        if name != wire or signature.renamed:
            renamed = ", ".join(f"{name!r}: {param!r}" for name, param in signature.renamed.items())
            lines.append(f"    @method({wire!r}{f', params={{{renamed}}}' if renamed else ''})")
        lines.append(f"    {'async ' * self._is_async}def {name}({signature.params}) -> {signature.returns}:")
        summary = method.get("summary") or method.get("description")
        if isinstance(summary, str) and (text := _doc(summary.strip().partition("\n")[0])):
            return [*lines, f'        """{text}"""', "        ..."]
        return [*lines[:-1], f"{lines[-1]} ..."]

    def _type(self, shape: Shape) -> str:
        """Return a type as the module writes it."""
        if "Any" in shape.plain:
            return "Any"
        parts = []
        if shape.classes:
            parts.append(self._name(self._shapes.class_of(shape.classes)))
        if shape.items is not None:
            parts.append(f"list[{self._type(shape.items)}]")
        if shape.values is not None:
            parts.append(f"dict[str, {self._type(shape.values)}]")
        parts += [kind for kind in ("bool", "int", "float", "str") if kind in shape.plain]
        if shape.literals:
            parts.append(f"Literal[{', '.join(repr(value) for _, value in sorted(shape.literals))}]")
        if "None" in shape.plain:
            parts.append("None")
        return " | ".join(parts)

    def _name(self, number: int) -> str:
        if number not in self._names:
            self._names[number] = _unique(_camel_case(self._shapes.classes[number].hint, "Type"), self._taken)
        return self._names[number]

    def _classes(self) -> list[str]:
        """Return the lines of all classes that have a name, and of those that they need."""
        written: dict[int, list[tuple[str, str, bool]]] = {}
        # Writing the fields of a class may name further classes.
        while waiting := [number for number in self._names if number not in written]:
            for number in waiting:
                members = self._shapes.classes[number].members.items()
                written[number] = [(name, self._type(shape), required) for name, (shape, required) in members]
        hiding = self._taken.difference(_RESERVED) | _HIDING
        lines: list[str] = []
        for number, fields in written.items():
            name = self._names[number]
            required = [(field, type_) for field, type_, is_required in fields if is_required]
            optional = [(field, type_) for field, type_, is_required in fields if not is_required]
            base = _unique(f"_{name}Required", self._taken) if required and optional else ""
            if all(_is_plain(field) and field not in hiding for field, _, _ in fields):
                if base:
                    lines += ["", "", f"class {base}(TypedDict):", *_annotated(required)]
                bases = base or "TypedDict"
                total = ", total=False" if optional else ""
                lines += ["", "", f"class {name}({bases}{total}):", *_annotated(optional or required)]
            # A name that Python does not allow as a field needs the functional form of TypedDict.
            elif base:
                other = _unique(f"_{name}Optional", self._taken)
                lines += ["", "", _functional(base, required, True), "", "", _functional(other, optional, False)]
                lines += ["", "", f"class {name}({base}, {other}):", "    pass"]
            else:
                lines += ["", "", _functional(name, required or optional, not optional)]
        return lines


class _Signature(NamedTuple):
    params: str
    returns: str | None  # None: a notification
    renamed: dict[str, str]


def _param(descriptor: Any) -> tuple[str, Any, bool]:
    """Return the name of a param, its schema, and whether it is required, from a content descriptor."""
    found = descriptor if isinstance(descriptor, dict) else {}
    name = found.get("name")
    if not isinstance(name, str):
        raise DocumentError("a param of the document has no name")
    return name, found.get("schema"), found.get("required") is True


def _annotated(fields: Iterable[tuple[str, str]]) -> list[str]:
    return [f"    {name}: {type_}" for name, type_ in fields]


def _functional(name: str, fields: Iterable[tuple[str, str]], is_total: bool) -> str:
    members = "".join(f"        {field!r}: {type_!r},\n" for field, type_ in fields)
    total = "" if is_total else "    total=False,\n"
    return f"{name} = TypedDict(\n    {name!r},\n    {{\n{members}    }},\n{total})"


def _fits(default: Any, shape: Shape) -> bool:
    """Return whether a default value can be written in the module, and has the type of its parameter."""
    kind = {bool: "bool", int: "int", float: "float", str: "str"}.get(type(default))
    if kind is None or (kind == "str" and len(default) > _MAX_TEXT):
        return False
    return not shape.plain.isdisjoint({kind, "Any"}) or (kind, default) in shape.literals


def _is_plain(name: str) -> bool:
    """Return whether Python accepts a name unchanged. It would normalize names beyond ASCII."""
    return (
        name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("_")
        and len(name) <= _MAX_NAME
    )


def _unique(name: str, taken: set[str], others: Container[str] = ()) -> str:
    """Return the name, with a number if it is taken, and take it."""
    # Numbers begin with 2: the first name stays as the document spells it.
    numbered = (name if number == 1 else f"{name}{number}" for number in count(1))
    found = next(each for each in numbered if each not in taken and each not in others)
    taken.add(found)
    return found


def _snake_case(name: str, kind: str) -> str:
    words = "_".join(re.findall("[0-9A-Za-z]+", name))[:_MAX_NAME]
    if not words or words[0].isdigit():
        words = f"{kind}_{words}".rstrip("_")
    return f"{words}_" if keyword.iskeyword(words) else words


def _camel_case(name: str, kind: str) -> str:
    words = "".join(word[0].upper() + word[1:] for word in re.findall("[0-9A-Za-z]+", name))[:_MAX_NAME]
    return words if words and not words[0].isdigit() else f"{kind}{words}"


def _doc(text: str) -> str:
    """Return a string on one line that cannot end the docstring that contains it."""
    text = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
    shown = "".join(char if char.isprintable() else " " for char in text).strip()
    return shown.replace("\\", "\\\\").replace('"', '\\"')
