"""Numbers as Python objects: integers of any width, and the double nearest to any other number."""

cdef enum:
    # All numbers with so many digits fit in 63 bits, and in 64.
    INTEGER_DIGITS = 18
    MANTISSA_DIGITS = 19
    TEN_POWERS = 64
    EXACT_BYTES = 4300  # the most digits that CPython converts by default
    SMALL_INTEGERS = 257  # CPython keeps those below it
    NUMBER_ON_STACK = 128  # the size of a number that is copied without the heap

cdef double[23] TENS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
]  # all powers that a double represents exactly
cdef uint64_t[2 * TEN_POWERS + 1][2] FIVES  # the upper 128 bits of each power of five, from -TEN_POWERS on


cdef int fill_fives() except -1:
    """Fill the table as in Lemire, "Number Parsing at a Gigabyte per Second" (2021): powers below 1 are rounded up."""
    for power in range(-TEN_POWERS, TEN_POWERS + 1):
        five = 5 ** abs(power)
        if power < 0:
            # 5 ** 27 is the largest that fits in a word.
            bits = (five - 1).bit_length()
            five = (1 << (bits + 127 if power >= -27 else 2 * bits + 128)) // five + 1
        size = five.bit_length()
        five = five >> (size - 128) if size > 128 else five << (128 - size)
        FIVES[power + TEN_POWERS][0] = five >> 64
        FIVES[power + TEN_POWERS][1] = five & 0xFFFFFFFFFFFFFFFF
    return 0


fill_fives()
cdef uint64_t[9] INTEGER_TENS = [1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000]


cdef PyObject* integers[SMALL_INTEGERS]  # each owned


cdef int fill_integers() except -1:
    cdef int number
    for number in range(SMALL_INTEGERS):
        integers[number] = new_integer(number)
        if integers[number] == NULL:
            raise MemoryError
    return 0


fill_integers()


cdef extern from *:
    """
    #if JSONRPC_FAST_COPIED_HEADERS
    static PyLongObject jsonrpc_fast_digit_head; /* that of a new int of one digit */
    static unsigned long long jsonrpc_fast_most_digit = 0; /* the largest int that copies it; 0 without tricks */

    static int jsonrpc_fast_keep_digit_head(void) {
        PyObject *integer = PyLong_FromLong(PyLong_MASK);
        if (integer == NULL)
            return -1;
        if (jsonrpc_fast_uses(COPIED_HEADERS))
            jsonrpc_fast_most_digit = PyLong_MASK;
        memcpy(&jsonrpc_fast_digit_head, integer, PyLong_Type.tp_basicsize);
        Py_DECREF(integer);
        return 0;
    }

    /* An int of one digit that is above those that Python keeps. */
    static CYTHON_INLINE PyObject *jsonrpc_fast_new_digit(long long number) {
        PyLongObject *integer = (PyLongObject *)PyObject_Malloc(sizeof(PyLongObject));
        if (integer == NULL)
            return PyErr_NoMemory();
        *integer = jsonrpc_fast_digit_head;
        jsonrpc_fast_digit_of(integer) = (digit)number;
        jsonrpc_fast_renew((PyObject *)integer);
        return (PyObject *)integer;
    }
    #else
    #define jsonrpc_fast_keep_digit_head() 0
    #define jsonrpc_fast_most_digit 0
    #define jsonrpc_fast_new_digit PyLong_FromLongLong
    #endif
    """
    uint64_t most_digit "jsonrpc_fast_most_digit"
    int keep_digit_head "jsonrpc_fast_keep_digit_head"() except -1
    PyObject* new_digit "jsonrpc_fast_new_digit"(long long number) noexcept

keep_digit_head()


cdef inline PyObject* integer_of(int64_t number) noexcept:
    cdef PyObject* kept
    if 0 <= number < SMALL_INTEGERS:
        hold(integers[number])
        return integers[number]
    if <uint64_t>number <= most_digit:
        kept = take_integer(number)
        return kept if kept != NULL else new_digit(number)
    return new_integer(number)


cdef PyObject* odd_float "jsonrpc_fast_odd_float"(const uint8_t* start, const uint8_t* end) noexcept:
    """The float nearest to the valid number between two places, which `float_at` leaves; NULL if it is infinite."""
    cdef const uint8_t* at = start
    cdef bint negative = start[0] == c"-"
    cdef bint in_fraction = False
    cdef bint is_inexact = False
    cdef uint64_t number = 0  # the first digits
    cdef Py_ssize_t power = 0
    cdef Py_ssize_t shown = 0
    cdef int count = 0
    cdef double value
    cdef double above
    at += negative
    while at < end and at[0] | 0x20 != c"e":
        if at[0] == c".":
            in_fraction = True
        elif count < MANTISSA_DIGITS:
            number = number * 10 + (at[0] - c"0")
            count += number != 0
            power -= in_fraction
        else:
            is_inexact = is_inexact or at[0] != c"0"
            power += not in_fraction
        at += 1
    if end - at > 10:  # more digits than fit; zeros may precede them
        return float_by_python(start, end)
    if at < end:
        at += 1
        negative = at[0] == c"-"
        at += at[0] == c"-" or at[0] == c"+"
        while at < end:
            shown = 10 * shown + (at[0] - c"0")
            at += 1
        power += -shown if negative else shown
    # Below 10**19 * 10**-344, which is less than half of the smallest double: `strtod` needs 700 ns to see it.
    if number == 0 or power <= -344:
        value = 0.0
    # If the digits that are left out make no difference even as another one, the double is certain.
    elif (
        not -TEN_POWERS <= power <= TEN_POWERS
        or not round_double(number, power, &value)
        or (is_inexact and (not round_double(number + 1, power, &above) or above != value))
    ):
        return float_by_python(start, end)
    return new_float(-value if start[0] == c"-" else value)


