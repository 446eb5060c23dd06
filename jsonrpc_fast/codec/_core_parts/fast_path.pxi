"""The fast path: envelope and payload of a message in one forward pass.

It reads valid messages with their members in any order and spacing, if names, method and id are ASCII without escapes,
and the id is a string or an integer of up to 18 digits. The slow path reads every other text from its beginning.
"""


cdef extern from *:
    """
    #define jsonrpc_fast_owned(value) (value)
    """
    object owned "jsonrpc_fast_owned"(PyObject* value)  # a new reference as an object; not NULL


cdef enum:
    # How many bytes at the end of a text may follow its payload.
    TAIL_BYTES = 1024


cdef struct Members:
    # The members of a message. `id` and `method` point between the quotes.
    const uint8_t* method  # NULL: there is none
    const uint8_t* method_end
    const uint8_t* id  # NULL: there is none, or it is a number
    const uint8_t* id_end
    int64_t number  # the id where it is a number
    bint has_number
    bint has_version
    Member payload  # MEMBER_UNKNOWN: there is none
    bint has_unknown


cdef inline int check_raised() except? -1:
    """Raise the exception that a function of `values.pxi` set, if any."""
    return -1


cdef inline const uint8_t* value_after(const uint8_t* at, const uint8_t* end) noexcept:
    """Past a colon and the space around it; NULL if there is none, or the text ends there."""
    at = past_space(at, end)
    if at >= end or at[0] != c":":
        return NULL
    at = past_space(at + 1, end)
    return at if at < end else NULL


cdef inline const uint8_t* plain_after(
    ValueReader* reader, const uint8_t* at, const uint8_t** start, const uint8_t** stop
) noexcept:
    """Past the string at `at`, whose bounds it sets; NULL if it is not ASCII without escapes."""
    if at[0] != c'"':
        return NULL
    start[0] = at + 1
    at = plain_end(reader, at + 1)
    if at >= reader.end or at[0] != c'"':
        return NULL
    stop[0] = at
    return at + 1


cdef inline const uint8_t* number_after(const uint8_t* at, const uint8_t* end, int64_t* number) noexcept:
    """Past the integer at `at`; NULL if there is none, it is -0, or it has too many digits."""
    cdef bint negative = at[0] == c"-"
    cdef const uint8_t* digits
    cdef uint64_t found = 0
    at += negative
    digits = at
    while at < end and is_digit(at[0]) and at - digits <= INTEGER_DIGITS:
        found = found * 10 + (at[0] - c"0")
        at += 1
    if at == digits or at - digits > INTEGER_DIGITS or (digits[0] == c"0" and (at - digits > 1 or negative)):
        return NULL
    number[0] = -<int64_t>found if negative else <int64_t>found
    return at


cdef const uint8_t* skip_unread(
    ValueReader* reader, const uint8_t* at, Rules rules, Py_ssize_t around, Value* value
) noexcept:
    """Past the value at `at`, inside `around` containers; NULL if it is invalid or too deep."""
    cdef Cursor cursor
    open_cursor(&cursor, at, reader.end - at, False)
    if not skip_value(&cursor, False, value) or value.depth + around > rules.depth:
        return NULL
    return cursor.at


cdef const uint8_t* find_payload_end(ValueReader* reader) noexcept:
    """The end of the payload at `reader.start`, if it is the last object or array in a message that fills the text.

    This is a guess. It is right if orjson finds one value up to there, and the reader finds the rest of the message.
    """
    cdef const uint8_t* at = reader.end
    cdef const uint8_t* start = max(reader.start + 1, at - TAIL_BYTES)
    while at > start and is_space(at[-1]):
        at -= 1
    if at > start and at[-1] == c"}":
        at -= 1
    while at > start and at[-1] != c"}" and at[-1] != c"]":
        at -= 1
    return at if at > start else NULL


cdef inline object loads_by_orjson(const uint8_t* start, Py_ssize_t size):
    """The value in a part of a text, by orjson. Raises JSONDecodeError."""
    if size < VIEW_BYTES:
        return loads(PyBytes_FromStringAndSize(<char*>start, size))
    return loads(PyMemoryView_FromMemory(<char*>start, size, PyBUF_READ))


cdef object loads_part(const uint8_t* start, Py_ssize_t size):
    """The value in a part of a text that is JSON. Raises JSONDecodeError if it nests too deep."""
    cdef ValueReader reader
    cdef PyObject* value
    open_reader(&reader, start, start + size, VALUE_DEPTH, True)
    value = value_at(&reader, start, VALUE_DEPTH)
    if value != NULL:
        return owned(value)
    check_raised()
    return loads_valid(PyBytes_FromStringAndSize(<char*>start, size))


