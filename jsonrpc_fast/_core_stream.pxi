"""Streams: the bulk lane."""


@cython.final
cdef class LineReader:
    """Splits a stream into lines and decodes them where they lie; `framing.py` has the rules.

    Only a line that the chunk does not end is copied, into a buffer that holds what has come of it and is never searched
    again.
    """

    cdef Rules rules
    cdef bint raw
    cdef bint at_start  # a byte order mark may still come
    cdef bint dropping  # inside a line that was over the limit
    cdef bint busy
    cdef uint8_t* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self):
        self.buffer = NULL

    def __init__(self, profile, raw):
        self.rules = rules_of(profile)
        self.raw = raw
        self.at_start = True

    def __dealloc__(self):
        free(self.buffer)

    def feed(self, data):
        """The items whose lines end in `data`."""
        cdef Py_buffer view
        cdef list items = []
        if isinstance(data, memoryview) and not data.c_contiguous:
            data = bytes(data)
        # A finalizer that runs in the middle could come back here, or let another thread in.
        if self.busy:
            raise ValueError("the decoder is at work")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        self.busy = True
        try:
            self.split(<const uint8_t*>view.buf, view.len, items)
        finally:
            self.busy = False
            PyBuffer_Release(&view)
        return items

    def rest(self):
        """The line that the end of the stream ends, as bytes, in a list; an empty list if there is none."""
        cdef const uint8_t* start = self.buffer
        cdef const uint8_t* end = start + self.size
        if self.dropping or not self.trim(&start, &end):
            return []
        return [PyBytes_FromStringAndSize(<char*>start, end - start)]

    cdef int split(self, const uint8_t* at, Py_ssize_t size, list items) except -1:
        cdef const uint8_t* end = at + size
        cdef const uint8_t* newline
        while True:
            newline = <const uint8_t*>memchr(at, 0x0A, end - at)
            if newline == NULL:
                break
            if self.dropping:
                self.dropping = False
            elif self.size == 0:
                self.take(at, newline, items)
            else:
                self.keep(at, newline - at, items)
                if self.dropping:
                    self.dropping = False
                else:
                    self.take(self.buffer, self.buffer + self.size, items)
                    self.forget()
            self.at_start = False
            at = newline + 1
        if at < end and not self.dropping:
            self.keep(at, end - at, items)
        return 0

    cdef int take(self, const uint8_t* start, const uint8_t* end, list items) except -1:
        """Decodes a whole line."""
        if self.trim(&start, &end):
            items.append(decode_text(start, end - start, self.rules, True if self.raw else None))
        return 0

    cdef bint trim(self, const uint8_t** start, const uint8_t** end) noexcept:
        """Takes off what is not the line's: byte order mark and carriage return. Returns whether a frame is left."""
        cdef const uint8_t* at
        if self.at_start and end[0] - start[0] >= 3 and memcmp(start[0], BYTE_ORDER_MARK, 3) == 0:
            start[0] += 3
        if end[0] > start[0] and (end[0] - 1)[0] == 0x0D:
            end[0] -= 1
        if end[0] - start[0] > self.rules.message_bytes:
            return True
        at = start[0]
        while at < end[0] and (at[0] == 0x20 or at[0] == 0x09 or at[0] == 0x0D):
            at += 1
        return at < end[0]

    cdef int keep(self, const uint8_t* start, Py_ssize_t size, list items) except -1:
        """Buffers a part of a line, or drops the line where it is over the limit."""
        cdef Py_ssize_t limit = self.rules.message_bytes
        cdef Py_ssize_t length
        cdef uint8_t* larger
        # One byte over the limit may be a carriage return, and three before it a byte order mark.
        if self.size + size <= limit + 4:
            if self.size + size > self.capacity:
                length = min(max(2 * self.capacity, self.size + size, 256), limit + 4)
                larger = <uint8_t*>realloc(self.buffer, length)
                if larger == NULL:
                    raise MemoryError
                self.buffer = larger
                self.capacity = length
            memcpy(self.buffer + self.size, start, size)
            self.size += size
            length = self.size
            if self.at_start:
                if length < 3 and memcmp(self.buffer, BYTE_ORDER_MARK, length) == 0:
                    return 0
                if length >= 3 and memcmp(self.buffer, BYTE_ORDER_MARK, 3) == 0:
                    length -= 3
            if length <= limit or (length == limit + 1 and self.buffer[self.size - 1] == 0x0D):
                return 0
        items.append(ParseError.message_too_large())
        self.dropping = True
        self.forget()
        return 0

    cdef void forget(self) noexcept:
        self.size = 0
        if self.capacity > KEPT_BYTES:
            free(self.buffer)
            self.buffer = NULL
            self.capacity = 0


class Decoder(StreamDecoder):
    __doc__ = StreamDecoder.__doc__
    __slots__ = ("_reader",)

    def __init__(self, framing="newline", profile=JSONRPC, limits=None, raw=False):
        super().__init__(framing, profile, limits, raw)
        self._reader = LineReader(self._profile, self._raw)

    def _decode(self, text):
        return ParseError.message_too_large() if text is None else decode(text, self._profile, raw=self._raw)

    def _feed(self, data):
        return self._reader.feed(data)

    def _rest(self):
        return self._reader.rest()
