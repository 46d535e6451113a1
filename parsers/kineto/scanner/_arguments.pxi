# Tables of repeated args of events: launches of kernels, collective arguments, labels.
#
# Included by _scanner.pyx.


@cython.final
cdef class _Arguments:
    """Args that many events repeat as text; the general decoder reads each distinct one once."""

    cdef object pool, describe_text, launched
    cdef _Table descriptions, launches, last_labels
    cdef Span parts[PARTS]       # text of the members that are read later
    cdef unsigned char *key      # several of them concatenated: the key of a table
    cdef Py_ssize_t key_room
    cdef int32_t *described      # by row: the description; rows differ in numbers only
    cdef int64_t *sequences
    cdef int64_t *records        # NULL until an event states one
    cdef Py_ssize_t described_used, described_room
    cdef bint all_labels_new         # a process or thread was no number: every label is new
    cdef int label_name, label_process

    def __cinit__(self, pool, describe, launched):
        self.pool, self.describe_text, self.launched = pool, describe, launched
        self.descriptions, self.launches, self.last_labels = _Table(), _Table(), _Table()
        self.label_process = pool.id_of("process_name")
        self.label_name = pool.id_of("thread_name")

    def __dealloc__(self):
        free(self.key)
        free(self.described)
        free(self.sequences)
        free(self.records)

    cdef object take_described(self):
        """Return description, sequence number (-2: in the description) and record id by row."""
        cdef Py_ssize_t count = self.described_used
        described, sequences = np.empty(0, np.int32), np.empty(0, np.int64)
        records = sequences
        if count:
            described = _copy32(self.described, count)
            free(self.described)
            self.described = NULL
            sequences = _copy64(self.sequences, count)
            free(self.sequences)
            self.sequences = NULL
        if self.records:
            records = _copy64(self.records, count)
            free(self.records)
            self.records = NULL
        self.described_used = self.described_room = 0
        return described, sequences, records

    cdef bint launch(self, Event *event) except -1 nogil:
        """Set the launch id of the event; False where the general decoder must read it."""
        cdef Py_ssize_t length = 0
        cdef int part
        cdef Slot *slot
        cdef uint64_t hash
        if not event.seen & STATES_LAUNCH:
            return True
        if event.seen >> A_NAME & 1 and event.label == NULL:  # escapes, or no text
            return False
        for part in range(A_GRID, PARTS):
            if event.seen >> part & 1:
                self._append_key(&length, part, self.parts[part].start, self.parts[part].length)
        if event.label != NULL:
            self._append_key(&length, A_NAME, event.label, event.label_length)
        hash = hash_of(self.key, length)
        slot = self.launches.find_text(hash, self.key, length)
        event.extra = slot.id - 1 if slot.id != 0 else self._new_launch(event, hash, length)
        return event.extra >= 0

    cdef int32_t _new_launch(self, Event *event, uint64_t hash, Py_ssize_t length) except -3 with gil:
        cdef int part
        if self.launches.used >= LAUNCHES:
            return -2
        texts = [
            (<const char *>self.parts[part].start)[:self.parts[part].length]
            if event.seen >> part & 1 else b""
            for part in range(A_GRID, PARTS)
        ]
        texts.append(b"" if event.label == NULL else (<const char *>event.label)[:event.label_length])
        return self.launches.add(hash, self.key, length, self.launched(*texts))

    cdef bint describe(self, Event *event, int first, int stop, int32_t name) except -1 nogil:
        """Add a row for the event; False where the general decoder must read it."""
        cdef Py_ssize_t length = 0
        cdef int64_t sequence = -2
        cdef int part
        cdef Span *span
        cdef Slot *slot
        cdef uint64_t hash
        cdef int32_t description
        self._append_key(&length, name + 1, <Bytes>&name, sizeof(name))
        for part in range(first, stop):
            if not event.seen >> part & 1:
                continue
            span = &self.parts[part]
            if part == A_SEQ and _plain_count(span, &sequence):
                self._append_key(&length, part, span.start, 0)  # its presence; the number is stored by row
                continue
            if part <= A_IN_ELEMS and span.start[0] == 110:  # null: no value
                return False
            self._append_key(&length, part, span.start, span.length)
        hash = hash_of(self.key, length)
        slot = self.descriptions.find_text(hash, self.key, length)
        description = slot.id - 1 if slot.id != 0 else self._new_description(
            event, hash, length, first, stop, name)
        if description < 0:
            return False
        if self.described_used == self.described_room:
            self.described_room = self.described_room * 2 if self.described_room else 1024
            self.described = <int32_t *>_reallocated(self.described, self.described_room * 4)
            self.sequences = <int64_t *>_reallocated(self.sequences, self.described_room * 8)
            if self.records:
                self.records = <int64_t *>_reallocated(self.records, self.described_room * 8)
        self.described[self.described_used] = description
        self.sequences[self.described_used] = sequence
        self._record(event.record)
        event.described = <int32_t>(-2 - self.described_used)
        self.described_used += 1
        return True

    cdef int _record(self, int64_t record) except -1 nogil:
        """Store the record id of the operator; rows before the first id get -1."""
        if record <= 0 and not self.records:
            return 0
        if not self.records:
            self.records = <int64_t *>_reallocated(NULL, self.described_room * 8)
            memset(self.records, 255, self.described_room * 8)
        self.records[self.described_used] = record if record > 0 else -1
        return 0

    cdef int32_t _new_description(
        self, Event *event, uint64_t hash, Py_ssize_t length, int first, int stop, int32_t name
    ) except -3 with gil:
        cdef int part
        cdef int32_t description
        if self.descriptions.used >= DESCRIPTIONS:
            return -2
        members = [
            PART_KEYS[part] + (<const char *>self.parts[part].start)[:self.parts[part].length]
            for part in range(first, stop)
            if event.seen >> part & 1
        ]
        description = self.describe_text(None if name < 0 else self.pool.text_of(name), b",".join(members))
        if description < 0:
            return -2
        return self.descriptions.add(hash, self.key, length, description)

    cdef int _append_key(self, Py_ssize_t *used, int64_t mark, Bytes text, Py_ssize_t length) except -1 nogil:
        """Append a member to the key: its number, its length, its text."""
        cdef Py_ssize_t wanted = used[0] + 16 + length
        cdef int64_t stated = length
        if wanted > self.key_room:
            self.key_room = wanted * 2
            self.key = <unsigned char *>_reallocated(self.key, self.key_room)
        memcpy(self.key + used[0], &mark, 8)
        memcpy(self.key + used[0] + 8, &stated, 8)
        memcpy(self.key + used[0] + 16, text, length)
        used[0] = wanted
        return 0

    cdef inline bint is_new_label(self, Event *event) except -1 nogil:
        """Return whether the general decoder must read a metadata event for its label.

        Some files repeat each label tens of thousands of times. A label is new unless it
        equals the last label of its process or thread. Ids that are not numbers could name one
        process in two ways; after the first of them every label is new.
        """
        cdef Slot *slot
        cdef uint64_t mixed[3]
        cdef uint64_t hash
        cdef Field none
        if event.name != self.label_name and event.name != self.label_process:
            return False
        if event.pid.kind != NUMBER or (event.name == self.label_name and event.tid.kind != NUMBER):
            self.all_labels_new = True
        if self.all_labels_new or event.label == NULL:
            return True
        memset(&none, 0, sizeof(Field))
        if event.name == self.label_process:
            event.tid = none
        mixed[0] = <uint64_t>event.pid.value
        mixed[1] = <uint64_t>event.tid.value
        mixed[2] = event.tid.kind
        hash = hash_of(<Bytes>mixed, 24)
        slot = self.last_labels.find_track(hash, 0, event.pid, event.tid, none)
        if (slot.id != 0 and slot.length == event.label_length
                and memcmp(slot.text, event.label, event.label_length) == 0):
            return False
        self._store_label(hash, event)
        return True

    cdef int _store_label(self, uint64_t hash, Event *event) except -1 with gil:
        cdef Slot *slot
        cdef Field none
        cdef Py_ssize_t length = event.label_length
        cdef unsigned char *copy
        memset(&none, 0, sizeof(Field))
        self.last_labels.grow()
        copy = <unsigned char *>malloc(length if length else 1)
        if copy == NULL:
            raise MemoryError
        memcpy(copy, event.label, length)
        slot = self.last_labels.find_track(hash, 0, event.pid, event.tid, none)
        if slot.id == 0:
            self.last_labels.used += 1
        free(<void *>slot.text)
        slot.hash, slot.kind, slot.pid, slot.tid = hash, 0, event.pid.value, event.tid.value
        slot.pid_kind, slot.tid_kind, slot.id = event.pid.kind, event.tid.kind, 1
        slot.text, slot.length = copy, length
        return 0
