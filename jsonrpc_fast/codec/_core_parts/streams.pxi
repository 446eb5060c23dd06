"""Streams, split and decoded in one loop. The modules of `framing` have the rules."""

# The two forms of headers that nearly all peers write. `HeaderReader` reads all others.
cdef const char* LENGTH_ALONE = b"Content-Length: "
cdef const char* HEADERS_END = b"\r\n\r\n"
cdef const char* CONTENT_TYPE = b"\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n"

cdef enum:
    LENGTH_ALONE_SIZE = 16
    HEADERS_END_SIZE = 4
    CONTENT_TYPE_SIZE = 61
    LENGTH_DIGITS = 9  # so that the length is below MAX_SKIPPED_BYTES


cdef class Reader:
    """Base of the stream readers: the rules, and a buffer for a frame that continues in the next chunk.

    The buffer grows with the data and is never searched again.
    """

    cdef Rules rules
    cdef bint raw
    cdef bint at_start  # nothing of the stream is read yet
    cdef bint dropping  # inside a message over the limit
    cdef bint busy
    cdef readonly bint ended
    cdef uint8_t* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef const uint8_t* next  # the next byte to read, in the text that `split` reads; valid only during that call
    # Left over by `max_items` or by an exception; None if there is nothing.
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
        cdef Py_buffer view
        cdef list items
        if self.items is not None or self.left is not None:
            return self.feed_some(data, None)
        # A finalizer that runs meanwhile may call this again, or let another thread do so.
        if self.busy:
            raise ValueError("the decoder is at work")
        items = []
        if isinstance(data, memoryview) and not data.c_contiguous:
            data = bytes(data)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        self.busy = True
        self.next = <const uint8_t*>view.buf
        try:
            self.split(<const uint8_t*>view.buf + view.len, items, PY_SSIZE_T_MAX)
        except BaseException:
            self.keep(items)
            if self.next < <const uint8_t*>view.buf + view.len:
                self.left_at = 0
                self.left = PyBytes_FromStringAndSize(
                    <const char*>self.next, <const uint8_t*>view.buf + view.len - self.next
                )
            raise
        finally:
            self.busy = False
            PyBuffer_Release(&view)
        return items

    def feed_some(self, data, max_items):
        """As `feed`, but return at most `max_items` items unless None, and keep the rest."""
        cdef Py_ssize_t maximum = PY_SSIZE_T_MAX - 1
        cdef Py_ssize_t taken = 0  # the number of items to return
        cdef Py_ssize_t weight = 0  # the number of their messages
        cdef list items
        if self.busy:
            raise ValueError("the decoder is at work")
        if max_items is not None:
            maximum = min(max_items, maximum)
        self.push(data)
        items = [] if self.items is None else self.items
        self.items = None
        self.busy = True
        try:
            while True:
                while taken < PyList_GET_SIZE(items) and weight < maximum:
                    item = items[taken]
                    weight += max(1, PyList_GET_SIZE(item)) if type(item) is list else 1
                    taken += 1
                # One item over the maximum shows that there are more.
                if taken < PyList_GET_SIZE(items) or not self.has_left():
                    break
                self.split_left(items, taken + max(0, maximum - weight) + 1)
        except BaseException:
            self.keep(items)
            raise
        finally:
            self.busy = False
        if PyList_GET_SIZE(items) > taken:
            self.items = items[taken:]
            del items[taken:]
        return items

    cdef int keep(self, list items) except -1:
        if items:
            self.items = items
        return 0

    cdef int push(self, data) except -1:
        """Append `data` to the unread bytes."""
        if self.left is None:
            self.left = data if PyBytes_CheckExact(data) else bytes(memoryview(data))
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
        self.next = start + self.left_at
        try:
            self.split(start + PyBytes_GET_SIZE(left), items, max_items)
        finally:
            self.left_at = self.next - start
        return 0

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        """Read from `next` to `end`, or until there are `max_items` items; with a maximum, stop after a batch too.

        `next` passes a frame before the frame is decoded, so that an exception loses that frame only.
        """
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


