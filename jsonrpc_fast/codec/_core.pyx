# cython: language_level=3, embedsignature=True, embedsignature.format=clinic, freethreading_compatible=True, auto_pickle=False
# The compiled core. `_pure.py` says what it does and why; comments here say only what C adds.
#
# Rules:
#   - The fast path (`read_text_fast`) reads a valid message of a usual form in one pass, and leaves every other text to the
#     slow path.
#   - The slow path (`decode_slow`) scans the text to the last byte, and only then makes objects of its payloads.
#   - Both name the kinds of the members, and a table has the verdict of `rules.py` on them (`rules.pxi`).
#   - No directive disables Cython's checks. Functions that read through pointers argue their bounds, mostly in
#     `_scanner.pxd`.
#
# Python code may run, change every container and buffer of the caller, call the core again and let other threads do so:
#   - Where the garbage collector may run: before Python 3.12 in each allocation of a list, dict, tuple, message or
#     exception (`list_of`, `dict_of`, `new_message`, `make_fault`, `new_record`, orjson's `loads`), later in Python code.
#   - Where a reference is dropped that may be the last to an object of the caller: `drop` of what was held while it was
#     written, `free_request` and its like, `find_rules` for a profile.
#   - Where keys are compared: `member_of`, `extra_of` and `has_own`, because a key is any object.
#   - In comparisons and texts of payloads: `is_same`, `shorten`, pickling.
#   - In an object that is written: `check_depth`, orjson's `dumps`, `default`.
#   - In a profile: `Rules.__init__`; in callbacks: the decoder of `Raw.decode`,
#     and all that `serve_plain` and `PlainServer` are given, with the handlers that `find` returns.
#   - In the Python functions of this package, which let other threads run: `find_verdict`, `find_batch_fault` (rules);
#     `plain_profile`, `check_profile`, `numbers_of`; `is_error_code`, `plain_error_code`, `remake_parse_error`; `loads_as`,
#     `check_numbers`, `exact_number`, `is_longer`, `is_integer_longer`, `has_surrogates`; `check_option`, `check_depth`,
#     `dumps`, `dumps_wide`, `is_too_wide`, `refusal`, `cause_of`; `check_extra`, `extra_of`; `default_of`;
#     `check_faults`, `dicts_of`, `write_parts`; `code_and_message`; `find`; `shorten`; `missing_arguments`, `not_a_message`, `not_a_dict`, `with_hint`; `header_reader` with the methods of its
#     result; and the classes `EventFrames`, `Frame`, `StreamDecoder` and `ParseError`. While the core is imported also
#     `args_of`, `bits_of` and `is_set`, when pickling `remake`.
#
# What is held there:
#   - The arguments of a public function, by its caller. A text is bytes or a str, or copied (`copied_bytes`), so that a
#     pointer into it is valid, and its bytes the same, until the function returns. `self` is not always held: see
#     `repr_of`.
#   - What is read: members of a dict of the caller as owned references (`member_of`), values on the stack of the reader
#     (`values.pxi`), parts of a message in structs that own them.
#   - What is written: each open container, and each object of another type before anything is asked of it
#     (`write_values.pxi`).
#   - A decoder: its reader in a local variable; the reader refuses other calls meanwhile (`Reader.state`), so that its
#     buffer stays where it is.
#   - A message that is freed: it is untracked, and given to its list after its fields are dropped (`free_lists.pxi`).
#   - The rules of a profile, as an owned reference (`rules_of`), because a place in the table may be taken meanwhile.
#   - What a function of this package is given: all of it is owned, as Cython's arguments and local variables are.
# No other call here runs Python code: types are compared by address, and numbers, strings and bytes are exact.
#
# This is no docstring, and the methods of the classes of C are no function objects (`cython.binding`), because both would
# be in the core: 10 kB. Methods with a default that is no literal are, for `inspect.signature`.

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_FromLongLong
from cpython.object cimport Py_EQ, PyObject
from cpython.unicode cimport PyUnicode_AsEncodedString
from libc.math cimport fabs, isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove

