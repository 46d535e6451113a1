# Numbering of int64 values: a hash table.
#
# Included by _btree.pyx.

cdef class Numbers:
    """Numbering of int64 values, from 0 in order of appearance."""

    cdef int64_t *keys
    cdef int32_t *ids      # -1: free
    cdef Py_ssize_t room
    cdef Py_ssize_t used

    def __cinit__(self):
        if not self._make_room(256):
            raise MemoryError

    def __dealloc__(self):
        free(self.keys)
        free(self.ids)

    def __len__(self):
        return self.used

    def values(self):
        """Return the values by number, int64."""
        cdef int64_t[::1] found = np.empty(self.used, np.int64)
        cdef Py_ssize_t index
        for index in range(self.room):
            if self.ids[index] >= 0:
                found[self.ids[index]] = self.keys[index]
        return np.asarray(found)

    def of(self, const int64_t[::1] values):
        """Return the number of each value, int32."""
        cdef int32_t[::1] found = np.empty(values.shape[0], np.int32)
        cdef bint done
        with nogil:
            done = self._number(values, found)
        if not done:
            raise MemoryError
        return np.asarray(found)

    cdef bint _number(self, const int64_t[::1] values, int32_t[::1] found) noexcept nogil:
        cdef Py_ssize_t index, place
        cdef int64_t last = 0
        cdef int32_t number = -1
        for index in range(values.shape[0]):
            if number < 0 or values[index] != last:
                last = values[index]
                place = self._place(last)
                if self.ids[place] < 0:
                    self.keys[place] = last
                    self.ids[place] = <int32_t>self.used
                    self.used += 1
                number = self.ids[place]
                if self.used * 2 > self.room and not self._make_room(self.room * 2):
                    return False
            found[index] = number
        return True

    cdef inline Py_ssize_t _place(self, int64_t key) noexcept nogil:
        cdef Py_ssize_t place = <Py_ssize_t>(mixed(<uint64_t>key) & <uint64_t>(self.room - 1))
        while self.ids[place] >= 0 and self.keys[place] != key:
            place = (place + 1) & (self.room - 1)
        return place

    cdef bint _make_room(self, Py_ssize_t room) noexcept nogil:
        cdef Py_ssize_t old = self.room, index, place
        cdef int64_t *keys = self.keys
        cdef int32_t *ids = self.ids
        cdef int64_t *new_keys = <int64_t *>malloc(room * sizeof(int64_t))
        cdef int32_t *new_ids = <int32_t *>malloc(room * sizeof(int32_t))
        if new_keys == NULL or new_ids == NULL:
            free(new_keys)
            free(new_ids)
            return False
        for index in range(room):
            new_ids[index] = -1
        self.keys, self.ids, self.room = new_keys, new_ids, room
        for index in range(old):
            if ids[index] >= 0:
                place = self._place(keys[index])
                new_keys[place], new_ids[place] = keys[index], ids[index]
        free(keys)
        free(ids)
        return True
