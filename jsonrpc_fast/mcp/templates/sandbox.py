"""What runs in a rendering process: Jinja2's sandbox, in a process that can be stopped.

Rules:
  - It reads requests from standard input and writes answers to standard output, a JSON object a line, one after
    another; it ends when standard input does. `rendering` is the other side.
  - It knows no folder: the texts of the templates are given to it, and includes are looked up among them by name.
  - Jinja2's sandbox keeps a template from the interpreter's insides, but not from using up time and memory: one
    expression may be a single operation in C that nothing inside the interpreter can stop. So the process limits its
    memory, files and time by the operating system, where that can be done, and its parent ends it at the deadline.
  - An answer holds what was rendered, or what is wrong: the kind, a line, the class of an exception; never its text,
    for that may show an argument.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import jinja2
from jinja2 import DictLoader, Environment, StrictUndefined, UndefinedError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

_DESCRIPTION: Final = re.compile(r"\s*\{#-?(.*?)-?#\}", re.DOTALL)
_DESCRIPTION_CHARACTERS: Final = 1000
_GUARDS: Final = ("default", "d", "defined", "undefined")


class _Missing(StrictUndefined):
    """A variable that is not there. The error's text is the variable's name, or "" for a part of a value."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        return str(self._undefined_name) if self._undefined_obj is missing else ""


class _TooLarge(Exception):
    """The text is longer than it may be."""


def main() -> None:
    """Answers requests until standard input ends. The first line of all says that the process is ready."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    memory_bytes = int(sys.argv[1])
    _limit(memory_bytes)
    sandbox = Sandbox()
    _write(answers, {"ready": True})
    for line in requests:
        request = json.loads(line)
        _alarm(request.get("seconds", 0))
        _write(answers, sandbox.answer(request))
        _alarm(0)


def _write(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
    answers.flush()


def _limit(memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the deadline and the length of the text are what is left
        return
    limits = {resource.RLIMIT_AS: memory_bytes, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for limit, value in limits.items():
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some
            resource.setrlimit(limit, (value, value))


def _alarm(seconds: float) -> None:
    """Ends this process, if its parent no longer can, a second after the deadline. 0: no more."""
    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds) + 1 if seconds else 0)


class Sandbox:
    """The templates that were loaded last, and what can be done with them."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}
        self._environment = _environment({})

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request; `error` in it says what went wrong."""
        try:
            match request["do"]:
                case "load":
                    self._sources = request["sources"]
                    self._environment = _environment(self._sources)
                    return {}
                case "analyse":
                    return _Analysis(self._environment, self._sources, request["template"]).found()
                case _:
                    return {"text": self._render(request["template"], request["arguments"], request["characters"])}
        except UndefinedError as error:
            # The name is the template's own: what it looks up among the arguments.
            return {"error": "missing", "argument": error.message or ""}
        except _TooLarge:
            return {"error": "large"}
        except jinja2.TemplateSyntaxError as error:
            return {"error": "failed", "class": type(error).__name__, "line": error.lineno}
        except Exception as error:
            return {"error": "failed", "class": type(error).__name__, "line": _line(error)}

    def _render(self, template: str, arguments: dict[str, str], characters: int) -> str:
        parts = []
        length = 0
        for part in self._environment.get_template(template).generate(arguments):
            length += len(part)
            if length > characters:
                raise _TooLarge
            parts.append(part)
        text = "".join(parts)
        text.encode()  # a lone surrogate, from an escape in the template
        return text


def _line(error: BaseException) -> int | None:
    """The line of the template that an exception came out of."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_template__" in trace.tb_frame.f_globals or trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _environment(sources: dict[str, str]) -> Environment:
    environment = ImmutableSandboxedEnvironment(loader=DictLoader(sources), undefined=_Missing, auto_reload=False)
    del environment.globals["lipsum"]  # random text
    return environment


class _Analysis:
    """What a template asks for: the variables that it and what it includes look up among the arguments.

    An argument is required unless the template asks somewhere whether it is defined, or gives it a default. The
    strings that it is compared with are values that it may have. `is_open` tells of includes whose names only the
    running template knows: they may ask for more. `is_alone`: the template refers to no other.
    """

    def __init__(self, environment: Environment, sources: dict[str, str], template: str) -> None:
        self._environment = environment
        self._sources = sources
        self._template = template
        self._seen: set[str] = set()
        self._is_open = False
        self._is_alone = True
        self._names: dict[str, None] = {}  # in the order in which they are met
        self._optional: set[str] = set()
        self._values: dict[str, dict[str, None]] = {}

    def found(self) -> dict[str, Any]:
        self._visit(self._template, frozenset())
        self._environment.get_template(self._template)  # what cannot be compiled is no prompt
        arguments = [
            {"name": name, "required": name not in self._optional, "values": list(self._values.get(name, ()))}
            for name in self._names
        ]
        return {
            "arguments": arguments,
            "is_open": self._is_open,
            "is_alone": self._is_alone,
            "description": _description(self._sources[self._template]),
        }

    def _visit(self, template: str, assigned: frozenset[str]) -> None:
        """Adds what a template looks up, apart from what the templates that include it have assigned."""
        if template in self._seen or template not in self._sources:
            return
        self._seen.add(template)
        tree = self._environment.parse(self._sources[template], template)
        compared = [*_compared(tree)]  # before the next line folds constants in the tree
        undeclared = meta.find_undeclared_variables(tree) - assigned
        for node in tree.find_all(nodes.Name):
            if node.ctx == "load" and node.name in undeclared:
                self._names.setdefault(node.name)
        self._optional |= {name for name in _guarded(tree) if name in undeclared}
        for name, value in compared:
            self._values.setdefault(name, {}).setdefault(value)
        assigned |= {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        for reference in tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)):
            self._is_alone = False
            target: Any = reference
            if isinstance(reference, (nodes.Include, nodes.Extends)) or target.with_context:
                for inner in self._referenced(target.template):
                    self._visit(inner, assigned)

    def _referenced(self, template: nodes.Expr) -> Iterable[str]:
        if isinstance(template, nodes.Const):
            value = template.value
            return [name for name in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(name, str)]
        if isinstance(template, (nodes.List, nodes.Tuple)):
            return [name for item in template.items for name in self._referenced(item)]
        self._is_open = True
        return []


def _guarded(tree: nodes.Template) -> Iterator[str]:
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        if node.name in _GUARDS and isinstance(node.node, nodes.Name):
            yield node.node.name


def _compared(tree: nodes.Template) -> Iterator[tuple[str, str]]:
    """Each name with each string that it is compared with: `x == "a"`, `"a" == x`, `x in ("a", "b")`."""
    for node in tree.find_all(nodes.Compare):
        for operand in node.ops:
            pair = (node.expr, operand.expr)
            names = [side.name for side in pair if isinstance(side, nodes.Name)]
            sides: list[Any] = [*pair]
            if operand.op in ("in", "notin") and isinstance(operand.expr, (nodes.List, nodes.Tuple)):
                sides = operand.expr.items
            elif operand.op not in ("eq", "ne"):
                continue
            values = [side.value for side in sides if isinstance(side, nodes.Const) and isinstance(side.value, str)]
            yield from ((name, value) for name in names for value in values)


def _description(source: str) -> str:
    found = _DESCRIPTION.match(source)
    return " ".join(found[1].split())[:_DESCRIPTION_CHARACTERS] if found else ""
