"""Compiled passes along what one rank did: the parts of its time, and what ended right before.

``activity.py`` and ``segments.py`` have the plain statements of both. The times that are asked for
are taken in order, and so are the events, which are sorted by start. Where two times are far apart,
a search finds the event of the next.
"""

cdef struct _Events:
    # Sorted by start; a column of one value has the step 0.
    const int64_t* start
    const int64_t* dur
    Py_ssize_t start_step
    Py_ssize_t dur_step
    Py_ssize_t count
    Py_ssize_t at  # the first that is not gone through
    int64_t longest


cdef _Events _events(const int64_t[:] start, const int64_t[:] dur, int64_t longest):
    cdef _Events found
    found.count, found.at, found.longest = start.shape[0], 0, longest
    found.start = found.dur = NULL
    found.start_step = found.dur_step = 0
    if found.count:
        found.start, found.start_step = &start[0], start.strides[0] // sizeof(int64_t)
        found.dur, found.dur_step = &dur[0], dur.strides[0] // sizeof(int64_t)
    return found


cdef inline int64_t _start(const _Events* events, Py_ssize_t row) noexcept nogil:
    return events.start[row * events.start_step]


cdef inline int64_t _end(const _Events* events, Py_ssize_t row) noexcept nogil:
    return events.start[row * events.start_step] + events.dur[row * events.dur_step]


cdef inline bint _skip(_Events* events, int64_t moment) noexcept nogil:
    """Skip the events that ended before a moment, as far as their starts tell; whether there are any."""
    cdef Py_ssize_t low = events.at, high = events.count, middle, step = 1
    moment -= events.longest
    if low == high or _start(events, low) >= moment:
        return False
    while low + step < high and _start(events, low + step) < moment:
        low += step
        step *= 2
    high = min(low + step, high)
    low += 1
    while low < high:
        middle = (low + high) // 2
        if _start(events, middle) < moment:
            low = middle + 1
        else:
            high = middle
    events.at = low
    return True


cdef struct _End:
    int64_t moment
    int64_t row


cdef struct _Running:
    # Ends of what has begun, as a heap with the first end on top.
    _End* ends
    Py_ssize_t count


cdef inline bint _is_before(_End one, _End other) noexcept nogil:
    return one.moment < other.moment or (one.moment == other.moment and one.row < other.row)


cdef inline void _push(_Running* running, int64_t moment, int64_t row) noexcept nogil:
    cdef _End added
    cdef Py_ssize_t place = running.count, above
    added.moment, added.row = moment, row
    running.count += 1
    while place:
        above = (place - 1) // 2
        if not _is_before(added, running.ends[above]):
            break
        running.ends[place] = running.ends[above]
        place = above
    running.ends[place] = added


cdef inline _End _pop(_Running* running) noexcept nogil:
    cdef _End first = running.ends[0], moved
    cdef Py_ssize_t place = 0, below = 1
    running.count -= 1
    moved = running.ends[running.count]
    while below < running.count:
        if below + 1 < running.count and _is_before(running.ends[below + 1], running.ends[below]):
            below += 1
        if not _is_before(running.ends[below], moved):
            break
        running.ends[place] = running.ends[below]
        place, below = below, 2 * below + 1
    running.ends[place] = moved
    return first


cdef inline _Running _none_running(int64_t[::1] room):
    cdef _Running found
    found.ends, found.count = <_End*> &room[0], 0
    return found


def ended_right_before(times, order, calls, work, int64_t soon):
    """Row of the call that ended last before each time, int64 [t]; -1 where something came between.

    See ``Activity.ended_before``. ``order`` sorts the times; ``calls`` are start, duration and the
    longest duration, ``work`` likewise, with the class of each piece and that of computation.
    """
    cdef const int64_t[:] moments = times
    cdef const int64_t[::1] places = order
    cdef const int8_t[:] kind = work[3]
    cdef int8_t wanted = work[4]
    cdef _Events collectives = _events(calls[0], calls[1], calls[2])
    cdef _Events pieces = _events(work[0], work[1], work[2])
    cdef int64_t[::1] room = np.empty(2 * collectives.count + 2, np.int64)
    cdef int64_t[::1] more_room = np.empty(2 * pieces.count + 2, np.int64)
    cdef _Running open_calls = _none_running(room), open_pieces = _none_running(more_room)
    cdef _End last, computed
    cdef int64_t moment
    cdef Py_ssize_t place, nth
    found_array = np.empty(len(times), np.int64)
    cdef int64_t[::1] found = found_array
    last.moment = computed.moment = INT64_MIN
    last.row = -1
    with nogil:
        for nth in range(places.shape[0]):
            place = places[nth]
            moment = moments[place]
            _skip(&collectives, moment - soon)
            _skip(&pieces, moment - soon)
            while collectives.at < collectives.count and _start(&collectives, collectives.at) <= moment:
                _push(&open_calls, _end(&collectives, collectives.at), collectives.at)
                collectives.at += 1
            while open_calls.count and open_calls.ends[0].moment <= moment:
                last = _pop(&open_calls)
            while pieces.at < pieces.count and _start(&pieces, pieces.at) <= moment:
                if kind[pieces.at] == wanted:
                    _push(&open_pieces, _end(&pieces, pieces.at), pieces.at)
                pieces.at += 1
            while open_pieces.count and open_pieces.ends[0].moment <= moment:
                computed = _pop(&open_pieces)
            found[place] = -1
            if last.row >= 0 and moment - last.moment <= soon and last.moment > computed.moment:
                found[place] = last.row
    return found_array


