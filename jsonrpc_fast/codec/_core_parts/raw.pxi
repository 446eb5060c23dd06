"""`Raw`: checked JSON texts."""

cdef enum:
    # A `Raw` keeps the whole text alive if that is no longer than this, or than PINNED_FOLD times the part used.
    PINNED_BYTES = 16384
    PINNED_FOLD = 4


@cython.binding(False)
@cython.final
@cython.freelist(1024)
cdef class Raw:
    """Raw(data)
--

    `_messages.Raw`"""

    cdef bytes owner  # the bytes that `start` points into: the whole message, or this value; None before `__init__`
    cdef const uint8_t* start  # hold `owner` too when using it across a call: another thread may replace both
    cdef Py_ssize_t size
    cdef int numbers  # how they are read, as `numbers_of` says

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
        text = <bytes?>bytes_given(data)
        start = <const uint8_t*>PyBytes_AS_STRING(text)
        open_cursor(&cursor, start, PyBytes_GET_SIZE(text))
        skip_space(&cursor)
        if not skip_value(&cursor, &value) or not read_end(&cursor):
            raise fault_of_text(start, &cursor, None, NULL, False)
        if value.depth > MAX_DEPTH:
            raise make_fault(TOO_DEEP)
        if value.wide:
            try:
                check_numbers(text, 0)
            except ValueError:
                value.wide = False
            if not value.wide:  # the exception would hold the one of `int`
                raise make_fault(INTEGER_TOO_LARGE)
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
        """`_messages.Raw.decode`"""
        cdef bytes owner = self.owner
        if decoder is not None:
            return decoder(self.text())
        return loads_part(self.start, self.size, self.numbers)

    def get(self, path, default=None):
        """`_messages.Raw.get`"""
        return find(self, path, default, part_of)

    def keys(self):
        """Return the names of the members of an object; an empty list for any other value."""
        parts = parts_of(self, None, EVERY_PART)
        return list(parts) if type(parts) is dict else []

    def items(self):
        """Return the names and values of the members of an object; an empty list for any other value."""
        parts = parts_of(self, None, EVERY_PART)
        return list(parts.items()) if type(parts) is dict else []

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
        return remake, (__name__, "_make_raw", self.text(), self.numbers)


cdef enum:
    EVERY_PART = -2


def part_of(Raw raw not None, name, Py_ssize_t index):
    """The member of an object with a name, or the item of an array with an index; None if it is missing."""
    return parts_of(raw, None if name is None else str.encode(name, "utf-8", "surrogatepass"), index)


cdef object parts_of(Raw raw, bytes wanted, Py_ssize_t index):
    """The member with the wanted name, or the item with the index, as `Raw`; with EVERY_PART all of them, as a dict or
    a list. None if it is missing.

    The text is checked already, so each step of the cursor succeeds; the loop would end at one that does not.
    """
    cdef bytes owner = raw.owner  # held: the collector may run, and `text` replace it
    cdef int numbers = raw.numbers
    cdef bint is_object = raw.start[0] == c"{"
    cdef bint has_every = index == EVERY_PART
    cdef bint plain = True
    cdef bint is_wanted
    cdef Py_ssize_t size
    cdef Py_ssize_t count = 0
    cdef const uint8_t* name = NULL
    cdef Cursor cursor
    cdef Value value
    if not is_object and raw.start[0] != c"[":
        return None
    open_cursor(&cursor, raw.start, raw.size)
    found = None
    if has_every:
        found = {} if is_object else []
    cursor.at += 1
    skip_space(&cursor)
    while cursor.at < cursor.end and cursor.at[0] != c"}" and cursor.at[0] != c"]":
        if is_object:
            name = cursor.at
            if not skip_string(&cursor, &plain):
                break
            size = cursor.at - name
            skip_space(&cursor)
            if not expect(&cursor, c":"):
                break
            skip_space(&cursor)
        if not skip_value(&cursor, &value):
            break
        if is_object:
            if has_every:
                key = made(ascii_at(name + 1, size - 2)) if plain else loads_part(name, size, 0)
                (<dict>found)[key] = make_raw(value.start, value.end - value.start, owner, numbers)
            elif wanted is not None:
                if plain:
                    is_wanted = size - 2 == PyBytes_GET_SIZE(wanted) and memcmp(name + 1, PyBytes_AS_STRING(wanted), size - 2) == 0
                else:
                    is_wanted = str.encode(loads_part(name, size, 0)) == wanted
                if is_wanted:  # the last one counts
                    found = make_raw(value.start, value.end - value.start, owner, numbers)
        elif has_every:
            (<list>found).append(make_raw(value.start, value.end - value.start, owner, numbers))
        elif count == index:
            return make_raw(value.start, value.end - value.start, owner, numbers)
        count += 1
        skip_space(&cursor)
        if not expect(&cursor, c","):
            break
        skip_space(&cursor)
    return found


def _make_raw(bytes data not None, int numbers):
    """Return a `Raw` from its pickled state, which is checked already."""
    load_decimals(numbers)
    return make_raw(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data, numbers)


cdef inline Raw make_raw(const uint8_t* start, Py_ssize_t size, owner, int numbers):
    """A `Raw` that points into `owner`; into a copy if `owner` is not bytes, or much larger."""
    cdef Raw raw = Raw.__new__(Raw)
    if PyBytes_CheckExact(owner) and PyBytes_GET_SIZE(owner) <= max(PINNED_FOLD * size, PINNED_BYTES):
        raw.owner = <bytes>owner
    else:
        raw.owner = PyBytes_FromStringAndSize(<const char*>start, size)
        start = <const uint8_t*>PyBytes_AS_STRING(raw.owner)
    raw.start = start
    raw.size = size
    raw.numbers = numbers
    return raw
