"""Strings as JSON, in the bytes of orjson: only characters that JSON requires to be escaped are escaped.

Bounds: a function checks the room for the characters that are left before it copies them, and again after each escape.
With an escape, a wide store or a block of characters that are written one by one, it ends less than STRING_MARGIN bytes
past `full`.
"""

cdef extern from *:
    """
    #if JSONRPC_FAST_SSE2
    /* Copy 16 bytes, and return one bit for each that JSON escapes: a quote, a backslash or one below 0x20. With a bit
       flipped the quote is 0x20 and the space 0x22, and with the highest one flipped signed bytes compare as unsigned. */
    #define JSONRPC_FAST_SPECIAL(bytes) \\
        _mm_or_si128( \\
            _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5C)), \\
            _mm_cmplt_epi8(_mm_xor_si128(bytes, _mm_set1_epi8((char)0x82)), _mm_set1_epi8((char)0xA1)))
    static CYTHON_INLINE unsigned int jsonrpc_fast_copy_block(char *to, const unsigned char *at) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        _mm_storeu_si128((__m128i *)to, bytes);
        return (unsigned int)_mm_movemask_epi8(JSONRPC_FAST_SPECIAL(bytes));
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_copy_blocks(char *to, const unsigned char *at) {
        __m128i a = _mm_loadu_si128((const __m128i *)at);
        __m128i b = _mm_loadu_si128((const __m128i *)(at + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(at + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(at + 48));
        _mm_storeu_si128((__m128i *)to, a);
        _mm_storeu_si128((__m128i *)(to + 16), b);
        _mm_storeu_si128((__m128i *)(to + 32), c);
        _mm_storeu_si128((__m128i *)(to + 48), d);
        a = _mm_or_si128(
            _mm_or_si128(JSONRPC_FAST_SPECIAL(a), JSONRPC_FAST_SPECIAL(b)),
            _mm_or_si128(JSONRPC_FAST_SPECIAL(c), JSONRPC_FAST_SPECIAL(d)));
        return (unsigned int)_mm_movemask_epi8(a);
    }
    /* Copy eight characters as bytes; return one bit for each that is not ASCII, or that JSON escapes. One that does not
       fit in a byte becomes 0xFF or 0. */
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow(char *to, __m128i bytes) {
        _mm_storel_epi64((__m128i *)to, bytes);
        return (unsigned int)_mm_movemask_epi8(_mm_or_si128(bytes, JSONRPC_FAST_SPECIAL(bytes))) & 0xFF;
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_1(char *to, const void *at) {
        return jsonrpc_fast_narrow(to, _mm_loadl_epi64((const __m128i *)at));
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_2(char *to, const void *at) {
        __m128i units = _mm_loadu_si128((const __m128i *)at);
        return jsonrpc_fast_narrow(to, _mm_packus_epi16(units, units));
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_4(char *to, const void *at) {
        __m128i units = _mm_packs_epi32(
            _mm_loadu_si128((const __m128i *)at), _mm_loadu_si128((const __m128i *)at + 1));
        return jsonrpc_fast_narrow(to, _mm_packus_epi16(units, units));
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_special_words(unsigned long long a, unsigned long long b) {
        __m128i bytes = _mm_set_epi64x((long long)a, (long long)b);
        return (unsigned int)_mm_movemask_epi8(JSONRPC_FAST_SPECIAL(bytes));
    }
    #else
    /* Loops without branches, which compilers can vectorize. */
    static CYTHON_INLINE unsigned int jsonrpc_fast_is_special(unsigned char byte) {
        return (byte == 0x22) | (byte == 0x5C) | (byte < 0x20);
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_copy_some(char *to, const unsigned char *at, int size) {
        unsigned char special = 0;
        int i;
        memcpy(to, at, size);
        for (i = 0; i < size; i++)
            special |= (unsigned char)jsonrpc_fast_is_special(at[i]);
        return special;
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_special_words(unsigned long long a, unsigned long long b) {
        unsigned char bytes[16];
        char copied[16];
        memcpy(bytes, &a, 8);
        memcpy(bytes + 8, &b, 8);
        return jsonrpc_fast_copy_some(copied, bytes, 16);
    }
    #define JSONRPC_FAST_NARROW(unit) \\
        unsigned int i, unusual = 0; \\
        for (i = 0; i < 8; i++) { \\
            unit code = ((const unit *)at)[i]; \\
            to[i] = (char)code; \\
            unusual |= (unsigned int)(code < 0x20 || code > 0x7F || code == 0x22 || code == 0x5C) << i; \\
        } \\
        return unusual;
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_1(char *to, const void *at) { JSONRPC_FAST_NARROW(uint8_t) }
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_2(char *to, const void *at) { JSONRPC_FAST_NARROW(uint16_t) }
    static CYTHON_INLINE unsigned int jsonrpc_fast_narrow_4(char *to, const void *at) { JSONRPC_FAST_NARROW(uint32_t) }
    static CYTHON_INLINE unsigned int jsonrpc_fast_copy_block(char *to, const unsigned char *at) {
        unsigned int special = 0;
        int i;
        if (jsonrpc_fast_copy_some(to, at, 16) != 0)
            for (i = 0; i < 16; i++)
                special |= jsonrpc_fast_is_special(at[i]) << i;
        return special;
    }
    static CYTHON_INLINE unsigned int jsonrpc_fast_copy_blocks(char *to, const unsigned char *at) {
        return jsonrpc_fast_copy_some(to, at, 64);
    }
    #endif

    /* Copy 64 bytes at a time as long as JSON escapes none of them; return how many. */
    #if JSONRPC_FAST_SSE2 && defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    #define jsonrpc_fast_has_wide_blocks __builtin_cpu_supports("avx2")
    #define JSONRPC_FAST_SPECIAL_32(bytes) \\
        _mm256_or_si256( \\
            _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(0x5C)), \\
            _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xA1), _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x82))))
    __attribute__((target("avx2"), noinline)) static Py_ssize_t jsonrpc_fast_copy_wide_blocks(
        char *to, const unsigned char *at, Py_ssize_t size) {
        /* The second step begins at the next line of the cache in `to`: a store across two lines costs as much as two. */
        Py_ssize_t done, step = 64 - (Py_ssize_t)((size_t)to & 63);
        for (done = 0; size - done >= 64; done += step, step = 64) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(at + done));
            __m256i b = _mm256_loadu_si256((const __m256i *)(at + done + 32));
            _mm256_storeu_si256((__m256i *)(to + done), a);
            _mm256_storeu_si256((__m256i *)(to + done + 32), b);
            if (_mm256_movemask_epi8(_mm256_or_si256(JSONRPC_FAST_SPECIAL_32(a), JSONRPC_FAST_SPECIAL_32(b))))
                break;
        }
        return done;
    }
    #else
    #define jsonrpc_fast_has_wide_blocks 0
    #define jsonrpc_fast_copy_wide_blocks(to, at, size) 0
    #endif

    /* Copy `size` bytes up to the first that JSON escapes; return whether there is one. Moves `to` and `at` past the bytes
       that are copied; up to 15 more bytes are written after them. With `has_before`, the eight bytes before `at` may be
       read. */
    #if defined(__GNUC__)
    JSONRPC_FAST_INLINE int jsonrpc_fast_copy_plain(
        char **, const unsigned char **, Py_ssize_t, int);
    #endif
    static CYTHON_INLINE int jsonrpc_fast_copy_plain(
        char **to, const unsigned char **at, Py_ssize_t size, int has_before) {
        const unsigned char *text = *at, *end = text + size;
        char *target = *to;
        unsigned int special = 0;
        if (size < 16) {
            unsigned long long first = 0, last = 0;
            if (size >= 8) {
                memcpy(&first, text, 8);
                memcpy(&last, end - 8, 8);
                memcpy(target, &first, 8);
                memcpy(target + size - 8, &last, 8);
            } else if (JSONRPC_FAST_LITTLE_ENDIAN && has_before) {
                /* The last eight bytes, without those before the text, filled up with spaces. */
                memcpy(&first, end - 8, 8);
                first = first >> 8 * (7 - size) >> 8 | 0x2020202020202020ULL << 8 * size;
                last = first;
                memcpy(target, &first, 8);
            } else if (size >= 4) {
                unsigned int low, high;
                memcpy(&low, text, 4);
                memcpy(&high, end - 4, 4);
                first = last = low | (unsigned long long)high << 32;
                memcpy(target, &low, 4);
                memcpy(target + size - 4, &high, 4);
            }
            if (jsonrpc_fast_special_words(first, last) == 0) {
                *to = target + size;
                return 0;
            }
            while (text < end && *text >= 0x20 && *text != 0x22 && *text != 0x5C)
                *target++ = (char)*text++;
            *to = target;
            *at = text;
            return text < end;
        }
        while (end - text >= 64 && jsonrpc_fast_copy_blocks(target, text) == 0) {
            target += 64;
            text += 64;
        }
        while (end - text >= 16 && (special = jsonrpc_fast_copy_block(target, text)) == 0) {
            target += 16;
            text += 16;
        }
        if (special == 0 && text < end) {
            /* The last block begins before `text`. */
            target += end - text - 16;
            text = end - 16;
            special = jsonrpc_fast_copy_block(target, text);
            if (special == 0) {
                target += 16;
                text += 16;
            }
        }
        if (special != 0) {
            target += jsonrpc_fast_lowest(special);
            text += jsonrpc_fast_lowest(special);
        }
        *to = target;
        *at = text;
        return special != 0;
    }

    /* The cached UTF-8 of a str, which an earlier call of the C API made, or NULL. */
    #if JSONRPC_FAST_KEPT_UTF8
    #define jsonrpc_fast_kept_utf8(text) \\
        (jsonrpc_fast_uses(KEPT_UTF8) ? ((PyCompactUnicodeObject *)(text))->utf8 : NULL)
    #define jsonrpc_fast_kept_size(text) (((PyCompactUnicodeObject *)(text))->utf8_length)
    #else
    #define jsonrpc_fast_kept_utf8(text) NULL
    #define jsonrpc_fast_kept_size(text) 0
    #endif

    /* Strings without characters of their own exist only before Python 3.12. */
    #if PY_VERSION_HEX >= 0x030C0000
    #define jsonrpc_fast_is_ready(text) 1
    #else
    #define jsonrpc_fast_is_ready PyUnicode_IS_READY
    #endif
    """
    unsigned int copy_block "jsonrpc_fast_copy_block"(char* to, const uint8_t* at) noexcept
    unsigned int narrow_1 "jsonrpc_fast_narrow_1"(char* to, const void* at) noexcept
    unsigned int narrow_2 "jsonrpc_fast_narrow_2"(char* to, const void* at) noexcept
    unsigned int narrow_4 "jsonrpc_fast_narrow_4"(char* to, const void* at) noexcept
    bint copy_plain "jsonrpc_fast_copy_plain"(
        char** to, const uint8_t** at, Py_ssize_t size, bint has_before) noexcept
    bint has_wide_blocks "jsonrpc_fast_has_wide_blocks"
    Py_ssize_t copy_wide_blocks "jsonrpc_fast_copy_wide_blocks"(
        char* to, const uint8_t* at, Py_ssize_t size) noexcept
    bint is_ready "jsonrpc_fast_is_ready"(PyObject* text) noexcept
    const char* kept_utf8 "jsonrpc_fast_kept_utf8"(PyObject* text) noexcept
    Py_ssize_t kept_size "jsonrpc_fast_kept_size"(PyObject* text) noexcept

