# Decode integers of SQLite pages, and hash texts and integers.
#
# Included by _btree.pyx.

cdef int[12] SIZES
SIZES[:] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1]  # bytes by serial type


cdef inline int two(Bytes text) noexcept nogil:
    return text[0] << 8 | text[1]


cdef inline int64_t four(Bytes text) noexcept nogil:
    return <int64_t>text[0] << 24 | <int64_t>text[1] << 16 | text[2] << 8 | text[3]


cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    value ^= value >> 33
    value *= <uint64_t>0xff51afd7ed558ccdULL
    return value ^ value >> 29


cdef inline uint64_t hash_of(Bytes text, Py_ssize_t length) noexcept nogil:
    cdef uint64_t value = mixed(<uint64_t>length)
    cdef uint64_t word
    while length >= 8:
        memcpy(&word, text, 8)
        value = mixed(value ^ word)
        text += 8
        length -= 8
    if length > 0:
        word = 0
        memcpy(&word, text, length)
        value = mixed(value ^ word)
    return value


cdef inline int varint(Bytes text, Bytes end, int64_t *value) noexcept nogil:
    """Read a variable-length integer; return its length in bytes, 0 if the text cuts it."""
    cdef uint64_t found = 0
    cdef int place
    if text < end and text[0] < 0x80:  # nearly all integers have one byte
        value[0] = text[0]
        return 1
    for place in range(8):
        if text + place >= end:
            return 0
        found = found << 7 | (text[place] & 0x7F)
        if text[place] < 0x80:
            value[0] = <int64_t>found
            return place + 1
    if text + 8 >= end:
        return 0
    value[0] = <int64_t>(found << 8 | text[8])
    return 9


cdef inline int64_t size_of(int64_t serial) noexcept nogil:
    """Return the bytes of a value by its serial type, -1 for invalid types."""
    if serial >= 12:
        return (serial - 12) >> 1
    return SIZES[serial] if serial >= 0 else -1


cdef inline int64_t integer(Bytes text, int64_t serial, int64_t length) noexcept nogil:
    """Return a signed big-endian integer, or 0 or 1 by its type. Reads 8 bytes at ``text``."""
    cdef uint64_t value
    if serial >= 8:
        return serial - 8
    memcpy(&value, text, 8)
    return <int64_t>be64toh(value) >> (64 - 8 * length)
