"""The messages, and what their constructors check.

The free lists are as long as that because a stream's chunk gives hundreds of messages at once.
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
cdef class Request:
    """Request(id, method, params=None)
--

    A call that expects a response (section 4): id, method, params (None if absent).
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
@cython.freelist(1024)
cdef class Notification:
    """Notification(method, params=None)
--

    A call that expects no response (section 4.1): method, params (None if absent).
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
@cython.freelist(1024)
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
    """What went wrong, inside a response (section 5.1): code, message, data (UNSET if absent).
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


cdef bytes NULL_TEXT = b"null"
cdef bint is_making_raw = False  # by `make_raw`, which fills it


@cython.final
@cython.freelist(1024)
cdef class Raw:
    """Raw(data)
--

    A checked JSON text, kept as bytes: a payload that is passed on, or read later.
    """

    cdef bytes owner  # holds the text; the whole message that was decoded, until the bytes are asked for
    cdef const uint8_t* start
    cdef Py_ssize_t size
    cdef bint exact  # big_ints="exact"

    def __cinit__(self):
        # There is no Raw without bytes to point at: until `__init__` has been called, null.
        if not is_making_raw:
            self.owner = NULL_TEXT
            self.start = <const uint8_t*>PyBytes_AS_STRING(NULL_TEXT)
            self.size = 4

    def __init__(self, data):
        cdef Cursor cursor
        cdef Value value
        cdef const uint8_t* start
        if self.owner is not NULL_TEXT:
            refuse_again(self)
        if isinstance(data, str):
            fault = fault_of_str(data)
            if fault is not None:
                raise fault
            text = data.encode()
        elif isinstance(data, (bytes, bytearray, memoryview)):
            text = bytes(data)
        else:
            raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
        start = <const uint8_t*>PyBytes_AS_STRING(text)
        open_cursor(&cursor, start, PyBytes_GET_SIZE(text), False)
        skip_space(&cursor)
        if not skip_value(&cursor, False, &value) or not read_end(&cursor):
            raise fault_of_text(start, &cursor, None)
        if value.depth > MAX_DEPTH:
            raise ParseError.too_deep()
        self.owner = text
        self.start = value.start
        self.size = value.end - value.start

    cdef bytes text(self):
        """The bytes of this value alone."""
        if self.size != PyBytes_GET_SIZE(self.owner):
            self.owner = PyBytes_FromStringAndSize(<const char*>self.start, self.size)
            self.start = <const uint8_t*>PyBytes_AS_STRING(self.owner)
        return self.owner

    def decode(self, decoder=None):
        """What a decoder makes of the bytes: orjson, or one that is given, such as a typed one. Raises what it does."""
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
        return f"Raw({shorten(self.text())})"

    def __reduce__(self):
        return remake_raw, (self.text(), self.exact)


def remake_raw(bytes data, exact):
    """A `Raw` from its pickle, which has been checked."""
    return make_raw(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data, exact)


cdef inline Raw make_raw(const uint8_t* start, Py_ssize_t size, owner, bint exact):
    """A `Raw` of a part of `owner`, which is bytes; of a copy where it is anything else."""
    global is_making_raw
    cdef Raw raw
    is_making_raw = True
    raw = Raw.__new__(Raw)
    is_making_raw = False
    if PyBytes_CheckExact(owner):
        raw.owner = <bytes>owner
        raw.start = start
    else:
        raw.owner = PyBytes_FromStringAndSize(<const char*>start, size)
        raw.start = <const uint8_t*>PyBytes_AS_STRING(raw.owner)
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
