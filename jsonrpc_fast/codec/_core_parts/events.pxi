"""Streams of server-sent events."""


cdef inline const uint8_t* end_of_line(const uint8_t* at, const uint8_t* end) noexcept:
    """The first 0x0A or 0x0D from `at` on, or `end`. The search reads at most twice that distance plus 256 bytes."""
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


cdef inline const uint8_t* value_of_field(
    const uint8_t* at, const uint8_t* stop, const char* name, Py_ssize_t size
) noexcept:
    """The start of the value in the line from `at` to `stop`, if the field has this name; else NULL."""
    if not begins_with(at, stop, name, size):
        return NULL
    at += size
    if at == stop:
        return at
    if at[0] != c":":
        return NULL
    at += 1
    return at + 1 if at < stop and at[0] == c" " else at


cdef enum:
    CALL_BYTES = 256  # `EventFrames` reads as many in the time that a call of it takes


@cython.binding(False)
@cython.final
cdef class EventReader(Reader):
    """Decode server-sent events in place. `EventFrames` reads those that are not in the chunk as a whole, or unusual.

    Calls of `EventFrames` for a few bytes each would take most of the time. So each call is owed as many bytes as it
    costs. If more than a few calls are owed, the next one reads all these bytes, usual events among them.
    """

    cdef object frames  # the EventFrames, which hold the state of a stream that is inside an event
    cdef bint is_between_events
    cdef Py_ssize_t owed  # bytes

    def __cinit__(self, profile, raw):
        from ..framing.events import EventFrames  # loaded only for such streams

        self.frames = EventFrames(self.rules.message_bytes)

    def rest(self):
        """Return what `EventFrames.close` does."""
        return self.frames.close()

    cdef int split(self, const uint8_t* end, list items, Py_ssize_t max_items) except -1:
        cdef const uint8_t* data
        cdef const uint8_t* behind
        cdef Py_ssize_t size
        cdef ValueReader reader
        open_reader(&reader, self.next, end, self.rules.depth, self.rules.numbers)
        while self.next < end and PyList_GET_SIZE(items) < max_items:
            behind = NULL
            if self.is_between_events:
                behind = self.read_event(end, &data, &size)
            if behind == NULL:
                self.read_unusual(end, items)
            else:
                self.owed = max(0, self.owed - (behind - self.next))
                self.next = behind
                if size:
                    self.read_frame(&reader, data, data + size, items, behind)
                    self.clear()
                self.begun = behind
            if max_items != PY_SSIZE_T_MAX and items and type(items[-1]) is list:
                break
        return 0

    cdef const uint8_t* read_event(self, const uint8_t* end, const uint8_t** data, Py_ssize_t* size) except? NULL:
        """Read the event at `next`. Return the place after it, or NULL if `EventFrames` has to read it.

        Sets its data: in the chunk, or in the buffer if it has several lines. The size is 0 if there is nothing to
        decode.
        """
        cdef const uint8_t* at = self.next
        cdef const uint8_t* stop
        cdef const uint8_t* value
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
                # More blank lines have no meaning.
                while stop < end and (stop[0] == 0x0A or stop[0] == 0x0D):
                    stop += 1
                return stop
            value = value_of_field(at, stop, b"data", 4)
            if value != NULL:
                at = value
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
                value = value_of_field(at, stop, b"event", 5)
                if value != NULL:
                    is_message = value == stop or (stop - value == 7 and memcmp(value, b"message", 7) == 0)
                elif value_of_field(at, stop, b"id", 2) == NULL and value_of_field(at, stop, b"retry", 5) == NULL:
                    return NULL
            at = past_line_ending(stop, end)

    cdef int read_unusual(self, const uint8_t* end, list items) except -1:
        """Let `EventFrames` read up to the next blank line, or further if that is owed."""
        cdef const uint8_t* at = self.next
        cdef const uint8_t* stop
        if self.owed > 4 * CALL_BYTES:
            at += min(self.owed, end - at)
        while at < end:
            stop = end_of_line(at, end)
            if stop == at:
                at = past_line_ending(at, end)
                break
            at = past_line_ending(stop, end)
        found = self.frames.feed(PyBytes_FromStringAndSize(<const char*>self.next, at - self.next))
        for back in range(len(found), 0, -1):
            items.append(self.item_of(found[-back]))
            if self.places is not None:
                self.note(items[-1], at, back)
        self.is_between_events = self.frames.is_between_events
        if self.is_between_events:
            self.begun = at
        self.owed = min(max(0, self.owed + CALL_BYTES - (at - self.next)), 8 * CALL_BYTES)
        self.next = at
        return 0

    cdef object item_of(self, frame):
        cdef bytes text
        found, _, _, fault, hint, _ = frame
        if found is None:
            return ParseError(fault, hint=hint)
        text = found
        if fault is not None:
            return fault_of_large(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), self.rules)
        return decode_bytes(text, self.rules, self.raw)
