# Text between two values of an object, such as `, "ts": `, learnt where it stands first.
#
# Included by _scanner.pyx.
#
# A profiler writes the members of its events in one order and spacing, so that the same text
# follows the same key again and again. Comparing it takes a few instructions; reading white space,
# comma, key and colon takes most of the time of a scan. Equal text has the same meaning wherever
# it follows a value of the same kind of object, so nothing depends on a layout: text that was not
# seen after this key is read as before.

cdef enum:
    GLUES = 512         # texts that are learnt; what follows them is read as before
    GLUE_PLACES = 1024  # of a hash table of them, a power of two
    GLUE_BYTES = 88     # text, and a word more that is compared under a mask
    LONGEST_GLUE = 80
    FOLLOWERS = 6       # with these a glue takes 128 bytes, and its place is a shift
    OPENED = 0          # state after the opening brace
    UNKNOWN = 1         # state after text that is not learnt
    CLOSED = 127        # in place of a key: the object has ended


cdef struct Glue:
    unsigned char text[GLUE_BYTES]
    uint64_t hash
    uint64_t mask                # of the last word
    int32_t last                 # where the last word begins
    int32_t length
    int16_t followers[FOLLOWERS] # the latest that came after it; 0 for none
    int32_t key                  # that it ends with, or CLOSED


cdef inline bint _stands_at(Glue *glue, Bytes p) noexcept nogil:
    """Return whether the text of ``glue`` stands at ``p``, where GLUE_BYTES can be read."""
    cdef uint64_t one, other
    cdef int32_t place = 0
    while place < glue.last:
        memcpy(&one, p + place, 8)
        memcpy(&other, glue.text + place, 8)
        if one != other:
            return False
        place += 8
    memcpy(&one, p + place, 8)
    memcpy(&other, glue.text + place, 8)
    return ((one ^ other) & glue.mask) == 0


cdef inline int _set_glue(Glue *glue, uint64_t hash, Bytes text, Py_ssize_t length, int key) noexcept nogil:
    """Fill a glue with ``length`` bytes, 1 to LONGEST_GLUE."""
    memset(glue, 0, sizeof(Glue))
    memcpy(glue.text, text, length)
    glue.hash = hash
    glue.length = <int32_t>length
    glue.last = <int32_t>((length - 1) & ~7)
    memset(&glue.mask, 255, length - glue.last)
    glue.key = key
    return 0


@cython.final
cdef class _Glues:
    """Texts between the values of one kind of object, each with those that came after it."""

    cdef Glue glues[GLUES]
    cdef int16_t places[GLUE_PLACES]
    cdef int used

    def __cinit__(self):
        self.used = 2  # OPENED and UNKNOWN

    cdef inline int follow(self, int *state, Bytes *at, Bytes end) noexcept nogil:
        """Move past known text; return its key, -1 where it must be read."""
        cdef Glue *now = &self.glues[state[0]]
        cdef Glue *one
        cdef int place
        if end - at[0] < GLUE_BYTES:
            return -1
        for place in range(FOLLOWERS):
            if now.followers[place] == 0:
                return -1
            one = &self.glues[now.followers[place]]
            if _stands_at(one, at[0]):
                state[0] = now.followers[place]
                at[0] += one.length
                return one.key
        return -1

    cdef int learn(self, int *state, Bytes text, Py_ssize_t length, int key) noexcept nogil:
        """Remember that this text came after ``state``, and move to its own state."""
        cdef int before = state[0]
        cdef int found, place
        cdef int16_t *followers = self.glues[before].followers
        found = self._number(text, length, key)
        state[0] = found
        if found == UNKNOWN:
            return 0
        for place in range(FOLLOWERS):
            if followers[place] == found:
                return 0
        for place in range(FOLLOWERS - 1, 0, -1):
            followers[place] = followers[place - 1]
        followers[0] = <int16_t>found
        return 0

    cdef int _number(self, Bytes text, Py_ssize_t length, int key) noexcept nogil:
        """Return the number of a text, added if there is room, UNKNOWN if not."""
        cdef uint64_t hash, place
        cdef Glue *glue
        if not 0 < length <= LONGEST_GLUE:
            return UNKNOWN
        hash = hash_of(text, length)
        place = hash & (GLUE_PLACES - 1)
        while self.places[place] != 0:
            glue = &self.glues[self.places[place]]
            if glue.hash == hash and glue.length == length and memcmp(glue.text, text, length) == 0:
                return self.places[place]
            place = (place + 1) & (GLUE_PLACES - 1)
        if self.used == GLUES:
            return UNKNOWN
        _set_glue(&self.glues[self.used], hash, text, length, key)
        self.places[place] = <int16_t>self.used
        self.used += 1
        return self.used - 1
