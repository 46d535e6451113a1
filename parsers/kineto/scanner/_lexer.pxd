# Find the end of strict JSON tokens, byte by byte, or leave the text to the general decoder.
# Every function takes the position and the end of the buffer and never reads at or beyond
# the end.

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef const unsigned char *Bytes

cdef enum Code:
    OK = 0      # the token is complete and strict
    MORE = 1    # the buffer ends inside the token
    NOT_STRICT = 2     # not strict JSON, or too deep: the general decoder decides

cdef enum:
    MAX_DEPTH = 128


cdef inline Bytes skip_space(Bytes p, Bytes end) noexcept nogil:
    """Skip white space, a third of indented files: blanks are compared eight and four at once."""
    cdef uint64_t eight
    cdef uint32_t four
    while p < end and p[0] <= 32:
        if p[0] != 32 and p[0] != 10 and p[0] != 13 and p[0] != 9:
            break
        p += 1
        while end - p >= 8:
            memcpy(&eight, p, 8)
            if eight != <uint64_t>0x2020202020202020ULL:
                break
            p += 8
        if end - p >= 4:
            memcpy(&four, p, 4)
            if four == <uint32_t>0x20202020UL:
                p += 4
    return p


cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define CCLTUI_IS_LITTLE 1
    #else
    #define CCLTUI_IS_LITTLE 0
    #endif
    """
    const bint IS_LITTLE "CCLTUI_IS_LITTLE"


cdef inline bint is_hex(unsigned char c) noexcept nogil:
    return 48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102


cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil


cdef inline uint64_t marks_end(uint64_t word) noexcept nogil:
    """Return a mask of eight bytes: 0x80 at the first quote, backslash or control byte."""
    cdef uint64_t quote = word ^ <uint64_t>0x2222222222222222ULL
    cdef uint64_t slash = word ^ <uint64_t>0x5C5C5C5C5C5C5C5CULL
    return (
        ((quote - <uint64_t>0x0101010101010101ULL) & ~quote)
        | ((slash - <uint64_t>0x0101010101010101ULL) & ~slash)
        | ((word - <uint64_t>0x2020202020202020ULL) & ~word)
    ) & <uint64_t>0x8080808080808080ULL


cdef inline Code string_end(Bytes *at, Bytes end, bint *escaped) noexcept nogil:
    """Move from after the opening quote to the closing one; set ``escaped`` on backslashes."""
    cdef Bytes p = at[0]
    cdef unsigned char c
    cdef uint64_t word, found
    escaped[0] = False
    while p < end:
        if end - p >= 8:
            memcpy(&word, p, 8)
            found = marks_end(word)
            if found == 0:
                p += 8
                continue
            p += __builtin_ctzll(found) >> 3
        c = p[0]
        if c == 34:
            at[0] = p
            return OK
        if c < 32:
            return NOT_STRICT
        if c == 92:
            escaped[0] = True
            if p + 1 >= end:
                return MORE
            c = p[1]
            if c == 117:  # \uXXXX; the general decoder checks pairs of surrogates
                if p + 5 >= end:
                    return MORE
                if not (is_hex(p[2]) and is_hex(p[3]) and is_hex(p[4]) and is_hex(p[5])):
                    return NOT_STRICT
                if (p[2] == 100 or p[2] == 68) and p[3] >= 56:
                    return NOT_STRICT
                p += 6
                continue
            if not (c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110
                    or c == 114 or c == 116):
                return NOT_STRICT
            p += 2
            continue
        p += 1
    return MORE


cdef inline Code digits(Bytes *at, Bytes end) noexcept nogil:
    """Move past one or more decimal digits."""
    cdef Bytes p = at[0]
    while p < end and 48 <= p[0] <= 57:
        p += 1
    if p == end:
        return MORE
    if p == at[0]:
        return NOT_STRICT
    at[0] = p
    return OK


cdef inline Code number_end(Bytes *at, Bytes end, bint *integer) noexcept nogil:
    """Move past a JSON number; set ``integer`` if it has neither point nor exponent."""
    cdef Bytes p = at[0]
    cdef Code code
    integer[0] = True
    if p < end and p[0] == 45:
        p += 1
    if p == end:
        return MORE
    if p[0] == 48:
        p += 1
    else:
        code = digits(&p, end)
        if code != OK:
            return code
    if p < end and p[0] == 46:
        integer[0] = False
        p += 1
        code = digits(&p, end)
        if code != OK:
            return code
    if p < end and (p[0] == 101 or p[0] == 69):
        integer[0] = False
        p += 1
        if p < end and (p[0] == 43 or p[0] == 45):
            p += 1
        code = digits(&p, end)
        if code != OK:
            return code
    if p == end:
        return MORE
    if 48 <= p[0] <= 57:  # a leading zero
        return NOT_STRICT
    at[0] = p
    return OK


cdef inline bint plain_integer(Bytes *at, Bytes end, int64_t *value) noexcept nogil:
    """Read an integer of up to 18 digits in one pass; False for any other number."""
    cdef Bytes p = at[0]
    cdef int64_t number = 0
    if end - p < 20 or not 48 <= p[0] <= 57:
        return False
    if p[0] == 48 and 48 <= p[1] <= 57:  # a leading zero
        return False
    while 48 <= p[0] <= 57:
        if p - at[0] == 18:
            return False
        number = number * 10 + (p[0] - 48)
        p += 1
    if p[0] == 46 or p[0] == 101 or p[0] == 69:
        return False
    at[0] = p
    value[0] = number
    return True


cdef inline bint _eight_digits(Bytes p, int64_t *value) noexcept nogil:
    """Set ``value`` to the number of eight digits; False if any byte is no digit."""
    cdef uint64_t word
    memcpy(&word, p, 8)
    if ((word & <uint64_t>0xF0F0F0F0F0F0F0F0ULL)
            | (((word + <uint64_t>0x0606060606060606ULL) & <uint64_t>0xF0F0F0F0F0F0F0F0ULL) >> 4)
            ) != <uint64_t>0x3333333333333333ULL:
        return False
    word -= <uint64_t>0x3030303030303030ULL
    word = word * 10 + (word >> 8)  # pairs, in every second byte
    value[0] = <int64_t>((
        (word & <uint64_t>0x000000FF000000FFULL) * <uint64_t>0x000F424000000064ULL
        + ((word >> 16) & <uint64_t>0x000000FF000000FFULL) * <uint64_t>0x0000271000000001ULL
    ) >> 32)
    return True


cdef inline bint plain_nanoseconds(Bytes *at, Bytes end, int64_t *value) noexcept nogil:
    """Read microseconds with up to three decimals as ns in one pass; False for other numbers."""
    cdef Bytes p = at[0]
    cdef int64_t number = 0
    cdef int64_t eight
    cdef int decimals = 0
    if end - p < 32 or not 48 <= p[0] <= 57:
        return False
    if p[0] == 48 and 48 <= p[1] <= 57:  # a leading zero
        return False
    while p - at[0] <= 8 and IS_LITTLE and _eight_digits(p, &eight):
        number = number * 100000000 + eight
        p += 8
    while 48 <= p[0] <= 57:
        if p - at[0] == 16:
            return False
        number = number * 10 + (p[0] - 48)
        p += 1
    if number > 2305843009213692LL:  # as in ``nanoseconds``
        return False
    if p[0] == 46:
        p += 1
        while decimals < 3 and 48 <= p[0] <= 57:
            number = number * 10 + (p[0] - 48)
            p += 1
            decimals += 1
        if decimals == 0 or 48 <= p[0] <= 57:
            return False
    if p[0] == 101 or p[0] == 69:
        return False
    at[0] = p
    value[0] = number * (1000 if decimals == 0 else 100 if decimals == 1 else 10 if decimals == 2 else 1)
    return True


cdef inline Code word_end(Bytes *at, Bytes end, const char *word) noexcept nogil:
    cdef Bytes p = at[0]
    while word[0] != 0:
        if p == end:
            return MORE
        if p[0] != <unsigned char>word[0]:
            return NOT_STRICT
        p += 1
        word += 1
    at[0] = p
    return OK


cdef inline Code scalar_end(Bytes *at, Bytes end) noexcept nogil:
    cdef bint flag
    cdef Code code
    cdef unsigned char c = at[0][0]
    if c == 34:
        at[0] += 1
        code = string_end(at, end, &flag)
        if code == OK:
            at[0] += 1
        return code
    if c == 116:
        return word_end(at, end, b"true")
    if c == 102:
        return word_end(at, end, b"false")
    if c == 110:
        return word_end(at, end, b"null")
    return number_end(at, end, &flag)


cdef inline Code key_end(Bytes *at, Bytes end, Bytes *key, Py_ssize_t *length) noexcept nogil:
    """Move past a key, its colon and white space; NOT_STRICT for a key with escapes."""
    cdef Bytes p = at[0]
    cdef bint escaped
    cdef Code code
    if p == end:
        return MORE
    if p[0] != 34:
        return NOT_STRICT
    p += 1
    key[0] = p
    code = string_end(&p, end, &escaped)
    if code != OK:
        return code
    if escaped:
        return NOT_STRICT
    length[0] = p - key[0]
    p = skip_space(p + 1, end)
    if p == end:
        return MORE
    if p[0] != 58:
        return NOT_STRICT
    p = skip_space(p + 1, end)
    if p == end:
        return MORE
    at[0] = p
    return OK


cdef inline Code value_end(Bytes *at, Bytes end) noexcept nogil:
    """Move past any value and check its syntax strictly."""
    cdef unsigned char stack[MAX_DEPTH]
    cdef int depth = 0
    cdef Bytes p = at[0]
    cdef Bytes key
    cdef Py_ssize_t length
    cdef Code code
    cdef unsigned char c
    while True:
        if p == end:
            return MORE
        c = p[0]
        if c == 123 or c == 91:  # an opening bracket: go to its first member or its end
            if depth == MAX_DEPTH:
                return NOT_STRICT
            stack[depth] = c
            depth += 1
            p = skip_space(p + 1, end)
            if p == end:
                return MORE
            if p[0] != c + 2:
                if c == 123:
                    code = key_end(&p, end, &key, &length)
                    if code != OK:
                        return code
                continue
        else:
            code = scalar_end(&p, end)
            if code != OK:
                return code
            if depth == 0:
                at[0] = p
                return OK
            p = skip_space(p, end)
        while True:  # after a member, or at the end of an empty container
            if p == end:
                return MORE
            c = p[0]
            if c == 44:
                p = skip_space(p + 1, end)
                if stack[depth - 1] == 123:
                    code = key_end(&p, end, &key, &length)
                    if code != OK:
                        return code
                break
            if c != stack[depth - 1] + 2:
                return NOT_STRICT
            p += 1
            depth -= 1
            if depth == 0:
                at[0] = p
                return OK
            p = skip_space(p, end)


cdef inline Code any_end(Bytes *at, Bytes end) noexcept nogil:
    """Move past any value as ``value_end`` does; numbers and short texts take one pass."""
    cdef Bytes p = at[0]
    cdef Bytes dot
    cdef bint flag
    if p[0] == 34:
        at[0] += 1
        if string_end(at, end, &flag) == OK:
            at[0] += 1
            return OK
        at[0] = p
    elif 49 <= p[0] <= 57 or p[0] == 48 and end - p > 1 and not 48 <= p[1] <= 57:
        while p < end and 48 <= p[0] <= 57:
            p += 1
        if p < end and p[0] == 46:
            p += 1
            dot = p
            while p < end and 48 <= p[0] <= 57:
                p += 1
            if p == dot:
                return value_end(at, end)
        if p < end and p[0] != 46 and p[0] != 101 and p[0] != 69:
            at[0] = p
            return OK
    return value_end(at, end)


cdef inline Code key_at(
    Bytes *at, Bytes end, bint is_first, Bytes *key, Py_ssize_t *length
) noexcept nogil:
    """Move from a value or an opening brace to the next value; NULL as key: past the end."""
    cdef Bytes p = skip_space(at[0], end)
    if p == end:
        return MORE
    if p[0] == 125:
        at[0] = p + 1
        key[0] = NULL
        return OK
    if not is_first:
        if p[0] != 44:
            return NOT_STRICT
        p = skip_space(p + 1, end)
    at[0] = p
    return key_end(at, end, key, length)


cdef inline bint small_integer(Bytes p, Bytes end, int64_t *value) noexcept nogil:
    """Set ``value`` to a checked integer; False if it has more than 18 digits."""
    cdef bint negative = p[0] == 45
    cdef int64_t number = 0
    if negative:
        p += 1
    if end - p > 18:
        return False
    while p < end:
        number = number * 10 + (p[0] - 48)
        p += 1
    value[0] = -number if negative else number
    return True


cdef inline bint nanoseconds(Bytes p, Bytes end, int64_t *value) noexcept nogil:
    """Convert a checked number of microseconds to ns; False for the general decoder.

    More than three decimals round half away from zero, as in ``decimal_times``.
    """
    cdef bint negative = p[0] == 45
    cdef int64_t number = 0
    cdef int decimals = 0
    cdef Bytes start
    if negative:
        p += 1
    start = p
    while p < end and p[0] != 46:
        if p[0] == 101 or p[0] == 69:
            return False
        number = number * 10 + (p[0] - 48)
        p += 1
        if p - start > 15 and number > 2305843009213692LL:
            return False
    if p < end:
        p += 1
    while decimals < 3:
        number *= 10
        if p < end:
            if p[0] == 101 or p[0] == 69:
                return False
            number += p[0] - 48
            p += 1
        decimals += 1
    if p < end and 48 <= p[0] <= 57:
        if p[0] >= 53:
            number += 1
        while p < end:
            if p[0] == 101 or p[0] == 69:
                return False
            p += 1
    elif p < end:
        return False
    value[0] = -number if negative else number
    return True


cdef inline bint has_high(Bytes p, Bytes end) noexcept nogil:
    """Return whether any byte is beyond ASCII."""
    cdef uint64_t word
    cdef uint64_t all_words = 0
    while end - p >= 8:
        memcpy(&word, p, 8)
        all_words |= word
        p += 8
    while p < end:
        all_words |= p[0]
        p += 1
    return (all_words & <uint64_t>0x8080808080808080ULL) != 0
