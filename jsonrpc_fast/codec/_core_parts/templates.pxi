"""Dicts made from templates: if the same names come in the same order again, the key table is copied.

A dict of CPython is an object and a key table: a header, an index by hash, and the entries, which are pairs of name and
value in the order of insertion. To fill the table name by name costs more than all else that reading a small object
does. A *template* is a dict of the same names whose values are None. A dict like it (`dict_like`) gets a table of its
own, with the header and the index of the template's, and the new names and values as entries; the table then replaces
that of a new, empty dict. No other code runs in between, so no code sees an incomplete dict.

What this relies on in CPython:
  - The fields of a dict (`ma_used`, `ma_keys`, `ma_values`), which its header files declare.
  - The header of a key table (`KeyTable`), an index of one byte for each place in tables of up to 2**6 places, and the
    entries after it.
  - A table with str keys alone (`dk_kind`) has entries of two pointers, without the hash.
  - A dict made by insertion alone has its entries in order and without gaps; where they are in the index depends only on
    their hashes and this order.
  - The smallest table has 2**3 places.
  - The allocator of tables (`jsonrpc_fast_new_table`): that of objects up to 3.12, `PyMem_Malloc` from 3.13 on. CPython
    frees a table with it, or keeps one of 2**3 places with str keys for another dict. PYTHONMALLOC=debug shows a wrong one.
  - A new dict has the shared table of empty dicts, whose references are counted up to Python 3.11.
  - The keys of a dict that no other code has seen have no version.
CPython sets everything else, such as the version of the dict; a new dict has no watchers. A dict that can be part of a
cycle is tracked by the garbage collector, as one made by insertion.

CPython 3.11 to 3.14 have this layout, also without the GIL: the lock of a table is then in a byte that is otherwise
unused, and a dict that no other thread has seen yet is filled as with the GIL. There are none in debug builds, which
count all references. At import, `can_make_templates`
compares dicts made from templates with dicts made by insertion; `has_known_layout` checks each new template. If anything
differs, all dicts are made by insertion.

A template is found by the addresses of its names: a name of the cache (`name_at`) has one address. Their hash chooses
four places, and each address is compared. A template owns its names, so no other str can have their addresses. A *shape* is
names and their order; a template is made of a shape that is missed twice, without a miss between that takes its place in
`missed`. It takes the first of its places; the others move on, and the oldest is dropped.
A shape gets no template if it has a name that is not cached, or a name that comes twice: insertion keeps the last value.

Memory is bounded by the number of places: at most 5 MB, if a peer sends thousands of shapes with MAX_NAMES long names
each. While shapes do not repeat, the search for them pauses.

A dict from a template is as large as one made by insertion into an empty dict. One whose shape has no template has room
for its names at once (`new_dict_for`), which is faster, and takes a third more memory from 6 names on.

Making a dict may start a garbage collection, which may run any code, and so call this module again. Only owned or local
values are used after it: the template has a reference of its own, the items are on the stack of the reader. A place in
the caches is set when its new template is complete.
"""