cdef enum:
    # Rows of the result; see ``segments.KINDS``
    OWN = 0
    COMPUTE = 1
    OTHER = 2
    COPIES = 3
    RULED = 4  # the first of the causes of ranges with a name
    BLOCKED = 10
    WORK = 11
    STALL = 12
    ALL_COMPUTE = 13
    ALL_COPIES = 14
    KINDS = 15
    # Calls
    FOREIGN = 1
    AWAITED = 2


cdef struct _Host:
    bint is_wanted
    bint is_known
    _Events operations[2]
    _Running running
    int64_t boundary  # the last begin or end of an operation, INT64_MIN before the first
    const int64_t* ruled_start
    const int64_t* ruled_end
    const int64_t* ruled_cause
    Py_ssize_t ruled_count
    Py_ssize_t ruled_at
    int64_t standstill
    int64_t first


cdef struct _Rank:
    _Events calls
    _Events work
    const int8_t* role
    Py_ssize_t role_step
    const int8_t* kind
    Py_ssize_t kind_step
    int8_t computes
    int8_t copies
    bint awaits_own
    bint awaits_other
    int64_t until[5]  # computation, copies, own, foreign and awaited calls last until then
    int64_t moment
    int64_t total[KINDS]
    _Host host


def parts_of_time(begin, end, order, calls, work, (bint, bint) awaits, hosts, int64_t standstill):
    """Time of each kind from ``begin`` to ``end``, int64 [kinds, t]; see ``segments.time_between``.

    ``order`` sorts the begins and, behind them, the ends. ``calls`` are start, duration, longest
    duration and role of each, ``work`` start, duration, longest duration and class, and the classes
    of computation and of copies. ``hosts`` returns what the host did, which is asked for where the
    device is idle, None where nobody asks for idle time: two groups of operations (start, duration,
    longest), the ranges of causes by name (start, end, row of the result), and the first time that
    is known of.
    """
    cdef const int64_t[:] since = begin, until = end
    cdef const int64_t[::1] places = order
    cdef const int8_t[:] role = calls[3], kind = work[3]
    cdef Py_ssize_t nth, place, count = since.shape[0], number, open_spans = 0
    cdef int64_t moment, sign
    cdef bint is_asked
    cdef _Rank rank
    found_array = np.zeros((KINDS, len(begin)), np.int64)
    cdef int64_t[:, ::1] found = found_array
    cdef int8_t[::1] is_open = np.zeros(count + 1, np.int8)
    rank.calls = _events(calls[0], calls[1], calls[2])
    rank.work = _events(work[0], work[1], work[2])
    rank.role = rank.kind = NULL
    rank.role_step = rank.kind_step = 0
    if rank.calls.count:
        rank.role, rank.role_step = &role[0], role.strides[0]
    if rank.work.count:
        rank.kind, rank.kind_step = &kind[0], kind.strides[0]
    rank.computes, rank.copies = work[4], work[5]
    rank.awaits_own, rank.awaits_other = awaits
    rank.moment = INT64_MIN
    rank.host.is_wanted, rank.host.is_known = hosts is not None, False
    rank.host.standstill = standstill
    for number in range(5):
        rank.until[number] = INT64_MIN
    for number in range(KINDS):
        rank.total[number] = 0
    kept = None
    nth = 0
    while nth < places.shape[0]:
        with nogil:
            is_asked = False
            while nth < places.shape[0]:
                place = places[nth] if places[nth] < count else places[nth] - count
                sign = -1 if places[nth] < count else 1
                moment = since[place] if sign < 0 else until[place]
                if not open_spans:
                    rank.moment = moment
                    _skip(&rank.calls, moment)
                    _skip(&rank.work, moment)
                elif not _go_to(&rank, moment):
                    is_asked = True
                    break
                for number in range(KINDS):
                    found[number, place] += sign * rank.total[number]
                open_spans += -1 if is_open[place] else 1
                is_open[place] = 1
                nth += 1
        if is_asked:
            kept = hosts()
            _know(&rank.host, kept)
            kept = kept, _make_room(&rank.host)
    return found_array


