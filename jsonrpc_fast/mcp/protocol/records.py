"""The base class of the typed records: reading, writing, and the members that each revision defines.

Rules:
  - Only the members that the revision defines are checked. All others are kept in `extra` and written back in their
    order, since the protocol's objects are open. An error text never shows a value.
  - An absent member is UNSET. null is treated as absent, because some clients send it; `{}` is present.
  - An object or array with more than MAX_MEMBERS entries is refused before it is read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from .versions import VERSIONS

MAX_MEMBERS: Final = 1000
"""Maximum number of members in one object and of entries in one array."""


class Record(msgspec.Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True, rename="camel"):
    """One object of the protocol. The fields of a subclass are its members, in snake case.

    Attributes:
        extra: The members that the revision does not define, unchanged.
        order: The names of the members in the order they were read.
    """

    since: ClassVar[Mapping[str, str]] = {}
    """The first revision that defines a member, unless it is the oldest revision."""
    until: ClassVar[Mapping[str, str]] = {}
    """The last revision that defines a member, unless it is the latest revision."""

    extra: dict[str, Any] = {}
    order: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, obj: object, version: str | None = None, *, path: str = "") -> Self:
        """Read a record from a decoded JSON object.

        Args:
            version: The revision whose members are checked; None: the members of all revisions.

        Raises ValueError: `obj` is not an object or is too large, or a member is missing or of the wrong type. The text
        names the member.
        """
        if not isinstance(obj, dict):
            raise ValueError(f"{path or 'the value'} must be an object")
        if len(obj) > MAX_MEMBERS:
            raise ValueError(f"{path or 'the value'} has more than {MAX_MEMBERS} members")
        members, required = _members_to_read(cls, version)
        # A record is written as it was read, so that a relay changes no message.
        values: dict[str, Any] = {"order": tuple(obj)}
        extra: dict[str, Any] = {}
        for name, value in obj.items():
            member = members.get(name)
            if member is None:
                extra[name] = value
            # Most members are plain texts: this saves the call into msgspec.
            elif type(value) is member.scalar:
                values[member.attribute] = value
            elif value is not None:
                values[member.attribute] = _read(member, value, version, f"{path}/{name}")
        # Checked after the members: a wrong type is reported before a missing member.
        for name in required:
            if obj.get(name) is None:
                raise ValueError(f"{path}/{name} is missing")
        if extra:
            values["extra"] = extra
        return cls(**values)

    def to_dict(self, version: str | None = None) -> dict[str, Any]:
        """Return the record as a JSON object.

        Args:
            version: Leave out the members that this revision does not define; None: keep all members.
        """
        written: dict[str, Any] = {}
        for name, member in members_of(type(self), version).items():
            value = getattr(self, member.attribute)
            if value is not UNSET:
                written[name] = _write(value, version)
        # Unknown members are of a later revision or of an extension, so no revision removes them.
        written.update(self.extra)
        in_order = {name: written.pop(name) for name in self.order if name in written}
        return {**in_order, **written}

    def member(self, name: str) -> Any:
        """Return a member by its name in the protocol, even one in `extra`; UNSET if it is absent."""
        member = members_of(type(self), None).get(name)
        value = UNSET if member is None else getattr(self, member.attribute)
        return self.extra.get(name, UNSET) if value is UNSET else value

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__: ClassVar[None]  # type: ignore[assignment]  # the members are mutable


class EmptyObject(Record, frozen=True, kw_only=True, eq=False):
    """An object for which the protocol defines no members: only its presence matters."""


class RecordMember(NamedTuple):
    """One member of a record.

    Attributes:
        type: The type of the value: a Record, a list of a Record, or a plain type.
        scalar: The type, if it is one whose values are used unchanged.
    """

    attribute: str
    type: Any
    is_required: bool
    scalar: type | None


@functools.cache
def members_of(cls: type[Record], version: str | None) -> dict[str, RecordMember]:
    """Return the members of a record by their names in the protocol.

    Args:
        version: Only the members that this revision defines; None: those of all revisions.

    Raises ValueError: the version is unknown.
    """
    position = None if version is None else VERSIONS.index(version)
    members = {}
    for field in msgspec.structs.fields(cls):
        name = field.encode_name
        if field.name in ("extra", "order"):
            continue
        first = VERSIONS.index(cls.since.get(name, VERSIONS[0]))
        last = VERSIONS.index(cls.until.get(name, VERSIONS[-1]))
        if position is None or first <= position <= last:
            kind = _without_unset(field.type)
            members[name] = RecordMember(
                field.name, kind, field.required, kind if kind in (bool, str, int, float) else None
            )
    return members


@functools.cache
def _members_to_read(cls: type[Record], version: str | None) -> tuple[dict[str, RecordMember], tuple[str, ...]]:
    """Return the members of a record, and the names of those that must be present."""
    members = members_of(cls, version)
    return members, tuple(name for name, member in members.items() if member.is_required)


def _without_unset(type: Any) -> Any:
    kinds = [kind for kind in get_args(type) if kind is not UnsetType]
    return kinds[0] if len(kinds) == 1 and UnsetType in get_args(type) else type


_EXPECTED: dict[Any, str] = {
    bool: "a boolean",
    str: "a string",
    int: "an integer",
    float: "a number",
    list[str]: "an array of strings",
    dict[str, Any]: "an object",
    dict[str, str]: "an object of strings",
    dict[str, dict[str, Any]]: "an object of objects",
}


def _read(member: RecordMember, value: Any, version: str | None, path: str) -> Any:
    kind = member.type
    # Checked before msgspec reads it, so that a peer cannot make this side build an object that it then refuses.
    if isinstance(value, (dict, list)) and len(value) > MAX_MEMBERS:
        raise ValueError(f"{path} has more than {MAX_MEMBERS} entries")
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_dict(value, version, path=path)
    if get_origin(kind) is list and issubclass(get_args(kind)[0], Record):
        if not isinstance(value, list):
            raise ValueError(f"{path} must be an array")
        item_type = get_args(kind)[0]
        return [item_type.from_dict(item, version, path=f"{path}/{index}") for index, item in enumerate(value)]
    if kind is Any:
        return value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass  # not chained to the exception below: the text of this error may show the value
    if get_origin(kind) is Literal:
        raise ValueError(f"{path} must be one of {', '.join(get_args(kind))}")
    raise ValueError(f"{path} must be {_EXPECTED[kind]}")


def _write(value: Any, version: str | None) -> Any:
    if isinstance(value, Record):
        return value.to_dict(version)
    if isinstance(value, list):
        return [_write(item, version) for item in value]
    return value