@cython.final
cdef class LineReader(Reader):
    """Split a stream into lines and decode them in place. Only a line that continues in the next chunk is copied."""

    def rest(self):
        """Return the same as `LineFrames.close`, without line and offset."""
        cdef const uint8_t* start = self.buffer
        cdef const uint8_t* end = start + self.size
        if self.dropping or not self.trim(&start, &end):
            return []
        return [Frame(PyBytes_FromStringAndSize(<char*>start, end - start), 0, 0)]

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* at = self.next
        cdef const uint8_t* newline
        while PyList_GET_SIZE(items) < max_items:
            newline = <const uint8_t*>memchr(at, 0x0A, end - at)
            if newline == NULL:
                self.next = end
                if at < end and not self.dropping:
                    self.append_part(at, end - at, items)
                break
            self.next = newline + 1
            if self.dropping:
                self.dropping = False
                self.clear()
            elif self.size == 0:
                self.decode_line(at, newline, items)
            else:
                self.end_line(at, newline, items)
            self.at_start = False
            at = newline + 1
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef int end_line(self, const uint8_t* at, const uint8_t* newline, list items) except -1:
        """Decode the line that began in the buffer."""
        try:
            self.append_part(at, newline - at, items)
            if not self.dropping:
                self.decode_line(self.buffer, self.buffer + self.size, items)
        finally:
            self.dropping = False
            self.at_start = False
            self.clear()
        return 0

    cdef int decode_line(self, const uint8_t* start, const uint8_t* end, list items) except -1:
        """Decode a complete line."""
        raw = True if self.raw else None
        if not self.trim(&start, &end):
            return 0
        if end - start > self.rules.message_bytes:
            items.append(fault_of_large(start, end - start, self.rules))
            return 0
        item = decode_fast(start, end - start, self.rules, raw)
        if item is None:
            item = decode_slow(start, end - start, self.rules, raw, True)
            if type(item) is ParseError:
                give_hint(item, start, end)
        items.append(item)
        return 0

    cdef bint trim(self, const uint8_t** start, const uint8_t** end) noexcept:
        """Remove a byte order mark and the carriage return. Return whether the line is a frame, that is not blank."""
        cdef const uint8_t* at
        if self.at_start:
            start[0] += mark_size(start[0], end[0] - start[0])
        if end[0] > start[0] and (end[0] - 1)[0] == 0x0D:
            end[0] -= 1
        if end[0] - start[0] > self.rules.message_bytes:
            return True
        at = start[0]
        while at < end[0] and (at[0] == 0x20 or at[0] == 0x09 or at[0] == 0x0D):
            at += 1
        return at < end[0]

    cdef int append_part(self, const uint8_t* start, Py_ssize_t size, list items) except -1:
        """Buffer a part of a line; drop the line if it is over the limit, or memory runs out."""
        cdef Py_ssize_t limit = self.rules.message_bytes
        cdef Py_ssize_t length
        self.dropping = True
        # One byte over the limit may be a carriage return, and three bytes a byte order mark.
        if self.size + size <= limit + 4:
            self.append(start, size, limit + 4)
            length = self.size
            if self.at_start:
                if length < 3 and memcmp(self.buffer, PyBytes_AS_STRING(BYTE_ORDER_MARK), length) == 0:
                    self.dropping = False
                    return 0
                length -= mark_size(self.buffer, length)
            if length <= limit or (length == limit + 1 and self.buffer[self.size - 1] == 0x0D):
                self.dropping = False
                return 0
        else:
            # A byte order mark is not part of the head.
            size = min(size, HEAD_BYTES + 3)
            self.append(start, size, self.size + size)
        length = mark_size(self.buffer, self.size) if self.at_start else 0
        try:
            items.append(fault_of_large(self.buffer + length, self.size - length, self.rules))
        finally:
            self.clear()
        return 0


@cython.final
cdef class BodyReader(Reader):
    """Split a stream into headers and bodies, and decode the bodies in place. Only a body that continues in the next
    chunk is copied.
    """

    cdef bint in_body
    cdef Py_ssize_t due  # missing bytes of the body
    cdef Py_ssize_t head_due  # missing bytes of the head that is kept of a body over the limit
    cdef object header  # the HeaderReader of the current headers, or None

    def rest(self):
        """Return the same as `ContentLengthFrames.close`, without the offset."""
        if self.ended:
            return []
        if self.dropping:
            if self.head_due == 0:
                return []
            return [Frame(PyBytes_FromStringAndSize(<char*>self.buffer, self.size), None, 0, MESSAGE_TOO_LARGE.code)]
        if self.in_body:
            return [Frame(PyBytes_FromStringAndSize(<char*>self.buffer, self.size), None, 0, TRUNCATED)]
        fault = None if self.header is None else self.header.close()
        if fault is None:
            return []
        return [Frame(b"" if fault is TRUNCATED else None, None, 0, fault, self.header.hint)]

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* at
        cdef Py_ssize_t size
        while self.next < end and not self.ended and PyList_GET_SIZE(items) < max_items:
            at = self.next
            if not self.in_body:
                self.next = self.read_headers(at, end, items)
                continue
            size = min(self.due, end - at)
            self.next = at + size
            self.due -= size
            if self.due == 0:
                self.in_body = False
            if self.dropping:
                self.dropping = self.in_body
                self.read_head(at, size, items)
            elif self.size == 0 and not self.in_body:
                items.append(decode_text(at, size, self.rules, True if self.raw else None))
            else:
                try:
                    self.append(at, size, self.size + size + self.due)
                except MemoryError:
                    self.dropping = self.in_body
                    self.clear()
                    raise
                if not self.in_body:
                    try:
                        items.append(decode_text(self.buffer, self.size, self.rules, True if self.raw else None))
                    finally:
                        self.clear()
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        if self.ended:
            self.next = end
        return 0

    cdef const uint8_t* read_headers(self, const uint8_t* at, const uint8_t* end, list items) except NULL:
        """Read headers up to the body or to `end`. Return where they end."""
        cdef const uint8_t* body
        cdef Py_ssize_t length
        if self.header is None:
            body = fast_headers(at, end, &length)
            if body != NULL:
                self.at_start = False
                self.begin_body(length, items)
                return body
            self.header = HeaderReader(self.rules.message_bytes, self.at_start)
            self.at_start = False
        # At most one header section.
        saved = self.header.save()
        try:
            at += <Py_ssize_t>self.header.read(PyBytes_FromStringAndSize(<char*>at, min(end - at, MAX_HEADER_BYTES)), 0)
        except BaseException:
            self.header.restore(saved)
            raise
        if self.header.is_bad:
            items.append(ParseError.invalid_framing(hint=self.header.hint))
            self.ended = True
        elif self.header.length is not None:
            length = self.header.length
            self.header = None
            self.begin_body(length, items)
        return at

    cdef int begin_body(self, Py_ssize_t length, list items) except -1:
        self.due = length
        self.in_body = length > 0
        self.dropping = length > self.rules.message_bytes
        self.head_due = min(HEAD_BYTES, self.rules.message_bytes) if self.dropping else 0
        return 0

    cdef int read_head(self, const uint8_t* at, Py_ssize_t size, list items) except -1:
        """Buffer the head of a body over the limit, and report the body when the head is complete."""
        if self.head_due == 0:
            return 0
        size = min(size, self.head_due)
        self.append(at, size, HEAD_BYTES)
        self.head_due -= size
        if self.head_due == 0:
            try:
                items.append(fault_of_large(self.buffer, self.size, self.rules))
            finally:
                self.clear()
        return 0


