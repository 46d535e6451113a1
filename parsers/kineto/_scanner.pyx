# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled scan of trace events into column buffers.

Walks JSON tokens strictly, in any layout and key order. Complete events ("ph": "X") with plain
members go straight into the buffers of their column group; everything that the scanner does
not represent (begin and end, metadata, odd types, escapes in names) is left as a span of text
for the general decoder, and text that is not strict JSON stops it. The general decoder is the
reference: it sees every event that this one does not.

What an event says of a collective is read by the general decoder too, but once for all events
that say the same but for their sequence number: the text of those members is the key.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from parsers.kineto._lexer cimport (
    MORE, ODD, OK, Bytes, Code, has_high, key_end, nanoseconds, number_end, skip_space,
    small_integer, string_end, value_end,
)

cdef enum:
    GROUPS = 8
    CATEGORIES = 255
    TABLE_START = 1024
    TEXT = 1
    NUMBER = 2
    DESCRIPTIONS = 1 << 14  # more distinct ones are left to the general decoder

cdef enum Key:
    K_OTHER, K_PH, K_CAT, K_NAME, K_PID, K_TID, K_TS, K_DUR, K_ARGS


cdef enum ArgsKey:
    # what newer profilers state of a collective
    A_COLLECTIVE, A_IN_ELEMS, A_OUT_ELEMS, A_DTYPE, A_GROUP_NAME, A_GROUP_ID, A_GROUP_DESCRIPTION,
    A_GROUP_RANKS, A_GROUP_SIZE, A_IN_SPLIT, A_OUT_SPLIT, A_SEQ, A_COMMS_ID, A_SRC, A_DST, A_ASYNC,
    A_RANK_START, A_RANK_STRIDE,
    # what an operator was given
    A_INPUT_DIMS, A_INPUT_TYPE, A_CONCRETE,
    # how a kernel was launched
    A_GRID, A_BLOCKS_PER_SM, A_OCCUPANCY,
    # what every event may have
    A_CORRELATION, A_EXTERNAL, A_BYTES, A_NAME, A_DEVICE, A_STREAM, A_OTHER
    STATED = A_INPUT_DIMS   # those before
    DESCRIBED = A_GRID     # those before: together they describe a collective
    PARTS = A_CORRELATION   # those before: their place is kept

PART_KEYS = (
    b'"Collective name":', b'"In msg nelems":', b'"Out msg nelems":', b'"dtype":',
    b'"Process Group Name":', b'"Process Group ID":', b'"Process Group Description":',
    b'"Process Group Ranks":', b'"Group size":', b'"In split size":', b'"Out split size":',
    b'"Seq":', b'"Comms Id":', b'"Src Rank":', b'"Dst Rank":', b'"Is asynchronized op":',
    b'"Global rank start":', b'"Global rank stride":', b'"Input Dims":', b'"Input type":',
    b'"Concrete Inputs":',
)


cdef struct Span:
    Bytes start
    Py_ssize_t length


cdef struct Slot:
    uint64_t hash
    Bytes text
    Py_ssize_t length
    int32_t id
    int8_t kind       # of a track: stream or thread; of strings: 0
    int8_t pid_kind
    int8_t tid_kind
    int64_t pid
    int64_t tid


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
    int32_t *launch
    int32_t *ordinal
    Py_ssize_t used
    Py_ssize_t room


cdef struct Field:
    int8_t kind       # 0 absent or null, TEXT, NUMBER
    int64_t value     # the number, or the id of the text


cdef struct Event:
    unsigned char phase
    int32_t category
    int32_t name
    Field pid
    Field tid
    Field device
    Field stream
    int64_t start
    int64_t duration
    int64_t correlation
    int64_t external
    int64_t size
    bint has_start
    bint has_duration
    bint has_args
    uint64_t seen     # members of args, by ArgsKey
    int32_t described # -1, or -2 - row of what is said of a collective
    int32_t launch    # -1, or the id of how a kernel was launched
    Bytes label       # "name" of args: the label of a process or thread, or NULL
    Py_ssize_t label_length
    bint foreign      # strict JSON, but for the general decoder


cdef inline uint64_t hash_of(Bytes text, Py_ssize_t length) noexcept nogil:
    cdef uint64_t value = <uint64_t>0x9E3779B97F4A7C15ULL ^ <uint64_t>length
    cdef uint64_t word
    while length >= 8:
        memcpy(&word, text, 8)
        value = (value ^ word) * <uint64_t>0xff51afd7ed558ccdULL
        value ^= value >> 32
        text += 8
        length -= 8
    word = 0
    if length > 0:
        memcpy(&word, text, length)
        value = (value ^ word) * <uint64_t>0xc4ceb9fe1a85ec53ULL
        value ^= value >> 32
    return value


