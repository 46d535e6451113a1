"""Read what PyTorch recorded: Kineto traces, any valid Chrome-trace JSON, and execution traces.

`parsers.text.compression` gives the bytes; `event_list` cuts them into events and decodes them
(`scanner` does both in compiled code), `event_rows` and `collective_rows` hold their rows,
`rank_builder` fills the columns of a rank, and `kineto_reader` runs it all. Execution traces
(`execution_trace`) have shapes and groups without times: `execution_join` adds them to a rank.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, RankInfo, Rule, binary_suffix, imported
from ccltui.parsers.text.compression import text_pieces
from ccltui.parsers.text.file_sample import Member, integer_at, object_shape, skip_blank

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample, JsonHead


_BASE_TIME = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})(?!\d)')
_TIME = re.compile(rb'"ts"\s*:\s*(\d{1,17})(?=[.,}\s])')
# The timelines of TensorFlow 1 name their processes /device:GPU:0/stream:all Compute.
_XLA_PROCESS = re.compile(rb'"name"\s*:\s*"(?:[^"]*/device:TPU:\d|(?:[^"/ ]+ )?/device:GPU:\d+")')

_END_TRIES = 16  # a file may repeat the key thousands of times; the one that counts is the last
# Keys that only a Chrome trace of PyTorch has before its events: a file cut there is still one.
_TRACE_HEADER = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "traceName"})


def xla_trace(sample: FileSample) -> Match | None:
    """Match a list of trace events with a process of a TPU, or of a GPU as XLA names it."""
    document = sample.json
    if document is None or not _has_events(document):
        return None
    return Match() if _XLA_PROCESS.search(document.data) else None


def kineto_trace(sample: FileSample) -> Match | None:
    """Match a list of trace events, bare or in an object."""
    document = sample.json
    if document is None or not _has_events(document):
        return None
    times = times_in(document.data)
    if document.is_list:
        return Match(info=times)
    info = distributed_info(document.data, document.shape.find("distributedInfo"))
    if info.rank is None and document.whole:
        info = info_at_end(document.data)
    return Match(info=info.completed(times))


def kineto_fragment(sample: FileSample) -> Match | None:
    """Match a trace that is damaged or cut off before its events."""
    document = sample.json
    if document is None or not document.is_plain_object:
        return None
    if b'"traceEvents"' not in document.data and not document.shape.keys & _TRACE_HEADER:
        return None
    info = distributed_info(document.data, document.shape.find("distributedInfo"))
    return Match(info=info, undecided=document.is_cut)


def times_in(data: bytes) -> RankInfo:
    """Base time and extreme times of the events in a piece of a trace.

    Descriptions of processes have time 0, which is not a time of the recording.
    """
    base = _BASE_TIME.search(data)
    times = [int(text) for text in _TIME.findall(data)]
    times = [us for us in times if us > 0]
    return RankInfo(
        base_ns=int(base.group(1)) if base else None,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
    )


def ends_as_json(tail: bytes) -> bool:
    """Whether a text ends as an object or list does."""
    return tail.rstrip().endswith((b"}", b"]"))


def _has_events(document: JsonHead) -> bool:
    keys = document.shape.keys
    if document.is_list:
        return document.item == b"{" and ("ph" in keys or {"name", "ts"} <= keys)
    events = document.shape.find("traceEvents")
    if events is None:
        return False
    return document.data[events.start : events.start + 1] in (b"[", b"")


def distributed_info(data: bytes, member: Member | None) -> RankInfo:
    """Rank and world size inside the value of ``distributedInfo``, which may be cut off."""
    if member is None:
        return RankInfo()
    inner = object_shape(data, member.start)
    return RankInfo(
        integer_at(data, inner.find("rank")), integer_at(data, inner.find("world_size"))
    )


def info_at_end(tail: bytes) -> RankInfo:
    """``distributedInfo`` after the events, and times; ``tail`` holds the end of the text.

    It counts only at the top level: from there the text must close exactly one object and end.
    """
    key = b'"distributedInfo"'
    position = len(tail)
    for _ in range(_END_TRIES):
        position = tail.rfind(key, 0, position)
        if position < 0:
            break
        rest = b"{" + tail[position:]
        shape = object_shape(rest)
        if shape.state == "complete" and skip_blank(rest, shape.end) == len(rest):
            return distributed_info(rest, shape.members[0]).completed(times_in(tail))
    return times_in(tail)


_KERNEL: Final = re.compile(
    rb'"cat"\s*:\s*"(?:[^"]{0,40},)?\s*(?:[Kk]ernel|mtia_ccp_events)\s*[",]'
)
"""The categories whose events are computation; of several in one string each is looked at."""
_WORDS: Final = (b'ernel"', b"ernel,", b'mtia_ccp_events"', b"mtia_ccp_events,")
_LONGEST_MATCH: Final = 128
_PIECE_BYTES: Final = 1 << 20
_MAX_BYTES: Final = 64 << 20
"""Text that is searched: about 0.2 s of work. PyTorch writes the kernels after the operators."""


def has_kernels(path: str) -> bool | None:
    """Return whether an event of the file is a kernel, None where its beginning has none.

    Args:
        path: A plain or compressed file.
    """
    read = 0
    before = b""
    try:
        with closing(text_pieces(path, _PIECE_BYTES)) as pieces:
            for piece in pieces:
                text = before + piece
                # Searching words is ten times as fast, and operators of the host have neither.
                if any(word in text for word in _WORDS) and _KERNEL.search(text):
                    return True
                before = piece[-_LONGEST_MATCH:]
                read += len(piece)
                if read >= _MAX_BYTES:
                    return None
    except OSError:
        return None
    return False


PARSER_VERSION: Final = 13
"""Raised whenever the same bytes would give other columns: stored columns become invalid."""


def _is_execution_trace(sample: FileSample) -> Match | None:
    keys = frozenset() if sample.json is None else sample.json.object_keys
    return Match() if "schema" in keys and keys & {"nodes", "start_ts"} else None


KINETO: Final = Format(
    kind="kineto",
    description="a Chrome trace of PyTorch: an object with traceEvents, or a bare list of events",
    sniff=(
        Rule(Priority.JSON_CONTENT, kineto_trace),
        Rule(Priority.JSON_FRAGMENT, kineto_fragment),
    ),
    source="torch",
    profiler="torch",
    read=imported("ccltui.parsers.kineto.kineto_reader", "read_ranks"),
    version=PARSER_VERSION,
    family="kineto",
    rank_in_name=True,
    compares_content=True,
    preview=imported("ccltui.parsers.kineto.kineto_reader", "read_preview"),
    read_record=imported("ccltui.parsers.kineto.event_in_json", "read_json_record"),
    add_companion=imported("ccltui.parsers.kineto.execution_join", "with_execution_trace"),
    info_at_end=info_at_end,
    is_finished=ends_as_json,
    has_kernels=has_kernels,
    card_name="kineto_trace",
)
_XPLANE: Final = (
    "an XLA profile in protocol buffers, which is not read: export it to trace.json.gz with the "
    "trace viewer of xprof, which keeps only the first 1,000,000 events"
)
XLA_TRACE: Final = Format(
    kind="xla_trace",
    description="a Chrome trace of an XLA profile, or that profile in protocol buffers",
    sniff=(
        Rule(Priority.JSON_CONTENT, xla_trace),
        binary_suffix(".xplane.pb", problem=_XPLANE),
    ),
    source="torch",
    read=imported("ccltui.parsers.kineto.xla_profile", "read_xla"),
    version=PARSER_VERSION,
    family="xla",
    several_ranks=True,
    compares_content=True,
    step_marks="xla",
    streams_are_serial=False,  # asynchronous operations share a row
    when_unreadable="profiles of XLA ({files}) without a trace.json.gz that is readable",
)
EXECUTION_TRACE: Final = Format(
    kind="execution_trace",
    description="operators of PyTorch with shapes and dependencies, without times",
    sniff=(Rule(Priority.JSON_CONTENT, _is_execution_trace),),
    rank_in_name=True,
    completes="torch",
    card_name="torch_et",
)