cdef extern from "Python.h":
    bint is_compact_ascii "PyUnicode_IS_COMPACT_ASCII"(PyObject* text)
    bint is_ascii "PyUnicode_IS_ASCII"(PyObject* text)
    int kind_of "PyUnicode_KIND"(PyObject* text)
    Py_ssize_t string_size "PyUnicode_GET_LENGTH"(PyObject* text)

cdef enum:
    STRING_MARGIN = 52
    LONG_BYTES = 4096
    BLOCK = 16

cdef char[128][8] ESCAPES  # of each ASCII character that JSON escapes; the last byte is the size


cdef void fill_escapes() noexcept:
    cdef const char* hexadecimal = b"0123456789abcdef"
    cdef const char* letters = b"btn\x00fr"
    cdef int i
    for i in range(128):
        memcpy(ESCAPES[i], b"\\u00", 4)
        ESCAPES[i][4] = hexadecimal[i >> 4]
        ESCAPES[i][5] = hexadecimal[i & 15]
        ESCAPES[i][7] = 6
        if i == c'"' or i == c"\\":
            ESCAPES[i][1] = <char>i
            ESCAPES[i][7] = 2
        elif 8 <= i <= 13 and i != 11:
            ESCAPES[i][1] = letters[i - 8]
            ESCAPES[i][7] = 2


