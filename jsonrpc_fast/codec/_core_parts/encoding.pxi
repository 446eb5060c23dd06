"""Encoding: envelopes and payloads are written into one output.

The writers of envelopes write the form of JSON-RPC 2.0. `set_form` makes another form of a message, where it was written.
"""

cdef enum:
    # The places of the forms in WrittenForm.
    FORM_2_0
    FORM_1_0
    UNVERSIONED

cdef const char* FORM_2_0_BEGINS = b'{"jsonrpc":"2.0",'

cdef enum:
    FORM_2_0_SIZE = 17


def encode(message, profile=JSONRPC, *, delimited=True, default=None, option=0):
    """`_messages.encode`"""
    cdef Rules rules
    if profile is DEFAULT_PROFILE:
        return encode_message(message, FORM_2_0, default, option, delimited)
    rules = rules_of(profile)
    return encode_message(message, rules.form, default_in(rules, default), option, delimited)


cdef char* write_any(Output* output, char* at, message, int form, default, option) except NULL:
    """As `write_message`, for a message or a batch that is not empty, in any form."""
    cdef bint is_first = True
    if type(message) is tuple:
        message = list(<tuple>message)
    if not isinstance(message, list):
        if form != FORM_2_0:
            return write_in_form(output, at, message, form, default, option)
        return write_message(output, at, message, default, option)
    for item in <list>message:
        at = checked(append(output, at, b"[" if is_first else b",", 1))
        is_first = False
        if form != FORM_2_0:
            at = write_in_form(output, at, item, form, default, option)
        else:
            at = write_message(output, at, item, default, option)
    return checked(append(output, at, b"]\n", 2)) - 1


cdef inline char* checked(char* at) except NULL:
    """Raise what a function that returned NULL has set."""
    return at


cdef bytes encode_message(message, int form, default, option, bint delimited):
    """What `encode` returns."""
    cdef Output output
    cdef char* at
    if (isinstance(message, list) or type(message) is tuple) and not message:
        return b""
    at = open_output(&output)
    try:
        at = write_any(&output, at, message, form, default, option)
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
    cdef Response response
    cdef Error error
    cdef frozenset reserved = ENVELOPE_MEMBERS
    if type(message) is Request:
        stored = (<Request>message).stored
        at = write_call(
            output, at, True, (<Request>message).id, (<Request>message).method, payload_in(stored), default, option
        )
    elif type(message) is Notification:
        stored = (<Notification>message).stored
        at = write_call(output, at, False, None, (<Notification>message).method, payload_in(stored), default, option)
    else:
        response = <Response>message
        stored = response.stored
        reserved = RESERVED_IN_RESPONSES
        if response.error is None:
            at = write_result(output, at, response.id, payload_in(stored), default, option)
        else:
            error = <Error>response.error
            at = write_error(
                output, at, response.id, error.code, error.message, payload_in(error.stored), default, option
            )
            if type(error.stored) is PayloadWithExtra:
                at = write_extra(output, at - 1, extra_in(error.stored), ERROR_MEMBERS, default, option)
                at[0] = c"}"
                at += 1
    if type(stored) is PayloadWithExtra:
        at = write_extra(output, at, extra_in(stored), reserved, default, option)
    at[0] = c"\n"
    return at


cdef char* write_extra(Output* output, char* at, extra, frozenset reserved, default, option) except NULL:
    """Write extra members in place of the closing brace before `at`, and that brace again.

    They are checked again, because the dict is mutable.
    """
    cdef Py_ssize_t start = at - 1 - output.start
    cdef dict members = dict(<dict?>extra)  # a copy: a `default` may change it while it is written
    for name in members:
        if type(name) is not str or name in reserved:
            check_extra(members, reserved)  # raises
    if not members:
        return at
    at = write_payload(output, at - 1, members, default, option)
    output.start[start] = c","
    return at


cdef char* write_in_form(Output* output, char* at, message, int form, default, option) except NULL:
    """As `write_message`, in another form than 2.0."""
    cdef Py_ssize_t start = at - output.start
    at = write_message(output, at, message, default, option)
    if type(message) is Request:
        return set_form(
            output, start, at, form, True, (<Request>message).id, payload_in((<Request>message).stored) is not None
        )
    if type(message) is Notification:
        return set_form(
            output, start, at, form, True, ABSENT, payload_in((<Notification>message).stored) is not None
        )
    return set_form(output, start, at, form, False, ABSENT, (<Response>message).error is not None)


