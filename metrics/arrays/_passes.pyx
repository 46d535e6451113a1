# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled loops over operations, pieces of work and values.

``step_replay.py``, ``host_needs.py``, ``critical_path.py``, ``rank_steps.py``, ``idle_causes.py``,
``reductions.py`` and ``by_column.py`` implement the same in Python, with full documentation and
results that are equal to the bit. Indices in arguments are not checked against array bounds.
"""

from libc.math cimport NAN
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint64_t

import numpy as np

include "_device_time.pxi"

cdef enum:
    WAIT = 0
    POST = 1
    MARK = 2
    PUT_OFF = 3
    BEGIN = 4
    END = 5
    POST_ALONE = 6
    BEGIN_ALONE = 7


cdef class Queues:
    """First-in-first-out queues, one for each thing; nothing waits in two queues."""

    cdef int32_t[::1] head
    cdef int32_t[::1] tail
    cdef int32_t[::1] following

    def __init__(self, things, waiting):
        self.head = np.full(things + 1, -1, np.int32)
        self.tail = np.empty(things + 1, np.int32)
        self.following = np.empty(waiting + 1, np.int32)

    cdef void add(self, int32_t thing, int32_t who) noexcept nogil:
        self.following[who] = -1
        if self.head[thing] < 0:
            self.head[thing] = who
        else:
            self.following[self.tail[thing]] = who
        self.tail[thing] = who


cdef class Order:
    """See ``step_replay.py``: concatenated arrays of all ranks, those of rank r from ``offset[r]`` on."""

    cdef const int8_t[::1] kind
    cdef const int32_t[::1] which
    cdef const int32_t[::1] behind
    cdef const int32_t[::1] offset
    cdef const int32_t[::1] instance
    cdef const uint8_t[::1] waits
    cdef const int32_t[::1] first_member
    cdef const int32_t[::1] member
    cdef int32_t[::1] at
    cdef int32_t[::1] left
    cdef uint8_t[::1] ended
    cdef int32_t[::1] runnable
    cdef Py_ssize_t running
    cdef int32_t[::1] begun
    cdef Queues ranks_waiting
    cdef Queues calls_waiting
    cdef int8_t[::1] order_kind
    cdef int32_t[::1] order_rank
    cdef int32_t[::1] order_operation
    cdef int32_t[::1] order_which
    cdef Py_ssize_t count

    def __init__(
        self, kind, which, behind, offset, instance, waits, size, first_member, member
    ):
        calls, ranks = len(instance), len(offset) - 1
        self.kind, self.which, self.behind, self.offset = kind, which, behind, offset
        self.instance, self.waits = instance, waits
        self.first_member, self.member = first_member, member
        self.at = offset.copy()
        self.left = np.append(size, np.int32(0))
        self.ended = np.zeros(calls + 1, np.uint8)
        self.runnable = np.arange(ranks + 1, dtype=np.int32)
        self.running = ranks
        self.begun = np.empty(calls + 1, np.int32)
        self.ranks_waiting = Queues(calls, ranks)
        self.calls_waiting = Queues(calls, calls)
        room = len(kind) + int((behind >= 0).sum()) + len(size) + 1
        self.order_kind = np.empty(room, np.int8)
        self.order_rank = np.empty(room, np.int32)
        self.order_operation = np.empty(room, np.int32)
        self.order_which = np.empty(room, np.int32)
        self.count = 0

    def found(self):
        """Return the order of events; None where ranks wait for each other in a circle."""
        cdef Py_ssize_t rank
        with nogil:
            while self.running:
                self.running -= 1
                self.advance(self.runnable[self.running])
        for rank in range(self.offset.shape[0] - 1):
            if self.at[rank] < self.offset[rank + 1]:
                return None
        return (
            np.asarray(self.order_kind)[: self.count],
            np.asarray(self.order_rank)[: self.count],
            np.asarray(self.order_operation)[: self.count],
            np.asarray(self.order_which)[: self.count],
        )

    cdef void emit(self, int8_t kind, int32_t rank, int32_t operation, int32_t which) noexcept nogil:
        self.order_kind[self.count] = kind
        self.order_rank[self.count] = rank
        self.order_operation[self.count] = operation
        self.order_which[self.count] = which
        self.count += 1

    cdef void advance(self, int32_t rank) noexcept nogil:
        cdef int32_t at, kind, which
        for at in range(self.at[rank], self.offset[rank + 1]):
            kind, which = self.kind[at], self.which[at]
            if kind == WAIT and not self.ended[which]:
                self.ranks_waiting.add(which, rank)
                self.at[rank] = at
                return
            if kind == POST and self.behind[which] >= 0 and not self.ended[self.behind[which]]:
                self.emit(PUT_OFF, rank, at, which)
                self.calls_waiting.add(self.behind[which], which)
                continue
            self.emit(kind, rank, at, which)
            if kind == POST:
                self.begin(which)
        self.at[rank] = self.offset[rank + 1]

    cdef void begin(self, int32_t call) noexcept nogil:
        cdef Py_ssize_t begun = 1
        cdef int32_t number, place
        cdef bint ends
        self.begun[0] = call
        while begun:
            begun -= 1
            call = self.begun[begun]
            number = self.instance[call]
            ends = False
            if number >= 0:
                self.left[number] -= 1
                ends = (
                    self.left[number] == 0
                    and self.first_member[number] < self.first_member[number + 1]
                )
            if ends:
                self.emit(END, -1, -1, number)
            if number < 0 or not self.waits[call]:
                begun = self.end(call, begun)
            if ends:
                for place in range(self.first_member[number], self.first_member[number + 1]):
                    begun = self.end(self.member[place], begun)

    cdef Py_ssize_t end(self, int32_t call, Py_ssize_t begun) noexcept nogil:
        cdef int32_t who
        self.ended[call] = True
        who = self.ranks_waiting.head[call]
        while who >= 0:
            self.runnable[self.running] = who
            self.running += 1
            who = self.ranks_waiting.following[who]
        who = self.calls_waiting.head[call]
        while who >= 0:
            self.emit(BEGIN, -1, -1, who)
            self.begun[begun] = who
            begun += 1
            who = self.calls_waiting.following[who]
        return begun


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define CCLTUI_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define CCLTUI_PREFETCH(address) ((void)(address))
    #endif
    """
    void CCLTUI_PREFETCH(const void* address) nogil


