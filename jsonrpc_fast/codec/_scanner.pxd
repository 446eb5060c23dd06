# cython: language_level=3
"""The envelope scanner in C. `_scanner.py` specifies it, fault for fault.

Rules:
  - Bounds: a function reads at `at` only after checking `at < end`, and several bytes at once only if that many are
    left; `find_special` and `past_run` argue their own bounds. `end` is one past the last byte.
  - Nesting is kept as one bit for each level, first on the stack, then on the heap, so that no input grows the C stack.
  - The place of invalid UTF-8 in a string is not reported here: the caller looks for the first in the whole text.
    A text without a fault is UTF-8, because only ASCII is valid outside strings.
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
    MEMBER_UNKNOWN = 6
    # The members of an error object use the same indexes.
    MEMBER_CODE = 0
    MEMBER_MESSAGE = 1
    MEMBER_DATA = 2


cdef enum:
    # One bit for each level: the depth of orjson without the heap.
    STACK_WORDS = 16
    # So many digits of an integer and of a fraction are read one by one, which is faster if they are short.
    SHORT_DIGITS = 6
    SHORT_FRACTION = 3


cdef struct Value:
    const uint8_t* start  # NULL if the member is absent
    const uint8_t* end
    Py_ssize_t depth
    bint wide  # holds an integer beyond 64 bits
    bint plain  # an ASCII string without escapes


cdef struct Envelope:
    const uint8_t* start  # of an object
    const uint8_t* end
    Value members[6]  # the last member of each name
    Py_ssize_t depth
    Member begun  # the member whose value was begun last
    bint is_object
    bint wide  # a member holds an integer beyond 64 bits
    int duplicates  # 1: a member occurs twice, but not the id; 2: the id, too
    bint unexpected


cdef struct Cursor "jsonrpc_fast_cursor":
    const uint8_t* at
    const uint8_t* end
    const uint8_t* fault  # where the text stops being JSON; set when a function returns False
    bint any_surrogate  # a surrogate may be alone
    bint out_of_memory


cdef inline bint stop(Cursor* cursor, const uint8_t* at) noexcept nogil:
    cursor.fault = at
    return False


cdef inline bint is_space(uint8_t byte) noexcept nogil:
    return byte <= 0x20 and (byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09)


cdef inline bint is_digit(uint8_t byte) noexcept nogil:
    return c"0" <= byte <= c"9"


cdef inline void skip_space(Cursor* cursor) noexcept nogil:
    cursor.at = past_space(cursor.at, cursor.end)


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
    """The value of the four hexadecimal digits at `at`; -1 if one is wrong, -2 if the text ends too early."""
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


cdef inline bint is_short_escape(uint8_t byte) noexcept nogil:
    return byte in (c'"', c"\\", c"/", c"b", c"f", c"n", c"r", c"t")


cdef inline bint skip_escape(Cursor* cursor) noexcept nogil:
    """Skip the escape whose backslash is at the cursor. A lone surrogate is a fault."""
    cdef const uint8_t* at = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef int code
    if at + 1 >= end:
        return stop(cursor, end)
    if is_short_escape(at[1]):
        cursor.at = at + 2
        return True
    if at[1] != c"u":
        return stop(cursor, at)
    code = read_hex(at + 2, end)
    if code < 0:
        return stop(cursor, end if code == -2 else at)
    if code < 0xD800 or code > 0xDFFF or cursor.any_surrogate:
        cursor.at = at + 6
        return True
    if code >= 0xDC00:
        return stop(cursor, at)
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
    """Skip the UTF-8 character of two bytes or more at the cursor (RFC 3629, section 4)."""
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
        (first == 0xE0 and second < 0xA0)  # overlong
        or (first == 0xED and second > 0x9F)  # a surrogate
        or (first == 0xF0 and second < 0x90)  # overlong
        or (first == 0xF4 and second > 0x8F)  # past U+10FFFF
    ):
        return stop(cursor, at)
    cursor.at = at + 1 + tail
    return True


cdef extern from *:
    """
    /* JSONRPC_FAST_PLAIN_C: without SSE2, as on other processors. */
    #if !defined(JSONRPC_FAST_PLAIN_C) && (defined(__SSE2__) || defined(_M_X64))
    #include <emmintrin.h>
    #define JSONRPC_FAST_SSE2 1
    #else
    #define JSONRPC_FAST_SSE2 0
    #endif
    #if defined(_MSC_VER)
    #include <intrin.h>
    static __inline int jsonrpc_fast_lowest(unsigned __int64 bits) {
        unsigned long at;
        if (_BitScanForward(&at, (unsigned long)bits))
            return (int)at;
        _BitScanForward(&at, (unsigned long)(bits >> 32));
        return (int)at + 32;
    }
    #else
    #define jsonrpc_fast_lowest __builtin_ctzll
    #endif

    /* One bit for each of the 16 bytes at `at` that is neither a quote nor a backslash, below 0x20 or above 0x7F. */
    static CYTHON_INLINE unsigned int jsonrpc_fast_plain(const unsigned char *at) {
    #if JSONRPC_FAST_SSE2
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* As signed bytes, those above 0x7F are negative. With one bit flipped, the quote is 0x20 and the space 0x22, so
           one comparison finds the quote and all bytes below 0x20 or above 0x7F. */
        __m128i plain = _mm_andnot_si128(
            _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5C)),
            _mm_cmpgt_epi8(_mm_xor_si128(bytes, _mm_set1_epi8(0x02)), _mm_set1_epi8(0x20)));
        return (unsigned int)_mm_movemask_epi8(plain);
    #else
        unsigned int plain = 0;
        int i;
        for (i = 0; i < 16; i++)
            plain |= (unsigned int)(at[i] != 0x22 && at[i] != 0x5C && at[i] >= 0x20 && at[i] <= 0x7F) << i;
        return plain;
    #endif
    }

    #if defined(__GNUC__)
    /* Declares a function of this module, by its C name, that is always inlined. */
    #define JSONRPC_FAST_INLINE static inline __attribute__((always_inline))
    /* The core is compiled with -O2, which would call these: skipping values would be a third slower. */
    struct jsonrpc_fast_cursor;
    struct jsonrpc_fast_window;
    JSONRPC_FAST_INLINE const uint8_t *jsonrpc_fast_skip_digits(
        const uint8_t *, const uint8_t *, int);
    JSONRPC_FAST_INLINE const uint8_t *jsonrpc_fast_find_special(
        const uint8_t *, const uint8_t *, struct jsonrpc_fast_window *);
    JSONRPC_FAST_INLINE const uint8_t *jsonrpc_fast_skip_text(
        const uint8_t *, struct jsonrpc_fast_cursor *, struct jsonrpc_fast_window *);
    JSONRPC_FAST_INLINE const uint8_t *jsonrpc_fast_skip_unusual(
        const uint8_t *, struct jsonrpc_fast_cursor *);
    #endif

    #if defined(_MSC_VER)
    #define JSONRPC_FAST_APART __declspec(noinline)
    #elif defined(__GNUC__)
    #define JSONRPC_FAST_APART __attribute__((noinline))
    #else
    #define JSONRPC_FAST_APART
    #endif

    /* Past the white space at `at`: after each byte, spaces 16 at a time, so that the indentation after a line break is
       one step. Not inlined, as the next one. */
    static JSONRPC_FAST_APART const unsigned char *jsonrpc_fast_past_spaces(
        const unsigned char *at, const unsigned char *end) {
        while (at < end && (*at == 0x20 || *at == 0x0A || *at == 0x0D || *at == 0x09)) {
            at++;
    #if JSONRPC_FAST_SSE2
            while (end - at >= 16) {
                unsigned int others = 0xFFFF ^ (unsigned int)_mm_movemask_epi8(
                    _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8(0x20)));
                if (others) {
                    at += jsonrpc_fast_lowest(others);
                    break;
                }
                at += 16;
            }
    #endif
        }
        return at;
    }

    /* Past the digits at `at`, 16 at a time if so many bytes are left. Not inlined, so that its callers keep their
       registers. */
    static JSONRPC_FAST_APART const unsigned char *jsonrpc_fast_past_digits(
        const unsigned char *at, const unsigned char *end) {
    #if JSONRPC_FAST_SSE2
        while (end - at >= 16) {
            __m128i digits = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8(0x30));
            unsigned int others =
                ~(unsigned int)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits)) & 0xFFFF;
            if (others)
                return at + jsonrpc_fast_lowest(others);
            at += 16;
        }
    #endif
        while (at < end && *at >= 0x30 && *at <= 0x39)
            at++;
        return at;
    }

    #ifdef WORDS_BIGENDIAN
    #define JSONRPC_FAST_LITTLE_ENDIAN 0
    #else
    #define JSONRPC_FAST_LITTLE_ENDIAN 1
    #endif

    /* Skips valid characters of three and four bytes and valid escapes of four digits. It may stop before a valid one: the
       caller decides. Not inlined, so that its callers keep their registers.

       Bounds: each round reads the eight bytes at `at`, and only if so many are left. It skips at most those. */
    static JSONRPC_FAST_APART const unsigned char *jsonrpc_fast_past_run(
        const unsigned char *at, const unsigned char *end) {
    #if JSONRPC_FAST_LITTLE_ENDIAN
        while (end - at >= 8) {
            unsigned long long word;
            unsigned char first = at[0];
            memcpy(&word, at, 8);
            if (first >= 0xE1 && first <= 0xEF && first != 0xED) {
                /* Two of three bytes; the second must begin with neither 0xE0 nor 0xED. */
                if ((word & 0xC0C0F0C0C0F0ULL) == 0x8080E08080E0ULL && at[3] != 0xE0 && at[3] != 0xED)
                    at += 6;
                else if ((word & 0xC0C000) == 0x808000)
                    at += 3;
                else
                    break;
            } else if (first >= 0xF0 && first <= 0xF3) {
                if ((word & 0xC0C0C000) != 0x80808000 || (first == 0xF0 && at[1] < 0x90))
                    break;
                at += 4;
            } else if ((word & 0xFFFF) == 0x755C) {
                /* In each byte below 0x80, the highest bit of a sum says whether the byte reaches a bound. */
                unsigned int digits = (unsigned int)(word >> 16);
                unsigned int decimal = digits ^ 0x30303030;
                unsigned int letter = (digits | 0x20202020) ^ 0x60606060;
                unsigned int others = decimal + 0x76767676;
                unsigned int letters = (letter + 0x7F7F7F7F) & ~(letter + 0x79797979);
                if ((digits | (others & ~letters)) & 0x80808080 || ((at[2] | 0x20) == 0x64 && at[3] > 0x37))
                    break;
                at += 6;
            } else
                break;
        }
    #endif
        return at;
    }
    """
    const uint8_t* past_run "jsonrpc_fast_past_run"(const uint8_t* at, const uint8_t* end) nogil
    const uint8_t* past_spaces "jsonrpc_fast_past_spaces"(const uint8_t* at, const uint8_t* end) nogil
    const uint8_t* past_digits "jsonrpc_fast_past_digits"(const uint8_t* at, const uint8_t* end) nogil
    bint LITTLE_ENDIAN "JSONRPC_FAST_LITTLE_ENDIAN"
    bint likely(bint condition) nogil
    unsigned int plain_bytes "jsonrpc_fast_plain"(const uint8_t* at) nogil
    int lowest_bit "jsonrpc_fast_lowest"(uint64_t bits) nogil


cdef inline const uint8_t* skip_plain(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Skip the plain ASCII characters of a string: stop at a quote, a backslash, a control character, a byte above 0x7F,
    or the end."""
    cdef unsigned int found
    while end - at >= 16:
        found = plain_bytes(at) ^ 0xFFFF
        if found:
            return at + lowest_bit(found)
        at += 16
    while at < end and 0x20 <= at[0] < 0x80 and at[0] != c'"' and at[0] != c"\\":
        at += 1
    return at