cdef extern from *:
    """
    #if JSONRPC_FAST_TEMPLATES
    #define jsonrpc_fast_table_of(value) ((struct jsonrpc_fast_key_table *)((PyDictObject *)(value))->ma_keys)
    #define jsonrpc_fast_has_values_apart(value) (((PyDictObject *)(value))->ma_values != NULL)
    static CYTHON_INLINE void jsonrpc_fast_set_table(PyObject *value, void *table, Py_ssize_t size) {
    #if PY_VERSION_HEX < 0x030C0000
        --*(Py_ssize_t *)((PyDictObject *)value)->ma_keys;
    #endif
        ((PyDictObject *)value)->ma_keys = (PyDictKeysObject *)table;
        ((PyDictObject *)value)->ma_used = size;
    }
    #else
    #define jsonrpc_fast_table_of(value) ((struct jsonrpc_fast_key_table *)NULL)
    #define jsonrpc_fast_has_values_apart(value) 1
    #define jsonrpc_fast_set_table(value, table, size) ((void)(table))
    #endif

    #if PY_VERSION_HEX < 0x030D0000
    #define jsonrpc_fast_new_table PyObject_Malloc
    #define jsonrpc_fast_forget_table PyObject_Free
    #else
    #define jsonrpc_fast_new_table PyMem_Malloc
    #define jsonrpc_fast_forget_table PyMem_Free
    #endif

    #if defined(__GNUC__)
    struct jsonrpc_fast_caches;
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_dict_like(PyObject *, PyObject **, Py_ssize_t);
    JSONRPC_FAST_INLINE PyObject *jsonrpc_fast_dict_from_template(
        struct jsonrpc_fast_caches *, PyObject **, Py_ssize_t);
    #endif
    """
    bint TEMPLATES "JSONRPC_FAST_TEMPLATES"
    KeyTable* table_of "jsonrpc_fast_table_of"(PyObject* items) noexcept
    bint has_values_apart "jsonrpc_fast_has_values_apart"(PyObject* items) noexcept
    void* new_table "jsonrpc_fast_new_table"(size_t size) noexcept
    void forget_table "jsonrpc_fast_forget_table"(void* table) noexcept
    # Give an empty dict another table.
    void set_table "jsonrpc_fast_set_table"(PyObject* items, void* table, Py_ssize_t size) noexcept

cdef extern from "Python.h":
    bint is_tracked "PyObject_GC_IsTracked"(PyObject* value) noexcept

cdef enum:
    FEW_NAMES = 5  # the smallest table has room for them
    MAX_NAMES = 32
    FEW_BITS = 3  # of the number of places in the smallest table
    MOST_BITS = 6  # of the number of places in a table for MAX_NAMES
    STR_KEYS = 1  # the `dk_kind` of a table
    TEMPLATE_PLACES = 1024  # a power of two, with room for the few hundred shapes of real traffic
    PLACES_OF_SHAPE = 4
    MAX_MISSES = 4096  # so many misses more than hits pause the search; fewer would pause it before all places are taken
    RETRIED_MISSES = 16  # after a pause
    TEMPLATE_MISSES = 4  # making a template costs as much as so many misses
    RESTED_DICTS = 4096


cdef struct KeyTable "jsonrpc_fast_key_table":
    # The header of a key table. The index follows, and then the entries.
    Py_ssize_t references
    uint8_t bits  # of the number of places in the index
    uint8_t index_bits  # of the size of the index in bytes
    uint8_t kind
    uint32_t version
    Py_ssize_t usable  # how many entries may be added
    Py_ssize_t count  # of entries


cdef struct Template:
    uint64_t shape  # the hash of its names, which is odd; 0: the place is free
    PyObject* items  # owned; NULL: insertion makes dicts of this shape


cdef struct Templates "jsonrpc_fast_templates":
    Template[TEMPLATE_PLACES] places
    uint64_t[TEMPLATE_PLACES] missed  # shapes without a template that came, by their hash, or 0
    uint64_t used_places  # a mask, as the next one: tests make shapes share places and hashes
    uint64_t used_bits
    Py_ssize_t most_misses
    Py_ssize_t misses
    Py_ssize_t dicts_to_rest  # how many are made by insertion without a search
    Py_ssize_t dicts_made


cdef inline PyObject** entries_of(KeyTable* table, int index_bits) noexcept:
    """The names and values of the entries, in turn."""
    return <PyObject**>(<uint8_t*>(table + 1) + (<size_t>1 << index_bits))


