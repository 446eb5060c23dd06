"""Every `ParseError` of the core is made here, without a call of its class.

A stream of garbage consists of faults only, so a fault must cost no more than a message.
"""

cdef extern from *:
    """
    /* Does `cls.__new__(cls, *args)`; the exception shares `args`. */
    static PyObject *jsonrpc_fast_new(PyObject *cls, PyObject *args) {
        return ((PyTypeObject *)cls)->tp_new((PyTypeObject *)cls, args, NULL);
    }
    #include <structmember.h>
    /* The offset of the value that a descriptor of `__slots__` gets. */
    #define jsonrpc_fast_offset_of(slot) (((PyMemberDescrObject *)(slot))->d_member->offset)
    #define jsonrpc_fast_place_at(self, offset) ((PyObject **)((char *)(self) + (offset)))
    """
    object new_exception "jsonrpc_fast_new"(object cls, tuple args)
    Py_ssize_t offset_of "jsonrpc_fast_offset_of"(object slot)
    PyObject** place_at "jsonrpc_fast_place_at"(object self, Py_ssize_t offset)

cdef enum:
    # Indexes of `HINTS`.
    NO_HINT
    PRINTED_TEXT
    CONTENT_LENGTH_FRAMING
    SSE_FRAMING
    HTTP
    TLS

cdef tuple HINTS = (
    None,
    Hint.PRINTED_TEXT,
    Hint.CONTENT_LENGTH_FRAMING,
    Hint.SSE_FRAMING,
    Hint.HTTP,
    Hint.TLS,
)

# Where a fault has its fields.
cdef Py_ssize_t CODE_OFFSET = offset_of(errors.ParseError._code)
cdef Py_ssize_t HINT_OFFSET = offset_of(errors.ParseError._hint)
cdef Py_ssize_t ID_OFFSET = offset_of(errors.ParseError._id)
cdef Py_ssize_t INDEX_OFFSET = offset_of(errors.ParseError._index)
cdef Py_ssize_t OFFSET_OFFSET = offset_of(errors.ParseError._offset)
cdef Py_ssize_t REPLY_EXPECTED_OFFSET = offset_of(errors.ParseError._reply_expected)
cdef Py_ssize_t SETTLES_OFFSET = offset_of(errors.ParseError._settles)


@cython.final
@cython.auto_pickle(False)
cdef class Rule:
    """A rule, with the parts that all its exceptions share."""

    cdef object code
    cdef list args  # of the exception, by the index of its hint

    def __init__(self, code):
        self.code = code
        self.args = []
        for hint in HINTS:
            self.args.append(args_of(code, hint))


cdef dict RULES = {code: Rule(code) for code in ParseErrorCode}
# The faults of a text. The others are broken rules of messages.
cdef Rule INVALID_UTF8 = RULES[ParseErrorCode.INVALID_UTF8]
cdef Rule MALFORMED_JSON = RULES[ParseErrorCode.MALFORMED_JSON]
cdef Rule MESSAGE_TOO_LARGE = RULES[ParseErrorCode.MESSAGE_TOO_LARGE]
cdef Rule TOO_DEEP = RULES[ParseErrorCode.TOO_DEEP]
cdef Rule DUPLICATE_MEMBER = RULES[ParseErrorCode.DUPLICATE_MEMBER]
cdef Rule INTEGER_TOO_LARGE = RULES[ParseErrorCode.INTEGER_TOO_LARGE]


cdef inline void fill_field(fault, Py_ssize_t offset, value) noexcept:
    """Set a field of a fault that no other code has seen yet."""
    place_at(fault, offset)[0] = held(value)


cdef object make_fault(Rule rule, id=None, offset=None, index=None, bint reply_expected=True, settles=()):
    """The same as `ParseError(...)`, made without a call of the class."""
    fault = new_exception(ParseError, <tuple>rule.args[NO_HINT])
    fill_field(fault, CODE_OFFSET, rule.code)
    fill_field(fault, HINT_OFFSET, None)
    fill_field(fault, ID_OFFSET, id)
    fill_field(fault, INDEX_OFFSET, index)
    fill_field(fault, OFFSET_OFFSET, offset)
    fill_field(fault, REPLY_EXPECTED_OFFSET, reply_expected)
    fill_field(fault, SETTLES_OFFSET, settles)
    return fault


