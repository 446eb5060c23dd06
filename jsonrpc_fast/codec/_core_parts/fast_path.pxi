"""The fast path: envelope and payload of a message in one forward pass.

It reads valid messages with their members in any order and spacing, if the names of the members are ASCII without
escapes. It knows no rule: the table of the profile says whether kinds make a valid message. The slow path reads every
other text from its beginning.

Bounds: the text ends in `}`. So a byte other than `}` is never the last one, and `past_space_inside` needs no bound.
"""


cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Without this, a change to any other function may change whether compilers inline these. A call of one costs 40
       instructions. */
    #define JSONRPC_FAST_RULES struct __pyx_obj_12jsonrpc_fast_5codec_5_core_Rules
    struct jsonrpc_fast_value_reader;
    struct jsonrpc_fast_members;
    JSONRPC_FAST_RULES;
    JSONRPC_FAST_INLINE int jsonrpc_fast_read_members(
        struct jsonrpc_fast_value_reader *, const uint8_t *, JSONRPC_FAST_RULES *,
        PyObject *, int, struct jsonrpc_fast_members *);
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_message_of_members(
        struct jsonrpc_fast_members *, JSONRPC_FAST_RULES *);
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_method_at(
        struct jsonrpc_fast_value_reader *, const uint8_t *, JSONRPC_FAST_RULES *);
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_payload_at(
        struct jsonrpc_fast_value_reader *, const uint8_t *, JSONRPC_FAST_RULES *,
        PyObject *, int, Py_ssize_t);
    static int jsonrpc_fast_is_end_wrong(
        const uint8_t *, const uint8_t *, JSONRPC_FAST_RULES *)
        __attribute__((noinline, cold));
    static const uint8_t *jsonrpc_fast_keep_member(
        struct jsonrpc_fast_value_reader *, const uint8_t *, JSONRPC_FAST_RULES *,
        const uint8_t *, const uint8_t *, int, Py_ssize_t, PyObject **) __attribute__((noinline));
    static PyObject *jsonrpc_fast_message_with_extra(struct jsonrpc_fast_members *) __attribute__((noinline));
    #endif
    """

cdef enum:
    # At most so many bytes of a text may follow its payload.
    TAIL_BYTES = 1024
    # From this size on, a look at the end of a message costs less than a hundredth of reading the message.
    LONG_TEXT = 4096
    # A double keeps every number with so many digits, unless its exponent is too large or too small.
    DOUBLE_DIGITS = 15


cdef struct Members "jsonrpc_fast_members":
    # The members of a message.
    PyObject* id  # owned; NULL: absent
    PyObject* method  # likewise
    PyObject* payload  # likewise
    PyObject* extra  # likewise: a dict of the unknown members, where the profile keeps them
    uint32_t kinds  # of the other members
    Member kind  # of the payload; MEMBER_UNKNOWN: absent


cdef inline const uint8_t* value_after(const uint8_t* at, const uint8_t* end) noexcept:
    """Past a colon and the space around it, behind a name; NULL if it is missing."""
    at = past_space_inside(at, end)
    return past_space_inside(at + 1, end) if at[0] == c":" else NULL


cdef inline const uint8_t* plain_after(
    ValueReader* reader, const uint8_t* at, const uint8_t** start, const uint8_t** stop
) noexcept:
    """Past the string at `at`; NULL if it is not ASCII without escapes. Sets the bounds of the string."""
    if at[0] != c'"':
        return NULL
    start[0] = at + 1
    at = plain_end(reader, at + 1)
    if at >= reader.end or at[0] != c'"':
        return NULL
    stop[0] = at
    return at + 1


cdef inline const uint8_t* number_after(const uint8_t* at, const uint8_t* end, int64_t* number) noexcept:
    """Past the integer at `at`; NULL for -0, for too many digits, and for any other text."""
    cdef bint negative = at[0] == c"-"
    cdef const uint8_t* digits
    cdef uint64_t found = 0  # too many digits overflow it; it is not used then
    at += negative
    digits = at
    while at < end and is_digit(at[0]):
        found = found * 10 + (at[0] - c"0")
        at += 1
    if at - digits != 1:
        if at == digits or at - digits > INTEGER_DIGITS or digits[0] == c"0":
            return NULL
    elif found == 0 and negative:
        return NULL
    number[0] = -<int64_t>found if negative else <int64_t>found
    return at


cdef PyObject* rare_id(ValueReader* reader, const uint8_t* start, Rules rules) noexcept:
    """The id at `start` if it is null or a number that `number_after` leaves; NULL for the slow path. Sets `reader.at`.

    A number with a fraction is read if a double keeps it exactly. Numbers such as -0 are left to the slow path.
    """
    cdef const uint8_t* at = start
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* digits
    cdef const uint8_t* point
    cdef uint64_t number = 0
    cdef double value
    if end - at >= 4 and memcmp(at, b"null", 4) == 0:
        reader.at = at + 4
        return held(None)
    at += at[0] == c"-"
    digits = at
    at = digits_after(at, end, &number)
    if at == digits or (digits[0] == c"0" and (at - digits > 1 or digits > start)) or at - start > rules.id_bytes:
        return NULL
    if at >= end or at[0] != c".":
        reader.at = at  # if an exponent follows, the caller does not find its comma
        # All numbers of MANTISSA_DIGITS fit in 64 bits.
        return new_unsigned(number) if digits == start and at - digits <= MANTISSA_DIGITS else exact_integer(start, at)
    point = at
    at = digits_after(at + 1, end, &number)
    if not EXACT_DOUBLES or at - point == 1 or at - digits > DOUBLE_DIGITS + 1:
        return NULL
    reader.at = at
    # As in `float_at`: both operands are exact.
    value = <double><int64_t>number / TENS[at - point - 1]
    return new_float(-value if digits > start else value)


cdef inline PyObject* id_at(ValueReader* reader, const uint8_t* at, Rules rules) noexcept:
    """The id at `at`; NULL for the slow path. Sets `reader.at`."""
    cdef const uint8_t* after
    cdef PyObject* text
    cdef int64_t number
    if at[0] == c'"':
        text = string_at(reader, at + 1)
        # The str has at most as many bytes as its text: an escape is longer than its character.
        if text != NULL and reader.at - at - 2 > rules.id_bytes:
            drop(text)
            return NULL
        return text
    after = number_after(at, reader.end, &number)
    if after == NULL or (after < reader.end and after[0] == c"."):
        return rare_id(reader, at, rules)
    reader.at = after
    return integer_of(number)


cdef inline PyObject* method_at "jsonrpc_fast_method_at"(ValueReader* reader, const uint8_t* at, Rules rules) noexcept:
    """The method at `at`; NULL for the slow path. Sets `reader.at`."""
    cdef PyObject* method
    if at[0] != c'"':
        return NULL
    method = name_in_text(reader, at + 1, 0)
    if method == NULL:
        return NULL
    if reader.at - at - 2 > rules.method_bytes:
        drop(method)
        return NULL
    return method


cdef inline bint ends_in_container(const uint8_t* start, const uint8_t* end) noexcept:
    """Whether a message up to `end` ends in an object or array, so that no `jsonrpc` follows it."""
    cdef int i
    for i in range(2):
        while end > start and is_space(end[-1]):
            end -= 1
        end -= 1
        if end <= start or (end[0] != c"}" and (i == 0 or end[0] != c"]")):
            return False
    return True


cdef const uint8_t* skip_unread(
    ValueReader* reader, const uint8_t* at, Rules rules, Py_ssize_t around, Value* value
) noexcept:
    """Past the value at `at`, inside `around` containers; NULL if it is invalid or too deep."""
    cdef Cursor cursor
    open_cursor(&cursor, at, reader.end - at)
    if not skip_value(&cursor, value) or value.depth + around > rules.depth:
        return NULL
    return cursor.at


cdef const uint8_t* find_payload_end(const uint8_t* start, const uint8_t* end) noexcept:
    """The end of the payload at `start`, if it is the last object or array in a message that fills the text.

    This is a guess. It is right if one value ends there, and the reader finds the rest of the message after it.
    """
    cdef const uint8_t* at = end
    start = max(start + 1, at - TAIL_BYTES)
    while at > start and is_space(at[-1]):
        at -= 1
    if at > start and at[-1] == c"}":
        at -= 1
    while at > start and at[-1] != c"}" and at[-1] != c"]":
        at -= 1
    return at if at > start else NULL


cdef bint skim_members(Cursor* cursor, uint32_t* found) noexcept:
    """Read members up to the value of a payload or to a closing brace; return False if there is a fault.

    found: a bit for each member that was read before, and then for these, too.
    """
    cdef const uint8_t* name
    cdef Member member
    cdef Value value
    cdef bint plain
    while True:
        skip_space(cursor)
        name = cursor.at + 1
        if not skip_string(cursor, &plain):
            return False
        member = name_of(name, cursor.at - 1 - name, False) if plain else MEMBER_UNKNOWN
        skip_space(cursor)
        if not expect(cursor, c":"):
            return False
        skip_space(cursor)
        if member == MEMBER_PARAMS or member == MEMBER_RESULT or member == MEMBER_ERROR:
            return cursor.at < cursor.end
        if member != MEMBER_UNKNOWN and found[0] >> <int>member & 1:
            return False
        found[0] |= 1 << <int>member
        if not skip_value(cursor, &value):
            return False
        skip_space(cursor)
        if cursor.at < cursor.end and cursor.at[0] == c"}":
            return True
        if not expect(cursor, c","):
            return False


cdef bint is_end_wrong "jsonrpc_fast_is_end_wrong"(const uint8_t* start, const uint8_t* end, Rules rules) noexcept:
    """Whether the members after the payload of a long message show a fault, so that the payload need not be made. The
    message fills the text from `start` to `end`.

    False for a payload with a long string in its middle, which is made in the time that this look takes. The guess of the
    payload's end is wrong if a string after the payload holds a brace or bracket; the slow path reads such a message.

    Bounds: the text has at least LONG_TEXT bytes, so that 64 can be read from its middle on.
    """
    cdef const uint8_t* middle = start + ((end - start) >> 1)
    cdef const uint8_t* at
    cdef Cursor cursor
    cdef uint32_t found = 0
    if plain_bytes(middle) & plain_bytes(middle + 16) & plain_bytes(middle + 32) & plain_bytes(middle + 48) == 0xFFFF:
        return False
    at = find_payload_end(start, end)
    if at == NULL:
        return False
    at = past_space(at, end)
    if end - at < 2:
        return False
    open_cursor(&cursor, start + 1, end - start - 1)
    if not skim_members(&cursor, &found) or cursor.at >= at or (cursor.at[0] != c"{" and cursor.at[0] != c"["):
        return False
    cursor.at = at + 1
    if at[0] != c"," or not skim_members(&cursor, &found) or cursor.at + 1 != end:
        return True
    return rules.needs_version and found >> <int>MEMBER_JSONRPC & 1 == 0


cdef object loads_part(const uint8_t* start, Py_ssize_t size, int numbers):
    """The value in a part of a text that is JSON. numbers: how they are read.

    Raises ValueError if it nests too deep, or if `check_numbers` would.
    """
    cdef ValueReader reader
    cdef PyObject* value
    open_reader(&reader, start, start + size, MAX_DEPTH, numbers)
    value = value_at(&reader, start, MAX_DEPTH)
    if value != NULL:
        return owned(value)
    check_raised()
    return loads_as(PyBytes_FromStringAndSize(<char*>start, size), numbers)


cdef inline PyObject* payload_at "jsonrpc_fast_payload_at"(
    ValueReader* reader, const uint8_t* at, Rules rules, PyObject* raw, bint is_item, Py_ssize_t around
) except? NULL:
    """The payload at `at`, inside `around` containers; NULL for the slow path. Sets `reader.at`.

    raw: NULL to decode it; else as in `decode_text`.
    """
    cdef Value skipped
    cdef PyObject* value
    if raw != NULL:
        reader.at = skip_unread(reader, at, rules, around, &skipped)
        if reader.at == NULL or may_be_refused(&skipped, rules):
            return NULL
        return held(make_raw(skipped.start, skipped.end - skipped.start, <object>raw, 0))
    return value_at(reader, at, reader.depth - around)


cdef struct ErrorParts:
    # The members of an error object.
    int64_t code
    bint has_code
    PyObject* message  # owned; NULL: absent
    PyObject* data  # likewise
    PyObject* extra  # as in `Members`


cdef inline PyObject* error_at(
    ValueReader* reader, const uint8_t* at, Rules rules, PyObject* raw, bint is_item
) except? NULL:
    """The Error at `at`; NULL for the slow path. Sets `reader.at`."""
    cdef ErrorParts parts
    cdef PyObject* code
    cdef PyObject* message
    cdef PyObject* data
    parts.has_code = False
    parts.message = NULL
    parts.data = NULL
    parts.extra = NULL
    try:
        if not read_error_parts(reader, at, rules, raw, is_item, &parts):
            return NULL
        if not parts.has_code or parts.message == NULL:
            return NULL
        code = integer_of(parts.code)
        if code == NULL:
            return NULL
        message = parts.message
        data = parts.data
        parts.message = NULL
        parts.data = NULL
        if data == NULL and parts.extra == NULL:
            return new_object(ERRORS, code, message, held(UNSET), False)
        if data == NULL:
            data = held(UNSET)
        if parts.extra != NULL:
            data = extended(data, parts.extra)
        return new_object(ERRORS, code, message, data, can_be_in_cycle(data))
    finally:
        drop_if_any(parts.extra)
        drop_if_any(parts.message)
        drop_if_any(parts.data)


cdef bint read_error_parts(
    ValueReader* reader, const uint8_t* at, Rules rules, PyObject* raw, bint is_item, ErrorParts* parts
) except? False:
    """Read the error object at `at`; return False for the slow path. Sets `reader.at`. The caller owns the parts."""
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* name
    cdef const uint8_t* name_end
    cdef Member member
    cdef Value skipped
    if at[0] != c"{":
        return False
    at = past_space_inside(at + 1, end)
    while True:
        at = plain_after(reader, at, &name, &name_end)
        if at == NULL:
            return False
        member = name_of(name, name_end - name, True)
        at = value_after(at, end)
        if at == NULL:
            return False
        if member == MEMBER_CODE:
            at = number_after(at, end, &parts.code)
            if at == NULL or parts.has_code:
                return False
            parts.has_code = True
        elif member == MEMBER_MESSAGE:
            if at[0] != c'"' or parts.message != NULL:
                return False
            parts.message = string_at(reader, at + 1)
            if parts.message == NULL:
                return False
            at = reader.at
        elif member == MEMBER_DATA:
            if parts.data != NULL or rules.depth < 2:
                return False
            parts.data = payload_at(reader, at, rules, raw, is_item, 1)
            if parts.data == NULL:
                return False
            at = reader.at
        elif rules.ignores_extra:
            at = skip_unread(reader, at, rules, 1, &skipped)
            if at == NULL or may_be_refused(&skipped, rules):
                return False
        else:
            at = keep_member(reader, at, rules, name, name_end, is_item, 1, &parts.extra)
            if at == NULL:
                return False
        if at == end:
            return False
        at = past_space_inside(at, end)
        if at[0] != c",":
            reader.at = at + 1
            return at[0] == c"}"
        at = past_space_inside(at + 1, end)


cdef PyObject* extended(PyObject* payload, PyObject* extra) except NULL:
    """A payload with unknown members. It takes over the reference to the payload."""
    return held(with_extra(owned(payload), <object>extra))


cdef const uint8_t* keep_member "jsonrpc_fast_keep_member"(
    ValueReader* reader,
    const uint8_t* at,
    Rules rules,
    const uint8_t* name,
    const uint8_t* name_end,
    bint is_item,
    Py_ssize_t around,
    PyObject** members,
) except? NULL:
    """Read the value at `at` into `members`, a dict or NULL; return its end, or NULL for the slow path.

    Of equal names the last one counts, in the place of the first.
    """
    cdef PyObject* value
    cdef PyObject* text
    cdef int status
    if not rules.keeps_extra:
        return NULL
    if members[0] == NULL:
        members[0] = new_dict()
        if members[0] == NULL:
            check_raised()
    value = payload_at(reader, at, rules, NULL, is_item, around)
    if value == NULL:
        return NULL
    text = name_at(reader.caches, name, name_end - name)
    status = -1 if text == NULL else set_dict_item(members[0], text, value)
    drop(value)
    drop_if_any(text)
    if status < 0:
        check_raised()
    return reader.at


# What leaves an exception set, for a caller that looks for it.
ctypedef bint (*MembersReader)(ValueReader*, const uint8_t*, Rules, PyObject*, bint, Members*) noexcept
ctypedef PyObject* (*MessageMaker)(Members*, Rules) noexcept


cdef PyObject* read_object_fast(
    ValueReader* reader, const uint8_t* at, Rules rules, PyObject* raw, bint is_item
) except? NULL:
    """The valid message in the object at `at`; NULL for the slow path. Sets `reader.at`."""
    cdef Members members
    cdef PyObject* message = NULL
    if unlikely(reader.end - at >= LONG_TEXT) and not is_item and is_end_wrong(at, reader.end, rules):
        return NULL
    members.id = NULL
    members.method = NULL
    members.payload = NULL
    members.extra = NULL
    # An exception stays set while the members are dropped, which run no code: `try` would cost 20 instructions.
    if (<MembersReader>read_members)(reader, at, rules, raw, is_item, &members):
        message = (<MessageMaker>message_of_members)(&members, rules)
        if message != NULL:  # it has taken over all members
            return message
    drop_if_any(members.id)
    drop_if_any(members.method)
    drop_if_any(members.payload)
    drop_if_any(members.extra)
    return NULL


cdef inline bint read_members "jsonrpc_fast_read_members"(
    ValueReader* reader, const uint8_t* at, Rules rules, PyObject* raw, bint is_item, Members* members
) except? False:
    """Read the object at `at`; return False for the slow path. Sets `reader.at`. The caller owns the members."""
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* after
    cdef const uint8_t* name = NULL  # set for unknown members
    cdef const uint8_t* name_end = NULL
    cdef Member member
    cdef Value skipped
    cdef Py_ssize_t left
    cdef int64_t number
    members.kinds = 0
    members.kind = MEMBER_UNKNOWN
    if end - at >= 24 and memcmp(at, b'{"jsonrpc":"2.0","', 18) == 0:
        members.kinds = VERSION_KIND
        at += 17
        if memcmp(at, b'"id":', 5) == 0 and is_digit(at[5]):  # as nearly all peers continue
            after = number_after(at + 5, end, &number)
            if after != NULL and after[0] == c"," and after[1] == c'"':
                members.id = integer_of(number)
                if members.id == NULL:
                    return False
                at = after + 1
                if end - at >= 10 and memcmp(at, b'"method":"', 10) == 0:
                    members.method = method_at(reader, at + 9, rules)
                    if members.method == NULL:
                        return False
                    at = past_space_inside(reader.at, end)
                    if at[0] != c",":
                        reader.at = at + 1
                        return at[0] == c"}"
                    at = past_space_inside(at + 1, end)
    elif end - at >= 20 and memcmp(at, b'{"jsonrpc": "2.0", "', 20) == 0:  # as `json.dumps` writes it
        members.kinds = VERSION_KIND
        at += 19
    else:
        at = past_space_inside(at + 1, end)
    while True:
        # A name begins here. The usual ones are compared in words of four and eight bytes.
        left = end - at
        if left < 5:
            return False
        if memcmp(at, b'"id"', 4) == 0:
            member = MEMBER_ID
            at += 4
        elif left >= 9 and memcmp(at, b'"method"', 8) == 0:
            member = MEMBER_METHOD
            at += 8
        elif left >= 9 and memcmp(at, b'"params"', 8) == 0:
            member = MEMBER_PARAMS
            at += 8
        elif left >= 9 and memcmp(at, b'"result"', 8) == 0:
            member = MEMBER_RESULT
            at += 8
        elif left >= 9 and memcmp(at, b'"jsonrpc"', 9) == 0:
            member = MEMBER_JSONRPC
            at += 9
        else:
            at = plain_after(reader, at, &name, &name_end)
            if at == NULL:
                return False
            member = name_of(name, name_end - name, False)
        at = value_after(at, end)
        if at == NULL:
            return False
        if member == MEMBER_ID:
            if members.id != NULL:
                return False
            members.id = id_at(reader, at, rules)
            if members.id == NULL:
                return False
            at = reader.at
        elif member == MEMBER_METHOD:
            if members.method != NULL:
                return False
            members.method = method_at(reader, at, rules)
            if members.method == NULL:
                return False
            at = reader.at
        elif member == MEMBER_PARAMS or member == MEMBER_RESULT or member == MEMBER_ERROR:
            if members.kind != MEMBER_UNKNOWN:
                return False
            # Without `jsonrpc` the slow path finds the fault, and would not use this payload.
            if members.kinds & VERSION_KIND == 0 and rules.needs_version and not is_item:
                if ends_in_container(at, end):
                    return False
            members.kind = member
            if member == MEMBER_ERROR:
                members.payload = error_at(reader, at, rules, raw, is_item)
            else:
                members.payload = payload_at(reader, at, rules, raw, is_item, 0)
            if members.payload == NULL:
                return False
            at = reader.at
        elif member == MEMBER_JSONRPC:
            if members.kinds & VERSION_KIND or end - at < 5 or memcmp(at, b'"2.0"', 5) != 0:
                return False
            members.kinds |= VERSION_KIND
            at += 5
        elif rules.ignores_extra:
            members.kinds |= HAS_EXTRA
            at = skip_unread(reader, at, rules, 0, &skipped)
            if at == NULL:
                return False
        else:
            members.kinds |= HAS_EXTRA
            at = keep_member(reader, at, rules, name, name_end, is_item, 0, &members.extra)
            if at == NULL:
                return False
        if at == end:
            return False
        at = past_space_inside(at, end)
        if at[0] != c",":
            reader.at = at + 1
            return at[0] == c"}"
        at = past_space_inside(at + 1, end)


cdef inline PyObject* take_member(PyObject** member) noexcept:
    """The reference to a member, or a new one to None; the caller owns it."""
    cdef PyObject* value = member[0]
    member[0] = NULL
    return value if value != NULL else held(None)


cdef inline PyObject* message_of_members "jsonrpc_fast_message_of_members"(Members* members, Rules rules) except? NULL:
    """The message with these members, which it takes over. NULL if it is invalid, if null has a meaning of its own (null
    params, which may be a `Raw`, and the null id of a notification), and for a response that repeats its method."""
    cdef Verdict* verdict
    cdef PyObject* payload
    cdef bint tracked
    cdef uint32_t kinds
    if not is_usual(members, rules):
        kinds = kinds_of_members(members)
        verdict = verdict_on(rules, kinds)
        if verdict.rule != NULL or kinds & PARAMS_MASK == NULL_PARAMS:
            return NULL
        if verdict.kind == A_NOTIFICATION and members.id != NULL:
            return NULL
        if members.method != NULL and verdict.kind != A_REQUEST and verdict.kind != A_NOTIFICATION:
            return NULL
        if members.extra != NULL:
            return message_with_extra(members)
    tracked = members.payload != NULL and can_be_in_cycle(members.payload)
    payload = take_member(&members.payload)
    if members.method == NULL:
        if members.kind == MEMBER_ERROR:
            return new_object(RESPONSES, take_member(&members.id), held(None), payload, True)
        return new_object(RESPONSES, take_member(&members.id), payload, held(None), tracked)
    if members.id == NULL:
        return new_object(NOTIFICATIONS, take_member(&members.method), payload, NULL, tracked)
    return new_object(REQUESTS, take_member(&members.id), take_member(&members.method), payload, tracked)


cdef PyObject* message_with_extra "jsonrpc_fast_message_with_extra"(Members* members) except NULL:
    """The message with these members, some of them unknown."""
    cdef bint is_request = members.id != NULL
    cdef bint is_call = members.method != NULL
    id = owned(take_member(&members.id))
    method = owned(take_member(&members.method))
    payload = owned(take_member(&members.payload))
    extra = owned(take_member(&members.extra))
    if is_call:
        if not is_request:
            return held(make_object(NOTIFICATIONS, method, with_extra(payload, extra), None))
        return held(make_object(REQUESTS, id, method, with_extra(payload, extra)))
    if members.kind == MEMBER_ERROR:
        return held(make_object(RESPONSES, id, with_extra(None, extra), payload))
    return held(make_object(RESPONSES, id, with_extra(payload, extra), None))


cdef inline bint is_usual(Members* members, Rules rules) noexcept:
    """Whether these members make a message that `rules.py` accepts, without a look at the table.

    No profile refuses a call without params or with an object, a result that is an object, or an error, if the id is an
    integer or a string. `Rules` says whether the profile takes other params and results. `test_kinds.py` tries all
    profiles.
    """
    if members.kinds != VERSION_KIND:
        return False
    if members.id != NULL and not is_integer(members.id) and not is_string(members.id):
        return False
    if members.method != NULL:
        if string_size(members.method) == 0:
            return False
        if members.payload == NULL:
            return True
        if members.kind != MEMBER_PARAMS:
            return False
        return is_usual_payload(members.payload, rules.takes_arrays)
    if members.payload == NULL or members.id == NULL:
        return False
    if members.kind == MEMBER_RESULT:
        return rules.takes_any_result or is_usual_payload(members.payload, False)
    return members.kind == MEMBER_ERROR


cdef inline bint is_usual_payload(PyObject* value, bint array_allowed) noexcept:
    """Whether what `payload_at` returns is an object, or an array where that is allowed."""
    cdef uint8_t first
    if is_dict(value):
        return True
    if is_list(value):
        return array_allowed
    if <PyObject*>type_of(value) != <PyObject*>Raw:
        return False
    first = (<Raw>value).start[0]
    return first == c"{" or (first == c"[" and array_allowed)


cdef inline uint32_t kinds_of_members(Members* members) noexcept:
    cdef uint32_t kinds = members.kinds
    if members.id != NULL:
        if is_integer(members.id):
            kinds |= INTEGER_ID
        elif is_string(members.id):
            kinds |= STRING_ID
        else:
            kinds |= NULL_ID if members.id == NULL_VALUE else FLOAT_ID
    if members.method != NULL:
        kinds |= METHOD if string_size(members.method) > 0 else EMPTY_METHOD
    if members.payload == NULL:
        return kinds
    if members.kind == MEMBER_PARAMS:
        return kinds | kind_of_payload(members.payload, NULL_PARAMS, OBJECT_PARAMS, ARRAY_PARAMS, OTHER_PARAMS)
    if members.kind == MEMBER_RESULT:
        return kinds | kind_of_payload(members.payload, NULL_RESULT, OBJECT_RESULT, OTHER_RESULT, OTHER_RESULT)
    return kinds | OBJECT_ERROR | HAS_ERROR_CODE | HAS_ERROR_MESSAGE


cdef inline uint32_t kind_of_payload(
    PyObject* value, uint32_t null, uint32_t object_, uint32_t array, uint32_t other
) noexcept:
    """The kind of what `payload_at` returns."""
    if is_dict(value):
        return object_
    if is_list(value):
        return array
    if <PyObject*>type_of(value) == <PyObject*>Raw:
        return kind_of_token((<Raw>value).start[0], null, object_, array, other)
    return null if value == <PyObject*>None else other


cdef inline PyObject* read_text_fast(
    ValueReader* reader, const uint8_t* start, Rules rules, PyObject* raw
) except? NULL:
    """The valid message that fills the text from `start` on; NULL for the slow path."""
    cdef const uint8_t* end = reader.end
    cdef PyObject* message
    start = past_space(start, end)
    if start >= end or start[0] != c"{":
        return NULL
    while is_space(end[-1]):
        end -= 1
    # A truncated message goes to the slow path before its payload is made.
    if end[-1] != c"}":
        return NULL
    reader.end = end
    message = read_object_fast(reader, start, rules, raw, False)
    if message == NULL or reader.at == end:
        return message
    drop(message)
    return NULL