fill_escapes()


cdef inline bint is_special(uint32_t code) noexcept:
    return code < 0x20 or code == c'"' or code == c"\\"


cdef inline char* write_escape(char* at, uint8_t byte) noexcept:
    memcpy(at, ESCAPES[byte], 8)
    return at + ESCAPES[byte][7]


cdef char* write_specials(Output* output, char* at, const uint8_t* text, const uint8_t* end) noexcept:
    """Write the rest of a string, which begins with a character to escape, without the closing quote."""
    cdef const uint8_t* run  # past the last escape
    cdef unsigned int special
    while True:
        at = write_escape(at, text[0])
        text += 1
        while text < end and is_special(text[0]) and at <= output.full:
            at = write_escape(at, text[0])
            text += 1
        run = text
        if unlikely(output.full - at < end - text):
            at = grow(output, at, end - text)
            if at == NULL:
                return NULL
        special = 0
        while end - text >= BLOCK:
            special = copy_block(at, text)
            if special:
                break
            at += BLOCK
            text += BLOCK
        if not special and end - run >= BLOCK:
            # The last block begins before `text`.
            at += end - text - BLOCK
            text = end - BLOCK
            special = copy_block(at, text)
            if not special:
                return at + BLOCK
        if special:
            at += lowest_bit(special)
            text += lowest_bit(special)
            continue
        while text < end and not is_special(text[0]):
            at[0] = text[0]
            at += 1
            text += 1
        if text == end:
            return at


