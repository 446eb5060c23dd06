"""From a text to messages: the quick lane, and below it the one through envelopes.

What the scanner found and what a dict holds go through one `judge`.
"""


cdef object fault_of_text(const uint8_t* start, Cursor* cursor, Rules rules):
    """Why the text stops being JSON where the cursor says; whether it is UTF-8 comes first. rules: None if the text is no
    message."""
    cdef const uint8_t* invalid
    if cursor.out_of_memory:
        raise MemoryError
    invalid = find_invalid(start, cursor.end)
    if invalid != NULL:
        return make_fault(INVALID_UTF8, None, invalid - start)
    fault = make_fault(MALFORMED_JSON, None, cursor.fault - start)
    if rules is not None and cursor.fault < cursor.end and cursor.fault[0] == c"\\":
        return fault_of_surrogate(start, cursor, rules, fault)
    return fault


cdef object fault_of_surrogate(const uint8_t* start, Cursor* found, Rules rules, fault):
    """The same fault with what is known of the message, where lone surrogates are all that is wrong with its text."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Value* value
    open_cursor(&cursor, start, found.end - start, found.any_width)
    cursor.any_surrogate = True
    skip_space(&cursor)
    if cursor.at >= cursor.end or cursor.at[0] != c"{":
        return fault
    if not read_message(&cursor, &envelope) or not read_end(&cursor):
        if cursor.out_of_memory:
            raise MemoryError
        return fault
    value = &envelope.members[<int>MEMBER_METHOD]
    id, reply_expected = known_of(
        rules,
        certain_id(&envelope.members[<int>MEMBER_ID], rules),
        "" if value.start != NULL and value.start[0] == c'"' else None,
        envelope.members[<int>MEMBER_RESULT].start != NULL or envelope.members[<int>MEMBER_ERROR].start != NULL,
        envelope.duplicates,
    )
    return make_fault(MALFORMED_JSON, id, fault._offset, None, reply_expected)


cdef object certain_id(Value* value, Rules rules):
    """As `id_of`, ABSENT of none; in a string a surrogate may be alone, which makes no id."""
    if value.start == NULL:
        return ABSENT
    try:
        return id_of(value, rules.id_bytes)
    except JSONDecodeError:
        return None


cdef object fault_of_large(const uint8_t* start, Py_ssize_t size, Rules rules):
    """The fault of a text over the size limit, of which `size` bytes or more are there; `_pure._too_large` says what is
    certain."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Value* id
    cdef bint is_response
    size = min(size, rules.message_bytes, HEAD_BYTES)
    try:
        size = utf_8_decode(PyBytes_FromStringAndSize(<char*>start, size), "strict", False)[1]
    except UnicodeDecodeError:
        return make_fault(MESSAGE_TOO_LARGE)
    open_cursor(&cursor, start, size, True)
    cursor.any_surrogate = True
    skip_space(&cursor)
    if cursor.at >= cursor.end or cursor.at[0] != c"{":
        return make_fault(MESSAGE_TOO_LARGE)
    if not (read_message(&cursor, &envelope) and read_end(&cursor)):
        if cursor.out_of_memory:
            raise MemoryError
        if cursor.fault < cursor.end:
            return make_fault(MESSAGE_TOO_LARGE)
    is_response = has_begun(&envelope, MEMBER_RESULT) or has_begun(&envelope, MEMBER_ERROR)
    if not (is_response or has_begun(&envelope, MEMBER_METHOD) or has_begun(&envelope, MEMBER_PARAMS)):
        return make_fault(MESSAGE_TOO_LARGE)
    id = &envelope.members[<int>MEMBER_ID]
    found, reply_expected = known_of(
        rules,
        # A number at the end might go on.
        ABSENT if id.start == NULL or id.end == cursor.end else certain_id(id, rules),
        None,
        is_response,
        envelope.duplicates,
    )
    return make_fault(MESSAGE_TOO_LARGE, found, None, None, reply_expected)


cdef object bytes_of_str(text):
    """A str, or one of a subclass, as UTF-8; its fault where it holds a lone surrogate.

    The caller's str gets no copy of its UTF-8 that would live as long as it does. No exception is left behind, for a
    UnicodeEncodeError holds the text.
    """
    try:
        return PyUnicode_AsUTF8String(text)
    except UnicodeEncodeError as error:
        offset = PyBytes_GET_SIZE(PyUnicode_AsUTF8String(PyUnicode_Substring(text, 0, error.start)))
    return make_fault(INVALID_UTF8, None, offset)


