# Passes along the operations of the lines of a job, included by ``_passes.pyx``.

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
        self, kind, which, behind, offset, instance, size, first_member, member
    ):
        calls, ranks = len(instance), len(offset) - 1
        self.kind, self.which, self.behind, self.offset = kind, which, behind, offset
        self.instance = instance
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
            if number < 0:
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

    See ``step_replay._Events``, whose ``kind``, ``line`` and ``segment`` (``operation`` here) replace
    those given in place; last comes the number of calls that were put off. ``behind`` and
    ``instance`` are by call, -1 for none.
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


cdef struct _Numbers:
    # Numbers along lines, see ``call_table.py``.
    int size  # 4 or 8 bytes of whole numbers, -8 of float64, 0 of none
    const void* values
    const int64_t* first  # number of each line
    const double* scale  # of each unit and of no unit, NULL where nothing is scaled
    Py_ssize_t units


cdef struct _Side:
    _Numbers compute
    _Numbers host
    _Numbers wait


cdef inline double _number(_Numbers* numbers, Py_ssize_t at) noexcept nogil:
    if numbers.size == 4:
        return <double> (<const int32_t*> numbers.values)[at]
    if numbers.size == 8:
        return <double> (<const int64_t*> numbers.values)[at]
    return (<const double*> numbers.values)[at]


cdef inline void _ask_for(_Numbers* numbers, Py_ssize_t at) noexcept nogil:
    if numbers.size == 4:
        CCLTUI_PREFETCH((<const int32_t*> numbers.values) + at)
    elif numbers.size:
        CCLTUI_PREFETCH((<const int64_t*> numbers.values) + at)  # float64 is as wide


cdef _Numbers _numbers_of(given):
    """Numbers as ``values``, ``first`` and ``scale``, whose arrays the caller holds."""
    cdef _Numbers found
    cdef const int32_t[::1] short
    cdef const int64_t[::1] long
    cdef const double[::1] real
    found.size, found.units = 0, 0
    found.values, found.first, found.scale = NULL, NULL, NULL
    if given is None:
        return found
    values, first, scale = given
    if not len(values):
        return found
    long = first
    found.first = &long[0]
    if scale is not None:
        real = scale
        found.scale, found.units = &real[0], real.shape[0] - 1
    if values.dtype == np.int32:
        short = values
        found.size, found.values = 4, &short[0]
    elif values.dtype == np.int64:
        long = values
        found.size, found.values = 8, &long[0]
    else:
        real = values
        found.size, found.values = -8, &real[0]
    return found


cdef struct _Events:
    Py_ssize_t count
    const int8_t* kind
    const int32_t* line
    const int32_t* segment
    const int32_t* slot
    const int32_t* behind
    const int32_t* call


cdef struct _Step:
    # Times of one step in all lanes. Places of numbers are by line: first compute, then host, then
    # wait of each side, and last the first segment of the line.
    Py_ssize_t lines
    _Side* side
    int sides
    const uint8_t* is_other  # [lines, lanes]; NULL: each lane has a side
    int64_t* at
    const int32_t* unit
    const double* after
    double* now
    double* end
    double* ready


cdef enum:
    # Events are in the order in which they happen: with a thousand lines each of the times that
    # they read is read from memory. It is asked for so many events ahead.
    AHEAD = 24


