"""JSON values as Python objects, in one forward pass over the text.

The results are those of orjson: the same types and order of members, and the last of equal names. A text that is not
JSON, a value that nests too deep and an integer that the profile may refuse give no value; then the slow path reads the
text again.

Bounds, as in `_scanner.pxd`: a function reads at `at` only if `at < end`, and several bytes at once only if so many are
left. Nothing recurses: a value has at most VALUE_DEPTH open containers.

Ownership: each `PyObject*` that a function returns is a new reference. NULL without an exception means that there is no
value; NULL with an exception means that there is no memory. The parts of open containers are on `ValueReader.stack`,
which owns them until their container does, or until `drop_values`. Making a list or a dict may start a garbage
collection, which may run other code: no pointer into static memory is held across it, and the reader is on the C stack.
"""

cdef extern from "Python.h":
    PyObject* new_string "PyUnicode_New"(Py_ssize_t size, Py_UCS4 maxchar)
    void* string_data "PyUnicode_DATA"(PyObject* text)
    PyObject* new_integer "PyLong_FromLongLong"(long long value)
    PyObject* new_unsigned "PyLong_FromUnsignedLongLong"(unsigned long long value)
    PyObject* new_float "PyFloat_FromDouble"(double value)
    PyObject* new_list "PyList_New"(Py_ssize_t size)
    void set_list_item "PyList_SET_ITEM"(PyObject* items, Py_ssize_t index, PyObject* value)
    PyObject* new_bytes_of "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size)
    int set_dict_item "PyDict_SetItem"(PyObject* items, PyObject* name, PyObject* value)
    Py_hash_t hash_of "PyObject_Hash"(PyObject* value)
    PyObject* call_with "PyObject_CallOneArg"(PyObject* function, PyObject* value)
    PyObject* set_no_memory "PyErr_NoMemory"()
    bint is_raised "PyErr_ExceptionMatches"(PyObject* kind)
    void clear_raised "PyErr_Clear"()
    void hold "Py_INCREF"(PyObject* value)
    void drop "Py_DECREF"(PyObject* value)
    void* resize_memory "PyMem_Realloc"(void* memory, size_t size)
    void free_memory "PyMem_Free"(void* memory)
    PyObject* TRUE_VALUE "Py_True"
    PyObject* FALSE_VALUE "Py_False"
    PyObject* NULL_VALUE "Py_None"

cdef extern from *:
    """
    #include <float.h>
    /* Whether what a double operation gives is rounded once. */
    #define JSONRPC_FAST_EXACT_DOUBLES (FLT_EVAL_METHOD == 0)

    #if defined(_MSC_VER)
    static __inline int jsonrpc_fast_highest_of_word(unsigned __int64 bits) {
        unsigned long at;
        if (_BitScanReverse(&at, (unsigned long)(bits >> 32)))
            return (int)at + 32;
        _BitScanReverse(&at, (unsigned long)bits);
        return (int)at;
    }
    #else
    #define jsonrpc_fast_highest_of_word(bits) (63 - __builtin_clzll(bits))
    #endif

    /* The upper half of a product of two words; the lower one goes to `low`. */
    #if defined(__SIZEOF_INT128__)
    static CYTHON_INLINE unsigned long long jsonrpc_fast_product(
        unsigned long long a, unsigned long long b, unsigned long long *low) {
        unsigned __int128 product = (unsigned __int128)a * b;
        *low = (unsigned long long)product;
        return (unsigned long long)(product >> 64);
    }
    #else
    static CYTHON_INLINE unsigned long long jsonrpc_fast_product(
        unsigned long long a, unsigned long long b, unsigned long long *low) {
        unsigned long long a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
        unsigned long long right = a0 * b0, middle = a1 * b0 + (right >> 32), left = a0 * b1 + (middle & 0xFFFFFFFF);
        *low = left << 32 | (right & 0xFFFFFFFF);
        return a1 * b1 + (middle >> 32) + (left >> 32);
    }
    #endif

    #ifdef WORDS_BIGENDIAN
    #define JSONRPC_FAST_LITTLE_ENDIAN 0
    #else
    #define JSONRPC_FAST_LITTLE_ENDIAN 1
    #endif

    /* A private function of CPython, which newer versions may not export. */
    #if PY_VERSION_HEX < 0x030E0000 && !defined(PYPY_VERSION)
    #define jsonrpc_fast_new_dict _PyDict_NewPresized
    #else
    #define jsonrpc_fast_new_dict(size) PyDict_New()
    #endif
    """
    bint LITTLE_ENDIAN "JSONRPC_FAST_LITTLE_ENDIAN"
    bint EXACT_DOUBLES "JSONRPC_FAST_EXACT_DOUBLES"
    int highest_bit_of_word "jsonrpc_fast_highest_of_word"(uint64_t bits) noexcept nogil
    uint64_t product_of "jsonrpc_fast_product"(uint64_t a, uint64_t b, unsigned long long* low) noexcept nogil
    PyObject* new_dict "jsonrpc_fast_new_dict"(Py_ssize_t size)
    bint unlikely(bint condition) noexcept nogil

