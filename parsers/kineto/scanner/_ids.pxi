# Ids of texts, categories and tracks, and flags of texts by id.
#
# Included by _scanner.pyx.


@cython.final
cdef class _Ids:
    """Ids of texts and tracks: known ones are found without the interpreter lock.

    New ones are requested from the Python objects shared with the general decoder.
    """

    cdef object pool, tracks, group_of, input_kind
    cdef _Table texts, labels, track_table
    cdef list label_texts
    cdef int8_t *group_codes     # by string id: column group of a category, -1 unknown
    cdef int8_t *input_kinds          # by string id: what inputs describe, -1 unknown
    cdef int16_t *category_slots  # by string id: small index of a category for counting
    cdef Py_ssize_t flags_room
    cdef int group_without_category

    def __cinit__(self, pool, tracks, group_of, input_kind):
        self.pool, self.tracks = pool, tracks
        self.group_of, self.input_kind = group_of, input_kind
        self.texts, self.labels, self.track_table = _Table(), _Table(), _Table()
        self.label_texts = []
        self.group_without_category = group_of(None)

    def __dealloc__(self):
        free(self.group_codes)
        free(self.input_kinds)
        free(self.category_slots)

    cdef int32_t text(self, Bytes text, Py_ssize_t length, bint *is_deferred) except -2 nogil:
        """Return the id of a text without escapes; set ``is_deferred`` if it is not UTF-8."""
        return self.hashed_text(hash_of(text, length), text, length, is_deferred)

    cdef inline int32_t hashed_text(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *is_deferred
    ) except -2 nogil:
        cdef Slot *slot = self.texts.find_text(hash, text, length)
        if slot.id != 0:
            return slot.id - 1
        return self._new_text(hash, text, length, is_deferred)

    cdef int32_t _new_text(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *is_deferred
    ) except -2 with gil:
        try:
            decoded = (<const char *>text)[:length].decode("utf-8")
        except UnicodeDecodeError:
            is_deferred[0] = True
            return -1
        return self.texts.add(hash, text, length, self.pool.id_of(decoded))

    cdef int64_t label_id(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *is_deferred
    ) except -2 nogil:
        """Return the index of a pid, tid, device or stream that is a text of this hash."""
        cdef Slot *slot = self.labels.find_text(hash, text, length)
        if slot.id != 0:
            return slot.id - 1
        return self._new_label_id(hash, text, length, is_deferred)

    cdef int64_t _new_label_id(
        self, uint64_t hash, Bytes text, Py_ssize_t length, bint *is_deferred
    ) except -2 with gil:
        try:
            decoded = (<const char *>text)[:length].decode("utf-8")
        except UnicodeDecodeError:
            is_deferred[0] = True
            return -1
        self.label_texts.append(decoded)
        return self.labels.add(hash, text, length, len(self.label_texts) - 1)

    cdef int32_t track(self, bint stream, Field pid, Field tid, Field process) except -2 nogil:
        """Return the id of a track; ``process`` is the pid of a stream's rows, if not the device."""
        cdef uint64_t mixed[4]
        cdef Slot *slot
        mixed[0] = <uint64_t>pid.value
        mixed[1] = <uint64_t>tid.value
        mixed[2] = <uint64_t>(stream + 2 * pid.kind + 8 * tid.kind + 32 * process.kind)
        mixed[3] = <uint64_t>process.value
        cdef uint64_t hash = hash_of(<Bytes>mixed, 32)
        slot = self.track_table.find_track(hash, stream, pid, tid, process)
        if slot.id != 0:
            return slot.id - 1
        return self._new_track(hash, stream, pid, tid, process)

    cdef int32_t _new_track(
        self, uint64_t hash, bint stream, Field pid, Field tid, Field process
    ) except -2 with gil:
        cdef Slot *slot
        kind = "stream" if stream else "thread"
        key = (kind, self._field(pid), self._field(tid), self._field(process))
        id = self.tracks.setdefault(key, len(self.tracks))
        self.track_table.grow()
        slot = self.track_table.find_track(hash, stream, pid, tid, process)
        slot.hash, slot.kind, slot.pid, slot.tid = hash, stream, pid.value, tid.value
        slot.pid_kind, slot.tid_kind, slot.id = pid.kind, tid.kind, id + 1
        slot.process, slot.process_kind = process.value, process.kind
        self.track_table.used += 1
        return id

    cdef object _field(self, Field field):
        if field.kind == TEXT:
            return self.label_texts[field.value]
        return field.value if field.kind == NUMBER else None

    cdef int flags(self, int32_t id) except -1 nogil:
        """Make room for the flags of a string id; new flags are unknown."""
        cdef Py_ssize_t room
        if id < self.flags_room:
            return 0
        room = self.flags_room * 2 if self.flags_room else 1024
        while room <= id:
            room *= 2
        self.group_codes = <int8_t *>_reallocated(self.group_codes, room)
        self.input_kinds = <int8_t *>_reallocated(self.input_kinds, room)
        self.category_slots = <int16_t *>_reallocated(self.category_slots, room * 2)
        memset(self.group_codes + self.flags_room, 255, room - self.flags_room)
        memset(self.input_kinds + self.flags_room, 255, room - self.flags_room)
        memset(self.category_slots + self.flags_room, 0, (room - self.flags_room) * 2)
        self.flags_room = room
        return 0

    cdef int group(self, int32_t category) except -1 nogil:
        if category < 0:
            return self.group_without_category
        self.flags(category)
        if self.group_codes[category] < 0:
            self._find_group(category)
        return self.group_codes[category]

    cdef int _find_group(self, int32_t category) except -1 with gil:
        self.group_codes[category] = self.group_of(self.pool.text_of(category))
        return 0

    cdef int input_kind_of(self, int32_t name) except -1 nogil:
        self.flags(name)
        if self.input_kinds[name] < 0:
            self._find_input_kind(name)
        return self.input_kinds[name]

    cdef int _find_input_kind(self, int32_t name) except -1 with gil:
        self.input_kinds[name] = self.input_kind(self.pool.text_of(name))
        return 0
