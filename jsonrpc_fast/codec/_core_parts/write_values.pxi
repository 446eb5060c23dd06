"""Python values as JSON, in one pass; the bytes are those of orjson.

It writes dicts with str names, lists, tuples, strings, integers, floats, booleans and None, all of exactly
these types. Any other value, and one that may not be JSON, is left to orjson, which writes or refuses it.

Bounds: a container and each member or item of one begin at `Output.full` or before it. Past `full`, at most a string
(STRING_MARGIN), a few brackets and separators, and a number (NUMBER_BYTES) are written, together less than MARGIN.

Ownership: items and members are borrowed from their container. Python code, which may change every container, runs at
`write_foreign`, `write_wide` and `check_depth` only: in CPython's module for very long integers, in orjson, in `default`, in the methods of an object and of its class, and where the garbage
collector or the last reference finalizes something. So an object of another type is held before anything is asked of it;
each open container is held, its size is read again for each item, and no item is used after one of those calls.
"""

cdef extern from *:
    """
    #define jsonrpc_fast_class_of(value) ((PyObject *)Py_TYPE(value))
    #define jsonrpc_fast_is_container(kind) \\
        ((kind) == (PyObject *)&PyDict_Type || (kind) == (PyObject *)&PyList_Type || (kind) == (PyObject *)&PyTuple_Type)

    /* Whether a class itself, not a base, has a member: what orjson looks for. No metaclass is asked, but a key of the
       dict may be compared. -1 with an exception. */
    static int jsonrpc_fast_has_own(PyObject *type, PyObject *name) {
    #if defined(PYPY_VERSION)
        return PyObject_HasAttr(type, name);
    #elif PY_VERSION_HEX >= 0x030C0000
        PyObject *members = PyType_GetDict((PyTypeObject *)type);
        int found = members == NULL ? -1 : PyDict_Contains(members, name);
        Py_XDECREF(members);
        return found;
    #else
        return PyDict_Contains(((PyTypeObject *)type)->tp_dict, name);
    #endif
    }
    """
    PyObject* class_of "jsonrpc_fast_class_of"(PyObject* value)
    bint is_container "jsonrpc_fast_is_container"(PyObject* kind)
    int has_own "jsonrpc_fast_has_own"(PyObject* type, PyObject* name) noexcept

cdef extern from "Python.h":
    PyObject* STR_TYPE "((PyObject *)&PyUnicode_Type)"
    PyObject* INT_TYPE "((PyObject *)&PyLong_Type)"
    PyObject* FLOAT_TYPE "((PyObject *)&PyFloat_Type)"
    PyObject* DICT_TYPE "((PyObject *)&PyDict_Type)"
    PyObject* LIST_TYPE "((PyObject *)&PyList_Type)"
    PyObject* TYPE_ERROR "PyExc_TypeError"
    Py_ssize_t list_size "PyList_GET_SIZE"(PyObject* items)
    PyObject* list_item "PyList_GET_ITEM"(PyObject* items, Py_ssize_t index)
    Py_ssize_t tuple_size "PyTuple_GET_SIZE"(PyObject* items)
    PyObject* tuple_item "PyTuple_GET_ITEM"(PyObject* items, Py_ssize_t index)
    Py_ssize_t dict_size "PyDict_GET_SIZE"(PyObject* items)
    bint is_dict_like "PyDict_Check"(PyObject* value)
    bint is_list_like "PyList_Check"(PyObject* value)
    bint is_instance_of "PyObject_TypeCheck"(PyObject* value, PyTypeObject* type)
    int next_member "PyDict_Next"(PyObject* items, Py_ssize_t* place, PyObject** name, PyObject** value)

cdef enum:
    # Deeper values are left to orjson, which writes some more levels.
    WRITTEN_DEPTH = 64


cdef inline bint member_after(PyObject* items, Py_ssize_t* place, PyObject** name, PyObject** value) noexcept:
    """As `PyDict_Next`, but by the entries of the table: a call of it costs more than writing a short member.

    In a table that has had keys other than str, and in those that orjson makes, the hash comes before each name.
    """
    cdef KeyTable* table = table_of(items)
    cdef PyObject** entry
    if not HAS_TEMPLATES or has_values_apart(items):
        return next_member(items, place, name, value)
    entry = entries_of(table, table.index_bits) + 2 * place[0]
    if table.kind != STR_KEYS:
        entry += place[0] + 1
    while place[0] < table.count:
        place[0] += 1
        name[0] = entry[0]
        value[0] = entry[1]
        if value[0] != NULL:  # else it was deleted
            return True
        entry += 2 if table.kind == STR_KEYS else 3
    return False


