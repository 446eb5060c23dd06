"""What the core does where threads run at the same time: on a Python without the GIL.

Rules:
  - Memory that is written is not shared: each thread has its own caches (`caches.pxi`).
  - Objects that every message refers to are immortal: counting references to one object makes threads wait for each other.
  - A list or a dict of the caller is locked while its items are read. CPython releases the lock while this thread waits,
    so that the rules for Python code that runs meanwhile hold for other threads, too. A container that only the locked
    one around it refers to needs no lock of its own (`Guard`), which would cost as much as two or three items.
  - The rules of a preset get their place when the core is imported. Those of other profiles are in a dict, which has its
    own lock. The tables of verdicts are filled atomically.
  - A `Reader` has a lock, so that no two threads are in it.
With the GIL, FREE_THREADED is False at compile time, and all of this compiles to nothing.
"""

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define JSONRPC_FAST_FREE_THREADED 1
    #define jsonrpc_fast_begin_section(value) Py_BEGIN_CRITICAL_SECTION(value)
    #define jsonrpc_fast_end_section() Py_END_CRITICAL_SECTION()
    #define jsonrpc_fast_begin_guard(section, value) PyCriticalSection_Begin(section, value)
    #define jsonrpc_fast_end_guard(section) PyCriticalSection_End(section)
    typedef PyCriticalSection jsonrpc_fast_section;

    /* Holds an object and returns 1 if its only reference is one of this thread, as
       PyUnstable_Object_IsUniquelyReferenced of CPython 3.14 says. Changes by other threads are then visible. */
    static CYTHON_INLINE int jsonrpc_fast_hold_single(PyObject *value) {
        if (_Py_atomic_load_uint32_relaxed(&value->ob_ref_local) != 1
            || _Py_atomic_load_uintptr_relaxed(&value->ob_tid) != _Py_ThreadId()
            || _Py_atomic_load_ssize_acquire(&value->ob_ref_shared) != 0)
            return 0;
        _Py_atomic_store_uint32_relaxed(&value->ob_ref_local, 2);
        return 1;
    }
    #define jsonrpc_fast_drop_single(value) _Py_atomic_store_uint32_relaxed(&(value)->ob_ref_local, 1)

    typedef struct {
        PyMutex mutex;
        uintptr_t holder; /* the thread that has it, or 0 */
    } jsonrpc_fast_lock;
    static CYTHON_INLINE int jsonrpc_fast_acquire(jsonrpc_fast_lock *lock) {
        uintptr_t thread = (uintptr_t)PyThread_get_thread_ident();
        if (_Py_atomic_load_uintptr_relaxed(&lock->holder) == thread)
            return 0;
        PyMutex_Lock(&lock->mutex);
        _Py_atomic_store_uintptr_relaxed(&lock->holder, thread);
        return 1;
    }
    static CYTHON_INLINE void jsonrpc_fast_release(jsonrpc_fast_lock *lock) {
        _Py_atomic_store_uintptr_relaxed(&lock->holder, 0);
        PyMutex_Unlock(&lock->mutex);
    }

    static void jsonrpc_fast_make_immortal(PyObject *value) {
    #if PY_VERSION_HEX >= 0x030F0000
        PyUnstable_SetImmortal(value);
    #else
        Py_SET_REFCNT(value, (Py_ssize_t)_Py_IMMORTAL_REFCNT_LOCAL + 1);
    #endif
    }

    /* A table that several threads fill: a page is complete before others see it, and a byte is 0 or final. */
    #define jsonrpc_fast_page_at(place) ((unsigned char *)_Py_atomic_load_ptr_acquire(place))
    #define jsonrpc_fast_byte_at(place) _Py_atomic_load_uint8_relaxed(place)
    #define jsonrpc_fast_set_byte(place, byte) _Py_atomic_store_uint8_relaxed(place, byte)
    static unsigned char *jsonrpc_fast_set_page(unsigned char **place, unsigned char *page) {
        void *found = NULL;
        if (_Py_atomic_compare_exchange_ptr(place, &found, page))
            return page;
        free(page);
        return (unsigned char *)found;
    }
    #else
    #define JSONRPC_FAST_FREE_THREADED 0
    #define jsonrpc_fast_page_at(place) (*(place))
    #define jsonrpc_fast_byte_at(place) (*(place))
    #define jsonrpc_fast_set_byte(place, byte) (*(place) = (byte))
    #define jsonrpc_fast_set_page(place, page) (*(place) = (page))
    #define jsonrpc_fast_begin_section(value) ((void)(value))
    #define jsonrpc_fast_end_section() ((void)0)
    #define jsonrpc_fast_begin_guard(section, value) ((void)(value))
    #define jsonrpc_fast_end_guard(section) ((void)0)
    #define jsonrpc_fast_hold_single(value) 0
    #define jsonrpc_fast_drop_single(value) ((void)(value))
    typedef char jsonrpc_fast_section;
    typedef char jsonrpc_fast_lock;
    #define jsonrpc_fast_acquire(lock) 1
    #define jsonrpc_fast_release(lock) ((void)0)
    #define jsonrpc_fast_make_immortal(value) ((void)(value))
    #endif

    /* The value in a dict as a new reference; NULL if it is missing, or with an exception. */
    #if PY_VERSION_HEX >= 0x030D0000
    static CYTHON_INLINE PyObject *jsonrpc_fast_value_in(PyObject *items, PyObject *name) {
        PyObject *value;
        PyDict_GetItemRef(items, name, &value);
        return value;
    }
    #else
    static CYTHON_INLINE PyObject *jsonrpc_fast_value_in(PyObject *items, PyObject *name) {
        PyObject *value = PyDict_GetItemWithError(items, name);
        Py_XINCREF(value);
        return value;
    }
    #endif
    """
    bint is_tuple "PyTuple_CheckExact"(PyObject* value)
    bint FREE_THREADED "JSONRPC_FAST_FREE_THREADED"
    # Both are in one block of code, with no other way out of it.
    void begin_section "jsonrpc_fast_begin_section"(PyObject* value) noexcept
    void end_section "jsonrpc_fast_end_section"() noexcept
    ctypedef struct Section "jsonrpc_fast_section":
        pass
    void begin_guard "jsonrpc_fast_begin_guard"(Section* section, PyObject* value) noexcept
    void end_guard "jsonrpc_fast_end_guard"(Section* section) noexcept
    bint hold_single "jsonrpc_fast_hold_single"(PyObject* value) noexcept
    void drop_single "jsonrpc_fast_drop_single"(PyObject* value) noexcept
    # Without the GIL other threads wait for a lock; the thread that has it gets False.
    ctypedef struct Lock "jsonrpc_fast_lock":
        pass
    bint acquire "jsonrpc_fast_acquire"(Lock* lock) noexcept
    void release "jsonrpc_fast_release"(Lock* lock) noexcept
    void set_immortal "jsonrpc_fast_make_immortal"(PyObject* value) noexcept
    PyObject* value_in "jsonrpc_fast_value_in"(PyObject* items, PyObject* name) except? NULL
    uint8_t* page_at "jsonrpc_fast_page_at"(uint8_t** place) noexcept
    uint8_t byte_at "jsonrpc_fast_byte_at"(uint8_t* place) noexcept
    void set_byte "jsonrpc_fast_set_byte"(uint8_t* place, uint8_t byte) noexcept
    uint8_t* set_page "jsonrpc_fast_set_page"(uint8_t** place, uint8_t* page) noexcept  # the page that is there then

cdef make_immortal(value):
    """Make an object that lives as long as the process immortal. Without effect with the GIL."""
    set_immortal(<PyObject*>value)
    return value


cdef int keep_presets() except -1:
    for profile in (*PRESETS.values(), JSONRPC):  # JSONRPC last: another preset may have the same place
        make_immortal(find_rules(make_immortal(profile), place_of(profile)))
    return 0


cdef int keep_shared_objects() except -1:
    """Make the objects that the calls of all threads use immortal, once all of them exist."""
    if not FREE_THREADED:
        return keep_presets()
    for shared in (
        *(ABSENT, UNSET, TRUNCATED, INVALID_FRAMING, MISSING_METHOD, ENUM_META, ENVELOPE_MEMBERS, ERROR_MEMBERS),
        *(EncodeError, JSONDecodeError),
        *(loads, dumps_unchecked, decode, parse, classify, decode_dict, encode, encode_dict),
        *(encode_request, encode_notification, encode_result, encode_error, Decoder, Decoder.feed),
    ):
        make_immortal(shared)
    for rule in RULES.values():
        make_immortal((<Rule>make_immortal(rule)).code)
    load_decimals(DECIMALS)  # later several threads could do that at once
    make_immortal(decimal_class)
    return keep_presets()


cdef extern from *:
    """
    #if defined(__GNUC__)
    struct jsonrpc_fast_output;
    struct jsonrpc_fast_guard;
    static __attribute__((noinline)) void jsonrpc_fast_renew_guard(
        struct jsonrpc_fast_output *, struct jsonrpc_fast_guard *);
    #endif
    """

cdef enum:
    # How other threads are kept from a container.
    NOT_KEPT  # it is a tuple that they may have
    SINGLE  # there was one reference to it
    LOCKED


cdef struct Guard "jsonrpc_fast_guard":
    # A container while it is written, without the GIL.
    PyObject* value
    Py_ssize_t breaks  # `Output.breaks` when no other thread could have reached it
    int state
    Section section


# No thread takes the first reference of its own to an object without the lock of the list or dict that has it, if the only
# reference is that one, made by another thread: CPython reads without a lock what is shared already. So a container with
# one reference needs no lock while the one around it is locked, or needs none, either. A lock is given up where this
# thread waits for another one or runs Python code: each such place is a *break*, after which the containers around it are
# locked before their next items are read. A tuple has no lock, and its items are taken without one.


cdef inline void open_guard(Output* output, Guard* guard, PyObject* value) noexcept:
    """Hold a container, and lock it if it needs that."""
    guard.value = value
    if output.is_guarded and hold_single(value):
        guard.state = SINGLE
        guard.breaks = output.breaks
        return
    hold(value)
    guard.state = NOT_KEPT
    renew_guard(output, guard)


cdef void renew_guard "jsonrpc_fast_renew_guard"(Output* output, Guard* guard) noexcept:
    """Lock a container that other threads may have reached."""
    output.is_guarded = not is_tuple(guard.value)
    if not output.is_guarded:
        guard.state = NOT_KEPT
    elif guard.state != LOCKED:
        output.breaks += 1
        begin_guard(&guard.section, guard.value)
        guard.state = LOCKED
    guard.breaks = output.breaks


cdef inline void close_guard(Output* output, Guard* guard, Guard* around) noexcept:
    """Give up a container, and lock the one around it if it needs that now. around: NULL for the outermost."""
    if guard.state == SINGLE and guard.breaks == output.breaks:
        drop_single(guard.value)
        return
    if guard.state == LOCKED:
        end_guard(&guard.section)
    drop(guard.value)
    if around != NULL:
        renew_guard(output, around)
    else:
        output.is_guarded = False