cdef inline const uint8_t* skip_pairs(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Skip characters of two bytes; `skip_character` would skip them one by one."""
    while end - at >= 2 and 0xC2 <= at[0] <= 0xDF and at[1] & 0xC0 == 0x80:
        at += 2
    return at


cdef inline const uint8_t* skip_unusual "jsonrpc_fast_skip_unusual"(const uint8_t* at, Cursor* cursor) noexcept nogil:
    """Skip an escape, or characters beyond ASCII, or more of them, at `at` in a string; NULL for a fault."""
    cdef const uint8_t* end = cursor.end
    if end - at >= 2 and at[0] == c"\\" and is_short_escape(at[1]):
        return at + 2
    if likely(end - at >= 2 and 0xC2 <= at[0] <= 0xDF and at[1] & 0xC0 == 0x80):
        return skip_pairs(at + 2, end)
    cursor.at = past_run(at, end)
    if cursor.at > at:
        return cursor.at
    if at >= end or at[0] < 0x20:
        stop(cursor, at)
        return NULL
    if not (skip_escape(cursor) if at[0] == c"\\" else skip_character(cursor)):
        return NULL
    return cursor.at


cdef inline const uint8_t* skip_rest(const uint8_t* at, Cursor* cursor) noexcept nogil:
    """Skip the rest of a string from `at`, where `skip_plain` may have stopped; NULL for a fault."""
    cdef const uint8_t* end = cursor.end
    while at >= end or at[0] != c'"':
        at = skip_unusual(at, cursor)
        if at == NULL:
            return NULL
        at = skip_plain(at, end)
    return at + 1


cdef inline bint skip_string(Cursor* cursor, bint* plain) noexcept nogil:
    """Skip the string at the cursor. Sets `plain`: it is ASCII without escapes."""
    cdef const uint8_t* at
    if not expect(cursor, c'"'):
        return False
    at = skip_plain(cursor.at, cursor.end)
    plain[0] = at < cursor.end and at[0] == c'"'
    at = skip_rest(at, cursor)
    if at == NULL:
        return False
    cursor.at = at
    return True


cdef inline const uint8_t* skip_digits "jsonrpc_fast_skip_digits"(
    const uint8_t* at, const uint8_t* end, int few
) noexcept nogil:
    """Past the digits at `at`. A number may be as long as the text: after a few digits, 16 are read at once."""
    cdef const uint8_t* short_end = at + few if end - at > few else end
    while at < short_end and is_digit(at[0]):
        at += 1
    if at < short_end:
        return at
    return past_digits(at, end)


cdef inline bint is_too_large(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Whether a valid number rounds to an infinite double, that is, whether it is 2**1024 - 2**970 or more."""
    # The digits of that bound without its trailing zeros. The first digit is multiplied by 10**308.
    cdef const char* bound = (
        b"1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070"
        b"9633028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447"
        b"5730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904"
        b"174497792"
    )
    cdef int64_t power = -1  # the power of ten of the first digit other than 0
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
    # `power` is the number of digits before the point less one, or else minus the zeros after it less one.
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
                return True  # equal so far, and more digits only make it larger
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


cdef inline bint skip_number(Cursor* cursor, bint* wide) noexcept nogil:
    """Skip the number at the cursor, which is at a digit or a minus."""
    cdef const uint8_t* start = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef const uint8_t* at = start
    cdef const uint8_t* digits
    cdef const uint8_t* exponent  # its digits
    cdef bint is_integer = True
    if at[0] == c"-":
        at += 1
    digits = at
    if at < end and at[0] == c"0":
        at += 1
    else:
        at = skip_digits(at, end, SHORT_DIGITS)
        if at == digits:
            return stop(cursor, at)
    if at < end and at[0] == c".":
        is_integer = False
        digits = at + 1
        at = skip_digits(digits, end, SHORT_DIGITS)
        if at == digits:
            return stop(cursor, at)
    if at < end and (at[0] == c"e" or at[0] == c"E"):
        is_integer = False
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            at += 1
        exponent = at
        at = skip_digits(at, end, SHORT_DIGITS)
        if at == exponent:
            return stop(cursor, at)
    else:
        exponent = at
    if is_integer:
        if at - start > 18:
            wide[0] = wide[0] or is_wide(start, at)
    # With up to 200 bytes and an exponent of up to two digits, it is far below 10**308.
    elif (at - start > 200 or at - exponent > 2) and is_too_large(start, at):
        return stop(cursor, start)
    cursor.at = at
    return True


cdef inline bint skip_literal(Cursor* cursor) noexcept nogil:
    """Skip `true`, `false` or `null`."""
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


cdef inline uint64_t* grow_stack(uint64_t* stack, bint on_heap, Py_ssize_t size) noexcept nogil:
    """The same words with room for twice as many, on the heap; NULL if memory runs out."""
    cdef uint64_t* larger = <uint64_t*>realloc(stack if on_heap else NULL, 2 * size * sizeof(uint64_t))
    if larger != NULL and not on_heap:
        memcpy(larger, stack, size * sizeof(uint64_t))
    return larger


cdef struct Window "jsonrpc_fast_window":
    # 64 bytes checked at once, so that the end of the next string is known before the current one is skipped.
    const uint8_t* start  # the first byte that may be read
    const uint8_t* end  # the end of the 64 bytes; `start` before the first check
    uint64_t special  # one bit for each byte that stops `skip_plain`; the lowest bit is the first byte


cdef inline const uint8_t* find_special "jsonrpc_fast_find_special"(
    const uint8_t* at, const uint8_t* end, Window* window
) noexcept nogil:
    """As `skip_plain`. `at` never decreases from one call to the next.

    Bounds: the 64 bytes begin at `at` if that many are left; else they are the last 64, provided that these begin at
    `window.start` or later, and `at` is among them. So they never begin after `at`: if `at` is before their end, it is
    1 to 64 bytes before it, and the shift is 64 minus that number.
    """
    cdef const uint8_t* block
    cdef uint64_t special
    while True:
        if at < window.end:
            special = window.special >> ((at - window.end) & 63)
            if special:
                return at + lowest_bit(special)
            at = window.end
        if end - at >= 64:
            block = at
        elif at < end and end - window.start >= 64:
            block = end - 64
        else:
            return skip_plain(at, end)
        window.end = block + 64
        window.special = ~(
            <uint64_t>plain_bytes(block)
            | <uint64_t>plain_bytes(block + 16) << 16
            | <uint64_t>plain_bytes(block + 32) << 32
            | <uint64_t>plain_bytes(block + 48) << 48
        )


cdef inline const uint8_t* skip_text "jsonrpc_fast_skip_text"(
    const uint8_t* at, Cursor* cursor, Window* window
) noexcept nogil:
    """As `skip_rest`. It has one caller, so that the compiler inlines it and keeps the window in registers."""
    cdef const uint8_t* end = cursor.end
    while True:
        at = find_special(at, end, window)
        if at < end and at[0] == c'"':
            return at + 1
        at = skip_unusual(at, cursor)
        if at == NULL:
            return NULL


cdef inline const uint8_t* past_space(const uint8_t* at, const uint8_t* end) noexcept nogil:
    # One comparison without space, the usual case, and two after a comma or a colon with one space.
    if likely(at >= end or at[0] > 0x20):
        return at
    if end - at >= 2 and at[0] == c" " and at[1] > 0x20:
        return at + 1
    return past_spaces(at, end)


cdef inline const uint8_t* past_space_inside(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """As `past_space`. Bounds: a byte that is no space follows before `end`."""
    if likely(at[0] > 0x20):
        return at
    if at[0] == c" " and at[1] > 0x20:
        return at + 1
    return past_spaces(at, end)


cdef inline const uint8_t* skip_name(const uint8_t* at, Cursor* cursor, Window* window) noexcept nogil:
    """Skip the member name at `at`, its colon and the space around it; NULL for a fault."""
    cdef const uint8_t* end = cursor.end
    if at >= end or at[0] != c'"':
        stop(cursor, at)
        return NULL
    at = find_special(at + 1, end, window)
    if end - at >= 2 and memcmp(at, b'":', 2) == 0:
        return past_space(at + 2, end)
    return skip_rest_of_name(at, cursor)


cdef inline const uint8_t* skip_rest_of_name(const uint8_t* at, Cursor* cursor) noexcept nogil:
    """As `skip_name`, from `at` inside the name."""
    cdef const uint8_t* end = cursor.end
    at = skip_rest(at, cursor)
    if at == NULL:
        return NULL
    at = past_space(at, end)
    if at >= end or at[0] != c":":
        stop(cursor, at)
        return NULL
    return past_space(at + 1, end)


cdef inline bint skip_container(Cursor* cursor, Value* value) noexcept nogil:
    """Skip the object or array at the cursor."""
    cdef uint64_t words[STACK_WORDS]  # the kinds of the open containers, 64 in each word, except those in `kinds`
    cdef uint64_t* stack = words
    cdef uint64_t* larger
    cdef Py_ssize_t size = STACK_WORDS
    cdef uint64_t kinds = 0  # the kinds of the innermost containers, the innermost in the lowest bit: 1 for an object
    cdef Py_ssize_t level = 0  # the number of open containers
    cdef Py_ssize_t depth = 0
    cdef const uint8_t* at = cursor.at
    cdef const uint8_t* end = cursor.end
    cdef const uint8_t* number
    cdef const uint8_t* digits
    cdef bint is_short
    cdef Window window
    cdef uint8_t byte
    cdef uint8_t closing = 0  # the bracket that closes the innermost container
    cdef bint opened
    cdef bint done = False
    window.start = at
    window.end = at
    window.special = 0
    while True:
        # A value begins here.
        if at >= end:
            stop(cursor, end)
            break
        opened = False
        byte = at[0]
        if byte == c'"':
            at = skip_text(at + 1, cursor, &window)
            if at == NULL:
                break
        elif byte == c"{" or byte == c"[":
            at = past_space(at + 1, end)
            if at >= end:
                stop(cursor, end)
                break
            if level >= depth:
                depth = level + 1
            # In ASCII, a closing bracket comes two after its opening one.
            if at[0] == byte + 2:
                at += 1
                if level == 0:
                    done = True
                    break
            else:
                if level & 63 == 0:
                    if level >> 6 == size:
                        larger = grow_stack(stack, stack != words, size)
                        if larger == NULL:
                            cursor.out_of_memory = True
                            stop(cursor, at)
                            break
                        stack = larger
                        size *= 2
                    stack[level >> 6] = kinds
                opened = True
                level += 1
                kinds = kinds << 1 | (byte == c"{")
                closing = byte + 2
        elif byte == c"-" or is_digit(byte):
            number = at
            at = skip_digits(at + 1, end, SHORT_DIGITS)
            # Most numbers are short integers, which need no further check.
            if (
                byte == c"-" or (byte == c"0" and at - number > 1) or at - number > 18
                or at >= end or (at[0] != c"," and at[0] != closing)
            ):
                # Short ones with a sign or a fraction need none, either.
                digits = number + (byte == c"-")
                is_short = at > digits and at - digits <= 18 and (digits[0] != c"0" or at - digits == 1)
                if is_short and at < end and at[0] == c".":
                    digits = at + 1
                    at = skip_digits(digits, end, SHORT_FRACTION)
                    is_short = at > digits
                if not is_short or at >= end or (at[0] != c"," and at[0] != closing):
                    cursor.at = number
                    if not skip_number(cursor, &value.wide):
                        break
                    at = cursor.at
        elif end - at >= 5 and (memcmp(at, b"true", 4) == 0 or memcmp(at, b"null", 4) == 0):
            at += 4
        elif end - at >= 5 and memcmp(at, b"false", 5) == 0:
            at += 5
        else:
            cursor.at = at
            if not skip_literal(cursor):
                break
            at = cursor.at
        if not opened:
            # A value ended here, and perhaps the containers around it.
            while at >= end or at[0] != c",":
                at = past_space(at, end)
                if at >= end or at[0] != closing:
                    break
                at += 1
                level -= 1
                if level == 0:
                    done = True
                    break
                kinds = stack[level >> 6] if level & 63 == 0 else kinds >> 1
                closing = c"}" if kinds & 1 else c"]"
            if done:
                break
            if at >= end or at[0] != c",":
                stop(cursor, at)
                break
            at = past_space(at + 1, end)
        if closing == c"}":
            at = skip_name(at, cursor, &window)
            if at == NULL:
                break
    if stack != words:
        free(stack)
    value.depth = depth
    cursor.at = at
    return done


cdef inline bint skip_value(Cursor* cursor, Value* value) noexcept nogil:
    """Skip the value at the cursor. Sets `value`."""
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
        done = skip_container(cursor, value)
    elif byte == c"-" or is_digit(byte):
        done = skip_number(cursor, &value.wide)
    else:
        done = skip_literal(cursor)
    value.end = cursor.at
    return done


cdef inline Member name_of(const uint8_t* name, Py_ssize_t length, bint of_error) noexcept nogil:
    """The member of a message, or of an error object, with a name without escapes."""
    if of_error:
        if length == 4 and memcmp(name, b"code", 4) == 0:
            return MEMBER_CODE
        if length == 4 and memcmp(name, b"data", 4) == 0:
            return MEMBER_DATA
        if length == 7 and memcmp(name, b"message", 7) == 0:
            return MEMBER_MESSAGE
    elif length == 2:
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


cdef inline Member name_of_escaped(const uint8_t* at, const uint8_t* end, bint of_error) noexcept nogil:
    """As `name_of` for a name with escapes, which are valid; only those of four digits can be letters."""
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
    return name_of(name, length, of_error)


cdef inline bint read_message(Cursor* cursor, Envelope* envelope, Envelope* error) noexcept nogil:
    """Read the value at the cursor, a message or not, into `envelope`. error: as in `read_object`."""
    cdef Value value
    memset(envelope, 0, sizeof(Envelope))
    if cursor.at >= cursor.end:
        return stop(cursor, cursor.end)
    if cursor.at[0] != c"{":
        if not skip_value(cursor, &value):
            return False
        envelope.depth = value.depth
        return True
    return read_object(cursor, envelope, False, error)


cdef inline bint read_object(Cursor* cursor, Envelope* envelope, bint of_error, Envelope* error) noexcept nogil:
    """Read the object at the cursor, a message or an error object.

    error: where the error object in a message goes, or NULL; it is set if the member is an object.
    """
    cdef Value value
    cdef Member member
    cdef const uint8_t* name
    cdef bint plain
    memset(envelope, 0, sizeof(Envelope))
    envelope.is_object = True
    envelope.begun = MEMBER_UNKNOWN
    envelope.start = cursor.at
    cursor.at += 1
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == c"}":
        cursor.at += 1
        envelope.end = cursor.at
        return True
    while True:
        name = cursor.at + 1
        if not skip_string(cursor, &plain):
            return False
        if plain:
            member = name_of(name, cursor.at - 1 - name, of_error)
        else:
            member = name_of_escaped(name, cursor.at - 1, of_error)
        skip_space(cursor)
        if not expect(cursor, c":"):
            return False
        skip_space(cursor)
        envelope.begun = member
        if member == MEMBER_UNKNOWN:
            envelope.unexpected = True
        elif envelope.members[<int>member].start != NULL:
            envelope.duplicates = 2 if member == MEMBER_ID or envelope.duplicates == 2 else 1
        if member == MEMBER_ERROR and error != NULL and cursor.at < cursor.end and cursor.at[0] == c"{":
            if not read_object(cursor, error, True, NULL):
                return False
            value = Value(error.start, error.end, error.depth + 1, error.wide, False)
        elif not skip_value(cursor, &value):
            return False
        if value.depth > envelope.depth:
            envelope.depth = value.depth
        envelope.wide = envelope.wide or value.wide
        if member != MEMBER_UNKNOWN:
            envelope.members[<int>member] = value
        skip_space(cursor)
        if cursor.at < cursor.end and cursor.at[0] == c"}":
            cursor.at += 1
            envelope.end = cursor.at
            return True
        if not expect(cursor, c","):
            return False
        skip_space(cursor)


cdef inline bint has_begun(Envelope* envelope, Member member) noexcept nogil:
    """Whether the name and colon of a member are read, and perhaps its value."""
    return envelope.members[<int>member].start != NULL or envelope.begun == member


cdef inline bint read_end(Cursor* cursor) noexcept nogil:
    """Whether only space is left."""
    skip_space(cursor)
    return True if cursor.at == cursor.end else stop(cursor, cursor.at)