cdef bint has_known_layout(PyObject* template, PyObject** items, Py_ssize_t count) noexcept:
    """Whether a dict has the layout above, each second of `items` as its names, and None as each value."""
    cdef KeyTable* table = table_of(template)
    cdef PyObject** entries
    cdef Py_ssize_t i
    if has_values_apart(template) or table.references != 1 or table.kind != STR_KEYS or table.count != count:
        return False
    if table.version != 0:
        return False
    if table.bits > MOST_BITS or table.index_bits != table.bits or (table.bits == FEW_BITS) != (count <= FEW_NAMES):
        return False
    if table.count + table.usable != (<Py_ssize_t>2 << table.bits) // 3:
        return False
    entries = entries_of(table, table.bits)
    for i in range(0, 2 * count, 2):
        if entries[i] != items[i] or entries[i + 1] != NULL_VALUE:
            return False
    for i in range(2 * count, 2 * (table.count + table.usable)):
        if entries[i] != NULL:
            return False
    return True


cdef PyObject* new_template(PyObject** items, Py_ssize_t count) noexcept:
    """A template with each second of `items` as its names; None if this shape cannot have one; NULL if memory runs out."""
    cdef PyObject* template = new_dict()
    cdef Py_ssize_t i
    if template == NULL:
        clear_raised()
        return NULL
    for i in range(0, 2 * count, 2):
        if set_dict_item(template, items[i], NULL_VALUE) < 0:
            clear_raised()
            drop(template)
            return NULL
    untrack(template)  # so that no other code finds it
    if has_known_layout(template, items, count):
        return template
    drop(template)
    hold(NULL_VALUE)
    return NULL_VALUE


cdef inline PyObject* dict_like "jsonrpc_fast_dict_like"(
    PyObject* template, PyObject** items, Py_ssize_t size
) noexcept:
    """A dict of alternating names and values, which are those of the template.

    It takes over the references. NULL with an exception if memory runs out; the caller then keeps them.
    """
    cdef KeyTable* like = table_of(template)
    cdef bint is_small = like.bits == FEW_BITS
    cdef size_t small_bytes = sizeof(KeyTable) + (1 << FEW_BITS) + 2 * FEW_NAMES * sizeof(PyObject*)
    cdef size_t bytes = small_bytes
    cdef KeyTable* table
    cdef PyObject** values
    cdef PyObject* made
    cdef bint is_in_cycle = False
    cdef Py_ssize_t i
    if not likely(is_small):
        bytes = sizeof(KeyTable) + (<size_t>1 << like.bits) + 2 * (like.count + like.usable) * sizeof(PyObject*)
    table = <KeyTable*>new_table(bytes)
    if unlikely(table == NULL):
        set_no_memory()
        return NULL
    # The names are those of the template, and the entries that are free are zero.
    if likely(is_small):
        memcpy(table, like, small_bytes)
    else:
        memcpy(table, like, bytes)
    values = entries_of(table, like.bits) + 1
    for i in range(0, size, 2):
        values[i] = items[i + 1]
        is_in_cycle |= can_be_in_cycle(items[i + 1])
    made = new_dict()  # other code may run, and the template be dropped
    if unlikely(made == NULL):
        forget_table(table)
        return NULL
    set_table(made, table, size >> 1)
    if is_in_cycle and not is_tracked(made):
        track(made)
    return made


cdef PyObject* miss_template(
    Caches* caches, Template* place, uint64_t shape, PyObject** items, Py_ssize_t count
) noexcept:
    """Remember a shape without a template here, or make its template for the next dict. Returns NULL."""
    cdef Templates* templates = templates_in(caches)
    cdef uint64_t* missed = &templates.missed[shape >> 32 & (TEMPLATE_PLACES - 1)]
    cdef PyObject* template
    cdef PyObject* old
    cdef Py_ssize_t i
    templates.misses += 1
    if templates.misses >= templates.most_misses:
        templates.misses -= RETRIED_MISSES
        templates.dicts_to_rest = RESTED_DICTS
    if missed[0] != shape:
        missed[0] = shape
        return NULL
    for i in range(0, 2 * count, 2):
        if references_to(items[i]) < 2:
            return NULL  # it is not cached
    template = new_template(items, count)
    if template == NULL:
        return NULL
    if template == NULL_VALUE:
        drop(template)
        template = NULL
    templates.misses += TEMPLATE_MISSES
    old = place[PLACES_OF_SHAPE - 1].items
    memmove(place + 1, place, (PLACES_OF_SHAPE - 1) * sizeof(Template))
    missed[0] = 0
    place.shape = shape
    place.items = template
    drop_if_any(old)
    return NULL


