# Passes over the device work of one rank, each in place of tens of calls of numpy: a part of
# `_passes.pyx`. `idle_causes.py`, `rank_facts.py` and `reductions.py` implement the same with sets
# of intervals and arrays, with full documentation and equal results.

ctypedef const int64_t[::1] Times

cdef enum:
    LAUNCH_CALL = 0
    LAUNCH_LATENCY = 1
    BETWEEN_KERNELS = 2
    DEPENDENCY = 3
    UNKNOWN = 4
    CAUSES = 5  # of gaps alone; what the host did before the others is split by `split_by_sets`

cdef enum:
    NUMBER = 0
    TOTAL = 1
    LONGEST_AT = 2
    LONGEST = 3


cdef struct _Sums:
    # Number, length, and start and length of the longest of the pieces of each kind; and by step.
    int64_t* sums
    int64_t* by_step
    const int64_t* start
    const int64_t* end
    Py_ssize_t steps
    Py_ssize_t step


cdef _Sums _sums_of(int64_t[:, ::1] sums, int64_t[:, ::1] by_step, Times start, Times end):
    """Places for the sums of pieces; the arrays live as long as their owner keeps them."""
    cdef _Sums found
    found.sums, found.step, found.steps = &sums[0, 0], 0, start.shape[0]
    found.by_step = &by_step[0, 0] if found.steps else NULL
    found.start = &start[0] if found.steps else NULL
    found.end = &end[0] if found.steps else NULL
    return found


cdef inline void _add(_Sums* to, Py_ssize_t kind, int64_t begin, int64_t until) noexcept nogil:
    """Add a piece; steps are disjoint and ascend."""
    cdef Py_ssize_t step = to.step
    cdef int64_t length = until - begin
    cdef int64_t* sums = to.sums + 4 * kind
    if length <= 0:
        return
    sums[NUMBER] += 1
    sums[TOTAL] += length
    if length > sums[LONGEST]:
        sums[LONGEST_AT] = begin
        sums[LONGEST] = length
    while step > 0 and to.end[step - 1] > begin:  # pieces of several kinds take turns
        step -= 1
    while step < to.steps and to.end[step] <= begin:
        step += 1
    to.step = step
    while step < to.steps and to.start[step] < until:
        to.by_step[kind * to.steps + step] += min(until, to.end[step]) - max(begin, to.start[step])
        step += 1


def idle_by_cause(idle, work, pieces, calls, steps, int64_t never, int64_t short, int64_t late):
    """Sums of the idle times by cause, and the times before late launches.

    Args:
        idle: starts and ends of idle times, disjoint and in order, as are those of all sets here.
        work: starts and ends of device work.
        pieces: starts of device events in order, and the row of the call that launched each.
        calls: starts and durations of calls that launch.
        steps: starts and ends of steps.
        never: launch of work without a launch record.
        short: longest gap between kernels.
        late: from this time on a call that launches, or a start after it, is late.

    Returns:
        Sums [cause, 4], the same by step [cause, step], starts and ends of the times before late
        launches, and gaps with a launch record: number and ns, and of late ones number and ns.
    """
    cdef Times idle_start, idle_end, work_start, work_end, begun, call_start, call_ns
    cdef const int32_t[::1] launch
    (idle_start, idle_end), (work_start, work_end) = idle, work
    (begun, launch), (call_start, call_ns) = pieces, calls
    cdef Py_ssize_t gap, after = 0, piece = 0, same, looked_at = -1, count = 0
    cdef int32_t row = -1
    cdef int64_t first, last, start, end, launched, returned
    cdef bint in_long_call, is_queued
    found, by_step = np.zeros((CAUSES, 4), np.int64), np.zeros((CAUSES, len(steps[0])), np.int64)
    counts = np.zeros(4, np.int64)
    starts, ends = np.empty((2, len(idle_start)), np.int64)
    cdef _Sums sums = _sums_of(found, by_step, steps[0], steps[1])
    cdef int64_t[::1] known = counts
    cdef int64_t[::1] before_start = starts
    cdef int64_t[::1] before_end = ends
    with nogil:
        for gap in range(idle_start.shape[0]):
            first, last = idle_start[gap], idle_end[gap]
            while after < work_end.shape[0] and work_end[after] <= first:
                after += 1
            start = work_end[after - 1] if after else first
            end = last
            if after < work_start.shape[0]:
                end = work_start[after]
                if looked_at != after:
                    looked_at, row = after, -1  # idle times before one work have one launch
                    while piece < begun.shape[0] and begun[piece] < end:
                        piece += 1
                    same = piece
                    while same < begun.shape[0] and begun[same] == end:
                        row = max(row, launch[same])
                        same += 1
            else:
                row = -1
            if row < 0 or call_start[row] == never:
                _add(&sums, UNKNOWN, first, last)
                continue
            launched = call_start[row]
            returned = launched + call_ns[row]
            known[0] += 1
            known[1] += last - first
            if launched <= start:
                _add(&sums, BETWEEN_KERNELS if end - start <= short else DEPENDENCY, first, last)
                continue
            known[2] += 1
            known[3] += last - first
            launched = min(launched, end)
            returned = min(max(returned, launched), end)
            in_long_call, is_queued = returned - launched >= late, end - returned >= late
            if first < min(launched, last):
                before_start[count], before_end[count] = first, min(launched, last)
                count += 1
            if in_long_call:
                _add(&sums, LAUNCH_CALL, max(launched, first), min(returned, last))
            if is_queued:
                _add(&sums, DEPENDENCY, max(returned, first), last)
            if not (in_long_call and is_queued):
                _add(
                    &sums,
                    LAUNCH_LATENCY,
                    max(returned if in_long_call else launched, first),
                    min(returned, last) if is_queued else last,
                )
    return found, by_step, (starts[:count], ends[:count]), counts