cdef object _know(_Host* host, given):
    """Take what the host did; the arrays must live as long."""
    cdef const int64_t[::1] start, end, cause
    cdef int number
    operations, (start, end, cause), first = given
    for number in range(2):
        begun, lasted, longest = operations[number]
        host.operations[number] = _events(begun, lasted, longest)
    host.ruled_start = host.ruled_end = host.ruled_cause = NULL
    host.ruled_count, host.ruled_at = start.shape[0], 0
    if host.ruled_count:
        host.ruled_start, host.ruled_end, host.ruled_cause = &start[0], &end[0], &cause[0]
    host.boundary = INT64_MIN
    host.first, host.is_known = first, True


cdef object _make_room(_Host* host):
    """Return memory for the ends of all operations, which must live as long."""
    cdef int64_t[::1] room = np.empty(
        2 * (host.operations[0].count + host.operations[1].count) + 2, np.int64
    )
    host.running = _none_running(room)
    return room


cdef bint _go_to(_Rank* rank, int64_t moment) noexcept nogil:
    """Add the time up to a moment; False where the device is idle and the host is not known."""
    cdef int64_t now, next, length, ends
    cdef int8_t what
    cdef int number
    cdef bint computes, copies, own, foreign, awaited, is_own
    while rank.moment < moment:
        now = rank.moment
        while rank.calls.at < rank.calls.count and _start(&rank.calls, rank.calls.at) <= now:
            what = rank.role[rank.calls.at * rank.role_step]
            ends = _end(&rank.calls, rank.calls.at)
            number = 3 if what & FOREIGN else 2
            rank.until[number] = max(rank.until[number], ends)
            if what & AWAITED:
                rank.until[4] = max(rank.until[4], ends)
            rank.calls.at += 1
        while rank.work.at < rank.work.count:
            what = rank.kind[rank.work.at * rank.kind_step]
            if what == rank.computes or what == rank.copies:
                if _start(&rank.work, rank.work.at) > now:
                    break
                number = 0 if what == rank.computes else 1
                rank.until[number] = max(rank.until[number], _end(&rank.work, rank.work.at))
            rank.work.at += 1
        next = moment
        if rank.calls.at < rank.calls.count:
            next = min(next, _start(&rank.calls, rank.calls.at))
        if rank.work.at < rank.work.count:
            next = min(next, _start(&rank.work, rank.work.at))
        for number in range(5):
            if rank.until[number] > now:
                next = min(next, rank.until[number])
        length = next - now
        computes, copies = rank.until[0] > now, rank.until[1] > now
        own, foreign, awaited = rank.until[2] > now, rank.until[3] > now, rank.until[4] > now
        if not (computes or copies or own or foreign):
            if rank.host.is_wanted:
                if not rank.host.is_known:
                    return False
                _add_idle(&rank.host, &rank.total[0], now, next)
            rank.moment = next
            continue
        if computes:
            rank.total[ALL_COMPUTE] += length
            if not awaited:
                rank.total[COMPUTE] += length
        if copies:
            rank.total[ALL_COPIES] += length
            if not (computes or own or foreign):
                rank.total[COPIES] += length
        is_own = awaited if rank.awaits_own else own and not (awaited or computes)
        if is_own:
            rank.total[OWN] += length
        if (foreign and not (awaited or computes or is_own)) or (awaited and rank.awaits_other):
            rank.total[OTHER] += length
        rank.moment = next
    return True


cdef void _add_idle(_Host* host, int64_t* total, int64_t begin, int64_t end) noexcept nogil:
    """Add an idle time of the device, by what the host did."""
    cdef int64_t now = begin, next, following
    cdef int number
    cdef _Events* operations
    cdef bint is_skipped = False
    # What is further back makes no standstill at these times shorter.
    for number in range(2):
        is_skipped |= _skip(&host.operations[number], begin - host.standstill - 1)
    if is_skipped:
        host.boundary = max(host.boundary, begin - host.standstill - 1)
    while now < end:
        following = INT64_MAX
        for number in range(2):
            operations = &host.operations[number]
            while operations.at < operations.count and _start(operations, operations.at) <= now:
                host.boundary = max(host.boundary, _start(operations, operations.at))
                _push(&host.running, _end(operations, operations.at), 0)
                operations.at += 1
            if operations.at < operations.count:
                following = min(following, _start(operations, operations.at))
        while host.running.count and host.running.ends[0].moment <= now:
            host.boundary = max(host.boundary, _pop(&host.running).moment)
        if host.running.count:
            following = min(following, host.running.ends[0].moment)
        next = min(end, following)
        while host.ruled_at < host.ruled_count and host.ruled_end[host.ruled_at] <= now:
            host.ruled_at += 1
        if host.ruled_at < host.ruled_count and host.ruled_start[host.ruled_at] <= now:
            next = min(next, host.ruled_end[host.ruled_at])
            total[host.ruled_cause[host.ruled_at]] += next - now
            now = next
            continue
        if host.ruled_at < host.ruled_count:
            next = min(next, host.ruled_start[host.ruled_at])
        if not host.running.count:
            total[STALL] += max(next - max(now, host.first), 0)
        elif host.boundary > INT64_MIN and following - host.boundary >= host.standstill:
            total[BLOCKED] += next - now
        else:
            total[WORK] += next - now
        now = next