cdef enum:
    # The slow path reads deeper values. One bit for each level fits in a word.
    VALUE_DEPTH = 64
    # How many values a reader holds without the heap.
    STACK_VALUES = 128
    NAME_PLACES = 2048
    NAME_BYTES = 64  # longer names are not cached
    # All numbers of so many digits fit in 63 and 64 bits.
    INTEGER_DIGITS = 18
    MANTISSA_DIGITS = 19
    TEN_POWERS = 64
    SMALL_INTEGERS = 257  # those that Python keeps
    # After so many odd numbers, which orjson reads one by one, it may read the whole payload; one of them takes as long
    # as so many bytes of other text.
    ODD_NUMBERS = 3
    ODD_BYTES = 128
    # orjson also reads a payload that begins with so many floats of so few bytes each, and is much longer than those.
    FLOATS = 8
    FLOAT_BYTES = 24

cdef double[23] TENS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
]  # all that are exact
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


cdef struct ValueReader:
    const uint8_t* at  # after a value was returned, the byte behind it
    const uint8_t* text  # the first byte that may be read
    const uint8_t* end
    const uint8_t* start  # of the value that `value_at` reads
    Py_ssize_t depth  # of values that are read, at most VALUE_DEPTH
    Py_ssize_t odd  # numbers that orjson has read
    Py_ssize_t floats  # numbers with a fraction or an exponent
    bint any_integer  # whether integers may have more than 64 bits
    bint is_for_orjson  # there is no value because orjson reads this payload faster
    PyObject** stack  # `values`, or larger memory on the heap
    PyObject** stack_end
    PyObject* values[STACK_VALUES]


cdef inline void open_reader(
    ValueReader* reader, const uint8_t* text, const uint8_t* end, Py_ssize_t depth, bint any_integer
) noexcept:
    reader.text = text
    reader.end = end
    reader.depth = min(depth, <Py_ssize_t>VALUE_DEPTH)
    reader.any_integer = any_integer
    reader.stack = reader.values
    reader.stack_end = reader.values + STACK_VALUES


cdef inline const uint8_t* plain_end(ValueReader* reader, const uint8_t* at) noexcept:
    """As `skip_plain`.

    Bounds: where less than 16 bytes are left, the last 16 are looked at, if those begin at `reader.text` or after, and
    the bits of those before `at` are shifted out.
    """
    cdef const uint8_t* end = reader.end
    cdef unsigned int found
    while end - at >= 16:
        found = plain_bytes(at) ^ 0xFFFF
        if found:
            return at + lowest_bit(found)
        at += 16
    if unlikely(end - reader.text < 16):
        return skip_plain(at, end)
    found = (plain_bytes(end - 16) ^ 0xFFFF) >> (16 - (end - at))
    return at + lowest_bit(found) if found else end


cdef struct Name:
    uint64_t first  # what `words_of` makes of it
    uint64_t last
    Py_ssize_t size
    PyObject* text  # owned; NULL: the place is free


# A cache of names and methods. Each hash has one place, so that a flood of names cannot make it grow.
cdef Name[NAME_PLACES] names


cdef inline void words_of(const uint8_t* at, Py_ssize_t size, uint64_t* first, uint64_t* last) noexcept:
    """Set the first and the last eight bytes as words, which tell apart all texts of this size from 1 to 16."""
    cdef uint32_t low
    cdef uint32_t high
    if size >= 8:
        memcpy(first, at, 8)
        memcpy(last, at + size - 8, 8)
        return
    if size >= 4:
        memcpy(&low, at, 4)
        memcpy(&high, at + size - 4, 4)
        first[0] = low | <uint64_t>high << 32
    else:
        first[0] = at[0] | <uint64_t>at[size >> 1] << 8 | <uint64_t>at[size - 1] << 16
    last[0] = 0