def numbered(
    int8_t[::1] kind,
    int32_t[::1] line,
    int32_t[::1] operation,
    const int32_t[::1] which,
    const int32_t[::1] behind,
    const int32_t[::1] instance,
    int32_t instances,
):
    """Return slot and behind of each event, and the instance of each slot.

    See ``step_replay._Events``, whose ``kind``, ``line`` and ``operation`` replace those of the
    schedule in place; last comes the number of calls that were put off. ``behind`` and ``instance``
    are by call, -1 for none.
    """
    cdef Py_ssize_t place
    cdef int32_t what, call, used, slots = 0, kept = 0
    cdef bint alone
    size = len(kind)
    slots_array, behinds_array = np.empty(size, np.int32), np.empty(size, np.int32)
    order_array = np.empty(instances + len(instance), np.int32)
    cdef int32_t[::1] slot = slots_array
    cdef int32_t[::1] before = behinds_array
    cdef int32_t[::1] order = order_array
    cdef int32_t[::1] number = np.full(instances + len(instance) + 1, -1, np.int32)
    cdef int32_t[::1] ready = np.empty(len(instance) + 1, np.int32)
    cdef int32_t[::1] posted = np.empty(len(instance) + 1, np.int32)  # line that put off a call
    with nogil:
        for place in range(kind.shape[0]):
            what, call = kind[place], which[place]
            slot[place] = 0
            before[place] = -1
            if what == MARK:
                continue
            if what == PUT_OFF:
                slot[place] = ready[call] = kept
                posted[call] = line[place]
                kept += 1
                continue
            alone = what != END and instance[call] < 0
            used = call if what == END else instances + call if alone else instance[call]
            if number[used] < 0:
                number[used] = slots
                order[slots] = used
                slots += 1
            slot[place] = number[used]
            if what == BEGIN:
                operation[place], line[place] = ready[call], posted[call]
            if (what == POST or what == BEGIN) and behind[call] >= 0:
                used = instance[behind[call]]
                before[place] = number[used if used >= 0 else instances + behind[call]]
            if alone and what == POST:
                kind[place] = POST_ALONE
            elif alone and what == BEGIN:
                kind[place] = BEGIN_ALONE
    return slots_array, behinds_array, order_array[:slots], kept


