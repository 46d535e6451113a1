"""Bytes of a small trace that Perfetto's own message classes wrote (package `perfetto`, 0.59.1).

`python tests/parsers/pftrace/golden_bytes.py` prints them anew, where that package is installed. It
follows PyTorch's writer: descriptors, interned data, begins and then ends of a group whose slices
overlap, a kernel as a stage of a device, and a reading of a counter.
"""

from __future__ import annotations

import base64
from typing import Any, Final

START: Final = 1_775_078_550_000_000_000

GOLDEN: Final = base64.b64decode(
    """
    CioyHAoMCAYQgLipqZWRltEYCgwIARCAuKmplZGW0RhAgLipqZWRltEYUAEKFVAB4gMQCAEaDAiSITIHcHl0aG9uMwoX
    UAHiAxIIAiIMCJIhEJMhKgRtYWluKAEKqAFQAWKhAQoKCAESBmNwdV9vcAoQCAISDGN1ZGFfcnVudGltZRIMCAESCGF0
    ZW46Om1tEhQIAhIQY3VkYUxhdW5jaEtlcm5lbBIICAMSBGdlbW26AQUIARCSIcIBCggBEgZLZXJuZWzCAREIZBINWzA3
    XSBzdHJlYW0gN/oCKQgBEiMKDQgAEglQb3dlciAoVykKEggBEg5TTSBDbG9jayAoTUh6KRgDaAEKS0Dov6mplZGW0RhQ
    AVo7GAEiDyARUgtFeHRlcm5hbCBpZCIgUgpJbnB1dCBEaW1zYghiAiAIYgIgEGIIYgIgEGICIARIAVABWAJoAgo0QNzD
    qamVkZbRGFABWiQYAiIJINMBUgRjYmlkIg8gTVILY29ycmVsYXRpb25IAVACWAJoAgoSQMTLqamVkZbRGFABWgRIAlgC
    ChJAuM+pqZWRltEYUAFaBEgCWAIKX0Cg16mplZGW0RhQAWgCqgNOCAEQ0gkoATIOCglkZXZpY2UgaWQSATMyDgoJc3Ry
    ZWFtIGlkEgE3MhEKC2NvcnJlbGF0aW9uEgI3N1gDaGRwAaABA6oBCAoGCAQQAhgBCiBAhNipqZWRltEYUAFoAqIDDxIL
    CAAZAAAAAAAEgEAgAQogQOjYqamVkZbRGFABaAKiAw8SCwgBGQAAAAAA8J5AIAE=
    """
)


def written() -> bytes:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    trace = proto.Trace()

    def packet(time: int | None = None) -> Any:
        one = trace.packet.add()
        one.trusted_packet_sequence_id = 1
        if time is not None:
            one.timestamp = START + time
            one.sequence_flags = 2
        return one

    snapshot = packet()
    snapshot.timestamp = START
    for clock in (6, 1):
        snapshot.clock_snapshot.clocks.add(clock_id=clock, timestamp=START)
    process = packet().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 1, 4242, "python3"
    thread = packet().track_descriptor
    thread.uuid, thread.parent_uuid = 2, 1
    thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 4242, 4243, "main"

    tables = packet()
    tables.sequence_flags = 1
    data = tables.interned_data
    counters = data.gpu_counter_descriptors.add(iid=1, gpu_id=3)
    counters.counter_descriptor.specs.add(counter_id=0, name="Power (W)")
    counters.counter_descriptor.specs.add(counter_id=1, name="SM Clock (MHz)")
    for iid, name in enumerate(("aten::mm", "cudaLaunchKernel", "gemm"), 1):
        data.event_names.add(iid=iid, name=name)
    for iid, name in enumerate(("cpu_op", "cuda_runtime"), 1):
        data.event_categories.add(iid=iid, name=name)
    for iid, name in ((1, "Kernel"), (100, "[07] stream 7")):
        data.gpu_specifications.add(iid=iid, name=name)
    data.graphics_contexts.add(iid=1, pid=4242)

    for time, number, category in ((1000, 1, 1), (1500, 2, 2)):
        begin = packet(time).track_event
        begin.type, begin.track_uuid, begin.name_iid = proto.TrackEvent.TYPE_SLICE_BEGIN, 2, number
        begin.category_iids.append(category)
        if number == 1:
            begin.debug_annotations.add(name="External id", int_value=17)
            shapes = begin.debug_annotations.add(name="Input Dims")
            for rows in ((8, 16), (16, 4)):
                shape = shapes.array_values.add()
                for size in rows:
                    shape.array_values.add(int_value=size)
        else:
            begin.debug_annotations.add(name="cbid", int_value=211)
            begin.debug_annotations.add(name="correlation", int_value=77)
    for time in (2500, 3000):  # the first ends inside the second: a stack would exchange them
        one = packet(time)
        one.ClearField("sequence_flags")
        one.track_event.type, one.track_event.track_uuid = proto.TrackEvent.TYPE_SLICE_END, 2

    stage = packet(4000).gpu_render_stage_event
    stage.event_id, stage.duration, stage.gpu_id = 1, 1234, 3
    stage.hw_queue_iid, stage.stage_iid, stage.context, stage.name_iid = 100, 1, 1, 3
    stage.launch.grid_size.x, stage.launch.grid_size.y, stage.launch.grid_size.z = 4, 2, 1
    for key, value in (("device id", "3"), ("stream id", "7"), ("correlation", "77")):
        stage.extra_data.add(name=key, value=value)

    for time, counter, reading_value in ((4100, 0, 512.5), (4200, 1, 1980.0)):
        reading = packet(time).gpu_counter_event
        reading.counter_descriptor_iid = 1
        reading.counters.add(counter_id=counter, double_value=reading_value)
    encoded: bytes = trace.SerializeToString()
    return encoded


if __name__ == "__main__":
    print(base64.encodebytes(written()).decode())