cdef inline PyObject* ascii_at(const uint8_t* start, Py_ssize_t size) noexcept:
    cdef PyObject* text = new_string(size, 0x7F)
    if text != NULL:
        copy(<char*>string_data(text), <const char*>start, size)
    return text


cdef inline PyObject* name_at(const uint8_t* start, Py_ssize_t size) noexcept:
    """The cached str, with its hash, of an ASCII name or method."""
    cdef uint64_t first
    cdef uint64_t last
    cdef uint64_t hash
    cdef Name* name
    if size == 0 or size > NAME_BYTES:
        return ascii_at(start, size)
    words_of(start, size, &first, &last)
    hash = ((last * <uint64_t>0x9E3779B97F4A7C15) ^ first ^ <uint64_t>size) * <uint64_t>0x9E3779B97F4A7C15
    name = &names[<size_t>(hash >> 53)]
    if (
        name.first == first
        and name.last == last
        and name.size == size
        and (size <= 16 or memcmp(<const char*>string_data(name.text) + 8, start + 8, size - 16) == 0)
    ):
        hold(name.text)
        return name.text
    return keep_name(name, start, size, first, last)


cdef PyObject* keep_name(Name* name, const uint8_t* start, Py_ssize_t size, uint64_t first, uint64_t last) noexcept:
    cdef PyObject* text = ascii_at(start, size)
    cdef PyObject* old = name.text
    if text == NULL:
        return NULL
    hash_of(text)
    hold(text)
    name.text = text
    name.first = first
    name.last = last
    name.size = size
    if old != NULL:
        drop(old)
    return text


cdef enum:
    # A string is put together in so many words of four bytes on the C stack; longer ones on the heap.
    TEXT_WORDS = 1024
    # How many units `fill` may write before it checks the room again.
    TEXT_UNITS = 32

cdef enum Filling:
    FILLED  # up to the closing quote
    TOO_NARROW  # the character at `at` does not fit in the units
    NOT_FILLED  # it is invalid, or there is no memory


cdef struct Text:
    # A string that is being put together from units of one size.
    const uint8_t* at  # where reading goes on
    const uint8_t* end
    uint8_t* units
    Py_ssize_t room  # bytes at `units`
    Py_ssize_t count  # units that are written
    uint64_t bits  # its highest bit is that of the largest character, unless all are ASCII
    bint on_heap


cdef int32_t[256] HEX_DIGITS  # 0x10000 for other bytes
cdef uint8_t[256] SHORT_ESCAPES  # by the byte behind the backslash; 0 for other bytes


cdef void fill_tables() noexcept:
    cdef int byte
    for byte in range(256):
        HEX_DIGITS[byte] = 0x10000 if hex_digit(<uint8_t>byte) < 0 else hex_digit(<uint8_t>byte)
        SHORT_ESCAPES[byte] = 0
    SHORT_ESCAPES[c'"'] = c'"'
    SHORT_ESCAPES[c"\\"] = c"\\"
    SHORT_ESCAPES[c"/"] = c"/"
    SHORT_ESCAPES[c"b"] = 0x08
    SHORT_ESCAPES[c"f"] = 0x0C
    SHORT_ESCAPES[c"n"] = 0x0A
    SHORT_ESCAPES[c"r"] = 0x0D
    SHORT_ESCAPES[c"t"] = 0x09


fill_tables()


cdef inline int hex_at(const uint8_t* at) noexcept nogil:
    """The number in the four hexadecimal digits at `at`, all before the end; more than 0xFFFF if one is invalid."""
    return HEX_DIGITS[at[0]] << 12 | HEX_DIGITS[at[1]] << 8 | HEX_DIGITS[at[2]] << 4 | HEX_DIGITS[at[3]]


cdef inline bint is_of_three(uint16_t code) noexcept nogil:
    """Whether UTF-8 writes a code in three bytes."""
    return code >= 0x800 and <uint16_t>(code - 0xD800) >= 0x800


