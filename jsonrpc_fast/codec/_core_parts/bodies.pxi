"""Streams of bodies with their length in a header."""

# The two forms of headers that nearly all peers write. What `header_reader` returns reads all others.
cdef const char* LENGTH_ALONE = b"Content-Length: "
cdef const char* HEADERS_END = b"\r\n\r\n"
cdef const char* CONTENT_TYPE = b"\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n"

cdef enum:
    LENGTH_ALONE_SIZE = 16
    HEADERS_END_SIZE = 4
    CONTENT_TYPE_SIZE = 61
    LENGTH_DIGITS = 9  # so that the length is below MAX_SKIPPED_BYTES


@cython.binding(False)
@cython.final
cdef class BodyReader(Reader):
    """Split a stream into headers and bodies, and decode the bodies in place. Only a body that continues in the next
    chunk is copied.
    """

    cdef bint in_body
    cdef Py_ssize_t due  # missing bytes of the body
    cdef Py_ssize_t head_due  # missing bytes of the head that is kept of a body over the limit
    cdef object header  # the reader of the current headers that `header_reader` returns, or None
    cdef bint resync  # skip what is no header
    cdef bint is_second  # headers have been read

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
        frames = []
        if self.header is not None and self.header.skipped:
            frames.append(Frame(None, None, 0, INVALID_FRAMING, self.header.hint, self.header.skipped))
        if fault is TRUNCATED:
            frames.append(Frame(b"", None, 0, TRUNCATED))
        elif fault is not None and not frames:
            frames.append(Frame(None, None, 0, fault, self.header.hint))
        return frames

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* at
        cdef Py_ssize_t size
        cdef ValueReader reader
        open_reader(&reader, self.next, end, self.rules.depth, self.rules.numbers)
        while self.next < end and not self.ended and PyList_GET_SIZE(items) < max_items:
            at = self.next
            if not self.in_body:
                if self.header is None:
                    self.begun = at
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
                self.read_frame(&reader, at, self.next, items, self.next)
            else:
                self.append(at, size, self.size + size + self.due)
                if not self.in_body:
                    self.read_frame(&reader, self.buffer, self.buffer + self.size, items, self.next)
                    self.clear()
            if not self.in_body:
                self.begun = self.next
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
            from ..framing.content_length import header_reader  # loaded only for such headers

            self.header = header_reader(self.rules.message_bytes, self.at_start, not self.is_second, self.resync)
            self.at_start = False
        # At most one header section.
        at += <Py_ssize_t>self.header.read(PyBytes_FromStringAndSize(<char*>at, min(end - at, MAX_HEADER_BYTES)), 0)
        if self.header.is_bad:
            self.add(items, ParseError.invalid_framing(hint=self.header.hint), at)
            self.ended = True
        elif self.header.length is not None:
            length = self.header.length
            if self.header.skipped:
                self.add(items, ParseError.invalid_framing(hint=self.header.hint, offset=self.header.skipped), at)
            self.header = None
            self.begin_body(length, items)
        return at

    cdef int begin_body(self, Py_ssize_t length, list items) except -1:
        self.is_second = True
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
            self.add(items, fault_of_large(self.buffer, self.size, self.rules), self.next)
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
