"""Params in Python types: annotations to converters, made once, for methods and for MCP.

    arguments    the arguments of a function, converted as its annotations say
    types        the type of a value: msgspec's or pydantic's
    docstrings   descriptions of parameters
    annotations  the parts of annotations
    problems     what is wrong with params, by JSON pointer

Rules:
  - A type with a part of pydantic (a model, a pydantic dataclass, a `TypeAdapter`, `Field`) is converted by pydantic,
    all others by msgspec. Neither is imported before a type needs it.
  - A number such as 1.0 is an integer, as in JSON Schema.
  - Problems contain only names and bounds of types: no value of the input, no name of an unknown member, no key of a
    mapping, and no text of an exception of the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...support import loader

if TYPE_CHECKING:
    from .arguments import Arguments, FunctionSignature, UndefinedName, name_of, signature_of
    from .problems import Misfit
    from .types import MsgspecType, PydanticType, type_of
else:
    __getattr__ = loader(
        __name__,
        {
            "arguments": ("Arguments", "FunctionSignature", "UndefinedName", "name_of", "signature_of"),
            "problems": ("Misfit",),
            "types": ("MsgspecType", "PydanticType", "type_of"),
        },
    )

__all__ = [
    "Arguments",
    "FunctionSignature",
    "Misfit",
    "MsgspecType",
    "PydanticType",
    "UndefinedName",
    "name_of",
    "signature_of",
    "type_of",
]
