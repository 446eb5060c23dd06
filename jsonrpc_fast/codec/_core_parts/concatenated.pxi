"""The framings "concatenated" and "json-seq", split and decoded in one loop. `framing/concatenated.py` has the rules.

Writers put a line feed behind each value. So where a value begins, the fast path reads it at once, and says where it
ends: at the bracket that closes it, where the rules end it, too. Every other value is searched for its end first. The
fast path is not tried on a value whose line may continue in the next chunk: it would read that part for nothing.

Bounds: the fast path needs a text whose last byte is a closing brace. `closing_at` is past the last one of the line.
"""


cdef enum Place:
    # What the next byte belongs to, as in `framing/concatenated.py`.
    BETWEEN
    IN_VALUE
    IN_STRING
    IN_ESCAPE
    IN_OTHER
    LOST


cdef enum:
    MARK = 0x1E  # RS


@cython.binding(False)
@cython.final
cdef class ConcatenatedReader(Reader):
    """Split a stream into values and decode them in place. Only a value that continues in the next chunk is copied."""

    cdef Place place
    cdef Py_ssize_t depth  # open brackets
    cdef bint begins_line  # while lost: the last byte was a line feed
    cdef bint has_marks  # RS begins each value
    cdef const uint8_t* stop  # the end of the text that `split` reads; valid only during that call
    # Offsets in the stream, so that no line is searched twice, whatever `max_items` is.
    cdef Py_ssize_t line_at  # the end of the line, or of the bytes that had arrived
    cdef Py_ssize_t closing_at  # past its last closing brace

    def rest(self):
        """Return the same as `ConcatenatedFrames.close`, without the offset."""
        cdef const uint8_t* end = self.buffer + self.size
        if self.dropping or self.size == 0:
            return []
        end = self.trimmed(self.buffer, end)
        return [Frame(PyBytes_FromStringAndSize(<char*>self.buffer, end - self.buffer), None, 0)]

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* begin
        cdef PyObject* message
        cdef bint is_left  # by the fast path
        cdef ValueReader reader
        open_reader(&reader, self.next, end, self.rules.depth, self.rules.numbers)
        self.stop = end
        if self.at_start:
            self.skip_mark(end, items)
        while self.next < end and PyList_GET_SIZE(items) < max_items:
            begin = self.next
            is_left = False
            if self.place == LOST:
                self.next = self.find_line(begin, end)
                continue
            if self.place == BETWEEN:
                begin = past_space(begin, end)
                while self.has_marks and begin < end and begin[0] == MARK:
                    begin = past_space(begin + 1, end)
                self.next = begin
                if begin == end:
                    break
                reader.end = self.closing_of_line(begin, end)
                if begin[0] == c"{" and begin < reader.end <= begin + self.rules.message_bytes:
                    reader.text = begin
                    message = read_object_fast(&reader, begin, self.rules, kind_of_raw(self.raw), True)
                    if message != NULL:
                        self.next = reader.at
                        self.begun = reader.at
                        append_owned(items, message)
                        continue
                    is_left = True
                self.depth = 0
                if begin[0] == c"{" or begin[0] == c"[":
                    self.place = IN_VALUE
                elif begin[0] == c'"':
                    self.place = IN_STRING
                    self.next = begin + 1
                else:
                    self.place = IN_OTHER
            self.next = self.find_end(self.next, end)
            if self.place == BETWEEN or self.place == LOST:
                self.end_frame(begin, self.next, items, &reader, is_left)
                if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                    break
            elif not self.dropping:
                self.append_part(begin, self.next - begin, items)
        return 0

    cdef inline const uint8_t* closing_of_line(self, const uint8_t* at, const uint8_t* end) noexcept:
        """Past the last closing brace of the line from `at` on; NULL if the line continues in the next chunk."""
        cdef const uint8_t* line
        if self.offset + (at - self.text) >= self.line_at:
            line = <const uint8_t*>memchr(at, 0x0A, end - at)
            if line == NULL and end[-1] == c"}":
                line = end  # a message may end here, without a line feed
            self.line_at = self.offset + ((end if line == NULL else line) - self.text)
            self.closing_at = 0 if line == NULL else self.offset + (past_last_brace(at, line) - self.text)
        return self.text + (self.closing_at - self.offset) if self.closing_at > self.offset else NULL

    cdef int skip_mark(self, const uint8_t* end, list items) except -1:
        """Skip a byte order mark at the start of the stream. The buffer holds the part of it that has arrived."""
        cdef const uint8_t* mark = <const uint8_t*>PyBytes_AS_STRING(BYTE_ORDER_MARK)
        while self.next < end and self.size < 3 and self.next[0] == mark[self.size]:
            self.append(self.next, 1, 3)
            self.next += 1
        if self.size == 3:
            self.clear()
            self.at_start = False
        elif self.next < end:
            self.at_start = False
            if self.size > 0:
                self.place = IN_OTHER
                self.append_part(self.next, 0, items)
        return 0

    cdef const uint8_t* find_end(self, const uint8_t* at, const uint8_t* end) noexcept:
        """Past the frame that continues at `at`, or `end`. Sets the place there."""
        cdef Place place = self.place
        cdef Py_ssize_t depth = self.depth
        cdef uint8_t byte
        if place == IN_OTHER:
            while at < end and at[0] != c"\n" and at[0] != c"{" and at[0] != c"[":
                if at[0] == MARK and self.has_marks:
                    break
                at += 1
            if at < end:
                self.place = BETWEEN
            return at
        while at < end:
            if place == IN_STRING:
                at = skip_plain(at, end)
                while at < end and at[0] > 0x7F:
                    at += 1
                if at == end:
                    break
            byte = at[0]
            if byte == MARK and self.has_marks:
                place = BETWEEN
                break
            if place == IN_STRING:
                at += 1
                if byte == c'"':
                    if depth == 0:
                        place = BETWEEN
                        break
                    place = IN_VALUE
                elif byte == c"\\":
                    place = IN_ESCAPE
                elif byte < 0x20:
                    place = LOST
                    self.begins_line = byte == c"\n"
                    break
            elif place == IN_VALUE:
                at += 1
                if byte == c'"':
                    place = IN_STRING
                elif byte == c"{" or byte == c"[":
                    depth += 1
                elif byte == c"}" or byte == c"]":
                    depth -= 1
                    if depth == 0:
                        place = BETWEEN
                        break
            else:
                place = IN_STRING
                if byte >= 0x20:
                    at += 1
        self.place = place
        self.depth = depth
        return at

    cdef const uint8_t* find_line(self, const uint8_t* at, const uint8_t* end) noexcept:
        """The next line that begins with an opening bracket, or the next RS, or `end`."""
        if self.has_marks:
            while at < end and at[0] != MARK:
                at += 1
            if at < end:
                self.place = BETWEEN
            return at
        while at < end:
            if self.begins_line and (at[0] == c"{" or at[0] == c"["):
                self.place = BETWEEN
                break
            self.begins_line = at[0] == c"\n"
            at += 1
        return at

    cdef int end_frame(
        self, const uint8_t* begin, const uint8_t* end, list items, ValueReader* reader, bint is_left
    ) except -1:
        """Decode the frame whose last part is [begin, end). is_left: the fast path has read it in vain."""
        if not self.dropping:
            if is_left:
                self.read_slowly(begin, end, items, self.behind())
            elif self.size == 0:
                self.decode_frame(begin, end, items, reader)
            else:
                self.append_part(begin, end - begin, items)
                if not self.dropping:
                    self.decode_frame(self.buffer, self.buffer + self.size, items, reader)
        self.dropping = False
        self.clear()
        if self.place == BETWEEN:
            self.begun = end
        return 0

    cdef int decode_frame(
        self, const uint8_t* start, const uint8_t* end, list items, ValueReader* reader
    ) except -1:
        if end - start <= self.rules.message_bytes:
            end = self.trimmed(start, end)
        self.read_frame(reader, start, end, items, self.behind())
        return 0

    cdef inline const uint8_t* behind(self) noexcept:
        """Past the byte that ends a frame, which may be the first of the next one."""
        return self.next + (self.next < self.stop)

    cdef const uint8_t* trimmed(self, const uint8_t* start, const uint8_t* end) noexcept:
        """The end of a non-empty frame, without the blanks after text that is not a value."""
        if start[0] != c"{" and start[0] != c"[" and start[0] != c'"':
            while end > start and (end[-1] == 0x20 or end[-1] == 0x09 or end[-1] == 0x0D):
                end -= 1
        return end

    cdef int append_part(self, const uint8_t* start, Py_ssize_t size, list items) except -1:
        """Buffer a part of a frame; drop the frame if it is over the limit."""
        cdef Py_ssize_t limit = self.rules.message_bytes
        if self.size + size <= limit:
            self.append(start, size, limit)
            return 0
        size = min(size, HEAD_BYTES)
        self.append(start, size, self.size + size)
        self.add(items, fault_of_large(self.buffer, self.size, self.rules), self.behind())
        self.dropping = True
        self.clear()
        return 0
