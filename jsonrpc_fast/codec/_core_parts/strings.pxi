"""Strings and names as str objects, in one pass: escapes and UTF-8 are checked while they are decoded."""

cdef extern from *:
    """
    /* So that the some hundred names of real traffic find room; without the GIL, those of one thread. */
    #ifdef Py_GIL_DISABLED
    #define JSONRPC_FAST_NAME_BITS 10
    #else
    #define JSONRPC_FAST_NAME_BITS 13
    #endif
    #define JSONRPC_FAST_NAME_PLACES (1 << JSONRPC_FAST_NAME_BITS)
    """
    enum:
        NAME_BITS "JSONRPC_FAST_NAME_BITS"
        NAME_PLACES "JSONRPC_FAST_NAME_PLACES"

cdef enum:
    PLACES_OF_NAME = 4
    NAME_BYTES = 64  # longer names are not cached
    UNUSUAL = 128


# A cache of names and methods. Each hash has four places, so that a flood of names cannot make it grow, in the order in
# which their names were used: a new one takes the place of the one that was used longest ago. Names with escapes or beyond
# ASCII are found by their bytes in the text, which were checked when the name was kept.


cdef struct Name:
    uint64_t first  # what `words_of` makes of its bytes in the text
    uint64_t last
    Py_ssize_t size  # of these; with UNUSUAL if they are not those of the str; below 0: keep the name if it comes again
    PyObject* text  # owned: the str, or a tuple of it and the bytes, if they are longer than `words_of`; NULL: none


cdef inline void words_of(const uint8_t* at, Py_ssize_t size, uint64_t* first, uint64_t* last) noexcept:
    """Set the first and the last eight bytes as words, which identify a text of this size if it is 1 to 16.

    Bounds: `size` is at least 1.
    """
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


cdef extern from *:
    """
    #if JSONRPC_FAST_COPIED_HEADERS
    static PyASCIIObject jsonrpc_fast_ascii_head; /* of a str that nothing has used yet */
    static size_t jsonrpc_fast_most_ascii = 0; /* so long are those that copy it; 0 without tricks */

    static int jsonrpc_fast_keep_ascii_head(void) {
        PyObject *text = PyUnicode_New(1, 0x7F);
        if (text == NULL)
            return -1;
        if (jsonrpc_fast_uses(COPIED_HEADERS))
            jsonrpc_fast_most_ascii = PY_SSIZE_T_MAX / 2;
        jsonrpc_fast_ascii_head = *(PyASCIIObject *)text;
        Py_DECREF(text);
        return 0;
    }

    /* What PyUnicode_New does for ASCII: a header, and the characters and a zero behind it. */
    static CYTHON_INLINE PyObject *jsonrpc_fast_new_ascii(Py_ssize_t size) {
        PyASCIIObject *text;
        if ((size_t)size - 1 >= jsonrpc_fast_most_ascii)
            return PyUnicode_New(size, 0x7F);
        text = (PyASCIIObject *)PyObject_Malloc(sizeof(PyASCIIObject) + (size_t)size + 1);
        if (text == NULL)
            return PyErr_NoMemory();
        *text = jsonrpc_fast_ascii_head;
        text->length = size;
        ((char *)(text + 1))[size] = 0;
        jsonrpc_fast_renew((PyObject *)text);
        return (PyObject *)text;
    }
    #else
    #define jsonrpc_fast_keep_ascii_head() 0
    #define jsonrpc_fast_new_ascii(size) PyUnicode_New(size, 0x7F)
    #endif
    """
    int keep_ascii_head "jsonrpc_fast_keep_ascii_head"() except -1
    PyObject* new_ascii "jsonrpc_fast_new_ascii"(Py_ssize_t size) noexcept

keep_ascii_head()


cdef extern from *:
    """
    #if defined(__GNUC__)
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_ascii_at(const uint8_t *, Py_ssize_t);
    #endif
    """


cdef inline PyObject* ascii_at "jsonrpc_fast_ascii_at"(const uint8_t* start, Py_ssize_t size) noexcept:
    cdef PyObject* text = new_ascii(size)
    if text != NULL:
        copy(<char*>string_data(text), <const char*>start, size)
    return text


