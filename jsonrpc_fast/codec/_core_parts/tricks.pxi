"""The tricks that rest on how CPython lays out its objects, in one table.

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
    #if defined(Py_GIL_DISABLED)
    #define JSONRPC_FAST_GIL 0
    #else
    #define JSONRPC_FAST_GIL 1
    #endif
    #if defined(Py_DEBUG)
    #define JSONRPC_FAST_DEBUG 1
    #else
    #define JSONRPC_FAST_DEBUG 0
    #endif
    #if JSONRPC_FAST_DEBUG || defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS)
    #define JSONRPC_FAST_COUNTED 1
    #else
    #define JSONRPC_FAST_COUNTED 0
    #endif

    /* Where each trick is compiled. Free lists need types whose slots may be set. */
    #define JSONRPC_FAST_FREE_LISTS (JSONRPC_FAST_KNOWN_LAYOUT && !CYTHON_USE_TYPE_SPECS)
    #define JSONRPC_FAST_FREE_PAYLOADS (JSONRPC_FAST_FREE_LISTS && JSONRPC_FAST_GIL && !JSONRPC_FAST_DEBUG)
    #define JSONRPC_FAST_TEMPLATES (JSONRPC_FAST_KNOWN_LAYOUT && !JSONRPC_FAST_COUNTED)
    #define JSONRPC_FAST_COPIED_HEADERS (JSONRPC_FAST_KNOWN_LAYOUT && JSONRPC_FAST_GIL && !JSONRPC_FAST_DEBUG)
    #define JSONRPC_FAST_KEPT_UTF8 (JSONRPC_FAST_KNOWN_LAYOUT && JSONRPC_FAST_GIL)
    #define JSONRPC_FAST_OWN_CALLS 1

    /* The table: a trick, and its name for people. */
    #define JSONRPC_FAST_TRICKS(ROW) \\
        ROW(FREE_LISTS, "messages that wait") \\
        ROW(FREE_PAYLOADS, "ints and lists that wait") \\
        ROW(TEMPLATES, "dicts from templates") \\
        ROW(COPIED_HEADERS, "copied headers") \\
        ROW(KEPT_UTF8, "kept UTF-8") \\
        ROW(OWN_CALLS, "own calls")

    #define JSONRPC_FAST_ROW(trick, name) {name, JSONRPC_FAST_##trick},
    #define JSONRPC_FAST_PLACE(trick, name) jsonrpc_fast_place_##trick,
    struct jsonrpc_fast_trick { const char *name; int is_used; };
    static struct jsonrpc_fast_trick jsonrpc_fast_tricks[] = {JSONRPC_FAST_TRICKS(JSONRPC_FAST_ROW)};
    enum { JSONRPC_FAST_TRICKS(JSONRPC_FAST_PLACE) jsonrpc_fast_trick_count };
    #define jsonrpc_fast_uses(trick) (jsonrpc_fast_tricks[jsonrpc_fast_place_##trick].is_used)

    static int jsonrpc_fast_has_begun = 0;
    """
    ctypedef struct Trick "struct jsonrpc_fast_trick":
        const char* name
        bint is_used
    Trick* trick_table "jsonrpc_fast_tricks"
    int trick_count "jsonrpc_fast_trick_count"
    bint uses_free_lists "jsonrpc_fast_uses(FREE_LISTS)"
    bint uses_templates "jsonrpc_fast_uses(TEMPLATES)"
    bint has_module_begun "jsonrpc_fast_has_begun"


cdef int begin_module() except -1:
    global has_module_begun
    if has_module_begun:
        raise ImportError("an earlier import of the core in this process did not end: start the process again to use it")
    has_module_begun = True
    if is_set("JSONRPC_FAST_PLAIN"):
        for place in range(trick_count):
            trick_table[place].is_used = False
    return 0


begin_module()


def tricks():
    """Return the tricks that rest on the layout of CPython's objects, and whether each is in use."""
    return {trick_table[place].name.decode(): trick_table[place].is_used for place in range(trick_count)}
