"""Compiled passes over the events of a device, some of which are of one class.

``interval_arrays.py`` implements the same in numpy.
"""


def union_of_class(
    const int64_t[:] start, const int64_t[:] dur, const int8_t[::1] kind, int8_t wanted
):
    """Union of the events of a class; None where the non-empty ones are not sorted by start."""
    cdef Py_ssize_t place, number = 0, count = -1
    cdef int64_t before = 0, end
    cdef bint is_sorted = True
    with nogil:
        for place in range(kind.shape[0]):
            number += kind[place] == wanted
    starts, ends = np.empty((2, number), np.int64)
    cdef int64_t[::1] first = starts
    cdef int64_t[::1] last = ends
    with nogil:
        for place in range(kind.shape[0]):
            if kind[place] != wanted or dur[place] <= 0:
                continue
            end = start[place] + dur[place]
            if count < 0 or start[place] > last[count]:
                count += 1
                first[count], last[count] = start[place], end
            elif start[place] < before:
                is_sorted = False
                break
            elif end > last[count]:
                last[count] = end
            before = start[place]
    return _cut(starts, ends, count + 1) if is_sorted else None


cdef struct _Covered:
    # A place in a set: intervals that have begun, and their length. Times are asked for that
    # nearly ascend, so that it moves by few intervals each time.
    const int64_t* start
    const int64_t* end
    Py_ssize_t count
    Py_ssize_t begun
    int64_t length


cdef inline int64_t _before(_Covered* here, int64_t moment) noexcept nogil:
    """Time that the set covers before a moment."""
    while here.begun < here.count and here.start[here.begun] <= moment:
        here.length += here.end[here.begun] - here.start[here.begun]
        here.begun += 1
    while here.begun and here.start[here.begun - 1] > moment:
        here.begun -= 1
        here.length -= here.end[here.begun] - here.start[here.begun]
    return here.length - max(here.end[here.begun - 1] - moment, 0) if here.begun else 0


def exposed_waits(Times start, Times end, waits, found):
    """Take what a set covers off the waits of one rank; see ``interval_arrays.py``."""
    cdef const int64_t[::1] begun, lasted, shortest, gap
    cdef int64_t[::1] exposed, beyond
    begun, lasted, shortest, gap = waits
    exposed, beyond = found
    cdef Py_ssize_t place
    cdef int64_t wait, alone, until, covered
    cdef _Covered arrival, last_but_one, last
    if not start.shape[0]:
        start = end = np.zeros(1, np.int64)  # of length 0: covers nothing
    arrival.start, arrival.end, arrival.count = &start[0], &end[0], start.shape[0]
    arrival.begun, arrival.length = 0, 0
    last_but_one = last = arrival
    with nogil:
        for place in range(begun.shape[0]):
            wait = lasted[place] - shortest[place]
            alone = min(gap[place], wait)
            until = begun[place] + wait
            covered = _before(&last, until)
            exposed[place] = wait - covered + _before(&arrival, begun[place])
            beyond[place] += alone - covered + _before(&last_but_one, until - alone)