cdef object bytes_or_fault(data):
    """What the public functions take, as bytes; the fault of a str that is not UTF-8. No method of `data` is called."""
    if PyBytes_CheckExact(data):
        return data
    if isinstance(data, str):
        return bytes_of_str(data)
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(memoryview(data))
    raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")


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


cdef object payload_of(Value* value, Rules rules, bint* too_large, raw):
    """A member's value, ABSENT if absent; None where it is too deep, or an integer in it too large for the profile."""
    if value.start == NULL:
        return ABSENT
    if value.depth > rules.depth:
        return None
    if value.wide and not rules.big_ints_as_float:
        if rules.big_ints_exact:
            try:
                text = bytes_of(value)
                if raw is None:
                    return loads_exact(text)
                check_exact(text)
                return make_raw(value.start, value.end - value.start, raw, True)
            except ValueError:
                pass
        too_large[0] = True
        return None
    if raw is not None:
        return make_raw(value.start, value.end - value.start, raw, False)
    return loads_part(value.start, value.end - value.start)


cdef object error_of(Value* value, Rules rules, bint* too_large, raw):
    """An error as a dict with its data raw; anything but an object as it is."""
    cdef Cursor cursor
    cdef Envelope envelope
    if value.start == NULL or value.start[0] != c"{" or value.depth > rules.depth:
        return payload_of(value, rules, too_large, None)
    if value.wide and not rules.big_ints_as_float:
        payload_of(value, rules, too_large, None)
        if too_large[0]:
            return None
    open_cursor(&cursor, value.start, value.end - value.start, True)
    read_object(&cursor, &envelope, True)
    error = {}
    if envelope.members[<int>MEMBER_CODE].start != NULL:
        error["code"] = payload_of(&envelope.members[<int>MEMBER_CODE], rules, too_large, None)
    if envelope.members[<int>MEMBER_MESSAGE].start != NULL:
        error["message"] = payload_of(&envelope.members[<int>MEMBER_MESSAGE], rules, too_large, None)
    if envelope.members[<int>MEMBER_DATA].start != NULL:
        error["data"] = payload_of(&envelope.members[<int>MEMBER_DATA], rules, too_large, raw)
    if envelope.unexpected:
        error["?"] = None
    return error


cdef object judge_envelope(Envelope* envelope, Rules rules, index, raw):
    cdef bint integer_too_large = False
    cdef Value* value
    if not envelope.is_object:
        if envelope.depth > rules.depth:
            return make_fault(TOO_DEEP, None, None, index)
        return make_fault(NOT_AN_OBJECT, None, None, index)

    value = &envelope.members[<int>MEMBER_JSONRPC]
    if value.start != NULL and value.end - value.start == 5 and memcmp(value.start, b'"2.0"', 5) == 0:
        jsonrpc = VERSION
    else:
        jsonrpc = payload_of(value, rules, &integer_too_large, None)

    value = &envelope.members[<int>MEMBER_ID]
    id = ABSENT if value.start == NULL else id_of(value, rules.id_bytes)

    value = &envelope.members[<int>MEMBER_METHOD]
    if value.start != NULL and value.plain:
        method = method_of(value.start + 1, value.end - value.start - 2)
    else:
        method = payload_of(value, rules, &integer_too_large, None)

    params = payload_of(&envelope.members[<int>MEMBER_PARAMS], rules, &integer_too_large, raw)
    result = payload_of(&envelope.members[<int>MEMBER_RESULT], rules, &integer_too_large, raw)
    value = &envelope.members[<int>MEMBER_ERROR]
    if raw is not None:
        error = error_of(value, rules, &integer_too_large, raw)
    else:
        error = payload_of(value, rules, &integer_too_large, None)
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
    """A plain string, a short integer or a literal that fills a part of a text; `ABSENT` where it is anything else."""
    cdef const uint8_t* at = start
    cdef int64_t number = 0
    if at == end:
        return ABSENT
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
    return ABSENT