cdef int give_hint(fault, const uint8_t* start, const uint8_t* end) except -1:
    """Do to the new fault of a line, which no other code has seen, what `errors.with_hint` does."""
    cdef Rule rule
    cdef int hint
    code = fault._code
    if code is MALFORMED_JSON.code:
        rule = MALFORMED_JSON
    elif code is INVALID_UTF8.code:
        rule = INVALID_UTF8
    else:
        return 0
    hint = hint_of_line(start, end)
    if hint != NO_HINT:
        drop(place_at(fault, HINT_OFFSET)[0])
        fill_field(fault, HINT_OFFSET, HINTS[hint])
        fault.args = rule.args[hint]
    return 0


cdef int hint_of_line(const uint8_t* at, const uint8_t* end) noexcept:
    """The index of the hint that `hints.hint_of_line` returns. Bounds: each byte is read below `end`."""
    cdef const uint8_t* start
    if end - at > LOOKED_AT_BYTES:
        end = at + LOOKED_AT_BYTES
    at += mark_size(at, end - at)
    while at < end and is_white(at[0]):
        at += 1
    if at == end or at[0] == c"{":
        return NO_HINT
    start = at
    if at[0] == c"[":
        at += 1
        while at < end and is_white(at[0]):
            at += 1
        if at == end or at[0] == c"{" or at[0] == c"[" or at[0] == c"]":
            return NO_HINT
    elif at[0] | 0x20 == c"c":
        at = end_of_name(at, end, b"content-length", 14)
        if at == NULL:
            at = end_of_name(start, end, b"content-type", 12)
        while at != NULL and at < end and (at[0] == c" " or at[0] == c"\t"):
            at += 1
        if at != NULL and at < end and at[0] == c":":
            return CONTENT_LENGTH_FRAMING
    elif (
        begins_with(at, end, b"data:", 5)
        or begins_with(at, end, b"event:", 6)
        or begins_with(at, end, b"id:", 3)
        or begins_with(at, end, b"retry:", 6)
    ):
        return SSE_FRAMING
    elif begins_with(at, end, b"HTTP/", 5) and end - at > 5 and is_digit(at[5]):
        return HTTP
    elif at[0] == c"<" and (end_of_name(at, end, b"<!doctype", 9) or end_of_name(at, end, b"<html", 5)):
        return HTTP
    elif (at[0] == 0x15 or at[0] == 0x16) and end - at > 1 and at[1] == 0x03:
        return TLS
    at = start
    while at < end:
        if is_control(at[0]):
            return NO_HINT
        at += 1
    return PRINTED_TEXT


cdef inline bint is_white(uint8_t byte) noexcept:
    return byte == 0x20 or 0x09 <= byte <= 0x0D


cdef inline bint is_control(uint8_t byte) noexcept:
    return byte == 0x7F or (byte < 0x20 and byte != 0x1B and not 0x09 <= byte <= 0x0D)


cdef inline bint begins_with(const uint8_t* at, const uint8_t* end, const char* text, size_t size) noexcept:
    return end - at >= <Py_ssize_t>size and memcmp(at, text, size) == 0


cdef inline Py_ssize_t mark_size(const uint8_t* at, Py_ssize_t size) noexcept:
    """The size of the byte order mark that a text begins with, or 0."""
    return 3 if size >= 3 and memcmp(at, PyBytes_AS_STRING(BYTE_ORDER_MARK), 3) == 0 else 0


cdef inline const uint8_t* end_of_name(const uint8_t* at, const uint8_t* end, const char* name, int size) noexcept:
    """Past a name of lower-case letters and hyphens at `at`, in either case; NULL for any other text."""
    cdef int i
    if end - at < size:
        return NULL
    for i in range(size):
        # With the bit set, only the letter in either case equals the letter. A hyphen has the bit already.
        if at[i] | 0x20 != name[i] or (name[i] == c"-" and at[i] != c"-"):
            return NULL
    return at + size


cdef const uint8_t* find_invalid(const uint8_t* at, const uint8_t* end) noexcept:
    """The first byte that is not UTF-8, or NULL. Bounds: each word is read below `end`."""
    cdef Cursor cursor
    cdef uint64_t word
    open_cursor(&cursor, at, end - at)
    while cursor.at < end:
        if cursor.at[0] >= 0x80:
            at = cursor.at
            if not skip_character(&cursor):
                return at
        elif end - cursor.at >= 8:
            memcpy(&word, cursor.at, 8)
            if word & <uint64_t>0x8080808080808080:
                cursor.at += 1
            else:
                cursor.at += 8
        else:
            cursor.at += 1
    return NULL
