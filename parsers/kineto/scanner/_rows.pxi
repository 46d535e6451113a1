# Growing column buffers of one group, and copies of them as arrays.
#
# Included by _scanner.pyx.

cdef struct Rows:
    int64_t *start
    int64_t *duration
    int64_t *correlation
    int64_t *external
    int64_t *size
    int32_t *name
    int32_t *category
    int32_t *track
    int32_t *args
    int32_t *extra
    int32_t *types
    int32_t *values
    int32_t *ordinal
    bint has_correlation  # whether any row differs from -1
    bint has_external
    bint has_size
    bint has_args
    bint has_extra
    bint has_types
    bint has_values
    Py_ssize_t used
    Py_ssize_t room


cdef int _grow(Rows *rows) except -1 nogil:
    cdef Py_ssize_t room = rows.room * 2 if rows.room else 256
    rows.start = <int64_t *>_reallocated(rows.start, room * 8)
    rows.duration = <int64_t *>_reallocated(rows.duration, room * 8)
    rows.correlation = <int64_t *>_reallocated(rows.correlation, room * 8)
    rows.external = <int64_t *>_reallocated(rows.external, room * 8)
    rows.size = <int64_t *>_reallocated(rows.size, room * 8)
    rows.name = <int32_t *>_reallocated(rows.name, room * 4)
    rows.category = <int32_t *>_reallocated(rows.category, room * 4)
    rows.track = <int32_t *>_reallocated(rows.track, room * 4)
    rows.args = <int32_t *>_reallocated(rows.args, room * 4)
    rows.extra = <int32_t *>_reallocated(rows.extra, room * 4)
    rows.types = <int32_t *>_reallocated(rows.types, room * 4)
    rows.values = <int32_t *>_reallocated(rows.values, room * 4)
    rows.ordinal = <int32_t *>_reallocated(rows.ordinal, room * 4)
    rows.room = room
    return 0


cdef void _free(Rows *rows) noexcept:
    free(rows.start)
    free(rows.duration)
    free(rows.correlation)
    free(rows.external)
    free(rows.size)
    free(rows.name)
    free(rows.category)
    free(rows.track)
    free(rows.args)
    free(rows.extra)
    free(rows.types)
    free(rows.values)
    free(rows.ordinal)


cdef object _copied_columns(Rows *rows):
    """Return copies of the columns that have values, by name, and empty the buffers."""
    columns = {
        "start_ns": _copy64(rows.start, rows.used),
        "dur_ns": _copy64(rows.duration, rows.used),
        "name": _copy32(rows.name, rows.used),
        "category": _copy32(rows.category, rows.used),
        "track": _copy32(rows.track, rows.used),
        "ordinal": _copy32(rows.ordinal, rows.used),
    }
    if rows.has_args:
        columns["args"] = _copy32(rows.args, rows.used)
    if rows.has_correlation:
        columns["correlation"] = _copy64(rows.correlation, rows.used)
    if rows.has_external:
        columns["external_id"] = _copy64(rows.external, rows.used)
    if rows.has_size:
        columns["bytes"] = _copy64(rows.size, rows.used)
    if rows.has_extra:
        columns["extra"] = _copy32(rows.extra, rows.used)
    if rows.has_types:
        columns["input_types"] = _copy32(rows.types, rows.used)
    if rows.has_values:
        columns["input_values"] = _copy32(rows.values, rows.used)
    rows.has_args = rows.has_correlation = rows.has_external = rows.has_size = False
    rows.has_extra = rows.has_types = rows.has_values = False
    rows.used = 0
    return columns


cdef void *_reallocated(void *old, Py_ssize_t size) except NULL nogil:
    cdef void *fresh = realloc(old, size)
    if fresh == NULL:
        _raise_memory_error()
    return fresh


cdef int _raise_memory_error() except -1 with gil:
    raise MemoryError


cdef object _copy64(int64_t *values, Py_ssize_t count):
    array = np.empty(count, np.int64)
    cdef int64_t[::1] view = array
    memcpy(&view[0], values, count * sizeof(int64_t))
    return array


cdef object _copy32(int32_t *values, Py_ssize_t count):
    array = np.empty(count, np.int32)
    cdef int32_t[::1] view = array
    memcpy(&view[0], values, count * sizeof(int32_t))
    return array