cdef inline object simple_list(const uint8_t* start, const uint8_t* end):
    """A short list of simple scalars that fills a part of a text; `ABSENT` where it is anything else."""
    cdef const uint8_t* at = start + 1
    cdef const uint8_t* item
    cdef list items
    if (end - 1)[0] != c"]":
        return ABSENT
    items = []
    while True:
        while at < end and is_space(at[0]):
            at += 1
        item = at
        if at < end and at[0] == c'"':
            at = skip_plain(at + 1, end)
            if at == end or at[0] != c'"':
                return ABSENT
            at += 1
        else:
            while at < end and (is_digit(at[0]) or c"a" <= at[0] <= c"z"):
                at += 1
        value = simple_scalar(item, at)
        if value is ABSENT:
            return ABSENT
        items.append(value)
        while at < end and is_space(at[0]):
            at += 1
        if at == end:
            return ABSENT
        if at[0] != c",":
            # Whatever comes before the last byte, it does not close the list there.
            return items if at + 1 == end else ABSENT
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
        value = ABSENT
    elif start[0] == c"[" and 2 < size <= SIMPLE_LIST_BYTES:
        value = simple_list(start, end)
    else:
        value = simple_scalar(start, end)
    if value is not ABSENT:
        return value
    if size < VIEW_BYTES:
        return loads(PyBytes_FromStringAndSize(<char*>start, size))
    return loads(PyMemoryView_FromMemory(<char*>start, size, PyBUF_READ))


cdef object decode_quick(const uint8_t* start, Py_ssize_t size, Rules rules, raw):
    """The valid message that a text holds in one of its usual forms; None of any other text."""
    cdef Quick quick
    if not read_quick(start, start + size, &quick) or not quick.has_version:
        return None
    if quick.id != NULL and quick.id_end - quick.id > rules.id_bytes:
        return None
    if quick.method != NULL:
        size = quick.method_end - quick.method
        if size > rules.method_bytes or (size == 0 and not rules.empty_methods):
            return None
        if quick.payload_member == MEMBER_UNKNOWN:
            return quick_call(&quick, None)
    if quick.payload_member == MEMBER_UNKNOWN:
        return None
    payload = quick_payload(&quick, rules, raw)
    if payload is ABSENT:
        return None
    if quick.method == NULL:
        return quick_response(&quick, rules, payload)
    if quick.payload_member != MEMBER_PARAMS or not is_object_or_array(payload, rules.array_params):
        return None
    return quick_call(&quick, payload)


cdef inline object quick_payload(Quick* quick, Rules rules, raw):
    """The payload, whose bytes are then JSON; ABSENT where the quick lane is not to judge it."""
    cdef Value value
    cdef Cursor cursor
    cdef Py_ssize_t size = quick.payload_end - quick.payload
    if raw is not None:
        open_cursor(&cursor, quick.payload, size, False)
        skip_space(&cursor)
        if quick.payload_member == MEMBER_ERROR or not skip_value(&cursor, False, &value):
            return ABSENT
        if not read_end(&cursor) or value.depth > rules.depth or (value.wide and not rules.big_ints_as_float):
            return ABSENT
        return make_raw(value.start, value.end - value.start, raw, False)
    # orjson goes MAX_DEPTH deep; a lower limit cannot be passed in twice as many bytes.
    if not rules.big_ints_as_float or (rules.depth < MAX_DEPTH and size > 2 * rules.depth):
        return ABSENT
    try:
        return loads_part(quick.payload, size)
    except JSONDecodeError:
        return ABSENT


cdef inline object quick_call(Quick* quick, params):
    method = method_of(quick.method, quick.method_end - quick.method)
    if quick.has_number:
        return make_request(PyLong_FromLongLong(quick.number), method, params)
    if quick.id != NULL:
        return make_request(ascii_of(quick.id, quick.id_end - quick.id), method, params)
    return make_notification(method, params)


cdef inline object quick_response(Quick* quick, Rules rules, payload):
    error = None
    if quick.payload_member == MEMBER_ERROR:
        if not rules.extra_members:
            return None
        error = judge_error(payload)
        if type(error) is not Error:
            return None
        payload = None
    elif quick.payload_member != MEMBER_RESULT or (rules.object_results and not is_object_or_array(payload, False)):
        return None
    if quick.has_number:
        return make_response(PyLong_FromLongLong(quick.number), payload, error)
    if quick.id != NULL:
        return make_response(ascii_of(quick.id, quick.id_end - quick.id), payload, error)
    return None


cdef inline void open_cursor(Cursor* cursor, const uint8_t* start, Py_ssize_t size, bint any_width) noexcept:
    cursor.at = start
    cursor.end = start + size
    cursor.fault = NULL
    cursor.any_width = any_width
    cursor.any_surrogate = False
    cursor.out_of_memory = False