def split_by_sets(times, sets, markers, steps):
    """Sums of the parts of times in each set that are in none before it, and of the rest.

    Args:
        times: starts and ends, disjoint and in order, as those of each set.
        sets: starts and ends of each set.
        markers: starts and ends; the rest is split in what is inside of them and what is not.
        steps: starts and ends of steps.

    Returns:
        Sums [set, 4] and the same by step [set, step]; the last two rows are inside of the markers
        and outside of them.
    """
    cdef Times start, end
    start, end = times
    cdef Py_ssize_t number = len(sets), every = len(sets) + 1, chosen, one, place
    bounds = np.array([0, *np.cumsum([len(first) for first, _ in (*sets, markers)])], np.int64)
    cdef Times set_start = np.concatenate([first for first, _ in (*sets, markers)])
    cdef Times set_end = np.concatenate([last for _, last in (*sets, markers)])
    cdef Times stop = bounds
    cdef int64_t[::1] at = bounds[: number + 1].copy()  # the first interval of each that has not ended
    cdef int64_t moment, until
    found = np.zeros((every + 1, 4), np.int64)
    by_step = np.zeros((every + 1, len(steps[0])), np.int64)
    cdef _Sums sums = _sums_of(found, by_step, steps[0], steps[1])
    with nogil:
        for place in range(start.shape[0]):
            moment = start[place]
            while moment < end[place]:
                until, chosen = end[place], -1
                for one in range(every):
                    while at[one] < stop[one + 1] and set_end[at[one]] <= moment:
                        at[one] += 1
                    if at[one] == stop[one + 1] or set_start[at[one]] >= until:
                        continue
                    if set_start[at[one]] <= moment:
                        until, chosen = min(until, set_end[at[one]]), one
                        break
                    until = set_start[at[one]]
                _add(&sums, every if chosen < 0 else chosen, moment, until)
                moment = until
    return found, by_step


cdef enum:
    KINDS = 4
    STATES = 16
    CLASSES = 3