cdef extern from *:
    """
    #ifndef JSONRPC_FAST_SOURCES
    #define JSONRPC_FAST_SOURCES 0UL
    #endif

    /* Cython finds the frame of a traceback by its line alone, which several files of the core have. So the number of
       the file is in the upper bits of the line until the frame is made. */
    #undef __PYX_MARK_ERR_POS
    #define __PYX_MARK_ERR_POS(file, line) \\
        { __pyx_lineno = (line) | ((file) << 16); (void)__pyx_lineno; (void)__pyx_filename; (void)__pyx_clineno; }
    #define PyCode_NewEmpty(name, function, line) PyCode_NewEmpty(__pyx_f[(line) >> 16], function, (line) & 0xFFFF)
    """
    unsigned long JSONRPC_FAST_SOURCES  # the checksum of the sources, which setup.py gives

from ._scanner cimport (
    LITTLE_ENDIAN,
    MEMBER_CODE,
    MEMBER_DATA,
    MEMBER_ERROR,
    MEMBER_ID,
    MEMBER_JSONRPC,
    MEMBER_MESSAGE,
    MEMBER_METHOD,
    MEMBER_PARAMS,
    MEMBER_RESULT,
    MEMBER_UNKNOWN,
    Cursor,
    Envelope,
    Member,
    Value,
    expect,
    has_begun,
    hex_digit,
    is_digit,
    is_space,
    is_too_large,
    is_wide,
    likely,
    lowest_bit,
    name_of,
    name_of_escaped,
    past_space,
    past_space_inside,
    plain_bytes,
    read_end,
    read_message,
    skip_character,
    SHORT_DIGITS,
    skip_digits,
    skip_plain,
    skip_space,
    skip_string,
    skip_value,
)

from codecs import utf_8_decode
from enum import EnumMeta
from gc import is_tracked as _is_tracked
from inspect import Parameter, Signature
from types import CoroutineType, GenericAlias
from typing import get_args

from .. import errors
from ..codes import RPC_MESSAGES, Hint, ParseErrorCode, is_error_code, plain_error_code
from ..errors import (
    MISSING,
    EncodeError,
    RpcError,
    args_of,
    missing_arguments,
    not_a_dict,
    not_a_message,
    remake_parse_error,
    with_hint,
)
from ..framing.frames import MAX_HEADER_BYTES as _MAX_HEADER_BYTES
from ..framing.frames import FRAMINGS, Frame
from ..framing.hints import LOOKED_AT_BYTES as _LOOKED_AT_BYTES
from ..profile import HEAD_BYTES as _HEAD_BYTES
from ..profile import JSONRPC, PRESETS, WrittenForm, check_profile, plain_profile
from ..profile import MAX_DEPTH as _MAX_DEPTH
from ..profile import MAX_ID_BYTES as _MAX_ID_BYTES
from ..support import HANDLER_FAILURES, shorten
from ..support import SHOWN_BYTES as _SHOWN_BYTES
from ..types import BYTE_ORDER_MARK as _BYTE_ORDER_MARK
from ..types import ERROR_MEMBERS as _ERROR_MEMBERS
from ..types import ENVELOPE_MEMBERS, UNSET, Classification
from ._dicts import check_faults, dicts_of, write_parts
from ._json import (
    FORBIDDEN_OPTIONS,
    HARMLESS_OPTIONS,
    Fragment,
    JSONDecodeError,
    NoDefault,
    cause_of,
    check_depth,
    check_option,
    dumps_wide,
    is_too_wide,
    dumps,
    exact_number,
    has_surrogates,
    is_integer_longer,
    is_longer,
    is_set,
    refusal,
)
from ._json import MAX_EXPONENT_DIGITS as _MAX_EXPONENT_DIGITS
from ._json import MAX_WRITTEN_DEPTH as _MAX_WRITTEN_DEPTH
from ._json import ORJSON_VERSION
from ._json import TOO_DEEP as TOO_DEEP_TO_WRITE
from ._json import dumps_unchecked as _dumps_unchecked
from ._json import loads as _loads
from ._parts import TOO_MANY_DIGITS
from ._shared import DECIMALS as _DECIMALS
from ._shared import NO_WIDE_INTEGERS as _NO_WIDE_INTEGERS
from ._shared import (
    RESERVED_IN_RESPONSES,
    check_extra,
    check_numbers,
    code_and_message,
    extra_of,
    find,
    loads_as,
    numbers_of,
    remake,
)
from ._stream import IN_USE, CLOSED, FAILED
from ._stream import M as _M
from ._stream import StreamDecoder
from .rules import KIND_BITS as _KIND_BITS
from .rules import MAX_PROFILES, MESSAGE_KINDS, VERDICTS
from .rules import bits as bits_of
from .rules import batch_fault as find_batch_fault
from .rules import verdict as find_verdict