cdef bint make_room(Text* text, Py_ssize_t unit, Py_ssize_t more) noexcept:
    """Make room for `more` units of this size and TEXT_UNITS. Return False with an exception if there is no memory."""
    cdef Py_ssize_t needed = (text.count + more + TEXT_UNITS) * unit
    cdef uint8_t* larger
    if needed <= text.room:
        return True
    needed = max(needed, 2 * text.room)
    larger = <uint8_t*>resize_memory(text.units if text.on_heap else NULL, needed)
    if larger == NULL:
        set_no_memory()
        return False
    if not text.on_heap:
        memcpy(larger, text.units, text.room)
    text.units = larger
    text.room = needed
    text.on_heap = True
    return True


ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t


cdef inline Filling fill(Text* text, Unit* none) noexcept:
    """Read up to the closing quote, or to the first character that does not fit in the units.

    Bounds: a round begins with room for TEXT_UNITS units, and writes up to 16 of ASCII. Each step over other characters
    begins with room for at least 8, and writes up to 5.
    """
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.end
    cdef const uint8_t* start
    cdef Unit* to = <Unit*>text.units + text.count
    cdef Unit* full = <Unit*>(text.units + text.room) - TEXT_UNITS  # up to here a round may begin
    cdef uint8_t[16] block
    cdef uint64_t word
    cdef uint64_t codes
    cdef uint32_t four
    cdef uint32_t wide
    cdef uint64_t bits = 0
    cdef unsigned int found
    cdef Filling filling = NOT_FILLED
    cdef bint is_going_on = True
    cdef uint8_t byte
    cdef int code
    cdef int low
    cdef int i
    while is_going_on:
        if unlikely(to > full):
            text.count = to - <Unit*>text.units
            if not make_room(text, sizeof(Unit), 1):
                return NOT_FILLED
            to = <Unit*>text.units + text.count
            full = <Unit*>(text.units + text.room) - TEXT_UNITS
        if end - at >= 16:
            found = plain_bytes(at) ^ 0xFFFF
            memcpy(block, at, 16)
            for i in range(16):
                to[i] = block[i]
            if found == 0:
                at += 16
                to += 16
                continue
            i = lowest_bit(found)
            at += i
            to += i
        else:
            while at < end and 0x20 <= at[0] < 0x80 and at[0] != c'"' and at[0] != c"\\":
                to[0] = at[0]
                to += 1
                at += 1
        while to <= full + 16:
            is_going_on = False
            if unlikely(at >= end):
                break
            byte = at[0]
            if byte == c'"':
                filling = FILLED
                break
            if byte == c"\\":
                if unlikely(end - at < 2):
                    break
                byte = SHORT_ESCAPES[at[1]]
                if byte:
                    to[0] = byte
                    at += 2
                else:
                    if unlikely(end - at < 6 or at[1] != c"u"):
                        break
                    code = hex_at(at + 2)
                    if unlikely(code > 0xFFFF):
                        break
                    if Unit is uint8_t:
                        if code >= 0x80:
                            filling = TOO_NARROW
                            break
                    if unlikely(code & 0xF800 == 0xD800):
                        if code >= 0xDC00 or end - at < 12 or at[6] != c"\\" or at[7] != c"u":
                            break
                        low = hex_at(at + 8)
                        if low > 0xFFFF or low & 0xFC00 != 0xDC00:
                            break
                        if Unit is not uint32_t:
                            filling = TOO_NARROW
                            break
                        code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF)
                        at += 6
                    bits |= <uint64_t>code
                    to[0] = <Unit>code
                    at += 6
                to += 1
            elif byte < 0x80:
                is_going_on = byte >= 0x20
                break
            elif Unit is uint8_t:
                filling = TOO_NARROW
                break
            else:
                # RFC 3629, section 4.
                if byte < 0xE0:
                    if Unit is uint16_t:
                        start = at
                        while LITTLE_ENDIAN and end - at >= 8 and to <= full + 24:
                            memcpy(&word, at, 8)
                            codes = (word & <uint64_t>0x001F001F001F001F) << 6 | (
                                word >> 8 & <uint64_t>0x003F003F003F003F
                            )
                            memcpy(to, &codes, 8)
                            # Bits are set in each unit that is not a character of two bytes, or is below 0x80.
                            word = (word ^ <uint64_t>0x80C080C080C080C0) & <uint64_t>0xC0E0C0E0C0E0C0E0 | ~(
                                (codes >> 7 & <uint64_t>0x000F000F000F000F) + <uint64_t>0x000F000F000F000F
                            ) & <uint64_t>0x0010001000100010
                            if word == 0:
                                bits |= codes
                                to += 4
                                at += 8
                                continue
                            i = lowest_bit(word) >> 4
                            bits |= codes & ((<uint64_t>1 << (i << 4)) - 1)
                            to += i
                            at += 2 * i
                            if i == 0 or at[0] != c" ":
                                break
                            to[0] = c" "
                            to += 1
                            at += 1
                        if at != start:
                            is_going_on = True
                            continue
                    if byte < 0xC2 or end - at < 2 or at[1] & 0xC0 != 0x80:
                        break
                    code = (byte & 0x1F) << 6 | (at[1] & 0x3F)
                    at += 2
                elif byte < 0xF0:
                    if Unit is uint16_t:
                        start = at
                        while LITTLE_ENDIAN and end - at >= 8 and to <= full + 24:
                            memcpy(&word, at, 8)
                            codes = (
                                (word & <uint64_t>0x00000F00000F) << 12
                                | (word & <uint64_t>0x003F00003F00) >> 2
                                | (word & <uint64_t>0x3F00003F0000) >> 16
                            )
                            if word & <uint64_t>0xC0C0F0C0C0F0 != <uint64_t>0x8080E08080E0:
                                break
                            if not is_of_three(<uint16_t>codes) or not is_of_three(<uint16_t>(codes >> 24)):
                                break
                            to[0] = <uint16_t>codes
                            to[1] = <uint16_t>(codes >> 24)
                            to += 2
                            at += 6
                        if at != start:
                            bits |= 0x800
                            is_going_on = True
                            continue
                    if end - at < 3 or at[1] & 0xC0 != 0x80 or at[2] & 0xC0 != 0x80:
                        break
                    code = (byte & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F)
                    if not is_of_three(<uint16_t>code):
                        break
                    at += 3
                else:
                    if Unit is uint32_t:
                        start = at
                        while LITTLE_ENDIAN and end - at >= 4 and to <= full + 24:
                            memcpy(&four, at, 4)
                            wide = (four & 7) << 18 | (four & 0x3F00) << 4 | (four >> 10 & 0xFC0) | (four >> 24 & 0x3F)
                            if four & <uint32_t>0xC0C0C0F8 != <uint32_t>0x808080F0 or wide - 0x10000 >= 0x100000:
                                break
                            to[0] = wide
                            to += 1
                            at += 4
                        if at != start:
                            bits |= 0x10000
                            is_going_on = True
                            continue
                    if end - at < 4:
                        break
                    code = (byte & 0x0F) << 18 | (at[1] & 0x3F) << 12 | (at[2] & 0x3F) << 6 | (at[3] & 0x3F)
                    if (at[1] & 0xC0) + (at[2] & 0xC0) + (at[3] & 0xC0) != 0x180 or (at[1] & at[2] & at[3]) < 0x80:
                        break
                    if code < 0x10000 or code > 0x10FFFF:
                        break
                    if Unit is not uint32_t:
                        filling = TOO_NARROW
                        break
                    at += 4
                bits |= <uint64_t>code
                to[0] = <Unit>code
                to += 1
            is_going_on = True
    text.at = at
    text.count = to - <Unit*>text.units
    if Unit is uint16_t:
        bits |= bits >> 32
        bits = (bits | bits >> 16) & 0xFFFF
    text.bits |= bits
    return filling


