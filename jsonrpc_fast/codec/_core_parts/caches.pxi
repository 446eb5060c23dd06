"""What the core keeps between calls: names, templates of dicts, and freed messages.

With the GIL, all threads use the same caches, at a fixed address. Without it, each thread has its own, which the dict of
the thread owns, so that threads share no memory that they write for each message.
"""

cdef struct Caches "jsonrpc_fast_caches":
    Name[NAME_PLACES] names
    Templates templates
    FreeMessages[KEPT_CLASSES] free

cdef extern from *:
    """
    #if !defined(Py_GIL_DISABLED)
    #define jsonrpc_fast_thread_caches ((struct jsonrpc_fast_caches *)NULL)
    #define jsonrpc_fast_set_thread_caches(caches) ((void)(caches))
    #else
    #if defined(_MSC_VER)
    static __declspec(thread) struct jsonrpc_fast_caches *jsonrpc_fast_thread_caches;
    #else
    static _Thread_local struct jsonrpc_fast_caches *jsonrpc_fast_thread_caches;
    #endif
    #define jsonrpc_fast_set_thread_caches(caches) (jsonrpc_fast_thread_caches = (caches))
    #endif
    """
    Caches* thread_caches "jsonrpc_fast_thread_caches"  # of this thread, or NULL
    void set_thread_caches "jsonrpc_fast_set_thread_caches"(Caches* caches) noexcept

cdef extern from "Python.h":
    PyObject* thread_state "PyThreadState_GetDict"()
    PyObject* new_capsule "PyCapsule_New"(void* pointer, const char* name, void (*release)(PyObject*) noexcept)
    void* capsule_pointer "PyCapsule_GetPointer"(PyObject* capsule, const char* name)
    void* new_memory "PyMem_RawCalloc"(size_t count, size_t size) noexcept
    void forget_memory "PyMem_RawFree"(void* memory) noexcept

cdef const char* CACHES_CAPSULE = b"jsonrpc_fast.codec._core.caches"
cdef str CACHES_KEY = "jsonrpc_fast.codec._core.caches"
cdef Caches process_caches  # with the GIL


cdef inline Caches* caches_of_thread() noexcept:
    """The caches of this thread; NULL if there is no memory for them."""
    if not FREE_THREADED:
        return &process_caches
    return thread_caches if thread_caches != NULL else try_make_caches()


cdef inline Caches* caches_in(Caches* caches) noexcept:
    """Caches that `caches_of_thread` returned: a constant with the GIL."""
    return caches if FREE_THREADED else &process_caches


cdef inline Templates* templates_in(Caches* caches) noexcept:
    """The templates in these caches, or NULL."""
    caches = caches_in(caches)
    return NULL if FREE_THREADED and caches == NULL else &caches.templates


cdef Caches* try_make_caches() noexcept:
    try:
        return make_caches()
    except MemoryError:
        pass
    return NULL


cdef Caches* make_caches() except? NULL:
    """Make the caches of this thread; NULL if the thread is about to end."""
    cdef PyObject* state = thread_state()
    cdef Caches* made
    if state == NULL:
        return NULL
    made = <Caches*>new_memory(1, sizeof(Caches))
    if made == NULL:
        raise MemoryError
    set_templates(&made.templates, TEMPLATE_PLACES, 64, MAX_MISSES)
    capsule = new_capsule(made, CACHES_CAPSULE, free_caches)
    if capsule == NULL:
        forget_memory(made)
        check_raised()
    owned_capsule = owned(capsule)
    set_thread_caches(made)
    (<dict>state)[CACHES_KEY] = owned_capsule
    return made


cdef void free_caches(PyObject* capsule) noexcept:
    """Free the caches of a thread that ends."""
    cdef Caches* found = <Caches*>capsule_pointer(capsule, CACHES_CAPSULE)
    cdef FreeMessages* free
    cdef int i
    if thread_caches == found:
        set_thread_caches(NULL)
    for i in range(NAME_PLACES):
        drop_if_any(found.names[i].text)
    forget_templates(&found.templates)
    for i in range(KEPT_CLASSES):
        free = &found.free[i]
        while free.count > 0:
            free.count -= 1
            delete_tracked(free.values[free.count])
    forget_memory(found)


_use_templates()