cdef extern from "Python.h":
    void* PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    bint PyBytes_CheckExact(object value)
    PyObject* PyList_GET_ITEM(object items, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(object items)
    Py_ssize_t PY_SSIZE_T_MAX
    bint PyLong_CheckExact(object value)
    bint PyUnicode_CheckExact(object value)
    Py_ssize_t PyVectorcall_NARGS(size_t flags)

# The type of `vectorcallfunc`.
ctypedef object (*Call)(PyObject* function, PyObject** arguments, size_t flags, PyObject* names)

cdef enum:
    # A decoder keeps a buffer of up to this size between lines.
    KEPT_BYTES = 65536

cdef const char* NULL_TEXT = b"null"
cdef str VERSION = "2.0"
cdef bint HAS_ORJSON = ORJSON_VERSION is not None
# Called for each message without a look-up.
cdef object loads = _loads
cdef object dumps_unchecked = _dumps_unchecked
cdef object ZERO = 0
cdef object ABSENT = object()  # the value of an absent member
cdef Py_ssize_t MAX_DEPTH = _MAX_DEPTH
cdef int KIND_BITS = _KIND_BITS
cdef Py_ssize_t MAX_WRITTEN_DEPTH = _MAX_WRITTEN_DEPTH
cdef Py_ssize_t SHOWN_BYTES = _SHOWN_BYTES
cdef str DATACLASS_FIELDS = "__dataclass_fields__"
cdef object ENUM_META = EnumMeta
cdef Py_ssize_t MAX_ID_BYTES = _MAX_ID_BYTES
cdef Py_ssize_t MAX_EXPONENT_DIGITS = _MAX_EXPONENT_DIGITS
cdef Py_ssize_t LOOKED_AT_BYTES = _LOOKED_AT_BYTES
cdef Py_ssize_t HEAD_BYTES = _HEAD_BYTES
cdef Py_ssize_t MAX_HEADER_BYTES = _MAX_HEADER_BYTES
SOURCES = JSONRPC_FAST_SOURCES
cdef bytes BYTE_ORDER_MARK = _BYTE_ORDER_MARK
cdef frozenset ERROR_MEMBERS = _ERROR_MEMBERS
cdef object TRUNCATED = ParseErrorCode.TRUNCATED
cdef object INVALID_FRAMING = ParseErrorCode.INVALID_FRAMING
cdef object MISSING_METHOD = ParseErrorCode.MISSING_METHOD


class ParseError(errors.ParseError):
    __doc__ = errors.ParseError.__doc__
    __slots__ = ()

    def to_response(self):
        """Return an error response with the specification's code and message, and the id when it is known."""
        return Response(self.id, error=Error(self.rpc_code, RPC_MESSAGES[self.rpc_code]))

    def __reduce__(self):
        return remake, (__name__, "_make_fault", *self._state())


def _make_fault(*state):
    """Return a `ParseError` from its pickled state."""
    return remake_parse_error(ParseError, *state)


include "_core_parts/tricks.pxi"
include "_core_parts/threads.pxi"
include "_core_parts/faults.pxi"
include "_core_parts/messages.pxi"
include "_core_parts/raw.pxi"
include "_core_parts/free_lists.pxi"
include "_core_parts/rules.pxi"
include "_core_parts/value_reader.pxi"
include "_core_parts/strings.pxi"
include "_core_parts/numbers.pxi"
include "_core_parts/templates.pxi"
include "_core_parts/caches.pxi"
include "_core_parts/values.pxi"
include "_core_parts/fast_path.pxi"
include "_core_parts/slow_path.pxi"
include "_core_parts/decoding.pxi"
include "_core_parts/streams.pxi"
include "_core_parts/lines.pxi"
include "_core_parts/bodies.pxi"
include "_core_parts/events.pxi"
include "_core_parts/concatenated.pxi"
include "_core_parts/decoder.pxi"
include "_core_parts/output.pxi"
include "_core_parts/write_strings.pxi"
include "_core_parts/write_numbers.pxi"
include "_core_parts/write_values.pxi"
include "_core_parts/encoding.pxi"
include "_core_parts/dicts.pxi"
include "_core_parts/serving.pxi"
include "_core_parts/invariants.pxi"

check_invariants()
keep_shared_objects()
name_publicly()