cdef char* write_foreign(
    Output* output, char* at, PyObject* value, Py_ssize_t levels, Guard* around
) noexcept:
    """Write an object of another type; NULL if it may have parts, or without a `default` if its JSON may be a container,
    whose depth has to be checked.

    Without a `default`, orjson writes a whole payload faster than one object after another.
    """
    cdef PyObject* text = NULL
    cdef bint has_default = output.bounded != NULL
    if HAS_ORJSON and not has_default:
        return NULL
    hold(value)
    if FREE_THREADED:
        output.breaks += 1
    if may_have_parts(value) != 0:
        at = NULL
    elif has_default:
        at = write_by_default_or_null(output, at, value, levels)
    else:
        text = call_with(<PyObject*>dumps_unchecked, value)
    drop(value)
    if FREE_THREADED and around != NULL:
        renew_guard(output, around)
    if has_default:
        return at
    if text == NULL:
        if is_raised(TYPE_ERROR):
            clear_raised()
        return NULL
    if bytes_size(text) == 0 or bytes_data(text)[0] == c"{" or bytes_data(text)[0] == c"[":
        drop(text)
        return NULL
    at = append(output, at, bytes_data(text), bytes_size(text))
    drop(text)
    return at


cdef char* write_wide(Output* output, char* at, PyObject* value, Guard* around) noexcept:
    """Write an int of any width; NULL with an exception if it has too many digits, or memory ran out."""
    cdef PyObject* text
    hold(value)
    if FREE_THREADED:
        output.breaks += 1
    text = text_of_integer(value, 10)
    drop(value)
    if FREE_THREADED and around != NULL:
        renew_guard(output, around)
    if text == NULL:
        if is_raised(<PyObject*>ValueError):
            clear_raised()
            set_raised(<PyObject*>EncodeError, <PyObject*>TOO_MANY_DIGITS)
        return NULL
    at = append(output, at, <const char*>string_data(text), PyUnicode_GET_LENGTH(<object>text))
    drop(text)
    return at


cdef char* write_members(Output* output, char* at, PyObject* value, Py_ssize_t levels, Guard* guard) noexcept:
    """Write a dict."""
    cdef PyObject* name
    cdef PyObject* item
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t left = dict_size(value)
    at[0] = c"{"
    if left == 0:
        at[1] = c"}"
        return at + 2
    at += 1
    # The count ends the loop: a call that finds the end would cost as much as a member.
    while left and member_after(value, &place, &name, &item):
        if unlikely(class_of(name) != STR_TYPE):
            return NULL
        at = write_string(output, at, name)
        if unlikely(at == NULL):
            return NULL
        at[0] = c":"
        at = write_value(output, at + 1, item, levels, guard)
        if unlikely(at == NULL):
            return NULL
        at[0] = c","
        at += 1
        left -= 1
        if unlikely(at > output.full):
            at = grow(output, at, 0)
            if at == NULL:
                return NULL
    at[-1] = c"}"
    return at


cdef inline char* write_items "jsonrpc_fast_write_items"(
    Output* output, char* at, PyObject* value, bint is_list, Py_ssize_t levels, Guard* guard
) noexcept:
    """Write a list or a tuple."""
    cdef Py_ssize_t i = 0
    at[0] = c"["
    at += 1
    while i < (list_size(value) if is_list else tuple_size(value)):
        at = write_value(output, at, list_item(value, i) if is_list else tuple_item(value, i), levels, guard)
        if unlikely(at == NULL):
            return NULL
        at[0] = c","
        at += 1
        i += 1
        if unlikely(at > output.full):
            at = grow(output, at, 0)
            if at == NULL:
                return NULL
    if i == 0:
        at[0] = c"]"
        return at + 1
    at[-1] = c"]"
    return at


cdef char* write_container(Output* output, char* at, PyObject* value, Py_ssize_t levels, Guard* around) noexcept:
    cdef PyObject* kind = class_of(value)
    cdef Guard guard
    if unlikely(levels == 0):
        return NULL
    if unlikely(at > output.full):
        at = grow(output, at, 0)
        if at == NULL:
            return NULL
    if FREE_THREADED:
        open_guard(output, &guard, value)
    else:
        hold(value)
    if kind == DICT_TYPE:
        at = write_members(output, at, value, levels - 1, &guard)
    elif kind == LIST_TYPE:
        at = write_items(output, at, value, True, levels - 1, &guard)
    else:
        at = write_items(output, at, value, False, levels - 1, &guard)
    if FREE_THREADED:
        close_guard(output, &guard, around)
    else:
        drop(value)
    return at


