"""JSON values as Python objects, in one forward pass over the text.

The results are those of orjson: the same types and order of members, and the last of equal names. A text that is not
JSON, a value that nests too deep and an integer that the profile may refuse give no value; then the slow path reads the
text again.

No function recurses. The parts of the open containers are on `ValueReader.stack`, which owns them until their container
does, or until `drop_values`. Below the parts of each container is a *mark*, with what is needed when the container ends:
the place of the mark of the container around it, and whether that is an object. A mark is odd; addresses of objects are
even. Making a list or a dict may start a garbage collection, which may run other code: no pointer into static memory is
held across it, and the reader is on the C stack.
"""

cdef inline PyObject* literal_at(ValueReader* reader, const uint8_t* at) noexcept:
    """The value of `true`, `false` or `null`."""
    cdef Py_ssize_t left = reader.end - at
    if left >= 4 and memcmp(at, b"true", 4) == 0:
        reader.at = at + 4
        hold(TRUE_VALUE)
        return TRUE_VALUE
    if left >= 4 and memcmp(at, b"null", 4) == 0:
        reader.at = at + 4
        hold(NULL_VALUE)
        return NULL_VALUE
    if left >= 5 and memcmp(at, b"false", 5) == 0:
        reader.at = at + 5
        hold(FALSE_VALUE)
        return FALSE_VALUE
    return NULL


cdef inline PyObject* list_of(PyObject** items, Py_ssize_t size) noexcept:
    """A list that takes over the references to the items."""
    cdef PyObject* kept = take_list(size)
    cdef PyObject* value = kept if kept != NULL else new_list(size)
    cdef Py_ssize_t i
    if value != NULL:
        for i in range(size):
            set_list_item(value, i, items[i])
        if kept != NULL:
            track(kept)
    return value


cdef PyObject** grow_values(ValueReader* reader, PyObject** top) noexcept:
    """`top` in a stack of twice the size; NULL and the old stack if memory runs out."""
    cdef Py_ssize_t size = reader.stack_end - reader.stack
    cdef Py_ssize_t used = top - reader.stack
    cdef bint on_heap = reader.stack != reader.values
    cdef PyObject** larger = <PyObject**>resize_memory(reader.stack if on_heap else NULL, 2 * size * sizeof(PyObject*))
    if larger == NULL:
        set_no_memory()
        return NULL
    if not on_heap:
        memcpy(larger, reader.values, used * sizeof(PyObject*))
    reader.stack = larger
    reader.stack_end = larger + 2 * size
    return larger + used


cdef PyObject* drop_values(ValueReader* reader, PyObject** top) noexcept:
    while top > reader.stack:
        top -= 1
        if not <size_t>top[0] & 1:
            drop(top[0])
    forget_stack(reader)
    return NULL


cdef inline void forget_stack(ValueReader* reader) noexcept:
    if unlikely(reader.stack != reader.values):
        free_memory(reader.stack)
        reader.stack = reader.values
        reader.stack_end = reader.values + STACK_VALUES


cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__)
    /* The core is compiled with -O2, which is 5 % slower here. */
    struct jsonrpc_fast_value_reader;
    __attribute__((optimize("O3")))
    static PyObject *jsonrpc_fast_value_at(struct jsonrpc_fast_value_reader *, const uint8_t *, Py_ssize_t);
    #endif
    """

cdef PyObject* value_at "jsonrpc_fast_value_at"(ValueReader* reader, const uint8_t* at, Py_ssize_t levels) noexcept:
    """The value at `at`, which nests at most `levels` deep. Sets `reader.at` past it.

    The stack is empty before and after. Two entries are free on it before a part is read: for a name, and for its value or
    a mark.

    Bounds: a container is read only if the text ends in a closing brace or bracket. So any other byte is never the last
    one, and no bound is checked between it and the next byte that is not a space.
    """
    cdef const uint8_t* end = reader.end
    cdef PyObject** top = reader.stack
    cdef PyObject** larger
    cdef PyObject* value
    cdef Py_ssize_t level = 0  # how many containers are open
    cdef Py_ssize_t start = 0  # of the parts of the innermost, on the stack
    cdef bint in_object = False  # whether it is an object
    cdef size_t mark
    cdef uint8_t byte
    if unlikely(at >= end):
        return NULL
    while True:
        # A part of the innermost container begins here, or the value itself.
        if unlikely(reader.stack_end - top < 2):
            larger = grow_values(reader, top)
            if larger == NULL:
                return drop_values(reader, top)
            top = larger
        if in_object:
            value = name_before_colon(reader, at, top - reader.stack - start)
            if unlikely(value == NULL):
                return drop_values(reader, top)
            top[0] = value
            top += 1
            at = reader.at
        byte = at[0]
        if byte == c'"':
            value = string_at(reader, at + 1)
        elif is_digit(byte) or byte == c"-":
            value = number_at(reader, at)
        elif byte == c"{" or byte == c"[":
            if unlikely(level >= levels or end[-1] | 0x20 != c"}"):
                return drop_values(reader, top)
            at = past_space_inside(at + 1, end)
            # In ASCII a bracket and its closing one are two apart.
            if at[0] == byte + 2:
                value = new_dict() if byte == c"{" else new_list(0)
                reader.at = at + 1
            else:
                top[0] = <PyObject*>(<size_t>start << 2 | <size_t>in_object << 1 | 1)
                top += 1
                start = top - reader.stack
                in_object = byte == c"{"
                level += 1
                continue
        else:
            value = literal_at(reader, at)
        if unlikely(value == NULL):
            return drop_values(reader, top)
        at = reader.at
        # A value ends here, and perhaps the containers around it.
        while True:
            if level == 0:
                forget_stack(reader)
                return value
            top[0] = value
            top += 1
            if unlikely(at == end):
                return drop_values(reader, top)
            at = past_space_inside(at, end)
            if at[0] == c",":
                break
            if in_object:
                if unlikely(at[0] != c"}"):
                    return drop_values(reader, top)
                value = dict_of(reader.caches, reader.stack + start, top - reader.stack - start)
            else:
                if unlikely(at[0] != c"]"):
                    return drop_values(reader, top)
                value = list_of(reader.stack + start, top - reader.stack - start)
            if unlikely(value == NULL):
                return drop_values(reader, top)
            top = reader.stack + start - 1
            mark = <size_t>top[0]
            start = <Py_ssize_t>(mark >> 2)
            in_object = mark & 2 != 0
            level -= 1
            at += 1
            reader.at = at
        at = past_space_inside(at + 1, end)
