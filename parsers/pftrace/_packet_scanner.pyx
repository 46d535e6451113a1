# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scan packets of a Perfetto trace into rows of events, without Python objects.

Hand-written because generated message classes build objects for packets that become rows of arrays.
`packet_scan.py` holds the general scanner, which is the reference and gives the same rows: it takes
about a hundred times the CPU time (docs/bench.md). Packets other than events are left to it.
"""

# Functions, not the macros PyBytes_AS_STRING and PyBytes_GET_SIZE: the limited API has no macros.
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from ccltui.parsers.pftrace import packet_scan, trace_state

VERSION = 2  # as in packet_scan.py; raised with whatever the two sides exchange

cdef enum:
    COLUMNS = 15
    SLOTS = 256
    PLACES = 256                # tracks and queues that are found without Python
    MOST_NAMES = 1 << 22        # interned ids beyond it are looked up one by one
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5
    NAME = 9
    CATEGORY = 10
    TRACK = 11
    DETAIL = 12
    MARKS = 13
    NUMBER = 14

cdef int64_t MAX_TIME = packet_scan.MAX_TIME
cdef uint64_t MAX_PACKET_BYTES = packet_scan.MAX_PACKET_BYTES

ctypedef const uint8_t *Bytes


cdef struct Span:
    Bytes begin
    Bytes end


cdef struct Field:
    uint64_t number
    int kind
    uint64_t value
    Span span


cdef struct Key:
    Bytes text
    Py_ssize_t size
    int place                   # column of its number, 0 without one
    int mark                    # bit that it sets
    int use                     # 1 description, 2 one that replaces inputs, 3 to 5 inputs


cdef struct Argument:
    Span span
    int use


cdef struct Table:
    int64_t *rows
    Py_ssize_t count
    Py_ssize_t room
    Py_ssize_t width


cdef inline Bytes read_varint(Bytes p, Bytes end, uint64_t *value) noexcept nogil:
    """Read a varint; NULL where it does not end."""
    cdef uint64_t found = 0
    cdef int shift = 0
    if p < end and p[0] < 0x80:
        value[0] = p[0]
        return p + 1
    while p < end and shift < 70:
        found |= (<uint64_t>(p[0] & 0x7F)) << shift
        if p[0] < 0x80:
            value[0] = found
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline Bytes read_field(Bytes p, Bytes end, Field *field) noexcept nogil:
    """Read a field; NULL where the bytes are none."""
    cdef uint64_t tag, size
    p = read_varint(p, end, &tag)
    if p == NULL:
        return NULL
    field.number = tag >> 3
    field.kind = tag & 7
    if field.number == 0 or field.number >= <uint64_t>1 << 29:
        return NULL
    if field.kind == VARINT:
        return read_varint(p, end, &field.value)
    if field.kind == LENGTH:
        p = read_varint(p, end, &size)
        if p == NULL or size > <uint64_t>(end - p):
            return NULL
        field.span.begin = p
        field.span.end = p + size
        return p + size
    if field.kind == FIXED64 or field.kind == FIXED32:
        size = 8 if field.kind == FIXED64 else 4
        return NULL if size > <uint64_t>(end - p) else p + size
    return NULL


cdef inline int64_t digits(Span span) noexcept nogil:
    """Read a text of up to 18 digits as a number, -1 for any other."""
    cdef int64_t found = 0
    cdef Bytes p = span.begin
    if p == span.end or span.end - p > 18:
        return -1
    while p < span.end:
        if p[0] < 48 or p[0] > 57:
            return -1
        found = found * 10 + (p[0] - 48)
        p += 1
    return found


cdef int64_t *new_row(Table *table) except NULL:
    cdef int64_t *moved
    if table.count == table.room:
        table.room = max(1024, 2 * table.room)
        moved = <int64_t *>realloc(table.rows, table.room * table.width * sizeof(int64_t))
        if moved == NULL:
            raise MemoryError
        table.rows = moved
    return table.rows + table.count * table.width


cdef inline int slot_of(Bytes text, Py_ssize_t size) noexcept nogil:
    return (size * 31 + text[0] * 7 + text[size - 1] * 3) & (SLOTS - 1)


cdef class PacketScanner:
    """The compiled scanner; see `packet_scan.Scan`."""

    cdef public str stopped
    cdef public object offset
    cdef object state, pieces, pool, known, kinds, sequence, keys_kept
    cdef Key keys[SLOTS]
    cdef Table begins, ends, stages
    cdef int32_t *names
    cdef Py_ssize_t names_room
    cdef uint64_t sequence_number
    cdef Argument *arguments
    cdef Py_ssize_t arguments_room
    cdef char *message
    cdef Py_ssize_t message_size, message_room
    cdef uint64_t track_keys[PLACES]
    cdef int64_t track_places[PLACES]
    cdef uint64_t queue_keys[PLACES]
    cdef int64_t queue_places[PLACES]
    cdef uint64_t last_stage
    cdef int64_t last_category  # of that stage, -1 where it is not known
    cdef Py_ssize_t at          # byte of the packet in the data that is scanned
    cdef int64_t number         # of the next begin or end

    def __cinit__(self):
        self.begins = Table(NULL, 0, 0, COLUMNS)
        self.stages = Table(NULL, 0, 0, COLUMNS)
        self.ends = Table(NULL, 0, 0, 4)
        self.names = NULL
        self.arguments = NULL
        self.message = NULL
        self.names_room = self.arguments_room = self.message_room = self.message_size = 0

    def __init__(self, state, pieces):
        self.state, self.pieces, self.pool = state, pieces, state.pool
        self.stopped, self.offset = "", 0
        self.known, self.kinds = {}, {}
        self.sequence = None
        self.last_category = -1
        for place in range(PLACES):
            self.track_places[place] = self.queue_places[place] = -1
        self.number = 0
        self.keys_kept = []
        for slot in range(SLOTS):
            self.keys[slot].size = 0
        texts = {*trace_state.NUMBERS, *trace_state.INPUTS, *trace_state.DESCRIPTIONS}
        for text in sorted(texts | set(trace_state.MARKS)):
            self.add_key(text)

    def __dealloc__(self):
        free(self.begins.rows)
        free(self.stages.rows)
        free(self.ends.rows)
        free(self.names)
        free(self.arguments)
        free(self.message)

    cdef add_key(self, text):
        data = text.encode()
        self.keys_kept.append(data)
        cdef Bytes begin = <Bytes>PyBytes_AsString(data)
        cdef int slot = slot_of(begin, len(data))
        while self.keys[slot].size:
            slot = (slot + 1) & (SLOTS - 1)
        cdef Key *key = &self.keys[slot]
        key.text, key.size = begin, len(data)
        key.place = packet_scan._PLACE.get(text, 0)
        key.mark = 1 << trace_state.MARKS.index(text) if text in trace_state.MARKS else 0
        key.use = 0
        if text in packet_scan.IS_DESCRIBED:
            key.use = 2
        elif text in trace_state.DESCRIPTIONS:
            key.use = 1
        elif text in trace_state.INPUTS:
            key.use = 3 + trace_state.INPUTS.index(text)

    cdef inline Key *find_key(self, Span text) noexcept nogil:
        cdef Py_ssize_t size = text.end - text.begin
        cdef int slot
        if size == 0:
            return NULL
        slot = slot_of(text.begin, size)
        while self.keys[slot].size:
            if self.keys[slot].size == size and memcmp(self.keys[slot].text, text.begin, size) == 0:
                return &self.keys[slot]
            slot = (slot + 1) & (SLOTS - 1)
        return NULL

    def scan(self, bytes data):
        cdef Bytes begin = <Bytes>PyBytes_AsString(data)
        cdef Bytes end = begin + PyBytes_Size(data)
        cdef Bytes p = begin
        cdef Bytes q
        cdef uint64_t size
        while p < end:
            if p[0] == 0x0A:  # a packet, in nearly all of a trace
                q = read_varint(p + 1, end, &size)
                if q != NULL and size <= MAX_PACKET_BYTES:
                    if size > <uint64_t>(end - q):
                        break
                    self.at = p - begin
                    if not self.well_formed(q, q + size, data, begin):
                        self.malformed()
                    p = q + size
                    continue
            try:
                found = packet_scan.packet_end(data, p - begin)
            except packet_scan.WireError as error:
                self.stopped = str(error)
                break
            if found is None:
                break
            first, last = found[1]
            self.at = p - begin
            if found[0] and not self.well_formed(
                begin + <Py_ssize_t>first, begin + <Py_ssize_t>last, data, begin
            ):
                self.malformed()
            p = begin + <Py_ssize_t>last
        self.offset += p - begin
        return p - begin

    cdef malformed(self):
        self.state.note_log.add(*packet_scan.MALFORMED, self.offset + self.at)

    cdef bint well_formed(self, Bytes p, Bytes end, bytes data, Bytes begin) except -1:
        """Read a packet, whose arguments may be damaged too; return whether it is well-formed."""
        try:
            return self.packet(p, end, data, begin)
        except packet_scan.WireError:
            return False

    cdef bint packet(self, Bytes p, Bytes end, bytes data, Bytes begin) except -1:
        """Read a packet; return whether it is well-formed."""
        cdef Field field
        cdef Bytes first = p
        cdef Span event, stage
        cdef uint64_t time = <uint64_t>-1, sequence = 0
        cdef int64_t flags = -1
        cdef bint has_time = False, has_others = False
        event.begin = stage.begin = NULL
        while p < end:
            p = read_field(p, end, &field)
            if p == NULL:
                return False
            if field.kind == VARINT:
                if field.number == 8:
                    time, has_time = field.value, True
                elif field.number == 10:
                    sequence = field.value
                elif field.number == 13:
                    flags = <int64_t>field.value
            elif field.kind == LENGTH:
                if field.number == 11:
                    event = field.span
                elif field.number == 53:
                    stage = field.span
                elif (field.number == 12 or field.number == 60 or field.number == 52
                      or field.number == packet_scan_pieces):
                    has_others = True
        if has_others or (flags > 0 and flags & 1):
            try:
                packet = packet_scan.Packet(data, (first - begin, end - begin))
                packet_scan.read_others(self.state, self.pieces, packet, data)
            except packet_scan.WireError:
                self.sequence = None
                return False
            self.sequence = None
        if event.begin == NULL and stage.begin == NULL:
            return True
        if not has_time or time >= <uint64_t>MAX_TIME:
            self.state.note_log.add(*packet_scan.BAD_TIME, self.offset + self.at)
            return True
        if self.sequence is None or sequence != self.sequence_number:
            self.use_sequence(sequence)
        if event.begin != NULL:
            return self.event(event, <int64_t>time, flags < 0)
        return self.stage(stage, <int64_t>time)

    cdef use_sequence(self, uint64_t number):
        self.sequence = self.state.sequence(number)
        self.sequence_number = number
        self.last_category = -1
        for place in range(self.names_room):
            self.names[place] = -2

    cdef int32_t name_of(self, uint64_t key) except -2:
        """Return the text id of an interned name, -1 where it is not known."""
        cdef Py_ssize_t room
        cdef int32_t *moved
        if key < <uint64_t>self.names_room:
            if self.names[key] == -2:
                self.names[key] = self.sequence.names.get(key, -1)
            return self.names[key]
        if key >= MOST_NAMES:
            return self.sequence.names.get(key, -1)
        room = max(1024, 2 * <Py_ssize_t>key)
        moved = <int32_t *>realloc(self.names, room * sizeof(int32_t))
        if moved == NULL:
            raise MemoryError
        self.names = moved
        for place in range(self.names_room, room):
            self.names[place] = -2
        self.names_room = room
        return self.name_of(key)

    cdef int64_t text_id(self, Span span) except -2:
        return self.state.id_of(PyBytes_FromStringAndSize(<char *>span.begin, span.end - span.begin))

    cdef int64_t track_of(self, uint64_t key) except -2:
        cdef int place = key & (PLACES - 1)
        if self.track_places[place] < 0 or self.track_keys[place] != key:
            self.track_places[place] = self.state.track_of(key)
            self.track_keys[place] = key
        return self.track_places[place]

    cdef int64_t queue_of(self, int64_t device, uint64_t queue) except -2:
        cdef uint64_t key = <uint64_t>device << 32 | queue
        cdef int place = (queue + <uint64_t>device * 61) & (PLACES - 1)
        if queue >> 32 or device < 0 or device >> 31:
            return self.state.queue_of(self.sequence, device, queue)
        if self.queue_places[place] < 0 or self.queue_keys[place] != key:
            self.queue_places[place] = self.state.queue_of(self.sequence, device, queue)
            self.queue_keys[place] = key
        return self.queue_places[place]

    cdef bint event(self, Span span, int64_t time, bint is_plain) except -1:
        cdef Field field
        cdef Bytes p = span.begin
        cdef uint64_t kind = 0, track = 0
        cdef int64_t name = -1, category = -1
        cdef Py_ssize_t count = 0
        cdef int64_t *row
        while p < span.end:
            p = read_field(p, span.end, &field)
            if p == NULL:
                return False
            if field.kind == VARINT:
                if field.number == 9:
                    kind = field.value
                elif field.number == 11:
                    track = field.value
                elif field.number == 10:
                    name = self.name_of(field.value)
                elif field.number == 3 and category < 0:
                    category = self.sequence.categories.get(field.value, -1)
            elif field.kind == LENGTH:
                if field.number == 4:
                    if count == self.arguments_room:
                        self.grow_arguments()
                    self.arguments[count].span = field.span
                    count += 1
                elif field.number == 23:
                    name = self.text_id(field.span)
                elif field.number == 22 and category < 0:
                    category = self.text_id(field.span)
        if kind == 2:
            row = new_row(&self.ends)
            row[0], row[1], row[2], row[3] = time, self.track_of(track), is_plain, self.number
            self.number += 1
            self.ends.count += 1
        elif kind == 1:
            row = new_row(&self.begins)
            for place in range(COLUMNS):
                row[place] = -1
            row[0], row[NAME], row[CATEGORY], row[MARKS] = time, name, category, 0
            if count and not self.read_arguments(row, count):
                return False
            row[TRACK] = self.track_of(track)
            row[NUMBER] = self.number
            self.number += 1
            self.begins.count += 1
        return True

    cdef grow_arguments(self):
        cdef Py_ssize_t room = max(64, 2 * self.arguments_room)
        cdef Argument *moved = <Argument *>realloc(self.arguments, room * sizeof(Argument))
        if moved == NULL:
            raise MemoryError
        self.arguments, self.arguments_room = moved, room

    cdef bint read_arguments(self, int64_t *row, Py_ssize_t count) except -1:
        """Read arguments: numbers into columns, the bytes of others into a detail."""
        cdef Key *key
        cdef int64_t value
        cdef bint interned = False, one_interned = False, is_described = False, any_kept = False
        cdef int kind
        cdef Argument *one
        for place in range(count):
            one = &self.arguments[place]
            one.use = 0
            if not self.argument(one.span, &key, &value, &one_interned, 10):
                return False
            if key == NULL:
                continue
            if key.place:
                row[key.place] = value
            row[MARKS] |= key.mark
            if key.use:
                one.use = key.use
                any_kept = True
                interned |= one_interned
                is_described |= key.use == 2
        if not any_kept:
            return True
        kind = 0 if is_described else self.kind_of(row[NAME])
        self.message_size = 0
        for place in range(count):
            one = &self.arguments[place]
            if one.use in (1, 2) or (one.use in (3, 4) and kind > 0) or (
                one.use == 5 and kind in (2, 4)
            ):
                self.keep(4, one.span)
        if self.message_size:
            row[DETAIL] = self.detail(row[NAME] if kind else -1, interned, False)
        return True

    cdef bint argument(
        self, Span span, Key **key, int64_t *value, bint *interned, uint64_t name_field
    ) except -1:
        """Find the key of an argument, NULL for one that is not read, and its number, -1: none."""
        cdef Field field
        cdef Bytes p = span.begin
        key[0] = NULL
        value[0] = -1
        interned[0] = False
        while p < span.end:
            p = read_field(p, span.end, &field)
            if p == NULL:
                return False
            if field.kind == LENGTH:
                if field.number == name_field:
                    key[0] = self.find_key(field.span)
                elif field.number == (6 if name_field == 10 else 2):
                    value[0] = digits(field.span)
            elif field.kind == VARINT and name_field == 10:
                if field.number == 1:
                    key[0] = self.interned_key(field.value)
                    interned[0] = True
                elif field.number == 3 or field.number == 4:
                    value[0] = <int64_t>field.value
                elif field.number == 17:
                    interned[0] = True
        return True

    cdef Key *interned_key(self, uint64_t number) except? NULL:
        cdef bytes data = self.sequence.annotation_names.get(number, "").encode()
        cdef Span span
        span.begin = <Bytes>PyBytes_AsString(data)
        span.end = span.begin + PyBytes_Size(data)
        return self.find_key(span)

    cdef int kind_of(self, int64_t name) except -1:
        found = self.kinds.get(name)
        if found is None:
            words = self.pool.text_of(name) if name >= 0 else ""
            found = self.kinds[name] = packet_scan.input_kind(words)
        return found

    cdef keep(self, uint64_t number, Span span):
        """Add a field with a length to the message."""
        cdef Py_ssize_t size = span.end - span.begin
        cdef Py_ssize_t room
        cdef char *moved
        if self.message_size + size + 20 > self.message_room:
            room = 2 * (self.message_size + size + 20)
            moved = <char *>realloc(self.message, room)
            if moved == NULL:
                raise MemoryError
            self.message, self.message_room = moved, room
        self.put(number << 3 | LENGTH)
        self.put(size)
        memcpy(self.message + self.message_size, span.begin, size)
        self.message_size += size

    cdef inline void put(self, uint64_t value) noexcept:
        while value > 0x7F:
            self.message[self.message_size] = <char>(value & 0x7F | 0x80)
            self.message_size += 1
            value >>= 7
        self.message[self.message_size] = <char>value
        self.message_size += 1

    cdef int64_t detail(self, int64_t name, bint interned, bint is_stage) except -2:
        cdef bytes message = PyBytes_FromStringAndSize(self.message, self.message_size)
        table = self.known
        if name >= 0 or interned or is_stage:
            owner = (name, self.sequence.generation if interned else 0, is_stage)
            table = self.known.get(owner)
            if table is None:
                table = self.known[owner] = {}
        found = table.get(message)
        if found is None:
            found = self.state.describe(self.sequence, name, message, is_stage=is_stage)
            table[message] = found
        return found

    cdef bint stage(self, Span span, int64_t time) except -1:
        cdef Field field
        cdef Bytes p = span.begin
        cdef uint64_t queue = 0, stage = 0
        cdef int64_t device = 0, kernel = -1, label = -1, event = -1, duration = 0, value
        cdef bint interned = False
        cdef Key *key
        cdef int64_t *row = new_row(&self.stages)
        for place in range(COLUMNS):
            row[place] = -1
        self.message_size = 0
        while p < span.end:
            p = read_field(p, span.end, &field)
            if p == NULL:
                return False
            if field.kind == VARINT:
                if field.number == 1:
                    event = <int64_t>field.value
                elif field.number == 2:
                    duration = <int64_t>field.value
                elif field.number == 11:
                    device = <int64_t>field.value
                elif field.number == 13:
                    queue = field.value
                elif field.number == 14:
                    stage = field.value
                elif field.number == 19:
                    kernel = self.sequence.kernels.get(field.value, -1)
                elif field.number == 20:
                    label = self.name_of(field.value)
            elif field.kind == LENGTH:
                if field.number == 6:
                    if not self.argument(field.span, &key, &value, &interned, 1):
                        return False
                    if key != NULL:
                        if key.place:
                            row[key.place] = value
                        elif key.use == 1 or key.use == 2:
                            self.keep(6, field.span)
                elif field.number == 17:
                    label = self.text_id(field.span)
                elif field.number == 21:
                    self.keep(21, field.span)
        row[0], row[1], row[MARKS] = time, duration, 0
        row[NUMBER], row[5] = event, device
        if self.last_category < 0 or stage != self.last_stage:
            self.last_category = self.pool.id_of(self.sequence.specifications.get(stage, ""))
            self.last_stage = stage
        row[CATEGORY] = self.last_category
        row[NAME] = label if label >= 0 else kernel if kernel >= 0 else row[CATEGORY]
        row[TRACK] = self.queue_of(device, queue)
        if self.message_size:
            row[DETAIL] = self.detail(-1, False, True)
        self.stages.count += 1
        return True

    def take(self):
        return (
            taken(&self.begins, packet_scan.ROW),
            taken(&self.ends, packet_scan.END),
            taken(&self.stages, packet_scan.ROW),
        )


cdef uint64_t packet_scan_pieces = packet_scan.PIECES


cdef taken(Table *table, names):
    data = PyBytes_FromStringAndSize(
        <char *>table.rows, table.count * table.width * sizeof(int64_t)
    ) if table.count else b""
    table.count = 0
    return packet_scan.table(names, data)
