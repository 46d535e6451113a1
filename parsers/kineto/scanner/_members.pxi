# The members of an event that are stored, and the struct of an event while it is read.
#
# Included by _scanner.pyx.

cdef enum Key:
    K_OTHER, K_PH, K_CAT, K_NAME, K_PID, K_TID, K_TS, K_DUR, K_ARGS


cdef enum ArgsKey:
    # arguments of a collective, written by PyTorch from about 2.3
    A_COLLECTIVE, A_IN_ELEMS, A_OUT_ELEMS, A_DTYPE, A_GROUP_NAME, A_GROUP_ID, A_GROUP_DESCRIPTION,
    A_GROUP_RANKS, A_GROUP_SIZE, A_IN_SPLIT, A_OUT_SPLIT, A_SEQ, A_COMMS_ID, A_SRC, A_DST, A_ASYNC,
    A_RANK_START, A_RANK_STRIDE,
    # recorded inputs of an operator
    A_INPUT_DIMS, A_INPUT_TYPE, A_CONCRETE,
    # launch of a kernel
    A_GRID, A_BLOCKS_PER_SM, A_OCCUPANCY,
    # node of a CUDA or HIP graph that a kernel is, its graph, and the module of its annotation
    A_NODE, A_GRAPH, A_MODULE,
    # args of any event
    A_CORRELATION, A_EXTERNAL, A_BYTES, A_RECORD, A_NAME, A_DEVICE, A_STREAM, A_OTHER
    STATED = A_INPUT_DIMS   # end of the arguments of a collective
    DESCRIBED = A_GRID      # end of the members that describe a collective
    PARTS = A_CORRELATION   # end of the members whose text is read later

cdef enum:
    STATES_LAUNCH = (1 << A_GRID | 1 << A_BLOCKS_PER_SM | 1 << A_OCCUPANCY | 1 << A_NODE
                     | 1 << A_GRAPH | 1 << A_MODULE)

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
    int64_t record    # id of the operator in the execution trace
    bint has_start
    bint has_duration
    bint has_args
    uint64_t seen     # members of args, by ArgsKey
    int32_t described # -1, or -2 - row of its collective arguments
    int32_t extra     # -1; of a kernel its launch id, of a matrix product the text id of its shapes
    int32_t types     # -1; of a matrix product the text id of the types of its inputs
    int32_t values    # -1; of some operators the text id of inputs that are no tensors
    Bytes label       # "name" of args: the label of a process or thread, or NULL
    Py_ssize_t label_length
    bint is_deferred      # strict JSON, left to the general decoder


cdef inline Key _key(Bytes key, Py_ssize_t length) noexcept nogil:
    """Return which stored member of an event a key is."""
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
    """Return which stored member of args a key is."""
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
        if memcmp(text, b"graph id", 8) == 0:
            return A_GRAPH
        if memcmp(text, b"Comms Id", 8) == 0:
            return A_COMMS_ID
        if memcmp(text, b"Src Rank", 8) == 0:
            return A_SRC
        if memcmp(text, b"Dst Rank", 8) == 0:
            return A_DST
    elif length == 10:
        if memcmp(text, b"module_fqn", 10) == 0:
            return A_MODULE
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
        if memcmp(text, b"graph node id", 13) == 0:
            return A_NODE
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
        if memcmp(text, b"Record function id", 18) == 0:
            return A_RECORD
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
    """Set ``value`` to a non-negative integer of at most 18 digits; False for other values."""
    cdef Py_ssize_t index
    for index in range(span.length):
        if not 48 <= span.start[index] <= 57:
            return False
    return small_integer(span.start, span.start + span.length, value)
