"""Message classes and the checks in their constructors. `free_lists.pxi` makes the messages that are decoded.

With the trashcan, freeing a long chain of messages, each the payload of the next, does not overflow the stack.
"""


@cython.final
@cython.auto_pickle(False)
cdef class PayloadWithExtra:
    """A payload with the unknown members of its message. It is stored in place of the payload, so that messages without
    unknown members have no field for them."""

    cdef object payload
    cdef dict extra


cdef inline object with_extra(payload, extra):
    cdef PayloadWithExtra extended
    if extra is None:
        return payload
    extended = PayloadWithExtra.__new__(PayloadWithExtra)
    extended.payload = payload
    extended.extra = <dict?>extra
    return extended


cdef inline object payload_in(stored):
    return (<PayloadWithExtra>stored).payload if type(stored) is PayloadWithExtra else stored


cdef inline object extra_in(stored):
    return (<PayloadWithExtra>stored).extra if type(stored) is PayloadWithExtra else None


cdef object fields_of(value):
    cdef list fields = []
    for name in value.__match_args__:
        fields.append(getattr(value, name))
    return tuple(fields)


cdef extern from "Python.h":
    # Identity first, as in the comparison of tuples.
    bint is_same "PyObject_RichCompareBool"(object value, object other, int operator) except -1


cdef inline bint is_equal(value, other) except -1:
    return is_same(value, other, Py_EQ)


cdef object compare(message, other):
    """What `__eq__` of the four classes returns."""
    if type(other) is not type(message):
        return NotImplemented
    for name in (*message.__match_args__, "extra"):
        if not is_equal(getattr(message, name), getattr(other, name)):
            return False
    if type(message) is not Request and type(message) is not Response:
        return True
    # 1 and 1.0 are written differently, so they are different ids.
    return isinstance(message.id, float) == isinstance(other.id, float)


cdef object repr_of(message):
    cdef list fields = []
    value = message  # held: a list does not hold the item that it shows
    for name in value.__match_args__ if value.extra is None else (*value.__match_args__, "extra"):
        fields.append(f"{name}={shorten(getattr(value, name))}")
    return f"{type(value).__name__}({', '.join(fields)})"


cdef object reduce_value(value):
    if value.extra is not None:
        return remake, (__name__, "_make_with_extra", type(value).__name__, fields_of(value), value.extra)
    return remake, (__name__, type(value).__name__, *fields_of(value))


cdef name_publicly():
    """Give the classes the names under which they are public: pickles of the classes themselves have them."""
    # The name of a type that is not on the heap is this field alone; Cython would put the module before it.
    (<PyTypeObject*>Error).tp_name = b"jsonrpc_fast.Error"
    (<PyTypeObject*>Notification).tp_name = b"jsonrpc_fast.Notification"
    (<PyTypeObject*>Raw).tp_name = b"jsonrpc_fast.Raw"
    (<PyTypeObject*>Request).tp_name = b"jsonrpc_fast.Request"
    (<PyTypeObject*>Response).tp_name = b"jsonrpc_fast.Response"


def _make_with_extra(name, fields, extra):
    """Return an object with extra members from its pickled state."""
    return globals()[name](*fields, extra=extra)


cdef object refuse_again(value):
    """Refuse a second call of `__init__`, which would change the object."""
    raise TypeError(f"{type(value).__name__} is immutable")


def replace(self, **changes):
    """Return a copy with some fields changed, which are checked: `request.replace(id=2)`."""
    fields = dict(zip(self.__match_args__, fields_of(self)))
    return type(self)(**{**fields, "extra": self.extra, **changes})


# Methods of the three message classes.


def to_bytes(self):
    """Return the message as one line of JSON, without a line ending, which `encode` writes by default.

    Raises:
        EncodeError: A value cannot be written as JSON.
    """
    return encode_message(self, FORM_2_0, None, 0, False)


def to_bytes_delimited(self):
    """Return the message as one line of JSON that ends in `\\n`.

    Raises:
        EncodeError: A value cannot be written as JSON.
    """
    return encode_message(self, FORM_2_0, None, 0, True)


