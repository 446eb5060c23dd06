"""The messages, and what their constructors check.

The free lists are as long as that because a stream's chunk gives hundreds of messages at once. The trashcan keeps a long
chain of messages, each the payload of another, from overflowing the stack when it is freed.
"""


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
@cython.freelist(1024)
@cython.trashcan(True)
cdef class Request:
    """Request(id, method, params=None)
--

    A call that expects a response (section 4).

    id      int, str, float or None (null). The reply carries the very same
    method  str
    params  dict, list, or None if absent

    Raises TypeError for another type, ValueError for a float that JSON has no number for, and for an id of more than
    640 bytes, which no profile reads.
    """

    cdef readonly object id
    cdef readonly object method
    cdef readonly object params
    __match_args__ = ("id", "method", "params")
    __class_getitem__ = classmethod(GenericAlias)

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
        message = judge_or_none(obj, rules_of(profile))
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
        """The message as one line of JSON that ends in the only `\\n` in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return remake, (__name__, "Request", self.id, self.method, self.params)


@cython.final
@cython.freelist(1024)
@cython.trashcan(True)
cdef class Notification:
    """Notification(method, params=None)
--

    A call that expects no response (section 4.1).

    method  str
    params  dict, list, or None if absent

    Raises TypeError for another type.
    """

    cdef readonly object method
    cdef readonly object params
    __match_args__ = ("method", "params")
    __class_getitem__ = classmethod(GenericAlias)

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
        message = judge_or_none(obj, rules_of(profile))
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
        """The message as one line of JSON that ends in the only `\\n` in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return remake, (__name__, "Notification", self.method, self.params)


@cython.final
@cython.freelist(1024)
@cython.trashcan(True)
cdef class Response:
    """Response(id, result=None, error=None)
--

    The answer to a request (section 5): an error where `error` is not None, else a result.

    id      int, str, float or None (null, or an error that lacks it in a profile that allows it)
    result  any value
    error   an Error or None

    Raises TypeError for another type, ValueError for both a result and an error, and for an id as in `Request`.
    """

    cdef readonly object id
    cdef readonly object result
    cdef readonly object error
    cdef bint made
    __match_args__ = ("id", "result", "error")
    __class_getitem__ = classmethod(GenericAlias)

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
        message = judge_or_none(obj, rules_of(profile))
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
        """The message as one line of JSON that ends in the only `\\n` in it. Raises EncodeError."""
        return encode_message(self, None, 0, True)

    def to_str(self):
        """The message as one line of JSON without a line ending. Raises EncodeError."""
        return encode_message(self, None, 0, False).decode()

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return remake, (__name__, "Response", self.id, self.result, self.error)