def replay_lanes(
    const int8_t[::1] kind,
    const int32_t[::1] line,
    const int32_t[::1] operation,
    const int32_t[::1] slot,
    const int32_t[::1] behind,
    const int32_t[::1] call,
    segments,
    const double[:, ::1] after,
    double[:, ::1] now,
    Py_ssize_t put_off,
):
    """Return the time of each mark, float64 [marks, lanes]: several replays in one pass.

    See ``step_replay.py``, which numbers the events: all calls of one ``slot`` end together.
    ``segments`` are one contiguous float64 array of operations for each of 1, 2 or 4 lanes,
    ``after`` is [slots, lanes], ``now`` [lines, lanes] the begin of each line, which is
    overwritten.
    """
    cdef Py_ssize_t lanes = len(segments), lane
    cdef const double[::1] values
    cdef const double* times[4]
    for lane in range(lanes):
        values = segments[lane]
        times[lane] = &values[0]
    count = int((np.asarray(kind) == MARK).sum())
    ended_array = np.empty((count + 1, lanes))
    cdef double[:, ::1] ended = ended_array
    cdef double[:, ::1] end = np.full((len(after) + 1, lanes), -np.inf)
    cdef double[:, ::1] ready = np.empty((put_off + 1, lanes))
    cdef _Events events
    if not kind.shape[0]:
        return ended_array[:count]
    events.count = kind.shape[0]
    events.kind, events.line, events.operation = &kind[0], &line[0], &operation[0]
    events.slot, events.behind, events.call = &slot[0], &behind[0], &call[0]
    cdef const double* afters = &after[0, 0] if after.shape[0] else NULL
    cdef _Hosts none
    none.is_known = False
    with nogil:
        if lanes == 1:
            _lanes(events, times, none, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 1)
        elif lanes == 2:
            _lanes(events, times, none, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 2)
        else:
            _lanes(events, times, none, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 4)
    return ended_array[:count]


def replay_hosts(
    const int8_t[::1] kind,
    const int32_t[::1] line,
    const int32_t[::1] operation,
    const int32_t[::1] slot,
    const int32_t[::1] behind,
    const int32_t[::1] call,
    own,
    other,
    const uint8_t[:, ::1] is_other,
    const double[:, ::1] after,
    double[:, ::1] now,
    Py_ssize_t put_off,
):
    """Return the time of each mark, float64 [marks, lanes], of replays with the times of hosts.

    ``own`` and ``other`` are the time before each operation, float64, and delay and gap of each
    call, int64 [calls, 2]; the lines in ``is_other`` [lines, lanes] have the second. The rest is as
    in ``replay_lanes``.
    """
    cdef Py_ssize_t lanes = is_other.shape[1], side
    cdef const double[::1] advance
    cdef const int64_t[:, ::1] calls
    count = int((np.asarray(kind) == MARK).sum())
    ended_array = np.empty((count + 1, lanes))
    cdef double[:, ::1] ended = ended_array
    cdef double[:, ::1] end = np.full((len(after) + 1, lanes), -np.inf)
    cdef double[:, ::1] ready = np.empty((put_off + 1, lanes))
    cdef _Hosts hosts
    cdef _Events events
    if not kind.shape[0]:
        return ended_array[:count]
    events.count = kind.shape[0]
    events.kind, events.line, events.operation = &kind[0], &line[0], &operation[0]
    events.slot, events.behind, events.call = &slot[0], &behind[0], &call[0]
    hosts.is_known, hosts.is_other = True, &is_other[0, 0]
    for side, (advance, calls) in enumerate((own, other)):
        hosts.advance[side] = &advance[0]
        hosts.call[side] = &calls[0, 0] if calls.shape[0] else NULL
    cdef const double* afters = &after[0, 0] if after.shape[0] else NULL
    with nogil:
        if lanes == 1:
            _lanes(events, NULL, hosts, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 1)
        elif lanes == 2:
            _lanes(events, NULL, hosts, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 2)
        else:
            _lanes(events, NULL, hosts, afters, &now[0, 0], &end[0, 0], &ready[0, 0], &ended[0, 0], 4)
    return ended_array[:count]


cdef struct _Events:
    Py_ssize_t count
    const int8_t* kind
    const int32_t* line
    const int32_t* operation
    const int32_t* slot
    const int32_t* behind
    const int32_t* call


