# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: embedsignature=True, embedsignature.format=clinic
"""The compiled core. `_pure.py` says what it does and why; this file says only what C adds.

boundscheck is off for good: nothing here indexes a Python sequence with an index of its own making but the batch
loop, which goes by the list's own length, and the scanner's bounds are argued in `_scanner.pxd`.

A text is read by the scanner, which finds the members of each envelope and proves that the whole is JSON; only the
payload goes to orjson. What the scanner found and what a dict holds go through one `judge`.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next, PyDict_Size
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_FromLongLong
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

from ._scanner cimport (
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
    Quick,
    Value,
    expect,
    is_digit,
    is_space,
    read_end,
    read_message,
    read_object,
    read_quick,
    skip_plain,
    skip_space,
    skip_value,
)

from . import errors
from ._decoder import StreamDecoder
from ._json import (
    OPT_APPEND_NEWLINE,
    JSONDecodeError,
    dumps,
    dumps_integer,
    dumps_unchecked,
    exact_number,
    has_surrogates,
    is_integer_longer,
    is_longer,
    loads,
    loads_exact,
)
from ._repr import shorten
from .codes import RPC_MESSAGES, UNSET
from .errors import EncodeError
from .kinds import Classification
from .profile import JSONRPC
from .profile import MAX_DEPTH as _MAX_DEPTH

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size) except NULL
    int resize_bytes "_PyBytes_Resize"(PyObject** text, Py_ssize_t size) except -1
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    bint PyBytes_CheckExact(object value)
    bint PyDict_Check(object value)
    bint PyList_Check(object value)
    PyObject* PyList_GET_ITEM(object items, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(object items)
    bint PyLong_CheckExact(object value)
    bint PyUnicode_Check(object value)
    bint PyUnicode_CheckExact(object value)

cdef enum:
    # From here on a payload goes to orjson as a view of the text; below, copying is cheaper than making the view.
    VIEW_BYTES = 2048
    # The widest 64-bit integer, and its sign.
    INTEGER_BYTES = 20

    # What a decoder's buffer may hold on to between lines.
    KEPT_BYTES = 65536
    # Longer lists are left to orjson.
    SIMPLE_LIST_BYTES = 128
    # From about here on it costs less to let orjson write the envelope, too, than to copy what it wrote.
    LARGE_BYTES = 2048
    LARGE_NODES = 16

cdef const char* BYTE_ORDER_MARK = b"\xef\xbb\xbf"
cdef str VERSION = "2.0"
cdef object ZERO = 0
cdef object APPEND_NEWLINE = OPT_APPEND_NEWLINE
cdef Py_ssize_t MAX_DEPTH = _MAX_DEPTH


class ParseError(errors.ParseError):
    __doc__ = errors.ParseError.__doc__
    __slots__ = ()

    def to_response(self):
        """The error response that tells the peer: the specification's own code and message, and the id if known."""
        return Response(self.id, error=Error(self.rpc_code, RPC_MESSAGES[self.rpc_code]))


cdef object fields_of(value):
    return tuple([getattr(value, name) for name in value.__match_args__])


cdef object is_equal(value, other):
    if type(value) is not type(other):
        return NotImplemented
    mine, theirs = fields_of(value), fields_of(other)
    # The first field may be an id: 1 and 1.0 are written differently, so they are two ids.
    return mine == theirs and isinstance(mine[0], float) == isinstance(theirs[0], float)


cdef object repr_of(value):
    fields = ", ".join([f"{name}={shorten(getattr(value, name))}" for name in value.__match_args__])
    return f"{type(value).__name__}({fields})"


cdef object refuse_again(value):
    """`__init__` fills a new object; called on one that is filled, it would change it."""
    raise TypeError(f"{type(value).__name__} is immutable")


