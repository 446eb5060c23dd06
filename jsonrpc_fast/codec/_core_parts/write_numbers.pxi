"""Numbers as JSON, in the bytes of orjson: the shortest digits that give the same float, in its notation.

Bounds: a number is written to a place with NUMBER_BYTES of free memory after it.
"""

cdef extern from *:
    """
    /* Get the value of an int of one digit, as most are. Return False for any other. */
    #if defined(PYPY_VERSION)
    #define jsonrpc_fast_short_integer(value, number) 0
    #elif PY_VERSION_HEX >= 0x030C0000
    static CYTHON_INLINE int jsonrpc_fast_short_integer(PyObject *value, long long *number) {
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value))
            return 0;
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
        return 1;
    }
    #else
    static CYTHON_INLINE int jsonrpc_fast_short_integer(PyObject *value, long long *number) {
        Py_ssize_t size = Py_SIZE(value);
        if (size < -1 || size > 1)
            return 0;
        *number = size == 0 ? 0 : (long long)size * ((PyLongObject *)value)->ob_digit[0];
        return 1;
    }
    #endif

    /* Write two numbers as eight digits each; return one bit for each digit that is not 0. */
    #if defined(__GNUC__)
    /* Not inlined, so that its caller keeps its registers. */
    __attribute__((noinline)) static uint64_t jsonrpc_fast_shortest(uint64_t, int, int *);
    #endif
    #if JSONRPC_FAST_SSE2
    #if defined(__GNUC__)
    /* Hides a constant, so that compilers keep one multiplication instead of four additions. */
    #define JSONRPC_FAST_HIDDEN(constant) __asm__("" : "+x"(constant))
    #else
    #define JSONRPC_FAST_HIDDEN(constant)
    #endif
    static CYTHON_INLINE unsigned int jsonrpc_fast_write_sixteen(char *to, unsigned int upper, unsigned int lower) {
        /* Each lane is divided by 10000, 100 and 10: by a product whose upper bits are the quotient. */
        __m128i hundred = _mm_set1_epi16(100), ten = _mm_set1_epi16(10);
        __m128i lanes, quotients;
        JSONRPC_FAST_HIDDEN(hundred);
        JSONRPC_FAST_HIDDEN(ten);
        lanes = _mm_unpacklo_epi64(_mm_cvtsi32_si128((int)upper), _mm_cvtsi32_si128((int)lower));
        quotients = _mm_srli_epi64(_mm_mul_epu32(lanes, _mm_set1_epi64x(109951163)), 40);
        lanes = _mm_sub_epi64(lanes, _mm_mul_epu32(quotients, _mm_set1_epi64x(10000)));
        lanes = _mm_or_si128(quotients, _mm_slli_epi64(lanes, 32));
        quotients = _mm_srli_epi16(_mm_mulhi_epu16(lanes, _mm_set1_epi16(5243)), 3);
        lanes = _mm_sub_epi16(lanes, _mm_mullo_epi16(quotients, hundred));
        lanes = _mm_or_si128(quotients, _mm_slli_epi32(lanes, 16));
        quotients = _mm_mulhi_epu16(lanes, _mm_set1_epi16(6554));
        lanes = _mm_sub_epi16(lanes, _mm_mullo_epi16(quotients, ten));
        lanes = _mm_or_si128(quotients, _mm_slli_epi16(lanes, 8));
        _mm_storeu_si128((__m128i *)to, _mm_or_si128(lanes, _mm_set1_epi8('0')));
        return (unsigned int)_mm_movemask_epi8(_mm_cmpgt_epi8(lanes, _mm_setzero_si128()));
    }
    #else
    static CYTHON_INLINE unsigned int jsonrpc_fast_write_sixteen(char *to, unsigned int upper, unsigned int lower) {
        unsigned int i, found = 0;
        for (i = 8; i-- > 0; upper /= 10, lower /= 10) {
            to[i] = (char)('0' + upper % 10);
            to[i + 8] = (char)('0' + lower % 10);
            found |= (unsigned int)(upper % 10 != 0) << i | (unsigned int)(lower % 10 != 0) << (i + 8);
        }
        return found;
    }
    #endif
    """
    unsigned int write_sixteen "jsonrpc_fast_write_sixteen"(char* to, unsigned int upper, unsigned int lower) noexcept
    bint short_integer "jsonrpc_fast_short_integer"(PyObject* value, long long* number) noexcept

