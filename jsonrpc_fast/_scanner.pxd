# cython: language_level=3
"""Reading a message's envelope from its text, in C: what `_scanner.py` specifies, fault for fault.

Bounds. Every function reads at `at` only after `at < end`; eight bytes at once only where `end - at >= 8`. `end` is one
past the last byte, and nothing needs a byte after it. Nesting is kept as one bit a level, first on the stack, then
on the heap, so that no input makes the C stack grow.

Invalid UTF-8 inside a string is a fault, of no particular place: whoever is told of a fault looks first whether the
whole text is UTF-8. Text that passes is UTF-8, for outside strings only ASCII passes.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset


cdef enum Member:
    MEMBER_JSONRPC = 0
    MEMBER_ID = 1
    MEMBER_METHOD = 2
    MEMBER_PARAMS = 3
    MEMBER_RESULT = 4
    MEMBER_ERROR = 5
    MEMBER_COUNT = 6
    MEMBER_UNKNOWN = 7


cdef enum:
    # One bit a level: as deep as orjson goes, without the heap.
    STACK_BYTES = 128


cdef struct Value:
    const uint8_t* start  # NULL: there is no such member
    const uint8_t* end
    Py_ssize_t depth
    bint wide  # holds an integer beyond 64 bits
    bint plain  # a string that is ASCII without escapes


cdef struct Envelope:
    Value members[6]  # the last one of each name
    Py_ssize_t depth
    bint is_object
    bint duplicates
    bint unexpected


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    const uint8_t* fault  # where the text stops being JSON, once a function has returned False
    bint any_width  # an integer may be too large for a double
    bint out_of_memory


cdef inline bint stop(Cursor* cursor, const uint8_t* at) noexcept nogil:
    cursor.fault = at
    return False


cdef inline void skip_space(Cursor* cursor) noexcept nogil:
    cdef const uint8_t* at = cursor.at
    while at < cursor.end and (at[0] == 0x20 or at[0] == 0x0A or at[0] == 0x0D or at[0] == 0x09):
        at += 1
    cursor.at = at


cdef inline bint expect(Cursor* cursor, uint8_t byte) noexcept nogil:
    if cursor.at >= cursor.end or cursor.at[0] != byte:
        return stop(cursor, cursor.at)
    cursor.at += 1
    return True


cdef inline int hex_digit(uint8_t byte) noexcept nogil:
    if c"0" <= byte <= c"9":
        return byte - c"0"
    if c"a" <= byte <= c"f":
        return byte - c"a" + 10
    if c"A" <= byte <= c"F":
        return byte - c"A" + 10
    return -1


cdef inline int read_hex(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The four hexadecimal digits at `at`; -1 where one is wrong, -2 where the text ends before them."""
    cdef int code = 0
    cdef int digit
    cdef int i
    for i in range(4):
        if at + i >= end:
            return -2
        digit = hex_digit(at[i])
        if digit < 0:
            return -1
        code = code * 16 + digit
    return code


cdef inline bint skip_escape(Cursor* cursor) noexcept nogil:
    """Past the escape whose backslash is at the cursor. A lone surrogate is a fault."""
    cdef const uint8_t* at = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef int code
    if at + 1 >= end:
        return stop(cursor, end)
    if at[1] in (c'"', c"\\", c"/", c"b", c"f", c"n", c"r", c"t"):
        cursor.at = at + 2
        return True
    if at[1] != c"u":
        return stop(cursor, at)
    code = read_hex(at + 2, end)
    if code < 0:
        return stop(cursor, end if code == -2 else at)
    if 0xDC00 <= code <= 0xDFFF:
        return stop(cursor, at)
    if code < 0xD800 or code > 0xDBFF:
        cursor.at = at + 6
        return True
    if at + 6 >= end:
        return stop(cursor, end)
    if at[6] != c"\\":
        return stop(cursor, at)
    if at + 7 >= end:
        return stop(cursor, end)
    if at[7] != c"u":
        return stop(cursor, at)
    code = read_hex(at + 8, end)
    if code == -2:
        return stop(cursor, end)
    if not 0xDC00 <= code <= 0xDFFF:
        return stop(cursor, at)
    cursor.at = at + 12
    return True


cdef inline bint is_tail(const uint8_t* at, const uint8_t* end, int count) noexcept nogil:
    """Whether `count` UTF-8 continuation bytes are at `at`."""
    cdef int i
    if end - at < count:
        return False
    for i in range(count):
        if at[i] & 0xC0 != 0x80:
            return False
    return True