cdef bint widen(Text* text, Py_ssize_t unit, Py_ssize_t wider) noexcept:
    """Widen all units. Return False with an exception if there is no memory.

    It begins with the last block of 16, so that it overwrites no unit before it reads it. The room for TEXT_UNITS more
    makes the last block a whole one.
    """
    cdef uint16_t[16] two
    cdef uint32_t[16] four
    cdef Py_ssize_t block
    cdef int i
    if not make_room(text, wider, 0):
        return False
    block = (text.count + 15) & ~<Py_ssize_t>15
    while block > 0:
        block -= 16
        if unit == 1:
            for i in range(16):
                two[i] = text.units[block + i]
        else:
            memcpy(two, text.units + 2 * block, sizeof(two))
        if wider == 2:
            memcpy(text.units + 2 * block, two, sizeof(two))
        else:
            for i in range(16):
                four[i] = two[i]
            memcpy(text.units + 4 * block, four, sizeof(four))
    return True


cdef PyObject* text_of(Text* text, Py_ssize_t unit) noexcept:
    """The str in its canonical form: as narrow as its largest character allows."""
    cdef PyObject* value
    cdef uint8_t* to
    cdef Py_ssize_t i
    if unit == 2 and text.bits < 0x100:
        value = new_string(text.count, 0xFF)
        if value != NULL:
            to = <uint8_t*>string_data(value)
            for i in range(text.count):
                to[i] = <uint8_t>(<const uint16_t*>text.units)[i]
        return value
    value = new_string(text.count, 0x7F if unit == 1 else 0xFFFF if unit == 2 else 0x10FFFF)
    if value != NULL:
        memcpy(string_data(value), text.units, text.count * unit)
    return value


