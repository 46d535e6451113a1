"""Profiler events of one rank, in the form of 2025 and later, with arguments by metadata level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from ccltui.demo import profiler_names
from ccltui.demo.event_graph import MAIN
from ccltui.demo.simulate import (
    LAUNCH_NS,
    Activity,
    Call,
    HostRange,
    Schedule,
)
from ccltui.demo.spec import Spec

Args = dict[str, Any]

LONGEST_LIST = 30
"""The profiler cuts longer lists of ranks or split sizes and ends them with dots."""

_CPU_TYPES = {"BFloat16": "c10::BFloat16", "Float": "float"}


def list_text(values: tuple[int, ...]) -> str:
    """Format a list as the profiler does: a string, cut after 30 entries."""
    if len(values) <= LONGEST_LIST:
        return str(list(values))
    return str(list(values[:LONGEST_LIST]))[:-1] + ", ...]"


def kernel_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of the kernel itself, after its launch parameters."""
    stated = {"Collective name": activity.kind, **_message(call, activity), **_group(call)}
    return stated | _identity(spec, call, activity)


def param_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of ``record_param_comms``."""
    listed = activity.kind in ("allreduce", "send", "recv")
    dims = [call.in_elems]
    args = {
        "Collective name": activity.kind,
        **_message(call, activity),
        **_group(call),
        "Global rank start": call.group.ranks[0],
        "Global rank stride": (*call.group.ranks, call.group.ranks[0] + 1)[1] - call.group.ranks[0],
        "Rank": activity.rank,
        "Is asynchronized op": 1,
        "Input type": ["TensorList" if listed else _CPU_TYPES[call.dtype], "", "", "Scalar"],
        "Input Dims": [[dims] if listed else dims, [], [], []],
    }
    return args | _identity(spec, call, activity)


def _identity(spec: Spec, call: Call, activity: Activity) -> Args:
    """Which call of its group it is."""
    args: Args = {}
    if call.is_p2p:
        args |= {"Src Rank": call.members[0], "Dst Rank": call.members[1]}
    if spec.metadata != "no_seq":
        args["Seq"] = activity.seq
    if spec.metadata == "comms_id":
        args["Comms Id"] = call.group.comms_id
    return args


def wait_args(spec: Spec, call: Call, activity: Activity) -> Args:
    """Arguments of the second ``record_param_comms`` of a call, written when it is awaited."""
    args = {
        "Collective name": "wait",
        "In msg nelems": 0,
        "Out msg nelems": 0,
        "dtype": "Byte",
        "Process Group Name": call.group.name,
        "Process Group Description": call.group.description,
        "Process Group Ranks": "[]",
        "Group size": 1,
        "In split size": "[]",
        "Out split size": "[]",
        "Rank": activity.rank,
        "Is asynchronized op": 0,
    }
    if spec.metadata != "no_seq":
        args["Seq"] = activity.seq
    return args


def operator_shapes(call: Call, operation: str) -> Args:
    """Inputs of the ``c10d`` operator; output buffers come first, as in its schema."""
    element = _CPU_TYPES[call.dtype]
    if operation == "allreduce":
        return {
            "Concrete Inputs": ["", "", "", "", "True", "-1"],
            "Input type": ["TensorList", "", "", "", "Scalar", "Scalar"],
            "Input Dims": [[[call.in_elems]], [], [], [], [], []],
        }
    if operation in ("send", "recv"):
        other = call.members[1 if operation == "send" else 0]
        return {
            "Concrete Inputs": ["", "", str(call.group.ranks.index(other)), "0"],
            "Input type": ["TensorList", "", "Scalar", "Scalar"],
            "Input Dims": [[[call.in_elems]], [], [], []],
        }
    return {
        "Concrete Inputs": ["", "", "", "False", "-1"],
        "Input type": [element, element, "", "Scalar", "Scalar"],
        "Input Dims": [[call.out_elems], [call.in_elems], [], [], []],
    }


def annotation_shapes(call: Call) -> Args:
    """Inputs of the ``nccl:`` annotation."""
    return {
        "Concrete Inputs": [""],
        "Input type": [_CPU_TYPES[call.dtype]],
        "Input Dims": [[call.in_elems]],
    }


def _message(call: Call, activity: Activity) -> Args:
    sent, received = activity.splits or ((), ())
    if call.operation == "all_to_allv" and not activity.splits:
        size = len(call.members)
        sent = received = (activity.in_elems // size,) * size
    return {
        "In msg nelems": activity.in_elems,
        "Out msg nelems": activity.out_elems,
        "Group size": len(call.group.ranks),
        "dtype": call.dtype,
        "In split size": list_text(sent),
        "Out split size": list_text(received),
    }


def _group(call: Call) -> Args:
    return {
        "Process Group Name": call.group.name,
        "Process Group Description": call.group.description,
        "Process Group Ranks": list_text(call.group.ranks),
    }


MARGIN_NS = 1_000  # gap between the end of an operator and the next host event
INSET_NS = 2_000  # inset of each event of a call in the enclosing one
FIRST_CORRELATION = 9_000
BACKWARD_THREAD = 9  # thread id of the autograd engine, relative to the main thread


class Event(Struct, frozen=True):
    """One trace event; ``source`` is the activity or host range that it records."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int = 0
    args: Args = field(default_factory=dict)
    flow: int | str = 0
    source: Activity | HostRange | None = None