cdef PyObject* float_by_python(const uint8_t* start, const uint8_t* end) noexcept:
    """The float in the valid number between two places, as `float` reads it; NULL if it is infinite."""
    cdef char[NUMBER_ON_STACK] short_text
    cdef char* text = short_text
    cdef Py_ssize_t size = end - start
    cdef double value
    if size >= NUMBER_ON_STACK:
        text = <char*>resize_memory(NULL, size + 1)
        if text == NULL:
            return set_no_memory()
    memcpy(text, start, size)
    text[size] = 0
    value = double_of_text(text, NULL, NULL)
    if text != short_text:
        free_memory(text)
    if value == -1.0 and raised() != NULL:
        return NULL
    return new_float(value) if isfinite(value) else NULL


cdef PyObject* exact_integer "jsonrpc_fast_exact_integer"(const uint8_t* start, const uint8_t* end) noexcept:
    """The integer between two places; NULL for the slow path if it has too many digits."""
    cdef char[EXACT_BYTES + 1] text
    cdef PyObject* number
    if end - start > EXACT_BYTES:
        return NULL
    memcpy(text, start, end - start)
    text[end - start] = 0
    number = new_integer_of(text, NULL, 10)
    if number == NULL and is_raised(<PyObject*>ValueError):
        clear_raised()
    return number


cdef object decimal_default = None  # the same of `_decimals.py`
cdef object decimal_class = None  # loaded with the first profile that has decimals


cdef int load_decimals(int numbers) except -1:
    """Load what `decimal_at` needs, if numbers are read as decimals."""
    global decimal_class, decimal_default
    if numbers & DECIMALS and decimal_class is None:
        from decimal import Decimal

        from ._decimals import DecimalDefault

        decimal_class = Decimal
        decimal_default = DecimalDefault
    return 0


cdef PyObject* decimal_at(ValueReader* reader, const uint8_t* start, const uint8_t* end) noexcept:
    """The valid number between two places as a Decimal; NULL if it is beyond a double, which this codec refuses."""
    cdef PyObject* text
    cdef PyObject* value
    if is_too_large(start, end):
        return NULL
    text = ascii_at(start, end - start)
    if text == NULL:
        return NULL
    value = call_with(<PyObject*>decimal_class, text)
    drop(text)
    reader.at = end
    return value


cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Not inlined: its buffer would enlarge the stack frames of the functions that read every number. */
    static PyObject *jsonrpc_fast_exact_integer(const uint8_t *, const uint8_t *) __attribute__((noinline, cold));
    static PyObject *jsonrpc_fast_odd_float(const uint8_t *, const uint8_t *) __attribute__((noinline, cold));
    #endif
    """


cdef inline const uint8_t* digits_after(const uint8_t* at, const uint8_t* end, uint64_t* number) noexcept nogil:
    """Past the digits at `at`, which are appended to `number`; too many of them overflow it.

    A single digit, which is frequent, is read alone. Otherwise eight bytes are read at a time if so many are left: the
    digits move to the upper end, zeros fill the lower one, and the eight are added up in pairs.
    """
    cdef uint64_t word
    cdef uint64_t others
    cdef int count
    if end - at >= 2 and is_digit(at[0]) and not is_digit(at[1]):
        number[0] = number[0] * 10 + (at[0] - c"0")
        return at + 1
    while LITTLE_ENDIAN and end - at >= 8:
        memcpy(&word, at, 8)
        word ^= <uint64_t>0x3030303030303030
        # The upper half of a byte is 0, also after 6 is added, only if the byte was a digit.
        others = (word | (word + <uint64_t>0x0606060606060606)) & <uint64_t>0xF0F0F0F0F0F0F0F0
        count = lowest_bit(others) >> 3 if others else 8
        if count == 0:
            return at
        word <<= 64 - 8 * count
        word = word * 10 + (word >> 8)
        word = (
            (word & <uint64_t>0x000000FF000000FF) * <uint64_t>0x000F424000000064
            + (word >> 16 & <uint64_t>0x000000FF000000FF) * <uint64_t>0x0000271000000001
        ) >> 32
        number[0] = number[0] * INTEGER_TENS[count] + word
        at += count
        if count < 8:
            return at
    while at < end and is_digit(at[0]):
        number[0] = number[0] * 10 + (at[0] - c"0")
        at += 1
    return at


cdef inline PyObject* number_at(ValueReader* reader, const uint8_t* start) noexcept:
    """The number at `start`, a digit or a minus."""
    cdef const uint8_t* at = start
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* digits
    cdef bint negative = at[0] == c"-"
    cdef uint64_t number = 0  # too many digits overflow it; it is not used then
    at += negative
    digits = at
    at = digits_after(at, end, &number)
    if unlikely(at == digits or (digits[0] == c"0" and at - digits > 1)):
        return NULL
    if at < end and (at[0] == c"." or at[0] | 0x20 == c"e"):
        return float_at(reader, start, digits, at, number)
    if unlikely(at - digits > INTEGER_DIGITS):
        if is_wide(start, at):
            reader.at = at
            return NULL if reader.numbers & NO_WIDE_INTEGERS else exact_integer(start, at)
        if not negative:
            reader.at = at
            return new_unsigned(number)
    reader.at = at
    # In unsigned arithmetic, because 2**63 is not a long long.
    return integer_of(<int64_t>(0 - number if negative else number))


cdef inline bint round_double(uint64_t number, Py_ssize_t power, double* value) noexcept nogil:
    """Set the double nearest to number * 10**power, ties to even. Return False if this does not decide it. `number` is
    not 0.

    Lemire's algorithm: the number times the upper 64 or 128 bits of the power nearly always settles the rounding. With
    powers up to TEN_POWERS the result is a normal double.
    """
    cdef unsigned long long low
    cdef unsigned long long lower
    cdef uint64_t high
    cdef uint64_t upper
    cdef uint64_t mantissa
    cdef uint64_t exponent
    cdef int zeros = 63 - highest_bit_of_word(number)
    cdef int shift
    cdef uint64_t* five = FIVES[power + TEN_POWERS]
    number <<= zeros
    high = product_of(number, five[0], &low)
    if high & 0x1FF == 0x1FF:  # the bits below the 55 that count
        upper = product_of(number, five[1], &lower)
        low += upper
        high += low < upper
    if low == ~<uint64_t>0 and not -27 <= power <= 55:
        return False
    shift = <int>(high >> 63) + 9
    mantissa = high >> shift
    # 217706 / 65536 is the logarithm of 10 to the base of 2.
    exponent = <uint64_t>(((217706 * power) >> 16) + 63 + <int>(high >> 63) - zeros + 1023)
    # Exactly halfway between two doubles: possible only if the power of five fits in a word.
    if low <= 1 and -4 <= power <= 23 and mantissa & 3 == 1 and mantissa << shift == high:
        mantissa -= 1
    mantissa = (mantissa + (mantissa & 1)) >> 1
    if mantissa >> 53:
        mantissa >>= 1
        exponent += 1
    mantissa = (mantissa & ((<uint64_t>1 << 52) - 1)) | exponent << 52
    memcpy(value, &mantissa, 8)
    return True


cdef PyObject* float_at(
    ValueReader* reader, const uint8_t* start, const uint8_t* digits, const uint8_t* at, uint64_t number
) noexcept:
    """The number at `start`, whose digits up to `at` are `number`; a point or an `e` follows."""
    cdef const uint8_t* end = reader.end
    cdef const uint8_t* exponent
    cdef Py_ssize_t size = at - digits
    cdef Py_ssize_t power = 0
    cdef Py_ssize_t shown
    cdef bint negative = False
    cdef double value
    if at[0] == c".":
        at += 1
        digits = at
        at = digits_after(at, end, &number)
        if at == digits:
            return NULL
        size += at - digits
    else:
        digits = at
    if at < end and at[0] | 0x20 == c"e":
        power = digits - at
        at += 1
        if at < end and (at[0] == c"+" or at[0] == c"-"):
            negative = at[0] == c"-"
            at += 1
        exponent = at
        at = skip_digits(at, end, SHORT_DIGITS)
        if at == exponent:
            return NULL
        if unlikely(reader.numbers & DECIMALS):
            return decimal_at(reader, start, at) if at - exponent <= MAX_EXPONENT_DIGITS else NULL
        reader.at = at
        if at - exponent > 2:
            return odd_float(start, at)
        shown = exponent[0] - c"0"
        if at - exponent == 2:
            shown = 10 * shown + (exponent[1] - c"0")
        power += -shown if negative else shown
    else:
        if unlikely(reader.numbers & DECIMALS):
            return decimal_at(reader, start, at)
        power = digits - at
    reader.at = at
    if size > MANTISSA_DIGITS or power < -TEN_POWERS or power > TEN_POWERS:
        return odd_float(start, at)
    if EXACT_DOUBLES and number <= <uint64_t>1 << 53 and -22 <= power <= 22:
        # Both operands are exact, so one operation rounds correctly (Clinger 1990).
        value = <double><int64_t>number
        if power < 0:
            value /= TENS[-power]
        else:
            value *= TENS[power]
    elif number == 0:
        value = 0.0
    elif not round_double(number, power, &value):
        return odd_float(start, at)
    return new_float(-value if start[0] == c"-" else value)
