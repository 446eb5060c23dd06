"""Decoded messages, made and freed at the least cost.

Rules:
  - Freed messages wait in a list in the caches, long enough for the messages of one chunk of a stream, until they are
    made again; they keep their type, and their fields hold no references.
  - The garbage collector tracks a message only if a field can be part of a cycle: messages do not change.
  - `MessageFields` is the layout of the classes in `messages.pxi`, which `use_free_list` checks.
  - What only a freed message refers to may wait, too: an id that is an int of one digit, and a payload that is a short
    list. They keep their one reference. The next int gets another digit, and the next list of as many items as there is
    room for gets these; an empty list is not tracked, so no other code finds it.
"""

cdef extern from *:
    """
    static CYTHON_INLINE void jsonrpc_fast_renew(PyObject *value) {
    #if defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS) || PY_VERSION_HEX >= 0x030D0000
        _Py_NewReference(value);
    #else
        Py_SET_REFCNT(value, 1);
    #endif
    }

    /* Calls `clear`, now or later: `own`, the `tp_dealloc` of an untracked object, may be called inside many others. */
    static void jsonrpc_fast_clear_deep(PyObject *value, destructor clear, destructor own) {
    #ifdef Py_TRASHCAN_BEGIN
        Py_TRASHCAN_BEGIN(value, own)
        clear(value);
        Py_TRASHCAN_END
    #else
        clear(value);
    #endif
    }

    #define jsonrpc_fast_owned(value) (value)

    /* The fields of lists and ints. */
    #if JSONRPC_FAST_FREE_PAYLOADS
    #if PY_VERSION_HEX < 0x030C0000
    #define jsonrpc_fast_digit_of(integer) (((PyLongObject *)(integer))->ob_digit[0])
    #define jsonrpc_fast_is_digit(integer) (Py_SIZE(integer) == 1)
    #else
    #define jsonrpc_fast_digit_of(integer) (((PyLongObject *)(integer))->long_value.ob_digit[0])
    /* The number of digits is above three bits for the sign and others. */
    #define jsonrpc_fast_is_digit(integer) (((PyLongObject *)(integer))->long_value.lv_tag == 1 << 3)
    #endif
    #define jsonrpc_fast_set_digit(integer, number) (jsonrpc_fast_digit_of(integer) = (digit)(number))
    #define jsonrpc_fast_items_of(list) (((PyListObject *)(list))->ob_item)
    #define jsonrpc_fast_room_of(list) (((PyListObject *)(list))->allocated)
    #define jsonrpc_fast_set_size(list, size) Py_SET_SIZE((PyVarObject *)(list), size)
    #else
    #define jsonrpc_fast_is_digit(integer) 0
    #define jsonrpc_fast_set_digit(integer, number) ((void)(number))
    #define jsonrpc_fast_items_of(list) ((PyObject **)NULL)
    #define jsonrpc_fast_room_of(list) 0
    #define jsonrpc_fast_set_size(list, size) ((void)(size))
    #endif
    """
    bint FREE_PAYLOADS "JSONRPC_FAST_FREE_PAYLOADS"
    bint is_one_digit "jsonrpc_fast_is_digit"(PyObject* integer) noexcept  # and positive
    void set_digit "jsonrpc_fast_set_digit"(PyObject* integer, int64_t number) noexcept
    PyObject** list_items "jsonrpc_fast_items_of"(PyObject* items) noexcept
    Py_ssize_t list_room "jsonrpc_fast_room_of"(PyObject* items) noexcept
    void set_list_size "jsonrpc_fast_set_size"(PyObject* items, Py_ssize_t size) noexcept
    void renew "jsonrpc_fast_renew"(PyObject* value)
    void clear_deep "jsonrpc_fast_clear_deep"(
        PyObject* value, void (*clear)(PyObject*) noexcept, void (*own)(PyObject*) noexcept
    )
    object owned "jsonrpc_fast_owned"(PyObject* value)  # a new reference as an object; not NULL

cdef extern from "Python.h":
    ctypedef void* vectorcallfunc
    ctypedef struct PyTypeObject:
        const char* tp_name
        Py_ssize_t tp_basicsize
        PyObject* (*tp_new)(PyTypeObject*, PyObject*, PyObject*) noexcept
        vectorcallfunc tp_vectorcall
        void (*tp_dealloc)(PyObject*) noexcept
    PyTypeObject* type_of "Py_TYPE"(PyObject* value)
    bint PyType_IS_GC(PyTypeObject* type)
    bint is_dict "PyDict_CheckExact"(PyObject* value)
    bint is_list "PyList_CheckExact"(PyObject* value)
    void hold "Py_INCREF"(PyObject* value)
    void drop "Py_DECREF"(PyObject* value)
    void track "PyObject_GC_Track"(PyObject* value)
    void untrack "PyObject_GC_UnTrack"(PyObject* value)
    void delete_tracked "PyObject_GC_Del"(PyObject* value)
    PyObject* NULL_VALUE "Py_None"
    bint unlikely(bint condition) noexcept nogil
    Py_ssize_t references_to "Py_REFCNT"(PyObject* value) noexcept

