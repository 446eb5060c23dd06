"""What the typed records of the protocol share: reading, writing, and the members that a revision has.

Rules:
  - A record is read by the members that the revision defines. Any other member is kept in `extra` and written
    again: objects of the protocol are open, and what one side does not know may matter to the other.
  - The order of the members is kept, so that what is read is written unchanged.
  - A member that is absent is UNSET; `{}` is a record without members, and present. null counts as absent: some clients
    send it for what they do not have.
  - An object or an array of more than MAX_MEMBERS entries is refused before it is read.
  - What is wrong is told by the path to a member that the protocol names. No value is ever shown.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from .versions import VERSIONS

if TYPE_CHECKING:
    from typing_extensions import Self


MAX_MEMBERS: Final = 1000
"""Maximum number of members of one object, and of entries in one array."""


class Record(msgspec.Struct, frozen=True, kw_only=True, eq=False, omit_defaults=True, rename="camel"):
    """One object of the protocol. The fields of a subclass are its members, in Python's spelling.

    extra  the members that the revision does not define, as they were
    """

    since: ClassVar[Mapping[str, str]] = {}
    """The revision that a member came with, where that is not the first."""
    until: ClassVar[Mapping[str, str]] = {}
    """The last revision that has a member, where that is not the latest."""

    extra: dict[str, Any] = {}
    order: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, obj: object, version: str | None = None, *, path: str = "") -> Self:
        """The record that a decoded JSON object is.

        version  the revision whose members are checked; of every revision if None
        path     where the object is, for the text of a fault: a JSON pointer (RFC 6901)

        Raises ValueError for a member that is missing or of the wrong type; the text names it.
        """
        if not isinstance(obj, dict):
            raise ValueError(f"{path or 'the value'} must be an object")
        if len(obj) > MAX_MEMBERS:
            raise ValueError(f"{path or 'the value'} has more than {MAX_MEMBERS} members")
        members = members_of(cls, version)
        values: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in obj.items():
            member = members.get(name)
            if member is None:
                extra[name] = value
            elif value is not None:
                values[member.attribute] = _read(member, value, version, f"{path}/{name}")
        for name, member in members.items():
            if member.is_required and obj.get(name) is None:
                raise ValueError(f"{path}/{name} is missing")
        return cls(**values, extra=extra, order=tuple(obj))

    def to_dict(self, version: str | None = None) -> dict[str, Any]:
        """The record as JSON has it. With a version, without the members that this revision does not define."""
        written: dict[str, Any] = {}
        for name, member in members_of(type(self), version).items():
            value = getattr(self, member.attribute)
            if value is not UNSET:
                written[name] = _write(value, version)
        written.update(self.extra)
        in_order = {name: written.pop(name) for name in self.order if name in written}
        return {**in_order, **written}

    def member(self, name: str) -> Any:
        """A member by the protocol's own spelling, known or not; UNSET if it is absent."""
        member = members_of(type(self), None).get(name)
        value = UNSET if member is None else getattr(self, member.attribute)
        return self.extra.get(name, UNSET) if value is UNSET else value

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__: ClassVar[None]  # type: ignore[assignment]  # the members are mutable


class EmptyObject(Record, frozen=True, kw_only=True, eq=False):
    """An object without members of its own: that it is there is what it says."""


class Member(NamedTuple):
    """One member of a record.

    attribute    the field's name in Python
    type         what its value is read as: a Record, a list of one, or a plain type
    is_required  it must be there
    """

    attribute: str
    type: Any
    is_required: bool


@functools.cache
def members_of(cls: type[Record], version: str | None) -> dict[str, Member]:
    """The members that a record has in a revision, or in any if None, by the protocol's spelling.

    Raises ValueError for an unknown version.
    """
    place = None if version is None else VERSIONS.index(version)
    members = {}
    for field in msgspec.structs.fields(cls):
        name = field.encode_name
        if field.name in ("extra", "order"):
            continue
        first = VERSIONS.index(cls.since.get(name, VERSIONS[0]))
        last = VERSIONS.index(cls.until.get(name, VERSIONS[-1]))
        if place is None or first <= place <= last:
            members[name] = Member(field.name, _without_unset(field.type), field.required)
    return members


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
    dict[str, dict[str, Any]]: "an object of objects",
}


def _read(member: Member, value: Any, version: str | None, path: str) -> Any:
    kind = member.type
    if isinstance(value, (dict, list)) and len(value) > MAX_MEMBERS:
        raise ValueError(f"{path} has more than {MAX_MEMBERS} entries")
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_dict(value, version, path=path)
    if get_origin(kind) is list and issubclass(get_args(kind)[0], Record):
        if not isinstance(value, list):
            raise ValueError(f"{path} must be an array")
        of = get_args(kind)[0]
        return [of.from_dict(item, version, path=f"{path}/{index}") for index, item in enumerate(value)]
    if kind is Any:
        return value
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass  # its text may show the value, and it must not stay behind as the cause
    if get_origin(kind) is Literal:
        raise ValueError(f"{path} must be one of {', '.join(get_args(kind))}")
    raise ValueError(f"{path} must be {_EXPECTED[kind]}")


def _write(value: Any, version: str | None) -> Any:
    if isinstance(value, Record):
        return value.to_dict(version)
    if isinstance(value, list):
        return [_write(item, version) for item in value]
    return value
