"""The output of an encoder: bytes that grow at their end, with room reserved ahead.

Bounds: `Output.full` is MARGIN bytes before the end of the memory. A function that writes more than a few bytes first
checks against `full`, and says how far past `full` it ends. Between two checks, less than MARGIN bytes are written, wide
stores included.
"""

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Compilers inline too little in a file this large; a call for each value costs a tenth of the time of writing it. */
    struct jsonrpc_fast_output;
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_bytes(
        struct jsonrpc_fast_output *, char *, const unsigned char *, Py_ssize_t, int);
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_string(
        struct jsonrpc_fast_output *, char *, PyObject *);
    struct jsonrpc_fast_guard;
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_value(
        struct jsonrpc_fast_output *, char *, PyObject *, Py_ssize_t, struct jsonrpc_fast_guard *);
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_items(
        struct jsonrpc_fast_output *, char *, PyObject *, int, Py_ssize_t, struct jsonrpc_fast_guard *);
    /* One function for all integers, with the loops over their digits inlined. */
    static __attribute__((flatten, noinline)) char *jsonrpc_fast_write_narrow(char *, PyObject *);
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_id(
        struct jsonrpc_fast_output *, char *, PyObject *);
    JSONRPC_FAST_INLINE char *jsonrpc_fast_write_payload(
        struct jsonrpc_fast_output *, char *, PyObject *, PyObject *, PyObject *);
    #endif
    """

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size)
    int resize_bytes "_PyBytes_Resize"(PyObject** text, Py_ssize_t size)
    int cut_bytes "_PyBytes_Resize"(PyObject** text, Py_ssize_t size) except -1
    char* bytes_data "PyBytes_AS_STRING"(PyObject* text)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject* text)
    void drop_if_any "Py_XDECREF"(PyObject* value)

cdef enum:
    # An output begins on the C stack; a longer one continues in a bytes object.
    OUTPUT_BYTES = 4096
    MARGIN = 128


cdef struct Output "jsonrpc_fast_output":
    char* start
    char* full  # MARGIN before the end of the memory
    PyObject* owner  # the bytes object with the memory, owned; NULL: the memory is `small`
    PyObject* bounded  # the `BoundedDefault` for objects of other types, borrowed; NULL: they are left to the engine
    Py_ssize_t payload  # where the payload begins
    Py_ssize_t breaks  # without the GIL, as in `Guard`
    bint is_guarded  # likewise: whether others are kept from the innermost open container
    char[OUTPUT_BYTES] small


cdef inline char* open_output(Output* output) noexcept:
    """Return where writing begins."""
    output.start = output.small
    output.full = output.small + OUTPUT_BYTES - MARGIN
    output.owner = NULL
    output.bounded = NULL
    if FREE_THREADED:
        output.breaks = 0
        output.is_guarded = False
    return output.small


cdef inline void close_output(Output* output) noexcept:
    drop_if_any(output.owner)
    output.owner = NULL


cdef inline bytes finish(Output* output, char* at):
    """The bytes up to `at`. The caller closes the output."""
    if output.owner == NULL:
        return PyBytes_FromStringAndSize(output.small, at - output.small)
    cut_bytes(&output.owner, at - output.start)
    return <bytes><object>output.owner


cdef char* grow(Output* output, char* at, Py_ssize_t more) noexcept:
    """Make room for `more` bytes before `full`; return the new place of `at`, NULL with an exception if memory runs out.

    The size doubles, since allocators keep memory in sizes of powers of two. The first size on the heap is four times that
    on the stack, so that most results are copied once only.
    """
    cdef Py_ssize_t used = at - output.start
    cdef Py_ssize_t size = output.full - output.start + MARGIN
    if more > PY_SSIZE_T_MAX // 8 or size > PY_SSIZE_T_MAX // 8:
        set_no_memory()
        return NULL
    size *= 2 if output.owner != NULL else 4
    while size < used + more + MARGIN:
        size *= 2
    if output.owner == NULL:
        output.owner = new_bytes(NULL, size)
        if output.owner == NULL:
            return NULL
        memcpy(bytes_data(output.owner), output.small, used)
    elif resize_bytes(&output.owner, size) < 0:
        return NULL
    output.start = bytes_data(output.owner)
    output.full = output.start + size - MARGIN
    return output.start + used


cdef inline char* append(Output* output, char* at, const char* text, Py_ssize_t size) noexcept:
    """Write bytes, and end at `full` or before it; NULL with an exception if memory runs out."""
    if unlikely(output.full - at < size):
        at = grow(output, at, size)
        if at == NULL:
            return NULL
    memcpy(at, text, size)
    return at + size


cdef inline void copy(char* to, const char* text, Py_ssize_t size) noexcept:
    """`memcpy` without a call for short pieces, by two copies that may overlap."""
    if size > 32:
        memcpy(to, text, size)
    elif size >= 16:
        memcpy(to, text, 16)
        memcpy(to + size - 16, text + size - 16, 16)
    elif size >= 8:
        memcpy(to, text, 8)
        memcpy(to + size - 8, text + size - 8, 8)
    elif size >= 4:
        memcpy(to, text, 4)
        memcpy(to + size - 4, text + size - 4, 4)
    else:
        while size > 0:
            size -= 1
            to[size] = text[size]
