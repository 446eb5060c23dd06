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

cdef str AT_WORK = "the decoder is at work"


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
        if PyBytes_CheckExact(data):
            return self.feed_bytes(<bytes>data)
        if not is_viewed(data):
            return self.feed_bytes(bytes(memoryview(data)))
        if self.items is not None or self.left is not None:
            return self.feed_some(data, None)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            return self.feed_text(<const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef inline list feed_bytes(self, bytes data):
        if self.items is not None or self.left is not None:
            return self.feed_some(data, None)
        return self.feed_text(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef list feed_text(self, const uint8_t* start, Py_ssize_t size):
        """The items whose frames end in a text that the caller holds, if there is nothing left over."""
        cdef list items = []
        # A finalizer that runs meanwhile may call this again, or let another thread do so.
        if self.busy:
            raise ValueError(AT_WORK)
        self.busy = True
        self.next = start
        try:
            self.split(start + size, items, PY_SSIZE_T_MAX)
        except BaseException:
            self.busy = False
            self.keep(items)
            if self.next < start + size:
                self.left_at = 0
                self.left = PyBytes_FromStringAndSize(<const char*>self.next, start + size - self.next)
            raise
        self.busy = False
        return items

    def feed_some(self, data, max_items):
        """As `feed`, but return at most `max_items` items unless None, and keep the rest."""
        cdef Py_ssize_t maximum = PY_SSIZE_T_MAX - 1
        cdef Py_ssize_t taken = 0  # the number of items to return
        cdef Py_ssize_t weight = 0  # the number of their messages
        cdef list items
        if max_items is not None:
            maximum = min(max_items, maximum)
        if self.busy:
            raise ValueError(AT_WORK)
        self.busy = True
        try:
            self.push(data)
        except BaseException:
            self.busy = False
            raise
        items = [] if self.items is None else self.items
        self.items = None
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
        cdef ValueReader reader
        open_reader(&reader, at, end, self.rules.depth, self.rules.big_ints_as_float, self.rules.big_ints_exact)
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
                self.decode_line(at, newline, items, &reader)
            else:
                self.end_line(at, newline, items)
            self.at_start = False
            at = newline + 1
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef int end_line(self, const uint8_t* at, const uint8_t* newline, list items) except -1:
        """Decode the line that began in the buffer."""
        cdef ValueReader reader
        try:
            self.append_part(at, newline - at, items)
            if not self.dropping:
                open_reader(&reader, self.buffer, self.buffer, self.rules.depth, self.rules.big_ints_as_float, self.rules.big_ints_exact)
                self.decode_line(self.buffer, self.buffer + self.size, items, &reader)
        finally:
            self.dropping = False
            self.at_start = False
            self.clear()
        return 0

    cdef inline int decode_line(
        self, const uint8_t* start, const uint8_t* end, list items, ValueReader* reader
    ) except -1:
        """Decode a complete line. reader: opened on memory that holds the line."""
        cdef PyObject* message
        if not self.trim(&start, &end):
            return 0
        if end - start > self.rules.message_bytes:
            items.append(fault_of_large(start, end - start, self.rules))
            return 0
        reader.end = end
        message = read_text_fast(reader, start, self.rules, kind_of_raw(self.raw))
        if message != NULL:
            return append_owned(items, message)
        item = decode_slow(start, end - start, self.rules, True if self.raw else None, True)
        if type(item) is ParseError:
            give_hint(item, start, end)
        items.append(item)
        return 0

    cdef inline bint trim(self, const uint8_t** start, const uint8_t** end) noexcept:
        """Remove a byte order mark and the carriage return. Return whether the line is a frame, that is not blank."""
        cdef const uint8_t* at
        if self.at_start:
            start[0] += mark_size(start[0], end[0] - start[0])
        if end[0] > start[0] and (end[0] - 1)[0] == 0x0D:
            end[0] -= 1
        if end[0] - start[0] > self.rules.message_bytes:
            return True
        at = start[0]
        if at < end[0] and at[0] > 0x20:
            return True
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
                items.append(decode_text(at, size, self.rules, kind_of_raw(self.raw)))
            else:
                try:
                    self.append(at, size, self.size + size + self.due)
                except MemoryError:
                    self.dropping = self.in_body
                    self.clear()
                    raise
                if not self.in_body:
                    try:
                        items.append(decode_text(self.buffer, self.size, self.rules, kind_of_raw(self.raw)))
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


cdef inline const uint8_t* end_of_line(const uint8_t* at, const uint8_t* end) noexcept:
    """The first 0x0A or 0x0D from `at` on, or `end`. It searches no more than twice as far as that, and 256 bytes."""
    cdef Py_ssize_t size = 256
    cdef const uint8_t* stop
    cdef const uint8_t* feed
    cdef const uint8_t* carriage_return
    while at < end and at[0] != 0x0A and at[0] != 0x0D:
        stop = at + min(size, end - at)
        feed = <const uint8_t*>memchr(at, 0x0A, stop - at)
        if feed != NULL:
            stop = feed
        carriage_return = <const uint8_t*>memchr(at, 0x0D, stop - at)
        if carriage_return != NULL:
            return carriage_return
        at = stop
        size *= 2
    return at


cdef inline const uint8_t* past_line_ending(const uint8_t* at, const uint8_t* end) noexcept:
    """Past the line ending at `at`; `end` for a 0x0D there, which may be the first half of a line ending."""
    if at < end and at[0] == 0x0D and at + 1 < end and at[1] == 0x0A:
        return at + 2
    return at + 1 if at < end else end


@cython.final
cdef class EventReader(Reader):
    """Decode server-sent events in place. `EventFrames` reads those that are not in the chunk as a whole, or unusual."""

    cdef object frames  # the EventFrames, which hold the state of a stream that is inside an event
    cdef bint is_between_events

    @staticmethod
    cdef EventReader over(frames, profile, raw):
        cdef EventReader reader = EventReader(profile, raw)
        reader.frames = frames
        return reader

    def rest(self):
        """Return what `EventFrames.close` does."""
        return self.frames.close()

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* data
        cdef const uint8_t* behind
        cdef Py_ssize_t size
        while self.next < end and PyList_GET_SIZE(items) < max_items:
            behind = NULL
            if self.is_between_events:
                behind = self.read_event(end, &data, &size)
            if behind == NULL:
                self.read_unusual(end, items)
            else:
                self.next = behind
                if size:
                    try:
                        items.append(decode_text(data, size, self.rules, kind_of_raw(self.raw)))
                    finally:
                        self.clear()
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef const uint8_t* read_event(self, const uint8_t* end, const uint8_t** data, Py_ssize_t* size) except? NULL:
        """Read the event at `next`. Return what is behind it, or NULL for `EventFrames`.

        Sets its data: in the chunk, or in the buffer if it has several lines. The size is 0 if there is nothing to
        decode.
        """
        cdef const uint8_t* at = self.next
        cdef const uint8_t* stop
        cdef Py_ssize_t more
        cdef bint has_data = False
        cdef bint is_message = True
        size[0] = 0
        self.size = 0
        while True:
            stop = end_of_line(at, end)
            if stop == end or (stop[0] == 0x0D and stop + 1 == end):
                return NULL
            if stop == at:
                if not is_message:
                    size[0] = 0
                return past_line_ending(stop, end)
            if begins_with(at, stop, b"data:", 5):
                at += 5
                if at < stop and at[0] == c" ":
                    at += 1
                more = stop - at + has_data
                if size[0] + more > self.rules.message_bytes:
                    return NULL
                if not has_data:
                    data[0] = at
                else:
                    if self.size == 0 and size[0]:
                        self.append(data[0], size[0], size[0] + more)
                    self.append(<const uint8_t*>b"\n", 1, self.size + more)
                    self.append(at, stop - at, self.size + stop - at)
                    data[0] = self.buffer
                size[0] += more
                has_data = True
            elif at[0] != c":":
                if stop - at > LOOKED_AT_BYTES:
                    return NULL
                if begins_with(at, stop, b"event:", 6):
                    at += 6
                    if at < stop and at[0] == c" ":
                        at += 1
                    is_message = at == stop or (stop - at == 7 and memcmp(at, b"message", 7) == 0)
                elif not begins_with(at, stop, b"id:", 3) and not begins_with(at, stop, b"retry:", 6):
                    return NULL
            at = past_line_ending(stop, end)

    cdef int read_unusual(self, const uint8_t* end, list items) except -1:
        """Let `EventFrames` read up to the next blank line: one event, and perhaps the report of another framing."""
        cdef const uint8_t* at = self.next
        cdef const uint8_t* stop
        cdef Py_ssize_t count
        while at < end:
            stop = end_of_line(at, end)
            if stop == at:
                at = past_line_ending(at, end)
                break
            at = past_line_ending(stop, end)
        saved = self.frames.save()
        count = PyList_GET_SIZE(items)
        try:
            frames = self.frames.feed(PyBytes_FromStringAndSize(<const char*>self.next, at - self.next))
            self.is_between_events = self.frames.is_between_events
            for index, frame in enumerate(frames):
                if index == len(frames) - 1:
                    self.next = at
                items.append(self.item_of(frame))
            self.next = at
        except BaseException:
            if self.next != at:
                self.is_between_events = False
                del items[count:]
                self.frames.restore(saved)
            raise
        return 0

    cdef object item_of(self, frame):
        cdef bytes text
        found, _, _, fault, hint = frame
        if found is None:
            return ParseError(fault, hint=hint)
        text = found
        if fault is not None:
            return fault_of_large(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), self.rules)
        return decode_bytes(text, self.rules, self.raw)


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
        if self._reader is not None and (<Reader?>self._reader).busy:
            raise ValueError(AT_WORK)
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
        elif framing == "sse":
            self._reader = EventReader.over(self._frames, self._profile, self._raw)
        elif framing == "concatenated":
            self._reader = ConcatenatedReader(self._profile, self._raw)
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


cdef object DECODER = Decoder
cdef object FAST_SLOT = Decoder._fast


cdef object call_feed(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `Decoder.feed`: with a Decoder and exact bytes alone here, in any other form by Cython's function."""
    cdef PyObject* found
    cdef Reader reader
    if (
        PyVectorcall_NARGS(flags) == 2
        and names == NULL
        and <PyObject*>type_of(arguments[0]) == <PyObject*>DECODER
        and is_bytes(arguments[1])
    ):
        found = get_slot(FAST_SLOT, arguments[0])
        if found != NULL and found != NULL_VALUE:
            # Held: a finalizer that runs meanwhile may begin the decoder again.
            reader = <Reader>found
            return reader.feed_bytes(<bytes>arguments[1])
    return slow_feed(function, arguments, flags, names)


cdef Call slow_feed = <Call>set_call(Decoder.feed, <void*>call_feed)