cdef struct _Hosts:
    bint is_known
    const uint8_t* is_other
    const double* advance[2]
    const int64_t* call[2]  # delay and gap of each


cdef enum:
    # Times are by operation and by call, events in the order in which they happen: with a thousand
    # lines each one is read from memory. It is asked for so many events ahead.
    AHEAD = 24


cdef inline void _lanes(
    _Events events,
    const double** segments,
    _Hosts hosts,
    const double* after,
    double* now,
    double* end,
    double* ready,
    double* ended,
    const Py_ssize_t lanes,
) noexcept nogil:
    """The loop of both; each caller gives a constant number of lanes."""
    cdef Py_ssize_t place, lane, next
    cdef int32_t what, at
    cdef double late[4]
    cdef double apart[4]
    cdef int side
    cdef const uint8_t* sides = NULL
    cdef double* mine
    cdef double* ends
    cdef double* before
    cdef double* waiting
    for lane in range(lanes):
        late[lane] = apart[lane] = 0
    for place in range(events.count):
        what = events.kind[place]
        next = place + AHEAD
        if next < events.count and events.line[next] >= 0:
            at = events.operation[next]
            for lane in range(lanes):
                if hosts.is_known:
                    side = hosts.is_other[events.line[next] * lanes + lane]
                    CCLTUI_PREFETCH(hosts.advance[side] + at)
                    if events.kind[next] != WAIT and events.kind[next] != MARK:
                        CCLTUI_PREFETCH(hosts.call[side] + 2 * events.call[next])
                else:
                    CCLTUI_PREFETCH(segments[lane] + at)
        ends = end + events.slot[place] * lanes
        if what == END:
            for lane in range(lanes):
                ends[lane] += after[events.slot[place] * lanes + lane]
            continue
        if hosts.is_known:
            sides = hosts.is_other + events.line[place] * lanes
            if what != WAIT and what != MARK:
                for lane in range(lanes):
                    late[lane] = hosts.call[sides[lane]][2 * events.call[place]]
                    apart[lane] = hosts.call[sides[lane]][2 * events.call[place] + 1]
        if what == BEGIN or what == BEGIN_ALONE:
            waiting = ready + events.operation[place] * lanes
            before = end + events.behind[place] * lanes
            for lane in range(lanes):
                ends[lane] = max(ends[lane], max(waiting[lane], before[lane] + apart[lane]))
        else:
            at = events.operation[place]
            mine = now + events.line[place] * lanes
            for lane in range(lanes):
                mine[lane] += hosts.advance[sides[lane]][at] if hosts.is_known else segments[lane][at]
            if what == WAIT:
                for lane in range(lanes):
                    mine[lane] = max(mine[lane], ends[lane])
                continue
            if what == MARK:
                for lane in range(lanes):
                    ended[lane] = mine[lane]
                ended += lanes
                continue
            if what == PUT_OFF:
                waiting = ready + events.slot[place] * lanes
                for lane in range(lanes):
                    waiting[lane] = mine[lane] + late[lane]
                continue
            if events.behind[place] < 0:
                for lane in range(lanes):
                    ends[lane] = max(ends[lane], mine[lane] + late[lane])
            else:
                before = end + events.behind[place] * lanes
                for lane in range(lanes):
                    ends[lane] = max(
                        ends[lane], max(mine[lane] + late[lane], before[lane] + apart[lane])
                    )
        if what == POST_ALONE or what == BEGIN_ALONE:
            for lane in range(lanes):
                ends[lane] += after[events.slot[place] * lanes + lane]