cdef extern from *:
    """
    #if defined(__GNUC__)
    struct jsonrpc_fast_value_reader;
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_name_in_text(
        struct jsonrpc_fast_value_reader *, const uint8_t *, Py_ssize_t);
    struct jsonrpc_fast_caches;
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_name_at(
        struct jsonrpc_fast_caches *, const uint8_t *, Py_ssize_t);
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_name_before_colon(
        struct jsonrpc_fast_value_reader *, const uint8_t *, Py_ssize_t);
    #endif
    """


cdef inline Name* places_of_name(Caches* caches, uint64_t first, uint64_t last, Py_ssize_t size) noexcept:
    """The first place of a name."""
    cdef uint64_t hash = (last * <uint64_t>0x9E3779B97F4A7C15) ^ first ^ <uint64_t>size
    hash *= <uint64_t>0x9E3779B97F4A7C15
    return &caches_in(caches).names[PLACES_OF_NAME * <size_t>(hash >> (66 - NAME_BITS))]


cdef inline bint is_name(Name* name, uint64_t first, uint64_t last, Py_ssize_t size, const uint8_t* start) noexcept:
    """Whether an ASCII name of these words is kept at this place."""
    return (
        name.first == first
        and name.last == last
        and name.size == size
        and (size <= 16 or memcmp(<const char*>string_data(name.text) + 8, start + 8, size - 16) == 0)
    )


cdef void put_first(Name* names, uint64_t first, uint64_t last) noexcept:
    """Move a name of these words to the first of its places; if it is in none, the one that was used longest ago."""
    cdef Name moved
    cdef Name name = names[0]
    cdef int i
    for i in range(1, PLACES_OF_NAME):
        moved = names[i]
        names[i] = name
        name = moved
        if name.first == first and name.last == last:
            break
    names[0] = name


cdef PyObject* name_used_before(
    Name* name, uint64_t first, uint64_t last, Py_ssize_t size, const uint8_t* start
) noexcept:
    """As `name_at`, for a name that is not in the first of its places."""
    put_first(name, first, last)
    if not is_name(name, first, last, size, start):
        return keep_name(name, first, last, size, ascii_at(start, size), NULL)
    hold(name.text)
    return name.text


cdef inline PyObject* name_at "jsonrpc_fast_name_at"(Caches* caches, const uint8_t* start, Py_ssize_t size) noexcept:
    """The cached str, with its hash, of an ASCII name or method."""
    cdef uint64_t first
    cdef uint64_t last
    cdef Name* name
    if size == 0 or size > NAME_BYTES or (FREE_THREADED and unlikely(caches == NULL)):
        return ascii_at(start, size)
    words_of(start, size, &first, &last)
    name = places_of_name(caches, first, last, size)
    if not likely(is_name(name, first, last, size, start)):
        return name_used_before(name, first, last, size, start)
    hold(name.text)
    return name.text


cdef PyObject* keep_name(
    Name* name, uint64_t first, uint64_t last, Py_ssize_t size, PyObject* text, const uint8_t* start
) noexcept:
    """Keep a str, or NULL, as the name of these words, and return it. start: its bytes in the text, if they are to be
    kept, too."""
    cdef PyObject* kept = text
    cdef PyObject* old
    if text == NULL:
        return NULL
    hash_of(text)
    hold(text)
    if start != NULL:
        kept = pair_of(text, start, size - UNUSUAL)
        if kept == NULL:
            drop(text)
            drop(text)
            return NULL
    old = name.text
    name.text = kept
    name.first = first
    name.last = last
    name.size = size
    drop_if_any(old)
    return text


cdef PyObject* pair_of(PyObject* text, const uint8_t* start, Py_ssize_t size) noexcept:
    """A tuple of a str, whose reference it takes over, and bytes; NULL if there is no memory.

    Making it may run other code, which may use the cache.
    """
    cdef PyObject* source = new_bytes_of(<const char*>start, size)
    cdef PyObject* pair = NULL if source == NULL else new_tuple(2)
    if pair == NULL:
        drop_if_any(source)
        return NULL
    set_tuple_item(pair, 0, text)
    set_tuple_item(pair, 1, source)
    untrack(pair)
    return pair


