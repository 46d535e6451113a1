# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled loops over operations, pieces of work and values.

``replay_order.py``, ``job_replay.py``, ``path_lane.py`` and ``reductions.py`` implement the same in
Python, with full documentation and results that are equal to the bit. Indices in arguments are not
checked against array bounds.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

import numpy as np

cdef enum:
    WAIT = 0
    POST = 1
    MARK = 2
    PUT_OFF = 3
    BEGIN = 4
    END = 5


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
    """See ``replay_order.py``: concatenated arrays of all ranks, those of rank r from ``offset[r]`` on."""

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
        self.order_rank, self.order_operation, self.order_which = np.empty((3, room), np.int32)
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


def replay(
    const int8_t[::1] kind,
    const int32_t[::1] rank,
    const int32_t[::1] which,
    const double[::1] advance,
    const int64_t[::1] delay,
    const int32_t[::1] behind,
    const int64_t[::1] gap,
    const int64_t[::1] after,
    const int32_t[::1] instance,
    const uint8_t[::1] waits,
    const int32_t[::1] first_member,
    const int32_t[::1] member,
    double[::1] now,
):
    """Return the end of each step, float64 in the order of their marks; see ``job_replay.py``.

    ``now`` holds the begin of each line and is overwritten.
    """
    end_array = np.zeros(len(after) + 1)
    ended_array = np.empty(int((np.asarray(kind) == MARK).sum()) + 1)
    cdef double[::1] end = end_array
    cdef double[::1] ready = np.zeros(len(after) + 1)
    cdef double[::1] latest = np.full(len(first_member), -np.inf)
    cdef double[::1] ended = ended_array
    cdef Py_ssize_t place, other
    cdef Py_ssize_t marks = 0
    cdef int32_t what, mine, call, number, before
    cdef double time
    with nogil:
        for place in range(kind.shape[0]):
            what, call = kind[place], which[place]
            if what == END:
                for other in range(first_member[call], first_member[call + 1]):
                    end[member[other]] = latest[call] + after[member[other]]
                continue
            if what == BEGIN:
                time = max(ready[call], end[behind[call]] + gap[call])
            else:
                mine = rank[place]
                now[mine] += advance[place]
                if what == WAIT:
                    now[mine] = max(now[mine], end[call])
                    continue
                if what == MARK:
                    ended[marks] = now[mine]
                    marks += 1
                    continue
                time = now[mine] + delay[call]
                if what != POST:
                    ready[call] = time
                    continue
                before = behind[call]
                if before >= 0:
                    time = max(time, end[before] + gap[call])
            number = instance[call]
            if number < 0 or not waits[call]:
                end[call] = time + after[call]
            if number >= 0 and time > latest[number]:
                latest[number] = time
    return ended_array[:marks]


def replay_lanes(
    const int8_t[::1] kind,
    const int32_t[::1] rank,
    const int32_t[::1] operation,
    const int32_t[::1] which,
    const int32_t[::1] behind,
    const int32_t[::1] slot,
    const double[:, ::1] segments,
    const double[:, ::1] after,
    Py_ssize_t instances,
    Py_ssize_t lines,
):
    """Return the time of each mark, float64 [marks, lanes]: ``replay`` of several durations at once.

    Calls begin without delay, and all members of an instance end together: ``slot`` is the instance
    of a call, from ``instances`` on a call in none. ``segments`` is [lanes, operations], ``after``
    [slots, lanes].
    """
    cdef Py_ssize_t lanes = segments.shape[0]
    ended_array = np.empty((int((np.asarray(kind) == MARK).sum()) + 1, lanes))
    cdef double[:, ::1] end = np.full((len(after) + 1, lanes), -np.inf)
    cdef double[:, ::1] ready = np.empty((len(slot) + 1, lanes))
    cdef double[:, ::1] now = np.zeros((lines, lanes))
    cdef double[:, ::1] ended = ended_array
    cdef Py_ssize_t place, lane, mine, at
    cdef Py_ssize_t marks = 0
    cdef int32_t what, call, before
    cdef double time
    with nogil:
        for place in range(kind.shape[0]):
            what, call = kind[place], which[place]
            if what == END:
                for lane in range(lanes):
                    end[call, lane] += after[call, lane]
                continue
            if what == MARK:
                mine = rank[place]
                for lane in range(lanes):
                    now[mine, lane] += segments[lane, operation[place]]
                    ended[marks, lane] = now[mine, lane]
                marks += 1
                continue
            at = slot[call]
            if what == WAIT:
                mine = rank[place]
                for lane in range(lanes):
                    time = now[mine, lane] + segments[lane, operation[place]]
                    now[mine, lane] = max(time, end[at, lane])
                continue
            before = behind[call]
            for lane in range(lanes):
                if what == BEGIN:
                    time = ready[call, lane]
                else:
                    mine = rank[place]
                    now[mine, lane] += segments[lane, operation[place]]
                    time = now[mine, lane]
                    if what != POST:
                        ready[call, lane] = time
                        continue
                if before >= 0:
                    time = max(time, end[slot[before], lane])
                if at >= instances:
                    end[at, lane] = time + after[at, lane]
                elif time > end[at, lane]:
                    end[at, lane] = time
    return ended_array[:marks]


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


def before_and_last(const int64_t[::1] start, const int64_t[::1] end, const int64_t[::1] by_end):
    """See ``path_lane.before_and_last``; ``by_end`` are the pieces sorted by end."""
    cdef Py_ssize_t piece, place = 0
    cdef int64_t before = -1, last = 0
    before_array, last_array = np.empty((2, len(start)), np.int64)
    cdef int64_t[::1] befores = before_array
    cdef int64_t[::1] lasts = last_array
    with nogil:
        for piece in range(start.shape[0]):
            while place < by_end.shape[0] and end[by_end[place]] <= start[piece]:
                before = by_end[place]
                place += 1
            befores[piece] = before
            if end[piece] >= end[last]:
                last = piece
            lasts[piece] = last
    return before_array, last_array


def along(
    const int64_t[::1] before, const int64_t[::1] jump, int64_t piece, int64_t outside
):
    """Pieces of one lane back to the next that leads to another lane, and that piece or -1.

    See ``path_lane.Lane.along``.
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
