"""Message classes and the checks in their constructors.

The free lists are long because one chunk of a stream can hold hundreds of messages. With the trashcan, freeing a long
chain of messages, each the payload of the next, does not overflow the stack.
"""


cdef object fields_of(value):
    return tuple([getattr(value, name) for name in value.__match_args__])


cdef object is_equal(value, other):
    if type(value) is not type(other):
        return NotImplemented
    mine, theirs = fields_of(value), fields_of(other)
    # The first field may be an id: 1 and 1.0 are written differently, so they are different ids.
    return mine == theirs and isinstance(mine[0], float) == isinstance(theirs[0], float)


cdef object repr_of(value):
    fields = ", ".join([f"{name}={shorten(getattr(value, name))}" for name in value.__match_args__])
    return f"{type(value).__name__}({fields})"


cdef object refuse_again(value):
    """A second call of `__init__` would change the object."""
    raise TypeError(f"{type(value).__name__} is immutable")


# Methods of the three message classes.


def to_bytes(self):
    """Return the message as one line of JSON, without a line ending.

    Raises:
        EncodeError: a value cannot be written as JSON.
    """
    return encode_message(self, None, 0, False)


def to_bytes_delimited(self):
    """Return the message as one line of JSON that ends in `\\n`.

    Raises:
        EncodeError: a value cannot be written as JSON.
    """
    return encode_message(self, None, 0, True)


def to_str(self):
    """Return the message as one line of JSON in a str, without a line ending.

    Raises:
        EncodeError: a value cannot be written as JSON.
    """
    return encode_message(self, None, 0, False).decode()


@cython.final
@cython.freelist(1024)
@cython.trashcan(True)
cdef class Request:
    """Request(id, method, params=None)
--

    A call that expects a response (section 4).

    Args:
        id: an int, a str, a float or None (null). The response carries the same id.
        method: the name of the method.
        params: a dict, a list or a `Raw` of either; None if absent.

    Raises:
        TypeError: an argument has another type.
        ValueError: the id is infinite, NaN, or longer than 640 bytes.
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
        """Read a request from a decoded JSON object.

        Returns:
            None if the object is not a valid request; it never raises for one.
        """
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Request else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        if self.params is None:
            return {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        return {"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

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

    A call that gets no response (section 4.1).

    Args:
        method: the name of the method.
        params: a dict, a list or a `Raw` of either; None if absent.

    Raises:
        TypeError: an argument has another type.
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
        """Read a notification from a decoded JSON object.

        Returns:
            None if the object is not a valid notification; it never raises for one.
        """
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Notification else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        if self.params is None:
            return {"jsonrpc": "2.0", "method": self.method}
        return {"jsonrpc": "2.0", "method": self.method, "params": self.params}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

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

    The response to a request (section 5): an error if `error` is not None, else a result.

    Args:
        id: the id of the request; None is null, or the missing id of an error in a profile that allows that.
        result: any JSON value.
        error: an Error; None for a result.

    Raises:
        TypeError: an argument has another type.
        ValueError: both a result and an error are given, or the id is refused as in `Request`.
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
        """Read a response from a decoded JSON object.

        Returns:
            None if the object is not a valid response; it never raises for one.
        """
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Response else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        if self.error is not None:
            return {"jsonrpc": "2.0", "id": self.id, "error": self.error.to_dict()}
        return {"jsonrpc": "2.0", "id": self.id, "result": self.result}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

    def __eq__(self, other):
        return is_equal(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return remake, (__name__, "Response", self.id, self.result, self.error)


@cython.final
@cython.trashcan(True)
cdef class Error:
    """The error object of a response (section 5.1).

    Args:
        code: an int of 64 bits; a subclass of int becomes an int.
        message: a short description.
        data: any JSON value; UNSET if absent (None is `"data": null`).

    Raises:
        TypeError: an argument has another type.
        ValueError: the code is beyond 64 bits.
    """

    cdef readonly object code
    cdef readonly object message
    cdef readonly object data
    __match_args__ = ("code", "message", "data")
    # A docstring cannot show a default that is not a literal.
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
        """Read an error from a decoded JSON object.

        Returns:
            None if the object is not a valid error; it never raises for one.
        """
        try:
            error = check_error_object(obj)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # from the comparison of a key
            return None
        return error if type(error) is Error else None

    def to_dict(self):
        """Return the error as a dict. `data` is shared, not copied."""
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
    # A `Raw` keeps the whole text alive if that is no longer than this, or than PINNED_FOLD times the part used.
    PINNED_BYTES = 16384
    PINNED_FOLD = 4


@cython.final
@cython.freelist(1024)
cdef class Raw:
    """Raw(data)
--

    A checked JSON text, kept as bytes: a payload to pass on, or to decode later.

    Args:
        data: one JSON value in UTF-8, as bytes, bytearray, memoryview or str.

    Raises:
        TypeError: `data` has another type.
        ParseError: the text is not JSON, or nests deeper than 1024.
    """

    cdef bytes owner  # the bytes that `start` points into: the whole message, or this value; None before `__init__`
    cdef const uint8_t* start  # hold `owner` too when using it across a call: another thread may replace both
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
        """Decode the JSON text.

        Args:
            decoder: called with the bytes, such as the `decode` of a typed decoder; orjson if None.

        Returns:
            What the decoder returns. What it raises passes on.
        """
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
    """Return a `Raw` from its pickled state, which is checked already."""
    return make_raw(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data, exact)


cdef inline Raw make_raw(const uint8_t* start, Py_ssize_t size, owner, bint exact):
    """A `Raw` that points into `owner`; into a copy if `owner` is not bytes, or much larger."""
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
        raise TypeError(f"params must be a dict, a list, a Raw of either, or None, not {type(params).__name__}")
    return 0


cdef object check_error(code, message):
    """The code, as an int."""
    cdef int overflow = 0
    if PyLong_CheckExact(code):
        PyLong_AsLongLongAndOverflow(code, &overflow)
    if overflow or not PyLong_CheckExact(code):
        code = plain_error_code(code)
    if not isinstance(message, str):
        raise TypeError(f"message must be a str, not {type(message).__name__}")
    return code