cdef enum:
    # A string is built in so many words of four bytes on the C stack; a longer one on the heap.
    TEXT_WORDS = 1024
    # Up to so many bytes before the first unusual one are read again, which is faster than widening them.
    FEW_BYTES = 64
    # How many units `fill` may write before it checks the room again.
    TEXT_UNITS = 32
    # Shorter strings have their own functions: `short_text`, if SHORT_ROOM bytes are left, `latin`, and `short_wide_text`.
    SHORT_BYTES = 32
    SHORT_ROOM = 48
    SHORT_UNITS = 16

cdef enum Filling:
    FILLED  # up to the closing quote
    TOO_NARROW  # the character at `at` does not fit in the units
    NOT_FILLED  # it is invalid, or there is no memory


cdef struct Text:
    # A string that is being built from units of one size.
    const uint8_t* at  # where reading continues
    const uint8_t* end
    uint8_t* units
    Py_ssize_t room  # bytes at `units`
    Py_ssize_t count  # units that are written
    uint64_t bits  # its highest bit is that of the largest character, unless all are ASCII
    bint on_heap


cdef int32_t[256] HEX_DIGITS  # 0x10000 for other bytes
cdef uint8_t[256] IS_PLAIN  # whether a byte in a string is its own character
cdef uint8_t[256] SHORT_ESCAPES  # by the byte after the backslash; 0 for other bytes


cdef void fill_tables() noexcept:
    cdef int byte
    for byte in range(256):
        HEX_DIGITS[byte] = 0x10000 if hex_digit(<uint8_t>byte) < 0 else hex_digit(<uint8_t>byte)
        SHORT_ESCAPES[byte] = 0
        IS_PLAIN[byte] = 0x20 <= byte < 0x80 and byte != c'"' and byte != c"\\"
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


