"""Encoding: envelopes and payloads are written into one output."""


def encode(message, profile=JSONRPC, *, delimited=True, default=None, option=0):
    """`_messages.encode`"""
    if profile is not DEFAULT_PROFILE and not is_plain(plain := rules_of(profile).profile):
        from ._forms import encode_as  # loaded only for such profiles

        return encode_as(encode, message, plain, delimited, default, option)
    return encode_message(message, default, option, delimited)


def encode_many(messages, *, default=None, option=0):
    """`_messages.encode_many`"""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        for message in messages:
            if not isinstance(message, list) or message:
                at = write_any(&output, at, message, default, option) + 1
            if at > output.full:
                at = checked(grow(&output, at, 0))
        return finish(&output, at)
    finally:
        close_output(&output)


cdef char* write_any(Output* output, char* at, message, default, option) except NULL:
    """As `write_message`, for a message or a batch that is not empty."""
    cdef bint is_first = True
    if not isinstance(message, list):
        return write_message(output, at, message, default, option)
    for item in <list>message:
        at = checked(append(output, at, b"[" if is_first else b",", 1))
        is_first = False
        at = write_message(output, at, item, default, option)
    return checked(append(output, at, b"]\n", 2)) - 1


def encode_dict(message, profile=JSONRPC, *, delimited=True, default=None, option=0):
    """`_pure.encode_dict`"""
    check_option(option)
    judged = parse(message, profile)
    return write_dicts(message, judged, rules_of(profile).profile, Raw, delimited, default, option)


cdef inline char* checked(char* at) except NULL:
    """Raise what a function that returned NULL has set."""
    return at


cdef bytes encode_message(message, default, option, bint delimited):
    """What `encode` returns for most profiles."""
    cdef Output output
    cdef char* at
    if isinstance(message, list) and not message:
        return b""
    at = open_output(&output)
    try:
        at = write_any(&output, at, message, default, option)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


# The writers below write one message and a line ending, and return the end of the message. They begin at most a few
# bytes after `Output.full`: the callers write one or two bytes without a check of the room.


cdef char* write_message(Output* output, char* at, message, default, option) except NULL:
    cdef Request request
    cdef Notification notification
    cdef Response response
    cdef Error error
    if type(message) is Request:
        request = <Request>message
        if type(request.stored) is PayloadWithExtra:
            return write_extended(output, at, message, default, option)
        return write_call(output, at, True, request.id, request.method, request.stored, default, option)
    if type(message) is Notification:
        notification = <Notification>message
        if type(notification.stored) is PayloadWithExtra:
            return write_extended(output, at, message, default, option)
        return write_call(output, at, False, None, notification.method, notification.stored, default, option)
    if type(message) is not Response:
        raise not_a_message(message)
    response = <Response>message
    if type(response.stored) is PayloadWithExtra:
        return write_extended(output, at, message, default, option)
    if response.error is None:
        return write_result(output, at, response.id, response.stored, default, option)
    error = <Error>response.error
    if type(error.stored) is PayloadWithExtra:
        return write_extended(output, at, message, default, option)
    return write_error(output, at, response.id, error.code, error.message, error.stored, default, option)


cdef char* write_extended(Output* output, char* at, message, default, option) except NULL:
    """As `write_message`, for a message with extra members."""
    cdef Py_ssize_t start = at - output.start
    cdef bytes text
    reserved = ENVELOPE_MEMBERS
    error = None
    if type(message) is Request:
        at = write_call(output, at, True, message.id, message.method, message.params, default, option)
    elif type(message) is Notification:
        at = write_call(output, at, False, None, message.method, message.params, default, option)
    else:
        reserved = RESERVED_IN_RESPONSES
        error = message.error
        if error is None:
            at = write_result(output, at, message.id, message.result, default, option)
        else:
            at = write_error(output, at, message.id, error.code, error.message, error.data, default, option)
    text = PyBytes_FromStringAndSize(output.start + start, at - output.start - start)
    if error is not None and error.extra is not None:
        text = append_extra(text[:-1], error.extra, ERROR_MEMBERS, default, option) + b"}"
    if message.extra is not None:
        text = append_extra(text, message.extra, reserved, default, option)
    return write_unusual(output, output.start + start, text + b"\n") - 1