def host_times(
    const int64_t[::1] first,
    lines,
    kernels,
    operations,
    calls,
    int64_t queued_ns,
    int64_t tolerance,
    found,
):
    """Add the idle times of the lines of one rank to ``found``; see ``line_operations.py``.

    ``first`` are the edges of its lines among the operations; ``lines`` are first kernel, number of
    kernels and origin of each, ``kernels`` start, reach and idle sums, ``operations`` kind, position
    and call, ``calls`` start, duration and the call before. Returns how many operations were early
    and how many were checked.
    """
    cdef const int64_t[::1] line_first, line_size, line_origin, start, reach, idle
    cdef const int32_t[::1] at, call, behind
    cdef const int64_t[::1] begun, lasted
    cdef const int8_t[::1] kind
    cdef double[::1] host
    cdef int64_t[:, ::1] wait
    line_first, line_size, line_origin = lines
    start, reach, idle = kernels
    kind, at, call = operations
    begun, lasted, behind = calls
    host, wait = found
    cdef int64_t early = 0, checked = 0
    cdef int64_t origin, kernel, size, before, begins, reached, last_begins, late, ended, which
    cdef int64_t waited = 0, through = 0
    cdef int64_t never = np.iinfo(np.int64).max
    cdef Py_ssize_t line, place, mine
    cdef bint recorded = start.shape[0] > 0
    with nogil:
        for line in range(line_first.shape[0]):
            origin, size = line_origin[line], line_size[line]
            reached, last_begins = 0, never
            for place in range(first[line], first[line + 1]):
                kernel = line_first[line] + at[place]
                before, begins, waited = 0, never, 0
                if recorded:
                    if at[place] > 0:
                        before = reach[max(kernel - 1, 0)] - origin
                    if at[place] < size:
                        begins = start[min(kernel, start.shape[0] - 1)] - origin
                    waited = idle[kernel]
                if place == first[line]:
                    if at[place] > 0:  # kernels lie before the first operation
                        last_begins, through = never, 0
                        if recorded:
                            mine = line_first[line]
                            through = idle[min(mine + 1, idle.shape[0] - 1)]
                            if size > 0:
                                last_begins = start[min(mine, start.shape[0] - 1)] - origin
                        host[place] = <double> (max(last_begins, 0) + waited - through)
                elif at[place] > at[place - 1]:
                    host[place] = <double> (max(last_begins - reached, 0) + waited - through)
                through = idle[min(kernel + 1, idle.shape[0] - 1)] if recorded else 0
                last_begins = begins
                reached = max(reached, before)
                which = call[place]
                if kind[place] == WAIT:
                    ended = begun[which] + lasted[which]
                    reached = max(reached, ended)
                    if begins < never:
                        checked += 1
                        early += begins < ended - tolerance
                elif kind[place] == POST:
                    late = begun[which] - reached
                    checked += 1
                    early += late < -tolerance
                    wait[which, 0] = max(late, 0)
                    wait[which, 1] = 0
                    if behind[which] >= 0:
                        ended = begun[behind[which]] + lasted[behind[which]]
                        if begun[which] - ended <= queued_ns:
                            wait[which, 0] = 0
                            wait[which, 1] = max(begun[which] - ended, 0)
    return early, checked


ctypedef fused Number:
    int8_t
    int32_t
    int64_t


def values_in(const Number[::1] values, int64_t most):
    """Return the lowest value, and which of the values from it on occur.

    See ``reductions.distinct_values``. None where the range has more than ``most`` values. There is
    at least one value.
    """
    cdef Py_ssize_t place
    cdef int64_t low = values[0], high = values[0]
    with nogil:
        for place in range(values.shape[0]):
            low = min(low, values[place])
            high = max(high, values[place])
    if <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    seen_array = np.zeros(high - low + 1, np.uint8)
    cdef uint8_t[::1] seen = seen_array
    with nogil:
        for place in range(values.shape[0]):
            seen[values[place] - low] = 1
    return low, seen_array.view(np.bool_)


def stable_order(const Number[::1] values, int64_t most):
    """Return the order that sorts values, equal ones as they come; see ``reductions.stable_order``.

    None where the range has more than ``most`` values. There is at least one value.
    """
    cdef Py_ssize_t place
    cdef int64_t low = values[0], high = values[0], at
    with nogil:
        for place in range(values.shape[0]):
            low = min(low, values[place])
            high = max(high, values[place])
    if <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    order_array = np.empty(len(values), np.int64)
    cdef int64_t[::1] order = order_array
    cdef int64_t[::1] following = np.zeros(high - low + 2, np.int64)
    with nogil:
        for place in range(values.shape[0]):
            following[values[place] - low + 1] += 1
        for place in range(1, following.shape[0]):
            following[place] += following[place - 1]
        for place in range(values.shape[0]):
            at = values[place] - low
            order[following[at]] = place
            following[at] += 1
    return order_array


