"""What the readers of strings, numbers and values share.

Bounds, as in `_scanner.pxd`: a function reads at `at` only if `at < end`, and several bytes at once only if so many are
left.

Ownership: each `PyObject*` that a function returns is a new reference. NULL without an exception means that no value was
read; NULL with an exception means that memory ran out.
"""

cdef extern from "Python.h":
    PyObject* new_string "PyUnicode_New"(Py_ssize_t size, Py_UCS4 maxchar)
    void* string_data "PyUnicode_DATA"(PyObject* text)
    PyObject* new_integer "PyLong_FromLongLong"(long long value)
    PyObject* new_integer_of "PyLong_FromString"(const char* text, char** end, int base)
    PyObject* new_unsigned "PyLong_FromUnsignedLongLong"(unsigned long long value)
    PyObject* new_float "PyFloat_FromDouble"(double value)
    double double_of_text "PyOS_string_to_double"(const char* text, char** end, PyObject* overflow) noexcept
    PyObject* new_list "PyList_New"(Py_ssize_t size)
    void set_list_item "PyList_SET_ITEM"(PyObject* items, Py_ssize_t index, PyObject* value)
    PyObject* new_bytes_of "PyBytes_FromStringAndSize"(const char* text, Py_ssize_t size)
    bint is_integer "PyLong_CheckExact"(PyObject* value)
    bint is_string "PyUnicode_CheckExact"(PyObject* value)
    PyObject* new_tuple "PyTuple_New"(Py_ssize_t size)
    void set_tuple_item "PyTuple_SET_ITEM"(PyObject* items, Py_ssize_t index, PyObject* value)
    PyObject* new_dict "PyDict_New"()
    int set_dict_item "PyDict_SetItem"(PyObject* items, PyObject* name, PyObject* value)
    Py_hash_t hash_of "PyObject_Hash"(PyObject* value)
    PyObject* call_with "PyObject_CallOneArg"(PyObject* function, PyObject* value)
    PyObject* set_no_memory "PyErr_NoMemory"()
    bint is_raised "PyErr_ExceptionMatches"(PyObject* kind)
    void clear_raised "PyErr_Clear"()
    void set_raised "PyErr_SetObject"(PyObject* kind, PyObject* value)
    PyObject* raised "PyErr_Occurred"()
    void* resize_memory "PyMem_Realloc"(void* memory, size_t size)
    void free_memory "PyMem_Free"(void* memory)
    PyObject* TRUE_VALUE "Py_True"
    PyObject* FALSE_VALUE "Py_False"

cdef extern from *:
    """
    #include <float.h>
    /* Whether the result of a double operation is rounded once. */
    #define JSONRPC_FAST_EXACT_DOUBLES (FLT_EVAL_METHOD == 0)

    #if defined(_MSC_VER)
    static __inline int jsonrpc_fast_highest_of_word(unsigned __int64 bits) {
        unsigned long at;
        if (_BitScanReverse(&at, (unsigned long)(bits >> 32)))
            return (int)at + 32;
        _BitScanReverse(&at, (unsigned long)bits);
        return (int)at;
    }
    #else
    #define jsonrpc_fast_highest_of_word(bits) (63 - __builtin_clzll(bits))
    #endif

    /* The upper half of a product of two words; the lower one goes to `low`. */
    #if defined(__SIZEOF_INT128__)
    static CYTHON_INLINE unsigned long long jsonrpc_fast_product(
        unsigned long long a, unsigned long long b, unsigned long long *low) {
        unsigned __int128 product = (unsigned __int128)a * b;
        *low = (unsigned long long)product;
        return (unsigned long long)(product >> 64);
    }
    #else
    static CYTHON_INLINE unsigned long long jsonrpc_fast_product(
        unsigned long long a, unsigned long long b, unsigned long long *low) {
        unsigned long long a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
        unsigned long long right = a0 * b0, middle = a1 * b0 + (right >> 32), left = a0 * b1 + (middle & 0xFFFFFFFF);
        *low = left << 32 | (right & 0xFFFFFFFF);
        return a1 * b1 + (middle >> 32) + (left >> 32);
    }
    #endif

    /* A private function of CPython, which newer versions may not export. */
    #if PY_VERSION_HEX < 0x030E0000 && !defined(PYPY_VERSION)
    #define jsonrpc_fast_new_dict _PyDict_NewPresized
    #else
    #define jsonrpc_fast_new_dict(size) PyDict_New()
    #endif
    """
    bint EXACT_DOUBLES "JSONRPC_FAST_EXACT_DOUBLES"
    int highest_bit_of_word "jsonrpc_fast_highest_of_word"(uint64_t bits) noexcept nogil
    uint64_t product_of "jsonrpc_fast_product"(uint64_t a, uint64_t b, unsigned long long* low) noexcept nogil
    PyObject* new_dict_for "jsonrpc_fast_new_dict"(Py_ssize_t size)


cdef enum:
    # How many values a reader holds without the heap.
    STACK_VALUES = 128
    # As in `_shared.py`, which `check_invariants` compares.
    DECIMALS = 1
    NO_WIDE_INTEGERS = 2


cdef struct ValueReader "jsonrpc_fast_value_reader":
    const uint8_t* at  # after a value was returned, the byte after it
    const uint8_t* text  # the first byte that may be read
    const uint8_t* end
    Py_ssize_t depth  # of values that are read, at most
    int numbers  # how they are read, as `numbers_of` says
    Caches* caches  # without the GIL those of this thread; NULL if memory ran out
    PyObject** stack  # `values`, or larger memory on the heap
    PyObject** stack_end
    PyObject* values[STACK_VALUES]


cdef inline void open_reader(
    ValueReader* reader,
    const uint8_t* text,
    const uint8_t* end,
    Py_ssize_t depth,
    int numbers,
) noexcept:
    reader.text = text
    reader.end = end
    reader.depth = depth
    reader.numbers = numbers
    if FREE_THREADED:
        reader.caches = caches_of_thread()
    reader.stack = reader.values
    reader.stack_end = reader.values + STACK_VALUES


cdef inline const uint8_t* plain_end(ValueReader* reader, const uint8_t* at) noexcept:
    """As `skip_plain`.

    Bounds: if less than 16 bytes are left, the last 16 are read, provided that they begin at `reader.text` or later, and
    the bits of those before `at` are shifted out.
    """
    cdef const uint8_t* end = reader.end
    cdef unsigned int found
    while end - at >= 16:
        found = plain_bytes(at) ^ 0xFFFF
        if found:
            return at + lowest_bit(found)
        at += 16
    if unlikely(end - reader.text < 16):
        return skip_plain(at, end)
    found = (plain_bytes(end - 16) ^ 0xFFFF) >> (16 - (end - at))
    return at + lowest_bit(found) if found else end
