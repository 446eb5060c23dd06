"""`Decoder`, and the shortest way from it to a reader."""


def too_large_fault(bytes head not None, profile):
    """`_pure.too_large_fault`"""
    return fault_of_large(<const uint8_t*>PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head), rules_of(profile))


def places(decoder):
    """`_pure.places`"""
    cdef Reader reader = <Reader?>decoder._frames
    reader.places = []
    return reader.places


READERS = {
    "newline": LineReader,
    "content-length": BodyReader,
    "sse": EventReader,
    "concatenated": ConcatenatedReader,
    "json-seq": ConcatenatedReader,
    "etx": LineReader,
    "nul": LineReader,
}


class Decoder(StreamDecoder[_M]):
    __doc__ = StreamDecoder.__doc__
    # `_fast` is the reader, or None while bytes cannot go to it directly: the stream is closed, or its framing unknown, or
    # the call that has detected it is not finished.
    __slots__ = ("_fast",)
    _fault_class = ParseError

    @property
    def has_more(self):
        """Whether items wait that `feed(b"")` returns, because a call had returned `max_items`."""
        return self._frames.has_more

    def feed(self, data, max_items=None):
        reader = self._fast
        if reader is None:
            self._lock.acquire()
            try:
                reader = self._fast  # another thread may have detected the framing meanwhile
                if reader is None:
                    items = super().feed(data, max_items)
                    # Only after the call: if another thread used the reader before, the rest of this call would fail,
                    # and the stream with it.
                    if self._detector is None:
                        self._fast = self._frames
                    return items
            finally:
                self._lock.release()
        if isinstance(data, (bytes, bytearray, memoryview)):
            if max_items is None:
                return reader.feed(data)
            if type(max_items) is int and max_items >= 1:
                return reader.feed_some(data, max_items)
        return super().feed(data, max_items)  # raises for these arguments

    feed.__doc__ = StreamDecoder.feed.__doc__

    def _why_refused(self):
        state = (<Reader?>self._frames).state_at_rest()
        return IN_USE if state == WORKING else FAILED if state == BROKEN else self._refusal

    def _end(self):
        super()._end()
        self._fast = None

    def _begin(self, framing):
        self._frames = READERS[framing](self._profile, self._raw)
        if type(self._frames) is BodyReader:
            (<BodyReader>self._frames).resync = self._resync
        elif framing == "json-seq":
            (<ConcatenatedReader>self._frames).has_marks = True
        elif type(self._frames) is LineReader and framing != "newline":
            (<LineReader>self._frames).delimiter = FRAMINGS[framing].delimiter[0]
            (<LineReader>self._frames).gives_hints = False
        self._fast = self._frames if self._detector is None and self._refusal is None else None

    def _fail(self):
        super()._fail()
        self._fast = None
        if acquire(&(<Reader?>self._frames).lock):
            (<Reader>self._frames).fail()

    def _decode(self, text):
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head):
        return too_large_fault(head, self._profile)

    def _read(self, data, max_items):
        return self._frames.feed(data) if max_items is None else self._frames.feed_some(data, max_items)


cdef extern from *:
    """
    /* The object at an offset, as a new reference, or NULL. Descriptors set it in a critical section, too. */
    static CYTHON_INLINE PyObject *jsonrpc_fast_at_offset(PyObject *self, Py_ssize_t offset) {
        PyObject *value;
        jsonrpc_fast_begin_section(self);
        value = *(PyObject **)((char *)self + offset);
        Py_XINCREF(value);
        jsonrpc_fast_end_section();
        return value;
    }
    """
    PyObject* at_offset "jsonrpc_fast_at_offset"(PyObject* self, Py_ssize_t offset)

cdef object DECODER = Decoder
cdef Py_ssize_t FAST_OFFSET = offset_of(Decoder._fast)


cdef object call_feed(PyObject* function, PyObject** arguments, size_t flags, PyObject* names):
    """Call `Decoder.feed`: with a Decoder and exact bytes alone here, in any other form by Cython's function."""
    cdef PyObject* found
    if (
        PyVectorcall_NARGS(flags) == 2
        and names == NULL
        and <PyObject*>type_of(arguments[0]) == <PyObject*>DECODER
        and is_bytes(arguments[1])
    ):
        # NULL before `__init__`. The object is exactly a Decoder, whose layout does not change.
        found = at_offset(arguments[0], FAST_OFFSET)
        if found != NULL:
            # Held: a finalizer that runs meanwhile may begin the decoder again. Checked: anyone may set `_fast`.
            reader = owned(found)
            if reader is not None:
                return (<Reader?>reader).feed_bytes(<bytes>arguments[1])
    return slow_feed(function, arguments, flags, names)


cdef Call slow_feed = <Call>set_call(Decoder.feed, <void*>call_feed)