def encode_request(id, method, params=None, *, delimited=True, default=None, option=0):
    """`_messages.encode_request`"""
    return call_line(True, id, method, params, default, option, delimited)


def encode_notification(method, params=None, *, delimited=True, default=None, option=0):
    """`_messages.encode_notification`"""
    return call_line(False, None, method, params, default, option, delimited)


def encode_result(id, result, *, delimited=True, default=None, option=0):
    """`_messages.encode_result`"""
    return result_line_with(id, result, default, option, delimited)


def encode_error(id, code, message, data=UNSET, *, delimited=True, default=None, option=0):
    """`_messages.encode_error`"""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_error(&output, at, id, code, message, data, default, option)
        return finish(&output, at + <bint>delimited)
    finally:
        close_output(&output)


cdef inline char* write_text(Output* output, char* at, text) except NULL:
    """Write a str; `write_string` leaves those that orjson refuses."""
    cdef char* end = write_string(output, at, <PyObject*>text)
    if unlikely(end == NULL):
        if raised() != NULL:
            return checked(NULL)
        return write_unusual(output, at, dumps(text))
    return end


cdef char* write_unusual(Output* output, char* at, bytes text) except NULL:
    """Write JSON that a serializer returned."""
    if text is None:
        raise TypeError("a serializer returned None")
    return checked(append(output, at, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)))


cdef inline char* write_id "jsonrpc_fast_write_id"(Output* output, char* at, id) except NULL:
    cdef char* end
    if PyLong_CheckExact(id):
        end = write_integer(at, <PyObject*>id)
        if end != NULL:
            return end
    elif PyUnicode_CheckExact(id) and 4 * PyUnicode_GET_LENGTH(id) <= MAX_ID_BYTES:
        return write_text(output, at, id)
    return write_other_id(output, at, id)


cdef char* write_other_id(Output* output, char* at, id) except NULL:
    check_id(id)
    if isinstance(id, int):
        return write_wide(output, at, id)
    if isinstance(id, str):
        return write_text(output, at, id)
    return write_unusual(output, at, dumps(id))


cdef char* write_wide(Output* output, char* at, number) except NULL:
    """Write an int of any width."""
    return write_unusual(output, at, b"%d" % number)


cdef char* write_raw(Output* output, char* at, Raw raw) except NULL:
    """Write JSON with line breaks between tokens replaced by spaces; strings hold none."""
    cdef char* end = checked(append(output, at, <const char*>raw.start, raw.size))
    cdef char* place = end - raw.size
    if memchr(place, 0x0A, raw.size) != NULL or memchr(place, 0x0D, raw.size) != NULL:
        while place < end:
            if place[0] == 0x0A or place[0] == 0x0D:
                place[0] = c" "
            place += 1
    return end


cdef inline char* write_payload "jsonrpc_fast_write_payload"(
    Output* output, char* at, value, default, option
) except NULL:
    output.payload = at - output.start
    if default is None and option is ZERO and type(value) is not Raw:
        at = write_value(output, at, <PyObject*>value, WRITTEN_DEPTH, NULL)
        if at != NULL:
            return at
    return write_other_payload(output, value, default, option)


cdef char* write_other_payload(Output* output, value, default, option) except NULL:
    cdef char* at = output.start + output.payload
    if raised() != NULL:
        return checked(NULL)
    if type(value) is Raw:
        return write_raw(output, at, <Raw>value)
    if default is not None:
        return write_unusual(output, at, dumps(value, default, option))
    return write_unusual(output, at, dumps_checked(value, option))


cdef dumps_checked(value, option):
    check_levels(<PyObject*>value, 0, option)
    try:
        return dumps_unchecked(value) if option is ZERO else dumps_unchecked(value, option=option)
    except TypeError as error:
        raise refusal(error) from cause_of(error)