cdef extern from *:
    """
    /* Reads four characters of three bytes. Returns 0 if they are none. Bounds: 13 bytes are read, and 8 written. */
    static CYTHON_INLINE int jsonrpc_fast_four_of_three(const unsigned char *at, unsigned short *to) {
    #if JSONRPC_FAST_SSE2
        int word[4];
        __m128i bytes, codes, upper, valid;
        memcpy(&word[0], at, 4);
        memcpy(&word[1], at + 3, 4);
        memcpy(&word[2], at + 6, 4);
        memcpy(&word[3], at + 9, 4);
        bytes = _mm_unpacklo_epi64(
            _mm_unpacklo_epi32(_mm_cvtsi32_si128(word[0]), _mm_cvtsi32_si128(word[1])),
            _mm_unpacklo_epi32(_mm_cvtsi32_si128(word[2]), _mm_cvtsi32_si128(word[3])));
        valid = _mm_cmpeq_epi32(_mm_and_si128(bytes, _mm_set1_epi32(0xC0C0F0)), _mm_set1_epi32(0x8080E0));
        codes = _mm_or_si128(
            _mm_or_si128(
                _mm_slli_epi32(_mm_and_si128(bytes, _mm_set1_epi32(0x0F)), 12),
                _mm_srli_epi32(_mm_and_si128(bytes, _mm_set1_epi32(0x3F00)), 2)),
            _mm_srli_epi32(_mm_and_si128(bytes, _mm_set1_epi32(0x3F0000)), 16));
        /* As `is_of_three`. */
        upper = _mm_and_si128(codes, _mm_set1_epi32(0xF800));
        valid = _mm_andnot_si128(
            _mm_or_si128(
                _mm_cmpeq_epi32(upper, _mm_setzero_si128()), _mm_cmpeq_epi32(upper, _mm_set1_epi32(0xD800))),
            valid);
        if (_mm_movemask_epi8(valid) != 0xFFFF)
            return 0;
        /* With their sign extended, no code saturates. */
        codes = _mm_srai_epi32(_mm_slli_epi32(codes, 16), 16);
        _mm_storel_epi64((__m128i *)to, _mm_packs_epi32(codes, codes));
        return 1;
    #else
        return 0;
    #endif
    }

    #if JSONRPC_FAST_SSE2
    #define jsonrpc_fast_bits(first, second) \\
        ((unsigned int)_mm_movemask_epi8(first) | (unsigned int)_mm_movemask_epi8(second) << 16)

    /* Copies up to 32 bytes. Bounds: it reads and writes 16, or 32 if there are more. */
    static CYTHON_INLINE void jsonrpc_fast_copy_short(unsigned char *to, const unsigned char *from, Py_ssize_t size) {
        _mm_storeu_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
        if (size > 16)
            _mm_storeu_si128((__m128i *)(to + 16), _mm_loadu_si128((const __m128i *)(from + 16)));
    }
    #endif

    /* Reads a string of less than 32 bytes that has escapes of one letter, and otherwise plain ASCII alone. Sets how many
       bytes it has; returns how many units it has, 0 for any other string.

       Bounds: 48 bytes at `start` can be read, and 64 units written. A copy begins in the first 32 bytes, and takes more
       than 16 only if so many are left of these. */
    static CYTHON_INLINE Py_ssize_t jsonrpc_fast_short_text(
        const unsigned char *start, const unsigned char *escapes, unsigned char *units, Py_ssize_t *size) {
    #if JSONRPC_FAST_SSE2
        __m128i first = _mm_loadu_si128((const __m128i *)start), second = _mm_loadu_si128((const __m128i *)(start + 16));
        __m128i bytes = _mm_set1_epi8(0x22);
        unsigned int quotes = jsonrpc_fast_bits(_mm_cmpeq_epi8(first, bytes), _mm_cmpeq_epi8(second, bytes));
        unsigned int slashes, others;
        unsigned char *to = units;
        Py_ssize_t from = 0, at;
        if (quotes == 0)
            return 0;
        bytes = _mm_set1_epi8(0x5C);
        slashes = jsonrpc_fast_bits(_mm_cmpeq_epi8(first, bytes), _mm_cmpeq_epi8(second, bytes));
        /* As signed bytes, those above 0x7F are negative. */
        bytes = _mm_set1_epi8(0x20);
        others = jsonrpc_fast_bits(_mm_cmplt_epi8(first, bytes), _mm_cmplt_epi8(second, bytes));
        for (;;) {
            unsigned char byte;
            if ((quotes | slashes) == 0)
                return 0;
            at = jsonrpc_fast_lowest(quotes | slashes);
            jsonrpc_fast_copy_short(to, start + from, at - from);
            to += at - from;
            if (quotes >> at & 1)
                break;
            byte = escapes[start[at + 1]];
            if (at > 29 || byte == 0)
                return 0;
            *to++ = byte;
            from = at + 2;
            quotes &= ~(3u << at);
            slashes &= ~(3u << at);
        }
        *size = at;
        return others & ((1u << at) - 1) ? 0 : to - units;
    #else
        return 0;
    #endif
    }

    /* Reads plain ASCII and characters of Latin-1, from a character's beginning up to anything else. Returns where the next
       unit goes, and moves `start` behind what was read. Not inlined, so that its callers keep their registers.

       Bounds: a round reads 32 bytes, and begins only if so many are left and `to` is not beyond `full`. It writes up to
       32: 16 from one of the first 16 units on. */
    static JSONRPC_FAST_APART unsigned char *jsonrpc_fast_latin(
        const unsigned char **start, const unsigned char *end, unsigned char *to, const unsigned char *full) {
    #if JSONRPC_FAST_SSE2
        const unsigned char *at = *start;
        unsigned int others = 0;
        while (others == 0 && end - at >= 32 && to <= full) {
            __m128i bytes = _mm_and_si128(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8((char)0xFE));
            __m128i next = _mm_loadu_si128((const __m128i *)(at + 1));
            /* As signed bytes, the continuation bytes are the least. */
            unsigned int leads = (unsigned int)_mm_movemask_epi8(_mm_and_si128(
                _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xC2)), _mm_cmplt_epi8(next, _mm_set1_epi8((char)0xC0))));
            int from = 0, size = 16, i;
            others = 0xFFFF & ~(jsonrpc_fast_plain(at) | leads | leads << 1);
            if (others) {
                size = jsonrpc_fast_lowest(others);
                leads &= (1u << size) - 1;
            }
            for (; leads; leads &= leads - 1) {
                i = jsonrpc_fast_lowest(leads);
                _mm_storeu_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)(at + from)));
                to += i - from;
                *to++ = (unsigned char)(at[i] << 6 | (at[i + 1] & 0x3F));
                from = i + 2;
            }
            if (from < size) {
                _mm_storeu_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)(at + from)));
                to += size - from;
                from = size;
            }
            at += from;
        }
        *start = at;
    #endif
        return to;
    }
    """
    bint four_of_three "jsonrpc_fast_four_of_three"(const uint8_t* at, uint16_t* to) noexcept nogil
    Py_ssize_t short_text "jsonrpc_fast_short_text"(
        const uint8_t* start, const uint8_t* escapes, uint8_t* units, Py_ssize_t* size
    ) noexcept nogil
    uint8_t* latin "jsonrpc_fast_latin"(
        const uint8_t** start, const uint8_t* end, uint8_t* to, const uint8_t* full
    ) noexcept nogil


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