cdef PyObject* unusual_string(ValueReader* reader, const uint8_t* start, const uint8_t* at) noexcept:
    """As `string_at`, for a string whose first escape or character beyond ASCII is at `at`."""
    cdef uint32_t[TEXT_WORDS] units
    cdef Text text
    cdef PyObject* value = NULL
    cdef Py_ssize_t unit = 1
    cdef Filling filling = NOT_FILLED
    text.at = at
    text.end = reader.end
    text.units = <uint8_t*>units
    text.room = sizeof(units)
    text.count = 0
    text.bits = 0
    text.on_heap = False
    if make_room(&text, 1, at - start):
        memcpy(text.units, start, at - start)
        text.count = at - start
        filling = fill(&text, <uint8_t*>NULL)
    if filling == TOO_NARROW and text.at[0] < 0xF0:
        filling = NOT_FILLED
        if widen(&text, 1, 2):
            unit = 2
            filling = fill(&text, <uint16_t*>NULL)
    if filling == TOO_NARROW:
        filling = NOT_FILLED
        if widen(&text, unit, 4):
            unit = 4
            filling = fill(&text, <uint32_t*>NULL)
    if filling == FILLED:
        value = text_of(&text, unit)
        reader.at = text.at + 1
    if text.on_heap:
        free_memory(text.units)
    return value


cdef inline PyObject* string_at(ValueReader* reader, const uint8_t* start) noexcept:
    """The str whose opening quote is before `start`."""
    cdef const uint8_t* at = plain_end(reader, start)
    if unlikely(at >= reader.end):
        return NULL
    if unlikely(at[0] != c'"'):
        return unusual_string(reader, start, at)
    reader.at = at + 1
    return ascii_at(start, at - start)


cdef inline PyObject* name_before_colon(ValueReader* reader, const uint8_t* at) noexcept:
    """The member name at `at`; `reader.at` is then past its colon and the space around it."""
    cdef const uint8_t* start = at + 1
    cdef const uint8_t* end = reader.end
    cdef PyObject* name
    if unlikely(at >= end or at[0] != c'"'):
        return NULL
    at = plain_end(reader, start)
    if unlikely(at >= end):
        return NULL
    if at[0] == c'"':
        name = name_at(start, at - start)
        at += 1
    else:
        name = unusual_string(reader, start, at)
        at = reader.at
    if name == NULL:
        return NULL
    at = past_space(at, end)
    if unlikely(at >= end or at[0] != c":"):
        drop(name)
        return NULL
    reader.at = past_space(at + 1, end)
    return name


cdef PyObject* odd_number(ValueReader* reader, const uint8_t* start) noexcept:
    """The number at `start`, by orjson. Set `is_for_orjson` if there are too many."""
    cdef const uint8_t* at = start
    cdef const uint8_t* end = reader.end
    cdef PyObject* text
    cdef PyObject* value
    while at < end and (is_digit(at[0]) or at[0] in (c"-", c"+", c".", c"e", c"E")):
        at += 1
    reader.odd += 1
    if reader.odd > ODD_NUMBERS and reader.odd * ODD_BYTES > start - reader.start:
        reader.is_for_orjson = True
        return NULL
    text = new_bytes_of(<const char*>start, at - start)
    if text == NULL:
        return NULL
    value = call_with(<PyObject*>loads, text)
    drop(text)
    if value == NULL and is_raised(<PyObject*>JSONDecodeError):
        clear_raised()
    reader.at = at
    return value