cdef object decode_text(const uint8_t* start, Py_ssize_t size, Rules rules, raw):
    # raw: None to decode payloads, else the bytes that hold the text, or True if nobody may hold on to them.
    if size > rules.message_bytes:
        return fault_of_large(start, size, rules)
    message = decode_quick(start, size, rules, raw)
    return decode_by_envelopes(start, size, rules, raw) if message is None else message


cdef inline object decode_bytes(bytes text, Rules rules, raw):
    return decode_text(
        <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules, text if raw else None
    )


cdef object decode_by_envelopes(const uint8_t* start, Py_ssize_t size, Rules rules, raw):
    """The same as the quick lane, and all that it leaves."""
    cdef Cursor cursor
    cdef Envelope envelope
    open_cursor(&cursor, start, size, not rules.big_ints_as_float)
    skip_space(&cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"[":
        return decode_batch(start, &cursor, rules, raw)
    if not read_message(&cursor, &envelope) or not read_end(&cursor):
        return fault_of_text(start, &cursor, rules)
    return judge_envelope(&envelope, rules, None, raw)


def _decode_by_envelopes(bytes text not None, profile, raw):
    """`decode` without its quick lane, for the tests that hold one against the other."""
    return decode_by_envelopes(
        <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules_of(profile), text if raw else None
    )


cdef object decode_batch(const uint8_t* start, Cursor* cursor, Rules rules, raw):
    """The messages of a batch, judged as they are read; the text may still turn out not to be JSON.

    A batch that is over the limit is found out after a part of the items that are allowed; from there on it is counted.
    """
    cdef Envelope envelope
    cdef Cursor saved
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t most = rules.batch_items if rules.batches else 0
    cdef Py_ssize_t glance = most // 16
    cdef list messages = []
    cursor.at += 1
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"]":
        cursor.at += 1
    else:
        while True:
            # Another item is due. Each takes two bytes with what stands behind it.
            if count == glance and glance < most and (cursor.end - cursor.at) // 2 > most - count:
                saved = cursor[0]
                if count_items(cursor, most - count + 1) > most - count:
                    most = 0
                cursor[0] = saved
            if not read_message(cursor, &envelope):
                return fault_of_text(start, cursor, rules)
            if count < most:
                messages.append(judge_envelope(&envelope, rules, count, raw))
            count += 1
            skip_space(cursor)
            if cursor.at < cursor.end and cursor.at[0] == c"]":
                cursor.at += 1
                break
            if not expect(cursor, c","):
                return fault_of_text(start, cursor, rules)
            skip_space(cursor)
    if not read_end(cursor):
        return fault_of_text(start, cursor, rules)
    fault = batch_fault(count, rules)
    return messages if fault is None else fault


cdef Py_ssize_t count_items(Cursor* cursor, Py_ssize_t most) noexcept:
    """The items from the cursor on, up to `most`, or up to what is not JSON; moves the cursor."""
    cdef Envelope envelope
    cdef Py_ssize_t count = 0
    while count < most and read_message(cursor, &envelope):
        count += 1
        skip_space(cursor)
        if not expect(cursor, c","):
            break
        skip_space(cursor)
    return count


def decode(data, profile=JSONRPC, *, raw=False):
    """Decodes and validates one JSON text.

    data     UTF-8 bytes, or a str
    profile  the rules
    raw      leave `params`, `result` and an error's `data` as `Raw`, checked but not decoded

    Returns a Request, a Notification, a Response or a ParseError, or for a batch a list of those, each judged alone.
    Raises TypeError for another type of `data`; a fault of the text is returned, never raised.
    """
    cdef Rules rules = rules_of(profile)
    cdef Py_buffer view
    cdef bytes text
    if PyBytes_CheckExact(data):
        return decode_bytes(<bytes>data, rules, raw)
    if isinstance(data, str):
        if PyUnicode_IS_ASCII(data):
            return decode_text(
                <const uint8_t*>PyUnicode_DATA(data), PyUnicode_GET_LENGTH(data), rules, True if raw else None
            )
        found = bytes_of_str(data)
        return decode_bytes(<bytes>found, rules, raw) if PyBytes_CheckExact(found) else found
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
    if isinstance(data, memoryview) and not data.c_contiguous:
        return decode_bytes(bytes(data), rules, raw)
    # While the view is held a bytearray cannot be resized.
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return decode_text(<const uint8_t*>view.buf, view.len, rules, True if raw else None)
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