def to_str(self):
    """Return the message as one line of JSON in a str, without a line ending.

    Raises:
        EncodeError: A value cannot be written as JSON.
    """
    return encode_message(self, FORM_2_0, None, 0, False).decode()


@cython.binding(False)
@cython.final
@cython.trashcan(True)
cdef class Request:
    """Request(id, method, params=None, *, extra=None)
--

    `_messages.Request`"""

    cdef readonly object id
    cdef readonly object method
    cdef object stored  # the params, perhaps in a `PayloadWithExtra`
    __match_args__ = ("id", "method", "params")
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, id=MISSING, method=MISSING, params=None, *, extra=None):
        if id is MISSING or method is MISSING:
            raise missing_arguments("Request", id=id, method=method)
        if self.method is not None:
            refuse_again(self)
        check_id(id)
        check_method(method)
        params = checked_params(params)
        stored = params if extra is None else with_extra(params, check_extra(extra, ENVELOPE_MEMBERS))
        self.id = id
        self.method = method
        self.stored = stored

    @property
    def params(self):
        return payload_in(self.stored)

    @property
    def extra(self):
        """The members that JSON-RPC does not define; None without any, or if the profile does not keep them."""
        return extra_in(self.stored)

    @cython.binding(True)
    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """`_messages.Request.from_dict`"""
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Request else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        message = {"jsonrpc": "2.0", "id": self.id, "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return message if self.extra is None else {**message, **self.extra}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

    def __eq__(self, other):
        return compare(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return reduce_value(self)

    __replace__ = replace  # for `copy.replace`
    replace = replace


@cython.binding(False)
@cython.final
@cython.trashcan(True)
cdef class Notification:
    """Notification(method, params=None, *, extra=None)
--

    `_messages.Notification`"""

    cdef readonly object method
    cdef object stored  # the params, perhaps in a `PayloadWithExtra`
    __match_args__ = ("method", "params")
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, method=MISSING, params=None, *, extra=None):
        if method is MISSING:
            raise missing_arguments("Notification", method=method)
        if self.method is not None:
            refuse_again(self)
        check_method(method)
        params = checked_params(params)
        stored = params if extra is None else with_extra(params, check_extra(extra, ENVELOPE_MEMBERS))
        self.method = method
        self.stored = stored

    @property
    def params(self):
        return payload_in(self.stored)

    @property
    def extra(self):
        """The members that JSON-RPC does not define; None without any, or if the profile does not keep them."""
        return extra_in(self.stored)

    @cython.binding(True)
    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """`_messages.Notification.from_dict`"""
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Notification else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        message = {"jsonrpc": "2.0", "method": self.method}
        if self.params is not None:
            message["params"] = self.params
        return message if self.extra is None else {**message, **self.extra}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

    def __eq__(self, other):
        return compare(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return reduce_value(self)

    __replace__ = replace  # for `copy.replace`
    replace = replace


@cython.binding(False)
@cython.final
@cython.trashcan(True)
cdef class Response:
    """Response(id, result=None, error=None, *, extra=None)
--

    `_messages.Response`"""

    cdef readonly object id
    cdef object stored  # the result, perhaps in a `PayloadWithExtra`
    cdef readonly object error
    cdef bint made
    __match_args__ = ("id", "result", "error")
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, id=MISSING, result=None, error=None, *, extra=None):
        if id is MISSING:
            raise missing_arguments("Response", id=id)
        if self.made:
            refuse_again(self)
        check_id(id)
        if error is not None:
            if type(error) is not Error:
                raise TypeError(f"error must be an Error or None, not {type(error).__name__}")
            if result is not None:
                raise ValueError("a response has a result or an error, not both")
        check_result(result)
        stored = result if extra is None else with_extra(result, check_extra(extra, RESERVED_IN_RESPONSES))
        self.id = id
        self.stored = stored
        self.error = error
        self.made = True

    @property
    def result(self):
        return payload_in(self.stored)

    @property
    def extra(self):
        """The members that JSON-RPC does not define; None without any, or if the profile does not keep them."""
        return extra_in(self.stored)

    @property
    def is_error(self):
        return self.error is not None

    @cython.binding(True)
    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """`_messages.Response.from_dict`"""
        message = check_dict_or_none(obj, rules_of(profile))
        return message if type(message) is Response else None

    def to_dict(self):
        """Return the message as a dict. The payload is shared, not copied."""
        if self.error is not None:
            message = {"jsonrpc": "2.0", "id": self.id, "error": self.error.to_dict()}
        else:
            message = {"jsonrpc": "2.0", "id": self.id, "result": self.result}
        return message if self.extra is None else {**message, **self.extra}

    to_bytes = to_bytes
    to_bytes_delimited = to_bytes_delimited
    to_str = to_str

    def __eq__(self, other):
        return compare(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return reduce_value(self)

    __replace__ = replace  # for `copy.replace`
    replace = replace


@cython.binding(False)
@cython.final
@cython.trashcan(True)
cdef class Error:
    """`_messages.Error`"""

    cdef readonly object code
    cdef readonly object message
    cdef object stored  # the data, perhaps in a `PayloadWithExtra`
    __match_args__ = ("code", "message", "data")
    # A docstring cannot show a default that is not a literal.
    __signature__ = Signature(
        [
            Parameter("code", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("message", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("data", Parameter.POSITIONAL_OR_KEYWORD, default=UNSET),
            Parameter("extra", Parameter.KEYWORD_ONLY, default=None),
        ]
    )

    def __init__(self, code=MISSING, message=MISSING, data=UNSET, *, extra=None):
        if code is MISSING or message is MISSING:
            raise missing_arguments("Error", code=code, message=message)
        if self.message is not None:
            refuse_again(self)
        code = check_error(code, message)
        stored = data if extra is None else with_extra(data, check_extra(extra, ERROR_MEMBERS))
        self.code = code
        self.message = message
        self.stored = stored

    @property
    def data(self):
        return payload_in(self.stored)

    @property
    def extra(self):
        """The members that JSON-RPC does not define; None without any, or if the profile does not keep them."""
        return extra_in(self.stored)

    @cython.binding(True)
    @classmethod
    def from_dict(cls, obj, profile=JSONRPC):
        """`_messages.Error.from_dict`"""
        cdef Rules rules = rules_of(profile)
        try:
            return error_or_none(obj, rules)
        except (MemoryError, RecursionError):
            raise
        except Exception:  # from the comparison of a key
            pass
        return None

    def to_dict(self):
        """Return the error as a dict. `data` is shared, not copied."""
        error = {"code": self.code, "message": self.message}
        if self.data is not UNSET:
            error["data"] = self.data
        return error if self.extra is None else {**error, **self.extra}

    def __eq__(self, other):
        return compare(self, other)

    def __repr__(self):
        return repr_of(self)

    def __reduce__(self):
        return reduce_value(self)

    __replace__ = replace  # for `copy.replace`
    replace = replace


cdef int check_id(id) except -1:
    # A subclass of float, such as NumPy's, cannot be written.
    if isinstance(id, bool) or not (id is None or type(id) is float or isinstance(id, (int, str))):
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


cdef object checked_params(params):
    if not (params is None or is_object_or_array(params, True)):
        expected = "a dict, a list, a tuple, a Raw of an object or array, or None"
        raise TypeError(f"params must be {expected}, not {type(params).__name__}")
    return list(<tuple>params) if type(params) is tuple else params


cdef inline int check_result(result) except -1:
    """An error or a message in place of the result is a mistake; no other value is checked."""
    return 0 if result is None or type(result) is dict else check_other_result(result)


cdef int check_other_result(result) except -1:
    kind = type(result)
    if (
        result is UNSET
        or kind is Error
        or kind is Request
        or kind is Notification
        or kind is Response
        or (isinstance(result, BaseException) and issubclass(kind, (errors.ParseError, RpcError)))
    ):
        raise TypeError(f"result must be a JSON value, not {kind.__name__}; pass an error as error=")
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