cdef inline const uint8_t* digits_after(const uint8_t* at, const uint8_t* end, uint64_t* number) noexcept nogil:
    """Past the digits at `at`, which are appended to `number`; too many of them overflow it.

    It reads eight bytes at a time if so many are left: the digits move to the upper end, zeros fill the lower one, and
    the eight are added up in pairs.
    """
    cdef uint64_t word
    cdef uint64_t others
    cdef int count
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
    """The number at `start`, a digit or a minus. orjson reads odd ones: with too many digits, or too far from 1."""
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
        if at - digits > MANTISSA_DIGITS or (negative and number > <uint64_t>1 << 63):
            return odd_number(reader, start) if reader.any_integer or not is_wide(start, at) else NULL
        if number >> 63 and not negative:
            reader.at = at
            return new_unsigned(number)
    if unlikely(negative and number == 0):
        return odd_number(reader, start)
    reader.at = at
    if number < SMALL_INTEGERS and not negative:
        hold(integers[number])
        return integers[number]
    # In unsigned arithmetic, because 2**63 is not a long long.
    return new_integer(<long long>(0 - number if negative else number))


cdef inline bint round_double(uint64_t number, Py_ssize_t power, double* value) noexcept nogil:
    """Set the double nearest to number * 10**power, ties to even. Return False if that stays open. `number` is not 0.

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
    # Exactly half way between two doubles: possible only if the power of five fits in a word.
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
    cdef Py_ssize_t read
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
        while at < end and is_digit(at[0]):
            at += 1
        if at == exponent:
            return NULL
        if at - exponent > 2:
            return odd_number(reader, start)
        shown = exponent[0] - c"0"
        if at - exponent == 2:
            shown = 10 * shown + (exponent[1] - c"0")
        power += -shown if negative else shown
    else:
        power = digits - at
    if size > MANTISSA_DIGITS or power < -TEN_POWERS or power > TEN_POWERS:
        return odd_number(reader, start)
    reader.floats += 1
    if reader.floats == FLOATS:
        read = at - reader.start
        if read < FLOATS * FLOAT_BYTES and read * FLOATS < end - at:
            reader.is_for_orjson = True
            return NULL
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
        return odd_number(reader, start)
    reader.at = at
    return new_float(-value if start[0] == c"-" else value)


cdef inline PyObject* literal_at(ValueReader* reader, const uint8_t* at) noexcept:
    """The value of `true`, `false` or `null`."""
    cdef Py_ssize_t left = reader.end - at
    if left >= 4 and memcmp(at, b"true", 4) == 0:
        reader.at = at + 4
        hold(TRUE_VALUE)
        return TRUE_VALUE
    if left >= 4 and memcmp(at, b"null", 4) == 0:
        reader.at = at + 4
        hold(NULL_VALUE)
        return NULL_VALUE
    if left >= 5 and memcmp(at, b"false", 5) == 0:
        reader.at = at + 5
        hold(FALSE_VALUE)
        return FALSE_VALUE
    return NULL


cdef inline PyObject* list_of(PyObject** items, Py_ssize_t size) noexcept:
    """A list that takes over the references to the items."""
    cdef PyObject* value = new_list(size)
    cdef Py_ssize_t i
    if value != NULL:
        for i in range(size):
            set_list_item(value, i, items[i])
    return value


cdef inline PyObject* dict_of(PyObject** items, Py_ssize_t size) noexcept:
    """A dict of alternating names and values. The caller keeps its references."""
    cdef PyObject* value = new_dict(size >> 1)
    cdef Py_ssize_t i
    if value != NULL:
        for i in range(0, size, 2):
            if set_dict_item(value, items[i], items[i + 1]) < 0:
                drop(value)
                return NULL
    return value


cdef PyObject** grow_values(ValueReader* reader, PyObject** top) noexcept:
    """`top` in a stack of twice the size; NULL and the old stack if there is no memory."""
    cdef Py_ssize_t size = reader.stack_end - reader.stack
    cdef Py_ssize_t used = top - reader.stack
    cdef bint on_heap = reader.stack != reader.values
    cdef PyObject** larger = <PyObject**>resize_memory(reader.stack if on_heap else NULL, 2 * size * sizeof(PyObject*))
    if larger == NULL:
        set_no_memory()
        return NULL
    if not on_heap:
        memcpy(larger, reader.values, used * sizeof(PyObject*))
    reader.stack = larger
    reader.stack_end = larger + 2 * size
    return larger + used


cdef PyObject* drop_values(ValueReader* reader, PyObject** top) noexcept:
    while top > reader.stack:
        top -= 1
        drop(top[0])
    forget_stack(reader)
    return NULL


cdef inline void forget_stack(ValueReader* reader) noexcept:
    if unlikely(reader.stack != reader.values):
        free_memory(reader.stack)
        reader.stack = reader.values
        reader.stack_end = reader.values + STACK_VALUES


cdef PyObject* value_at(ValueReader* reader, const uint8_t* at, Py_ssize_t levels) noexcept:
    """The value at `at`, which nests no more than `levels` deep; `reader.at` is then behind it.

    The stack is empty before and after. One entry is free on it before a value or a name is read, two where both come.
    """
    cdef const uint8_t* end = reader.end
    cdef PyObject** top = reader.stack
    cdef PyObject** larger
    cdef PyObject* value
    cdef Py_ssize_t[VALUE_DEPTH] starts  # of the open containers, on the stack
    cdef uint64_t kinds = 0  # one bit for each, 1 for an object; the lowest is the innermost
    cdef Py_ssize_t level = 0  # how many are open
    cdef Py_ssize_t i
    cdef uint8_t byte
    reader.start = at
    reader.odd = 0
    reader.floats = 0
    reader.is_for_orjson = False
    while True:
        # A value begins here.
        if unlikely(at >= end):
            return drop_values(reader, top)
        byte = at[0]
        if byte == c'"':
            value = string_at(reader, at + 1)
        elif is_digit(byte) or byte == c"-":
            value = number_at(reader, at)
        elif byte == c"{" or byte == c"[":
            at = past_space(at + 1, end)
            if unlikely(at >= end or level >= levels):
                return drop_values(reader, top)
            # In ASCII a bracket and its closing one are two apart.
            if at[0] == byte + 2:
                value = new_dict(0) if byte == c"{" else new_list(0)
                reader.at = at + 1
            else:
                starts[level] = top - reader.stack
                level += 1
                kinds = kinds << 1 | (byte == c"{")
                if byte == c"{":
                    value = name_before_colon(reader, at)
                    if unlikely(value == NULL):
                        return drop_values(reader, top)
                    top[0] = value
                    top += 1
                    at = reader.at
                    if unlikely(reader.stack_end - top < 2):
                        larger = grow_values(reader, top)
                        if larger == NULL:
                            return drop_values(reader, top)
                        top = larger
                continue
        else:
            value = literal_at(reader, at)
        if unlikely(value == NULL):
            return drop_values(reader, top)
        at = reader.at
        # A value ends here, and perhaps the containers around it.
        while True:
            if level == 0:
                forget_stack(reader)
                return value
            top[0] = value
            top += 1
            at = past_space(at, end)
            if unlikely(at >= end):
                return drop_values(reader, top)
            if at[0] == c",":
                break
            i = starts[level - 1]
            if kinds & 1:
                if unlikely(at[0] != c"}"):
                    return drop_values(reader, top)
                value = dict_of(reader.stack + i, top - reader.stack - i)
                if unlikely(value == NULL):
                    return drop_values(reader, top)
                while top > reader.stack + i:
                    top -= 1
                    drop(top[0])
            else:
                if unlikely(at[0] != c"]"):
                    return drop_values(reader, top)
                value = list_of(reader.stack + i, top - reader.stack - i)
                if unlikely(value == NULL):
                    return drop_values(reader, top)
                top = reader.stack + i
            at += 1
            reader.at = at
            level -= 1
            kinds >>= 1
        if unlikely(reader.stack_end - top < 2):
            larger = grow_values(reader, top)
            if larger == NULL:
                return drop_values(reader, top)
            top = larger
        at = past_space(at + 1, end)
        if kinds & 1:
            value = name_before_colon(reader, at)
            if unlikely(value == NULL):
                return drop_values(reader, top)
            top[0] = value
            top += 1
            at = reader.at
