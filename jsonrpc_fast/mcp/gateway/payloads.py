"""Members of raw payloads: read without decoding the rest, and replaced in the text."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from ...codec import Raw, dumps
from ...errors import RpcError
from ..protocol.meta import REQUEST_KEYS

T = TypeVar("T")

GATEWAY_ERROR: Final = -32000
"""The code of the errors of the gateway itself."""

TOKEN: Final = ("_meta", "progressToken")
"""The path of the progress token in the params of a request."""


def as_raw(payload: Any) -> Raw:
    """Return a payload as `Raw`; an absent one as an empty object."""
    return payload if type(payload) is Raw else Raw(dumps({} if payload is None else payload))


def member(payload: Raw, path: Sequence[str]) -> Any:
    """Return a member decoded; None if it is absent."""
    found = payload.get(path)
    return None if found is None else found.decode()


def text_member(payload: Raw, *path: str) -> str:
    """Return a member that must be a string. Raises RpcError: it is absent or not a string (-32602)."""
    value = member(payload, path)
    if not isinstance(value, str):
        raise RpcError.invalid_params(f"{'/'.join(path)} must be a string")
    return value


def replaced(payload: Raw, path: Sequence[str], value: Any) -> Raw:
    """Return an object with another value for a member that it has. All other bytes stay the same."""
    name, rest = path[0], path[1:]
    # `items` drops all but the last of several members with one name, as `decode` would.
    members: dict[str, Any] = dict(payload.items())
    members[name] = replaced(members[name], rest, value) if rest else value
    return object_of(members)


def object_of(members: Mapping[str, Any]) -> Raw:
    """Return an object, some of whose members are `Raw`."""
    texts = [dumps(name) + b":" + (bytes(part) if type(part) is Raw else dumps(part)) for name, part in members.items()]
    return Raw(b"{" + b",".join(texts) + b"}")


def with_members(payload: Raw, members: Mapping[str, Any], without: Container[str] = ()) -> Raw:
    """Return an object with these members, which replace its members of the same names, and without some others."""
    kept = {name: part for name, part in payload.items() if name not in members and name not in without}
    return object_of({**members, **kept})


def with_meta(params: Raw, meta: Mapping[str, Any], without: Iterable[str] = ()) -> Raw:
    """Return the params of a request with the `_meta` for a server of another client or of another revision."""
    found = params.get(("_meta",))
    own = {} if found is None else {name: part for name, part in found.items() if name not in REQUEST_KEYS}
    members = {**own, **meta}
    return with_members(params, {"_meta": object_of(members)} if members else {}, {"_meta", *without})


class Tokens(Generic[T]):
    """Progress tokens of one side, replaced by numbers of the gateway: two peers of a side may use the same token."""

    def __init__(self) -> None:
        self._tokens: dict[int, tuple[Raw, T]] = {}
        self._count = itertools.count(1)

    @contextmanager
    def replaced(self, params: Any, owner: T) -> Iterator[Any]:
        """Yield the params of a request with a number in place of the token; `restored` knows the number until the end.

        Args:
            params: The params; without a token they do not change.
        """
        token = params.get(TOKEN) if type(params) is Raw else None
        if token is None:
            yield params
            return
        # Never reused, so that late progress does not reach another request.
        number = next(self._count)
        self._tokens[number] = token, owner
        try:
            yield replaced(params, TOKEN, number)
        finally:
            del self._tokens[number]

    def restored(self, params: Raw) -> tuple[Raw, T] | None:
        """Return the params of a progress notification with the token, and the owner; None if the number is unknown."""
        number = member(params, ("progressToken",))
        # A bool is an int in Python, and a float may equal one: only an int can be a number of the gateway.
        found = self._tokens.get(number) if type(number) is int else None
        return None if found is None else (replaced(params, ("progressToken",), found[0]), found[1])
