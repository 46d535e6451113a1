"""Lists of trace events that other programs than PyTorch's profiler write: named, not read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_ASCEND: Final = (
    "a timeline of Ascend's profiler (torch_npu), whose device events are not read: CUDA, ROCm "
    "and MTIA are"
)
_KINETO_KEYS: Final = frozenset({"schemaVersion", "deviceProperties", "distributedInfo"})
"""Keys before the events that only PyTorch's profiler writes."""
_MARKS: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (
        re.compile(rb'"name"\s*:\s*"(?:CANN|Ascend Hardware)"|"cat"\s*:\s*"async_npu"|"AscendCL@'),
        _ASCEND,
    ),
    (
        re.compile(rb'"tid"\s*:\s*"(?:worker|driver|raylet):|"cat"\s*:\s*"task::?[\w.:<>]+"'),
        "a timeline of Ray's tasks, without device events: profile the workers with torch.profiler",
    ),
    (
        re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"'),
        "an export of torch.autograd.profiler, without streams, launches and ranks: record with "
        "torch.profiler",
    ),
    (
        re.compile(
            rb'"cat"\s*:\s*"(?:GROUP_API|COLL_API|P2P_API|GROUP|COLL|P2P|PROXY|PROXY_STEP|NET'
            rb'|KERNEL_LAUNCH)"'
        ),
        "events of NCCL's profiler plug-in, on a clock of each process's own: not read",
    ),
    (
        re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"(?:fee|FEE)"'),
        "a trace of Python functions by VizTracer, without device events",
    ),
    (
        re.compile(rb'"/job:[a-z]+/replica:\d+/task:\d+|"/host:CPU|"/device:CPU:\d'),
        "a timeline of TensorFlow or JAX, of which only profiles of TPUs are read",
    ),
    (
        re.compile(rb'"NEGOTIATE_(?:ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)'),
        "a timeline of Horovod, without device events: record with torch.profiler",
    ),
)
_LINES: Final = re.compile(rb'"(?:recordType|type)"\s*:\s*"(?:ProfilerLifecycle|ncclProfile)')


def _other_trace(sample: FileSample) -> Match | None:
    document = sample.json
    if document is None:
        return None
    if _LINES.search(document.data):
        return Match("records of NCCL's profiler plug-in: not read")
    if document.shape.keys & _KINETO_KEYS and not document.is_list:
        return None
    if document.is_list:
        is_trace = "ph" in document.shape.keys or {"name", "ts"} <= document.shape.keys
    else:
        is_trace = document.shape.find("traceEvents") is not None
    if not is_trace:
        return None
    for mark, problem in _MARKS:
        if mark.search(document.data):
            return Match(problem)
    if document.is_list and sample.lower_name.startswith("trace_view.json"):
        return Match(_ASCEND)
    return None


OTHER_TRACE: Final = Format(
    kind="other_trace",
    description="a list of trace events of another program than PyTorch's profiler: not read",
    sniff=(Rule(Priority.JSON_CONTENT, _other_trace),),
)