cdef inline char* write_value "jsonrpc_fast_write_value"(
    Output* output, char* at, PyObject* value, Py_ssize_t levels, Guard* around
) noexcept:
    """Write a value that nests at most `levels` deep; return the end.

    around: of the container around it; NULL for the outermost value.
    NULL without an exception: the payload is left to orjson.
    """
    cdef PyObject* kind = class_of(value)
    cdef char* end
    if kind == STR_TYPE:
        return write_string(output, at, value)
    if kind == INT_TYPE:
        end = write_narrow(at, value)
        return write_wide(output, at, value, around) if unlikely(end == NULL) else end
    if is_container(kind):
        return write_container(output, at, value, levels, around)
    if value == TRUE_VALUE:
        memcpy(at, b"true", 4)
        return at + 4
    if value == FALSE_VALUE:
        memcpy(at, b"false", 5)
        return at + 5
    if value == NULL_VALUE:
        memcpy(at, b"null", 4)
        return at + 4
    if kind == FLOAT_TYPE:
        return write_float(at, double_of(value))
    return write_foreign(output, at, value, levels, around)


cdef int may_have_parts(PyObject* value) noexcept:
    """Whether `_parts` of `_json.py` may find parts in an object of another type than `write_value` writes.

    -1 with an exception. The caller holds the object.
    """
    cdef PyObject* kind = class_of(value)
    if is_dict_like(value) or is_list_like(value) or is_instance_of(kind, <PyTypeObject*>ENUM_META):
        return 1
    return has_own(kind, <PyObject*>DATACLASS_FIELDS)


cdef inline bint is_scalar(PyObject* value, PyObject* kind) noexcept:
    """Whether `write_value` writes a value of this type, and it is no container."""
    return (
        kind == STR_TYPE
        or kind == INT_TYPE
        or kind == FLOAT_TYPE
        or value == NULL_VALUE
        or value == TRUE_VALUE
        or value == FALSE_VALUE
    )


cdef enum Foreign:
    # What a value has of types that `write_value` does not write.
    IS_FOREIGN = 1
    HAS_PARTS = 2  # an object that may have parts
    IS_RAW = 4


cdef int check_levels "jsonrpc_fast_check_levels"(PyObject* value, Py_ssize_t depth, option) except -1:
    """As `check_depth` of `_json.py`, which looks at other types. depth: how many containers are around the value.

    Return 0 if the value and its parts are of the types that `write_value` writes; else flags of `Foreign`.

    It recurses into at most MAX_WRITTEN_DEPTH levels. Each open container is held, and its size is read again for each
    item, as where they are written.
    """
    cdef PyObject* kind = class_of(value)
    cdef int has_parts
    cdef int checked_parts
    if is_scalar(value, kind):
        return 0
    held_value = <object>value
    if not is_container(kind):
        has_parts = may_have_parts(value)
        if has_parts < 0:
            check_raised()
        if has_parts:
            check_depth(held_value, option, depth)
            return IS_FOREIGN | HAS_PARTS
        return IS_FOREIGN | IS_RAW if kind == <PyObject*>Raw else IS_FOREIGN
    if depth == MAX_WRITTEN_DEPTH:
        raise EncodeError(TOO_DEEP_TO_WRITE)
    begin_section(value)
    checked_parts = check_parts_in_section(value, depth + 1, option)
    end_section()
    return checked_parts if checked_parts >= 0 else check_raised()


cdef int check_parts "jsonrpc_fast_check_parts"(PyObject* value, Py_ssize_t depth, option) except -1:
    """Check the parts of a container, which are inside `depth` containers. Return the same as `check_levels`."""
    cdef int found = 0
    cdef PyObject* kind = class_of(value)
    cdef PyObject* name
    cdef PyObject* item
    cdef Py_ssize_t place = 0
    if kind == DICT_TYPE:
        while next_member(value, &place, &name, &item) if FREE_THREADED else member_after(value, &place, &name, &item):
            if not is_scalar(item, class_of(item)):
                found |= check_levels(item, depth, option)
    else:
        while place < (list_size(value) if kind == LIST_TYPE else tuple_size(value)):
            item = list_item(value, place) if kind == LIST_TYPE else tuple_item(value, place)
            if not is_scalar(item, class_of(item)):
                found |= check_levels(item, depth, option)
            place += 1
    return found


cdef extern from *:
    """
    static int jsonrpc_fast_check_parts(PyObject *, Py_ssize_t, PyObject *);
    """
    # The same function; the caller raises its exception after `end_section`.
    int check_parts_in_section "jsonrpc_fast_check_parts"(PyObject* value, Py_ssize_t depth, object option) noexcept
