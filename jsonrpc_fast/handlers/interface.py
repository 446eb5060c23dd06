"""Classes that declare methods for both sides: `Handlers.add` serves an object of one, a proxy calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from ..support import check_type

Function = TypeVar("Function", bound=Callable[..., Any])


class Method(NamedTuple):
    """A method that a class declares: its name for the peer, the function, and the names of params for the peer, by the
    names of their parameters, where they differ."""

    name: str
    function: Callable[..., Any]
    params: Mapping[str, str]


_named: WeakKeyDictionary[Callable[..., Any], tuple[str, Mapping[str, str]]] = WeakKeyDictionary()


def method(name: str, *, params: Mapping[str, str] | None = None) -> Callable[[Function], Function]:
    """Declare a method whose name, or the names of whose params, a Python function cannot have.

        class Editor(Protocol):
            @method("textDocument/hover", params={"from_": "from"})
            async def hover(self, *, from_: str) -> str: ...

    Args:
        name: The name of the method for the peer.
        params: The names of params for the peer, by the names of their parameters.

    Returns:
        A decorator that returns the function itself.

    Raises:
        TypeError: The name is not a str.
    """
    check_type("name", name, str)

    def declare(function: Function) -> Function:
        _named[function] = name, dict(params or {})
        return function

    return declare


def methods_of(interface: object) -> dict[str, Method]:
    """Return the public methods that a class declares or inherits, by the names of their functions, in order.

    A `Protocol` must have only methods, since a proxy would lack its other members. A member that is None, or a class,
    is not part of the interface.

    Raises:
        TypeError: It is not a class, or declares no method; a method is static, a class method or an async generator,
            or has overloads without an implementation; or a Protocol has a property or an attribute.
    """
    if not isinstance(interface, type):
        raise TypeError(f"interface must be a class, not {type(interface).__name__}")
    is_protocol = getattr(interface, "_is_protocol", False)
    members: dict[str, Any] = {}
    # From `object` down, so that the members of a class replace those that it inherits.
    for base in reversed(interface.__mro__):
        members.update(dict.fromkeys(_annotated(base), ...) if is_protocol else {})
        members.update(vars(base))
    found: dict[str, Method] = {}
    for name, member in members.items():
        if name.startswith("_"):
            continue
        if isinstance(member, (staticmethod, classmethod)) or inspect.isasyncgenfunction(member):
            raise TypeError(f"{name} must be an ordinary method")
        if inspect.isfunction(member):
            declared, params = _named.get(member, (name, {}))
            # The last `typing.overload` of a function that has no implementation.
            if member.__name__ == "_overload_dummy":
                raise TypeError(f"{name} must have one signature after its overloads")
            found[name] = Method(declared, member, params)
        elif is_protocol and member is not None and not isinstance(member, type):
            raise TypeError(f"{name} must be an ordinary method")
    if not found:
        raise TypeError(f"{interface.__name__} must declare a method")
    return found


def _annotated(base: type) -> Iterable[str]:
    try:
        return inspect.get_annotations(base)
    except NameError:  # Python 3.14: an annotation uses a name that only type checkers see
        return ()
