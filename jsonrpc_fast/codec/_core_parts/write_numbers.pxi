"""Numbers as JSON, in the bytes of orjson: the shortest digits that give the same float, in its notation.

Bounds: a number is written to a place before NUMBER_BYTES of free memory.
"""

cdef extern from *:
    """
    /* The value of an int of one digit, which most are; else False. */
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
    """
    bint short_integer "jsonrpc_fast_short_integer"(PyObject* value, long long* number) noexcept

cdef extern from "Python.h":
    long long long_long_of "PyLong_AsLongLongAndOverflow"(PyObject* value, int* overflow)
    unsigned long long unsigned_of "PyLong_AsUnsignedLongLong"(PyObject* value)
    double double_of "PyFloat_AS_DOUBLE"(PyObject* value)
    PyObject* raised "PyErr_Occurred"()

cdef enum:
    # At most a sign, 17 digits, a point, and zeros or an exponent.
    NUMBER_BYTES = 40
    # The powers of ten that Schubfach needs for all doubles.
    LEAST_POWER = -292
    POWERS = 617

cdef char[200] PAIRS  # the numbers from 00 to 99
cdef uint64_t[POWERS][2] TEN_BITS  # the upper 128 bits of each power of ten from LEAST_POWER on, rounded up


cdef int fill_number_tables() except -1:
    cdef int i
    for i in range(100):
        PAIRS[2 * i] = <char>(c"0" + i // 10)
        PAIRS[2 * i + 1] = <char>(c"0" + i % 10)
    for i in range(POWERS):
        power = i + LEAST_POWER
        ten = 10 ** abs(power)
        size = ten.bit_length()
        if power < 0:
            # 2 ** (size - 1) < ten, so the quotient has 128 bits.
            ten = -(-(1 << (size + 127)) // ten)
        elif size > 128:
            ten = -(-ten >> (size - 128))
        else:
            ten <<= 128 - size
        TEN_BITS[i][0] = ten >> 64
        TEN_BITS[i][1] = ten & 0xFFFFFFFFFFFFFFFF
    return 0


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


cdef inline char* write_integer(char* at, PyObject* value) noexcept:
    """Write an int; NULL without an exception if it has more than 64 bits."""
    cdef long long number
    cdef int overflow = 0
    if not short_integer(value, &number):
        number = long_long_of(value, &overflow)
        if unlikely(overflow):
            number = <long long>unsigned_of(value)
            if raised() != NULL:
                clear_raised()
                return NULL
            return write_number(at, <uint64_t>number)
    if number < 0:
        at[0] = c"-"
        return write_number(at + 1, 0 - <uint64_t>number)
    return write_number(at, <uint64_t>number)


cdef inline uint64_t round_to_odd(uint64_t* ten, uint64_t number) noexcept nogil:
    """The upper word of a product of 192 bits, with the lowest bit set if others are."""
    cdef unsigned long long low
    cdef unsigned long long middle
    cdef uint64_t upper = product_of(ten[1], number, &low)
    cdef uint64_t high = product_of(ten[0], number, &middle)
    middle += upper
    high += middle < upper
    return high | (middle > 1)


cdef inline uint64_t without_zeros(uint64_t digits, int* power) noexcept nogil:
    """A number of at most 16 digits without the zeros at its end, which `power` counts."""
    cdef uint64_t rest = digits // 100000000
    if digits == 100000000 * rest:
        digits = rest
        power[0] += 8
    rest = digits // 10000
    if digits == 10000 * rest:
        digits = rest
        power[0] += 4
    rest = digits // 100
    if digits == 100 * rest:
        digits = rest
        power[0] += 2
    rest = digits // 10
    if digits == 10 * rest:
        digits = rest
        power[0] += 1
    return digits


cdef inline uint64_t shortest(uint64_t fraction, int exponent, int* power) noexcept nogil:
    """The shortest digits of the finite double with these bits, which is not 0; they count 10**power.

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
    # 1262611 / 2**22 is the logarithm of 2 to the base of 10, 524031 / 2**22 that of 4 / 3; 1741647 / 2**19 that of 10
    # to the base of 2.
    power[0] = (two * 1262611 - (524031 if is_power else 0)) >> 22
    ten = TEN_BITS[-power[0] - LEAST_POWER]
    shift = two + ((-power[0] * 1741647) >> 19) + 1
    least = round_to_odd(ten, (number - 2 + is_power) << shift) + is_odd
    value = round_to_odd(ten, number << shift)
    most = round_to_odd(ten, (number + 2) << shift) - is_odd
    digits = value >> 2
    if digits >= 10:
        tens = digits // 10
        is_lower_in = least <= 40 * tens
        is_upper_in = 40 * tens + 40 <= most
        if is_lower_in != is_upper_in:
            power[0] += 1
            return without_zeros(tens + is_upper_in, power)
    is_lower_in = least <= 4 * digits
    is_upper_in = 4 * digits + 4 <= most
    if is_lower_in != is_upper_in:
        return digits + is_upper_in
    # Half way, to even.
    digits += value + (digits & 1) > 4 * digits + 2
    return without_zeros(digits, power) if unlikely(digits == 10) else digits


cdef char* write_float(char* at, double value) noexcept:
    """Write a float, which is `null` if it is not finite; return the end."""
    cdef uint64_t bits
    cdef uint64_t digits
    cdef int exponent
    cdef int power
    cdef int size
    cdef int point
    cdef int i
    cdef double few
    memcpy(&bits, &value, 8)
    exponent = <int>(bits >> 52 & 0x7FF)
    if unlikely(exponent == 0x7FF):
        memcpy(at, b"null", 4)
        return at + 4
    if bits >> 63:
        at[0] = c"-"
        at += 1
        value = -value
    bits &= (<uint64_t>1 << 52) - 1
    if bits == 0 and exponent == 0:
        memcpy(at, b"0.0", 3)
        return at + 3
    if 1023 <= exponent <= 1075:
        digits = bits | <uint64_t>1 << 52
        if digits & ((<uint64_t>1 << (1075 - exponent)) - 1) == 0:
            at = write_number(at, digits >> (1075 - exponent))
            memcpy(at, b".0", 2)
            return at + 2
    few = 1e6 * value + 0.5
    if EXACT_DOUBLES and few < 1e15 and <double><int64_t>few / 1e6 == value:
        # At most six decimals. A decimal of at most 15 digits is the only one of its double.
        power = -6
        digits = without_zeros(<uint64_t>few, &power)
    else:
        digits = shortest(bits, exponent, &power)
    if 1.0 <= value < 1e16:
        # Write the digits behind the point, and move those that are before it.
        size = <int>(write_number(at + 1, digits) - at) - 1
        if power < 0:
            point = size + power
            for i in range(point):
                at[i] = at[i + 1]
            at[point] = c"."
            return at + size + 1
        for i in range(size):
            at[i] = at[i + 1]
        at += size
        for i in range(power):
            at[i] = c"0"
        memcpy(at + power, b".0", 2)
        return at + power + 2
    if 1e-5 <= value < 1.0:
        memcpy(at, b"0.000000", 8)
        at += 2 + (value < 1e-1) + (value < 1e-2) + (value < 1e-3) + (value < 1e-4)
        return write_number(at, digits)
    size = <int>(write_number(at + 1, digits) - at) - 1
    point = size + power - 1
    at[0] = at[1]
    at += 1
    if size > 1:
        at[0] = c"."
        at += size
    at[0] = c"e"
    at[1] = c"-" if point < 0 else c"+"
    return write_number(at + 2, <uint64_t>(-point if point < 0 else point))