cdef enum:
    FREE_MESSAGES = 2048
    FREE_INTEGERS = 2048
    FREE_LISTS_OF_SIZE = 1024
    FREE_LIST_ITEMS = 4  # at most in a list that waits

cdef enum:
    # A class whose freed objects wait, and their place in the caches.
    REQUESTS
    NOTIFICATIONS
    RESPONSES
    ERRORS
    KEPT_CLASSES


cdef struct FreeMessages:
    # Those of one class.
    Py_ssize_t count
    PyObject* values[FREE_MESSAGES]


cdef struct MessageClass:
    PyTypeObject* type
    PyObject* (*make)(PyTypeObject*, PyObject*, PyObject*) noexcept  # the class's `tp_new`
    Py_ssize_t fields


cdef struct MessageFields:
    # The layout of each class: the public fields in their order, the payload among them.
    PyObject head
    PyObject* values[3]  # two of a notification
    bint made  # of a response


cdef MessageClass[KEPT_CLASSES] message_classes
cdef PyObject* free_integers[FREE_INTEGERS]
cdef Py_ssize_t free_integer_count = 0
cdef PyObject* free_lists[FREE_LIST_ITEMS + 1]  # the first one by its room; its first item is the next one
cdef Py_ssize_t free_list_counts[FREE_LIST_ITEMS + 1]
cdef tuple NO_ARGUMENTS = ()


cdef PyObject* new_message(MessageClass* kept) noexcept:
    cdef PyObject* value = kept.make(kept.type, <PyObject*>NO_ARGUMENTS, NULL)
    cdef Py_ssize_t i
    if value != NULL:
        untrack(value)
        for i in range(kept.fields):
            drop(NULL_VALUE)
    return value


cdef inline PyObject* take_message(int kept) noexcept:
    """An untracked message whose fields hold no references; NULL with an exception if there is no memory."""
    cdef Caches* caches = caches_of_thread()
    cdef FreeMessages* free
    cdef PyObject* value
    if FREE_THREADED and caches == NULL:
        return new_message(&message_classes[kept])
    free = &caches.free[kept]
    if free.count == 0:
        return new_message(&message_classes[kept])
    free.count -= 1
    value = free.values[free.count]
    renew(value)
    return value


cdef inline void give_message(int kept, PyObject* value) noexcept:
    cdef Caches* caches = caches_of_thread() if not FREE_THREADED else thread_caches  # a thread may be about to end
    cdef FreeMessages* free
    if FREE_THREADED and caches == NULL:
        delete_tracked(value)
        return
    free = &caches.free[kept]
    if free.count == FREE_MESSAGES:
        delete_tracked(value)
        return
    free.values[free.count] = value
    free.count += 1


cdef inline void drop_id(PyObject* id) noexcept:
    global free_integer_count
    if (
        FREE_PAYLOADS
        and references_to(id) == 1
        and PyLong_CheckExact(<object>id)
        and is_one_digit(id)
        and free_integer_count < FREE_INTEGERS
    ):
        free_integers[free_integer_count] = id
        free_integer_count += 1
    else:
        drop(id)


cdef inline PyObject* take_integer(int64_t number) noexcept:
    """A positive int of one digit; NULL if none waits."""
    global free_integer_count
    if not FREE_PAYLOADS or free_integer_count == 0:
        return NULL
    free_integer_count -= 1
    set_digit(free_integers[free_integer_count], number)
    return free_integers[free_integer_count]


cdef inline void drop_payload(PyObject* value) noexcept:
    if FREE_PAYLOADS and is_list(value) and references_to(value) == 1 and list_room(value) <= FREE_LIST_ITEMS:
        drop_short_list(value)
    else:
        drop(value)


cdef void drop_short_list(PyObject* value) noexcept:
    """Drop the items of a list, and keep the list. Items that CPython may free without a bound on the depth are left to
    its own function."""
    cdef Py_ssize_t size = PyList_GET_SIZE(<object>value)
    cdef Py_ssize_t room = list_room(value)
    cdef PyObject** items = list_items(value)
    cdef Py_ssize_t i
    if size == 0 or free_list_counts[room] == FREE_LISTS_OF_SIZE:
        drop(value)
        return
    for i in range(size):
        if can_be_in_cycle(items[i]) and not is_dict(items[i]) and not is_list(items[i]):
            drop(value)
            return
    untrack(value)
    set_list_size(value, 0)
    for i in range(size):
        drop(items[i])  # other code may run
    items[0] = free_lists[room]
    free_lists[room] = value
    free_list_counts[room] += 1


cdef inline PyObject* take_list(Py_ssize_t size) noexcept:
    """An untracked list with room for so many items, to be set; NULL if none waits."""
    cdef PyObject* value
    if not FREE_PAYLOADS or size > FREE_LIST_ITEMS or free_lists[size] == NULL:
        return NULL
    value = free_lists[size]
    free_lists[size] = list_items(value)[0]
    free_list_counts[size] -= 1
    set_list_size(value, size)
    return value


