"""Streams of lines, and of messages that end in another byte."""


cdef inline bint is_blank(const uint8_t* at, const uint8_t* end, Py_ssize_t max_bytes) noexcept:
    """Whether a line has no frame. One that is over the limit has one, whatever it holds."""
    if at < end and (at[0] > 0x20 or end - at > max_bytes):
        return False
    while at < end and (at[0] == 0x20 or at[0] == 0x09 or at[0] == 0x0D or at[0] == 0x0A):
        at += 1
    return at == end


@cython.binding(False)
@cython.final
cdef class LineReader(Reader):
    """Split a stream into lines and decode them in place. Only a line that continues in the next chunk is copied."""

    cdef uint8_t delimiter

    def __cinit__(self, profile, raw):
        self.gives_hints = True
        self.delimiter = 0x0A

    def rest(self):
        """Return the same as `LineFrames.close`, without line and offset."""
        cdef const uint8_t* start = self.buffer
        cdef const uint8_t* end = start + self.size
        if self.at_start:
            start += mark_size(start, self.size)
        if end > start and end[-1] == 0x0D:
            end -= 1
        if self.dropping or is_blank(start, end, self.rules.message_bytes):
            return []
        return [Frame(PyBytes_FromStringAndSize(<char*>start, end - start), 0 if self.gives_hints else None, 0)]

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* at = self.next
        cdef const uint8_t* newline
        cdef const uint8_t* line
        cdef const uint8_t* line_end
        cdef PyObject* message
        cdef bint is_whole = not self.at_start and self.size == 0 and not self.dropping
        cdef ValueReader reader
        open_reader(&reader, at, end, self.rules.depth, self.rules.numbers)
        while PyList_GET_SIZE(items) < max_items:
            newline = <const uint8_t*>memchr(at, self.delimiter, end - at)
            if newline == NULL:
                self.next = end
                if at < end and not self.dropping:
                    self.append_part(at, end - at, items)
                break
            self.next = newline + 1
            line = at
            line_end = newline
            if not is_whole:
                self.begin_line(&line, &line_end, items)
            if line_end > line and line_end[-1] == 0x0D:
                line_end -= 1
            if not self.dropping and not is_blank(line, line_end, self.rules.message_bytes):
                message = frame_fast(self, &reader, line, line_end)
                if message != NULL:
                    append_owned(items, message)
                else:
                    self.read_slowly(line, line_end, items, self.next)
            if not is_whole:
                is_whole = True
                self.dropping = False
                self.at_start = False
                self.clear()
            at = newline + 1
            self.begun = at
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef int begin_line(self, const uint8_t** start, const uint8_t** end, list items) except -1:
        """Set the bounds of a line that may have begun in another chunk, or begin with a byte order mark."""
        if self.size > 0:
            self.append_part(start[0], end[0] - start[0], items)
            start[0] = self.buffer
            end[0] = start[0] + self.size
        if self.at_start:
            start[0] += mark_size(start[0], end[0] - start[0])
        return 0

    cdef int append_part(self, const uint8_t* start, Py_ssize_t size, list items) except -1:
        """Buffer a part of a line; drop the line if it is over the limit."""
        cdef Py_ssize_t limit = self.rules.message_bytes
        cdef Py_ssize_t length
        # One byte over the limit may be a carriage return, and three bytes a byte order mark.
        if self.size + size <= limit + 4:
            self.append(start, size, limit + 4)
            length = self.size
            if self.at_start:
                if length < 3 and memcmp(self.buffer, PyBytes_AS_STRING(BYTE_ORDER_MARK), length) == 0:
                    return 0
                length -= mark_size(self.buffer, length)
            if length <= limit or (length == limit + 1 and self.buffer[self.size - 1] == 0x0D):
                return 0
        else:
            # A byte order mark is not part of the head.
            size = min(size, HEAD_BYTES + 3)
            self.append(start, size, self.size + size)
        length = mark_size(self.buffer, self.size) if self.at_start else 0
        self.add(items, fault_of_large(self.buffer + length, self.size - length, self.rules), self.next)
        self.dropping = True
        self.clear()
        return 0