cdef extern from "Python.h":
    long long long_long_of "PyLong_AsLongLongAndOverflow"(PyObject* value, int* overflow)
    unsigned long long unsigned_of "PyLong_AsUnsignedLongLong"(PyObject* value)
    PyObject* text_of_integer "PyNumber_ToBase"(PyObject* value, int base)
    double double_of "PyFloat_AS_DOUBLE"(PyObject* value)

cdef enum:
    # At most a sign, 17 digits, a point, and zeros or an exponent.
    NUMBER_BYTES = 40
    # The powers of ten that Schubfach needs for all doubles.
    LEAST_POWER = -292
    POWERS = 617
    # `write_float` decides down to this distance from a border, in its units.
    DOUBT = 128

cdef extern from *:
    uint64_t TENTH "0x199999999999999AULL"  # of 2**64, rounded up: exact for the tens of what is below 2**60
    uint64_t TEN "0xA000000000000000ULL"
    uint64_t HALF "0x8000000000000000ULL"

cdef char[200] PAIRS  # the numbers from 00 to 99
cdef uint64_t[POWERS][2] TEN_BITS  # the upper 128 bits of each power of ten from LEAST_POWER on, rounded up
# For the exponent of a normal double, 2**(exponent - 1075) divided by `power_of` of it, in units of 2**-117, and at most
# 1.01 units more.
cdef uint64_t[2048][2] SCALES
cdef uint64_t[9] AFTER  # the bytes of a word from each of its places on, in little-endian order