cdef char* write_long(Output* output, char* at, const uint8_t* text, Py_ssize_t size) noexcept:
    """As `write_bytes`, for a string that may not fit, or that is copied in wide blocks."""
    cdef const uint8_t* end = text + size
    cdef Py_ssize_t done
    if output.full - at < size:
        at = grow(output, at, size)
        if at == NULL:
            return NULL
    at[0] = c'"'
    at += 1
    if size >= LONG_BYTES and has_wide_blocks:
        done = copy_wide_blocks(at, text, size)
        at += done
        text += done
    if copy_plain(&at, &text, end - text, False):
        at = write_specials(output, at, text, end)
        if at == NULL:
            return NULL
    at[0] = c'"'
    return at + 1


cdef inline char* write_bytes "jsonrpc_fast_write_bytes"(
    Output* output, char* at, const uint8_t* text, Py_ssize_t size, bint has_before
) noexcept:
    """Write a string from its UTF-8; NULL with an exception if memory runs out."""
    cdef const uint8_t* end = text + size
    if unlikely(output.full - at < size or size >= LONG_BYTES):
        return write_long(output, at, text, size)
    at[0] = c'"'
    at += 1
    if unlikely(copy_plain(&at, &text, size, has_before)):
        at = write_specials(output, at, text, end)
        if at == NULL:
            return NULL
    at[0] = c'"'
    return at + 1


ctypedef fused Character:
    uint8_t
    uint16_t
    uint32_t


cdef inline bint is_unusual(uint32_t code) noexcept:
    return is_special(code) or code > 0x7F


cdef inline char* write_unusual_character(char* at, uint32_t code) noexcept:
    """Write an escape or a character beyond ASCII; NULL for a surrogate."""
    if code < 0x80:
        return write_escape(at, <uint8_t>code)
    if code < 0x800:
        at[0] = <char>(0xC0 | code >> 6)
        at[1] = <char>(0x80 | code & 0x3F)
        return at + 2
    if code < 0x10000:
        if unlikely(code & 0xF800 == 0xD800):
            return NULL
        at[0] = <char>(0xE0 | code >> 12)
        at[1] = <char>(0x80 | code >> 6 & 0x3F)
        at[2] = <char>(0x80 | code & 0x3F)
        return at + 3
    at[0] = <char>(0xF0 | code >> 18)
    at[1] = <char>(0x80 | code >> 12 & 0x3F)
    at[2] = <char>(0x80 | code >> 6 & 0x3F)
    at[3] = <char>(0x80 | code & 0x3F)
    return at + 4


cdef inline char* write_characters(Output* output, char* at, const Character* text, Py_ssize_t size) noexcept:
    """Write a string from its characters; NULL without an exception for a surrogate."""
    cdef const Character* end = text + size
    cdef unsigned int unusual
    at[0] = c'"'
    at += 1
    while text < end:
        if unlikely(at > output.full):
            at = grow(output, at, end - text)
            if at == NULL:
                return NULL
        if end - text >= 8:
            if Character is uint8_t:
                unusual = narrow_1(at, text)
            elif Character is uint16_t:
                unusual = narrow_2(at, text)
            else:
                unusual = narrow_4(at, text)
            if not unusual:
                at += 8
                text += 8
                continue
            at += lowest_bit(unusual)
            text += lowest_bit(unusual)
        elif not is_unusual(text[0]):
            at[0] = <char>text[0]
            at += 1
            text += 1
            continue
        while True:
            at = write_unusual_character(at, text[0])
            if unlikely(at == NULL):
                return NULL
            text += 1
            if text == end or not is_unusual(text[0]) or at > output.full:
                break
    at[0] = c'"'
    return at + 1


cdef char* write_other_string(Output* output, char* at, PyObject* text) noexcept:
    cdef void* data
    cdef Py_ssize_t size
    if not is_ready(text):
        return NULL
    if kept_utf8(text) != NULL:
        return write_bytes(output, at, <const uint8_t*>kept_utf8(text), kept_size(text), False)
    size = string_size(text)
    data = string_data(text)
    if is_ascii(text):
        return write_bytes(output, at, <const uint8_t*>data, size, False)
    if kind_of(text) == 1:
        return write_characters(output, at, <const uint8_t*>data, size)
    if kind_of(text) == 2:
        return write_characters(output, at, <const uint16_t*>data, size)
    return write_characters(output, at, <const uint32_t*>data, size)


cdef inline char* write_string "jsonrpc_fast_write_string"(Output* output, char* at, PyObject* text) noexcept:
    if is_compact_ascii(text):
        # The header of the object precedes its characters, so the bytes before them may be read.
        return write_bytes(output, at, <const uint8_t*>string_data(text), string_size(text), True)
    return write_other_string(output, at, text)
