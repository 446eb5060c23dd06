"""From a text to messages, by the fast path or the slow path, and the ways in from Python."""

cdef extern from *:
    """
    /* Redirect the calls of `function` to `call`. Return the old target; NULL if calls cannot be redirected. */
    static void *jsonrpc_fast_set_call(PyObject *function, void *call) {
        PyTypeObject *type = Py_TYPE(function);
        vectorcallfunc *place = (vectorcallfunc *)((char *)function + type->tp_vectorcall_offset);
        vectorcallfunc old;
        if (!jsonrpc_fast_uses(OWN_CALLS) || !PyType_HasFeature(type, Py_TPFLAGS_HAVE_VECTORCALL))
            return NULL;
        old = *place;
        *place = (vectorcallfunc)call;
        return (void *)old;
    }

    /* A new tuple of a class without its own `__new__`, with empty items. */
    static CYTHON_INLINE PyObject *jsonrpc_fast_new_record(PyObject *cls, Py_ssize_t size) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, size);
    }
    """
    void* set_call "jsonrpc_fast_set_call"(object function, void* call)
    object new_record "jsonrpc_fast_new_record"(object cls, Py_ssize_t size)

cdef str REQUEST = "request"
cdef str NOTIFICATION = "notification"
cdef str RESULT = "result"
cdef str ERROR = "error"
cdef str BATCH = "batch"
cdef str INVALID = "invalid"

cdef extern from "Python.h":
    void set_record_item "PyTuple_SET_ITEM"(object record, Py_ssize_t index, PyObject* value)
    bint is_bytes "PyBytes_CheckExact"(PyObject* value)


cdef inline object decode_text(const uint8_t* start, Py_ssize_t size, Rules rules, PyObject* raw):
    """The result for any text. raw: NULL to decode payloads; else the bytes object that holds the text, or True if a `Raw`
    must copy it."""
    cdef ValueReader reader
    cdef PyObject* message
    if size <= rules.message_bytes:
        open_reader(&reader, start, start + size, rules.depth, rules.numbers)
        message = read_text_fast(&reader, start, rules, raw)
        if message != NULL:
            return owned(message)
    return decode_slow(start, size, rules, None if raw == NULL else <object>raw, True)


cdef inline object decode_bytes(bytes text, Rules rules, bint raw):
    return decode_text(
        <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules, <PyObject*>text if raw else NULL
    )


cdef inline PyObject* kind_of_raw(bint raw) noexcept:
    """The argument of `decode_text` for a text that no bytes object holds."""
    return TRUE_VALUE if raw else NULL


def _decode_fast(bytes text not None, profile, raw):
    """The message that the fast path finds in a text, or None, for tests of what it reads."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(text)
    cdef Rules rules = rules_of(profile)
    cdef ValueReader reader
    cdef PyObject* message
    open_reader(&reader, start, start + PyBytes_GET_SIZE(text), rules.depth, rules.numbers)
    message = read_text_fast(&reader, start, rules, <PyObject*>text if raw else NULL)
    return None if message == NULL else owned(message)


def decode(data, profile=JSONRPC, *, raw=False):
    """`_pure.decode`"""
    cdef Rules rules = rules_of(profile)
    if not PyBytes_CheckExact(data):
        if isinstance(data, str) and PyUnicode_IS_ASCII(data):
            return decode_text(
                <const uint8_t*>PyUnicode_DATA(data), PyUnicode_GET_LENGTH(data), rules, kind_of_raw(raw)
            )
        data = bytes_given(data)
    return decode_bytes(<bytes>data, rules, raw)


def classify(data):
    """`_pure.classify`"""
    return classification_of(decode(data, raw=True))


cdef object classification_of(message):
    if type(message) is Request:
        return new_classification(REQUEST, (<Request>message).method, (<Request>message).id)
    if type(message) is Notification:
        return new_classification(NOTIFICATION, (<Notification>message).method, None)
    if type(message) is Response:
        return new_classification(RESULT if (<Response>message).error is None else ERROR, None, (<Response>message).id)
    if type(message) is list:
        return new_classification(BATCH, None, None)
    return new_classification(INVALID, None, message.id)


cdef inline object new_classification(kind, method, id):
    """A Classification, without a call of its class."""
    record = new_record(Classification, 3)
    set_record_item(record, 0, held(kind))
    set_record_item(record, 1, held(method))
    set_record_item(record, 2, held(id))
    return record


cdef object DEFAULT_PROFILE = JSONRPC
cdef str PROFILE_NAME = "profile"
cdef str RAW_NAME = "raw"


cdef object call_decode(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `decode`: with exact bytes, a profile and `raw` as a bool here, in any other form by Cython's function.

    The caller holds the arguments.
    """
    if names == NULL and PyVectorcall_NARGS(flags) == 1 and is_bytes(arguments[0]):
        return decode_bytes(<bytes>arguments[0], DEFAULT_RULES, False)
    return call_decode_with(function, arguments, flags, names)


cdef object call_decode_with(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    cdef PyObject* profile = <PyObject*>DEFAULT_PROFILE
    cdef PyObject* raw = FALSE_VALUE
    cdef PyObject* name
    cdef Py_ssize_t i
    cdef Rules rules
    if count not in (1, 2) or not is_bytes(arguments[0]):
        return slow_decode(function, arguments, flags, names)
    if count == 2:
        profile = arguments[1]
    if names != NULL:
        for i in range(tuple_size(names)):
            name = tuple_item(names, i)
            if name == <PyObject*>RAW_NAME:
                raw = arguments[count + i]
            elif name == <PyObject*>PROFILE_NAME and count == 1:
                profile = arguments[count + i]
            else:
                return slow_decode(function, arguments, flags, names)
        if raw != TRUE_VALUE and raw != FALSE_VALUE:
            return slow_decode(function, arguments, flags, names)
    rules = rules_of(<object>profile)
    return decode_bytes(<bytes>arguments[0], rules, raw == TRUE_VALUE)


cdef object call_classify(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `classify`, as `call_decode`."""
    if PyVectorcall_NARGS(flags) != 1 or names != NULL or not is_bytes(arguments[0]):
        return slow_classify(function, arguments, flags, names)
    return classification_of(decode_bytes(<bytes>arguments[0], rules_of(DEFAULT_PROFILE), True))


cdef object call_parse(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `parse`, as `call_decode`."""
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if count not in (1, 2) or names != NULL or not is_dict(arguments[0]):
        return slow_parse(function, arguments, flags, names)
    return check_dict(
        <object>arguments[0], rules_of(<object>arguments[1] if count == 2 else DEFAULT_PROFILE), None, True
    )


cdef Call slow_decode = <Call>set_call(decode, <void*>call_decode)
cdef Call slow_classify = <Call>set_call(classify, <void*>call_classify)
cdef Call slow_parse = <Call>set_call(parse, <void*>call_parse)