cdef inline bint skip_character(Cursor* cursor) noexcept nogil:
    """Past the UTF-8 character of two bytes or more at the cursor (RFC 3629, section 4)."""
    cdef const uint8_t* at = cursor.at
    cdef uint8_t first = at[0]
    cdef uint8_t second
    cdef int tail
    if first < 0xC2 or first > 0xF4:
        return stop(cursor, at)
    tail = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    if not is_tail(at + 1, cursor.end, tail):
        return stop(cursor, at)
    second = at[1]
    if (
        (first == 0xE0 and second < 0xA0)  # a longer spelling than needed
        or (first == 0xED and second > 0x9F)  # a surrogate
        or (first == 0xF0 and second < 0x90)  # a longer spelling than needed
        or (first == 0xF4 and second > 0x8F)  # past U+10FFFF
    ):
        return stop(cursor, at)
    cursor.at = at + 1 + tail
    return True


cdef inline const uint8_t* skip_plain(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Past what in a string stands for itself and is ASCII: to a quote, a backslash, a control character, a byte
    above 0x7F, or the end."""
    cdef uint64_t word
    while end - at >= 8:
        memcpy(&word, at, 8)
        # A byte's high bit comes out set where the byte is below 0x20, is 0x22 or 0x5C, or is above 0x7F. A borrow
        # from a lower byte can set it wrongly, but only above a byte that it marks rightly: that one is looked at
        # first, below.
        if (
            (word - <uint64_t>0x2020202020202020)
            | ((word ^ <uint64_t>0x2222222222222222) - <uint64_t>0x0101010101010101)
            | ((word ^ <uint64_t>0x5C5C5C5C5C5C5C5C) - <uint64_t>0x0101010101010101)
            | word
        ) & <uint64_t>0x8080808080808080:
            break
        at += 8
    while at < end and 0x20 <= at[0] < 0x80 and at[0] != c'"' and at[0] != c"\\":
        at += 1
    return at


cdef inline bint skip_string(Cursor* cursor, bint* plain) noexcept nogil:
    """Past the string at the cursor. `plain`: it is ASCII without escapes."""
    if not expect(cursor, c'"'):
        return False
    plain[0] = True
    while True:
        cursor.at = skip_plain(cursor.at, cursor.end)
        if cursor.at >= cursor.end:
            return stop(cursor, cursor.end)
        if cursor.at[0] == c'"':
            cursor.at += 1
            return True
        plain[0] = False
        if cursor.at[0] == c"\\":
            if not skip_escape(cursor):
                return False
        elif cursor.at[0] < 0x20:
            return stop(cursor, cursor.at)
        elif not skip_character(cursor):
            return False


cdef inline const uint8_t* skip_digits(const uint8_t* at, const uint8_t* end) noexcept nogil:
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    return at


cdef inline bint is_too_large(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Whether a valid number rounds to an infinite double: whether it is 2**1024 - 2**970 or more."""
    # The digits of that bound, but for the zeros they end in; its first digit stands for 10**308.
    cdef const char* bound = (
        b"1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070"
        b"9633028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447"
        b"5730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904"
        b"174497792"
    )
    cdef int64_t power = -1  # of ten, that the first digit other than 0 stands for
    cdef int64_t exponent = 0
    cdef bint in_fraction = False
    cdef bint negative = False
    cdef const uint8_t* digit
    cdef const uint8_t* first = NULL
    if at[0] == c"-":
        at += 1
    digit = at
    while digit < end and digit[0] != c"e" and digit[0] != c"E":
        if digit[0] == c".":
            in_fraction = True
        else:
            if first == NULL and digit[0] != c"0":
                first = digit
            if not in_fraction:
                power += 1 if first != NULL else 0
            elif first == NULL:
                power -= 1
        digit += 1
    if first == NULL:
        return False
    # With digits before the point, `power` has counted them, less one; else the zeros after it, and one more.
    at = digit + 1
    if at < end:
        if at[0] == c"-" or at[0] == c"+":
            negative = at[0] == c"-"
            at += 1
        while at < end:
            if exponent < <int64_t>1 << 50:
                exponent = exponent * 10 + (at[0] - c"0")
            at += 1
        power += -exponent if negative else exponent
    if power != 308:
        return power > 308
    while first < digit:
        if first[0] != c".":
            if bound[0] == 0:
                return True  # equal so far, and nothing can make it less
            if first[0] != bound[0]:
                return first[0] > bound[0]
            bound += 1
        first += 1
    return bound[0] == 0


cdef inline bint is_wide(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Whether a valid number without fraction and exponent is beyond 64 bits, signed or unsigned."""
    cdef bint negative = at[0] == c"-"
    if negative:
        at += 1
    if negative:
        return end - at > 19 or (end - at == 19 and memcmp(at, b"9223372036854775808", 19) > 0)
    return end - at > 20 or (end - at == 20 and memcmp(at, b"18446744073709551615", 20) > 0)


cdef inline bint skip_number(Cursor* cursor, bint any_width, bint* wide) noexcept nogil:
    """Past the number at the cursor, which is at a digit or a minus."""
    cdef const uint8_t* start = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef const uint8_t* at = start
    cdef const uint8_t* digits
    cdef bint is_integer = True
    if at[0] == c"-":
        at += 1
    digits = at
    if at < end and at[0] == c"0":
        at += 1
    else:
        at = skip_digits(at, end)
        if at == digits:
            return stop(cursor, at)
    if at < end and at[0] == c".":
        is_integer = False
        digits = at + 1
        at = skip_digits(digits, end)
        if at == digits:
            return stop(cursor, at)
    if at < end and (at[0] == c"e" or at[0] == c"E"):
        is_integer = False
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            at += 1
        digits = at
        at = skip_digits(digits, end)
        if at == digits:
            return stop(cursor, at)
    if is_integer:
        if at - start > 18:
            wide[0] = wide[0] or is_wide(start, at)
            if not any_width and at - start > 308 and is_too_large(start, at):
                return stop(cursor, start)
    elif is_too_large(start, at):
        return stop(cursor, start)
    cursor.at = at
    return True


cdef inline bint skip_literal(Cursor* cursor) noexcept nogil:
    """Past `true`, `false` or `null`."""
    cdef const char* rest
    if cursor.at[0] == c"t":
        rest = b"rue"
    elif cursor.at[0] == c"f":
        rest = b"alse"
    elif cursor.at[0] == c"n":
        rest = b"ull"
    else:
        return stop(cursor, cursor.at)
    cursor.at += 1
    while rest[0] != 0:
        if not expect(cursor, rest[0]):
            return False
        rest += 1
    return True


cdef inline bint skip_name(Cursor* cursor) noexcept nogil:
    """Past a member's name, its colon and the space around it."""
    cdef bint plain
    if not skip_string(cursor, &plain):
        return False
    skip_space(cursor)
    if not expect(cursor, c":"):
        return False
    skip_space(cursor)
    return True


cdef inline uint8_t* grow_stack(uint8_t* stack, bint on_heap, Py_ssize_t size) noexcept nogil:
    """The same bits in twice the bytes, on the heap; NULL where there is no memory."""
    cdef uint8_t* larger = <uint8_t*>realloc(stack if on_heap else NULL, 2 * size)
    if larger != NULL and not on_heap:
        memcpy(larger, stack, size)
    return larger


cdef inline bint skip_container(Cursor* cursor, bint any_width, Value* value) noexcept nogil:
    """Past the object or array at the cursor."""
    cdef uint8_t bits[STACK_BYTES]  # one a level: whether it is an object
    cdef uint8_t* stack = bits
    cdef uint8_t* larger
    cdef Py_ssize_t size = STACK_BYTES
    cdef Py_ssize_t level = 0  # how many containers are open
    cdef bint plain
    cdef bint is_object = False
    cdef uint8_t byte
    cdef uint8_t closing
    cdef bint done = False
    while True:
        # A value begins here.
        if cursor.at >= cursor.end:
            stop(cursor, cursor.end)
            break
        byte = cursor.at[0]
        if byte == c"{" or byte == c"[":
            is_object = byte == c"{"
            cursor.at += 1
            skip_space(cursor)
            if cursor.at >= cursor.end:
                stop(cursor, cursor.end)
                break
            if level + 1 > value.depth:
                value.depth = level + 1
            if cursor.at[0] != (c"}" if is_object else c"]"):
                if level == size * 8:
                    larger = grow_stack(stack, stack != bits, size)
                    if larger == NULL:
                        cursor.out_of_memory = True
                        stop(cursor, cursor.at)
                        break
                    stack = larger
                    size *= 2
                if is_object:
                    stack[level >> 3] |= <uint8_t>(1 << (level & 7))
                else:
                    stack[level >> 3] &= <uint8_t>~(1 << (level & 7))
                level += 1
                if is_object and not skip_name(cursor):
                    break
                continue
            cursor.at += 1
        elif byte == c'"':
            if not skip_string(cursor, &plain):
                break
        elif byte == c"-" or c"0" <= byte <= c"9":
            if not skip_number(cursor, any_width, &value.wide):
                break
        elif not skip_literal(cursor):
            break
        # A value ended here, and with it perhaps the containers around it.
        while level > 0:
            skip_space(cursor)
            if cursor.at >= cursor.end:
                break
            is_object = stack[(level - 1) >> 3] >> ((level - 1) & 7) & 1
            closing = c"}" if is_object else c"]"
            if cursor.at[0] != closing:
                break
            cursor.at += 1
            level -= 1
        if level == 0:
            done = True
            break
        if not expect(cursor, c","):
            break
        skip_space(cursor)
        if is_object and not skip_name(cursor):
            break
    if stack != bits:
        free(stack)
    return done


cdef inline bint skip_value(Cursor* cursor, bint any_width, Value* value) noexcept nogil:
    """Past the value at the cursor. Sets `value`."""
    cdef uint8_t byte
    cdef bint done
    value.start = cursor.at
    value.depth = 0
    value.wide = False
    value.plain = False
    if cursor.at >= cursor.end:
        return stop(cursor, cursor.end)
    byte = cursor.at[0]
    if byte == c'"':
        done = skip_string(cursor, &value.plain)
    elif byte == c"{" or byte == c"[":
        done = skip_container(cursor, any_width, value)
    elif byte == c"-" or c"0" <= byte <= c"9":
        done = skip_number(cursor, any_width, &value.wide)
    else:
        done = skip_literal(cursor)
    value.end = cursor.at
    return done


cdef inline Member name_of(const uint8_t* name, Py_ssize_t length) noexcept nogil:
    """The member of that name, which has no escapes."""
    if length == 2:
        if memcmp(name, b"id", 2) == 0:
            return MEMBER_ID
    elif length == 5:
        if memcmp(name, b"error", 5) == 0:
            return MEMBER_ERROR
    elif length == 6:
        if memcmp(name, b"method", 6) == 0:
            return MEMBER_METHOD
        if memcmp(name, b"params", 6) == 0:
            return MEMBER_PARAMS
        if memcmp(name, b"result", 6) == 0:
            return MEMBER_RESULT
    elif length == 7:
        if memcmp(name, b"jsonrpc", 7) == 0:
            return MEMBER_JSONRPC
    return MEMBER_UNKNOWN


cdef inline Member name_of_escaped(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """The member of that name, escapes read. They are valid; only those of four digits make a letter."""
    cdef uint8_t name[8]
    cdef Py_ssize_t length = 0
    cdef int code
    while at < end:
        if length == 7:
            return MEMBER_UNKNOWN
        code = at[0]
        if code == c"\\":
            if at[1] != c"u":
                return MEMBER_UNKNOWN
            code = read_hex(at + 2, end)
            at += 5
        if code < 0 or code > 0x7F:
            return MEMBER_UNKNOWN
        name[length] = <uint8_t>code
        length += 1
        at += 1
    return name_of(name, length)


cdef inline bint read_message(Cursor* cursor, Envelope* envelope) noexcept nogil:
    """Reads the message at the cursor, whatever it is, into `envelope`."""
    cdef Value value
    cdef Member member
    cdef const uint8_t* name
    cdef bint plain
    memset(envelope, 0, sizeof(Envelope))
    if cursor.at >= cursor.end:
        return stop(cursor, cursor.end)
    if cursor.at[0] != c"{":
        if not skip_value(cursor, cursor.any_width, &value):
            return False
        envelope.depth = value.depth
        return True
    envelope.is_object = True
    cursor.at += 1
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"}":
        cursor.at += 1
        return True
    while True:
        name = cursor.at + 1
        if not skip_string(cursor, &plain):
            return False
        if plain:
            member = name_of(name, cursor.at - 1 - name)
        else:
            member = name_of_escaped(name, cursor.at - 1)
        skip_space(cursor)
        if not expect(cursor, c":"):
            return False
        skip_space(cursor)
        if not skip_value(cursor, cursor.any_width or member == MEMBER_ID, &value):
            return False
        if value.depth > envelope.depth:
            envelope.depth = value.depth
        if member == MEMBER_UNKNOWN:
            envelope.unexpected = True
        else:
            if envelope.members[<int>member].start != NULL:
                envelope.duplicates = True
            envelope.members[<int>member] = value
        skip_space(cursor)
        if cursor.at < cursor.end and cursor.at[0] == c"}":
            cursor.at += 1
            return True
        if not expect(cursor, c","):
            return False
        skip_space(cursor)


cdef inline bint read_end(Cursor* cursor) noexcept nogil:
    """Whether nothing but space is left."""
    skip_space(cursor)
    return True if cursor.at == cursor.end else stop(cursor, cursor.at)