cdef object payload_by_orjson(ValueReader* reader, Rules rules, bint is_item, Py_ssize_t around):
    """The payload at `reader.start`, read by orjson alone; ABSENT if it is invalid. Sets `reader.at`."""
    cdef const uint8_t* start = reader.start
    cdef const uint8_t* payload_end = NULL
    cdef Value value
    if not is_item and rules.depth >= MAX_DEPTH and rules.big_ints_as_float and around == 0:
        payload_end = find_payload_end(reader)
    if payload_end == NULL:
        payload_end = skip_unread(reader, start, rules, around, &value)
        if payload_end == NULL or (value.wide and not rules.big_ints_as_float):
            return ABSENT
    reader.at = payload_end
    try:
        return loads_by_orjson(start, payload_end - start)
    except JSONDecodeError:
        return ABSENT


cdef inline object payload_at(
    ValueReader* reader, const uint8_t* at, Rules rules, raw, bint is_item, Py_ssize_t around
):
    """The payload at `at`, inside `around` containers; ABSENT for the slow path. Sets `reader.at`."""
    cdef Value skipped
    cdef PyObject* value
    if raw is not None:
        reader.at = skip_unread(reader, at, rules, around, &skipped)
        if reader.at == NULL or (skipped.wide and not rules.big_ints_as_float):
            return ABSENT
        return make_raw(skipped.start, skipped.end - skipped.start, raw, False)
    value = value_at(reader, at, reader.depth - around)
    if value != NULL:
        return owned(value)
    if reader.is_for_orjson:
        return payload_by_orjson(reader, rules, is_item, around)
    check_raised()
    return ABSENT


cdef object error_at(ValueReader* reader, const uint8_t* at, Rules rules, raw, bint is_item):
    """The Error at `at`; ABSENT for the slow path. Sets `reader.at`."""
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* name
    cdef const uint8_t* name_end
    cdef int64_t code = 0
    cdef bint has_code = False
    cdef PyObject* text
    cdef Member member
    cdef Value skipped
    cdef Error error
    message = None
    data = UNSET
    if at[0] != c"{":
        return ABSENT
    at = past_space(at + 1, end)
    while True:
        if at >= end:
            return ABSENT
        at = plain_after(reader, at, &name, &name_end)
        if at == NULL:
            return ABSENT
        member = name_of(name, name_end - name, True)
        at = value_after(at, end)
        if at == NULL:
            return ABSENT
        if member == MEMBER_CODE:
            at = number_after(at, end, &code)
            if at == NULL or has_code:
                return ABSENT
            has_code = True
        elif member == MEMBER_MESSAGE:
            if at[0] != c'"' or message is not None:
                return ABSENT
            text = string_at(reader, at + 1)
            if text == NULL:
                check_raised()
                return ABSENT
            message = owned(text)
            at = reader.at
        elif member == MEMBER_DATA:
            if data is not UNSET or rules.depth < 2:
                return ABSENT
            data = payload_at(reader, at, rules, raw, is_item, 1)
            if data is ABSENT:
                return ABSENT
            at = reader.at
        else:
            if not rules.extra_members:
                return ABSENT
            at = skip_unread(reader, at, rules, 1, &skipped)
            if at == NULL or (skipped.wide and not rules.big_ints_as_float):
                return ABSENT
        at = past_space(at, end)
        if at >= end:
            return ABSENT
        if at[0] == c"}":
            break
        if at[0] != c",":
            return ABSENT
        at = past_space(at + 1, end)
    if not has_code or message is None:
        return ABSENT
    reader.at = at + 1
    error = Error.__new__(Error)
    error.code = PyLong_FromLongLong(code)
    error.message = message
    error.data = data
    return error


