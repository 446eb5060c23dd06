"""Messages as dicts: `decode_dict` and `encode_dict`.

Reading has two paths, as for messages. The fast path reads a valid message, or a batch of such, into dicts in one pass; the
table of the profile has the verdict on their members. Every other text is left to `dicts_of`. Writing checks a dict as
`parse` does, and then the writer of payloads writes it.
"""

cdef enum:
    # At most so many members of a message are read by the fast path.
    DICT_MEMBERS = 16


cdef struct DictParts:
    PyObject* items[2 * DICT_MEMBERS]  # names and values in turn, owned
    Py_ssize_t size
    uint32_t kinds


cdef object read_dicts(const uint8_t* start, Py_ssize_t size, Rules rules):
    """The message or the batch that fills a text, if it is valid; None for the slow path."""
    cdef ValueReader reader
    cdef const uint8_t* end = start + size
    cdef const uint8_t* at = past_space(start, end)
    cdef PyObject* message
    cdef list messages
    if size > rules.message_bytes or at >= end:
        return None
    open_reader(&reader, start, past_last_brace(at, end), rules.depth, rules.numbers)
    if at[0] == c"{":
        message = read_dict(&reader, at, rules, False)
        if message == NULL:
            return None
        found = owned(message)
        return found if past_space(reader.at, end) == end else None
    if at[0] != c"[" or rules.fault_of_batches is not None:
        return None
    messages = []
    while len(messages) < rules.batch_items:
        at = past_space(at + 1, reader.end)
        if at >= reader.end or at[0] != c"{":
            return None
        message = read_dict(&reader, at, rules, True)
        if message == NULL:
            return None
        append_owned(messages, message)
        at = past_space(reader.at, end)
        if at == end or at[0] != c",":
            return messages if at < end and at[0] == c"]" and past_space(at + 1, end) == end else None
    return None


cdef PyObject* read_dict(ValueReader* reader, const uint8_t* at, Rules rules, bint is_item) except? NULL:
    """The valid message in the object at `at`; NULL for the slow path. Sets `reader.at`."""
    cdef DictParts parts
    cdef PyObject* found = NULL
    parts.size = 0
    parts.kinds = 0
    try:
        if reader.end - at >= LONG_TEXT and not is_item and is_end_wrong(at, reader.end, rules):
            return NULL
        if not read_parts(reader, at, rules, is_item, &parts) or verdict_on(rules, parts.kinds).rule != NULL:
            return NULL
        found = dict_of(reader.caches, parts.items, parts.size)
        if found == NULL:
            check_raised()
        parts.size = 0
        return found
    finally:
        while parts.size > 0:
            parts.size -= 1
            drop(parts.items[parts.size])


cdef bint read_parts(ValueReader* reader, const uint8_t* at, Rules rules, bint is_item, DictParts* parts) except? False:
    """Read the members of the object at `at`; return False for the slow path. Sets `reader.at`. The caller owns them."""
    cdef const uint8_t* end = reader.end
    cdef PyObject* name
    cdef PyObject* value
    cdef Member member
    cdef uint32_t found = 0  # a bit for each known member
    at = past_space_inside(at + 1, end)
    while parts.size < 2 * DICT_MEMBERS:
        name = name_before_colon(reader, at, parts.size)
        if name == NULL:
            return False
        parts.items[parts.size] = name
        parts.size += 1
        at = reader.at
        member = MEMBER_UNKNOWN
        if PyUnicode_IS_ASCII(<object>name):
            member = name_of(<const uint8_t*>string_data(name), string_size(name), False)
        if member != MEMBER_UNKNOWN:
            if found >> <int>member & 1:
                return False
            found |= 1 << <int>member
        if member == MEMBER_ID:
            value = id_at(reader, at, rules)
            if value != NULL:
                parts.kinds |= kind_of_read_id(value)
        elif member == MEMBER_METHOD:
            value = method_at(reader, at, rules)
            if value != NULL:
                parts.kinds |= METHOD if string_size(value) > 0 else EMPTY_METHOD
        elif member == MEMBER_JSONRPC:
            if end - at < 5 or memcmp(at, b'"2.0"', 5) != 0:
                return False
            value = held(VERSION)
            parts.kinds |= VERSION_KIND
            reader.at = at + 5
        else:
            value = payload_at(reader, at, rules, NULL, is_item, 0)
            if value != NULL:
                parts.kinds |= kind_of_part(member, value)
        if value == NULL:
            return False
        parts.items[parts.size] = value
        parts.size += 1
        at = reader.at
        if at >= end:
            return False
        at = past_space_inside(at, end)
        if at[0] != c",":
            reader.at = at + 1
            return at[0] == c"}"
        at = past_space_inside(at + 1, end)
    return False


cdef inline uint32_t kind_of_read_id(PyObject* id) noexcept:
    """The kind of what `id_at` returns."""
    if is_integer(id):
        return INTEGER_ID
    if is_string(id):
        return STRING_ID
    return NULL_ID if id == NULL_VALUE else FLOAT_ID