cdef inline PyObject* dict_from_template "jsonrpc_fast_dict_from_template"(Caches* caches, PyObject** items, Py_ssize_t size) noexcept:
    """A dict of alternating names and values, which takes over the references.

    NULL without an exception if the dict is to be made by insertion; the caller then keeps the references.
    """
    cdef Templates* templates = templates_in(caches)
    cdef Py_ssize_t count = size >> 1
    cdef uint64_t shape = <uint64_t>count
    cdef Template* place
    cdef Template* found
    cdef PyObject* template
    cdef PyObject** entries
    cdef PyObject* made
    cdef Py_ssize_t i
    for i in range(0, size, 2):
        shape = (shape ^ <size_t>items[i]) * <uint64_t>0x9E3779B97F4A7C15
    place = &templates.places[(shape >> 54) & templates.used_places]
    shape = shape & templates.used_bits | 1
    found = place
    while found.shape != shape:
        found += 1
        if found == place + PLACES_OF_SHAPE:
            return miss_template(caches, place, shape, items, count)
    template = found.items
    if template == NULL:
        return NULL
    if unlikely(table_of(template).count != count):
        return miss_template(caches, place, shape, items, count)
    entries = entries_of(table_of(template), table_of(template).bits)
    for i in range(0, size, 2):
        if unlikely(entries[i] != items[i]):
            return miss_template(caches, place, shape, items, count)
    if templates.misses > 0:
        templates.misses -= 1
    made = dict_like(template, items, size)
    if unlikely(made == NULL):
        clear_raised()
        return NULL
    templates.dicts_made += 1
    return made


cdef inline PyObject* dict_of(Caches* caches, PyObject** items, Py_ssize_t size) noexcept:
    """A dict of alternating names and values, which takes over the references; NULL if memory runs out."""
    cdef Templates* templates = templates_in(caches)
    cdef PyObject* value
    cdef Py_ssize_t i
    if TEMPLATES and size <= 2 * MAX_NAMES and templates != NULL:
        if templates.dicts_to_rest > 0:
            templates.dicts_to_rest -= 1
        else:
            value = dict_from_template(caches, items, size)
            if value != NULL:
                return value
    value = new_dict_for(size >> 1)
    if value == NULL:
        return NULL
    for i in range(0, size, 2):
        if set_dict_item(value, items[i], items[i + 1]) < 0:
            drop(value)
            return NULL
    for i in range(size):
        drop(items[i])
    return value


cdef int note_state(list found, dict items) except -1:
    found.append((list(items.items()), items.__sizeof__()))
    return 0


cdef list states_of(dict items, list names):
    """The visible state of a dict, as it is and after changes of each kind."""
    cdef list found = []
    cdef int i
    note_state(found, items)
    note_state(found, items.copy())
    for name in names:
        found.append(items.get(name))
    found.append("no name" in items)
    items[names[0]] = names
    note_state(found, items)
    found.append(items.pop(names[0]))
    items[names[0]] = 0
    note_state(found, items)
    found.append(items.popitem())
    items.pop(names[1], None)
    note_state(found, items.copy())
    items |= {"no name": None, names[1]: 1}
    note_state(found, items)
    for i in range(2 * MAX_NAMES):
        items[i] = None
    note_state(found, items)
    items.clear()
    items[names[1]] = 2
    note_state(found, items)
    return found