cdef object read_object_fast(ValueReader* reader, const uint8_t* at, Rules rules, raw, bint is_item):
    """The valid message in the object at `at`; None for the slow path. Sets `reader.at`."""
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* name
    cdef const uint8_t* name_end
    cdef Members members
    cdef Member member
    cdef Value skipped
    cdef Py_ssize_t left
    payload = None
    members.method = NULL
    members.id = NULL
    members.id_end = NULL
    members.number = 0
    members.has_number = False
    members.has_version = False
    members.payload = MEMBER_UNKNOWN
    at = past_space(at + 1, end)
    while True:
        # A name begins here. The usual ones are compared in words of four and eight bytes.
        left = end - at
        if left >= 16 and memcmp(at, b'"jsonrpc', 8) == 0 and memcmp(at + 7, b'c":"2.0"', 8) == 0:
            if members.has_version:
                return None
            members.has_version = True
            at += 15
        else:
            if left >= 5 and memcmp(at, b'"id"', 4) == 0 and at[4] == c":":
                member = MEMBER_ID
                at = past_space(at + 5, end)
            elif left >= 9 and memcmp(at, b'"method"', 8) == 0 and at[8] == c":":
                member = MEMBER_METHOD
                at = past_space(at + 9, end)
            elif left >= 9 and memcmp(at, b'"params"', 8) == 0 and at[8] == c":":
                member = MEMBER_PARAMS
                at = past_space(at + 9, end)
            elif left >= 9 and memcmp(at, b'"result"', 8) == 0 and at[8] == c":":
                member = MEMBER_RESULT
                at = past_space(at + 9, end)
            else:
                if left < 5:
                    return None
                at = plain_after(reader, at, &name, &name_end)
                if at == NULL:
                    return None
                member = name_of(name, name_end - name, False)
                at = value_after(at, end)
                if at == NULL:
                    return None
            if at >= end:
                return None
            if member == MEMBER_ID:
                if members.has_number or members.id != NULL:
                    return None
                if at[0] == c'"':
                    at = plain_after(reader, at, &members.id, &members.id_end)
                    if at == NULL or members.id_end - members.id > rules.id_bytes:
                        return None
                else:
                    at = number_after(at, end, &members.number)
                    if at == NULL:
                        return None
                    members.has_number = True
            elif member == MEMBER_METHOD:
                if members.method != NULL:
                    return None
                at = plain_after(reader, at, &members.method, &members.method_end)
                if at == NULL or members.method_end - members.method > rules.method_bytes:
                    return None
            elif member == MEMBER_PARAMS or member == MEMBER_RESULT:
                if members.payload != MEMBER_UNKNOWN:
                    return None
                members.payload = member
                payload = payload_at(reader, at, rules, raw, is_item, 0)
                if payload is ABSENT:
                    return None
                at = reader.at
            elif member == MEMBER_ERROR:
                if members.payload != MEMBER_UNKNOWN:
                    return None
                members.payload = member
                payload = error_at(reader, at, rules, raw, is_item)
                if payload is ABSENT:
                    return None
                at = reader.at
            elif member == MEMBER_JSONRPC:
                if members.has_version or end - at < 5 or memcmp(at, b'"2.0"', 5) != 0:
                    return None
                members.has_version = True
                at += 5
            else:
                if not rules.extra_members:
                    return None
                at = skip_unread(reader, at, rules, 0, &skipped)
                if at == NULL:
                    return None
        at = past_space(at, end)
        if at >= end:
            return None
        if at[0] == c"}":
            break
        if at[0] != c",":
            return None
        at = past_space(at + 1, end)
    reader.at = at + 1
    if not members.has_version:
        return None
    if members.method == NULL:
        return response_of(&members, rules, payload)
    return call_of(&members, rules, payload)


cdef inline object call_of(Members* members, Rules rules, params):
    cdef Py_ssize_t size = members.method_end - members.method
    if size == 0 and not rules.empty_methods:
        return None
    if members.payload != MEMBER_UNKNOWN and (
        members.payload != MEMBER_PARAMS or not is_object_or_array(params, rules.array_params)
    ):
        return None
    method = method_of(members.method, size)
    if members.has_number:
        return make_request(PyLong_FromLongLong(members.number), method, params)
    if members.id != NULL:
        return make_request(ascii_of(members.id, members.id_end - members.id), method, params)
    return make_notification(method, params)


cdef inline object response_of(Members* members, Rules rules, payload):
    if members.has_number:
        id = PyLong_FromLongLong(members.number)
    elif members.id != NULL:
        id = ascii_of(members.id, members.id_end - members.id)
    else:
        return None
    if members.payload == MEMBER_ERROR:
        return make_response(id, None, payload)
    if members.payload != MEMBER_RESULT or (rules.object_results and not is_object_or_array(payload, False)):
        return None
    return make_response(id, payload, None)


cdef object decode_fast(const uint8_t* start, Py_ssize_t size, Rules rules, raw):
    """The valid message in a text; None for the slow path."""
    cdef ValueReader reader
    cdef const uint8_t* end = start + size
    start = past_space(start, end)
    if start >= end or start[0] != c"{":
        return None
    open_reader(&reader, start, end, rules.depth, rules.big_ints_as_float)
    message = read_object_fast(&reader, start, rules, raw, False)
    return message if message is not None and past_space(reader.at, end) == end else None
