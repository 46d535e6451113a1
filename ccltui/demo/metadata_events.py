"""Metadata events of the synthetic trace: row names, device steps, Python frames, the window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ccltui.demo.job_schedule import Activity, HostRange, Schedule
from ccltui.demo.rank_events import BACKWARD_THREAD, Event, RankEvents
from ccltui.demo.simulate import MAIN_STREAM

LEAD_NS, TAIL_NS = 20_000, 30_000  # the profiler begins and ends this long around the work


def rank_events(schedule: Schedule, rank: int) -> list[Event]:
    """All events of a rank's file, in the order of a real file."""
    body = RankEvents(schedule, rank)
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
        if activity.stream == MAIN_STREAM:
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
            MAIN_STREAM,
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