@cython.final
@cython.freelist(64)
cdef class Request:
    """Request(id, method, params=None)
--

    A call that expects a response (section 4): id, method, params (None if absent).
    """

    cdef readonly object id
    cdef readonly object method
    cdef readonly object params
    __match_args__ = ("id", "method", "params")

    def __init__(self, id, method, params=None):
        if self.method is not None:
            refuse_again(self)
        check_id(id)
        check_method(method)
        check_params(params)
        self.id = id
        self.method = method
        self.params = params

    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """The request that a decoded JSON object is, or None. Never raises."""
        message = judge_dict(obj, rules_of(profile), None)
        return message if type(message) is Request else None

    def to_dict(self):
        """The message as a dict, which shares the payload with it."""
        if self.params is None:
            return {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        return {"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params}

    def to_bytes(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False)

    def to_bytes_delimited(self):
        """The message as one line of JSON that ends in the only line feed in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return Request, (self.id, self.method, self.params)


@cython.final
@cython.freelist(64)
cdef class Notification:
    """Notification(method, params=None)
--

    A call that expects no response (section 4.1): method, params (None if absent).
    """

    cdef readonly object method
    cdef readonly object params
    __match_args__ = ("method", "params")

    def __init__(self, method, params=None):
        if self.method is not None:
            refuse_again(self)
        check_method(method)
        check_params(params)
        self.method = method
        self.params = params

    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """The notification that a decoded JSON object is, or None. Never raises."""
        message = judge_dict(obj, rules_of(profile), None)
        return message if type(message) is Notification else None

    def to_dict(self):
        """The message as a dict, which shares the payload with it."""
        if self.params is None:
            return {"jsonrpc": "2.0", "method": self.method}
        return {"jsonrpc": "2.0", "method": self.method, "params": self.params}

    def to_bytes(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False)

    def to_bytes_delimited(self):
        """The message as one line of JSON that ends in the only line feed in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return Notification, (self.method, self.params)


@cython.final
@cython.freelist(64)
cdef class Response:
    """Response(id, result=None, error=None)
--

    The answer to a request (section 5): an error where `error` is not None, else a result.
    """

    cdef readonly object id
    cdef readonly object result
    cdef readonly object error
    cdef bint made
    __match_args__ = ("id", "result", "error")

    def __init__(self, id, result=None, error=None):
        if self.made:
            refuse_again(self)
        check_id(id)
        if error is not None:
            if type(error) is not Error:
                raise TypeError(f"error must be an Error or None, not {type(error).__name__}")
            if result is not None:
                raise ValueError("a response has a result or an error, not both")
        self.id = id
        self.result = result
        self.error = error
        self.made = True

    @property
    def is_error(self):
        return self.error is not None

    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """The response that a decoded JSON object is, or None. Never raises."""
        message = judge_dict(obj, rules_of(profile), None)
        return message if type(message) is Response else None

    def to_dict(self):
        """The message as a dict, which shares the payload with it."""
        if self.error is not None:
            return {"jsonrpc": "2.0", "id": self.id, "error": self.error.to_dict()}
        return {"jsonrpc": "2.0", "id": self.id, "result": self.result}

    def to_bytes(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False)

    def to_bytes_delimited(self):
        """The message as one line of JSON that ends in the only line feed in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return Response, (self.id, self.result, self.error)


@cython.final
cdef class Error:
    """Error(code, message, data=UNSET)
--

    What went wrong, inside a response (section 5.1): code, message, data (UNSET if absent).
    """

    cdef readonly object code
    cdef readonly object message
    cdef readonly object data
    __match_args__ = ("code", "message", "data")

    def __init__(self, code, message, data=UNSET):
        if self.message is not None:
            refuse_again(self)
        check_error(code, message)
        self.code = int(code)
        self.message = message
        self.data = data

    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """The error that a decoded JSON object is, or None. Never raises."""
        error = judge_error(obj)
        return error if type(error) is Error else None

    def to_dict(self):
        """The error as a dict, which shares `data` with it."""
        if self.data is UNSET:
            return {"code": self.code, "message": self.message}
        return {"code": self.code, "message": self.message, "data": self.data}

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return Error, (self.code, self.message, self.data)


@cython.final
@cython.freelist(64)
cdef class Raw:
    """Raw(data)
--

    A checked JSON text, kept as bytes: a payload that is passed on, or read later.
    """

    cdef bytes data
    cdef bint exact  # big_ints="exact"

    def __init__(self, data):
        cdef Cursor cursor
        cdef Value value
        cdef const uint8_t* start
        if self.data is not None:
            refuse_again(self)
        if isinstance(data, str):
            try:
                text = data.encode()
            except UnicodeEncodeError as error:
                raise ParseError.invalid_utf8(offset=len(error.object[: error.start].encode())) from None
        elif isinstance(data, (bytes, bytearray, memoryview)):
            text = bytes(data)
        else:
            raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
        start = <const uint8_t*>PyBytes_AS_STRING(text)
        open_cursor(&cursor, start, PyBytes_GET_SIZE(text), False)
        skip_space(&cursor)
        if not skip_value(&cursor, False, &value) or not read_end(&cursor):
            raise fault_of_text(start, &cursor)
        if value.depth > MAX_DEPTH:
            raise ParseError.too_deep()
        self.data = bytes_of(&value)

    def decode(self, decoder=None):
        """What a decoder makes of the bytes: orjson, or one that is given, such as a typed one. Raises what it does."""
        if decoder is not None:
            return decoder(self.data)
        return loads_exact(self.data) if self.exact else loads(self.data)

    def __bytes__(self):
        return self.data

    def __len__(self):
        return PyBytes_GET_SIZE(self.data)

    def __eq__(self, other):
        if type(other) is not Raw:
            return NotImplemented
        return self.data == (<Raw>other).data

    def __hash__(self):
        return hash(self.data)

    def __repr__(self):
        return f"Raw({shorten(self.data)})"

    def __reduce__(self):
        return remake_raw, (self.data, self.exact)


def remake_raw(data, exact):
    """A `Raw` from its pickle, which has been checked."""
    return make_raw(data, exact)


cdef inline Raw make_raw(bytes data, bint exact):
    cdef Raw raw = Raw.__new__(Raw)
    raw.data = data
    raw.exact = exact
    return raw


cdef inline Request make_request(id, method, params):
    cdef Request message = Request.__new__(Request)
    message.id = id
    message.method = method
    message.params = params
    return message


cdef inline Notification make_notification(method, params):
    cdef Notification message = Notification.__new__(Notification)
    message.method = method
    message.params = params
    return message


cdef inline Response make_response(id, result, error):
    cdef Response message = Response.__new__(Response)
    message.id = id
    message.result = result
    message.error = error
    message.made = True
    return message


cdef int check_id(id) except -1:
    if isinstance(id, bool) or not (id is None or isinstance(id, (int, str, float))):
        raise TypeError(f"id must be an int, a str, a float or None, not {type(id).__name__}")
    if isinstance(id, float) and not isfinite(<double>id):
        raise ValueError("id must be a finite number")
    return 0


cdef int check_method(method) except -1:
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")
    return 0


cdef int check_params(params) except -1:
    if not (params is None or is_object_or_array(params, True)):
        raise TypeError(f"params must be a dict, a list, a Raw of one, or None, not {type(params).__name__}")
    return 0


cdef int check_error(code, message) except -1:
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"code must be an int, not {type(code).__name__}")
    if not isinstance(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return 0


@cython.final
cdef class Rules:
    """A profile as C reads it."""

    cdef object profile  # kept alive, so that its address stays its own
    cdef bint null_request_ids
    cdef bint null_result_ids
    cdef bint float_ids
    cdef bint errors_without_id
    cdef bint empty_methods
    cdef bint array_params
    cdef bint null_params
    cdef bint null_companions
    cdef bint object_results
    cdef bint batches
    cdef bint extra_members
    cdef bint big_ints_as_float
    cdef bint big_ints_exact
    cdef Py_ssize_t message_bytes
    cdef Py_ssize_t depth
    cdef Py_ssize_t batch_items
    cdef Py_ssize_t method_bytes
    cdef Py_ssize_t id_bytes

    def __init__(self, profile):
        limits = profile.limits
        self.profile = profile
        self.null_request_ids = profile.null_request_ids
        self.null_result_ids = profile.null_result_ids
        self.float_ids = profile.float_ids
        self.errors_without_id = profile.errors_without_id
        self.empty_methods = profile.empty_methods
        self.array_params = profile.array_params
        self.null_params = profile.null_params
        self.null_companions = profile.null_companions
        self.object_results = profile.object_results
        self.batches = profile.batches
        self.extra_members = profile.extra_members
        self.big_ints_as_float = profile.big_ints == "float"
        self.big_ints_exact = profile.big_ints == "exact"
        self.message_bytes = limits.message_bytes
        self.depth = limits.depth
        self.batch_items = limits.batch_items
        self.method_bytes = limits.method_bytes
        self.id_bytes = limits.id_bytes


cdef Rules last_rules = Rules(JSONRPC)
cdef dict known_rules = {}  # by the profile's address


cdef Rules rules_of(profile):
    global last_rules
    cdef Rules rules = last_rules
    if rules.profile is profile:
        return rules
    found = known_rules.get(<size_t><PyObject*>profile)
    if found is None:
        found = Rules(profile)
        if len(known_rules) >= 64:
            known_rules.clear()
        known_rules[<size_t><PyObject*>profile] = found
    last_rules = found
    return last_rules


# The rules.


def parse(obj, profile=JSONRPC):
    """Judges what a JSON parser has made of a message or a batch already; returns what `decode` does."""
    cdef Rules rules = rules_of(profile)
    cdef Py_ssize_t index
    if not isinstance(obj, list):
        return judge_dict(obj, rules, None)
    fault = batch_fault(len(<list>obj), rules)
    if fault is not None:
        return fault
    return [judge_dict(item, rules, index) for index, item in enumerate(<list>obj)]


cdef object batch_fault(Py_ssize_t items, Rules rules):
    if not rules.batches:
        return ParseError.batch_not_allowed()
    if items > rules.batch_items:
        return ParseError.batch_too_large()
    return None if items else ParseError.empty_batch()


cdef inline object member_of(dict obj, name):
    cdef PyObject* value = PyDict_GetItemWithError(obj, name)
    return UNSET if value == NULL else <object>value


cdef object judge_call_quickly(dict members, Rules rules):
    """The valid call that a dict of nothing else is, with an id of 64 bits or in ASCII; None of any other dict."""
    cdef PyObject* jsonrpc = PyDict_GetItemWithError(members, "jsonrpc")
    cdef PyObject* method = PyDict_GetItemWithError(members, "method")
    cdef PyObject* id
    cdef PyObject* params
    cdef int overflow = 0
    if jsonrpc == NULL or method == NULL:
        return None
    if not PyUnicode_CheckExact(<object>jsonrpc) or <str><object>jsonrpc != VERSION:
        return None
    if not PyUnicode_CheckExact(<object>method) or not PyUnicode_IS_ASCII(<object>method):
        return None
    if not 0 < PyUnicode_GET_LENGTH(<object>method) <= rules.method_bytes:
        return None
    id = PyDict_GetItemWithError(members, "id")
    params = PyDict_GetItemWithError(members, "params")
    if PyDict_Size(members) != 2 + (id != NULL) + (params != NULL):
        return None
    if params != NULL and not is_object_or_array(<object>params, rules.array_params):
        return None
    if id == NULL:
        return make_notification(<object>method, None if params == NULL else <object>params)
    if PyLong_CheckExact(<object>id):
        PyLong_AsLongLongAndOverflow(<object>id, &overflow)
        if overflow:
            return None
    elif not PyUnicode_CheckExact(<object>id) or not PyUnicode_IS_ASCII(<object>id):
        return None
    elif PyUnicode_GET_LENGTH(<object>id) > rules.id_bytes:
        return None
    return make_request(<object>id, <object>method, None if params == NULL else <object>params)


cdef object judge_dict(obj, Rules rules, index):
    cdef bint unexpected = False
    cdef dict members
    if not isinstance(obj, dict):
        return ParseError.not_an_object(index=index)
    members = <dict>obj
    if rules.extra_members:
        message = judge_call_quickly(members, rules)
        if message is not None:
            return message
    jsonrpc = member_of(members, "jsonrpc")
    id = member_of(members, "id")
    method = member_of(members, "method")
    params = member_of(members, "params")
    result = member_of(members, "result")
    error = member_of(members, "error")
    if not rules.extra_members:
        unexpected = len(members) > (
            (jsonrpc is not UNSET)
            + (id is not UNSET)
            + (method is not UNSET)
            + (params is not UNSET)
            + (result is not UNSET)
            + (error is not UNSET)
        )
    return judge(rules, index, jsonrpc, id, method, params, result, error, unexpected, False, False, False)


cdef object judge(
    Rules rules,
    index,
    jsonrpc,
    id,
    method,
    params,
    result,
    error,
    bint unexpected,
    bint too_deep,
    bint integer_too_large,
    bint duplicates,
):
    """The message that the members make, each UNSET if absent; `_pure._judge` has the same order."""
    cdef bint id_is_certain = not duplicates
    factory = None
    if too_deep:
        factory = ParseError.too_deep
    elif isinstance(method, str) and is_string_longer(method, rules.method_bytes):
        factory = ParseError.method_too_long
    elif is_id_too_long(id, rules.id_bytes):
        factory = ParseError.id_too_long
    elif integer_too_large:
        factory = ParseError.integer_too_large
    elif duplicates:
        factory = ParseError.duplicate_member
    elif jsonrpc is not VERSION and not (isinstance(jsonrpc, str) and jsonrpc == VERSION):
        factory = ParseError.missing_jsonrpc if jsonrpc is UNSET else ParseError.invalid_jsonrpc_version
    elif method is UNSET:
        message = judge_response(rules, id, params, result, error, unexpected)
        if type(message) is Response:
            return message
        factory = message
    elif id is not UNSET and not is_valid_id(id, rules.null_request_ids, rules):
        factory = ParseError.invalid_id_type
    elif result is not UNSET or error is not UNSET:
        factory = ParseError.ambiguous_message
    elif not isinstance(method, str):
        factory = ParseError.invalid_method_type
    elif not rules.empty_methods and not method:
        factory = ParseError.empty_method
    else:
        if params is UNSET or (rules.null_params and is_null(params)):
            params = None
        elif not is_object_or_array(params, rules.array_params):
            factory = ParseError.invalid_params_type
        if factory is None:
            if unexpected and not rules.extra_members:
                factory = ParseError.unexpected_member
            elif id is UNSET:
                return make_notification(method, params)
            else:
                return make_request(id, method, params)

    looks_like_response = result is not UNSET or error is not UNSET
    looks_like_notification = id is UNSET and isinstance(method, str)
    if not id_is_certain or is_id_too_long(id, rules.id_bytes) or not is_valid_id(id, False, rules):
        id = None
    return factory(id, index=index, reply_expected=not (looks_like_response or looks_like_notification))


cdef object judge_response(Rules rules, id, params, result, error, bint unexpected):
    """The response that the members make, or the factory of the fault."""
    cdef bint is_response
    cdef bint is_error
    if rules.null_companions and result is not UNSET and error is not UNSET:
        if is_null(error):
            error = UNSET
        elif is_null(result):
            result = UNSET
    is_response = result is not UNSET or error is not UNSET
    is_error = error is not UNSET and result is UNSET

    if id is UNSET:
        if is_response and not (is_error and rules.errors_without_id):
            return ParseError.missing_id
        id = None
    elif not is_valid_id(
        id, (is_error or rules.null_result_ids) if is_response else rules.null_request_ids, rules
    ):
        return ParseError.invalid_id_type
    if not is_response:
        return ParseError.missing_method
    if result is not UNSET and error is not UNSET:
        return ParseError.result_and_error
    if is_error:
        error = judge_error(error)
        if type(error) is not Error:
            return error
        result = None
    else:
        if rules.object_results and not is_object_or_array(result, False):
            return ParseError.invalid_result_type
        error = None
    if not rules.extra_members and (unexpected or params is not UNSET):
        return ParseError.unexpected_member
    return make_response(id, result, error)


cdef object judge_error(obj):
    """The Error that an object is, or the factory of the fault."""
    cdef Error error
    if not isinstance(obj, dict):
        return ParseError.invalid_error_type
    code = member_of(<dict>obj, "code")
    if not isinstance(code, int) or isinstance(code, bool):
        return ParseError.invalid_error_code
    message = member_of(<dict>obj, "message")
    if not isinstance(message, str):
        return ParseError.invalid_error_message
    error = Error.__new__(Error)
    error.code = int(code)
    error.message = message
    error.data = member_of(<dict>obj, "data")
    return error


cdef inline bint is_object_or_array(value, bint array_allowed) except -1:
    cdef char first
    if isinstance(value, dict):
        return True
    if isinstance(value, list):
        return array_allowed
    if type(value) is not Raw:
        return False
    first = PyBytes_AS_STRING((<Raw>value).data)[0]
    return first == c"{" or (first == c"[" and array_allowed)


cdef inline bint is_null(value):
    return value is None or (type(value) is Raw and (<Raw>value).data == b"null")


cdef inline bint is_valid_id(id, bint null_allowed, Rules rules) except -1:
    if isinstance(id, str):
        return PyUnicode_IS_ASCII(id) or not has_surrogates(id)
    if isinstance(id, int):
        return not isinstance(id, bool)
    if isinstance(id, float):
        return rules.float_ids and isfinite(<double>id)
    return id is None and null_allowed


cdef inline bint is_string_longer(text, Py_ssize_t limit) except -1:
    if PyUnicode_IS_ASCII(text):
        return PyUnicode_GET_LENGTH(text) > limit
    return is_longer(text, limit)


cdef inline bint is_id_too_long(id, Py_ssize_t limit) except -1:
    cdef int overflow = 0
    if isinstance(id, str):
        return is_string_longer(id, limit)
    if not isinstance(id, int):
        return False
    PyLong_AsLongLongAndOverflow(id, &overflow)
    return overflow != 0 and is_integer_longer(id, limit)


# The text.


cdef object fault_of_text(const uint8_t* start, Cursor* cursor):
    """Why the text stops being JSON where the cursor says; whether it is UTF-8 comes first."""
    if cursor.out_of_memory:
        raise MemoryError
    view = PyMemoryView_FromMemory(<char*>start, cursor.end - start, PyBUF_READ)
    try:
        str(view, "utf-8")
    except UnicodeDecodeError as error:
        return ParseError.invalid_utf8(offset=error.start)
    return ParseError.malformed_json(offset=cursor.fault - start)


cdef inline object bytes_of(Value* value):
    return PyBytes_FromStringAndSize(<char*>value.start, value.end - value.start)


cdef inline object string_of(Value* value):
    """The str of a string token."""
    if not value.plain:
        return loads(bytes_of(value))
    return ascii_of(value.start + 1, value.end - value.start - 2)


cdef object id_of(Value* value, Py_ssize_t limit):
    """The id that a token stands for, None of null; a tuple, which no id is, of what cannot be one."""
    cdef const uint8_t* at = value.start
    cdef const uint8_t* end = value.end
    cdef long long number = 0
    cdef bint negative
    if at[0] == c'"':
        return string_of(value)
    if at[0] != c"-" and not c"0" <= at[0] <= c"9":
        return None if at[0] == c"n" else ()
    if end - at > limit:
        return 10 ** <object>limit  # an integer as long
    if end - at <= 18:
        negative = at[0] == c"-"
        at += negative
        while at < end and c"0" <= at[0] <= c"9":
            number = number * 10 + (at[0] - c"0")
            at += 1
        if at == end:
            return PyLong_FromLongLong(-number if negative else number)
    found = exact_number(bytes_of(value))
    return () if found is None else found


cdef object payload_of(Value* value, Rules rules, bint* too_large, bint raw):
    """A member's value, UNSET if absent; None where it is too deep, or an integer in it too large for the profile."""
    if value.start == NULL:
        return UNSET
    if value.depth > rules.depth:
        return None
    if value.wide and not rules.big_ints_as_float:
        if rules.big_ints_exact:
            try:
                found = loads_exact(bytes_of(value))
                return make_raw(bytes_of(value), True) if raw else found
            except ValueError:
                pass
        too_large[0] = True
        return None
    if raw:
        return make_raw(bytes_of(value), False)
    return loads_part(value.start, value.end - value.start)


cdef object error_of(Value* value, Rules rules, bint* too_large):
    """An error as a dict with its data raw; anything but an object as it is."""
    cdef Cursor cursor
    cdef Envelope envelope
    if value.start == NULL or value.start[0] != c"{" or value.depth > rules.depth:
        return payload_of(value, rules, too_large, False)
    if value.wide and not rules.big_ints_as_float:
        payload_of(value, rules, too_large, False)
        if too_large[0]:
            return None
    open_cursor(&cursor, value.start, value.end - value.start, True)
    read_object(&cursor, &envelope, True)
    error = {}
    if envelope.members[<int>MEMBER_CODE].start != NULL:
        error["code"] = payload_of(&envelope.members[<int>MEMBER_CODE], rules, too_large, False)
    if envelope.members[<int>MEMBER_MESSAGE].start != NULL:
        error["message"] = payload_of(&envelope.members[<int>MEMBER_MESSAGE], rules, too_large, False)
    if envelope.members[<int>MEMBER_DATA].start != NULL:
        error["data"] = payload_of(&envelope.members[<int>MEMBER_DATA], rules, too_large, True)
    return error


cdef object judge_envelope(Envelope* envelope, Rules rules, index, bint raw):
    cdef bint integer_too_large = False
    cdef Value* value
    if not envelope.is_object:
        if envelope.depth > rules.depth:
            return ParseError.too_deep(index=index)
        return ParseError.not_an_object(index=index)

    value = &envelope.members[<int>MEMBER_JSONRPC]
    if value.start != NULL and value.end - value.start == 5 and memcmp(value.start, b'"2.0"', 5) == 0:
        jsonrpc = VERSION
    else:
        jsonrpc = payload_of(value, rules, &integer_too_large, False)

    value = &envelope.members[<int>MEMBER_ID]
    id = UNSET if value.start == NULL else id_of(value, rules.id_bytes)

    value = &envelope.members[<int>MEMBER_METHOD]
    if value.start != NULL and value.plain:
        method = method_of(value.start + 1, value.end - value.start - 2)
    else:
        method = payload_of(value, rules, &integer_too_large, False)

    params = payload_of(&envelope.members[<int>MEMBER_PARAMS], rules, &integer_too_large, raw)
    result = payload_of(&envelope.members[<int>MEMBER_RESULT], rules, &integer_too_large, raw)
    value = &envelope.members[<int>MEMBER_ERROR]
    if raw:
        error = error_of(value, rules, &integer_too_large)
    else:
        error = payload_of(value, rules, &integer_too_large, False)
    return judge(
        rules,
        index,
        jsonrpc,
        id,
        method,
        params,
        result,
        error,
        envelope.unexpected,
        envelope.depth > rules.depth,
        integer_too_large,
        envelope.duplicates,
    )


# Method names come again and again. One place for each hash, so a flood of names cannot make it grow.
cdef enum:
    METHOD_PLACES = 512
    METHOD_BYTES = 64  # longer ones are not kept

cdef PyObject* methods[METHOD_PLACES]  # each owned


cdef inline object method_of(const uint8_t* start, Py_ssize_t size):
    """The str of a method's ASCII, with its hash when it has come before."""
    cdef uint64_t word = 0
    cdef uint64_t hash
    cdef PyObject* known
    cdef size_t place
    if size > METHOD_BYTES:
        return ascii_of(start, size)
    if size >= 8:
        memcpy(&word, start + size - 8, 8)
        hash = word * <uint64_t>0x9E3779B97F4A7C15
        memcpy(&word, start, 8)
    else:
        memcpy(&word, start, size)
        hash = 0
    hash = (hash ^ word ^ <uint64_t>size) * <uint64_t>0x9E3779B97F4A7C15
    place = hash >> 55
    known = methods[place]
    if (
        known != NULL
        and PyUnicode_GET_LENGTH(<object>known) == size
        and memcmp(PyUnicode_DATA(<object>known), start, size) == 0
    ):
        return <object>known
    text = ascii_of(start, size)
    Py_INCREF(text)
    methods[place] = <PyObject*>text
    Py_XDECREF(known)
    return text


cdef inline object ascii_of(const uint8_t* start, Py_ssize_t size):
    text = PyUnicode_New(size, 0x7F)
    memcpy(PyUnicode_DATA(text), start, size)
    return text


cdef inline object simple_scalar(const uint8_t* start, const uint8_t* end):
    """A plain string, a short integer or a literal that fills a part of a text; `UNSET` where it is anything else."""
    cdef const uint8_t* at = start
    cdef int64_t number = 0
    if at == end:
        return UNSET
    if at[0] == c'"':
        at = skip_plain(start + 1, end)
        if end - at == 1 and at[0] == c'"':
            return ascii_of(start + 1, at - start - 1)
    elif c"1" <= at[0] <= c"9" and end - at <= 18:
        while at < end and is_digit(at[0]):
            number = number * 10 + (at[0] - c"0")
            at += 1
        if at == end:
            return PyLong_FromLongLong(number)
    elif at[0] == c"0" and end - at == 1:
        return ZERO
    elif at[0] == c"t" and end - at == 4 and memcmp(at, b"true", 4) == 0:
        return True
    elif at[0] == c"f" and end - at == 5 and memcmp(at, b"false", 5) == 0:
        return False
    elif at[0] == c"n" and end - at == 4 and memcmp(at, b"null", 4) == 0:
        return None
    return UNSET


cdef inline object simple_list(const uint8_t* start, const uint8_t* end):
    """A short list of simple scalars that fills a part of a text; `UNSET` where it is anything else."""
    cdef const uint8_t* at = start + 1
    cdef const uint8_t* item
    cdef list items
    if (end - 1)[0] != c"]":
        return UNSET
    items = []
    while True:
        while at < end and is_space(at[0]):
            at += 1
        item = at
        if at < end and at[0] == c'"':
            at = skip_plain(at + 1, end)
            if at == end or at[0] != c'"':
                return UNSET
            at += 1
        else:
            while at < end and (is_digit(at[0]) or c"a" <= at[0] <= c"z"):
                at += 1
        value = simple_scalar(item, at)
        if value is UNSET:
            return UNSET
        items.append(value)
        while at < end and is_space(at[0]):
            at += 1
        if at == end:
            return UNSET
        if at[0] != c",":
            # Whatever comes before the last byte, it does not close the list there.
            return items if at + 1 == end else UNSET
        at += 1


cdef inline object loads_part(const uint8_t* start, Py_ssize_t size):
    """The value that a part of a text is. Raises JSONDecodeError.

    Short lists of scalars, and scalars, are what many calls carry; to call orjson costs more than to read them.
    """
    cdef const uint8_t* end = start + size
    while start < end and is_space(start[0]):
        start += 1
    while start < end and is_space((end - 1)[0]):
        end -= 1
    size = end - start
    if size == 0:
        value = UNSET
    elif start[0] == c"[" and 2 < size <= SIMPLE_LIST_BYTES:
        value = simple_list(start, end)
    else:
        value = simple_scalar(start, end)
    if value is not UNSET:
        return value
    if size < VIEW_BYTES:
        return loads(PyBytes_FromStringAndSize(<char*>start, size))
    return loads(PyMemoryView_FromMemory(<char*>start, size, PyBUF_READ))


cdef object decode_quick(const uint8_t* start, Py_ssize_t size, Rules rules, bint raw):
    """The valid message that a text holds in one of its usual forms; None of any other text."""
    cdef Quick quick
    cdef Value value
    cdef Cursor cursor
    if not read_quick(start, start + size, &quick) or not quick.has_version:
        return None
    if quick.id != NULL and quick.id_end - quick.id > rules.id_bytes:
        return None
    payload = None
    if quick.payload_member != MEMBER_UNKNOWN:
        size = quick.payload_end - quick.payload
        if raw:
            open_cursor(&cursor, quick.payload, size, False)
            skip_space(&cursor)
            if quick.payload_member == MEMBER_ERROR or not skip_value(&cursor, False, &value):
                return None
            if not read_end(&cursor) or value.depth > rules.depth or (value.wide and not rules.big_ints_as_float):
                return None
            payload = make_raw(bytes_of(&value), False)
        # orjson goes MAX_DEPTH deep; a lower limit cannot be passed in twice as many bytes.
        elif not rules.big_ints_as_float or (rules.depth < MAX_DEPTH and size > 2 * rules.depth):
            return None
        else:
            try:
                payload = loads_part(quick.payload, size)
            except JSONDecodeError:
                return None
    if quick.method != NULL:
        size = quick.method_end - quick.method
        if size > rules.method_bytes or (size == 0 and not rules.empty_methods):
            return None
        if quick.payload_member == MEMBER_PARAMS:
            if not isinstance(payload, dict) and not (rules.array_params and isinstance(payload, list)):
                if not is_object_or_array(payload, rules.array_params):
                    return None
        elif quick.payload_member != MEMBER_UNKNOWN:
            return None
        if quick.id != NULL:
            return make_request(ascii_of(quick.id, quick.id_end - quick.id), method_of(quick.method, size), payload)
        if quick.has_number:
            return make_request(PyLong_FromLongLong(quick.number), method_of(quick.method, size), payload)
        return make_notification(method_of(quick.method, size), payload)
    if quick.payload_member == MEMBER_RESULT:
        if rules.object_results and not isinstance(payload, dict) and not is_object_or_array(payload, False):
            return None
        error = None
    elif quick.payload_member == MEMBER_ERROR:
        error = judge_error(payload)
        if type(error) is not Error:
            return None
        payload = None
    else:
        return None
    if quick.id != NULL:
        return make_response(ascii_of(quick.id, quick.id_end - quick.id), payload, error)
    if quick.has_number:
        return make_response(PyLong_FromLongLong(quick.number), payload, error)
    return None


cdef inline void open_cursor(Cursor* cursor, const uint8_t* start, Py_ssize_t size, bint any_width) noexcept:
    cursor.at = start
    cursor.end = start + size
    cursor.fault = NULL
    cursor.any_width = any_width
    cursor.out_of_memory = False


cdef object decode_text(const uint8_t* start, Py_ssize_t size, Rules rules, bint raw):
    if size > rules.message_bytes:
        return ParseError.message_too_large()
    message = decode_quick(start, size, rules, raw)
    return decode_by_envelopes(start, size, rules, raw) if message is None else message


cdef object decode_by_envelopes(const uint8_t* start, Py_ssize_t size, Rules rules, bint raw):
    """The same as the quick lane, and all that it leaves."""
    cdef Cursor cursor
    cdef Envelope envelope
    open_cursor(&cursor, start, size, not rules.big_ints_as_float)
    skip_space(&cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"[":
        return decode_batch(start, &cursor, rules, raw)
    if not read_message(&cursor, &envelope) or not read_end(&cursor):
        return fault_of_text(start, &cursor)
    return judge_envelope(&envelope, rules, None, raw)


def _decode_by_envelopes(bytes text, profile, raw):
    """`decode` without its quick lane, for the tests that hold one against the other."""
    return decode_by_envelopes(
        <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules_of(profile), raw
    )


cdef object decode_batch(const uint8_t* start, Cursor* cursor, Rules rules, bint raw):
    """The messages of a batch, judged as they are read; the text may still turn out not to be JSON."""
    cdef Envelope envelope
    cdef Py_ssize_t count = 0
    cdef list messages = []
    cursor.at += 1
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"]":
        cursor.at += 1
    else:
        while True:
            if not read_message(cursor, &envelope):
                return fault_of_text(start, cursor)
            if rules.batches and count < rules.batch_items:
                messages.append(judge_envelope(&envelope, rules, count, raw))
            count += 1
            skip_space(cursor)
            if cursor.at < cursor.end and cursor.at[0] == c"]":
                cursor.at += 1
                break
            if not expect(cursor, c","):
                return fault_of_text(start, cursor)
            skip_space(cursor)
    if not read_end(cursor):
        return fault_of_text(start, cursor)
    fault = batch_fault(count, rules)
    return messages if fault is None else fault


def decode(data, profile=JSONRPC, *, raw=False):
    """Decodes and validates one JSON text: UTF-8 bytes, or a str. raw: leave payloads as `Raw`.

    Returns a Request, a Notification, a Response or a ParseError, or for a batch a list of those. Raises TypeError for
    another type of `data`; a fault of the text is returned, never raised.
    """
    cdef Rules rules = rules_of(profile)
    cdef Py_buffer view
    cdef const char* text
    cdef Py_ssize_t size
    if PyBytes_CheckExact(data):
        return decode_text(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), rules, raw)
    if isinstance(data, str):
        try:
            text = PyUnicode_AsUTF8AndSize(data, &size)
        except UnicodeEncodeError as error:
            return ParseError.invalid_utf8(offset=len(error.object[: error.start].encode()))
        return decode_text(<const uint8_t*>text, size, rules, raw)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
    if isinstance(data, memoryview) and not data.c_contiguous:
        data = bytes(data)
    # While the view is held a bytearray cannot be resized.
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return decode_text(<const uint8_t*>view.buf, view.len, rules, raw)
    finally:
        PyBuffer_Release(&view)


def classify(data):
    """A message's kind, method and id: those of what `decode(data)` returns. Raises TypeError as `decode` does."""
    message = decode(data, raw=True)
    if type(message) is Request:
        return Classification("request", message.method, message.id)
    if type(message) is Notification:
        return Classification("notification", message.method)
    if type(message) is Response:
        return Classification("error" if message.is_error else "result", None, message.id)
    if type(message) is list:
        return Classification("batch")
    return Classification("invalid", None, message.id)


@cython.final
cdef class LineReader:
    """Splits a stream into lines and decodes them where they lie; `framing.py` has the rules.

    Only a line that the chunk does not end is copied, into a buffer that holds what has come of it and is never searched
    again.
    """

    cdef Rules rules
    cdef bint raw
    cdef bint at_start  # a byte order mark may still come
    cdef bint dropping  # inside a line that was over the limit
    cdef bint busy
    cdef uint8_t* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self):
        self.buffer = NULL

    def __init__(self, profile, raw):
        self.rules = rules_of(profile)
        self.raw = raw
        self.at_start = True

    def __dealloc__(self):
        free(self.buffer)

    def feed(self, data):
        """The items whose lines end in `data`."""
        cdef Py_buffer view
        cdef list items = []
        if isinstance(data, memoryview) and not data.c_contiguous:
            data = bytes(data)
        # A finalizer that runs in the middle could come back here, or let another thread in.
        if self.busy:
            raise ValueError("the decoder is at work")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        self.busy = True
        try:
            self.split(<const uint8_t*>view.buf, view.len, items)
        finally:
            self.busy = False
            PyBuffer_Release(&view)
        return items

    def rest(self):
        """The line that the end of the stream ends, as bytes, in a list; an empty list if there is none."""
        cdef const uint8_t* start = self.buffer
        cdef const uint8_t* end = start + self.size
        if self.dropping or not self.trim(&start, &end):
            return []
        return [PyBytes_FromStringAndSize(<char*>start, end - start)]

    cdef int split(self, const uint8_t* at, Py_ssize_t size, list items) except -1:
        cdef const uint8_t* end = at + size
        cdef const uint8_t* newline
        while True:
            newline = <const uint8_t*>memchr(at, 0x0A, end - at)
            if newline == NULL:
                break
            if self.dropping:
                self.dropping = False
            elif self.size == 0:
                self.take(at, newline, items)
            else:
                self.keep(at, newline - at, items)
                if self.dropping:
                    self.dropping = False
                else:
                    self.take(self.buffer, self.buffer + self.size, items)
                    self.forget()
            self.at_start = False
            at = newline + 1
        if at < end and not self.dropping:
            self.keep(at, end - at, items)
        return 0

    cdef int take(self, const uint8_t* start, const uint8_t* end, list items) except -1:
        """Decodes a whole line."""
        if self.trim(&start, &end):
            items.append(decode_text(start, end - start, self.rules, self.raw))
        return 0

    cdef bint trim(self, const uint8_t** start, const uint8_t** end) noexcept:
        """Takes off what is not the line's: byte order mark and carriage return. Returns whether a frame is left."""
        cdef const uint8_t* at
        if self.at_start and end[0] - start[0] >= 3 and memcmp(start[0], BYTE_ORDER_MARK, 3) == 0:
            start[0] += 3
        if end[0] > start[0] and (end[0] - 1)[0] == 0x0D:
            end[0] -= 1
        if end[0] - start[0] > self.rules.message_bytes:
            return True
        at = start[0]
        while at < end[0] and (at[0] == 0x20 or at[0] == 0x09 or at[0] == 0x0D):
            at += 1
        return at < end[0]

    cdef int keep(self, const uint8_t* start, Py_ssize_t size, list items) except -1:
        """Buffers a part of a line, or drops the line where it is over the limit."""
        cdef Py_ssize_t limit = self.rules.message_bytes
        cdef Py_ssize_t length
        cdef uint8_t* larger
        # One byte over the limit may be a carriage return, and three before it a byte order mark.
        if self.size + size <= limit + 4:
            if self.size + size > self.capacity:
                length = min(max(2 * self.capacity, self.size + size, 256), limit + 4)
                larger = <uint8_t*>realloc(self.buffer, length)
                if larger == NULL:
                    raise MemoryError
                self.buffer = larger
                self.capacity = length
            memcpy(self.buffer + self.size, start, size)
            self.size += size
            length = self.size
            if self.at_start:
                if length < 3 and memcmp(self.buffer, BYTE_ORDER_MARK, length) == 0:
                    return 0
                if length >= 3 and memcmp(self.buffer, BYTE_ORDER_MARK, 3) == 0:
                    length -= 3
            if length <= limit or (length == limit + 1 and self.buffer[self.size - 1] == 0x0D):
                return 0
        items.append(ParseError.message_too_large())
        self.dropping = True
        self.forget()
        return 0

    cdef void forget(self) noexcept:
        self.size = 0
        if self.capacity > KEPT_BYTES:
            free(self.buffer)
            self.buffer = NULL
            self.capacity = 0


class Decoder(StreamDecoder):
    __doc__ = StreamDecoder.__doc__
    __slots__ = ("_reader",)

    def __init__(self, framing="newline", profile=JSONRPC, limits=None, raw=False):
        super().__init__(framing, profile, limits, raw)
        self._reader = LineReader(self._profile, self._raw)

    def _decode(self, text):
        return ParseError.message_too_large() if text is None else decode(text, self._profile, raw=self._raw)

    def _feed(self, data):
        return self._reader.feed(data)

    def _rest(self):
        return self._reader.rest()


# Encoding.


def encode(message, *, delimited=True, default=None, option=0):
    """A message, or a list of them as a batch, as one line of JSON; b"" for an empty list.

    Raises EncodeError for a value that cannot be written, TypeError for what is not a message, ValueError for an
    option that breaks lines.
    """
    cdef Buffer buffer
    if not isinstance(message, list):
        return encode_message(message, default, option, delimited)
    if not message:
        return b""
    buffer = Buffer()
    append_batch(buffer, <list>message, default, option)
    if delimited:
        buffer.append(b"\n", 1)
    return buffer.done()


def encode_many(messages, *, default=None, option=0):
    """Messages and batches, each as one line of JSON that ends in a line feed, one after another.

    messages: an iterable of what `encode` takes. Raises as `encode` does, and then nothing is written.
    """
    cdef Buffer buffer = Buffer()
    for message in messages:
        if not isinstance(message, list):
            write_message(message, default, option, True, buffer)
        elif message:
            append_batch(buffer, <list>message, default, option)
            buffer.append(b"\n", 1)
    return buffer.done()


@cython.final
cdef class Buffer:
    """Bytes that grow at their end, in the very object that is handed out."""

    cdef PyObject* text  # bytes, owned; only the first `size` of them are written
    cdef Py_ssize_t size

    def __cinit__(self):
        self.text = NULL

    def __dealloc__(self):
        Py_XDECREF(self.text)

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        """Where the next `size` bytes go."""
        cdef Py_ssize_t needed = self.size + size
        if self.text == NULL:
            self.text = new_bytes(NULL, max(needed, 256))
        elif needed > PyBytes_GET_SIZE(<object>self.text):
            resize_bytes(&self.text, max(needed, self.size + (self.size >> 1)))
        self.size = needed
        return PyBytes_AS_STRING(<object>self.text) + needed - size

    cdef int append(self, const char* text, Py_ssize_t size) except -1:
        memcpy(self.reserve(size), text, size)
        return 0

    cdef bytes done(self):
        """All of it. The buffer is empty then."""
        cdef PyObject* text = self.text
        if text == NULL:
            return b""
        resize_bytes(&self.text, self.size)
        text = self.text
        self.text = NULL
        result = <bytes><object>text
        Py_XDECREF(text)
        return result


cdef int append_batch(Buffer buffer, list messages, default, option) except -1:
    cdef bint first = True
    for message in messages:
        buffer.append(b"[" if first else b",", 1)
        first = False
        write_message(message, default, option, False, buffer)
    return buffer.append(b"]", 1)


cdef inline bytes encode_message(message, default, option, bint delimited):
    return write_message(message, default, option, delimited, None)


# The writers below put a message at the end of a buffer and return None, or without one return its bytes.


cdef bytes write_message(message, default, option, bint delimited, Buffer buffer):
    cdef Request request
    cdef Notification notification
    cdef Response response
    cdef Error error
    if type(message) is Request:
        request = <Request>message
        return write_call(True, request.id, request.method, request.params, default, option, delimited, buffer)
    if type(message) is Notification:
        notification = <Notification>message
        return write_call(
            False, None, notification.method, notification.params, default, option, delimited, buffer
        )
    if type(message) is not Response:
        raise TypeError(f"message must be a Request, a Notification or a Response, not {type(message).__name__}")
    response = <Response>message
    if response.error is None:
        return write_result(response.id, response.result, default, option, delimited, buffer)
    error = <Error>response.error
    return write_error(response.id, error.code, error.message, error.data, default, option, delimited, buffer)


def encode_request(id, method, params=None, *, delimited=True, default=None, option=0):
    """A request as one line of JSON, without making a `Request`.

    params: what orjson writes as an object or an array, or None if absent. The rest is as in `encode`.
    """
    return write_call(True, id, method, params, default, option, delimited, None)


def encode_notification(method, params=None, *, delimited=True, default=None, option=0):
    """A notification as one line of JSON, without making a `Notification`. As `encode_request`."""
    return write_call(False, None, method, params, default, option, delimited, None)


def encode_result(id, result, *, delimited=True, default=None, option=0):
    """The response that carries a result, as one line of JSON. The arguments are as in `encode`."""
    return write_result(id, result, default, option, delimited, None)


def encode_error(id, code, message, data=UNSET, *, delimited=True, default=None, option=0):
    """The response that carries an error, as one line of JSON. No `data` member if UNSET. The rest as in `encode`."""
    return write_error(id, code, message, data, default, option, delimited, None)


cdef struct Piece:
    const char* text
    Py_ssize_t size


cdef enum:
    # Those of an error with data, with strings in quotes: the most that a message has.
    MAX_PIECES = 16


cdef struct Writer:
    # The parts of a message in order. Their bytes are literals, `digits`, or belong to objects that the caller holds
    # until `join`.
    Piece pieces[MAX_PIECES]
    int count
    char digits[2][24]  # for the id and the code: a sign and INTEGER_BYTES, at the most


cdef inline void put(Writer* writer, const char* text, Py_ssize_t size) noexcept:
    writer.pieces[writer.count].text = text
    writer.pieces[writer.count].size = size
    writer.count += 1


cdef inline bytes put_bytes(Writer* writer, bytes text):
    put(writer, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return text


cdef inline object put_integer(Writer* writer, char* digits, number):
    """Writes an integer into `digits`, or returns the object that holds its bytes."""
    cdef int overflow = 0
    cdef long long value = PyLong_AsLongLongAndOverflow(number, &overflow)
    cdef char* end = digits + INTEGER_BYTES + 1
    cdef char* at = end
    # The bits of -value, which for -(2**63) is no long long.
    cdef unsigned long long rest = -<unsigned long long>value if value < 0 else <unsigned long long>value
    if overflow:
        return put_bytes(writer, dumps_integer(number))
    while True:
        at -= 1
        at[0] = <char>(c"0" + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        at -= 1
        at[0] = c"-"
    put(writer, at, end - at)
    return None


cdef inline object put_string(Writer* writer, text):
    """Puts a string; returns the object that holds its bytes. The caller holds `text` itself."""
    cdef const char* start
    cdef Py_ssize_t size
    if PyUnicode_IS_ASCII(text):
        start = <const char*>PyUnicode_DATA(text)
        size = PyUnicode_GET_LENGTH(text)
        if skip_plain(<const uint8_t*>start, <const uint8_t*>start + size) == <const uint8_t*>start + size:
            put(writer, b'"', 1)
            put(writer, start, size)
            put(writer, b'"', 1)
            return text
    return put_bytes(writer, dumps(text))


cdef inline object put_id(Writer* writer, id):
    if isinstance(id, int) and not isinstance(id, bool):
        return put_integer(writer, writer.digits[0], id)
    if isinstance(id, str):
        return put_string(writer, id)
    check_id(id)
    return put_bytes(writer, dumps(id))


cdef inline bytes on_one_line(bytes text):
    """JSON with the line breaks between its tokens made spaces; in its strings there are none."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef const char* start = PyBytes_AS_STRING(text)
    if memchr(start, c"\n", size) != NULL or memchr(start, c"\r", size) != NULL:
        return text.replace(b"\n", b" ").replace(b"\r", b" ")
    return text


cdef inline bytes put_payload(Writer* writer, value, default, option):
    cdef bytes text
    if type(value) is Raw:
        text = on_one_line((<Raw>value).data)
    elif default is None and option is ZERO:
        try:
            text = dumps_unchecked(value)
        except TypeError as error:
            raise EncodeError(str(error)) from error.__cause__
    else:
        text = dumps(value, default, option)
    put(writer, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return text


cdef inline bytes join(Writer* writer, Buffer buffer):
    """The pieces as bytes, or at the end of a buffer."""
    cdef Py_ssize_t size = 0
    cdef int i
    cdef bytes text = None
    cdef char* at
    for i in range(writer.count):
        size += writer.pieces[i].size
    if buffer is None:
        text = PyBytes_FromStringAndSize(NULL, size)
        at = PyBytes_AS_STRING(text)
    else:
        at = buffer.reserve(size)
    for i in range(writer.count):
        memcpy(at, writer.pieces[i].text, writer.pieces[i].size)
        at += writer.pieces[i].size
    return text


cdef inline bint is_large_leaf(PyObject* value) noexcept:
    return PyUnicode_Check(<object>value) and PyUnicode_GET_LENGTH(<object>value) > LARGE_BYTES


cdef bint is_large(PyObject* value, int* nodes) noexcept:
    """Whether a payload is surely, or as far as a glance at some of it tells, more than LARGE_BYTES of JSON."""
    cdef PyObject* item
    cdef Py_ssize_t place = 0
    if PyDict_Check(<object>value):
        nodes[0] -= <int>min(PyDict_Size(<object>value), LARGE_NODES)
        if nodes[0] < 0:
            return True
        while PyDict_Next(<object>value, &place, NULL, &item):
            if is_large_leaf(item) or is_large(item, nodes):
                return True
        return False
    if PyList_Check(<object>value):
        nodes[0] -= <int>min(PyList_GET_SIZE(<object>value), LARGE_NODES)
        if nodes[0] < 0:
            return True
        for place in range(PyList_GET_SIZE(<object>value)):
            item = PyList_GET_ITEM(<object>value, place)
            if is_large_leaf(item) or is_large(item, nodes):
                return True
        return False
    return is_large_leaf(value)


cdef inline bytes write_large(dict envelope, bint delimited):
    """A message by orjson alone: the payload is written once and not copied. None where orjson refuses."""
    try:
        return dumps_unchecked(envelope, None, APPEND_NEWLINE if delimited else ZERO)
    except TypeError:
        return None


cdef inline bint may_be_large(payload, default, option, Buffer buffer) noexcept:
    cdef int nodes = LARGE_NODES
    return buffer is None and default is None and option is ZERO and is_large(<PyObject*>payload, &nodes)


cdef bytes write_call(bint is_request, id, method, params, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    cdef bytes payload
    cdef bytes text
    if isinstance(params, (dict, list)) and may_be_large(params, default, option, buffer):
        if is_request:
            check_id(id)
        check_method(method)
        if is_request:
            text = write_large({"jsonrpc": VERSION, "id": id, "method": method, "params": params}, delimited)
        else:
            text = write_large({"jsonrpc": VERSION, "method": method, "params": params}, delimited)
        if text is not None:
            return text
    writer.count = 0
    held_id = None
    if is_request:
        put(&writer, b'{"jsonrpc":"2.0","id":', 22)
        held_id = put_id(&writer, id)
        put(&writer, b',"method":', 10)
    else:
        put(&writer, b'{"jsonrpc":"2.0","method":', 26)
    check_method(method)
    held_method = put_string(&writer, method)
    if params is not None:
        put(&writer, b',"params":', 10)
        payload = put_payload(&writer, params, default, option)
        if not payload.startswith((b"{", b"[")):
            raise TypeError(
                f"params must be an object or an array in JSON, not what {type(params).__name__} is written as"
            )
    put(&writer, b"}\n", 2 if delimited else 1)
    return join(&writer, buffer)


cdef bytes write_result(id, result, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    cdef bytes text
    if may_be_large(result, default, option, buffer):
        check_id(id)
        text = write_large({"jsonrpc": VERSION, "id": id, "result": result}, delimited)
        if text is not None:
            return text
    writer.count = 0
    put(&writer, b'{"jsonrpc":"2.0","id":', 22)
    held_id = put_id(&writer, id)
    put(&writer, b',"result":', 10)
    payload = put_payload(&writer, result, default, option)
    put(&writer, b"}\n", 2 if delimited else 1)
    return join(&writer, buffer)


cdef bytes write_error(id, code, message, data, default, option, bint delimited, Buffer buffer):
    cdef Writer writer
    writer.count = 0
    put(&writer, b'{"jsonrpc":"2.0","id":', 22)
    held_id = put_id(&writer, id)
    check_error(code, message)
    put(&writer, b',"error":{"code":', 17)
    held_code = put_integer(&writer, writer.digits[1], code)
    put(&writer, b',"message":', 11)
    held_message = put_string(&writer, message)
    if data is not UNSET:
        put(&writer, b',"data":', 8)
        payload = put_payload(&writer, data, default, option)
    put(&writer, b"}}\n", 3 if delimited else 2)
    return join(&writer, buffer)


# Answering.


def answer(received, handler, *, delimited=True, default=None, option=0):
    """The reply to what `decode` returned, as bytes; b"" where none is due (sections 4.1 and 6).

    handler: called with each request, for which it returns a Response, and with each notification. A ParseError is
    answered where its sender waits for it, a response never. A batch is answered by a batch, in its order.
    Raises what the handler does, TypeError where it returns no Response to a request, and what `encode` does.
    """
    if isinstance(received, list):
        replies = [reply for item in received if (reply := reply_to(item, handler)) is not None]
        return encode(replies, delimited=delimited, default=default, option=option)
    reply = reply_to(received, handler)
    return b"" if reply is None else encode_message(reply, default, option, delimited)


cdef object reply_to(received, handler):
    if type(received) is Request:
        response = handler(received)
        if type(response) is not Response:
            raise TypeError(f"the handler must return a Response to a request, not {type(response).__name__}")
        return response
    if type(received) is Notification:
        handler(received)
    elif isinstance(received, ParseError):
        return received.to_response() if received.reply_expected else None
    elif type(received) is not Response:
        raise TypeError(f"received must be what decode returned, not {type(received).__name__}")
    return None
