"""OpenRPC 1.3 documents that describe handlers, from their signatures, annotations and docstrings.

Rules:
  - A parameter has the schema of its annotation. A parameter without an annotation, and one whose type has no schema,
    accepts any value, as the function does. The context, `*args` and `**kwargs` are not parameters of the method.
  - Schemas that types share are in `components`. Two types with the same name become `Item` and `Item_2`.
  - A default value that cannot be written as JSON is left out, or else the schema that contains it. Error data that
    cannot be written is left out, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, get_args

from ..codec._backend import Raw, dumps
from ..support import check_type
from ..types import UNSET
from .handler import is_context
from .params.arguments import Arguments, hints_of, parameters_of
from .params.docstrings import read_docstring
from .params.types import type_of
from .schemas import DEFINITIONS, arguments_schema, result_schema, value_schema

if TYPE_CHECKING:
    from ..errors import RpcError
    from .options import HandlerOptions


class Described(Protocol):
    """The part of `Handlers` that is described."""

    def functions(self) -> Mapping[str, tuple[Callable[..., Any], HandlerOptions]]:
        """Return the functions by method, each with its options."""
        ...


def openrpc(handlers: Described, *, title: str, version: str) -> dict[str, Any]:
    """Return the OpenRPC document of handlers (https://spec.open-rpc.org).

    The schemas need the extra `typed`.

    Args:
        handlers: The `Handlers`; functions that are registered later are not in the document.
        title: The name of the service.
        version: The version of its API.

    Returns:
        The document: a dict that can be written as JSON.

    Raises:
        TypeError: `title` or `version` is not a str.
        ValueError: One of them has a lone surrogate.
    """
    for name, text in (("title", title), ("version", version)):
        check_type(name, text, str)
        text.encode()  # fails here, not when a client requests the document
    components: dict[str, Any] = {}
    methods = [
        _method(name, function, options, components) for name, (function, options) in handlers.functions().items()
    ]
    document = {"openrpc": "1.3.2", "info": {"title": title, "version": version}, "methods": methods}
    return {**document, "components": {"schemas": components}} if components else document


def _method(
    name: str, function: Callable[..., Any], options: HandlerOptions, components: dict[str, Any]
) -> dict[str, Any]:
    found = _parameters(function)
    if "params" in options:
        schema = _schema(lambda: value_schema(type_of(options["params"])), components)
        params = [
            {"name": member, "required": member in schema.get("required", ()), "schema": schema["properties"][member]}
            for member in schema.get("properties", ())
        ]
        structure = "by-name"
    elif not options.get("unpack", True):
        # The function reads the params itself: its signature says nothing about them.
        params, structure = [], "either"
    else:
        structure = _structure(found)
        # No client can pass a parameter of this kind. It has a default: otherwise the structure would be another.
        unreachable = {"by-name": Parameter.POSITIONAL_ONLY, "by-position": Parameter.KEYWORD_ONLY}.get(structure)
        params = [_parameter(each, components) for each in found.values() if each.kind is not unreachable]
    summary, described = read_docstring(_doc_of(function), found)
    for param in params:
        if param["name"] in described:
            param["description"] = described[param["name"]]
    method: dict[str, Any] = {"name": name, "paramStructure": structure, "params": params}
    if summary:
        line, _, rest = summary.partition("\n")
        method["summary"] = line
        if rest.strip():
            method["description"] = summary
    returns = _hints(function).get("return", Parameter.empty)
    if inspect.isasyncgenfunction(function):  # in a single response the items are a list
        items = get_args(returns)
        returns = list[items[0]] if items else Parameter.empty  # type: ignore[valid-type]
    result = {} if returns is Parameter.empty else _schema(lambda: result_schema(type_of(returns)), components)
    method["result"] = {"name": "result", "schema": result}
    errors = options.get("errors")
    return {**method, "errors": [_error(error) for error in errors]} if errors else method


def _error(error: RpcError) -> dict[str, Any]:
    """Return the error object of a declared error."""
    found = {"code": error.code, "message": error.message.encode("utf-8", "replace").decode()}
    return {**found, "data": error.data} if error.data is not UNSET and _is_writable(error.data) else found


def _doc_of(function: Callable[..., Any]) -> str | None:
    # `getdoc` of any other callable, such as a `partial`, returns the docstring of its class.
    doc = inspect.getdoc(function) if inspect.isroutine(function) else None
    return None if doc is None else doc.encode("utf-8", "replace").decode()


def _parameters(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a function that are params of its method."""
    try:
        parameters = parameters_of(function, _hints(function))
    except (TypeError, ValueError):
        return {}  # a built-in without a signature
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return {
        name: each for name, each in parameters.items() if each.kind not in several and not is_context(each.annotation)
    }


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; {} if one cannot be evaluated, such as a name for type checkers."""
    try:
        return hints_of(function)
    except TypeError:
        return {}


def _structure(parameters: Mapping[str, Parameter]) -> str:
    """Return how params may be passed (OpenRPC, "Method Object", paramStructure)."""
    required = {each.kind for each in parameters.values() if each.default is Parameter.empty}
    if Parameter.POSITIONAL_ONLY in required:
        return "by-position"
    return "by-name" if Parameter.KEYWORD_ONLY in required else "either"


def _parameter(parameter: Parameter, components: dict[str, Any]) -> dict[str, Any]:
    """Return the content descriptor of a parameter."""
    name = parameter.name

    # As if passed by name: the schema of a parameter does not depend on how it is passed.
    def schema() -> dict[str, Any]:
        made = arguments_schema(Arguments({name: parameter.replace(kind=Parameter.KEYWORD_ONLY)}))
        found: dict[str, Any] = made["properties"][name]
        return {**found, "$defs": made["$defs"]} if "$defs" in made else found

    is_required = parameter.default is Parameter.empty
    return {"name": name, "required": is_required, "schema": _schema(schema, components)}


def _schema(make: Callable[[], dict[str, Any]], components: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose definitions are moved to the document's components; {} if its type has none."""
    try:
        schema = make()
        if not _is_writable(schema):
            schema = {name: part for name, part in schema.items() if name != "default"}
            dumps(schema)
    except ImportError:  # an extra is missing: the caller has to install it
        raise
    except Exception:  # whatever msgspec or pydantic raises for a type
        return {}
    definitions = schema.get("$defs", {})
    schema = {name: part for name, part in schema.items() if name != "$defs"}
    # Adds numbers to the names until no definition has the name of another type.
    for number in count(1):
        names = {name: name if number == 1 else f"{name}_{number}" for name in definitions}
        moved = {names[name]: _renamed(definition, names) for name, definition in definitions.items()}
        if all(components.get(name, part) == part for name, part in moved.items()):
            break
    components |= moved
    found: dict[str, Any] = _renamed(schema, names)
    return found


def _is_writable(value: Any) -> bool:
    """Return whether a value is unchanged after it is written as JSON and read back."""
    try:
        return bool(Raw(dumps(value)).decode() == value)
    except (TypeError, ValueError):
        return False


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema whose references point to the components with these names."""
    if isinstance(schema, list):
        return [_renamed(inner, names) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: "#/components/schemas/" + names[inner.removeprefix(DEFINITIONS)]
        if name == "$ref" and isinstance(inner, str) and inner.removeprefix(DEFINITIONS) in names
        else _renamed(inner, names)
        for name, inner in schema.items()
    }