def pid_of(rank: int) -> int:
    """Process id of a rank."""
    return 41_000 + 17 * rank


class RankEvents:
    """Host and device events of one rank, host events in the order of the host's work.

    A ``lean`` recorder draws no flows, leaves annotations out on the device, and states no peers.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        pid: int,
        device: int,
        *,
        external: int = 0,
        correlation: int = FIRST_CORRELATION,
        lean: bool = False,
    ) -> None:
        self.schedule = schedule
        self.spec = schedule.spec
        self.rank = rank
        self.device = device
        self.pid = pid
        self.host: list[Event] = []
        self.gpu: list[Event] = []
        self.external = external  # ids that were given last
        self.correlation = correlation
        self._lean = lean
        self._graph = 0  # the replay that was launched last
        self._of_call: dict[int, Activity] = {}
        self._write()

    def _write(self) -> None:
        activities = self.schedule.activities[self.rank]
        self._of_call = {activity.call: activity for activity in activities}
        items: list[Activity | HostRange] = [*self.schedule.host[self.rank], *activities]
        for item in sorted(items, key=_host_time):
            if isinstance(item, HostRange):
                self._host_range(item)
            elif item.orphan:
                self._kernel(item, {}, self._new_correlation(), {})
            elif item.klass == "comm":
                self._call(item)
            else:
                self._work(item)

    def _new_correlation(self) -> int:
        self.correlation += 1
        return self.correlation

    def _host_range(self, item: HostRange) -> None:
        span = (item.start_ns, item.end_ns - item.start_ns)
        tid = self.pid + (BACKWARD_THREAD if item.backward else 0)
        if item.kind == "step":
            name = f"ProfilerStep#{self.spec.first_step + item.step}"
            self._on_host("user_annotation", name, tid, *span, source=item)
        elif item.kind == "sync":
            self._sync(item)
        elif item.kind == "wait":
            if self.spec.metadata != "names_only" and item.call in self._of_call:
                call = self.schedule.calls[item.call]
                args = wait_args(self.spec, call, self._of_call[item.call])
                self._on_host("cpu_op", "record_param_comms", tid, *span, args=args)
        else:
            usual = ("user_annotation", item.kind)
            category, name = profiler_names.HOST_EVENTS.get(item.kind, usual)
            self._on_host(category, name, tid, *span, source=item)

    def _sync(self, item: HostRange) -> None:
        number, span = self._new_correlation(), (item.start_ns, item.end_ns - item.start_ns)
        self.external += 1
        args: Args = {"External id": self.external, "cbid": 131, "correlation": number}
        name = profiler_names.synchronize(self.spec.library)
        self.host.append(Event("X", "cuda_runtime", name, self.pid, self.pid, *span, args))
        if self.spec.with_sync_rows:
            args = {
                "cuda_sync_kind": "Stream Sync",
                "stream": MAIN,
                "correlation": number,
                "device": self.device,
                "context": 1,
            }
            row = (self.device, MAIN)
            self.gpu.append(Event("X", "cuda_sync", "Stream Sync", *row, *span, args))

    def _work(self, activity: Activity) -> None:
        name = profiler_names.operator(activity.kind, backward=activity.phase == "backward")
        link = self._operator(activity, "cpu_op", name)
        number = self._launch(activity, link)
        if activity.klass == "comp":
            self._kernel(activity, link, number, {})
        else:
            self._memory(activity, link, number, (activity.start_ns, activity.dur_ns))

    def _call(self, activity: Activity) -> None:
        spec, call, kind = self.spec, self.schedule.calls[activity.call], activity.kind
        bare = spec.metadata == "names_only"
        link: Args = {}
        if kind in profiler_names.CALL_OPERATORS:
            shapes = {} if bare else operator_shapes(call, kind)
            link = self._operator(
                activity, "cpu_op", profiler_names.CALL_OPERATORS[kind], args=shapes, late_ns=1_000
            )
        if kind in profiler_names.TYPES and not bare:
            args = param_args(spec, call, activity)
            link = self._operator(
                activity, "cpu_op", "record_param_comms", INSET_NS, args=args, late_ns=1_000
            )
        noted: Args = {}
        if kind in profiler_names.ANNOTATIONS:
            inset_ns = INSET_NS if bare else 2 * INSET_NS
            annotation = _annotation(call, activity, lean=self._lean)
            shapes = {} if bare or kind not in profiler_names.TYPES else annotation_shapes(call)
            noted = self._operator(
                activity, "user_annotation", annotation, inset_ns, args=shapes, late_ns=1_000
            )
        if activity.copies:
            self._copies(activity, link)
            return
        number = self._launch(activity, link)
        stated = spec.metadata in ("comms_id", "full", "no_seq") and not activity.graph
        has_args = stated and kind in profiler_names.TYPES
        self._kernel(activity, link, number, kernel_args(spec, call, activity) if has_args else {})
        if noted and not self._lean:
            self._on_device("gpu_user_annotation", annotation, activity, args=noted)

    def _copies(self, activity: Activity, link: Args) -> None:
        """Copies from the peers, one after another; no kernel waits."""
        share_ns = activity.dur_ns // activity.copies
        for nth in range(activity.copies):
            number = self._launch(activity, link, nth * LAUNCH_NS)
            span = (activity.start_ns + nth * share_ns, share_ns)
            self._memory(activity, link, number, span)

    def _operator(
        self,
        activity: Activity,
        category: str,
        name: str,
        inset_ns: int = 0,
        *,
        args: Args | None = None,
        late_ns: int = 0,
    ) -> Args:
        """Add what launches an activity; return the link to it, {} in a replay of a graph."""
        if activity.graph:
            return {}
        start_ns = activity.host_start_ns + inset_ns
        dur_ns = activity.host_ns - MARGIN_NS - late_ns - 2 * inset_ns
        tid = self._thread_of(activity)
        return {"External id": self._on_host(category, name, tid, start_ns, dur_ns, args=args)}

    def _launch(self, activity: Activity, link: Args, shift_ns: int = 0) -> int:
        """Add the runtime call and its flow to the device; return their correlation id."""
        name = profiler_names.launch(activity.kind, self.spec.library, copies=activity.copies > 0)
        if activity.graph:
            if activity.graph == self._graph:
                return self.correlation
            self._graph, name = activity.graph, "cudaGraphLaunch"
        number, tid = self._new_correlation(), self._thread_of(activity)
        at_ns = activity.launch_ns + shift_ns
        span, args = (at_ns, activity.launch_dur_ns), {**link, "cbid": 211, "correlation": number}
        self.host.append(Event("X", "cuda_runtime", name, self.pid, tid, *span, args))
        if not self._lean:
            row = (self.device, activity.stream)
            self.host.append(Event("s", "ac2g", "ac2g", self.pid, tid, at_ns, flow=number))
            self.gpu.append(Event("f", "ac2g", "ac2g", *row, activity.start_ns, flow=number))
        return number

    def _kernel(self, activity: Activity, link: Args, number: int, metadata: Args) -> None:
        communicates = activity.klass == "comm"
        if communicates:
            dtype = self.schedule.calls[activity.call].dtype
            name = profiler_names.call_kernel(activity.kind, dtype, self.spec.library)
        else:
            backward = activity.phase == "backward"
            name = profiler_names.kernel(activity.kind, self.spec.library, backward=backward)
        blocks = 24 if communicates else 1_056
        args = {
            **link,
            "queued": 0,
            "device": self.device,
            "context": 1,
            "stream": activity.stream,
            "correlation": number,
            "registers per thread": 96,
            "shared memory": 0,
            "blocks per SM": round(blocks / 132, 6),
            "warps per SM": round(blocks / 33, 6),
            "grid": [blocks, 1, 1],
            "block": [128, 1, 1],
            "est. achieved occupancy %": 0 if communicates else 50,
            **metadata,
        }
        self._on_device("kernel", name, activity, args=args, source=activity)

    def _memory(self, activity: Activity, link: Args, number: int, span: tuple[int, int]) -> None:
        kind = "copy_peer" if activity.copies else activity.kind
        args = {
            **link,
            "device": self.device,
            "context": 1,
            "stream": activity.stream,
            "correlation": number,
            "bytes": activity.size_bytes,
            "memory bandwidth (GB/s)": activity.size_bytes / max(span[1], 1),
        }
        category = "gpu_memset" if kind == "memset" else "gpu_memcpy"
        name = profiler_names.kernel(kind, self.spec.library, backward=False)
        row = (self.device, activity.stream)
        self.gpu.append(Event("X", category, name, *row, *span, args, source=activity))

    def _thread_of(self, activity: Activity) -> int:
        backward = activity.phase in ("backward", "reduce")
        return self.pid + (BACKWARD_THREAD if backward else 0)

    def _on_host(
        self,
        category: str,
        name: str,
        tid: int,
        start_ns: int,
        dur_ns: int,
        *,
        args: Args | None = None,
        source: HostRange | None = None,
    ) -> int:
        """Append an operator or annotation and return its External id."""
        self.external += 1
        link = {"External id": self.external, "Record function id": 0}
        args = {**link, **(args or {}), "Ev Idx": self.external - 1}
        row = (self.pid, tid)
        self.host.append(Event("X", category, name, *row, start_ns, dur_ns, args, source=source))
        return self.external

    def _on_device(
        self,
        category: str,
        name: str,
        activity: Activity,
        *,
        args: Args,
        source: Activity | None = None,
    ) -> None:
        row, span = (self.device, activity.stream), (activity.start_ns, activity.dur_ns)
        self.gpu.append(Event("X", category, name, *row, *span, args, source=source))


def _host_time(item: Activity | HostRange) -> tuple[int, int]:
    """Sort key by host time; the marker of a step precedes its contents."""
    if isinstance(item, HostRange):
        return item.start_ns, 0 if item.kind == "step" else 1
    return item.host_start_ns, 1


def _annotation(call: Call, activity: Activity, *, lean: bool) -> str:
    name = profiler_names.ANNOTATIONS[activity.kind]
    if not call.is_p2p or lean:
        return name
    sender, receiver = (call.group.ranks.index(rank) for rank in call.members)
    return (
        f"{name} {sender}->{receiver}"
        if activity.kind == "send"
        else f"{name} {receiver}<-{sender}"
    )


LEAD_NS, TAIL_NS = 20_000, 30_000  # the profiler begins and ends this long around the work


def rank_events(schedule: Schedule, rank: int) -> list[Event]:
    """All events of a rank's file, in the order of a real file."""
    body = RankEvents(schedule, rank, pid_of(rank), schedule.topology.device_of(rank))
    ranges, activities = schedule.host[rank], schedule.activities[rank]
    items: list[HostRange | Activity] = [*ranges, *activities]
    first_ns = min(item.start_ns for item in items) - LEAD_NS
    last_ns = max(item.end_ns for item in items) + TAIL_NS
    streams = sorted({activity.stream for activity in activities})
    return [
        *row_names(body.pid, body.device, streams, first_ns),
        *body.host,
        *(_python_frames(body.pid, ranges) if schedule.spec.with_python else ()),
        *body.gpu,
        *device_steps(body.device, _main_spans(activities), schedule.spec.first_step),
        *window(first_ns, last_ns),
    ]


