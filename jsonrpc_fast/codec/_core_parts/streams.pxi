"""What the readers of streams share: they split and decode in one loop. The modules of `framing` have the rules."""

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* A call costs a tenth of what a short line does. */
    struct __pyx_obj_12jsonrpc_fast_5codec_5_core_Reader;
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_frame_fast(
        struct __pyx_obj_12jsonrpc_fast_5codec_5_core_Reader *, struct jsonrpc_fast_value_reader *, const uint8_t *,
        const uint8_t *);
    #endif
    """

cdef enum State:
    AT_REST
    WORKING
    BROKEN  # by an exception; nothing more is read
    ENDED  # by `close`, likewise


cdef bint has_fault(list batch) noexcept:
    cdef Py_ssize_t i
    for i in range(PyList_GET_SIZE(batch)):
        if type(batch[i]) is ParseError:
            return True
    return False


@cython.binding(False)
cdef class Reader:
    """Base of the stream readers: the rules, and a buffer for a frame that continues in the next chunk.

    The buffer grows with the data and is never searched again.
    """

    cdef Rules rules
    cdef bint raw
    cdef bint gives_hints  # what a faulty frame may be
    cdef bint at_start  # before the first byte of the stream
    cdef bint dropping  # inside a message over the limit
    cdef State state
    cdef Lock lock  # from `begin` to `end`
    cdef readonly bint ended
    cdef uint8_t* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef const uint8_t* next  # the next byte to read, in the text that `split` reads; valid only during that call
    cdef const uint8_t* text  # likewise: where that text begins
    cdef const uint8_t* begun  # likewise: past the last frame that ended in it, or NULL
    cdef Py_ssize_t offset  # of that text in the stream
    cdef Py_ssize_t begun_at  # the offset past the last frame that ended in earlier texts
    cdef list places  # as `_pure.places` returns it, or None
    # Left over by `max_items`, or None.
    cdef list items  # decoded, not yet returned
    cdef bytes left  # fed, not yet read, from `left_at` on
    cdef Py_ssize_t left_at
    cdef bytearray later  # fed after `left`

    def __cinit__(self, profile, raw):
        self.buffer = NULL
        self.rules = rules_of(profile)
        self.raw = raw
        self.at_start = True

    def __dealloc__(self):
        free(self.buffer)

    @property
    def has_more(self):
        return self.items is not None or self.left is not None

    def feed(self, data):
        """Return the left-over items and those whose frames end in `data`."""
        return self.feed_bytes(<bytes>data if PyBytes_CheckExact(data) else <bytes>copied_bytes(data))

    cdef list feed_bytes(self, bytes data):
        """As `feed`. The caller holds the data."""
        cdef list items = []
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
        self.begin()
        if self.items is not None or self.left is not None:
            return self.read_some(data, PY_SSIZE_T_MAX - 1)
        try:
            self.split_text(start, start + PyBytes_GET_SIZE(data), items, PY_SSIZE_T_MAX)
        except BaseException:
            self.fail()
            raise
        self.end(AT_REST)
        return items

    def feed_some(self, data, max_items):
        """As `feed`, but return at most `max_items` items, and keep the rest."""
        cdef Py_ssize_t maximum = min(max_items, PY_SSIZE_T_MAX - 1)
        self.begin()
        return self.read_some(data, maximum)

    cdef list read_some(self, data, Py_ssize_t maximum):
        cdef Py_ssize_t taken = 0  # the number of items to return
        cdef Py_ssize_t weight = 0  # the number of their messages
        cdef list items
        try:
            self.push(data)
            items = [] if self.items is None else self.items
            self.items = None
            while True:
                while taken < PyList_GET_SIZE(items) and weight < maximum:
                    item = items[taken]
                    weight += max(1, PyList_GET_SIZE(item)) if type(item) is list else 1
                    taken += 1
                # One item over the maximum shows that there are more.
                if taken < PyList_GET_SIZE(items) or not self.has_left():
                    break
                self.split_left(items, taken + max(0, maximum - weight) + 1)
            if PyList_GET_SIZE(items) > taken:
                self.items = items[taken:]
                del items[taken:]
        except BaseException:
            self.fail()
            raise
        self.end(AT_REST)
        return items

    cdef inline int begin(self) except -1:
        """Begin a call. A finalizer that runs meanwhile may call again, or let another thread do so."""
        if not acquire(&self.lock) or self.state == WORKING:
            raise ValueError(IN_USE)
        if self.state != AT_REST:
            release(&self.lock)
            raise ValueError(FAILED if self.state == BROKEN else CLOSED)
        self.state = WORKING
        return 0

    cdef inline void end(self, State state) noexcept:
        self.state = state
        release(&self.lock)

    cdef void fail(self) noexcept:
        """Drop what is left over: an exception may have torn a frame."""
        self.items = None
        self.left = None
        self.later = None
        self.end(BROKEN)

    cdef State state_at_rest(self) noexcept:
        """The state after the calls of other threads; WORKING if the call is one of this thread, or with the GIL."""
        cdef State state = WORKING
        if acquire(&self.lock):
            state = self.state
            release(&self.lock)
        return state

    def close(self):
        """Return what `close` of the framing does, without the offset. Nothing more is read."""
        self.begin()
        try:
            return self.rest()
        finally:
            self.end(ENDED)

    cdef int push(self, data) except -1:
        """Append `data` to the unread bytes."""
        if self.left is None:
            self.left = data if PyBytes_CheckExact(data) else copied_bytes(data)
            self.left_at = 0
        elif self.later is None:
            self.later = bytearray(memoryview(data))
        else:
            self.later += memoryview(data)
        return 0

    cdef bint has_left(self) except -1:
        """Whether there are unread bytes; moves `later` to `left` if that is read."""
        if self.left is not None and self.left_at == PyBytes_GET_SIZE(self.left):
            self.left = None if self.later is None else bytes(self.later)
            self.later = None
            self.left_at = 0
        return self.left is not None

    cdef int split_left(self, list items, Py_ssize_t max_items) except -1:
        cdef bytes left = self.left
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(left)
        self.split_text(start + self.left_at, start + PyBytes_GET_SIZE(left), items, max_items)
        self.left_at = self.next - start
        return 0

    cdef inline int split_text(
        self, const uint8_t* start, const uint8_t* end, list items, Py_ssize_t max_items
    ) except -1:
        """Read from `start`, as `split` does, and count what is unfinished."""
        self.next = start
        self.text = start
        self.begun = NULL
        self.split(end, items, max_items)
        self.begun_at = self.begin_of_frame()
        self.offset += self.next - start
        if self.places is not None:
            self.places.append((self.begun_at, self.begun_at, 0, None))
        return 0

    cdef inline Py_ssize_t begin_of_frame(self) noexcept:
        return self.begun_at if self.begun == NULL else self.offset + (self.begun - self.text)

    cdef int read_frame(
        self, ValueReader* reader, const uint8_t* start, const uint8_t* end, list items, const uint8_t* behind
    ) except -1:
        """Decode a frame. reader: opened for frames of this stream. behind: `end` of `add`."""
        cdef PyObject* message = frame_fast(self, reader, start, end)
        if message != NULL:
            return append_owned(items, message)
        return self.read_slowly(start, end, items, behind)

    cdef int read_slowly(self, const uint8_t* start, const uint8_t* end, list items, const uint8_t* behind) except -1:
        item = decode_slow(start, end - start, self.rules, True if self.raw else None, True)
        if self.gives_hints and type(item) is ParseError:
            give_hint(item, start, end)
        return self.add(items, item, behind)

    cdef inline int add(self, list items, item, const uint8_t* end) except -1:
        """Append an item. end: of what was read to find its frame."""
        items.append(item)
        return 0 if self.places is None else self.note(item, end, 1)

    cdef int note(self, item, const uint8_t* end, Py_ssize_t back) except -1:
        if type(item) is ParseError or (type(item) is list and has_fault(<list>item)):
            self.places.append((self.begin_of_frame(), self.offset + (end - self.text), back, item))
        return 0

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        """Read from `next` to `end`, or until there are `max_items` items; with a maximum, stop after a batch too."""
        raise NotImplementedError

    cdef int append(self, const uint8_t* start, Py_ssize_t size, Py_ssize_t max_bytes) except -1:
        """Append bytes to the buffer, which needs at most `max_bytes` in the end."""
        cdef Py_ssize_t length
        cdef uint8_t* larger
        if self.size + size > self.capacity:
            length = min(max(2 * self.capacity, self.size + size, 256), max_bytes)
            larger = <uint8_t*>realloc(self.buffer, length)
            if larger == NULL:
                raise MemoryError
            self.buffer = larger
            self.capacity = length
        memcpy(self.buffer + self.size, start, size)
        self.size += size
        return 0

    cdef void clear(self) noexcept:
        self.size = 0
        if self.capacity > KEPT_BYTES:
            free(self.buffer)
            self.buffer = NULL
            self.capacity = 0


cdef inline PyObject* frame_fast "jsonrpc_fast_frame_fast"(
    Reader stream, ValueReader* reader, const uint8_t* start, const uint8_t* end
) except? NULL:
    """The message in a frame; NULL for the slow path. reader: opened for frames of this stream."""
    if end - start > stream.rules.message_bytes:
        return NULL
    reader.text = start
    reader.end = end
    return read_text_fast(reader, start, stream.rules, kind_of_raw(stream.raw))