def steps_of_launches(work, launches, steps, int64_t most):
    """Step of each piece of work by its launch, and first start and last end of each step.

    See ``rank_steps._step_of_launched``. ``work`` are correlation, start and duration of each,
    ``launches`` correlation and start, ``steps`` start and end; there is a launch and a step. None
    where a piece has no launch, ids lie in a range of more than ``most``, or launches are so far out
    of order that a search is quicker than going from step to step.
    """
    cdef const int64_t[::1] wanted, begun, lasted, correlation, launched, start, end
    wanted, begun, lasted = work
    correlation, launched = launches
    start, end = steps
    cdef Py_ssize_t place, step = -1, steps_count = start.shape[0]
    cdef int64_t low = INT64_MAX, high = -1, moment
    cdef int32_t row
    cdef Py_ssize_t turns = 64 * (wanted.shape[0] + steps_count)
    cdef bint known = True
    with nogil:
        for place in range(correlation.shape[0]):
            if correlation[place] >= 0:
                low = min(low, correlation[place])
                high = max(high, correlation[place])
    if high < low or <uint64_t> high - <uint64_t> low >= <uint64_t> most:
        return None
    index_array = np.empty(len(wanted), np.int32)
    first_array = np.full(steps_count, INT64_MAX, np.int64)
    last_array = np.full(steps_count, INT64_MIN, np.int64)
    cdef int32_t[::1] index = index_array
    cdef int64_t[::1] first = first_array
    cdef int64_t[::1] last = last_array
    cdef int32_t[::1] row_of = np.full(high - low + 1, -1, np.int32)
    with nogil:
        for place in range(correlation.shape[0] - 1, -1, -1):  # the first of several with one id
            if correlation[place] >= 0:
                row_of[correlation[place] - low] = <int32_t> place
        for place in range(wanted.shape[0]):
            row = row_of[wanted[place] - low] if low <= wanted[place] <= high else -1
            if row < 0 or turns < 0:
                known = False
                break
            moment = launched[row]
            while step + 1 < steps_count and start[step + 1] <= moment:
                step += 1
                turns -= 1
            while step >= 0 and start[step] > moment:
                step -= 1
                turns -= 1
            if step >= 0 and moment < end[step]:
                index[place] = <int32_t> step
                first[step] = min(first[step], begun[place])
                last[step] = max(last[step], begun[place] + lasted[place])
            else:
                index[place] = -1
    return (index_array, first_array, last_array) if known else None


def totals_by_name(
    const int64_t[::1] row,
    const int64_t[::1] begin,
    const int64_t[::1] length,
    const Number[::1] name,
    const int64_t[::1] weight,
    double[:, ::1] found,
):
    """Add the weights of segments of pieces to ``found`` [row, name]; see ``kernel_counts.py``.

    Each piece counts 1 where ``weight`` is empty, one without a name (-1) not at all.
    """
    cdef Py_ssize_t place, piece
    with nogil:
        for place in range(row.shape[0]):
            for piece in range(begin[place], begin[place] + length[place]):
                if name[piece] >= 0:
                    found[row[place], name[piece]] += weight[piece] if weight.shape[0] else 1


def idle_gaps(work, idle, pieces, calls, int64_t never):
    """Return start, end, launch and return of the gap around each idle time; see ``idle_causes.py``.

    ``work`` and ``idle`` are starts and ends of disjoint times in order, ``pieces`` the starts of
    device events in order and the row of the call that launched each, ``calls`` starts and durations.
    """
    cdef const int64_t[::1] work_start, work_end, idle_start, idle_end, begun, call_start, call_ns
    cdef const int32_t[::1] launch
    (work_start, work_end), (idle_start, idle_end) = work, idle
    (begun, launch), (call_start, call_ns) = pieces, calls
    cdef Py_ssize_t gap, after = 0, piece = 0, same, looked_at = -1
    cdef int32_t row = -1
    found = np.empty((4, len(idle_start)), np.int64)
    cdef int64_t[:, ::1] columns = found
    with nogil:
        for gap in range(idle_start.shape[0]):
            while after < work_end.shape[0] and work_end[after] <= idle_start[gap]:
                after += 1
            columns[0, gap] = work_end[after - 1] if after else idle_start[gap]
            columns[1, gap] = idle_end[gap]
            if after < work_start.shape[0]:
                columns[1, gap] = work_start[after]
            if looked_at != after and after < work_start.shape[0]:
                looked_at, row = after, -1  # idle times before one work have one launch
                while piece < begun.shape[0] and begun[piece] < work_start[after]:
                    piece += 1
                same = piece
                while same < begun.shape[0] and begun[same] == work_start[after]:
                    row = max(row, launch[same])
                    same += 1
            columns[2, gap] = columns[3, gap] = never
            if row >= 0 and after < work_start.shape[0]:
                columns[2, gap] = call_start[row]
                columns[3, gap] = call_start[row] + call_ns[row]
    return found[0], found[1], found[2], found[3]


