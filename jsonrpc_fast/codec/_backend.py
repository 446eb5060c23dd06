"""The selector of the backend.

Rules:
  - The compiled core is used if it can be imported, is built from the sources next to it and proves itself; otherwise
    the pure backend, whatever the reason. Only an import that is interrupted (KeyboardInterrupt) ends.
  - Only one interpreter of a process has the core; the others use the pure backend.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Literal

from ..profile import lower_default_limits
from ._json import ORJSON_FAULT, ORJSON_VERSION, is_set
from ._sources import checksum

__all__ = [
    "BACKEND",
    "CORE_FAULT",
    "ORJSON_FAULT",
    "ORJSON_VERSION",
    "TRICKS",
    "Decoder",
    "Error",
    "Message",
    "Notification",
    "Params",
    "ParseError",
    "Raw",
    "RawMessage",
    "Request",
    "Response",
    "backend",
    "classify",
    "decode",
    "decode_dict",
    "decoded",
    "dumps",
    "encode",
    "encode_dict",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "parse",
]

BACKEND: Literal["cython", "python"] = "python"
CORE_FAULT: str | None = None
"""Why the core is not in use, or None."""


def _why_missing(folder: str, error: ImportError) -> str:
    """Why the core cannot be imported: the reason that the build recorded, or that the folder holds only sources."""
    from importlib.machinery import EXTENSION_SUFFIXES

    if not isinstance(error, ModuleNotFoundError) or any(
        os.path.exists(os.path.join(folder, f"_core{suffix}")) for suffix in EXTENSION_SUFFIXES
    ):
        return str(error)
    try:
        with open(os.path.join(folder, "_build.txt"), encoding="utf-8") as record:
            return f"the core was not built: {record.read().strip()}"
    except OSError:
        pass
    if os.path.exists(os.path.join(folder, "..", "..", "setup.py")):
        return (
            "this is the source folder, in which no core is built, and it hides an installed package: run Python in "
            "another folder, or build the core here with pip install -e ."
        )
    return str(error)


def _why_unfit(core: Any, folder: str) -> str | None:
    """Why a core that was imported is not used, or None."""
    # After a second `Py_Initialize` Cython returns the module of the first interpreter, whose names are None.
    if type(core.SOURCES) is not int:
        return "the core belongs to an earlier interpreter of this process, which has ended"
    try:
        found = checksum(folder)
    except OSError:  # no sources to compare, such as in an archive
        found = None
    if found is not None and found != core.SOURCES:
        return "the core was built from other sources than those next to it: run python setup.py build_ext --inplace"
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[2,"a"]}'
    if core.decode(text).params != [2, "a"] or core.encode(core.decode(text), delimited=False) != text:
        return "the core does not decode and encode a message as it must"
    return None


if TYPE_CHECKING:
    from . import _pure as backend
elif is_set("JSONRPC_FAST_PURE"):
    CORE_FAULT = "JSONRPC_FAST_PURE is set"
else:
    _folder = os.path.dirname(__file__)
    try:
        # `from . import` would report a missing module as a circular import.
        backend = importlib.import_module("._core", __package__)
        CORE_FAULT = _why_unfit(backend, _folder)
    except ImportError as error:
        CORE_FAULT = _why_missing(_folder, error)
    except Exception as error:  # the package must be importable whatever is wrong with the core
        CORE_FAULT = f"the core cannot be used: {type(error).__name__}: {error}"
    if CORE_FAULT is None:
        BACKEND = "cython"

if BACKEND == "python" and not TYPE_CHECKING:
    lower_default_limits()  # before the pure backend makes the rules of a preset
    from . import _pure as backend

# ruff: noqa: TC004  # the names imported for type checkers are set below at run time
if TYPE_CHECKING:
    from ._json import dumps as dumps
    from ._messages import (
        Error,
        Message,
        Notification,
        Params,
        ParseError,
        Raw,
        RawMessage,
        Request,
        Response,
        encode,
        encode_error,
        encode_notification,
        encode_request,
        encode_result,
    )
    from ._pure import Decoder, classify, decode, decode_dict, encode_dict, parse
else:
    # The public names, which are the same in both backends. The types below are made from their classes.
    # Not assigned one by one: type checkers and editors would know `decode = backend.decode` as a variable.
    globals().update({name: vars(backend)[name] for name in __all__ if name in vars(backend)})
    # They are pickled by their public names, so that a process with the other backend finds its own.
    for _name in __all__:
        if getattr(globals().get(_name), "__module__", None) == backend.__name__:
            globals()[_name].__module__ = __package__.partition(".")[0]
    dumps = backend.dumps_json
    Message = Request | Notification | Response | ParseError
    RawMessage = Request[Raw | None] | Notification[Raw | None] | Response[Raw] | ParseError
    Params = dict[str, Any] | list[Any] | Raw | None

too_large_fault = backend.too_large_fault
places = backend.places
serve_plain = backend.serve_plain
PlainServer = backend.PlainServer
TRICKS: dict[str, bool] = {} if BACKEND == "python" else backend.tricks()  # type: ignore[attr-defined]
"""The tricks of the core that rest on the layout of CPython's objects, and whether each is in use."""
ServedCoroutine = backend.ServedCoroutine


def decoded(value: Any) -> Any:
    """Return the decoded value of a `Raw`, and anything else unchanged."""
    return value.decode() if type(value) is Raw else value
