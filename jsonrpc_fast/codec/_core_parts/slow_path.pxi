"""The slow path: from the envelopes that the scanner finds to messages and faults."""


cdef object fault_of_text(const uint8_t* start, Cursor* cursor, Rules rules, Envelope* envelope, bint in_batch):
    """The fault of a text that stops being JSON at `cursor.fault`; invalid UTF-8 comes first.

    rules: None if the text is not a message. envelope: of the message in which it is, or NULL.
    """
    cdef const uint8_t* invalid
    if cursor.out_of_memory:
        raise MemoryError
    invalid = find_invalid(start, cursor.end)
    if rules is None:
        if invalid != NULL:
            return make_fault(INVALID_UTF8, None, invalid - start)
        return make_fault(MALFORMED_JSON, None, cursor.fault - start)
    settles = settled_in(start, cursor.end, rules) if in_batch else []
    if invalid != NULL:
        return fault_after(INVALID_UTF8, invalid - start, cursor, rules, envelope, settles)
    if cursor.fault < cursor.end and cursor.fault[0] == c"\\":
        found = fault_of_surrogate(start, cursor, rules)
        if found is not None:
            return found
    return fault_after(MALFORMED_JSON, cursor.fault - start, cursor, rules, envelope, settles)


cdef object fault_after(Rule rule, offset, Cursor* cursor, Rules rules, Envelope* envelope, list settles):
    """The fault of a text that is readable up to `cursor.fault`. settles: the responses before the last message."""
    cdef bint reply_expected = True
    cdef Value* value
    cdef Verdict* verdict
    if envelope != NULL and envelope.is_object:
        value = &envelope.members[<int>MEMBER_ID]
        # A number at the end may continue.
        id = ABSENT if value.start == NULL or value.end >= cursor.fault else certain_id(value, rules)
        # Nor is it known whether the message has no id.
        verdict = verdict_on_begun(envelope, id, OTHER_METHOD, rules)
        reply_expected = verdict.reply_expected
        if verdict.is_id_certain and not reply_expected:
            settles.append(id)
    return make_fault(rule, None, offset, None, reply_expected and not settles, tuple(settles))


cdef list settled_in(const uint8_t* start, const uint8_t* end, Rules rules):
    """The calls that the allowed items of a batch answer, up to its first fault. One item at a time is in memory."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Envelope error
    cdef Py_ssize_t left = rules.batch_items
    cdef list settles = []
    open_cursor(&cursor, start, end - start)
    skip_space(&cursor)
    cursor.at += 1  # the bracket
    skip_space(&cursor)
    while left > 0 and read_message(&cursor, &envelope, &error):
        left -= 1
        item = read_envelope(&envelope, &error, rules, None, None)
        settles.extend(settled_by(item))
        skip_space(&cursor)
        if not expect(&cursor, c","):
            break
        skip_space(&cursor)
    if cursor.out_of_memory:
        raise MemoryError
    return settles


cdef object settled_by(item):
    """`_messages.settled_by`"""
    if type(item) is Response:
        return () if (<Response>item).id is None else ((<Response>item).id,)
    if type(item) is not ParseError:
        return ()
    settles = <object>place_at(item, SETTLES_OFFSET)[0]
    id = <object>place_at(item, ID_OFFSET)[0]
    if settles or id is None:
        return settles
    if place_at(item, REPLY_EXPECTED_OFFSET)[0] == TRUE_VALUE and place_at(item, CODE_OFFSET)[0] != <PyObject*>MISSING_METHOD:
        return ()
    return (id,)


cdef object fault_of_surrogate(const uint8_t* start, Cursor* found, Rules rules):
    """The fault of a text at an escape, with the id and `reply_expected` if lone surrogates are its only faults; else
    None."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Value* value
    cdef uint32_t method = 0
    open_cursor(&cursor, start, found.end - start)
    cursor.any_surrogate = True
    skip_space(&cursor)
    if (
        cursor.at >= cursor.end
        or cursor.at[0] != c"{"
        or not read_message(&cursor, &envelope, NULL)
        or not read_end(&cursor)
    ):
        if cursor.out_of_memory:
            raise MemoryError
        return None
    value = &envelope.members[<int>MEMBER_METHOD]
    if value.start != NULL:
        method = METHOD if value.start[0] == c'"' else OTHER_METHOD
    id = certain_id(&envelope.members[<int>MEMBER_ID], rules)
    return fault_with_id(MALFORMED_JSON, &envelope, id, method, rules, found.fault - start)