def replay(
    events, slots, first, const int64_t[:, ::1] lines, job, sides, is_other, transfers,
    double[:, ::1] ends, Py_ssize_t put_off
):
    """Move the begins of lines in ``ends`` [lines, lanes] to their ends: replays in one pass a step.

    See ``step_replay.py``. ``events`` and ``slots`` are arrays as in ``_Events``, ``first`` first
    segment and first call of each line of a step, ``lines`` the lines of each step. ``job`` are
    edges of the segments of all lines, unit of each segment, edges of calls, instance and duration
    of each call. ``sides`` are for each lane compute, host and wait; where ``is_other`` [lines,
    lanes] is given, those of most lines and of the lines in it. ``transfers`` are float64 by
    instance for each of 1, 2 or 4 lanes.
    """
    cdef const int8_t[::1] kind
    cdef const int32_t[::1] line, segment, slot, behind, call, of_slot, slot_line, unit, instance
    cdef const uint8_t[::1] is_alone
    cdef const uint8_t[:, ::1] others
    cdef const int64_t[::1] step_segment, step_call, job_segment, job_call
    cdef const double[::1] transfer
    cdef _Side side[4]
    cdef _Numbers lasted
    cdef const double* transferred[4]
    cdef _Events told
    cdef _Step step
    cdef Py_ssize_t lanes = ends.shape[1], lane, row, place, one, width, which
    (kind, line, segment, slot, behind, call), (of_slot, slot_line, is_alone) = events, slots
    (step_segment, step_call) = first
    job_segment, unit, job_call, instance, dur = job
    lasted = _numbers_of((dur, job_call, None))
    for place, given in enumerate(sides):
        side[place].compute = _numbers_of(given[0])
        side[place].host = _numbers_of(given[1])
        side[place].wait = _numbers_of(given[2])
    for lane in range(lanes):
        transfer = transfers[lane]
        transferred[lane] = &transfer[0] if transfer.shape[0] else NULL
    if not kind.shape[0]:
        return
    told.count = kind.shape[0]
    told.kind, told.line, told.segment = &kind[0], &line[0], &segment[0]
    told.slot, told.call = &slot[0], &call[0]
    told.behind = &behind[0]
    step.lines, step.side, step.sides = lines.shape[1], side, len(sides)
    width = 3 * step.sides + 1
    cdef int64_t[::1] at = np.empty(width * step.lines, np.int64)
    cdef uint8_t[:, ::1] chosen = np.zeros((step.lines, lanes), np.uint8)
    cdef double[:, ::1] now = np.empty((step.lines, lanes))
    cdef double[:, ::1] end = np.empty((of_slot.shape[0] + 1, lanes))
    cdef double[:, ::1] ready = np.empty((put_off + 1, lanes))
    cdef double[:, ::1] after = np.empty((of_slot.shape[0] + 1, lanes))
    step.at, step.after, step.now = &at[0], &after[0, 0], &now[0, 0]
    step.end, step.ready = &end[0, 0], &ready[0, 0]
    step.unit = &unit[0] if unit.shape[0] else NULL
    step.is_other = NULL
    if is_other is not None:
        others = is_other
        step.is_other = &chosen[0, 0]
    for row in range(lines.shape[0]):
        for place in range(step.lines):
            one = lines[row, place]
            for which in range(step.sides):
                _begins(&at[width * place + 3 * which], &side[which], one,
                        step_segment[place], step_call[place])
            at[width * place + width - 1] = job_segment[one] - step_segment[place]
            for lane in range(lanes):
                now[place, lane] = ends[one, lane]
                if step.is_other != NULL:
                    chosen[place, lane] = others[one, lane]
        _afters(&lasted, of_slot, slot_line, is_alone, lines[row], step_call, job_call, instance,
                transferred, after)
        end[:] = -INFINITY
        with nogil:
            if lanes == 1:
                _replay_step(told, step, 1)
            elif lanes == 2:
                _replay_step(told, step, 2)
            else:
                _replay_step(told, step, 4)
        for place in range(step.lines):
            for lane in range(lanes):
                ends[lines[row, place], lane] = now[place, lane]


cdef void _begins(
    int64_t* at, _Side* side, Py_ssize_t line, int64_t segment, int64_t call
) noexcept nogil:
    """Where the numbers of a line begin, less where its segments and calls begin in the step."""
    at[0] = side.compute.first[line] - segment if side.compute.size else 0
    at[1] = side.host.first[line] - segment if side.host.size else 0
    at[2] = side.wait.first[line] - call if side.wait.size else 0


