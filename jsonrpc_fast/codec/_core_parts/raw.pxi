"""`Raw`: checked JSON texts."""

cdef enum:
    # A `Raw` keeps the whole text alive if that is no longer than this, or than PINNED_FOLD times the part used.
    PINNED_BYTES = 16384
    PINNED_FOLD = 4


@cython.final
@cython.freelist(1024)
cdef class Raw:
    """Raw(data)
--

    A checked JSON text, kept as bytes: a payload to pass on, or to decode later.

    Args:
        data: One JSON value in UTF-8, as bytes, bytearray, memoryview or str.

    Raises:
        TypeError: `data` has another type.
        ParseError: The text is not JSON, or nests deeper than 1024.
    """

    cdef bytes owner  # the bytes that `start` points into: the whole message, or this value; None before `__init__`
    cdef const uint8_t* start  # hold `owner` too when using it across a call: another thread may replace both
    cdef Py_ssize_t size
    cdef bint exact  # big_ints="exact"

    def __cinit__(self):
        self.start = <const uint8_t*>NULL_TEXT
        self.size = 4

    def __init__(self, data):
        cdef Cursor cursor
        cdef Value value
        cdef bytes text
        cdef const uint8_t* start
        if self.owner is not None:
            refuse_again(self)
        found = bytes_or_fault(data)
        if type(found) is ParseError:
            raise found
        text = <bytes?>found
        start = <const uint8_t*>PyBytes_AS_STRING(text)
        open_cursor(&cursor, start, PyBytes_GET_SIZE(text), False)
        skip_space(&cursor)
        if not skip_value(&cursor, False, &value) or not read_end(&cursor):
            raise fault_of_text(start, &cursor, None)
        if value.depth > MAX_DEPTH:
            raise make_fault(TOO_DEEP)
        self.owner = text
        self.start = value.start
        self.size = value.end - value.start

    cdef bytes text(self):
        """The bytes of this value alone."""
        cdef bytes text
        if self.owner is None or self.size != PyBytes_GET_SIZE(self.owner):
            text = PyBytes_FromStringAndSize(<const char*>self.start, self.size)
            if FREE_THREADED:  # other threads may read both
                return text
            self.start = <const uint8_t*>PyBytes_AS_STRING(text)
            self.owner = text
        return self.owner

    def decode(self, decoder=None):
        """Decode the JSON text.

        Args:
            decoder: Called with the bytes, such as the `decode` of a typed decoder; orjson if None.

        Returns:
            What the decoder returns. What it raises passes on.
        """
        cdef bytes owner = self.owner
        if decoder is not None:
            return decoder(self.text())
        return loads_part(self.start, self.size, self.exact)

    def __bytes__(self):
        return self.text()

    def __len__(self):
        return self.size

    def __eq__(self, other):
        if type(other) is not Raw:
            return NotImplemented
        return self.size == (<Raw>other).size and memcmp(self.start, (<Raw>other).start, self.size) == 0

    def __hash__(self):
        return hash(self.text())

    def __repr__(self):
        cdef const char* start = <const char*>self.start
        if self.size <= SHOWN_BYTES:
            text = PyBytes_FromStringAndSize(start, self.size)
        else:
            text = PyBytes_FromStringAndSize(start, SHOWN_BYTES // 2)
            text += PyBytes_FromStringAndSize(start + self.size - SHOWN_BYTES // 2, SHOWN_BYTES // 2)
        return f"Raw({shorten(text)})"

    def __reduce__(self):
        return remake, (__name__, "_make_raw", self.text(), bool(self.exact))


def _make_raw(bytes data not None, bint exact):
    """Return a `Raw` from its pickled state, which is checked already."""
    return make_raw(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data, exact)


cdef inline Raw make_raw(const uint8_t* start, Py_ssize_t size, owner, bint exact):
    """A `Raw` that points into `owner`; into a copy if `owner` is not bytes, or much larger."""
    cdef Raw raw = Raw.__new__(Raw)
    if PyBytes_CheckExact(owner) and PyBytes_GET_SIZE(owner) <= max(PINNED_FOLD * size, PINNED_BYTES):
        raw.owner = <bytes>owner
    else:
        raw.owner = PyBytes_FromStringAndSize(<const char*>start, size)
        start = <const uint8_t*>PyBytes_AS_STRING(raw.owner)
    raw.start = start
    raw.size = size
    raw.exact = exact
    return raw