def before_and_last(const int64_t[::1] start, const int64_t[::1] end, const int64_t[::1] by_end):
    """See ``critical_path.before_and_last``; ``by_end`` are the pieces sorted by end."""
    cdef Py_ssize_t piece, place = 0
    cdef int32_t before = -1, last = 0
    before_array, last_array = np.empty((2, len(start)), np.int32)
    cdef int32_t[::1] befores = before_array
    cdef int32_t[::1] lasts = last_array
    with nogil:
        for piece in range(start.shape[0]):
            while place < by_end.shape[0] and end[by_end[place]] <= start[piece]:
                before = <int32_t> by_end[place]
                place += 1
            befores[piece] = before
            if end[piece] >= end[last]:
                last = <int32_t> piece
            lasts[piece] = last
    return before_array, last_array


def along(
    const int32_t[::1] before, const int32_t[::1] jump, int64_t piece, int64_t outside
):
    """Pieces of one lane back to the next that leads to another lane, and that piece or -1.

    See ``critical_path.Lane.along``.
    """
    found_array = np.empty(piece + 2, np.int64)  # predecessors have smaller indices
    cdef int64_t[::1] found = found_array
    cdef Py_ssize_t count = 1
    found[0] = piece
    with nogil:
        while piece >= outside:
            piece = before[piece]
            if piece < 0 or jump[piece] >= 0 or count == found.shape[0]:
                break
            found[count] = piece
            count += 1
        else:
            piece = -1
    return found_array[:count].copy(), piece


ctypedef fused Measured:
    int32_t
    int64_t
    double


def sums_by_line(const Measured[:] values, const int64_t[::1] first):
    """Sum of the values of each line, added one after another; see ``host_needs.py``."""
    cdef Py_ssize_t line, place
    cdef double total
    found_array = np.empty(len(first) - 1)
    cdef double[::1] found = found_array
    with nogil:
        for line in range(found.shape[0]):
            total = 0
            for place in range(first[line], first[line + 1]):
                total += <double> values[place]
            found[line] = total
    return found_array


cdef enum:
    # Rows that are read together: so many numbers of a column lie in one line of the cache.
    TOGETHER = 8


def marked_median(const Measured[:, :] values, const uint8_t[:, :] marks):
    """Median of the marked numbers of each row; see ``by_column.marked_median``."""
    cdef Py_ssize_t rows = values.shape[0], columns = values.shape[1]
    cdef Py_ssize_t first, row, column, count, stop
    cdef Py_ssize_t number[TOGETHER]
    found_array = np.empty(rows)
    cdef double[::1] found = found_array
    cdef double[:, ::1] kept = np.empty((TOGETHER, columns + 1))
    with nogil:
        first = 0
        while first < rows:
            stop = min(rows - first, TOGETHER)
            for row in range(stop):
                number[row] = 0
            for column in range(columns):
                for row in range(stop):
                    kept[row, number[row]] = <double> values[first + row, column]
                    number[row] += marks[first + row, column]
            for row in range(stop):
                found[first + row] = _median(&kept[row, 0], number[row])
            first += stop
    return found_array


cdef double _median(double* values, Py_ssize_t count) noexcept nogil:
    """Median of numbers, which are put into another order; NaN of none."""
    cdef Py_ssize_t place, middle = count // 2
    cdef double high, low
    if not count:
        return NAN
    high = _select(values, count, middle)
    if count % 2:
        return high
    low = values[0]
    for place in range(1, middle):
        low = max(low, values[place])
    return (low + high) / 2


cdef double _select(double* values, Py_ssize_t count, Py_ssize_t wanted) noexcept nogil:
    """Return the number at a place in ascending order; those before it are moved before it."""
    cdef Py_ssize_t low = 0, high = count - 1, left, right
    cdef double pivot
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    return values[wanted]