cdef inline object made(PyObject* value):
    """A new reference as an object. Raises what is set if it is NULL."""
    return owned(value)


cdef inline int append_owned(list items, PyObject* value) except -1:
    """Append a new reference."""
    items.append(owned(value))
    return 0


cdef inline int check_raised() except? -1:
    """Raise the exception that a function of C set, if any."""
    return -1


cdef inline PyObject* held(value) noexcept:
    hold(<PyObject*>value)
    return <PyObject*>value


cdef inline bint can_be_in_cycle(PyObject* value) noexcept:
    return PyType_IS_GC(type_of(value))


cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Inlined wherever a message is made: a call of it costs a tenth of the smallest message. */
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_new_object(
        int, PyObject *, PyObject *, PyObject *, int);
    #endif
    """


cdef inline PyObject* new_object "jsonrpc_fast_new_object"(
    int kept, PyObject* first, PyObject* second, PyObject* third, bint tracked
) noexcept:
    """An object that takes over the references to its fields; NULL with an exception if there is no memory. third: NULL
    for a notification."""
    cdef MessageFields* fields = <MessageFields*>take_message(kept)
    if unlikely(fields == NULL):
        drop(first)
        drop(second)
        drop_if_any(third)
        return NULL
    fields.values[0] = first
    fields.values[1] = second
    if kept != NOTIFICATIONS:
        fields.values[2] = third
    if kept == RESPONSES:
        fields.made = True
    if tracked:
        track(&fields.head)
    return &fields.head


cdef object make_object(int kept, first, second, third):
    """As `new_object`, with new references. third: ignored for a notification."""
    return made(new_object(
        kept,
        held(first),
        held(second),
        NULL if kept == NOTIFICATIONS else held(third),
        can_be_in_cycle(<PyObject*>first) or can_be_in_cycle(<PyObject*>second) or can_be_in_cycle(<PyObject*>third),
    ))


# `params` may be freed at once: CPython bounds the depth of freeing dicts and lists, so the stack does not overflow.


cdef inline void clear_object(int kept, PyObject* value) noexcept:
    cdef MessageFields* fields = <MessageFields*>value
    drop_id(fields.values[0])
    drop_payload(fields.values[1])
    if kept != NOTIFICATIONS:
        drop_payload(fields.values[2])
    give_message(kept, value)


cdef void free_request(PyObject* value) noexcept:
    untrack(value)
    clear_object(REQUESTS, value)


cdef void free_notification(PyObject* value) noexcept:
    untrack(value)
    clear_object(NOTIFICATIONS, value)


cdef void clear_response(PyObject* value) noexcept:
    clear_object(RESPONSES, value)


cdef void clear_error(PyObject* value) noexcept:
    clear_object(ERRORS, value)


cdef inline bint is_bounded(PyObject* payload) noexcept:
    return not can_be_in_cycle(payload) or is_dict(payload) or is_list(payload)


cdef void free_response(PyObject* value) noexcept:
    untrack(value)
    if is_bounded((<MessageFields*>value).values[1]):
        clear_response(value)
    else:
        clear_deep(value, clear_response, free_response)


cdef void free_error(PyObject* value) noexcept:
    untrack(value)
    if is_bounded((<MessageFields*>value).values[2]):
        clear_error(value)
    else:
        clear_deep(value, clear_error, free_error)


# Calls of the class with an id and a result, as handlers make them. Other calls go to Cython's function, which allocates;
# those responses enter the free list, too, when they are freed.


cdef object call_response(PyObject* type, PyObject** arguments, size_t flags, PyObject* names):
    if names != NULL or PyVectorcall_NARGS(flags) != 2:
        return slow_response(type, arguments, flags, names)
    check_id(<object>arguments[0])
    check_result(<object>arguments[1])
    return make_object(RESPONSES, <object>arguments[0], <object>arguments[1], None)


cdef int use_free_list(int kept, type, Py_ssize_t fields, void (*release)(PyObject*) noexcept) except -1:
    cdef MessageClass* used = &message_classes[kept]
    used.type = <PyTypeObject*>type
    if used.type.tp_basicsize != sizeof(MessageFields) - (3 - fields + (kept != RESPONSES)) * sizeof(PyObject*):
        raise ImportError(f"{type.__name__} has another layout than the core was written for")
    used.make = used.type.tp_new
    used.fields = fields
    if uses_free_lists:  # else nothing is ever kept
        used.type.tp_dealloc = release
    return 0


use_free_list(REQUESTS, Request, 3, free_request)
use_free_list(NOTIFICATIONS, Notification, 2, free_notification)
use_free_list(RESPONSES, Response, 3, free_response)
use_free_list(ERRORS, Error, 3, free_error)
cdef Call slow_response = <Call>message_classes[RESPONSES].type.tp_vectorcall
if uses_free_lists and slow_response != NULL:
    message_classes[RESPONSES].type.tp_vectorcall = <vectorcallfunc>call_response
