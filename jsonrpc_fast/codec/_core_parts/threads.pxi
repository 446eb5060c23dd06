"""What the core does where threads run at the same time: on a Python without the GIL.

Rules:
  - What is written is not shared: each thread has a cache of names, and there are no free lists.
  - What every message refers to is immortal: threads that count the references to one object wait for each other.
  - A list or a dict of the caller is locked while its items are read. The lock is given up where this thread waits, so
    that what the core says about Python code that runs meanwhile holds for other threads, too.
  - The rules of a preset have their place when the core is imported, those of other profiles are in a dict, which has a
    lock of its own; the tables of verdicts are filled atomically.
  - A `Reader` has a lock, so that no two threads are in it.
With the GIL, FREE_THREADED is False when the core is compiled, and nothing of this is left.
"""

cdef extern from *:
    """
    struct jsonrpc_fast_name;

    #ifdef Py_GIL_DISABLED
    #define JSONRPC_FAST_FREE_THREADED 1
    #define jsonrpc_fast_begin_section(value) Py_BEGIN_CRITICAL_SECTION(value)
    #define jsonrpc_fast_end_section() Py_END_CRITICAL_SECTION()

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

    #if defined(_MSC_VER)
    static __declspec(thread) struct jsonrpc_fast_name *jsonrpc_fast_thread_names;
    #else
    static _Thread_local struct jsonrpc_fast_name *jsonrpc_fast_thread_names;
    #endif

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
    typedef char jsonrpc_fast_lock;
    #define jsonrpc_fast_acquire(lock) 1
    #define jsonrpc_fast_release(lock) ((void)0)
    #define jsonrpc_fast_make_immortal(value) ((void)(value))
    static struct jsonrpc_fast_name *jsonrpc_fast_thread_names;
    #endif

    /* The value in a dict as a new reference; NULL if there is none, or with an exception. */
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
    bint FREE_THREADED "JSONRPC_FAST_FREE_THREADED"
    # Both are in one block of code, with no other way out of it.
    void begin_section "jsonrpc_fast_begin_section"(PyObject* value) noexcept
    void end_section "jsonrpc_fast_end_section"() noexcept
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
    Name* thread_names "jsonrpc_fast_thread_names"  # of this thread, or NULL

cdef extern from "Python.h":
    PyObject* thread_state "PyThreadState_GetDict"()
    PyObject* new_capsule "PyCapsule_New"(void* pointer, const char* name, void (*release)(PyObject*) noexcept)
    void* capsule_pointer "PyCapsule_GetPointer"(PyObject* capsule, const char* name)
    void* new_memory "PyMem_RawCalloc"(size_t count, size_t size) noexcept
    void forget_memory "PyMem_RawFree"(void* memory) noexcept

cdef const char* NAMES_CAPSULE = b"jsonrpc_fast.codec._core.names"
cdef str NAMES_KEY = "jsonrpc_fast.codec._core.names"


cdef make_immortal(value):
    """Make an object that lives as long as the process immortal. Without effect with the GIL."""
    set_immortal(<PyObject*>value)
    return value


cdef void free_names(PyObject* capsule) noexcept:
    """Free the names of a thread that ends."""
    global thread_names
    cdef Name* found = <Name*>capsule_pointer(capsule, NAMES_CAPSULE)
    cdef int i
    if thread_names == found:
        thread_names = NULL
    for i in range(THREAD_NAME_PLACES):
        drop_if_any(found[i].text)
    forget_memory(found)


cdef Name* make_names() except? NULL:
    """Make the cache of this thread, which its dict owns; NULL if the thread is about to end."""
    global thread_names
    cdef PyObject* state = thread_state()
    cdef Name* made
    if state == NULL:
        return NULL
    made = <Name*>new_memory(THREAD_NAME_PLACES, sizeof(Name))
    if made == NULL:
        raise MemoryError
    capsule = new_capsule(made, NAMES_CAPSULE, free_names)
    if capsule == NULL:
        forget_memory(made)
        check_raised()
    owned_capsule = owned(capsule)
    thread_names = made
    (<dict>state)[NAMES_KEY] = owned_capsule
    return made


cdef int keep_presets() except -1:
    for profile in (*PRESETS.values(), JSONRPC):  # JSONRPC last: another preset may have the same place
        make_immortal(find_rules(make_immortal(profile), place_of(profile)))
    return 0


cdef int keep_shared_objects() except -1:
    """Make immortal what the calls of threads have in common, when all of it is made."""
    for shared in (
        *(ABSENT, UNSET, TRUNCATED, ENUM_META, ENVELOPE_MEMBERS, ERROR_MEMBERS, EncodeError, JSONDecodeError),
        *(loads, dumps_unchecked, decode, parse, classify, decode_dict, encode, encode_many, encode_dict),
        *(encode_request, encode_notification, encode_result, encode_error, respond, Decoder, Decoder.feed),
    ):
        make_immortal(shared)
    for rule in RULES.values():
        make_immortal((<Rule>make_immortal(rule)).code)
    if FREE_THREADED:
        load_decimals(DECIMALS)  # later several threads could do that at once
        make_immortal(decimal_class)
    return keep_presets()