cdef inline Filling fill(Text* text, Unit* unit) noexcept:
    """Read up to the closing quote, or to the first character that does not fit in the units.

    unit: NULL; its type is that of the units.

    Bounds: a round begins with room for TEXT_UNITS units, and writes up to 16 of ASCII. Each step over other characters
    begins with room for at least 8, and writes up to 5. A short escape in a block is read if 16 bytes are left.
    """
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.end
    cdef const uint8_t* start
    cdef const uint8_t* looked_at = at  # the end of the bytes that `special` is about
    cdef const uint8_t* unusual
    cdef Unit* to = <Unit*>text.units + text.count
    cdef Unit* full = <Unit*>(text.units + text.room) - TEXT_UNITS  # up to here a round may begin
    cdef uint8_t[16] block
    cdef uint64_t word
    cdef uint64_t codes
    cdef uint32_t four
    cdef uint32_t wide
    cdef uint64_t bits = 0
    cdef unsigned int special = 0  # one bit for each byte from `at` on that is no plain ASCII, the lowest first
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
            # The bits of a block are kept until all of its unusual characters are read. With wider units this is slower,
            # since the rest of the block is written again after each.
            if Unit is not uint8_t or at >= looked_at:
                special = plain_bytes(at) ^ 0xFFFF
                looked_at = at + 16
            memcpy(block, at, 16)
            for i in range(16):
                to[i] = block[i]
            if special == 0:
                to += looked_at - at
                at = looked_at
                continue
            i = lowest_bit(special)
            special >>= i
            at += i
            to += i
            unusual = at
            if Unit is uint8_t:
                while at[0] == c"\\" and end - at >= 16 and to <= full + 16 and SHORT_ESCAPES[at[1]]:
                    to[0] = SHORT_ESCAPES[at[1]]
                    to += 1
                    at += 2
                if IS_PLAIN[at[0]]:
                    if at < looked_at:
                        special >>= at - unusual
                    continue
        else:
            looked_at = at
            while at < end and 0x20 <= at[0] < 0x80 and at[0] != c'"' and at[0] != c"\\":
                to[0] = at[0]
                to += 1
                at += 1
            unusual = at
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
                        if code > 0xFF:
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
                # Only these two begin a character that fits.
                if byte != 0xC2 and byte != 0xC3:
                    filling = TOO_NARROW
                    break
                if unlikely(end - at < 2 or at[1] & 0xC0 != 0x80):
                    break
                bits |= 0x80
                text.at = at
                to = latin(&text.at, end, to, full)
                if text.at == at:
                    to[0] = <uint8_t>((byte & 3) << 6 | (at[1] & 0x3F))
                    to += 1
                    text.at += 2
                at = text.at
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
                        while end - at >= 13 and to <= full + 24 and four_of_three(at, <uint16_t*>to):
                            to += 4
                            at += 12
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
        if at < looked_at:
            special >>= at - unusual
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
    if unit == 1:
        value = new_string(text.count, 0x7F if text.bits < 0x80 else 0xFF)
    else:
        value = new_string(text.count, 0xFFFF if unit == 2 else 0x10FFFF)
    if value != NULL:
        copy(<char*>string_data(value), <const char*>text.units, text.count * unit)
    return value


cdef extern from *:
    """
    /* Not inlined: short strings do not need its buffer on the stack. */
    static JSONRPC_FAST_APART PyObject *jsonrpc_fast_put_together(
        struct jsonrpc_fast_value_reader *, const uint8_t *, const uint8_t *);
    """


