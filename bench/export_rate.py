"""Compare the rate of encoding slices with that of the message classes of the `perfetto` package.

Usage: python -m bench.export_rate [SLICES]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from ccltui.export import perfetto_packets as packets
from ccltui.export.slice_nesting import places

DEFAULT = 200_000


def main() -> int:
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
    size = packets.slices(
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
