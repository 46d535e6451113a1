# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scan trace events into column buffers, without Python objects.

Hand-written because a JSON library builds objects, or structs, for events that become rows of
arrays: the general decoder, which is msgspec with typed structs, takes 3.5 to 6.9 times the CPU
time (docs/bench.md; 6.8 times on a trace of 56 MB, 5.5 times on one of 22 MB).

The scanner walks JSON tokens strictly, in any layout and key order. Complete events ("ph": "X")
with plain members are written to the buffers of their column group. Events that the scanner does
not represent (begin and end, metadata, unexpected types, escapes in names) are left as spans of
text for the general decoder. Text that is not strict JSON stops the scan. The general decoder is
the reference, and reads every event that the scanner does not.

Arguments of collectives are decoded by the general decoder too, but once for all events whose
arguments differ in the sequence number only: the text of those members is the key of a table.
"""

import os

cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from ccltui.parsers.kineto.scanner._lexer cimport (
    IS_LITTLE, MORE, NOT_STRICT, OK, Bytes, Code, __builtin_ctzll, any_end, has_high, key_at,
    marks_end, nanoseconds, number_end, plain_integer, plain_nanoseconds, skip_space,
    small_integer, string_end, value_end,
)

VERSION = 3  # as in typed_event.py; raised with whatever the two sides exchange

cdef enum:
    GROUPS = 8
    CATEGORIES = 255
    TABLE_START = 1024
    TEXT = 1
    NUMBER = 2
    DESCRIPTIONS = 1 << 14  # further distinct ones are left to the general decoder
    LAUNCHES = 1 << 17      # likewise; every node of every graph of a server is one
    LONGEST_SHAPES = 400    # MAX_SHAPES_BYTES of tables/matrix_products.py
    LONGEST_NUMBER = 4000   # Python, and the general decoder, reject integers of over 4300 digits

READS_NODES = True  # nodes of graphs are passed to ``launched``

include "_members.pxi"
include "_tables.pxi"
include "_rows.pxi"
include "_ids.pxi"
include "_glue.pxi"
include "_arguments.pxi"
include "_event.pxi"


cdef class Scanner:
    """Scanner of chunks of events; one per trace file.

    All arguments are shared with the general decoder:

    pool: Ids of texts (``id_of``).
    tracks: Ids of tracks by key.
    group_of: Index of the column group of a category.
    input_kind: What the inputs of an operator describe: 1 a collective, 2 its peer too, 3 a
        matrix product, 4 one whose values count too, 0 nothing.
    describe: Index of collective arguments given as text, -2 where they cannot be read.
    launched: Id of a kernel's launch by the texts of its grid, blocks per SM and occupancy, of its
        node, graph and module, and of its name in an annotation.
    """

    cdef _Ids ids
    cdef _Arguments arguments
    cdef _EventReader reader
    cdef Rows rows[GROUPS]
    cdef int64_t *counts         # [128][CATEGORIES + 1]
    cdef int32_t category_ids[CATEGORIES + 1]
    cdef int categories
    cdef Py_ssize_t *spans       # start, end, ordinal of events for the general decoder
    cdef Py_ssize_t spans_used, spans_room
    cdef readonly Py_ssize_t ordinal  # events since the last call of take
    cdef readonly bint ended_inside  # the last scan stopped because its text ended

    def __cinit__(self, pool, tracks, group_of, input_kind, describe, launched):
        self.ids = _Ids(pool, tracks, group_of, input_kind)
        self.arguments = _Arguments(pool, describe, launched)
        self.reader = _EventReader(self.ids, self.arguments)
        self.counts = <int64_t *>calloc(128 * (CATEGORIES + 1), sizeof(int64_t))
        if self.counts == NULL:
            raise MemoryError
        self.category_ids[0] = -1
        self.categories = 1

    def __dealloc__(self):
        cdef int group
        for group in range(GROUPS):
            _free(&self.rows[group])
        free(self.counts)
        free(self.spans)

    def scan(self, bytes text, Py_ssize_t start=0):
        """Scan events from index ``start`` of ``text``; return the number of bytes consumed.

        Stops before an incomplete event, text that is no event, or text that is not strict
        JSON. :meth:`take` returns the rows, :meth:`take_spans` the events left over.
        """
        cdef Bytes base = <Bytes><const char *>text
        cdef Bytes end = base + len(text)
        cdef Py_ssize_t done
        if not 0 <= start <= len(text):
            raise ValueError("start is outside the text")
        base += start
        with nogil:
            done = self._scan(base, end)
        return done

    def take(self):
        """Return copies of the columns since the last call, by index of their group.

        A column in which every row is -1 is omitted. Ordinals begin again.
        """
        cdef int group
        found = {}
        for group in range(GROUPS):
            if self.rows[group].used == 0:
                continue
            columns = found[group] = _copied_columns(&self.rows[group])
            extra = columns.pop("extra", None)
            if extra is not None:
                columns["launch" if group == 0 else "shapes"] = extra
        self.ordinal = 0
        return found

    def take_spans(self):
        """Return (start, end, ordinal) of the events left over by the last scan.

        Positions count from where it started, ordinals from the last call of :meth:`take`.
        """
        cdef Py_ssize_t index
        spans = [
            (self.spans[index], self.spans[index + 1], self.spans[index + 2])
            for index in range(0, self.spans_used, 3)
        ]
        self.spans_used = 0
        return spans

    def take_counts(self):
        """Return (phase, category id or -1, number) of the events counted by the scanner."""
        cdef int phase, slot
        return [
            (chr(phase), self.category_ids[slot], self.counts[phase * (CATEGORIES + 1) + slot])
            for phase in range(128)
            for slot in range(self.categories)
            if self.counts[phase * (CATEGORIES + 1) + slot]
        ]

    def take_described(self):
        """Return description, sequence number (-2: in the description) and record id by row.

        Call it once, at the end: the buffers are freed.
        """
        return self.arguments.take_described()

    cdef Py_ssize_t _scan(self, Bytes base, Bytes end) except -1 nogil:
        cdef Bytes p = skip_space(base, end)
        cdef Bytes start
        cdef Py_ssize_t done = p - base
        cdef int code
        cdef int slot = 0
        cdef Event event
        self.ended_inside = False
        while p < end and p[0] == 123:
            start = p
            code = self.reader.read(&p, end, &event)
            if code != OK:
                self.ended_inside = code == MORE
                self.arguments.all_labels_new |= code == NOT_STRICT
                break
            self.arguments.all_labels_new |= event.is_deferred
            if event.is_deferred or event.phase == 66 or event.phase == 69:
                self._span(start - base, p - base)
            elif event.phase == 77 and self.arguments.is_new_label(&event):
                self._span(start - base, p - base)
            elif not self._has_slot(&event, &slot):
                self._span(start - base, p - base)
            elif event.phase != 88:
                self._count(&event, slot)
            elif self._is_plain(&event):
                self._count(&event, slot)
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

    cdef inline bint _is_plain(self, Event *event) except -1 nogil:
        """Return whether a row holds all that is used of a complete event."""
        cdef int group
        cdef int kind
        if not (event.has_start and event.has_duration) or event.duration < 0:
            return False
        if not event.has_args:
            return True
        group = self.ids.group(event.category)
        if group != 0 and group != 4 and group != 5:  # gpu, cpu_ops, annotations
            return True
        if group == 0 and not self.arguments.launch(event):
            return False
        kind = self.ids.input_kind_of(event.name) if group != 0 and event.name >= 0 else 0
        if kind >= 3 and group == 4:
            self._store_inputs(event, kind)
        if event.seen & (1 << A_COLLECTIVE | 1 << A_IN_ELEMS):
            return self.arguments.describe(event, 0, STATED, -1)
        if kind == 0 or kind >= 3:
            return True
        return self.arguments.describe(event, STATED, DESCRIBED if kind == 2 else A_CONCRETE, event.name)

    cdef int _store_inputs(self, Event *event, int kind) except -1 nogil:
        """Store shapes and types of the inputs of a product, of some also the values."""
        event.extra = self._part_text(event, A_INPUT_DIMS)
        if event.extra >= 0:
            event.types = self._part_text(event, A_INPUT_TYPE)
            event.values = self._part_text(event, A_CONCRETE) if kind == 4 else -1
        return 0

    cdef int32_t _part_text(self, Event *event, int part) except -2 nogil:
        """Return the text id of a member of args, -1 where it is absent or too long."""
        cdef Span *span = &self.arguments.parts[part]
        cdef bint odd = False  # stays False: events with bytes beyond ASCII are deferred before
        if event.seen >> part & 1 and span.length <= LONGEST_SHAPES:
            return self.ids.text(span.start, span.length, &odd)
        return -1

    cdef int _row(self, Event *event) except -1 nogil:
        cdef int group = self.ids.group(event.category)
        cdef Rows *rows = &self.rows[group]
        cdef Py_ssize_t at = rows.used
        cdef Field pid = event.pid
        cdef Field tid = event.tid
        cdef Field process
        process.kind, process.value = 0, 0
        if at == rows.room:
            _grow(rows)
        if group <= 2:
            if event.device.kind != 0:
                pid = event.device
                if pid.kind != event.pid.kind or pid.value != event.pid.value:
                    process = event.pid
            if event.stream.kind != 0:
                tid = event.stream
        rows.start[at] = event.start
        rows.duration[at] = event.duration
        rows.name[at] = event.name
        rows.category[at] = event.category
        rows.track[at] = self.ids.track(group <= 2, pid, tid, process)
        rows.args[at] = event.described
        rows.extra[at] = event.extra
        rows.types[at] = event.types
        rows.values[at] = event.values
        rows.correlation[at] = event.correlation if event.correlation != 0 else -1
        rows.external[at] = event.external
        rows.size[at] = event.size
        rows.has_args |= event.described != -1
        rows.has_extra |= event.extra != -1
        rows.has_types |= event.types != -1
        rows.has_values |= event.values != -1
        rows.has_correlation |= rows.correlation[at] != -1
        rows.has_external |= event.external != -1
        rows.has_size |= event.size != -1
        rows.ordinal[at] = <int32_t>self.ordinal
        rows.used = at + 1
        return 0

    cdef int _span(self, Py_ssize_t start, Py_ssize_t end) except -1 nogil:
        if self.spans_used == self.spans_room:
            self.spans_room = self.spans_room * 2 if self.spans_room else 768
            self.spans = <Py_ssize_t *>_reallocated(self.spans, self.spans_room * sizeof(Py_ssize_t))
        self.spans[self.spans_used] = start
        self.spans[self.spans_used + 1] = end
        self.spans[self.spans_used + 2] = self.ordinal
        self.spans_used += 3
        return 0

    cdef inline bint _has_slot(self, Event *event, int *slot) except -1 nogil:
        """Return whether the table of counts has room for the category; set ``slot``.

        Profilers write a dozen categories. Categories beyond the table are left to the general
        decoder, which counts any number of them.
        """
        slot[0] = 0
        if event.category < 0:
            return True
        self.ids.flags(event.category)
        slot[0] = self.ids.category_slots[event.category]
        if slot[0] == 0:
            if self.categories > CATEGORIES:
                return False
            slot[0] = self.categories
            self.categories += 1
            self.category_ids[slot[0]] = event.category
            self.ids.category_slots[event.category] = <int16_t>slot[0]
        return True

    cdef inline int _count(self, Event *event, int slot) noexcept nogil:
        self.counts[event.phase * (CATEGORIES + 1) + slot] += 1
        return 0