def device_sums(work, windows, int64_t[:, ::1] named, int64_t[:, ::1] of_kind, int64_t[:, ::1] states):
    """Add up device work by name and class and by kind, and the time of each combination of kinds.

    See ``rank_facts.py``.

    Args:
        work: starts in order, durations of at least 0, names, classes and kinds of device events.
        windows: starts and ends, disjoint and in order.
        named: of each name and class, events that start inside a window, and the durations of all
            inside of windows; zeros at first.
        of_kind: the same of each kind.
        states: time of each combination of kinds [window, state], likewise.

    Returns:
        Whether starts are in order; if not, the sums are none.
    """
    cdef Times begun, lasted, first, last
    cdef const int32_t[::1] name
    cdef const int8_t[::1] cls, kind
    begun, lasted, name, cls, kind = work
    first, last = windows
    cdef Py_ssize_t event, place, at = 0, now = 0, key, count = first.shape[0]
    cdef int state, one
    cdef int64_t moment = 0, until, end, before = INT64_MIN, inside
    cdef int64_t[KINDS] reach
    cdef bint is_ordered = True
    for one in range(KINDS):
        reach[one] = INT64_MIN
    with nogil:
        for event in range(begun.shape[0] + 1):
            until = begun[event] if event < begun.shape[0] else INT64_MAX
            if until < before:
                is_ordered = False
                break
            before = until
            while moment < until:  # what runs until the event begins
                end, state = until, 0
                for one in range(KINDS):
                    if reach[one] > moment:
                        state |= 1 << one
                        end = min(end, reach[one])
                if not state:
                    moment = until
                    break
                while now < count and last[now] <= moment:
                    now += 1
                place = now
                while place < count and first[place] < end:
                    states[place, state] += min(end, last[place]) - max(moment, first[place])
                    place += 1
                moment = end
            if event == begun.shape[0]:
                break
            moment, end = until, until + lasted[event]
            reach[kind[event]] = max(reach[kind[event]], end)
            while at < count and last[at] <= until:
                at += 1
            key = (<Py_ssize_t> name[event] + 1) * CLASSES + cls[event]
            if at < count and first[at] <= until:
                named[0, key] += 1
                of_kind[0, kind[event]] += 1
            place, inside = at, 0
            while place < count and first[place] < end:
                inside += min(end, last[place]) - max(until, first[place])
                place += 1
            named[1, key] += inside
            of_kind[1, kind[event]] += inside
    return is_ordered


def first_rows(Times keys, Times wanted, int64_t most):
    """See ``reductions.first_rows``; None where ids lie in a range of more than ``most``."""
    cdef Py_ssize_t row
    cdef int64_t low = INT64_MAX, high = -1
    found_array = np.empty(len(wanted), np.int32)
    cdef int32_t[::1] found = found_array
    with nogil:
        for row in range(keys.shape[0]):
            if keys[row] >= 0:
                low = min(low, keys[row])
                high = max(high, keys[row])
    if high < low:
        found_array.fill(-1)
        return found_array
    if <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    cdef int32_t[::1] row_of = np.full(high - low + 1, -1, np.int32)
    with nogil:
        for row in range(keys.shape[0] - 1, -1, -1):  # the first of several with one id
            if keys[row] >= 0:
                row_of[keys[row] - low] = <int32_t> row
        for row in range(wanted.shape[0]):
            found[row] = row_of[wanted[row] - low] if low <= wanted[row] <= high else -1
    return found_array


def value_at(const Number[::1] values, Py_ssize_t place):
    """The value at a place of the values in ascending order; see ``reductions.values_at``.

    Each pass counts the values in 65,536 parts of the range that holds the place.
    """
    cdef int64_t low = INT64_MAX, high = INT64_MIN, value
    cdef Py_ssize_t row
    cdef int shift
    cdef int64_t part
    cdef int64_t[::1] counts = np.empty(1 << 16, np.int64)
    with nogil:
        for row in range(values.shape[0]):
            value = values[row]
            low = min(low, value)
            high = max(high, value)
        while low < high:
            shift = 0
            while (<uint64_t> high - <uint64_t> low) >> shift >= 1 << 16:
                shift += 1
            counts[:] = 0
            for row in range(values.shape[0]):
                value = values[row]
                if low <= value <= high:
                    counts[(<uint64_t> value - <uint64_t> low) >> shift] += 1
            part = 0
            while place >= counts[part]:
                place -= counts[part]
                part += 1
            low += part << shift
            high = min(high, low + ((<int64_t> 1) << shift) - 1)
    return low