cdef inline PyObject* short_wide_text(
    ValueReader* reader, const uint8_t* start, const uint8_t* at, Unit* units, bint* is_left
) noexcept:
    """As `unusual_string`, for at most SHORT_UNITS characters without escapes; sets `is_left` for any other string.

    Bounds: each round reads the eight bytes at `at`, and only if so many are left. It begins with less than SHORT_UNITS
    units written, and writes up to two, for which `units` has room.
    """
    cdef Unit* to = units
    cdef PyObject* value
    cdef const uint8_t* end = reader.end
    cdef uint64_t word
    cdef uint32_t code
    while start < at:
        to[0] = start[0]
        to += 1
        start += 1
    while end - at >= 8 and to < units + SHORT_UNITS:
        memcpy(&word, at, 8)
        if Unit is uint32_t:
            if word & <uint32_t>0xC0C0C0F8 == <uint32_t>0x808080F0:
                code = <uint32_t>((word & 0x07) << 18 | (word << 4 & 0x3F000) | (word >> 10 & 0xFC0) | (word >> 24 & 0x3F))
                if not 0x10000 <= code <= 0x10FFFF:
                    break
                to[0] = code
                to += 1
                at += 4
                continue
        if word & 0xC0C0F0 == 0x8080E0:
            code = <uint32_t>((word & 0x0F) << 12 | (word >> 2 & 0xFC0) | (word >> 16 & 0x3F))
            if not is_of_three(<uint16_t>code):
                break
            at += 3
            word >>= 24
            if word & 0xC0C0F0 == 0x8080E0:
                to[0] = <Unit>code
                to += 1
                code = <uint32_t>((word & 0x0F) << 12 | (word >> 2 & 0xFC0) | (word >> 16 & 0x3F))
                if not is_of_three(<uint16_t>code):
                    break
                at += 3
        elif word & 0xC0E0 == 0x80C0:
            code = <uint32_t>((word & 0x1F) << 6 | (word >> 8 & 0x3F))
            if code < 0x80:
                break
            at += 2
        elif IS_PLAIN[at[0]]:
            code = at[0]
            at += 1
        elif at[0] == c'"':
            value = new_string(to - units, 0xFFFF if Unit is uint16_t else 0x10FFFF)
            if value != NULL:
                copy(<char*>string_data(value), <const char*>units, sizeof(Unit) * (to - units))
                reader.at = at + 1
            return value
        else:
            break
        to[0] = <Unit>code
        to += 1
    is_left[0] = True
    return NULL


cdef PyObject* unusual_string(ValueReader* reader, const uint8_t* start, const uint8_t* at) noexcept:
    """As `string_at`, for a string whose first escape or character beyond ASCII is at `at`."""
    cdef uint32_t[SHORT_UNITS + 1] units
    cdef PyObject* value
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t count
    cdef bint is_left = False
    if at - start < SHORT_BYTES:
        if at[0] == c"\\":
            count = short_text(start, SHORT_ESCAPES, <uint8_t*>units, &size) if reader.end - start >= SHORT_ROOM else 0
            if count:
                value = ascii_at(<uint8_t*>units, count)
                reader.at = start + size + 1
                return value
        elif at[0] < 0xC4:
            reader.at = start
            count = latin(&reader.at, reader.end, <uint8_t*>units, <uint8_t*>(units + 1) + SHORT_BYTES) - <uint8_t*>units
            if reader.at > at and reader.at[0] == c'"':
                value = new_string(count, 0xFF)
                if value != NULL:
                    copy(<char*>string_data(value), <const char*>units, count)
                    reader.at += 1
                return value
        elif LITTLE_ENDIAN and at - start < SHORT_UNITS:
            if at[0] < 0xF0:
                value = short_wide_text(reader, start, at, <uint16_t*>units, &is_left)
            else:
                value = short_wide_text(reader, start, at, units, &is_left)
            if not is_left:
                return value
    return put_together(reader, start, at)


