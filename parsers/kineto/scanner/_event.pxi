# Read one event: check the syntax of every member, store the known ones.
#
# Included by _scanner.pyx.


@cython.final
cdef class _EventReader:
    """Reader of the members of events and of their args."""

    cdef _Ids ids
    cdef _Arguments arguments
    cdef _Glues glues, args_glues

    def __cinit__(self, _Ids ids, _Arguments arguments):
        self.ids, self.arguments = ids, arguments
        self.glues, self.args_glues = _Glues(), _Glues()

    cdef int read(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        """Read one object; check every member and store the known ones."""
        cdef Bytes p = at[0] + 1
        cdef int code
        cdef int state = OPENED
        cdef int seen = 0
        cdef int known
        memset(event, 0, sizeof(Event))
        event.category = event.name = -1
        event.correlation = event.external = event.size = event.described = event.extra = -1
        event.record = event.types = event.values = -1
        while True:
            known = self.glues.follow(&state, &p, end)
            if known < 0:
                code = self._read_key(&p, end, &state, &known)
                if code != OK:
                    return code
            if known == CLOSED:
                at[0] = p
                event.is_deferred |= event.phase == 0
                return OK
            if p[0] <= 32:  # more white space than in the text that is known
                p = skip_space(p, end)
                if p == end:
                    return MORE
            if known != K_OTHER:
                if seen & (1 << known):
                    event.is_deferred = True
                seen |= 1 << known
            code = self._member(<Key>known, &p, end, event)
            if code != OK:
                return code

    cdef int _read_key(self, Bytes *at, Bytes end, int *state, int *known) noexcept nogil:
        """Move from the end of a value, or a brace, to the next value; set the key, or CLOSED."""
        cdef Bytes start = at[0]
        cdef Bytes key
        cdef Py_ssize_t length
        cdef int code = key_at(at, end, state[0] == OPENED, &key, &length)
        if code != OK:
            return code
        known[0] = CLOSED if key == NULL else _key(key, length)
        self.glues.learn(state, start, at[0] - start, known[0])
        return OK

    cdef int _member(self, Key known, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes p = at[0]
        cdef Bytes start = p
        cdef int code
        cdef bint flag
        cdef uint64_t hash
        if known == K_ARGS:
            if p[0] == 123:
                return self._args(at, end, event)
            event.is_deferred = True
        elif known == K_TS or known == K_DUR:
            if plain_nanoseconds(at, end, &event.start if known == K_TS else &event.duration):
                if known == K_TS:
                    event.has_start = True
                else:
                    event.has_duration = True
                return OK
            if p[0] == 45 or 48 <= p[0] <= 57:
                code = number_end(at, end, &flag)
                if code != OK:
                    return code
                event.is_deferred |= at[0] - start > LONGEST_NUMBER
                if known == K_TS:
                    event.has_start = nanoseconds(start, at[0], &event.start)
                else:
                    event.has_duration = nanoseconds(start, at[0], &event.duration)
                return OK
        elif known == K_PID or known == K_TID:
            # Written in place: a copy would wait for the stores of its parts.
            return self._label(
                at, end, &event.pid if known == K_PID else &event.tid, &event.is_deferred
            )
        elif known == K_PH or known == K_CAT or known == K_NAME:
            if p[0] != 34:
                if p[0] != 110 or known == K_PH:
                    event.is_deferred = True
                return value_end(at, end)
            if known == K_PH and end - p > 3 and p[2] == 34 and 32 <= p[1] < 127 and p[1] != 34 and p[1] != 92:
                event.phase = p[1]
                at[0] = p + 3
                return OK
            p += 1
            start = p
            code = hashed_end(&p, end, &flag, &hash)
            if code != OK:
                return code
            at[0] = p + 1
            if known == K_PH:
                if p - start == 1 and start[0] < 128 and not flag:
                    event.phase = start[0]
                else:
                    event.is_deferred = True
            elif flag:
                event.is_deferred = True
            elif known == K_CAT:
                event.category = self.ids.hashed_text(hash, start, p - start, &event.is_deferred)
            else:
                event.name = self.ids.hashed_text(hash, start, p - start, &event.is_deferred)
            return OK
        return any_end(at, end)

    cdef int _args(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        """Read the object in ``args``; the general decoder checks the UTF-8 of non-ASCII text."""
        cdef Bytes start = at[0]
        cdef int code = self._args_members(at, end, event)
        if code == OK and has_high(start, at[0]):
            event.is_deferred = True
        return code

    cdef int _args_members(self, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes p = at[0] + 1
        cdef int code, known
        cdef int state = OPENED
        cdef uint64_t bit
        event.has_args = True
        while True:
            known = self.args_glues.follow(&state, &p, end)
            if known < 0:
                code = self._read_args_key(&p, end, &state, &known)
                if code != OK:
                    return code
            if known == CLOSED:
                at[0] = p
                return OK
            if p[0] <= 32:  # more white space than in the text that is known
                p = skip_space(p, end)
                if p == end:
                    return MORE
            if known == A_OTHER:
                code = any_end(&p, end)
            else:
                bit = <uint64_t>1 << known
                if event.seen & bit:
                    event.is_deferred = True
                event.seen |= bit
                code = self._args_member(known, &p, end, event)
            if code != OK:
                return code

    cdef int _read_args_key(self, Bytes *at, Bytes end, int *state, int *known) noexcept nogil:
        """Move on as :meth:`_read_key` does, in args."""
        cdef Bytes start = at[0]
        cdef Bytes key
        cdef Py_ssize_t length
        cdef int code = key_at(at, end, state[0] == OPENED, &key, &length)
        if code != OK:
            return code
        known[0] = CLOSED if key == NULL else _args_key(key, length)
        self.args_glues.learn(state, start, at[0] - start, known[0])
        return OK

    cdef inline int _args_member(self, int known, Bytes *at, Bytes end, Event *event) except -1 nogil:
        cdef Bytes start = at[0]
        cdef int code
        cdef bint escaped
        if known < PARTS:
            code = value_end(at, end)
            self.arguments.parts[known].start = start
            self.arguments.parts[known].length = at[0] - start
            if known < STATED and start[0] != 34:  # texts, such as lists of ranks, may be long
                event.is_deferred |= at[0] - start > LONGEST_NUMBER
            return code
        if known == A_CORRELATION:
            return self._identifier(at, end, &event.correlation, &event.is_deferred)
        if known == A_EXTERNAL:
            return self._identifier(at, end, &event.external, &event.is_deferred)
        if known == A_BYTES:
            return self._identifier(at, end, &event.size, &event.is_deferred)
        if known == A_RECORD:
            return self._identifier(at, end, &event.record, &event.is_deferred)
        if known == A_DEVICE:
            return self._label(at, end, &event.device, &event.is_deferred)
        if known == A_STREAM:
            return self._label(at, end, &event.stream, &event.is_deferred)
        if start[0] != 34:
            code = value_end(at, end)
            event.is_deferred |= at[0] - start > LONGEST_NUMBER
            return code
        at[0] = start + 1
        code = string_end(at, end, &escaped)
        event.label = NULL if escaped else start + 1
        event.label_length = at[0] - start - 1
        if code == OK:
            at[0] += 1
        return code

    cdef inline int _identifier(
        self, Bytes *at, Bytes end, int64_t *value, bint *is_deferred
    ) noexcept nogil:
        """Read an integer member of args; set ``is_deferred`` for any other value but null."""
        cdef Bytes start = at[0]
        cdef bint integer
        cdef int code
        if plain_integer(at, end, value):
            return OK
        if start[0] != 45 and not 48 <= start[0] <= 57:
            if start[0] != 110:
                is_deferred[0] = True
            return value_end(at, end)
        code = number_end(at, end, &integer)
        if code == OK and not (integer and small_integer(start, at[0], value)):
            is_deferred[0] = True
        return code

    cdef inline int _label(self, Bytes *at, Bytes end, Field *field, bint *is_deferred) except -1 nogil:
        """Read a pid, tid, device or stream: integer, text without escapes, or null."""
        cdef Bytes p = at[0]
        cdef Bytes start = p
        cdef bint flag
        cdef uint64_t hash
        cdef int code
        field.kind = 0
        field.value = 0
        if plain_integer(at, end, &field.value):
            field.kind = NUMBER
            return OK
        if p[0] == 34:
            p += 1
            start = p
            code = hashed_end(&p, end, &flag, &hash)
            if code != OK:
                return code
            at[0] = p + 1
            if flag:
                is_deferred[0] = True
            else:
                field.kind = TEXT
                field.value = self.ids.label_id(hash, start, p - start, is_deferred)
            return OK
        if p[0] == 45 or 48 <= p[0] <= 57:
            code = number_end(at, end, &flag)
            if code == OK:
                if flag and small_integer(start, at[0], &field.value):
                    field.kind = NUMBER
                else:
                    is_deferred[0] = True
            return code
        if p[0] != 110:
            is_deferred[0] = True
        return value_end(at, end)