cdef _afters(
    _Numbers* lasted, const int32_t[::1] of_slot, const int32_t[::1] slot_line,
    const uint8_t[::1] is_alone, const int64_t[::1] lines, const int64_t[::1] step_call,
    const int64_t[::1] job_call, const int32_t[::1] instance, const double** transferred,
    double[:, ::1] after
):
    """How long the calls of each slot take in each lane."""
    cdef Py_ssize_t slot, lane, call, line
    with nogil:
        for slot in range(of_slot.shape[0]):
            line = slot_line[slot]
            call = job_call[lines[line]] + of_slot[slot] - step_call[line]
            for lane in range(after.shape[1]):
                if is_alone[slot]:
                    after[slot, lane] = _number(lasted, call)
                else:
                    after[slot, lane] = transferred[lane][instance[call]]


cdef inline double _before(_Step* step, int which, int64_t* at, Py_ssize_t segment) noexcept nogil:
    """Time before the operation at the end of a segment."""
    cdef _Side* side = step.side + which
    cdef double found = _number(&side.compute, at[3 * which] + segment)
    cdef Py_ssize_t unit
    if side.compute.scale != NULL:
        unit = step.unit[at[3 * step.sides] + segment]
        found *= side.compute.scale[unit if unit >= 0 else side.compute.units]
    if side.host.size:
        found += _number(&side.host, at[3 * which + 1] + segment)
    return found


cdef inline void _replay_step(_Events events, _Step step, const Py_ssize_t lanes) noexcept nogil:
    """The loop; each caller gives a constant number of lanes."""
    cdef Py_ssize_t place, lane, next, width = 3 * step.sides + 1
    cdef int which, used
    cdef int[4] sides_used
    cdef int32_t what, ended
    cdef double late[4]
    cdef double apart[4]
    cdef double times[4]
    cdef int64_t* at
    cdef _Numbers* wait
    cdef const uint8_t* other
    cdef double* mine
    cdef double* ends
    cdef double* before
    cdef double* waiting
    for lane in range(lanes):
        late[lane] = apart[lane] = 0
        sides_used[lane] = <int> lane
    for place in range(events.count):
        what = events.kind[place]
        next = place + AHEAD
        if next < events.count and events.line[next] >= 0:
            at = step.at + width * events.line[next]
            if events.segment[next] >= 0 and events.kind[next] != BEGIN and events.kind[next] != BEGIN_ALONE:
                for which in range(step.sides):
                    _ask_for(&step.side[which].compute, at[3 * which] + events.segment[next])
                    _ask_for(&step.side[which].host, at[3 * which + 1] + events.segment[next])
            if step.is_other != NULL and events.kind[next] != WAIT and events.kind[next] != MARK:
                for which in range(2):
                    _ask_for(&step.side[which].wait, 2 * (at[3 * which + 2] + events.call[next]))
        ends = step.end + events.slot[place] * lanes
        if what == END:
            for lane in range(lanes):
                ends[lane] += step.after[events.slot[place] * lanes + lane]
            continue
        at = step.at + width * events.line[place]
        if step.is_other != NULL:
            other = step.is_other + events.line[place] * lanes
            for lane in range(lanes):
                sides_used[lane] = other[lane]
            if what != WAIT and what != MARK:
                for lane in range(lanes):
                    wait = &step.side[sides_used[lane]].wait
                    late[lane] = _number(wait, 2 * (at[3 * sides_used[lane] + 2] + events.call[place]))
                    apart[lane] = _number(wait, 2 * (at[3 * sides_used[lane] + 2] + events.call[place]) + 1)
        if what == BEGIN or what == BEGIN_ALONE:
            waiting = step.ready + events.segment[place] * lanes
            before = step.end + events.behind[place] * lanes
            for lane in range(lanes):
                ends[lane] = max(ends[lane], max(waiting[lane], before[lane] + apart[lane]))
        else:
            mine = step.now + events.line[place] * lanes
            ended = events.segment[place]
            if ended >= 0:
                if step.is_other == NULL:
                    for lane in range(lanes):
                        mine[lane] += _before(&step, <int> lane, at, ended)
                else:
                    used = 0
                    for lane in range(lanes):
                        used |= 1 << sides_used[lane]
                    for which in range(2):
                        if used & (1 << which):
                            times[which] = _before(&step, which, at, ended)
                    for lane in range(lanes):
                        mine[lane] += times[sides_used[lane]]
            if what == MARK:
                continue
            if what == WAIT:
                for lane in range(lanes):
                    mine[lane] = max(mine[lane], ends[lane])
                continue
            if what == PUT_OFF:
                waiting = step.ready + events.slot[place] * lanes
                for lane in range(lanes):
                    waiting[lane] = mine[lane] + late[lane]
                continue
            if events.behind[place] < 0:
                for lane in range(lanes):
                    ends[lane] = max(ends[lane], mine[lane] + late[lane])
            else:
                before = step.end + events.behind[place] * lanes
                for lane in range(lanes):
                    ends[lane] = max(
                        ends[lane], max(mine[lane] + late[lane], before[lane] + apart[lane])
                    )
        if what == POST_ALONE or what == BEGIN_ALONE:
            for lane in range(lanes):
                ends[lane] += step.after[events.slot[place] * lanes + lane]