cdef char* set_form(
    Output* output, Py_ssize_t start, char* at, int form, bint is_call, id, bint has_params
) except NULL:
    """Make another form of the message that begins at `start`, and a line ending; return the new end of the message.

    id: of a request; else ABSENT. has_params: whether a call has params, or whether a response is an error.

    Bounds: more is written only by `append`; the null id of a notification is shorter than the version it replaces.
    """
    cdef char* to = output.start + start + 1
    cdef Py_ssize_t size = at - output.start - start - FORM_2_0_SIZE
    if id is None:
        raise ValueError("a request without jsonrpc must not have the id null, which makes it a notification")
    # JSON-RPC 1.0, sections 1.1 to 1.3: a response has both members, a notification the id null, a call its params.
    if form == FORM_1_0 and is_call and id is ABSENT:
        to = write_constant(to, b'"id":null,', 10)
    memmove(to, output.start + start + FORM_2_0_SIZE, size)
    at = to + size
    if form == FORM_1_0 and not is_call:
        at = checked(append(output, at - 1, b',"result":null}\n' if has_params else b',"error":null}\n', 16 - (not has_params))) - 1
    elif form == FORM_1_0 and not has_params:
        at = checked(append(output, at - 1, b',"params":[]}\n', 14)) - 1
    at[0] = c"\n"
    return at


def encode_request(id, method, params=None, *, profile=JSONRPC, delimited=True, default=None, option=0):
    """`_messages.encode_request`"""
    cdef Rules rules = rules_of(profile)
    return call_line(True, id, method, params, rules.form, default_in(rules, default), option, delimited)


def encode_notification(method, params=None, *, profile=JSONRPC, delimited=True, default=None, option=0):
    """`_messages.encode_notification`"""
    cdef Rules rules = rules_of(profile)
    return call_line(False, None, method, params, rules.form, default_in(rules, default), option, delimited)


def encode_result(id, result, *, profile=JSONRPC, delimited=True, default=None, option=0):
    """`_messages.encode_result`"""
    cdef Rules rules = rules_of(profile)
    return result_line_with(id, result, rules.form, default_in(rules, default), option, delimited)


def encode_error(id, code, message, data=UNSET, *, profile=JSONRPC, delimited=True, default=None, option=0):
    """`_messages.encode_error`"""
    cdef Rules rules = rules_of(profile)
    return error_line(id, code, message, data, rules.form, default_in(rules, default), option, delimited)


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
        end = write_narrow(at, <PyObject*>id)
        if end != NULL:
            return end
    elif PyUnicode_CheckExact(id) and 4 * PyUnicode_GET_LENGTH(id) <= MAX_ID_BYTES:
        return write_text(output, at, id)
    return write_other_id(output, at, id)


cdef char* write_other_id(Output* output, char* at, id) except NULL:
    check_id(id)
    if isinstance(id, int):
        return write_unusual(output, at, b"%d" % id)
    if isinstance(id, str):
        return write_text(output, at, id)
    return write_unusual(output, at, dumps(id))


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


cdef extern from "Python.h":
    object call_vector "PyObject_Vectorcall"(object function, PyObject** arguments, size_t count, object names)


cdef char* write_other_payload(Output* output, value, default, option) except NULL:
    cdef char* at = output.start + output.payload
    cdef char* end
    cdef BoundedDefault bounded
    if raised() != NULL:
        return checked(NULL)
    if type(value) is Raw:
        return write_raw(output, at, <Raw>value)
    bounded = new_bounded(value, default, option, False)
    if option is not ZERO or bounded is not None:
        end = try_value(output, at, value, bounded, option)
        if end != NULL:
            return end
    check_levels(<PyObject*>value, 0, option)
    return write_unusual(output, output.start + output.payload, dumps_bounded(value, bounded, option, 0))


cdef char* try_value(Output* output, char* at, value, BoundedDefault bounded, option) except? NULL:
    """Write a value; NULL without an exception if it is left to the engine."""
    if not changes_nothing(option):
        return NULL
    output.bounded = NULL if bounded is None else <PyObject*>bounded
    at = write_value(output, at, <PyObject*>value, WRITTEN_DEPTH, NULL)
    output.bounded = NULL
    return checked(NULL) if at == NULL and raised() != NULL else at


cdef int64_t harmless_options = HARMLESS_OPTIONS


