"""Streams of lines."""


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
        cdef const uint8_t* line
        cdef const uint8_t* line_end
        cdef ValueReader reader
        open_reader(&reader, at, end, self.rules.depth, self.rules.numbers)
        while PyList_GET_SIZE(items) < max_items:
            newline = <const uint8_t*>memchr(at, 0x0A, end - at)
            if newline == NULL:
                self.next = end
                if at < end and not self.dropping:
                    self.append_part(at, end - at, items)
                break
            self.next = newline + 1
            line = at
            line_end = newline
            if self.size > 0:  # it began in another chunk
                self.append_part(at, newline - at, items)
                line = self.buffer
                line_end = line + self.size
                reader.text = line
            if not self.dropping:
                self.decode_line(line, line_end, items, &reader)
            if self.size > 0 or self.dropping:
                self.dropping = False
                self.clear()
                reader.text = newline + 1
            self.at_start = False
            at = newline + 1
            self.begun = at
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef inline int decode_line(
        self, const uint8_t* start, const uint8_t* end, list items, ValueReader* reader
    ) except -1:
        """Decode a complete line. reader: opened on memory that holds the line.

        One call alone is left to it, so that compilers inline it: a call costs a tenth of what a short line does.
        """
        cdef PyObject* message
        if not self.trim(&start, &end):
            return 0
        if end - start > self.rules.message_bytes:
            return self.add(items, fault_of_large(start, end - start, self.rules), self.next)
        reader.end = end
        message = read_text_fast(reader, start, self.rules, kind_of_raw(self.raw))
        if message != NULL:
            return append_owned(items, message)
        item = decode_slow(start, end - start, self.rules, True if self.raw else None, True)
        if type(item) is ParseError:
            give_hint(item, start, end)
        return self.add(items, item, self.next)

    cdef inline bint trim(self, const uint8_t** start, const uint8_t** end) noexcept:
        """Remove a byte order mark and the carriage return. Return whether the line is a frame: blank lines are not."""
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
