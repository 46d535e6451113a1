"""What a JSON text is, from its top-level keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ccltui.parsers.discovery.sniff.json_shape import (
    Member,
    Shape,
    integer_at,
    object_shape,
    skip_blank,
)
from ccltui.parsers.found_files import Kind
from ccltui.parsers.names import listed, shown

# Values that are long in a trace: the keys before them are what tells the kind.
_LONG_VALUES = frozenset({"traceEvents", "nodes"})
_TPU_PROCESS = re.compile(rb'"name"\s*:\s*"[^"]*/device:TPU:\d')
_NSYS_COLUMNS = re.compile(r"(Time|Start|Duration|Total|Total Time|Projected Start)( \(.+\))?")

# Keys that only a Chrome trace of PyTorch has before its events: a file cut there is still one.
_TRACE_HEADER = frozenset({"schemaVersion", "deviceProperties", "distributedInfo", "traceName"})

_KINDS: tuple[tuple[frozenset[str], Kind], ...] = (
    (frozenset({"median_ttft_ms"}), "serving_results"),
    (frozenset({"mean_ttft_ms"}), "serving_results"),
    (frozenset({"ttfts"}), "serving_results"),  # before the statistics, where samples are kept
    (frozenset({"time_to_first_token"}), "serving_results"),
    (frozenset({"experiments", "service_kind"}), "serving_results"),
    (frozenset({"avg_latency", "latencies"}), "serving_results"),
    (frozenset({"likely_bottleneck"}), "profile_summary"),
    (frozenset({"nvtx_top5"}), "profile_summary"),
    (frozenset({"expert_loads"}), "expert_stats"),
    (frozenset({"rank", "token_counts"}), "expert_stats"),
    (frozenset({"iteration_times"}), "timing_stats"),
    (frozenset({"schema_version", "epochs"}), "training_metrics"),
    (frozenset({"train_time_per_epoch"}), "training_metrics"),
    (frozenset({"step", "step_time_sec"}), "step_log"),
    (frozenset({"rank0_host"}), "launcher_metadata"),
    (frozenset({"nccl_env"}), "launcher_metadata"),
    (frozenset({"tokens_per_step"}), "run_metadata"),
)

# Only for JSON objects whose keys leave it open.
_KINDS_BY_NAME: tuple[tuple[str, Kind], ...] = (
    ("training_metrics", "training_metrics"),
    ("training_steps", "step_log"),
    ("launcher_metadata", "launcher_metadata"),
    ("run_metadata", "run_metadata"),
    ("upload_manifest", "run_metadata"),
    ("moe_stats_", "expert_stats"),
    ("step_times", "timing_stats"),
    ("profile_export", "serving_results"),
)


@dataclass(frozen=True, slots=True)
class DistributedInfo:
    """Rank and world size as ``distributedInfo`` states them; None where it does not."""

    rank: int | None = None
    world_size: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Kind of a JSON text. ``undecided``: a longer head could tell more."""

    kind: Kind
    problem: str | None = None
    info: DistributedInfo = field(default_factory=DistributedInfo)
    undecided: bool = False


def looks_like_json(data: bytes) -> bool:
    """True when the first byte of text opens an object or a list."""
    start = skip_blank(data)
    return data[start : start + 1] in (b"{", b"[")


def classify_json(data: bytes, name: str, *, whole: bool) -> Document:
    """Kind of a JSON text of which ``data`` is the beginning (all of it when ``whole``)."""
    start = skip_blank(data)
    if data[start : start + 1] == b"[":
        return _classify_list(data, start, whole=whole)
    shape = object_shape(data, start, stop_at=_LONG_VALUES)
    trace = shape.find("traceEvents")
    if trace is not None:
        return _trace(data, shape, trace, whole=whole)
    keys = shape.keys
    if "schema" in keys and keys & {"nodes", "start_ts"}:
        return Document("execution_trace")
    for wanted, kind in _KINDS:
        if wanted <= keys:
            return Document(kind)
    for part, kind in _KINDS_BY_NAME:
        if part in name.lower() and shape.state != "broken":
            return Document(kind)
    return _other_object(data, shape, whole=whole)


def _trace(data: bytes, shape: Shape, trace: Member, *, whole: bool) -> Document:
    opening = data[trace.start : trace.start + 1]
    if opening not in (b"[", b""):
        return Document("unknown", "its traceEvents is not a list")
    if _TPU_PROCESS.search(data):
        return Document("tpu_trace")
    info = distributed_info(data, shape.find("distributedInfo"))
    if info.rank is None and whole:
        info = info_at_end(data)
    return Document("kineto", info=info)


def _other_object(data: bytes, shape: Shape, *, whole: bool) -> Document:
    if b'"traceEvents"' in data or shape.keys & _TRACE_HEADER:
        info = distributed_info(data, shape.find("distributedInfo"))
        return Document("kineto", info=info, undecided=not whole and shape.state == "cut")
    undecided = not whole and shape.state == "cut"
    if shape.state == "broken":
        return Document("unknown", f"not valid JSON: it breaks at byte {shape.end:,}")
    names = listed([shown(member.key[:40]) for member in shape.members], 6) or "none"
    problem = f"JSON, but nothing known here; its keys: {names}"
    return Document("unknown", problem, undecided=undecided)


def _classify_list(data: bytes, start: int, *, whole: bool) -> Document:
    position = skip_blank(data, start + 1)
    first = data[position : position + 1]
    if first == b"]":
        return Document("unknown", "an empty JSON list")
    if first == b"[":
        return Document("unknown", "a JSON list of lists, as memory timelines are: no trace")
    if first == b"{":
        shape = object_shape(data, position)
        keys = shape.keys
        if "ph" in keys or {"name", "ts"} <= keys:
            return Document("tpu_trace" if _TPU_PROCESS.search(data) else "kineto")
        if sum(_NSYS_COLUMNS.fullmatch(key) is not None for key in keys) >= 2:
            return Document("nsys_text")
        undecided = not whole and shape.state == "cut"
        return Document("unknown", "a JSON list, but not of trace events", undecided=undecided)
    return Document("unknown", "a JSON list, but not of trace events")


def distributed_info(data: bytes, member: Member | None) -> DistributedInfo:
    """Rank and world size inside the value of ``distributedInfo``, which may be cut off."""
    if member is None:
        return DistributedInfo()
    inner = object_shape(data, member.start)
    return DistributedInfo(
        integer_at(data, inner.find("rank")), integer_at(data, inner.find("world_size"))
    )


def info_at_end(tail: bytes) -> DistributedInfo:
    """``distributedInfo`` that stands after the events: ``tail`` holds the end of the text.

    It counts only at the top level: from there the text must close exactly one object and end.
    """
    key = b'"distributedInfo"'
    position = tail.rfind(key)
    while position >= 0:
        rest = b"{" + tail[position:]
        shape = object_shape(rest)
        if shape.state == "complete" and skip_blank(rest, shape.end) == len(rest):
            return distributed_info(rest, shape.members[0])
        position = tail.rfind(key, 0, position)
    return DistributedInfo()
