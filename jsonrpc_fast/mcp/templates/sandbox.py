"""The program of a rendering process: Jinja2's sandbox, in a process that its parent can kill.

Rules:
  - Jinja2's sandbox protects the interpreter's internals, not time and memory: one expression may be a single operation
    in C, which nothing inside the interpreter can stop. So the process limits its own memory, files and time through
    the operating system where possible, and its parent kills it at the deadline.
  - A response holds the rendered text, or a kind of error, a line and the class of an exception, whose text may contain
    an argument.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jinja2
from jinja2 import DictLoader, Environment, StrictUndefined, UndefinedError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing


class _Missing(StrictUndefined):
    """An undefined variable. The error's text is the name of the variable, or "" for an attribute or an item."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        return str(self._undefined_name) if self._undefined_obj is missing else ""


class _TooLarge(Exception):
    """The rendered text exceeds its limit."""


def main() -> None:
    """Serve requests until stdin ends. The first line of the output says that the process is ready."""
    _limit_resources(memory_bytes=int(sys.argv[1]))
    sandbox = Sandbox()
    _write({"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _set_alarm(request.get("seconds", 0))
        _write(sandbox.serve(request))
        _set_alarm(0)


def _write(response: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(response, ensure_ascii=False).encode() + b"\n")
    sys.stdout.buffer.flush()


def _limit_resources(memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: only the deadline and the length of the text are limited
        return
    limits = {resource.RLIMIT_AS: memory_bytes, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for limit, value in limits.items():
        with contextlib.suppress(OSError, ValueError):  # macOS rejects some
            resource.setrlimit(limit, (value, value))


def _set_alarm(seconds: float) -> None:
    """End this process a second after the deadline, in case its parent no longer can. 0 removes the alarm."""
    if hasattr(signal, "alarm"):
        signal.alarm(math.ceil(seconds) + 1 if seconds else 0)


class Sandbox:
    """The templates that were loaded last, to render and analyse."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}
        self._environment = _environment({})

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request; its `error` tells what went wrong."""
        try:
            match request["do"]:
                case "load":
                    self._sources = request["sources"]
                    self._environment = _environment(self._sources)
                    return {}
                case "analyse":
                    return _Analysis(self._environment, self._sources, request["template"]).result()
                case _:
                    return {"text": self._render(request["template"], request["arguments"], request["characters"])}
        except UndefinedError as error:
            # The name comes from the template, not from an argument.
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
        # Generated piece by piece, so that an endless text stops at the limit.
        for part in self._environment.get_template(template).generate(arguments):
            length += len(part)
            if length > characters:
                raise _TooLarge
            parts.append(part)
        text = "".join(parts)
        text.encode()  # raises for a lone surrogate, which an escape in the template can produce
        return text


def _line(error: BaseException) -> int | None:
    """Return the line of the template that raised an exception."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if "__jinja_template__" in trace.tb_frame.f_globals or trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _environment(sources: dict[str, str]) -> Environment:
    # The line break is moved into the comment, so that line numbers in errors stay correct.
    loader = DictLoader({name: _without_line_break(source) for name, source in sources.items()})
    environment = ImmutableSandboxedEnvironment(loader=loader, undefined=_Missing, auto_reload=False)
    del environment.globals["lipsum"]  # random text
    return environment


def _without_line_break(source: str) -> str:
    # The line break after this comment is not a part of the prompt; `-#}` and `+#}` override this.
    found = re.match(r"(\s*\{#(?:(?!#\}).)*)(?<![-+])#\}([ \t]*\r?\n)", source, re.DOTALL)
    return source if found is None else f"{found[1]}{found[2]}#}}{source[found.end() :]}"


class _Analysis:
    """The arguments of a template: the undeclared variables in it and in the templates that it includes.

    An argument is required unless the template somewhere tests whether it is defined or gives it a default. The strings
    that it is compared with are its known values. With `is_dynamic` the names of some includes are known only when the
    template is rendered, and these may have more arguments. With `has_no_includes` it refers to no other template.
    """

    def __init__(self, environment: Environment, sources: dict[str, str], template: str) -> None:
        self._environment = environment
        self._sources = sources
        self._template = template
        self._seen: set[str] = set()
        self._is_dynamic = False
        self._has_no_includes = True
        self._names: dict[str, None] = {}  # an ordered set
        self._optional: set[str] = set()
        self._values: dict[str, dict[str, None]] = {}

    def result(self) -> dict[str, Any]:
        self._visit(self._template, frozenset())
        self._environment.get_template(self._template)  # raises if it does not compile
        arguments = [
            {"name": name, "required": name not in self._optional, "values": list(self._values.get(name, ()))}
            for name in self._names
        ]
        return {
            "arguments": arguments,
            "is_dynamic": self._is_dynamic,
            "has_no_includes": self._has_no_includes,
            "description": _description(self._sources[self._template]),
        }

    def _visit(self, template: str, assigned: frozenset[str]) -> None:
        """Add the arguments of a template, without the variables that the templates including it have assigned."""
        # Templates may include each other in a cycle.
        if template in self._seen or template not in self._sources:
            return
        self._seen.add(template)
        # The template is only parsed; no part of it runs.
        tree = self._environment.parse(self._sources[template], template)
        compared = [*_compared(tree)]  # first: the next line folds constants in the tree
        undeclared = meta.find_undeclared_variables(tree) - assigned
        for node in tree.find_all(nodes.Name):
            if node.ctx == "load" and node.name in undeclared:
                self._names.setdefault(node.name)
        # A template that tests whether a variable is defined can do without it.
        self._optional |= {name for name in _guarded(tree) if name in undeclared}
        for name, value in compared:
            self._values.setdefault(name, {}).setdefault(value)
        assigned |= {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        for reference in tree.find_all((nodes.Include, nodes.Extends, nodes.Import, nodes.FromImport)):
            self._has_no_includes = False
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
        self._is_dynamic = True
        return []


def _guarded(tree: nodes.Template) -> Iterator[str]:
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        if node.name in ("default", "d", "defined", "undefined") and isinstance(node.node, nodes.Name):
            yield node.node.name


def _compared(tree: nodes.Template) -> Iterator[tuple[str, str]]:
    """Yield each name with each string that it is compared with: `x == "a"`, `"a" == x`, `x in ("a", "b")`."""
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
    found = re.match(r"\s*\{#-?(.*?)-?#\}", source, re.DOTALL)
    return " ".join(found[1].split())[:1000] if found else ""