cdef class _Table:
    """Open-addressing table of texts (or of number tuples) to ids; texts are copied."""

    cdef Slot *slots
    cdef Py_ssize_t room
    cdef Py_ssize_t used

    def __cinit__(self):
        self.room = TABLE_START
        self.slots = <Slot *>calloc(self.room, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t index
        if self.slots != NULL:
            for index in range(self.room):
                free(<void *>self.slots[index].text)
            free(self.slots)

    cdef inline Slot *find_text(self, uint64_t hash, Bytes text, Py_ssize_t length) noexcept nogil:
        """The slot that holds the text, or the empty one where it belongs (id 0 means empty)."""
        cdef uint64_t place = hash & <uint64_t>(self.room - 1)
        cdef Slot *slot
        while True:
            slot = &self.slots[place]
            if slot.id == 0:
                return slot
            if (slot.hash == hash and slot.length == length
                    and memcmp(slot.text, text, length) == 0):
                return slot
            place = (place + 1) & <uint64_t>(self.room - 1)

    cdef inline Slot *find_track(self, uint64_t hash, int8_t kind, Field pid, Field tid) noexcept nogil:
        cdef uint64_t place = hash & <uint64_t>(self.room - 1)
        cdef Slot *slot
        while True:
            slot = &self.slots[place]
            if slot.id == 0:
                return slot
            if (slot.hash == hash and slot.kind == kind and slot.pid_kind == pid.kind
                    and slot.tid_kind == tid.kind and slot.pid == pid.value
                    and slot.tid == tid.value):
                return slot
            place = (place + 1) & <uint64_t>(self.room - 1)

    cdef int grow(self) except -1:
        """Twice the room when two thirds are used; slots move, so call it before a find."""
        cdef Slot *old = self.slots
        cdef Py_ssize_t old_room = self.room
        cdef Py_ssize_t index
        cdef uint64_t place
        cdef Slot *fresh
        if self.used * 3 < self.room * 2:
            return 0
        fresh = <Slot *>calloc(self.room * 2, sizeof(Slot))
        if fresh == NULL:
            raise MemoryError
        self.room *= 2
        self.slots = fresh
        for index in range(old_room):
            if old[index].id != 0:
                place = old[index].hash & <uint64_t>(self.room - 1)
                while fresh[place].id != 0:
                    place = (place + 1) & <uint64_t>(self.room - 1)
                fresh[place] = old[index]
        free(old)
        return 0


cdef class Scanner:
    """Scans chunks of events; one per trace file.

    ``pool`` interns texts (``id_of``), ``tracks`` is the dictionary of track keys,
    ``group_of`` gives the column group of a category by its index, ``is_shaped`` tells names
    whose inputs describe a collective (2: its peer too). ``describe`` reads such an event from
    text: the index of what it says, -2 where it cannot tell. ``launched`` gives the id of a
    kernel's launch by the texts of its grid, blocks an SM and occupancy. All are shared with the
    general decoder.
    """

    cdef object pool, tracks, group_of, is_shaped, describe, launched
    cdef _Table texts, labels, track_table, last_labels, descriptions, launches
    cdef Span parts[PARTS]       # where the members stand that are kept as text
    cdef unsigned char *said     # some of them end to end, as a key of a table
    cdef Py_ssize_t said_room
    cdef int32_t *described      # by row: what is said; numbers alone differ
    cdef int64_t *sequences
    cdef Py_ssize_t described_used, described_room
    cdef bint odd_labels         # a label came whose process or thread is no number
    cdef list label_texts
    cdef Rows rows[GROUPS]
    cdef int8_t *group_codes     # by string id: column group of a category, -1 not asked yet
    cdef int8_t *shaped          # by string id: 1 where inputs matter, -1 not asked yet
    cdef int16_t *category_slots  # by string id: small index of a category for counting
    cdef Py_ssize_t flags_room
    cdef int64_t *counts         # [128][CATEGORIES + 1]
    cdef int32_t category_ids[CATEGORIES + 1]
    cdef int categories
    cdef int group_without_category
    cdef int label_name, label_process
    cdef Py_ssize_t *spans       # start, end, ordinal of events for the general decoder
    cdef Py_ssize_t spans_used, spans_room
    cdef Py_ssize_t ordinal
    cdef readonly bint ended_inside  # the last scan stopped because its text ended

    def __cinit__(self, pool, tracks, group_of, is_shaped, describe, launched):
        self.pool, self.tracks = pool, tracks
        self.group_of, self.is_shaped, self.describe = group_of, is_shaped, describe
        self.launched = launched
        self.texts, self.labels, self.track_table = _Table(), _Table(), _Table()
        self.last_labels, self.descriptions, self.launches = _Table(), _Table(), _Table()
        self.label_texts = []
        self.counts = <int64_t *>calloc(128 * (CATEGORIES + 1), sizeof(int64_t))
        if self.counts == NULL:
            raise MemoryError
        self.category_ids[0] = -1
        self.categories = 1
        self.group_without_category = group_of(None)
        self.label_process = pool.id_of("process_name")
        self.label_name = pool.id_of("thread_name")

    def __dealloc__(self):
        cdef int group
        for group in range(GROUPS):
            free(self.rows[group].start)
            free(self.rows[group].duration)
            free(self.rows[group].correlation)
            free(self.rows[group].external)
            free(self.rows[group].size)
            free(self.rows[group].name)
            free(self.rows[group].category)
            free(self.rows[group].track)
            free(self.rows[group].args)
            free(self.rows[group].launch)
            free(self.rows[group].ordinal)
        free(self.said)
        free(self.described)
        free(self.sequences)
        free(self.group_codes)
        free(self.shaped)
        free(self.category_slots)
        free(self.counts)
        free(self.spans)

    # public -------------------------------------------------------------------

    def scan(self, bytes text):
        """Scan events from the start of ``text``: bytes that are done with (0: none).

        Stops before what is incomplete, no event, or not strict JSON. Rows wait in the
        buffers for :meth:`take`; spans for :meth:`take_spans`.
        """
        cdef Bytes base = <Bytes><const char *>text
        cdef Bytes end = base + len(text)
        cdef Py_ssize_t done
        with nogil:
            done = self._scan(base, end)
        return done

    def take(self, int group):
        """Columns of the rows of a group since the last call (copies), None without rows."""
        cdef Rows *rows = &self.rows[group]
        if rows.used == 0:
            return None
        columns = {
            "start_ns": _copy64(rows.start, rows.used),
            "dur_ns": _copy64(rows.duration, rows.used),
            "name": _copy32(rows.name, rows.used),
            "category": _copy32(rows.category, rows.used),
            "track": _copy32(rows.track, rows.used),
            "args": _copy32(rows.args, rows.used),
            "correlation": _copy64(rows.correlation, rows.used),
            "external_id": _copy64(rows.external, rows.used),
            "bytes": _copy64(rows.size, rows.used),
            "ordinal": _copy32(rows.ordinal, rows.used),
        }
        if group == 0:
            columns["launch"] = _copy32(rows.launch, rows.used)
        rows.used = 0
        return columns

    def take_spans(self):
        """(start, end, ordinal) of the events left to the general decoder since the last call."""
        cdef Py_ssize_t index
        spans = [
            (self.spans[index], self.spans[index + 1], self.spans[index + 2])
            for index in range(0, self.spans_used, 3)
        ]
        self.spans_used = 0
        self.ordinal = 0
        return spans

    def take_counts(self):
        """(phase, category id or -1, number) of the events counted here, once at the end."""
        cdef int phase, slot
        return [
            (chr(phase), self.category_ids[slot], self.counts[phase * (CATEGORIES + 1) + slot])
            for phase in range(128)
            for slot in range(self.categories)
            if self.counts[phase * (CATEGORIES + 1) + slot]
        ]

    def take_described(self):
        """What each described row says, and its sequence number or -2 where that says it too."""
        if self.described_used == 0:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        return (
            _copy32(self.described, self.described_used),
            _copy64(self.sequences, self.described_used),
        )

    # the scan -----------------------------------------------------------------

    cdef Py_ssize_t _scan(self, Bytes base, Bytes end) except -1 nogil:
        cdef Bytes p = skip_space(base, end)
        cdef Bytes start
        cdef Py_ssize_t done = p - base
        cdef int code
        cdef Event event
        self.ended_inside = False
        while p < end and p[0] == 123:
            start = p
            code = self._event(&p, end, &event)
            if code != OK:
                self.ended_inside = code == MORE
                self.odd_labels |= code == ODD
                break
            self.odd_labels |= event.foreign
            if event.foreign or event.phase == 66 or event.phase == 69:
                self._span(start - base, p - base)
            elif event.phase == 77 and self._is_new_label(&event):
                self._span(start - base, p - base)
            elif event.phase != 88:
                self._count(&event)
            elif self._is_plain(&event):
                self._count(&event)
                self._row(&event)
            else:
                self._span(start - base, p - base)
            self.ordinal += 1
            done = p - base
            p = skip_space(p, end)
            if p < end and p[0] == 44:
                p = skip_space(p + 1, end)
                done = p - base
        return done

    cdef int _event(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        """One object, every member checked; known ones kept."""
        cdef Bytes p = skip_space(at[0] + 1, end)
        cdef Bytes key
        cdef Py_ssize_t length
        cdef int code
        cdef int seen = 0
        cdef Key known
        memset(event, 0, sizeof(Event))
        event.category = event.name = -1
        event.correlation = event.external = event.size = event.described = event.launch = -1
        if p == end:
            return MORE
        if p[0] == 125:
            at[0] = p + 1
            event.foreign = True
            return OK
        while True:
            code = key_end(&p, end, &key, &length)
            if code != OK:
                return code
            known = _key(key, length)
            if known != K_OTHER:
                if seen & (1 << known):
                    event.foreign = True
                seen |= 1 << known
            code = self._member(known, &p, end, event)
            if code != OK:
                return code
            p = skip_space(p, end)
            if p == end:
                return MORE
            if p[0] == 125:
                at[0] = p + 1
                if event.phase == 0:
                    event.foreign = True
                return OK
            if p[0] != 44:
                return ODD
            p = skip_space(p + 1, end)

    cdef int _member(self, Key known, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes p = at[0]
        cdef Bytes start = p
        cdef int code
        cdef bint flag
        cdef Field field
        if known == K_ARGS:
            if p[0] == 123:
                return self._args(at, end, event)
            event.foreign = True
        elif known == K_TS or known == K_DUR:
            if p[0] == 45 or 48 <= p[0] <= 57:
                code = number_end(at, end, &flag)
                if code != OK:
                    return code
                if known == K_TS:
                    event.has_start = nanoseconds(start, at[0], &event.start)
                else:
                    event.has_duration = nanoseconds(start, at[0], &event.duration)
                return OK
        elif known == K_PID or known == K_TID:
            code = self._label(at, end, &field, &event.foreign)
            if known == K_PID:
                event.pid = field
            else:
                event.tid = field
            return code
        elif known == K_PH or known == K_CAT or known == K_NAME:
            if p[0] != 34:
                if p[0] != 110 or known == K_PH:
                    event.foreign = True
                return value_end(at, end)
            p += 1
            start = p
            code = string_end(&p, end, &flag)
            if code != OK:
                return code
            at[0] = p + 1
            if known == K_PH:
                if p - start == 1 and start[0] < 128 and not flag:
                    event.phase = start[0]
                else:
                    event.foreign = True
            elif flag:
                event.foreign = True
            elif known == K_CAT:
                event.category = self._text(start, p - start, &event.foreign)
            else:
                event.name = self._text(start, p - start, &event.foreign)
            return OK
        return value_end(at, end)

    cdef int _args(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        """The object in ``args``. With text beyond ASCII the general decoder checks its UTF-8."""
        cdef Bytes start = at[0]
        cdef int code = self._args_members(at, end, event)
        if code == OK and has_high(start, at[0]):
            event.foreign = True
        return code

    cdef int _args_members(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes p = skip_space(at[0] + 1, end)
        cdef Bytes key
        cdef Py_ssize_t length
        cdef int code, known
        cdef uint64_t bit
        cdef bint escaped
        event.has_args = True
        if p == end:
            return MORE
        if p[0] == 125:
            at[0] = p + 1
            return OK
        while True:
            code = key_end(&p, end, &key, &length)
            if code != OK:
                return code
            known = _args_key(key, length)
            if known == A_OTHER:
                code = value_end(&p, end)
            else:
                bit = <uint64_t>1 << known
                if event.seen & bit:
                    event.foreign = True
                event.seen |= bit
                code = self._args_member(known, &p, end, event)
            if code != OK:
                return code
            p = skip_space(p, end)
            if p == end:
                return MORE
            if p[0] == 125:
                at[0] = p + 1
                return OK
            if p[0] != 44:
                return ODD
            p = skip_space(p + 1, end)

    cdef inline int _args_member(self, int known, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes start = at[0]
        cdef int code
        cdef bint escaped
        if known < PARTS:
            code = value_end(at, end)
            self.parts[known].start = start
            self.parts[known].length = at[0] - start
            return code
        if known == A_CORRELATION:
            return self._identifier(at, end, &event.correlation, &event.foreign)
        if known == A_EXTERNAL:
            return self._identifier(at, end, &event.external, &event.foreign)
        if known == A_BYTES:
            return self._identifier(at, end, &event.size, &event.foreign)
        if known == A_DEVICE:
            return self._label(at, end, &event.device, &event.foreign)
        if known == A_STREAM:
            return self._label(at, end, &event.stream, &event.foreign)
        if start[0] != 34:
            return value_end(at, end)
        at[0] = start + 1
        code = string_end(at, end, &escaped)
        event.label = NULL if escaped else start + 1
        event.label_length = at[0] - start - 1
        if code == OK:
            at[0] += 1
        return code

    cdef inline int _identifier(
        self, Bytes *at, Bytes end, int64_t *value, bint *foreign
    ) noexcept nogil:
        """An integer member of args; anything else is for the general decoder."""
        cdef Bytes start = at[0]
        cdef bint integer
        cdef int code
        if start[0] != 45 and not 48 <= start[0] <= 57:
            if start[0] != 110:
                foreign[0] = True
            return value_end(at, end)
        code = number_end(at, end, &integer)
        if code == OK and not (integer and small_integer(start, at[0], value)):
            foreign[0] = True
        return code

    cdef inline int _label(self, Bytes *at, Bytes end, Field *field, bint *foreign) except -1 nogil:
        """A pid, tid, device or stream: integer, plain text, or null."""
        cdef Bytes p = at[0]
        cdef Bytes start = p
        cdef bint flag
        cdef int code
        field.kind = 0
        field.value = 0
        if p[0] == 34:
            p += 1
            start = p
            code = string_end(&p, end, &flag)
            if code != OK:
                return code
            at[0] = p + 1
            if flag:
                foreign[0] = True
            else:
                field.kind = TEXT
                field.value = self._label_id(start, p - start, foreign)
            return OK
        if p[0] == 45 or 48 <= p[0] <= 57:
            code = number_end(at, end, &flag)
            if code == OK:
                if flag and small_integer(start, at[0], &field.value):
                    field.kind = NUMBER
                else:
                    foreign[0] = True
            return code
        if p[0] != 110:
            foreign[0] = True
        return value_end(at, end)

    cdef inline bint _is_plain(self, Event *event) except -1 nogil:
        """Whether a complete event can be kept here with nothing lost."""
        cdef int group
        cdef int shape
        if not (event.has_start and event.has_duration) or event.duration < 0:
            return False
        if not event.has_args:
            return True
        group = self._group(event.category)
        if group != 0 and group != 4 and group != 5:  # gpu, cpu_ops, annotations
            return True
        if group == 0 and not self._launch(event):
            return False
        if event.seen & (1 << A_COLLECTIVE | 1 << A_IN_ELEMS):
            return self._describe(event, 0, STATED, -1)
        if group == 0 or event.name < 0:
            return True
        shape = self._shaped(event.name)
        if shape == 0:
            return True
        return self._describe(event, STATED, DESCRIBED if shape == 2 else A_CONCRETE, event.name)

    # what is said of launches -------------------------------------------------

    cdef bint _launch(self, Event *event) except -1 nogil:
        """Give the event the id of its launch; False where the general decoder must read it."""
        cdef Py_ssize_t length = 0
        cdef int part
        cdef Slot *slot
        cdef uint64_t hash
        if not event.seen & (1 << A_GRID | 1 << A_BLOCKS_PER_SM | 1 << A_OCCUPANCY):
            return True
        for part in range(A_GRID, PARTS):
            if event.seen >> part & 1:
                self._say(&length, part, self.parts[part].start, self.parts[part].length)
        hash = hash_of(self.said, length)
        slot = self.launches.find_text(hash, self.said, length)
        event.launch = slot.id - 1 if slot.id != 0 else self._new_launch(event, hash, length)
        return event.launch >= 0

    cdef int32_t _new_launch(self, Event *event, uint64_t hash, Py_ssize_t length) except -3 with gil:
        cdef int part
        if self.launches.used >= DESCRIPTIONS:
            return -2
        texts = [
            (<const char *>self.parts[part].start)[:self.parts[part].length]
            if event.seen >> part & 1 else b""
            for part in range(A_GRID, PARTS)
        ]
        return self._remember(self.launches, hash, self.said, length, self.launched(*texts))

    # what is said of collectives ----------------------------------------------

    cdef bint _describe(self, Event *event, int first, int stop, int32_t name) except -1 nogil:
        """Give the event a row of its own; False where the general decoder must read it."""
        cdef Py_ssize_t length = 0
        cdef int64_t sequence = -2
        cdef int part
        cdef Span *span
        cdef Slot *slot
        cdef uint64_t hash
        cdef int32_t said
        self._say(&length, name + 1, <Bytes>&name, sizeof(name))
        for part in range(first, stop):
            if not event.seen >> part & 1:
                continue
            span = &self.parts[part]
            if part == A_SEQ and _plain_count(span, &sequence):
                self._say(&length, part, span.start, 0)  # there is one: its number is kept apart
                continue
            if part <= A_IN_ELEMS and span.start[0] == 110:  # null states nothing
                return False
            self._say(&length, part, span.start, span.length)
        hash = hash_of(self.said, length)
        slot = self.descriptions.find_text(hash, self.said, length)
        said = slot.id - 1 if slot.id != 0 else self._new_description(
            event, hash, length, first, stop, name)
        if said < 0:
            return False
        if self.described_used == self.described_room:
            self.described_room = self.described_room * 2 if self.described_room else 1024
            self.described = <int32_t *>_resized(self.described, self.described_room * 4)
            self.sequences = <int64_t *>_resized(self.sequences, self.described_room * 8)
        self.described[self.described_used] = said
        self.sequences[self.described_used] = sequence
        event.described = <int32_t>(-2 - self.described_used)
        self.described_used += 1
        return True

    cdef int _say(self, Py_ssize_t *used, int64_t mark, Bytes text, Py_ssize_t length) except -1 nogil:
        """Append to the key: which member, its length, its text."""
        cdef Py_ssize_t wanted = used[0] + 16 + length
        cdef int64_t stated = length
        if wanted > self.said_room:
            self.said_room = wanted * 2
            self.said = <unsigned char *>_resized(self.said, self.said_room)
        memcpy(self.said + used[0], &mark, 8)
        memcpy(self.said + used[0] + 8, &stated, 8)
        memcpy(self.said + used[0] + 16, text, length)
        used[0] = wanted
        return 0

    cdef int32_t _new_description(
        self, Event *event, uint64_t hash, Py_ssize_t length, int first, int stop, int32_t name
    ) except -3 with gil:
        cdef int part
        cdef int32_t said
        if self.descriptions.used >= DESCRIPTIONS:
            return -2
        members = [
            PART_KEYS[part] + (<const char *>self.parts[part].start)[:self.parts[part].length]
            for part in range(first, stop)
            if event.seen >> part & 1
        ]
        said = self.describe(None if name < 0 else self.pool.text_of(name), b",".join(members))
        if said < 0:
            return -2
        return self._remember(self.descriptions, hash, self.said, length, said)

    cdef inline bint _is_new_label(self, Event *event) except -1 nogil:
        """Whether the general decoder must see a metadata event: it only keeps labels.

        Some files repeat each label tens of thousands of times. A text is new unless it is
        the last one that its process or thread was given. Keys that are no numbers could
        name the same process in two ways; after the first of them every label is new.
        """
        cdef Slot *slot
        cdef uint64_t mixed[3]
        cdef uint64_t hash
        cdef Field none
        if event.name != self.label_name and event.name != self.label_process:
            return False
        if event.pid.kind != NUMBER or (event.name == self.label_name and event.tid.kind != NUMBER):
            self.odd_labels = True
        if self.odd_labels or event.label == NULL:
            return True
        if event.name == self.label_process:
            memset(&none, 0, sizeof(Field))
            event.tid = none
        mixed[0] = <uint64_t>event.pid.value
        mixed[1] = <uint64_t>event.tid.value
        mixed[2] = event.tid.kind
        hash = hash_of(<Bytes>mixed, 24)
        slot = self.last_labels.find_track(hash, 0, event.pid, event.tid)
        if (slot.id != 0 and slot.length == event.label_length
                and memcmp(slot.text, event.label, event.label_length) == 0):
            return False
        self._remember_label(hash, event)
        return True

    cdef int _remember_label(self, uint64_t hash, Event *event) except -1 with gil:
        cdef Slot *slot
        cdef Py_ssize_t length = event.label_length
        cdef unsigned char *copy
        self.last_labels.grow()
        copy = <unsigned char *>malloc(length if length else 1)
        if copy == NULL:
            raise MemoryError
        memcpy(copy, event.label, length)
        slot = self.last_labels.find_track(hash, 0, event.pid, event.tid)
        if slot.id == 0:
            self.last_labels.used += 1
        free(<void *>slot.text)
        slot.hash, slot.kind, slot.pid, slot.tid = hash, 0, event.pid.value, event.tid.value
        slot.pid_kind, slot.tid_kind, slot.id = event.pid.kind, event.tid.kind, 1
        slot.text, slot.length = copy, length
        return 0

    # rows, spans, counts ------------------------------------------------------

    cdef int _row(self, Event *event) except -1 nogil:
        cdef int group = self._group(event.category)
        cdef Rows *rows = &self.rows[group]
        cdef Py_ssize_t at = rows.used
        cdef Field pid = event.pid
        cdef Field tid = event.tid
        if at == rows.room:
            self._room(rows)
        if group <= 2:
            if event.device.kind != 0:
                pid = event.device
            if event.stream.kind != 0:
                tid = event.stream
        rows.start[at] = event.start
        rows.duration[at] = event.duration
        rows.name[at] = event.name
        rows.category[at] = event.category
        rows.track[at] = self._track(group <= 2, pid, tid)
        rows.args[at] = event.described
        rows.launch[at] = event.launch
        rows.correlation[at] = event.correlation if event.correlation != 0 else -1
        rows.external[at] = event.external
        rows.size[at] = event.size
        rows.ordinal[at] = <int32_t>self.ordinal
        rows.used = at + 1
        return 0

    cdef int _room(self, Rows *rows) except -1 nogil:
        cdef Py_ssize_t room = rows.room * 2 if rows.room else 256
        rows.start = <int64_t *>_resized(rows.start, room * 8)
        rows.duration = <int64_t *>_resized(rows.duration, room * 8)
        rows.correlation = <int64_t *>_resized(rows.correlation, room * 8)
        rows.external = <int64_t *>_resized(rows.external, room * 8)
        rows.size = <int64_t *>_resized(rows.size, room * 8)
        rows.name = <int32_t *>_resized(rows.name, room * 4)
        rows.category = <int32_t *>_resized(rows.category, room * 4)
        rows.track = <int32_t *>_resized(rows.track, room * 4)
        rows.args = <int32_t *>_resized(rows.args, room * 4)
        rows.launch = <int32_t *>_resized(rows.launch, room * 4)
        rows.ordinal = <int32_t *>_resized(rows.ordinal, room * 4)
        rows.room = room
        return 0

    cdef int _span(self, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        if self.spans_used == self.spans_room:
            self.spans_room = self.spans_room * 2 if self.spans_room else 768
            self.spans = <Py_ssize_t *>_resized(self.spans, self.spans_room * sizeof(Py_ssize_t))
        self.spans[self.spans_used] = start
        self.spans[self.spans_used + 1] = end
        self.spans[self.spans_used + 2] = self.ordinal
        self.spans_used += 3
        return 0

    cdef int _count(self, Event *event) except -1 nogil:
        cdef int slot = 0
        if event.category >= 0:
            self._flags(event.category)
            slot = self.category_slots[event.category]
            if slot == 0:
                if self.categories > CATEGORIES:
                    _too_many_categories()
                slot = self.categories
                self.categories += 1
                self.category_ids[slot] = event.category
                self.category_slots[event.category] = <int16_t>slot
        self.counts[event.phase * (CATEGORIES + 1) + slot] += 1
        return 0

    # ids ----------------------------------------------------------------------

    cdef int32_t _text(self, Bytes text, Py_ssize_t length, bint *foreign) except -2 nogil:
        """Id of a text without escapes; what is not UTF-8 is for the general decoder."""
        cdef uint64_t hash = hash_of(text, length)
        cdef Slot *slot = self.texts.find_text(hash, text, length)
        if slot.id != 0:
            return slot.id - 1
        return self._new_text(hash, text, length, foreign)

    cdef int32_t _new_text(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *foreign
    ) except -2 with gil:
        try:
            decoded = (<const char *>text)[:length].decode("utf-8")
        except UnicodeDecodeError:
            foreign[0] = True
            return -1
        return self._remember(self.texts, hash, text, length, self.pool.id_of(decoded))

    cdef int64_t _label_id(self, Bytes text, Py_ssize_t length, bint *foreign) except -2 nogil:
        cdef uint64_t hash = hash_of(text, length)
        cdef Slot *slot = self.labels.find_text(hash, text, length)
        if slot.id != 0:
            return slot.id - 1
        return self._new_label_id(hash, text, length, foreign)

    cdef int64_t _new_label_id(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *foreign
    ) except -2 with gil:
        try:
            decoded = (<const char *>text)[:length].decode("utf-8")
        except UnicodeDecodeError:
            foreign[0] = True
            return -1
        self.label_texts.append(decoded)
        return self._remember(self.labels, hash, text, length, len(self.label_texts) - 1)

    cdef int32_t _remember(
        self, _Table table, uint64_t hash, Bytes text, Py_ssize_t length, int32_t id
    ) except -2:
        cdef Slot *slot
        cdef unsigned char *copy = <unsigned char *>malloc(length if length else 1)
        if copy == NULL:
            raise MemoryError
        memcpy(copy, text, length)
        try:
            table.grow()
        except MemoryError:
            free(copy)
            raise
        slot = table.find_text(hash, text, length)
        slot.hash, slot.text, slot.length, slot.id = hash, copy, length, id + 1
        table.used += 1
        return id

    cdef int32_t _track(self, bint stream, Field pid, Field tid) except -2 nogil:
        cdef uint64_t mixed[3]
        cdef Slot *slot
        mixed[0] = <uint64_t>pid.value
        mixed[1] = <uint64_t>tid.value
        mixed[2] = <uint64_t>(stream + 2 * pid.kind + 8 * tid.kind)
        cdef uint64_t hash = hash_of(<Bytes>mixed, 24)
        slot = self.track_table.find_track(hash, stream, pid, tid)
        if slot.id != 0:
            return slot.id - 1
        return self._new_track(hash, stream, pid, tid)

    cdef int32_t _new_track(self, uint64_t hash, bint stream, Field pid, Field tid) except -2 with gil:
        cdef Slot *slot
        key = ("stream" if stream else "thread", self._field(pid), self._field(tid))
        id = self.tracks.setdefault(key, len(self.tracks))
        self.track_table.grow()
        slot = self.track_table.find_track(hash, stream, pid, tid)
        slot.hash, slot.kind, slot.pid, slot.tid = hash, stream, pid.value, tid.value
        slot.pid_kind, slot.tid_kind, slot.id = pid.kind, tid.kind, id + 1
        self.track_table.used += 1
        return id

    cdef object _field(self, Field field):
        if field.kind == TEXT:
            return self.label_texts[field.value]
        return field.value if field.kind == NUMBER else None

    cdef int _flags(self, int32_t id) except -1 nogil:
        """Room for the flags of a string id; new ones are not asked yet."""
        cdef Py_ssize_t room
        if id < self.flags_room:
            return 0
        room = self.flags_room * 2 if self.flags_room else 1024
        while room <= id:
            room *= 2
        self.group_codes = <int8_t *>_resized(self.group_codes, room)
        self.shaped = <int8_t *>_resized(self.shaped, room)
        self.category_slots = <int16_t *>_resized(self.category_slots, room * 2)
        memset(self.group_codes + self.flags_room, 255, room - self.flags_room)
        memset(self.shaped + self.flags_room, 255, room - self.flags_room)
        memset(self.category_slots + self.flags_room, 0, (room - self.flags_room) * 2)
        self.flags_room = room
        return 0

    cdef int _group(self, int32_t category) except -1 nogil:
        if category < 0:
            return self.group_without_category
        self._flags(category)
        if self.group_codes[category] < 0:
            self._ask_group(category)
        return self.group_codes[category]

    cdef int _ask_group(self, int32_t category) except -1 with gil:
        self.group_codes[category] = self.group_of(self.pool.text_of(category))
        return 0

    cdef int _shaped(self, int32_t name) except -1 nogil:
        self._flags(name)
        if self.shaped[name] < 0:
            self._ask_shaped(name)
        return self.shaped[name]

    cdef int _ask_shaped(self, int32_t name) except -1 with gil:
        self.shaped[name] = self.is_shaped(self.pool.text_of(name))
        return 0


cdef inline Key _key(Bytes key, Py_ssize_t length) noexcept nogil:
    """The members of an event that are kept."""
    if length == 2:
        if key[0] == 112 and key[1] == 104:
            return K_PH
        if key[0] == 116 and key[1] == 115:
            return K_TS
    elif length == 3:
        if key[0] == 99 and key[1] == 97 and key[2] == 116:
            return K_CAT
        if key[0] == 112 and key[1] == 105 and key[2] == 100:
            return K_PID
        if key[0] == 116 and key[1] == 105 and key[2] == 100:
            return K_TID
        if key[0] == 100 and key[1] == 117 and key[2] == 114:
            return K_DUR
    elif length == 4:
        if memcmp(key, <const char *>b"name", 4) == 0:
            return K_NAME
        if memcmp(key, <const char *>b"args", 4) == 0:
            return K_ARGS
    return K_OTHER


cdef inline int _args_key(Bytes key, Py_ssize_t length) noexcept nogil:
    """The members of args that are kept."""
    cdef const char *text = <const char *>key
    if length == 3:
        if memcmp(text, b"Seq", 3) == 0:
            return A_SEQ
    elif length == 4:
        if memcmp(text, b"name", 4) == 0:
            return A_NAME
        if memcmp(text, b"grid", 4) == 0:
            return A_GRID
    elif length == 5:
        if memcmp(text, b"bytes", 5) == 0:
            return A_BYTES
        if memcmp(text, b"dtype", 5) == 0:
            return A_DTYPE
    elif length == 6:
        if memcmp(text, b"device", 6) == 0:
            return A_DEVICE
        if memcmp(text, b"stream", 6) == 0:
            return A_STREAM
    elif length == 8:
        if memcmp(text, b"Comms Id", 8) == 0:
            return A_COMMS_ID
        if memcmp(text, b"Src Rank", 8) == 0:
            return A_SRC
        if memcmp(text, b"Dst Rank", 8) == 0:
            return A_DST
    elif length == 10:
        if memcmp(text, b"Group size", 10) == 0:
            return A_GROUP_SIZE
        if memcmp(text, b"Input Dims", 10) == 0:
            return A_INPUT_DIMS
        if memcmp(text, b"Input type", 10) == 0:
            return A_INPUT_TYPE
    elif length == 11:
        if memcmp(text, b"correlation", 11) == 0:
            return A_CORRELATION
        if memcmp(text, b"External id", 11) == 0:
            return A_EXTERNAL
    elif length == 13:
        if memcmp(text, b"In msg nelems", 13) == 0:
            return A_IN_ELEMS
        if memcmp(text, b"In split size", 13) == 0:
            return A_IN_SPLIT
        if memcmp(text, b"blocks per SM", 13) == 0:
            return A_BLOCKS_PER_SM
    elif length == 14:
        if memcmp(text, b"Out msg nelems", 14) == 0:
            return A_OUT_ELEMS
        if memcmp(text, b"Out split size", 14) == 0:
            return A_OUT_SPLIT
    elif length == 15:
        if memcmp(text, b"Collective name", 15) == 0:
            return A_COLLECTIVE
        if memcmp(text, b"Concrete Inputs", 15) == 0:
            return A_CONCRETE
    elif length == 16:
        if memcmp(text, b"Process Group ID", 16) == 0:
            return A_GROUP_ID
    elif length == 17:
        if memcmp(text, b"Global rank start", 17) == 0:
            return A_RANK_START
    elif length == 18:
        if memcmp(text, b"Process Group Name", 18) == 0:
            return A_GROUP_NAME
        if memcmp(text, b"Global rank stride", 18) == 0:
            return A_RANK_STRIDE
    elif length == 19:
        if memcmp(text, b"Process Group Ranks", 19) == 0:
            return A_GROUP_RANKS
        if memcmp(text, b"Is asynchronized op", 19) == 0:
            return A_ASYNC
    elif length == 25:
        if memcmp(text, b"Process Group Description", 25) == 0:
            return A_GROUP_DESCRIPTION
        if memcmp(text, b"est. achieved occupancy %", 25) == 0:
            return A_OCCUPANCY
    return A_OTHER


cdef inline bint _plain_count(Span *span, int64_t *value) noexcept nogil:
    """Value of an integer from 0 of few digits."""
    cdef Py_ssize_t index
    for index in range(span.length):
        if not 48 <= span.start[index] <= 57:
            return False
    return small_integer(span.start, span.start + span.length, value)


cdef void *_resized(void *old, Py_ssize_t size) except NULL nogil:
    cdef void *fresh = realloc(old, size)
    if fresh == NULL:
        _no_memory()
    return fresh


cdef int _no_memory() except -1 with gil:
    raise MemoryError


cdef int _too_many_categories() except -1 with gil:
    raise OverflowError("more than 255 categories")


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