def row_names(pid: int, device: int, streams: list[int], at_ns: int) -> Iterator[Event]:
    """Names and order of the rows of the host's threads and the device's streams."""

    def named(row: int, tid: int, name: str, key: str, value: int | str) -> Event:
        return Event("M", "", name, row, tid, at_ns, args={key: value})

    for row, labels, order in ((pid, "CPU", pid), (device, f"GPU {device}", 5_000_000 + device)):
        yield named(row, 0, "process_name", "name", "python3")
        yield named(row, 0, "process_labels", "labels", labels)
        yield named(row, 0, "process_sort_index", "sort_index", order)
    yield named(pid, pid, "thread_name", "name", f"thread {pid} (python3)")
    autograd = pid + BACKWARD_THREAD
    yield named(pid, autograd, "thread_name", "name", f"thread {autograd} (pt_autograd_0)")
    for stream in streams:
        yield named(device, stream, "thread_name", "name", f"stream {stream} ")
        yield named(device, stream, "thread_sort_index", "sort_index", stream)


def _main_spans(activities: tuple[Activity, ...]) -> dict[int, tuple[int, int]]:
    """Start of the first and end of the last work of the main stream, by step."""
    by_step: dict[int, list[Activity]] = {}
    for activity in activities:
        if activity.stream == MAIN:
            by_step.setdefault(activity.step, []).append(activity)
    return {step: (inside[0].start_ns, inside[-1].end_ns) for step, inside in by_step.items()}