cdef int fill_number_tables() except -1:
    cdef int i
    for i in range(100):
        PAIRS[2 * i] = <char>(c"0" + i // 10)
        PAIRS[2 * i + 1] = <char>(c"0" + i % 10)
    ten = 1
    for i in range(-LEAST_POWER, POWERS):
        size = ten.bit_length()
        keep_ten(i, -(-ten >> (size - 128)) if size > 128 else ten << (128 - size))
        if -LEAST_POWER < i <= -2 * LEAST_POWER:
            # 2 ** (size - 1) < ten, so the quotient has 128 bits.
            keep_ten(-2 * LEAST_POWER - i, -(-(1 << (size + 127)) // ten))
        ten *= 10
    for i in range(8):
        AFTER[i] = <uint64_t>-1 << 8 * i
    for i in range(1, 2047):
        fill_scale(SCALES[i], i)
    return 0


cdef int keep_ten(int place, value) except -1:
    TEN_BITS[place][0] = value >> 64
    TEN_BITS[place][1] = value & 0xFFFFFFFFFFFFFFFF
    return 0


cdef void fill_scale(uint64_t* scale, int exponent) noexcept:
    cdef int power = power_of(exponent)
    cdef uint64_t* ten = TEN_BITS[-power - LEAST_POWER]
    cdef int shift = 11 - shift_of(exponent, power)  # 7 to 10
    scale[1] = (ten[0] << (64 - shift) | ten[1] >> shift) + 1
    scale[0] = (ten[0] >> shift) + (scale[1] == 0)


cdef inline int power_of(int exponent) noexcept nogil:
    """The largest power of ten that is at most 2**(exponent - 1075)."""
    # 1262611 / 2**22 is the logarithm of 2 to the base of 10.
    return ((exponent - 1075) * 1262611) >> 22


cdef inline int shift_of(int exponent, int power) noexcept nogil:
    """How many bits 2**(exponent - 1075) / 10**power has before its point."""
    # 1741647 / 2**19 is the logarithm of 10 to the base of 2.
    return exponent - 1074 + ((-power * 1741647) >> 19)


fill_number_tables()


cdef inline void write_eight(char* at, uint32_t number) noexcept:
    """Write a number as eight digits."""
    cdef uint32_t upper = number // 10000
    cdef uint32_t lower = number - 10000 * upper
    cdef uint32_t first = upper // 100
    cdef uint32_t third = lower // 100
    memcpy(at, PAIRS + 2 * first, 2)
    memcpy(at + 2, PAIRS + 2 * (upper - 100 * first), 2)
    memcpy(at + 4, PAIRS + 2 * third, 2)
    memcpy(at + 6, PAIRS + 2 * (lower - 100 * third), 2)


cdef inline char* write_pair(char* at, uint32_t number) noexcept:
    """Write a number of at most two digits; return the end."""
    if number < 10:
        at[0] = <char>(c"0" + number)
        return at + 1
    memcpy(at, PAIRS + 2 * number, 2)
    return at + 2


cdef inline char* write_short_head(char* at, uint32_t number) noexcept:
    """Write a number of at most four digits; return the end."""
    cdef uint32_t upper
    if number < 100:
        return write_pair(at, number)
    upper = number // 100
    at = write_pair(at, upper)
    memcpy(at, PAIRS + 2 * (number - 100 * upper), 2)
    return at + 2


cdef inline char* write_short(char* at, uint32_t number) noexcept:
    """Write a number of at most eight digits; return the end."""
    cdef uint32_t head
    if number < 10000:
        return write_short_head(at, number)
    head = number // 10000
    at = write_short_head(at, head)
    number -= 10000 * head
    head = number // 100
    memcpy(at, PAIRS + 2 * head, 2)
    memcpy(at + 2, PAIRS + 2 * (number - 100 * head), 2)
    return at + 4


cdef inline char* write_number(char* at, uint64_t number) noexcept:
    """Write a number; return the end."""
    cdef uint64_t upper
    cdef uint64_t head
    if number < 100000000:
        return write_short(at, <uint32_t>number)
    upper = number // 100000000
    if upper < 100000000:
        at = write_short(at, <uint32_t>upper)
    else:
        head = upper // 100000000
        at = write_short_head(at, <uint32_t>head)
        write_eight(at, <uint32_t>(upper - 100000000 * head))
        at += 8
    write_eight(at, <uint32_t>(number - 100000000 * upper))
    return at + 8


cdef char* write_narrow "jsonrpc_fast_write_narrow"(char* at, PyObject* value) noexcept:
    """Write an int; NULL without an exception if it has more than 64 bits."""
    cdef long long number
    cdef uint64_t positive
    cdef int overflow = 0
    if not short_integer(value, &number):
        number = long_long_of(value, &overflow)
    positive = <uint64_t>number
    if unlikely(overflow):
        positive = unsigned_of(value)
        if raised() != NULL:
            clear_raised()
            return NULL
    elif number < 0:
        positive = 0 - positive
        at[0] = c"-"
        at += 1
    return write_number(at, positive)


cdef inline uint64_t round_to_odd(uint64_t* ten, uint64_t number) noexcept nogil:
    """The upper word of a product of 192 bits, with the lowest bit set if others are."""
    cdef unsigned long long low
    cdef unsigned long long middle
    cdef uint64_t upper = product_of(ten[1], number, &low)
    cdef uint64_t high = product_of(ten[0], number, &middle)
    middle += upper
    high += middle < upper
    return high | (middle > 1)


cdef uint64_t shortest "jsonrpc_fast_shortest"(uint64_t fraction, int exponent, int* power) noexcept nogil:
    """The shortest digits of the finite double with these bits, which is not 0, and zeros up to 17; they count 10**power.

    Schubfach: Raffaello Giulietti, "The Schubfach way to render doubles" (2021), in the form of figure 7.
    """
    cdef uint64_t number = fraction
    cdef uint64_t* ten
    cdef uint64_t least
    cdef uint64_t value
    cdef uint64_t most
    cdef uint64_t digits
    cdef uint64_t tens
    cdef int two = exponent - 1075
    cdef int shift
    cdef bint is_odd
    cdef bint is_lower_in
    cdef bint is_upper_in
    cdef bint is_power = fraction == 0 and exponent > 1  # the double below is nearer
    if exponent:
        number |= <uint64_t>1 << 52
    else:
        two = -1074
    is_odd = number & 1
    number *= 4
    # As `power_of`, and less the logarithm of 4 / 3.
    power[0] = (two * 1262611 - (524031 if is_power else 0)) >> 22
    ten = TEN_BITS[-power[0] - LEAST_POWER]
    shift = shift_of(two + 1075, power[0])
    least = round_to_odd(ten, (number - 2 + is_power) << shift) + is_odd
    value = round_to_odd(ten, number << shift)
    most = round_to_odd(ten, (number + 2) << shift) - is_odd
    digits = value >> 2
    if digits >= 10:
        tens = digits // 10
        is_lower_in = least <= 40 * tens
        is_upper_in = 40 * tens + 40 <= most
        if is_lower_in != is_upper_in:
            return with_zeros(10 * (tens + is_upper_in), power)
    is_lower_in = least <= 4 * digits
    is_upper_in = 4 * digits + 4 <= most
    if is_lower_in != is_upper_in:
        return with_zeros(digits + is_upper_in, power)
    # Half way, to even.
    return with_zeros(digits + (value + (digits & 1) > 4 * digits + 2), power)


cdef inline uint64_t with_zeros(uint64_t digits, int* power) noexcept nogil:
    while digits < <uint64_t>10000000000000000:
        digits *= 10
        power[0] -= 1
    return digits


cdef inline char* write_decimals(char* at, uint64_t millionths) noexcept:
    """Write a number of millionths that is not whole; return the end."""
    cdef uint64_t whole = millionths // 1000000
    cdef uint32_t rest = <uint32_t>(millionths - 1000000 * whole)
    cdef uint32_t upper = rest // 10000
    cdef uint32_t middle = rest // 100 - 100 * upper
    cdef uint32_t lower = rest % 100
    at = write_number(at, whole)
    at[0] = c"."
    memcpy(at + 1, PAIRS + 2 * upper, 2)
    memcpy(at + 3, PAIRS + 2 * middle, 2)
    memcpy(at + 5, PAIRS + 2 * lower, 2)
    at += 6 if lower else 4 if middle else 2
    return at + (at[0] != c"0")


cdef inline void move_front(char* at, const char* text, int lead, int size) noexcept:
    """Write the first `size` of the digits that begin at `at + 1`, at most 16, to `at`. They are also at `text + lead`."""
    cdef uint64_t digits
    cdef uint64_t rest
    memcpy(&digits, text + lead, 8)
    if size >= 8:
        memcpy(at, &digits, 8)
        memcpy(&digits, text + 8, 8)
        at += 8
        size -= 8
        digits = digits >> 8 * lead | <uint64_t><uint8_t>at[8] << 56
    rest = digits & AFTER[size]
    digits ^= rest ^ rest << 8
    memcpy(at, &digits, 8)


cdef char* write_float(char* at, double value) noexcept:
    """Write a float, which is `null` if it is not finite; return the end.

    With w = fraction * scale, which has 16 or 17 digits before its point, all numbers between w - u / 2 and w + u / 2 are
    the same double, where u is the scale: at least 1, less than 10. So they hold at most one multiple of ten, which is
    shorter than all others. If they hold none, the nearest whole number is the shortest, because u / 2 is at least 1 / 2.
    (This is Schubfach with one product instead of three, as in yyjson and in Victor Zverovich's Zmij.)

    w is wrong by less than 3 in units of 2**-64, and u / 2 by less than 65 in units of 2**-60. What is nearer than DOUBT to
    a border is left to `shortest`, and so are subnormal doubles, and powers of two, whose neighbours are not equally far.
    """
    cdef uint64_t bits
    cdef uint64_t fraction
    cdef uint64_t* scale
    cdef unsigned long long part
    cdef unsigned long long low
    cdef uint64_t whole
    cdef uint64_t tens
    cdef uint64_t half
    cdef uint64_t place
    cdef uint64_t most
    cdef char[16] text
    cdef uint32_t exponent
    cdef uint32_t last
    cdef uint32_t upper
    cdef unsigned int found
    cdef bint is_up
    cdef int lead
    cdef int odd_power
    cdef int power
    cdef int point
    cdef int size
    cdef char* to
    cdef double positive = fabs(value)
    cdef double few = 1e6 * positive + 0.5
    memcpy(&bits, &value, 8)
    exponent = <uint32_t>(bits >> 52) & 0x7FF
    at[0] = c"-"
    at += bits >> 63
    if exponent < 1076 and <double><int64_t>positive == positive:
        at = write_number(at, <uint64_t><int64_t>positive)
        memcpy(at, b".0", 2)
        return at + 2
    if EXACT_DOUBLES and 10 <= few < 1e15 and <double><int64_t>few / 1e6 == positive:
        # At most six decimals. A decimal of at most 15 digits is the only one of its double.
        return write_decimals(at, <uint64_t><int64_t>few)

    fraction = bits << 11 | HALF
    scale = SCALES[exponent]
    power = power_of(<int>exponent)
    part = product_of(fraction, scale[1], &low)
    whole = product_of(fraction, scale[0], &low)
    part += low
    whole += part < low
    tens = product_of(whole, TENTH, &low)
    last = <uint32_t>(whole - 10 * tens)
    # In units of 2**-60.
    place = <uint64_t>last << 60 | part >> 4
    half = scale[0] << 6
    most = place + half
    if unlikely(
        bits << 12 == 0 or (exponent + 1) & 0x7FE == 0 or half - place + DOUBT <= 2 * DOUBT
        or most - TEN + DOUBT <= 2 * DOUBT or part - HALF + DOUBT <= 2 * DOUBT
    ):
        if exponent == 0x7FF:
            at -= bits >> 63
            memcpy(at, b"null", 4)
            return at + 4
        whole = shortest(bits << 12 >> 12, <int>exponent, &odd_power)
        power = odd_power
        tens = whole // 10
        last = <uint32_t>(whole - 10 * tens)
    else:
        # Without branches, which could not be predicted.
        is_up = most >= TEN
        last = (last + <uint32_t>(part >> 63)) & (<uint32_t>((place <= half) | is_up) - 1)
        tens += is_up

    # 16 digits, the first of which may be 0, and the last one.
    upper = <uint32_t>(tens // 100000000)
    found = write_sixteen(text, upper, <uint32_t>tens - 100000000 * upper)
    lead = <int>(~found & 1)
    found |= <unsigned int>(last != 0) << 16
    last += c"0"
    size = highest_bit_of_word(found) + 1 - lead
    point = power + 16 - lead
    if -5 <= point < 0:
        memcpy(at, b"0.000000", 8)
        to = at + 1 - point - lead
    else:
        to = at + 1 - lead
    memcpy(to, text, 16)
    to[16] = <char>last
    if -5 <= point < 0:
        at[1] = c"."
        return at + 1 - point + size
    if 0 <= point < 16:
        to[17] = c"0"
        if LITTLE_ENDIAN:
            move_front(at, text, lead, point + 1)
        else:
            for lead in range(point + 1):
                at[lead] = at[lead + 1]
        at[point + 1] = c"."
        return at + 1 + (size if size > point + 2 else point + 2)
    at[0] = at[1]
    at[1] = c"."
    at += size + 1 if size > 1 else 1
    at[0] = c"e"
    at[1] = c"-" if point < 0 else c"+"
    return write_number(at + 2, <uint64_t>(-point if point < 0 else point))
