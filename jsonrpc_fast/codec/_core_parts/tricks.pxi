"""The tricks that rest on how CPython lays out its objects: whether they are in use, in one place.

Each is compiled only for versions of CPython whose layout is known, and where `JSONRPC_FAST_PLAIN=1` is set when the core
is imported, none is used. docs/core.md says what each relies on and gains.

The body of this module may run a second time in a process: if Ctrl-C interrupts an import that is tried again. Parts of
CPython would then be set to functions of the core already. So the second run refuses, and the pure backend is used.
"""

cdef extern from *:
    """
    #if CYTHON_COMPILING_IN_CPYTHON && PY_VERSION_HEX < 0x030F0000
    #define JSONRPC_FAST_KNOWN_LAYOUT 1
    #else
    #define JSONRPC_FAST_KNOWN_LAYOUT 0
    #endif
    #if JSONRPC_FAST_KNOWN_LAYOUT && !defined(Py_GIL_DISABLED) && !defined(Py_DEBUG)
    #define JSONRPC_FAST_COPIED_HEADERS 1
    #else
    #define JSONRPC_FAST_COPIED_HEADERS 0
    #endif
    #if JSONRPC_FAST_KNOWN_LAYOUT && !defined(Py_GIL_DISABLED)
    #define JSONRPC_FAST_KEPT_UTF8 1
    #else
    #define JSONRPC_FAST_KEPT_UTF8 0
    #endif
    static int jsonrpc_fast_has_begun = 0;
    static int jsonrpc_fast_uses_tricks = 0;
    """
    bint has_module_begun "jsonrpc_fast_has_begun"
    bint uses_tricks "jsonrpc_fast_uses_tricks"
    bint COPIED_HEADERS "JSONRPC_FAST_COPIED_HEADERS"
    bint KEPT_UTF8 "JSONRPC_FAST_KEPT_UTF8"


cdef int begin_module() except -1:
    global has_module_begun, uses_tricks
    if has_module_begun:
        raise ImportError("an earlier import of the core in this process did not end: start the process again to use it")
    has_module_begun = True
    uses_tricks = not is_set("JSONRPC_FAST_PLAIN")
    return 0


begin_module()