cdef PyObject* put_together "jsonrpc_fast_put_together"(ValueReader* reader, const uint8_t* start, const uint8_t* at) noexcept:
    """As `string_at`, for a string whose first escape or character beyond ASCII is at `at`.

    The units are as wide as this character needs, if few come before it, and widen with the others.
    """
    cdef uint32_t[TEXT_WORDS] units
    cdef Text text
    cdef PyObject* value = NULL
    cdef Py_ssize_t unit = 1
    cdef Filling filling = NOT_FILLED
    text.at = start
    text.end = reader.end
    text.units = <uint8_t*>units
    text.room = sizeof(units)
    text.count = 0
    text.bits = 0
    text.on_heap = False
    if at[0] >= 0xC4 and at - start <= FEW_BYTES:
        unit = 2 if at[0] < 0xF0 else 4
        filling = TOO_NARROW
    elif at - start <= FEW_BYTES or make_room(&text, 1, at - start):
        copy(<char*>text.units, <const char*>start, at - start)
        text.count = at - start
        text.at = at
        filling = fill(&text, <uint8_t*>NULL)
    if filling == TOO_NARROW and unit < 4 and (unit == 2 or text.at[0] < 0xF0):
        filling = NOT_FILLED
        if unit == 2 or widen(&text, 1, 2):
            unit = 2
            filling = fill(&text, <uint16_t*>NULL)
    if filling == TOO_NARROW:
        filling = NOT_FILLED
        if text.count == 0 or widen(&text, unit, 4):
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


cdef PyObject* unusual_name(ValueReader* reader, const uint8_t* start, const uint8_t* at, Py_ssize_t before) noexcept:
    """As `name_in_text`, for a name whose first escape or character beyond ASCII is at `at`."""
    cdef const uint8_t* end = reader.end if reader.end - start <= NAME_BYTES else start + NAME_BYTES + 1
    cdef const uint8_t* unusual = at
    cdef PyObject* found
    cdef PyObject* old
    cdef Py_ssize_t size
    cdef uint64_t first
    cdef uint64_t last
    cdef Name* name
    while at < end and at[0] != c'"':
        at += 2 if at[0] == c"\\" else 1
    if at >= end or before > 2 * MAX_NAMES:  # it is too long, or one of many, or the text ends
        return unusual_string(reader, start, unusual)
    if FREE_THREADED and unlikely(reader.caches == NULL):
        return unusual_string(reader, start, unusual)
    size = at - start
    words_of(start, size, &first, &last)
    name = places_of_name(reader.caches, first, last, size)
    if name.first != first or name.last != last:
        put_first(name, first, last)
    if (
        name.first == first
        and name.last == last
        and name.size == size + UNUSUAL
        and (size <= 16 or memcmp(bytes_data(tuple_item(name.text, 1)) + 8, start + 8, size - 16) == 0)
    ):
        reader.at = at + 1
        found = name.text if size <= 16 else tuple_item(name.text, 0)
        hold(found)
        return found
    if name.first == first and name.last == last and name.size == -size:
        found = unusual_string(reader, start, unusual)
        return keep_name(name, first, last, size + UNUSUAL, found, start if size > 16 else NULL)
    # A name is kept when it comes twice: keeping it costs as much as reading three.
    old = name.text
    name.text = NULL
    name.first = first
    name.last = last
    name.size = -size
    drop_if_any(old)
    return unusual_string(reader, start, unusual)


cdef inline PyObject* name_in_text "jsonrpc_fast_name_in_text"(
    ValueReader* reader, const uint8_t* start, Py_ssize_t before
) noexcept:
    """The cached str, with its hash, of the name or method whose opening quote is before `start`. Sets `reader.at`.

    before: how many names and values of the same object come before it.
    """
    cdef const uint8_t* at = plain_end(reader, start)
    if unlikely(at >= reader.end):
        return NULL
    if unlikely(at[0] != c'"'):
        return unusual_name(reader, start, at, before)
    reader.at = at + 1
    return name_at(reader.caches, start, at - start)


cdef inline PyObject* name_before_colon "jsonrpc_fast_name_before_colon"(ValueReader* reader, const uint8_t* at, Py_ssize_t before) noexcept:
    """The member name at `at`; `reader.at` is then past its colon and the space around it. before: as in
    `name_in_text`. Bounds: as in `value_at`."""
    cdef const uint8_t* end = reader.end
    cdef PyObject* name
    if unlikely(at[0] != c'"'):
        return NULL
    name = name_in_text(reader, at + 1, before)
    if name == NULL:
        return NULL
    at = past_space_inside(reader.at, end)
    if unlikely(at[0] != c":"):
        drop(name)
        return NULL
    reader.at = past_space_inside(at + 1, end)
    return name