cdef int64_t forbidden_options = FORBIDDEN_OPTIONS | -(1 << 32)  # and everything above the 32 bits of orjson


cdef int check_option_fast(option) except -1:
    """`check_option`, without a call of Python for a valid one."""
    cdef int overflow = 0
    if not PyLong_CheckExact(option) or PyLong_AsLongLongAndOverflow(option, &overflow) & forbidden_options or overflow:
        check_option(option)
    return 0


cdef inline bint changes_nothing(option) noexcept:
    """Whether an option changes nothing about the types that `write_value` writes. It is checked already."""
    cdef int overflow = 0
    return option is ZERO or PyLong_AsLongLongAndOverflow(option, &overflow) & ~harmless_options == 0


cdef tuple OPTION_NAME = ("option",)


cdef object dumps_with_option(value, option):
    """`dumps_unchecked(value, option=option)`, for which Cython makes a dict."""
    cdef PyObject* arguments[2]
    arguments[0] = <PyObject*>value
    arguments[1] = <PyObject*>option
    return call_vector(dumps_unchecked, arguments, 1, OPTION_NAME)


cdef dumps_checked(value, default, option):
    check_levels(<PyObject*>value, 0, option)
    return dumps_bounded(value, new_bounded(value, default, option, False), option, 0)


cdef dumps_bounded(value, BoundedDefault bounded, option, Py_ssize_t first):
    """JSON by the engine of a value that is not too deep. first: the first call of `bounded` that is repeated."""
    try:
        if bounded is not None:
            bounded.at = first
            return dumps_unchecked(value, bounded, option)
        return dumps_unchecked(value) if option is ZERO else dumps_with_option(value, option)
    except TypeError as error:
        if not is_too_wide(error):
            raise refusal(error) from cause_of(error)
    if bounded is not None:
        bounded.at = first
    try:
        return dumps_wide(value, bounded, option)
    except TypeError as error:
        raise refusal(error) from cause_of(error)


@cython.final
@cython.freelist(4)
@cython.auto_pickle(False)
cdef class BoundedDefault:
    """`_Bounded` of `_json.py`"""

    cdef object default
    cdef object value  # that is written
    cdef object option
    cdef dict left  # as in `check_depth`
    cdef list calls  # arguments and results in turn
    cdef object failure  # what `default` has raised
    cdef Py_ssize_t at  # the next call to repeat
    cdef bint is_checked  # the value is not too deep
    cdef bint leaves_all  # to the engine: the value is too deep, or has an object with parts or a Raw as a member
    cdef bint is_message  # the value is a message or a batch, else a payload
    cdef bint writes_decimals  # Decimals never get to the caller's `default`

    def __call__(self, value):
        written = self.result(value)
        if not is_scalar(<PyObject*>written, class_of(<PyObject*>written)) and type(written) is not Fragment:
            if self.left is None:
                self.left = {}
                check_depth(self.value, self.option, 0, self.left)
            _, depth = self.left.get(id(value), (None, 0))
            check_depth(written, self.option, depth, self.left)
        return written

    cdef object result(self, value):
        """What `default` returns, or has returned if the call is repeated."""
        if self.failure is not None:
            raise self.failure
        if self.default is None:
            raise NoDefault  # the engine then reports the value as if there were no `default`
        if self.calls is not None and self.at < PyList_GET_SIZE(self.calls) and self.calls[self.at] is value:
            self.at += 2
            return self.calls[self.at - 1]
        written = self.default(value)
        self.note(value, written)
        return written

    cdef int note(self, value, written) except -1:
        """Remember a call, unless an earlier one is to be repeated first."""
        if self.calls is None:
            self.calls = [value, written]
        elif self.at == PyList_GET_SIZE(self.calls):
            self.calls.append(value)
            self.calls.append(written)
        else:
            return 0
        self.at += 2
        return 0

    cdef int check(self) except -1:
        """Find out whether all is left to the engine. No call of the caller's `default` comes before."""
        cdef int found = check_levels_or_fail(<PyObject*>self.value, 0, self.option)
        self.is_checked = True
        self.leaves_all = found & HAS_PARTS != 0
        if found < 0:
            if not is_raised(<PyObject*>EncodeError):
                return check_raised()
            clear_raised()  # the caller of `write_value` finds it again
            self.leaves_all = True
        if self.is_message and found > 0 and found & (HAS_PARTS | IS_RAW) == IS_RAW:
            self.leaves_all = has_odd_messages(self.value)
        return 0


