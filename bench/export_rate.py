"""Measure the rate of exports in MB of output per CPU second, and the memory that they take.

Usage: python -m bench.export_rate [SLICES]
       python -m bench.export_rate DIR [TIMES]

The first form compares the encoding of slices with the message classes of the `perfetto` package.
The second exports the job in DIR, its events repeated TIMES times, as Perfetto trace and as
Parquet.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from msgspec import structs

from ccltui.export import perfetto_trace as packets
from ccltui.export.perfetto_trace import perfetto_trace, places
from ccltui.export.tables import write_tables
from ccltui.metrics.view.instances import matched_calls
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import Events, RankTrace
from ccltui.parsers.formats import in_memory
from ccltui.parsers.job import open_job

DEFAULT = 200_000


def main() -> int:
    """Print rates; 1 where a package is absent."""
    if len(sys.argv) > 1 and Path(sys.argv[1]).exists():
        return export_job(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    return compare_encoders()


def export_job(directory: str, times: int) -> int:
    """Print the rate of each export of a job, and by how much it raised the peak of memory."""
    job = open_job(directory)
    job = structs.replace(job, ranks=tuple(repeated(one, times) for one in job.ranks))
    view = View(job)
    matched_calls(view)
    count = sum(len(events) for trace in job.ranks for events in trace.events.values())
    print(f"{len(job.ranks)} ranks, {count / 1e6:.1f} million events")
    with tempfile.TemporaryDirectory() as folder:
        write_tables(view, ["steps"], Path(folder), "parquet")  # imports pyarrow
        before, began = peak_mb(), time.process_time()
        size = sum(map(len, perfetto_trace(view)))
        report("perfetto", size, began, before)
        before, began = peak_mb(), time.process_time()
        write_tables(view, ["events"], Path(folder), "parquet")
        report("parquet", count * ROW_BYTES, began, before)
    return 0


ROW_BYTES = sum(4 if kind in ("int32", "text") else 8 for kind in ("text",) * 5 + ("int64",) * 7)
"""Bytes of a row of events as columns: texts are ids."""


def repeated(trace: RankTrace, times: int) -> RankTrace:
    """Return a rank with its events repeated one after the other."""
    whole = in_memory(trace)
    if times == 1:
        return whole
    span = (whole.last_ns or 0) - (whole.first_ns or 0) + 1
    return structs.replace(
        whole, events={group: tiled(rows, times, span) for group, rows in whole.events.items()}
    )


def tiled(rows: Events, times: int, span_ns: int) -> Events:
    """Return events repeated, each time ``span_ns`` later."""
    names = [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]
    columns = {name: getattr(rows, name) for name in names}
    found = {
        name: np.tile(column, times) if len(column) == len(rows) else column
        for name, column in columns.items()
    }
    found["start_ns"] += np.repeat(np.arange(times) * span_ns, len(rows))
    return Events(**found)


def peak_mb() -> float:
    """Peak of resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(name: str, size: int, began: float, before_mb: float) -> None:
    """Print one rate."""
    seconds = time.process_time() - began
    rate = size / 1e6 / seconds
    print(
        f"{name}: {size / 1e6:.0f} MB in {seconds:.2f} CPU s, {rate:.0f} MB/s, "
        f"peak +{peak_mb() - before_mb:.0f} MB"
    )


def compare_encoders() -> int:
    """Print both rates in MB/s of CPU time and their ratio; 1 without the package."""
    try:
        from perfetto.protos.perfetto.trace import (  # noqa: PLC0415
            perfetto_trace_pb2 as proto,
        )
    except ImportError:
        print("the package perfetto is not installed", file=sys.stderr)
        return 1
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    start = np.arange(count) * 1000
    end = start + 700
    name = (np.arange(count) % 50 + 1).astype(np.int32)

    began = time.process_time()
    size = packets.slice_packets(
        start, end, name, 1, track=1 << 21, sequence=2, order=places(start, end)
    ).nbytes
    ours = size / 1e6 / (time.process_time() - began)

    began = time.process_time()
    size = 0
    for begin, finish, id_ in zip(start.tolist(), end.tolist(), name.tolist(), strict=True):
        trace = proto.Trace()
        packet = trace.packet.add(timestamp=begin, trusted_packet_sequence_id=2, sequence_flags=2)
        event = packet.track_event
        event.type, event.track_uuid, event.name_iid = packets.SLICE_BEGIN, 1 << 21, id_
        event.category_iids.append(1)
        packet = trace.packet.add(timestamp=finish, trusted_packet_sequence_id=2, sequence_flags=2)
        packet.track_event.type, packet.track_event.track_uuid = packets.SLICE_END, 1 << 21
        size += len(trace.SerializeToString())
    theirs = size / 1e6 / (time.process_time() - began)

    print(f"numpy {ours:.0f} MB/s, package {theirs:.1f} MB/s, ratio {ours / theirs:.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