@cython.final
@cython.trashcan(True)
cdef class Error:
    """What went wrong, inside a response (section 5.1).

    code     int of 64 bits, kept as a plain one
    message  str
    data     any value; UNSET if there is no such member, while None is `"data": null`

    Raises TypeError for another type, ValueError for a code beyond 64 bits.
    """

    cdef readonly object code
    cdef readonly object message
    cdef readonly object data
    __match_args__ = ("code", "message", "data")
    # A docstring can show no default that is not a literal.
    __signature__ = Signature(
        [
            Parameter("code", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("message", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("data", Parameter.POSITIONAL_OR_KEYWORD, default=UNSET),
        ]
    )

    def __init__(self, code, message, data=UNSET):
        if self.message is not None:
            refuse_again(self)
        self.code = check_error(code, message)
        self.message = message
        self.data = data

    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """The error that a decoded JSON object is, or None. Never raises."""
        try:
            error = judge_error(obj)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # a key's own comparison
            return None
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
        return remake, (__name__, "Error", self.code, self.message, self.data)


cdef enum:
    # A `Raw` holds on to a text that is no longer than this, or than PINNED_FOLD times its own part of it.
    PINNED_BYTES = 16384
    PINNED_FOLD = 4


@cython.final
@cython.freelist(1024)
cdef class Raw:
    """Raw(data)
--

    A checked JSON text, kept as bytes: a payload that is passed on, or read later.

    data: bytes, bytearray, memoryview or str that hold one JSON value, in UTF-8.
    Raises TypeError for another type, ParseError (a ValueError) for what is not JSON or nests deeper than 1024.
    """

    cdef bytes owner  # holds the text: the message that was decoded, or this value alone; None before `__init__`
    cdef const uint8_t* start  # in `owner`, so whoever uses it across a call holds that, too: another may replace both
    cdef Py_ssize_t size
    cdef bint exact  # big_ints="exact"

    def __cinit__(self):
        self.start = <const uint8_t*>NULL_TEXT
        self.size = 4

    def __init__(self, data):
        cdef Cursor cursor
        cdef Value value
        cdef bytes text
        cdef const uint8_t* start
        if self.owner is not None:
            refuse_again(self)
        found = bytes_or_fault(data)
        if type(found) is ParseError:
            raise found
        text = <bytes?>found
        start = <const uint8_t*>PyBytes_AS_STRING(text)
        open_cursor(&cursor, start, PyBytes_GET_SIZE(text), False)
        skip_space(&cursor)
        if not skip_value(&cursor, False, &value) or not read_end(&cursor):
            raise fault_of_text(start, &cursor, None)
        if value.depth > MAX_DEPTH:
            raise make_fault(TOO_DEEP)
        self.owner = text
        self.start = value.start
        self.size = value.end - value.start

    cdef bytes text(self):
        """The bytes of this value alone."""
        cdef bytes text
        if self.owner is None or self.size != PyBytes_GET_SIZE(self.owner):
            text = PyBytes_FromStringAndSize(<const char*>self.start, self.size)
            self.start = <const uint8_t*>PyBytes_AS_STRING(text)
            self.owner = text
        return self.owner

    def decode(self, decoder=None):
        """What a decoder makes of the bytes: orjson, or one that is given, such as a typed one. Raises what it does."""
        cdef bytes owner = self.owner
        if decoder is not None:
            return decoder(self.text())
        return loads_exact(self.text()) if self.exact else loads_part(self.start, self.size)

    def __bytes__(self):
        return self.text()

    def __len__(self):
        return self.size

    def __eq__(self, other):
        if type(other) is not Raw:
            return NotImplemented
        return self.size == (<Raw>other).size and memcmp(self.start, (<Raw>other).start, self.size) == 0

    def __hash__(self):
        return hash(self.text())

    def __repr__(self):
        cdef const char* start = <const char*>self.start
        if self.size <= SHOWN_BYTES:
            text = PyBytes_FromStringAndSize(start, self.size)
        else:
            text = PyBytes_FromStringAndSize(start, SHOWN_BYTES // 2)
            text += PyBytes_FromStringAndSize(start + self.size - SHOWN_BYTES // 2, SHOWN_BYTES // 2)
        return f"Raw({shorten(text)})"

    def __reduce__(self):
        return remake, (__name__, "_make_raw", self.text(), bool(self.exact))


def _make_raw(bytes data not None, bint exact):
    """A `Raw` from its pickle, which has been checked."""
    return make_raw(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data, exact)


cdef inline Raw make_raw(const uint8_t* start, Py_ssize_t size, owner, bint exact):
    """A `Raw` of a part of `owner`, which is bytes; of a copy where it is anything else, or much larger."""
    cdef Raw raw = Raw.__new__(Raw)
    if PyBytes_CheckExact(owner) and PyBytes_GET_SIZE(owner) <= max(PINNED_FOLD * size, PINNED_BYTES):
        raw.owner = <bytes>owner
    else:
        raw.owner = PyBytes_FromStringAndSize(<const char*>start, size)
        start = <const uint8_t*>PyBytes_AS_STRING(raw.owner)
    raw.start = start
    raw.size = size
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
    if id is not None and is_id_too_long(id, MAX_ID_BYTES):
        raise ValueError(f"id must be {MAX_ID_BYTES} bytes or less")
    return 0


cdef int check_method(method) except -1:
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")
    return 0


cdef int check_params(params) except -1:
    if not (params is None or is_object_or_array(params, True)):
        raise TypeError(f"params must be a dict, a list, a Raw of one, or None, not {type(params).__name__}")
    return 0


cdef object check_error(code, message):
    """The code as a plain int."""
    cdef int overflow = 0
    if PyLong_CheckExact(code):
        PyLong_AsLongLongAndOverflow(code, &overflow)
    if overflow or not PyLong_CheckExact(code):
        code = plain_error_code(code)
    if not isinstance(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return code