cdef BoundedDefault new_bounded(value, default, option, bint is_message):
    """None if neither a `default` nor an option is needed to write objects of other types."""
    cdef BoundedDefault bounded
    # Without orjson the option may change the form of what `write_value` leaves to the engine.
    if default is None and (HAS_ORJSON or option is ZERO):
        return None
    bounded = BoundedDefault.__new__(BoundedDefault)
    bounded.value = value
    bounded.default = default
    bounded.option = option
    bounded.is_message = is_message
    bounded.writes_decimals = type(default) is decimal_default
    return bounded


cdef enum:
    DEFAULT_CLASSES = 16

cdef PyObject* default_classes[DEFAULT_CLASSES]  # some whose objects the engine leaves to `default`, owned


cdef object raised_exception():
    """The exception that a function of C has set, and not any more."""
    found = None
    try:
        check_raised()
    except BaseException as error:
        found = error
    return found


cdef char* write_by_default "jsonrpc_fast_write_by_default"(
    Output* output, char* at, PyObject* value, Py_ssize_t levels
) except? NULL:
    """Write an object that may not have parts; NULL without an exception if all is left to the engine, which then repeats
    the calls of `default`.

    The engine alone knows which objects it leaves to `default`. So it gets the first one of each class, and without an
    option the core calls `default` for the others.
    """
    cdef BoundedDefault bounded = <BoundedDefault><object>output.bounded
    cdef Py_ssize_t start = at - output.start
    cdef Py_ssize_t first
    cdef PyObject* kind = class_of(value)
    cdef PyObject* old
    cdef PyObject* result
    cdef PyObject** place = &default_classes[<size_t>kind // 64 % DEFAULT_CLASSES]
    if bounded.writes_decimals and kind == <PyObject*>decimal_class:
        token = str(<object>value)
        if is_plain_number(token):
            return checked(append(output, at, <const char*>string_data(<PyObject*>token), string_size(<PyObject*>token)))
    if not bounded.is_checked:
        bounded.check()
    if bounded.leaves_all:
        return NULL
    first = 0 if bounded.calls is None else PyList_GET_SIZE(bounded.calls)
    if place[0] == kind and bounded.option is ZERO:
        result = call_with(<PyObject*>bounded.default, value)
        if result == NULL:
            bounded.failure = raised_exception()  # for the engine, whose error names the class
        else:
            written = owned(result)
            bounded.note(<object>value, written)
            if is_container(class_of(<PyObject*>written)):
                # No other call comes before it is known that this result is not too deep.
                if check_levels_or_fail(<PyObject*>written, WRITTEN_DEPTH - levels, bounded.option) < 0:
                    if not is_raised(<PyObject*>EncodeError):
                        return checked(NULL)
                    clear_raised()  # it is found again where the call is repeated
                    return NULL
            if is_container(class_of(<PyObject*>written)) or is_scalar(<PyObject*>written, class_of(<PyObject*>written)):
                at = write_value(output, at, <PyObject*>written, levels, NULL)
                return checked(NULL) if at == NULL and raised() != NULL else at
    text = dumps_bounded(<object>value, bounded, bounded.option, first)
    if not FREE_THREADED and bounded.option is ZERO and bounded.calls is not None:
        if PyList_GET_SIZE(bounded.calls) > first and bounded.calls[first] is <object>value and place[0] != kind:
            old = place[0]
            hold(kind)
            place[0] = kind
            drop_if_any(old)  # code may run
    return write_unusual(output, output.start + start, text)


cdef bint is_plain_number(str token) noexcept:
    """Whether `is_plain_number` of `_decimals.py` accepts a short token."""
    cdef const uint8_t* at = <const uint8_t*>PyUnicode_DATA(token)
    cdef Py_ssize_t left = PyUnicode_GET_LENGTH(token)
    if left > 64 or not PyUnicode_IS_ASCII(token):
        return False
    while left and (is_digit(at[0]) or at[0] == c"." or at[0] == c"-"):
        at += 1
        left -= 1
    return left == 0


cdef extern from *:
    """
    static int jsonrpc_fast_check_levels(PyObject *, Py_ssize_t, PyObject *);
    static char *jsonrpc_fast_write_by_default(struct jsonrpc_fast_output *, char *, PyObject *, Py_ssize_t);
    """
    # The same functions; the callers raise their exceptions, or clear them.
    int check_levels_or_fail "jsonrpc_fast_check_levels"(PyObject* value, Py_ssize_t depth, object option) noexcept
    char* write_by_default_or_null "jsonrpc_fast_write_by_default"(
        Output* output, char* at, PyObject* value, Py_ssize_t levels
    ) noexcept


def dumps_json(value, default=None, option=ZERO):
    """`dumps` of `_json.py`, which checks the depth in C where it can."""
    return dumps_checked(value, default, option)


cdef inline char* write_constant(char* at, const char* text, Py_ssize_t size) noexcept:
    memcpy(at, text, size)
    return at + size


cdef char* write_call(
    Output* output, char* at, bint is_request, id, method, params, default, option
) except NULL:
    cdef Py_ssize_t start
    if option is not ZERO:
        check_option_fast(option)
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
        check_option_fast(option)
    at = write_id(output, write_constant(at, b'{"jsonrpc":"2.0","id":', 22), id)
    at = write_payload(output, write_constant(at, b',"result":', 10), result, default, option)
    memcpy(at, b"}\n", 2)
    return at + 1


cdef char* write_error(Output* output, char* at, id, code, message, data, default, option) except NULL:
    if option is not ZERO:
        check_option_fast(option)
    at = write_id(output, write_constant(at, b'{"jsonrpc":"2.0","id":', 22), id)
    code = check_error(code, message)
    at = write_id(output, write_constant(at, b',"error":{"code":', 17), code)
    at = write_constant(at, b',"message":', 11)
    at = write_text(output, at, message)
    if data is not UNSET:
        at = write_payload(output, write_constant(at, b',"data":', 8), data, default, option)
    memcpy(at, b"}}\n", 3)
    return at + 2


cdef bytes call_line(bint is_request, id, method, params, int form, default, option, bint delimited):
    """What `encode_request` and `encode_notification` return."""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_call(&output, at, is_request, id, method, params, default, option)
        if unlikely(form != FORM_2_0):
            at = set_form(&output, 0, at, form, True, id if is_request else ABSENT, params is not None)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


cdef bytes result_line_with(id, result, int form, default, option, bint delimited):
    """What `encode_result` returns."""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_result(&output, at, id, result, default, option)
        if unlikely(form != FORM_2_0):
            at = set_form(&output, 0, at, form, False, ABSENT, False)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


cdef bytes error_line(id, code, message, data, int form, default, option, bint delimited):
    """What `encode_error` returns."""
    cdef Output output
    cdef char* at = open_output(&output)
    try:
        at = write_error(&output, at, id, code, message, data, default, option)
        if unlikely(form != FORM_2_0):
            at = set_form(&output, 0, at, form, False, ABSENT, True)
        return finish(&output, at + delimited)
    finally:
        close_output(&output)


cdef inline bytes result_line(id, result):
    """What `encode_result` returns without options."""
    return result_line_with(id, result, FORM_2_0, None, ZERO, True)


# Calls with positional arguments only, which most are, skip Cython's parsing of arguments.


cdef object call_encode_request(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if names != NULL or count not in (2, 3):
        return slow_encode_request(function, arguments, flags, names)
    params = <object>arguments[2] if count == 3 else None
    return call_line(True, <object>arguments[0], <object>arguments[1], params, FORM_2_0, None, ZERO, True)


cdef object call_encode_notification(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if names != NULL or count not in (1, 2):
        return slow_encode_notification(function, arguments, flags, names)
    params = <object>arguments[1] if count == 2 else None
    return call_line(False, None, <object>arguments[0], params, FORM_2_0, None, ZERO, True)


cdef object call_encode_result(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    if names != NULL or PyVectorcall_NARGS(flags) != 2:
        return slow_encode_result(function, arguments, flags, names)
    return result_line(<object>arguments[0], <object>arguments[1])


cdef object call_encode_error(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if names != NULL or count not in (3, 4):
        return slow_encode_error(function, arguments, flags, names)
    data = <object>arguments[3] if count == 4 else UNSET
    return error_line(
        <object>arguments[0], <object>arguments[1], <object>arguments[2], data, FORM_2_0, None, ZERO, True
    )


cdef Call slow_encode_request = <Call>set_call(encode_request, <void*>call_encode_request)
cdef Call slow_encode_notification = <Call>set_call(encode_notification, <void*>call_encode_notification)
cdef Call slow_encode_result = <Call>set_call(encode_result, <void*>call_encode_result)
cdef Call slow_encode_error = <Call>set_call(encode_error, <void*>call_encode_error)
