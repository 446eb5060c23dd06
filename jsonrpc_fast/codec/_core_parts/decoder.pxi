"""`Decoder`, and the shortest way from it to a reader."""


def _too_large_fault(bytes head not None, profile):
    """The fault of a text over the size limit, from its beginning."""
    return fault_of_large(<const uint8_t*>PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head), rules_of(profile))


class Decoder(StreamDecoder[_M]):
    __doc__ = StreamDecoder.__doc__
    # `_fast` is the reader, or None while bytes cannot go to it directly: the stream is closed, its framing unknown, or
    # unread bytes wait. Without the GIL it is not used: `StreamDecoder.feed` has the lock.
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
        reader = None if FREE_THREADED else self._fast
        if reader is not None and isinstance(data, (bytes, bytearray, memoryview)):
            if max_items is None:
                return reader.feed(data)
            if type(max_items) is int and max_items >= 1:
                return reader.feed_some(data, max_items)
        return super().feed(data, max_items)

    feed.__doc__ = StreamDecoder.feed.__doc__

    def close(self):
        with self._lock:
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


cdef extern from *:
    """
    #if CYTHON_COMPILING_IN_CPYTHON
    #include <structmember.h>
    /* Where an object has what a descriptor of `__slots__` gets. */
    #define jsonrpc_fast_offset_of(slot) (((PyMemberDescrObject *)(slot))->d_member->offset)
    #define jsonrpc_fast_at_offset(self, offset) (*(PyObject **)((char *)(self) + (offset)))
    #else
    #define jsonrpc_fast_offset_of(slot) 0
    #define jsonrpc_fast_at_offset(self, offset) NULL
    #endif
    """
    Py_ssize_t offset_of "jsonrpc_fast_offset_of"(object slot)
    PyObject* at_offset "jsonrpc_fast_at_offset"(PyObject* self, Py_ssize_t offset)

cdef object DECODER = Decoder
cdef Py_ssize_t FAST_OFFSET = offset_of(Decoder._fast)


cdef object call_feed(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `Decoder.feed`: with a Decoder and exact bytes alone here, in any other form by Cython's function."""
    cdef PyObject* found
    cdef Reader reader
    if (
        not FREE_THREADED
        and PyVectorcall_NARGS(flags) == 2
        and names == NULL
        and <PyObject*>type_of(arguments[0]) == <PyObject*>DECODER
        and is_bytes(arguments[1])
    ):
        # NULL before `__init__`. The object is exactly a Decoder, whose layout does not change.
        found = at_offset(arguments[0], FAST_OFFSET)
        if found != NULL and found != NULL_VALUE:
            # Held: a finalizer that runs meanwhile may begin the decoder again. Checked: anyone may set `_fast`.
            reader = <Reader?><object>found
            return reader.feed_bytes(<bytes>arguments[1])
    return slow_feed(function, arguments, flags, names)


cdef Call slow_feed = <Call>set_call(Decoder.feed, <void*>call_feed)