cdef inline const uint8_t* fast_headers(const uint8_t* at, const uint8_t* end, Py_ssize_t* length) noexcept:
    """Read headers in a usual form. Return where the body begins, or NULL for any other headers."""
    cdef const uint8_t* digits
    if end - at < LENGTH_ALONE_SIZE or memcmp(at, LENGTH_ALONE, LENGTH_ALONE_SIZE) != 0:
        return NULL
    at += LENGTH_ALONE_SIZE
    digits = at
    length[0] = 0
    while at < end and is_digit(at[0]) and at - digits < LENGTH_DIGITS:
        length[0] = length[0] * 10 + (at[0] - c"0")
        at += 1
    if at == digits:
        return NULL
    if end - at >= HEADERS_END_SIZE and memcmp(at, HEADERS_END, HEADERS_END_SIZE) == 0:
        return at + HEADERS_END_SIZE
    if end - at >= CONTENT_TYPE_SIZE and memcmp(at, CONTENT_TYPE, CONTENT_TYPE_SIZE) == 0:
        return at + CONTENT_TYPE_SIZE
    return NULL


def _too_large_fault(bytes head not None, profile):
    """The fault of a text over the size limit, from its beginning."""
    return fault_of_large(<const uint8_t*>PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head), rules_of(profile))


class Decoder(StreamDecoder[_M]):
    __doc__ = StreamDecoder.__doc__
    # `_fast` is the reader, or None while bytes cannot go to it directly: the stream is closed, its framing unknown, or
    # unread bytes wait.
    __slots__ = ("_fast", "_reader")
    _fault_class = ParseError

    def __init__(self, framing="newline", profile=JSONRPC, limits=None, raw=False):
        super().__init__(framing, profile, limits, raw)
        if framing == "auto":
            self._reader = None
            self._fast = None

    @property
    def ended(self):
        """Whether a fault of the framing ended the stream, and `feed` has returned it: nothing more is read."""
        return self._reader is not None and self._reader.ended and not self._reader.has_more

    @property
    def has_more(self):
        """Whether items wait that `feed(b"")` returns, because a call had returned `max_items` or was interrupted."""
        if self._reader is None or self._unread:
            return bool(self._waiting or self._items or self._unread)
        return self._reader.has_more

    def feed(self, data, max_items=None):
        reader = self._fast
        if reader is not None and isinstance(data, (bytes, bytearray, memoryview)):
            if max_items is None:
                return reader.feed(data)
            if type(max_items) is int and max_items >= 1:
                return reader.feed_some(data, max_items)
        return super().feed(data, max_items)

    feed.__doc__ = StreamDecoder.feed.__doc__

    def close(self):
        self._fast = None
        return super().close()

    close.__doc__ = StreamDecoder.close.__doc__

    def _begin(self, framing):
        super()._begin(framing)
        self._reader = None
        if framing == "newline":
            self._reader = LineReader(self._profile, self._raw)
        elif framing == "content-length":
            self._reader = BodyReader(self._profile, self._raw)
        self._fast = self._reader if self._detector is None else None

    def _decode(self, text):
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head):
        return _too_large_fault(head, self._profile)

    def _unsettle(self):
        super()._unsettle()
        self._reader = None

    def _take(self, data, max_items):
        if self._reader is None:
            return super()._take(data, max_items)
        self._unread = b""
        if not self._closed:
            self._fast = self._reader
        return self._reader.feed(data) if max_items is None else self._reader.feed_some(data, max_items)

    def _rest(self):
        return self._frames.close() if self._reader is None else self._reader.rest()