cdef PyObject** held_items(PyObject** items, Py_ssize_t size) noexcept:
    cdef Py_ssize_t i
    for i in range(size):
        hold(items[i])
    return items


cdef bint are_made_dicts_real(int count, bint is_in_cycle) except -1:
    """Whether dicts made from a template look and behave as others do, and leak no references."""
    cdef PyObject* items[2 * MAX_NAMES]
    cdef PyObject* made
    cdef list names = []
    cdef dict real = {}
    cdef bint is_real = True
    cdef int i
    for i in range(count):
        name = f"name {i}"
        names.append(name)
        real[name] = [] if is_in_cycle and i == count - 1 else float(i)
        items[2 * i] = <PyObject*>name
        items[2 * i + 1] = <PyObject*>real[name]
    names.append("another name")  # `states_of` needs two
    owned_values = list(real.values())
    cdef Py_ssize_t before = references_to(items[0]) + references_to(items[2 * count - 1])
    cdef PyObject* template = new_template(items, count)
    if template == NULL:
        raise MemoryError
    owned_template = owned(template)
    if owned_template is None:
        return False
    expected = states_of(dict(real), names)
    for i in range(2):
        made = dict_like(template, held_items(items, 2 * count), 2 * count)
        if made == NULL:
            check_raised()
        # Only before they are changed: a collection may untrack a dict that needs no tracking any more.
        is_real = is_real and is_tracked(made) == is_tracked(<PyObject*>real)
        is_real = states_of(owned(made), names) == expected and is_real
    del owned_template, expected
    return is_real and before == references_to(items[0]) + references_to(items[2 * count - 1])


cdef bint can_make_templates() except -1:
    """Whether made dicts are like real ones, at the ends of all sizes of tables."""
    for count in (1, 2, FEW_NAMES, FEW_NAMES + 1, 10, 11, 21, 22, MAX_NAMES):
        if not are_made_dicts_real(count, False):
            return False
    # The values decide alone whether a dict is tracked.
    return are_made_dicts_real(1, True) and are_made_dicts_real(MAX_NAMES, True)


cdef bint HAS_TEMPLATES = uses_templates and can_make_templates()
uses_templates = HAS_TEMPLATES


cdef void forget_templates(Templates* templates) noexcept:
    cdef Template free_place
    cdef PyObject* old
    cdef int i
    free_place.shape = 0
    free_place.items = NULL
    for i in range(TEMPLATE_PLACES):
        old = templates.places[i].items
        templates.places[i] = free_place
        templates.missed[i] = 0
        drop_if_any(old)


cdef void set_templates(Templates* templates, Py_ssize_t places, int bits, Py_ssize_t misses_at_most) noexcept:
    templates.used_places = max(places, PLACES_OF_SHAPE) - PLACES_OF_SHAPE
    templates.used_bits = ~<uint64_t>0 >> (64 - bits) if bits > 0 else 0
    templates.most_misses = misses_at_most
    templates.misses = templates.dicts_made = 0
    templates.dicts_to_rest = 0 if HAS_TEMPLATES and places > 0 else PY_SSIZE_T_MAX


def _use_templates(Py_ssize_t places=TEMPLATE_PLACES, int bits=64, Py_ssize_t misses_at_most=MAX_MISSES):
    """Forget the templates, without the GIL those of this thread, and use so many places, a power of two from
    PLACES_OF_SHAPE on, and so many bits of a hash. For tests.

    places: 0 turns the templates off.
    misses_at_most: so many misses more than hits pause the search.
    Returns how many dicts were made from templates before; None on a Python without templates.
    """
    cdef Templates* templates = templates_in(caches_of_thread())
    cdef Py_ssize_t made
    if templates == NULL:
        raise MemoryError
    made = templates.dicts_made
    forget_templates(templates)
    set_templates(templates, places, bits, misses_at_most)
    return made if HAS_TEMPLATES else None