def line_times(
    layouts, lines, kernels, calls, int64_t queued_ns, int64_t tolerance, found
):
    """Fill in what the segments of the lines of one rank take; see ``line_operations.py``.

    ``layouts`` are the edges of the operations of each, and kind, position, call and segment of all.
    ``lines`` are layout, first kernel, number of kernels, origin, first call (of those of the rank)
    and first segment of each, ``kernels`` start, reach, busy and idle sums, ``calls`` start, duration and the call
    before. ``found`` are compute and host of the segments of the rank, int64, and wait of its calls,
    [calls, 2]. Returns how many operations were early and how many were checked.
    """
    cdef const int64_t[::1] edges, layout, line_first, line_size, line_origin, line_call
    cdef const int64_t[::1] line_segment, start, reach, busy, idle, begun, lasted
    cdef const int32_t[::1] at, call, segment, behind
    cdef const int8_t[::1] kind
    cdef int64_t[::1] compute, host
    cdef int64_t[:, ::1] wait
    edges, kind, at, call, segment = layouts
    layout, line_first, line_size, line_origin, line_call, line_segment = lines
    start, reach, busy, idle = kernels
    begun, lasted, behind = calls
    compute, host, wait = found
    cdef int64_t early = 0, checked = 0
    cdef int64_t origin, kernel, size, before, begins, reached, last_begins, late, ended, which
    cdef int64_t last, waited = 0, through = 0, spent, first_segment
    cdef int64_t never = INT64_MAX, held
    cdef Py_ssize_t line, place, mine
    cdef bint recorded = start.shape[0] > 0
    if not layout.shape[0]:
        return 0, 0
    first_segment = line_segment[0]
    with nogil:
        for line in range(layout.shape[0]):
            origin, size, mine = line_origin[line], line_size[line], line_first[line]
            reached, last_begins, last = 0, never, mine
            for place in range(edges[layout[line]], edges[layout[line] + 1]):
                kernel = mine + at[place]
                before, begins, waited = 0, never, 0
                if recorded:
                    if at[place] > 0:
                        before = reach[max(kernel - 1, 0)] - origin
                    if at[place] < size:
                        begins = start[min(kernel, start.shape[0] - 1)] - origin
                    waited = idle[kernel]
                if segment[place] >= 0:
                    held = line_segment[line] - first_segment + segment[place]
                    compute[held] = busy[kernel] - busy[last]
                    spent = 0
                    if place == edges[layout[line]]:
                        if at[place] > 0:  # kernels lie before the first operation
                            last_begins, through = never, 0
                            if recorded:
                                through = idle[min(mine + 1, idle.shape[0] - 1)]
                                if size > 0:
                                    last_begins = start[min(mine, start.shape[0] - 1)] - origin
                            spent = max(last_begins, 0) + waited - through
                    elif kernel > last:
                        spent = max(last_begins - reached, 0) + waited - through
                    host[held] = spent
                last = kernel
                through = idle[min(kernel + 1, idle.shape[0] - 1)] if recorded else 0
                last_begins = begins
                reached = max(reached, before)
                if call[place] < 0:
                    continue
                which = line_call[line] + call[place]
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