def device_steps(
    device: int, spans: Mapping[int, tuple[int, int]], first_step: int
) -> Iterator[Event]:
    """Step markers of the device row, over the main stream's work of each step."""
    for step, (start_ns, end_ns) in spans.items():
        yield Event(
            "X",
            "gpu_user_annotation",
            f"ProfilerStep#{first_step + step}",
            device,
            MAIN,
            start_ns,
            end_ns - start_ns,
            {"External id": 1},
        )


def _python_frames(pid: int, ranges: tuple[HostRange, ...]) -> Iterator[Event]:
    """Python frames: the script, one per step, and in it one for the wait for data."""
    inside = [item for item in ranges if item.kind in ("step", "data_loading")]
    inside.sort(key=lambda item: (item.start_ns, -item.end_ns))
    start_ns, end_ns = inside[0].start_ns, max(item.end_ns for item in inside)
    frames: list[tuple[str, int, int, int | None]] = [
        ("train.py(311): <module>", start_ns, end_ns, None)
    ]
    caller = 1
    for item in inside:
        if item.kind == "step":
            frames.append(("train.py(204): train_step", item.start_ns, item.end_ns, 1))
            caller = len(frames)
        else:
            name = "torch/utils/data/dataloader.py(729): __next__"
            frames.append((name, item.start_ns, item.end_ns, caller))
    for number, (name, start_ns, end_ns, parent) in enumerate(frames, start=1):
        args = {"Python parent id": parent, "Python id": number}
        dur_ns = end_ns - start_ns
        yield Event("X", "python_function", name, pid, pid, start_ns, dur_ns, args)


def window(first_ns: int, last_ns: int) -> Iterator[Event]:
    """The profiler's own span and its two instants."""
    profiler = "PyTorch Profiler"
    dur_ns = last_ns - first_ns
    yield Event(
        "X", "Trace", f"{profiler} (0)", "Spans", profiler, first_ns, dur_ns, {"Op count": 0}
    )
    yield Event("i", "", f"Iteration Start: {profiler}", "Traces", f"Trace {profiler}", first_ns)
    yield Event("i", "", "Record Window End", "", "", last_ns)