def dumps_json(value, default=None, option=ZERO):
    """`dumps` of `_json.py`, which checks the depth in C where it can."""
    return dumps_checked(value, option) if default is None else dumps(value, default, option)


cdef inline char* write_constant(char* at, const char* text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef char* write_call(
    Output* output, char* at, bint is_request, id, method, params, default, option
) except NULL:
    cdef Py_ssize_t start
    if option is not ZERO:
        check_option(option)
    if is_request:
        at = write_id(output, write_constant(at, b'{"jsonrpc":"2.0","id":', 22), id)
        at = write_constant(at, b',"method":', 10)
    else:
        at = write_constant(at, b'{"jsonrpc":"2.0","method":', 26)
    check_method(method)
    at = write_text(output, at, method)
    if params is not None:
        at = write_constant(at, b',"params":', 10)
        start = at - output.start
        at = write_payload(output, at, params, default, option)
        if at == output.start + start or output.start[start] not in (c"{", c"["):
            raise TypeError(
                f"params must be written as a JSON object or array, which {type(params).__name__} is not"
            )
    memcpy(at, b"}\n", 2)
    return at + 1


cdef char* write_result(Output* output, char* at, id, result, default, option) except NULL:
    if option is not ZERO:
        check_option(option)
    at = write_id(output, write_constant(at, b'{"jsonrpc":"2.0","id":', 22), id)
    at = write_payload(output, write_constant(at, b',"result":', 10), result, default, option)
    memcpy(at, b"}\n", 2)
    return at + 1


cdef char* write_error(Output* output, char* at, id, code, message, data, default, option) except NULL:
    if option is not ZERO:
        check_option(option)
    at = write_id(output, write_constant(at, b'{"jsonrpc":"2.0","id":', 22), id)
    code = check_error(code, message)
    at = write_id(output, write_constant(at, b',"error":{"code":', 17), code)
    at = write_constant(at, b',"message":', 11)
    at = write_text(output, at, message)
    if data is not UNSET:
        at = write_payload(output, write_constant(at, b',"data":', 8), data, default, option)
    memcpy(at, b"}}\n", 3)
    return at + 2


cdef bytes call_line(bint is_request, id, method, params, default, option, bint delimited):
    """What `encode_request` and `encode_notification` return."""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_call(&output, at, is_request, id, method, params, default, option)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


cdef bytes result_line_with(id, result, default, option, bint delimited):
    """What `encode_result` returns."""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_result(&output, at, id, result, default, option)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


cdef inline bytes result_line(id, result):
    """What `encode_result` returns without options."""
    return result_line_with(id, result, None, ZERO, True)


# Calls with positional arguments only, which most are, skip Cython's parsing of arguments.


cdef object call_encode_request(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if names != NULL or count not in (2, 3):
        return slow_encode_request(function, arguments, flags, names)
    params = <object>arguments[2] if count == 3 else None
    return call_line(True, <object>arguments[0], <object>arguments[1], params, None, ZERO, True)


cdef object call_encode_notification(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if names != NULL or count not in (1, 2):
        return slow_encode_notification(function, arguments, flags, names)
    return call_line(False, None, <object>arguments[0], <object>arguments[1] if count == 2 else None, None, ZERO, True)


cdef object call_encode_result(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    if names != NULL or PyVectorcall_NARGS(flags) != 2:
        return slow_encode_result(function, arguments, flags, names)
    return result_line(<object>arguments[0], <object>arguments[1])


cdef Call slow_encode_request = <Call>set_call(encode_request, <void*>call_encode_request)
cdef Call slow_encode_notification = <Call>set_call(encode_notification, <void*>call_encode_notification)
cdef Call slow_encode_result = <Call>set_call(encode_result, <void*>call_encode_result)


def respond(received, handler, *, delimited=True, default=None, option=0):
    """`_pure.respond`"""
    return responder.respond(received, handler, delimited, default, option)


cdef object responder = Responder(Request, Notification, Response, ParseError, encode, encode_error)