cdef inline uint32_t kind_of_part(Member member, PyObject* value) except? 0xFFFFFFFF:
    """The kinds of any other member. IS_TOO_DEEP stands for what the slow path reports: no profile accepts it."""
    if member == MEMBER_PARAMS:
        return kind_of_payload(value, NULL_PARAMS, OBJECT_PARAMS, ARRAY_PARAMS, OTHER_PARAMS)
    if member == MEMBER_RESULT:
        return kind_of_payload(value, NULL_RESULT, OBJECT_RESULT, OTHER_RESULT, OTHER_RESULT)
    if member != MEMBER_ERROR:
        return HAS_EXTRA
    if not is_dict(value):
        return NULL_ERROR if value == NULL_VALUE else OTHER_ERROR
    error = <dict><object>value
    code = member_of(error, "code")
    # A number of another type may have been read in another way than the slow path reads it.
    if code is not ABSENT and not PyLong_CheckExact(code):
        return IS_TOO_DEEP
    return kinds_of_error(error, code, member_of(error, "message"), member_of(error, "data"))


def _decode_dict_fast(bytes text not None, profile):
    """What the fast path reads in a text, or None, for tests."""
    return read_dicts(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules_of(profile))


def decode_dict(data, profile=JSONRPC, *, faults="raise"):
    """`_pure.decode_dict`"""
    cdef Rules rules = rules_of(profile)
    if type(faults) is not str or faults != "raise":
        check_faults(faults)
    if isinstance(data, str) and PyUnicode_IS_ASCII(data):
        found = read_dicts(<const uint8_t*>PyUnicode_DATA(data), PyUnicode_GET_LENGTH(data), rules)
        if found is not None:
            return found
    text = bytes_given(data)  # once: a buffer may change
    found = read_dicts(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules)
    if found is None:
        found = dicts_of(text, decode_bytes(<bytes>text, rules, True), rules.numbers, ParseError, faults)
        if isinstance(found, ParseError):
            raise found
    return found


def encode_dict(message, profile=JSONRPC, *, delimited=True, default=None, option=0):
    """`_pure.encode_dict`"""
    cdef Rules rules = rules_of(profile)
    cdef Output output
    cdef char* at
    if option is not ZERO:
        check_option_fast(option)
    if type(message) is tuple:
        message = list(<tuple>message)
    fault = fault_in(message, rules)
    if fault is not None:
        raise not_a_dict(message, fault, (Request, Notification, Response))
    default = default_in(rules, default)
    at = open_output(&output)
    try:
        at = write_dicts(&output, at, message, default, option)
        at[0] = c"\n"
        return finish(&output, at + <bint>delimited)
    finally:
        close_output(&output)


cdef char* write_dicts(Output* output, char* at, message, default, option) except NULL:
    """Write a valid message or batch; a line ending may follow without a check of the room."""
    cdef Py_ssize_t start = at - output.start
    # What `default` returns is bounded with its message, not with the batch, which is one level deeper.
    if default is None or not isinstance(message, list):
        at = write_whole(output, at, message, default, option)
        if at != NULL:
            return at
        at = output.start + start
    if not isinstance(message, list):
        return write_unusual(output, at, write_parts(message, Raw, default, option))
    for index, item in enumerate(<list>message):
        at = checked(append(output, at, b"," if index else b"[", 1))
        start = at - output.start
        at = write_whole(output, at, item, default, option)
        if at == NULL:
            at = write_unusual(output, output.start + start, write_parts(item, Raw, default, option))
    return checked(append(output, at, b"]", 1))


cdef char* write_whole(Output* output, char* at, message, default, option) except? NULL:
    """Write a message or a batch as one value; NULL without an exception if only its parts may be written."""
    cdef Py_ssize_t start = at - output.start
    cdef bint is_too_deep = False
    cdef BoundedDefault bounded = new_bounded(message, default, option, True)
    at = try_value(output, at, message, bounded, option)
    if at != NULL:
        return at
    try:
        check_levels(<PyObject*>message, 0, option)
    except EncodeError:  # a part of it is one or two levels less deep
        is_too_deep = True
    if is_too_deep or has_odd_messages(message):
        return NULL
    return write_unusual(output, output.start + start, dumps_bounded(message, bounded, option, 0))


cdef bint has_odd_messages(message) except -1:
    """Whether a message, or one of a batch, is written by its parts."""
    if type(message) is not list:
        return type(message) is not dict or has_odd_parts(<dict>message)
    for item in <list>message:
        if type(item) is not dict or has_odd_parts(<dict>item):
            return True
    return False


cdef bint has_odd_parts(dict members) except -1:
    """Whether a message has what orjson does not write: a `Raw`."""
    for value in members.values():
        if type(value) is Raw:
            return True
    error = member_of(members, "error")
    if isinstance(error, dict):
        for value in (<dict>error).values():
            if type(value) is Raw:
                return True
    return False