cdef object fault_with_id(Rule rule, Envelope* envelope, id, uint32_t method, Rules rules, offset):
    """The fault of a text in which these members were found, with the id if it is certain. method: its kind."""
    cdef Verdict* verdict = verdict_on_begun(envelope, id, method, rules)
    return make_fault(rule, id if verdict.is_id_certain else None, offset, None, verdict.reply_expected)


cdef Verdict* verdict_on_begun(Envelope* envelope, id, uint32_t method, Rules rules) except NULL:
    """The verdict on the members that have begun."""
    cdef uint32_t kinds = kind_of_id(id, rules.id_bytes) | method
    if has_begun(envelope, MEMBER_RESULT):
        kinds |= OTHER_RESULT
    if has_begun(envelope, MEMBER_ERROR):
        kinds |= OTHER_ERROR
    if envelope.duplicates:
        kinds |= HAS_DUPLICATE
    return verdict_on(rules, kinds)


cdef object certain_id(Value* value, Rules rules):
    """As `id_of`; ABSENT if absent, None for a string with a lone surrogate."""
    if value.start == NULL:
        return ABSENT
    try:
        return id_of(value, rules.id_bytes)
    except JSONDecodeError:
        pass
    return None


cdef object fault_of_large(const uint8_t* start, Py_ssize_t size, Rules rules):
    """The fault of a text over the size limit, from its first `size` bytes; `too_large_fault` in `_pure.py` has the
    rules."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Value* id
    cdef Py_ssize_t read = -1
    size = min(size, rules.message_bytes, HEAD_BYTES)
    try:
        read = utf_8_decode(PyBytes_FromStringAndSize(<char*>start, size), "strict", False)[1]
    except UnicodeDecodeError:
        pass
    if read < 0:
        return make_fault(MESSAGE_TOO_LARGE)
    open_cursor(&cursor, start, read)
    cursor.any_surrogate = True
    skip_space(&cursor)
    if cursor.at >= cursor.end or cursor.at[0] != c"{":
        return make_fault(MESSAGE_TOO_LARGE)
    if not (read_message(&cursor, &envelope, NULL) and read_end(&cursor)):
        if cursor.out_of_memory:
            raise MemoryError
        if cursor.fault < cursor.end:
            return make_fault(MESSAGE_TOO_LARGE)
    if not (
        has_begun(&envelope, MEMBER_METHOD)
        or has_begun(&envelope, MEMBER_PARAMS)
        or has_begun(&envelope, MEMBER_RESULT)
        or has_begun(&envelope, MEMBER_ERROR)
    ):
        return make_fault(MESSAGE_TOO_LARGE)
    id = &envelope.members[<int>MEMBER_ID]
    # A number at the end may continue.
    found = ABSENT if id.start == NULL or id.end == cursor.end else certain_id(id, rules)
    # Nor is it known whether the message has no id.
    return fault_with_id(MESSAGE_TOO_LARGE, &envelope, found, OTHER_METHOD, rules, None)


cdef object bytes_given(data):
    """The argument of a public function as bytes, which are not UTF-8 if it is a str with a lone surrogate. No method of
    `data` is called, and a str caches no copy of its UTF-8."""
    if PyBytes_CheckExact(data):
        return data
    if isinstance(data, str):
        return PyUnicode_AsEncodedString(data, "utf-8", "surrogatepass")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return copied_bytes(data)
    raise TypeError(f"data must be bytes, bytearray, memoryview or str, not {type(data).__name__}")


cdef object copied_bytes(data):
    """The bytes of a buffer, copied: they may change at any time, and what is checked must not.

    `recv_into` in another thread writes without the GIL, another process writes to shared memory, and before Python 3.12
    a finalizer may run in an allocation. Since 3.12 a subclass may have a `__buffer__`, whose bytes may not be contiguous.
    """
    if type(data) is bytearray and not FREE_THREADED:
        return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(data), PyByteArray_GET_SIZE(data))
    return bytes(memoryview(data))


cdef inline object bytes_of(Value* value):
    return PyBytes_FromStringAndSize(<char*>value.start, value.end - value.start)


cdef inline object string_of(Value* value):
    """The str of a string token."""
    if not value.plain:
        return loads(bytes_of(value))
    return made(ascii_at(value.start + 1, value.end - value.start - 2))


cdef object id_of(Value* value, Py_ssize_t limit):
    """The id in a token; None for null, () if invalid."""
    cdef const uint8_t* at = value.start
    cdef const uint8_t* end = value.end
    cdef int64_t number = 0
    if at[0] == c'"':
        return string_of(value)
    if at[0] != c"-" and not c"0" <= at[0] <= c"9":
        return None if at[0] == c"n" else ()
    if end - at > limit:
        return 10 ** <object>limit  # represents any integer over the limit
    if number_after(at, end, &number) == end:
        return PyLong_FromLongLong(number)
    found = exact_number(bytes_of(value))
    return () if found is None else found


cdef object payload_of(Value* value, Rules rules, raw):
    """The value of a member that the profile decodes; ABSENT if absent."""
    if value.start == NULL:
        return ABSENT
    if raw is not None:
        return make_raw(value.start, value.end - value.start, raw, rules.numbers & DECIMALS)
    return loads_part(value.start, value.end - value.start, rules.numbers & DECIMALS)


cdef inline bint may_be_refused(Value* value, Rules rules) noexcept:
    """Whether a member may hold a number that the profile or CPython refuses.

    Every limit on the digits of an int allows MAX_ID_BYTES of them.
    """
    return rules.numbers & DECIMALS or (
        value.wide and (rules.numbers & NO_WIDE_INTEGERS or value.end - value.start > MAX_ID_BYTES)
    )


cdef bint is_refused(Value* value, Rules rules) except -1:
    """Whether a member holds a number that the profile or CPython refuses."""
    if value.start == NULL or not may_be_refused(value, rules):
        return False
    if value.wide and rules.numbers & NO_WIDE_INTEGERS:
        return True
    try:
        check_numbers(bytes_of(value), rules.numbers & DECIMALS)
        return False
    except ValueError:
        pass
    return True


cdef dict unexpected_members(Envelope* envelope, bint of_error, Rules rules, bint* refused):
    """The unknown members of an object, which is valid JSON; None if one is too deep or refused."""
    cdef Cursor cursor
    cdef ValueReader reader
    cdef Value name
    cdef Value value
    cdef Member member
    cdef PyObject* found
    cdef dict members = {}
    open_cursor(&cursor, envelope.start + 1, envelope.end - envelope.start - 1)
    open_reader(&reader, envelope.start, envelope.end, rules.depth, rules.numbers)
    skip_space(&cursor)
    while skip_value(&cursor, &name):  # false at the closing brace
        if name.plain:
            member = name_of(name.start + 1, name.end - name.start - 2, of_error)
        else:
            member = name_of_escaped(name.start + 1, name.end - 1, of_error)
        skip_space(&cursor)
        expect(&cursor, c":")
        skip_space(&cursor)
        found = NULL if member != MEMBER_UNKNOWN else value_at(&reader, cursor.at, reader.depth)
        if found != NULL:
            cursor.at = reader.at
            members[string_of_method(&name)] = owned(found)
        else:
            check_raised()
            if not skip_value(&cursor, &value):
                raise MemoryError
            if member == MEMBER_UNKNOWN:
                text = string_of_method(&name)
                if is_refused(&value, rules):
                    refused[0] = True
                    members[text] = None
                else:
                    members[text] = None if value.depth > rules.depth else payload_of(&value, rules, None)
        skip_space(&cursor)
        expect(&cursor, c",")
        skip_space(&cursor)
    return members


cdef object read_envelope(Envelope* envelope, Envelope* error, Rules rules, index, raw):
    """The message in an envelope, or its fault. Payloads are read after the verdict. error: as in `read_object`."""
    cdef uint32_t kinds = IS_TOO_DEEP if envelope.depth > rules.depth else 0
    cdef bint refused = False
    cdef Value* value
    cdef Verdict* verdict
    cdef int member
    extra = None
    if not envelope.is_object:
        return fault_of(verdict_on(rules, kinds | IS_NO_OBJECT), None, index)
    if envelope.duplicates:
        kinds |= HAS_DUPLICATE
    if envelope.unexpected:
        kinds |= HAS_EXTRA
        if rules.keeps_extra:
            extra = unexpected_members(envelope, False, rules, &refused)

    value = &envelope.members[<int>MEMBER_JSONRPC]
    if value.start != NULL:
        kinds |= VERSION_KIND if is_version_token(value) else OTHER_VERSION
    value = &envelope.members[<int>MEMBER_ID]
    id = ABSENT if value.start == NULL else id_of(value, rules.id_bytes)
    value = &envelope.members[<int>MEMBER_METHOD]
    method = ABSENT if value.start == NULL else string_of_method(value)
    kinds |= kind_of_id(id, rules.id_bytes) | kind_of_method(method, rules.method_bytes)
    value = &envelope.members[<int>MEMBER_PARAMS]
    if value.start != NULL:
        kinds |= kind_of_token(value.start[0], NULL_PARAMS, OBJECT_PARAMS, ARRAY_PARAMS, OTHER_PARAMS)
    value = &envelope.members[<int>MEMBER_RESULT]
    if value.start != NULL:
        kinds |= kind_of_token(value.start[0], NULL_RESULT, OBJECT_RESULT, OTHER_RESULT, OTHER_RESULT)
    value = &envelope.members[<int>MEMBER_ERROR]
    if value.start != NULL:
        kinds |= kind_of_token(value.start[0], NULL_ERROR, OBJECT_ERROR, OTHER_ERROR, OTHER_ERROR)
        if value.start[0] == c"{":
            kinds |= kinds_in_error(error)
    if rules.numbers or envelope.wide:
        for member in range(6):
            refused = refused or (member != <int>MEMBER_ID and is_refused(&envelope.members[member], rules))
        if refused:
            kinds |= HAS_WIDE_INTEGER

    verdict = verdict_on(rules, kinds)
    if verdict.rule != NULL:
        if envelope.duplicates == 1 and <Rule>verdict.rule is DUPLICATE_MEMBER and not verdict.reply_expected:
            # The id of the response is there once.
            if verdict_on(rules, kinds & ~HAS_DUPLICATE).is_id_certain:
                return make_fault(DUPLICATE_MEMBER, None, None, index, False, (id,))
            verdict = verdict_on(rules, kinds)
        return fault_of(verdict, id, index)
    if verdict.kind == A_REQUEST or verdict.kind == A_NOTIFICATION:
        value = &envelope.members[<int>MEMBER_PARAMS]
        return message_of(verdict, id, method, payload_of(value, rules, raw), extra)
    value = &envelope.members[<int>MEMBER_PARAMS]
    if rules.keeps_extra and value.start != NULL:
        extra = {**(extra or {}), "params": payload_of(value, rules, None)}
    if verdict.kind == A_RESULT:
        return message_of(verdict, id, None, payload_of(&envelope.members[<int>MEMBER_RESULT], rules, raw), extra)
    value = &envelope.members[<int>MEMBER_ERROR]
    if not is_error_object(kinds):
        eager = payload_of(value, rules, None)
        found = error_of_value(eager, eager if raw is None else payload_of(value, rules, raw))
        return message_of(verdict, id, None, found, extra)
    extra_in_error = None
    if rules.keeps_extra and error.unexpected:
        extra_in_error = unexpected_members(error, True, rules, &refused) or None
    found = error_of_parts(
        payload_of(&error.members[<int>MEMBER_CODE], rules, None),
        string_of(&error.members[<int>MEMBER_MESSAGE]),
        payload_of(&error.members[<int>MEMBER_DATA], rules, raw),
        extra_in_error,
    )
    return message_of(verdict, id, None, found, extra)


cdef uint32_t kinds_in_error(Envelope* error) except? 0xFFFFFFFF:
    """The kinds of the members of an error object, which is valid JSON."""
    cdef Value* code
    cdef Value* message
    cdef int64_t number
    cdef uint32_t kinds = 0
    code = &error.members[<int>MEMBER_CODE]
    message = &error.members[<int>MEMBER_MESSAGE]
    if code.start != NULL and (code.start[0] == c"-" or is_digit(code.start[0])) and not code.wide:
        if number_after(code.start, code.end, &number) == code.end:
            kinds |= HAS_ERROR_CODE
        elif is_error_code(loads_part(code.start, code.end - code.start, 0)):
            kinds |= HAS_ERROR_CODE
    if message.start != NULL and message.start[0] == c'"':
        kinds |= HAS_ERROR_MESSAGE
    if error.unexpected:
        kinds |= HAS_EXTRA_IN_ERROR
    return kinds


cdef bint is_version_token(Value* value) except -1:
    """Whether a token is the string "2.0", also with escapes."""
    if value.plain:
        return value.end - value.start == 5 and memcmp(value.start, b'"2.0"', 5) == 0
    return value.start[0] == c'"' and string_of(value) == VERSION


cdef object string_of_method(Value* value):
    """The method in a token; None if it is not a string."""
    if value.plain:
        return method_of(value.start + 1, value.end - value.start - 2)
    return string_of(value) if value.start[0] == c'"' else None


cdef inline object method_of(const uint8_t* start, Py_ssize_t size):
    """The str of an ASCII method name, cached with its hash."""
    return made(name_at(caches_of_thread(), start, size))


cdef inline void open_cursor(Cursor* cursor, const uint8_t* start, Py_ssize_t size) noexcept:
    cursor.at = start
    cursor.end = start + size
    cursor.fault = NULL
    cursor.any_surrogate = False
    cursor.out_of_memory = False


cdef object decode_slow(const uint8_t* start, Py_ssize_t size, Rules rules, raw, bint fast_items):
    """The slow path: the result for any text. fast_items: the items of a batch may take the fast path."""
    cdef Cursor cursor
    cdef Envelope envelope
    cdef Envelope error
    if size > rules.message_bytes:
        return fault_of_large(start, size, rules)
    open_cursor(&cursor, start, size)
    skip_space(&cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"[":
        return decode_batch(start, &cursor, rules, raw, fast_items)
    if not read_message(&cursor, &envelope, &error):
        return fault_of_text(start, &cursor, rules, &envelope, False)
    if not read_end(&cursor):
        fault = fault_of_text(start, &cursor, rules, &envelope, False)
        # Bounds: `read_end` fails at a byte before the end.
        if cursor.fault[0] in (c"{", c"[") and fault._code is MALFORMED_JSON.code:
            with_hint(fault, Hint.SEVERAL_MESSAGES)
        return fault
    return read_envelope(&envelope, &error, rules, None, raw)


def _decode_slow(bytes text not None, profile, raw):
    """`decode` by the slow path alone, for tests that compare the two."""
    return decode_slow(
        <const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), rules_of(profile), text if raw else None, False
    )


cdef object decode_batch(const uint8_t* start, Cursor* cursor, Rules rules, raw, bint fast_items):
    """The messages of a batch, checked as they are read; the rest of the text may still not be JSON.

    A batch over the limit is not read further. After a sixteenth of the allowed items the rest is counted once, so that
    no messages are made for it.
    """
    cdef Envelope envelope
    cdef Envelope error
    cdef Cursor saved
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t maximum = rules.batch_items
    cdef Py_ssize_t count_at = maximum // 16
    cdef list messages = []
    cdef PyObject* message
    cdef Rule rule
    cdef ValueReader reader
    open_reader(&reader, start, past_last_brace(cursor.at, cursor.end), rules.depth, rules.numbers)
    cursor.at += 1
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"]":
        cursor.at += 1
    else:
        while True:
            # An item and its comma or bracket take at least two bytes.
            if count == count_at and (cursor.end - cursor.at) // 2 > maximum - count:
                saved = cursor[0]
                if count_items(cursor, maximum - count + 1) > maximum - count:
                    return fault_of_many(start, cursor, rules)
                cursor[0] = saved
            message = NULL
            if fast_items and rules.fault_of_batches is None and cursor.at < reader.end and cursor.at[0] == c"{":
                message = read_object_fast(&reader, cursor.at, rules, NULL if raw is None else <PyObject*>raw, True)
            if message != NULL:
                cursor.at = reader.at
                append_owned(messages, message)
            elif not read_message(cursor, &envelope, &error):
                return fault_of_text(start, cursor, rules, &envelope, True)
            elif rules.fault_of_batches is None:
                messages.append(read_envelope(&envelope, &error, rules, count, raw))
            count += 1
            skip_space(cursor)
            if cursor.at < cursor.end and cursor.at[0] == c"]":
                cursor.at += 1
                break
            if not expect(cursor, c","):
                return fault_of_text(start, cursor, rules, NULL, True)
            if count == maximum:
                return fault_of_many(start, cursor, rules)
            skip_space(cursor)
    if not read_end(cursor):
        return fault_of_text(start, cursor, rules, NULL, True)
    rule = rule_of_batch(count, rules)
    return messages if rule is None else refused_batch(rule, settled_in(start, cursor.end, rules))


cdef inline const uint8_t* past_last_brace(const uint8_t* at, const uint8_t* end) noexcept:
    """Past the last closing brace of a text; `at` if the text has no such byte. `value_at` needs it as the last one."""
    while end > at and end[-1] != c"}":
        end -= 1
    return end


cdef object fault_of_many(const uint8_t* start, Cursor* cursor, Rules rules):
    """Return the fault of a batch that continues after the allowed items; invalid UTF-8 comes first."""
    cdef const uint8_t* invalid = find_invalid(start, cursor.end)
    settles = settled_in(start, cursor.end, rules)
    if invalid != NULL:
        return refused_batch(INVALID_UTF8, settles, invalid - start)
    return refused_batch(rules.fault_of_large_batch, settles)


cdef object refused_batch(Rule rule, list settles, offset=None):
    """`_messages.refused_batch`"""
    return make_fault(rule, None, offset, None, not settles, tuple(settles))


cdef Py_ssize_t count_items(Cursor* cursor, Py_ssize_t maximum) noexcept:
    """The number of items from the cursor on, up to `maximum` or to the first fault; moves the cursor."""
    cdef Envelope envelope
    cdef Py_ssize_t count = 0
    while count < maximum and read_message(cursor, &envelope, NULL):
        count += 1
        skip_space(cursor)
        if not expect(cursor, c","):
            break
        skip_space(cursor)
    return count
