"""Seed inputs, generated or written by hand: a small valid file of everything that is read."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import rocpd_database
import zstandard
from executions import chakra, document, event, flat, functional, listed_groups
from kineto_fuzz import DOCUMENT, EVENTS
from nsys_exports import Export
from perfetto_files import PytorchFile
from xla_traces import complete, device, label

from ccltui.export.perfetto_trace import columns_packet, mark_packet
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.pftrace.pftrace_reader import read_pftrace
from ccltui.parsers.pftrace.rank_columns import packed_rank


def compressed(texts: list[bytes]) -> list[bytes]:
    """Return the texts, the first of them also compressed."""
    return [*texts, gzip.compress(texts[0], mtime=0), zstandard.compress(texts[0])]


def kineto() -> list[bytes]:
    small = [DOCUMENT | {"traceEvents": EVENTS[n : n + 3]} for n in range(0, len(EVENTS), 3)]
    texts = [json.dumps(one).encode() for one in small]
    texts.append(json.dumps(DOCUMENT, indent=2).encode())
    texts.append(json.dumps(EVENTS[:4], separators=(",", ":")).encode())
    return compressed(texts)


def perfetto() -> list[bytes]:
    """Both layouts of PyTorch, with counters; the second also compressed; and an export."""
    lean = {"baseTimeNanoseconds": 10**18}
    readings = [(10**18 + 5, "Power (W)", 300.0), (10**18 + 7, "SM Clock (MHz)", 1980.0)]
    known = {"process_name", "thread_name"}
    events = [
        one
        for one in EVENTS
        if (one.get("cat") in PytorchFile.categories() and {"ts", "dur", "pid", "tid"} <= set(one))
        or (one.get("ph") == "M" and one.get("name") in known)
    ]
    own = [
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": 7, "ts": 1.5,
         "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [4, 1, 1],
         "Collective name": "allreduce", "In msg nelems": 8, "Group size": 2, "dtype": "Float",
         "Process Group Ranks": "[0, 1]", "Process Group Name": "0"}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1,
         "dur": 0.5, "args": {"correlation": 5, "cbid": 211}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 0.5, "dur": 2,
         "args": {"External id": 3, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float"]}},
    ]  # fmt: skip
    found = []
    for layout, some in (("slices", own), ("stages", own), ("stages", [*events, *own])):
        whole = [one for one in some if isinstance(one.get("pid"), int)]
        document = lean | {"traceEvents": [o for o in whole if isinstance(o.get("tid"), int)]}
        found.append(PytorchFile(document, layout, readings).encoded())  # type: ignore[arg-type]
    line, columns = packed_rank(_small_rank(found[0]))
    pieces = [mark_packet(), columns_packet(0, line), *(columns_packet(0, one) for one in columns)]
    return [found[2], *compressed(found[:2]), b"".join(pieces)]


def _small_rank(data: bytes) -> RankTrace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pftrace"
        path.write_bytes(data)
        return read_pftrace(path)[0]


def execution() -> list[bytes]:
    group = json.dumps(["0", [0, 1]])
    nodes = [listed_groups(), *functional(4, 20, "3"), chakra(9, "aten::mm", 30, values=[[1], 2])]
    old = [flat(3, "aten::mm", 7, values=[[11]], shapes=[[[4]]]), flat(4, "c10d::x", 8)]
    return compressed([
        document(nodes, "1.1.0-chakra.0.0.4").encode(),
        document(old, "1.0.1").encode(),
        document([chakra(3, "record_param_comms", 8, pg_name=group, comm_desc="x")], "1.1.1").encode(),
    ])  # fmt: skip


def companion_events() -> list[dict[str, Any]]:
    """Events of a trace that the execution traces of `execution` belong to."""
    return [event("c10d::allreduce_", 10, {"Record function id": 21}),
            event("gloo:all_reduce", 12, {"Record function id": 22}, cat="user_annotation"),
            event("aten::mm", 30, {"Record function id": 30})]  # fmt: skip


def xla() -> list[bytes]:
    host = [label(99, "/host:CPU"), complete(99, 1, "TfrtCpuExecutable::Execute", 0, 50)]
    every = [
        [*device(0), *host],
        [*device(0), *device(1, 3.5), *host],
        device(0, beside=False),
    ]
    return compressed([
        json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode() for events in every
    ])  # fmt: skip


def memory_snapshots() -> list[bytes]:
    frames = [{"name": "step", "filename": "/job/train.py", "line": 40}]
    block = {"address": 1 << 40, "size": 512, "requested_size": 500, "state": "inactive"}
    blocks = [block | {"frames": frames}, block | {"frames": frames, "state": "active_allocated"}]
    segment = {"device": 0, "total_size": 1024, "allocated_size": 512, "blocks": blocks}
    event = {"action": "alloc", "addr": 1 << 40, "size": 512, "time_us": 9, "frames": frames}
    oom = {"action": "oom", "device_free": 3, "size": 1 << 33}
    value = {"segments": [segment], "device_traces": [[event, oom]], "allocator_settings": {}}
    return [pickle.dumps(value, protocol) for protocol in (2, 4)]


def profiler_events() -> list[bytes]:
    """Events of both plug-ins of NCCL's profiler."""
    args = {"SeqNum": 0, "CommHash": 2**62, "Rank": 0, "Count": 1}
    begun = {"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "ts": 0.5, "args": args}
    line = {"recordType": "event", "type": "ncclProfileColl", "commId": 2**62, "rank": 3,
            "details": {"func": "AllReduce"}}  # fmt: skip
    return [f"[\n{json.dumps(begun)},\n{{}}]".encode(), json.dumps(line).encode() + b"\n"]


def inspector_lines() -> list[bytes]:
    head = {"header": {"id": "0xab", "comm_name": "tp", "rank": 1, "n_ranks": 2, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.2", "dump_timestamp_us": 10**15,
                         "hostname": "n1", "pid": 7}}  # fmt: skip
    collective = {"coll": "AllReduce", "coll_sn": 4, "coll_msg_size_bytes": 64,
                  "coll_exec_time_us": 9, "coll_timing_source": "kernel_gpu",
                  "coll_algobw_gbs": 1.5, "coll_busbw_gbs": 2.625}  # fmt: skip
    sent = {"p2p": "Send", "p2p_sn": 2, "p2p_peer": 0, "p2p_msg_size_bytes": 8,
            "p2p_exec_time_us": 5, "p2p_timing_source": "kernel_gpu"}  # fmt: skip
    lines = [head | {"dump_stats": {"coll_dropped_total": 3}}, head | {"coll_perf": collective},
             *(head | {"coll_perf": collective | {"coll_sn": number}} for number in (5, 6, 8)),
             head | {"p2p_perf": sent}, head | {"coll_perf": collective | {"coll_sn": 9}}]  # fmt: skip
    text = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines)
    return compressed([text.encode(), text[:-9].encode()])


def ras_reports() -> list[bytes]:
    place = {"rank": 1, "host": "n1", "pid": 7, "cuda_dev": 1}
    rank = place | {"status": {"async_error": 6, "init_state": 0}}
    ranks = [rank | {"rank": 0, "collective_counts": {"AllReduce": 3}},
             rank | {"collective_counts": {"AllReduce": 2}}]  # fmt: skip
    lost = [place | {"rank": 2, "status": {"unresponsive": True, "considered_dead": True}}]
    communicator = {"hash": "0xab", "size": 3, "ranks": ranks, "missing_ranks": lost}
    report = {"nccl_version": "2.29.2", "timestamp": "2026-05-28 20:26:40",
              "communicators_count": 1, "communicators": [communicator]}  # fmt: skip
    event = {"timestamp": "2026-05-28 20:26:31", "group": "LIFECYCLE", "event": "PEER_DEAD",
             "peer": {"host": "n1", "pid": 7}, "details": ""}  # fmt: skip
    return [json.dumps(one).encode() for one in (report, event)]


def flight_records() -> list[bytes]:
    entry = {
        "frames": [{"name": "step", "filename": "/job/train.py", "line": 40}],
        "record_id": 3,
        "pg_id": 1,
        "process_group": ("3", "mesh_tp"),
        "thread_name": "python3",
        "collective_seq_id": 5,
        "p2p_seq_id": 0,
        "op_id": 6,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_780_000_000_000_000_000,
        "duration_ms": 2.5,
        "input_sizes": [[4096, 2]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[4096, 2]],
        "output_dtypes": ["BFloat16"],
        "state": "scheduled",
        "retired": False,
        "is_p2p": False,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
    }
    sent = entry | {"profiling_name": "nccl:send 1->0", "is_p2p": True, "record_id": 4}
    groups = {"3": {"name": "3", "desc": "mesh_tp", "ranks": "[2, 3]"}}
    status = {
        "1": {
            "last_enqueued_collective": 5,
            "last_started_collective": -1,
            "last_completed_collective": 4,
        }
    }
    dump = {"version": "2.10", "pg_config": groups, "pg_status": status, "entries": [entry, sent]}
    old = {"entries": [{**entry, "seq_id": 4}], "version": "1.4", "pg_config": {1: [2, 3]}}
    texts = [json.dumps(dump).encode(), json.dumps(dump, sort_keys=True, indent=4).encode()]
    values = (dump, old, [entry, sent])
    return [*texts, *(pickle.dumps(one, number) for one in values for number in (2, 4))]


BANNER = "Processing [x.sqlite] with [/opt/nsight-systems-2023.2.3/reports/{}.py]... \n"


def nsys_text() -> list[bytes]:
    csv = (
        BANNER.format("cuda_gpu_kern_sum")
        + "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '62.5,1234567,12,102880.6,99000.0,70000,190000,12.25,"void gemm<float, (int)4>(T1 *)"\n'
        "37.5,740741,3,246913.7,246913.0,246900,246928,14.0,ncclDevKernel_AllReduce_Sum_f32\n"
    )
    table = (
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances   Avg (ns)  Name              \n"
        " --------  ---------------  ---------  ---------  ------------------\n"
        "     62.5        1,234,567         12  102,880.6  gemm<float, 2>    \n"
        "     37.5          740,741          3  246,913.7  ncclDevKernel_x   \n\n"
    )
    box = (
        " ** NVTX Range Summary (nvtx_sum):\n\n"
        "+----------+------------------+-----------+--------+\n"
        "| Time (%) | Total Time (us)  | Instances | Range  |\n"
        "+----------+------------------+-----------+--------+\n"
        "|     99.0 |        272317,378|         4 | :step  |\n"
        "|      1.0 |            63,584|         1 | a | b  |\n"
        "+----------+------------------+-----------+--------+\n"
    )
    trace = (
        BANNER.format("cuda_gpu_trace")
        + "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
        "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
        "1000,500,7,24,1,1,128,1,1,32,0.001,0.000,,,,,NVIDIA A100 (0),1,,7,gemm\n"
        "1600,900,8,8,1,1,544,1,1,96,0.0,0.0,,,,,NVIDIA A100 (1),1,,20,ncclDevKernel_AllReduce\n"
        "2600,90,9,,,,,,,,,,2.000,22222.2,Pageable,Device,NVIDIA A100 (0),1,,7,"
        "[CUDA memcpy Host-to-Device]\n"
    )
    rules = (
        BANNER.format("rules/cuda_memcpy_sync")
        + " ** CUDA Synchronous Memcpy (cuda_memcpy_sync):\n\n"
        " Duration (ns)  Start (ns)   Src Kind  Bytes (MB)  Green Context ID  API Name\n"
        " -------------  -----------  --------  ----------  ----------------  ----------\n"
        "     1,008,390  360,484,139  Device         4.194                    cudaMemcpy\n\n"
        "SKIPPED: x.sqlite could not be analyzed because it does not contain CUDA data.\n"
    )
    rows = [{"Time (%)": 99.5, "Total Time (ns)": 12, "Instances": 3, "Name": "k"},
            {"Time (%)": 0.5, "Total Time (ns)": 1, "Instances": 1, "Name": "c, d"}]  # fmt: skip
    listed = BANNER.format("cuda_api_sum") + json.dumps(rows, indent=1)
    other = "Generating '/tmp/x.qdstrm'\r[1/3] [====50%   ] a.py\r[1/3] [=100%] a.py\n" + table
    return compressed([
        *(one.encode() for one in (csv, table, box, trace, listed, other, box + table, rules)),
        csv.replace(",", "\t").encode(),
        table.encode("utf-16"),
    ])  # fmt: skip


def _export() -> Export:
    export = Export()
    export.environment("RANK", "3")
    for pid in (100, 101):
        process = export.process(pid)
        process.nccl(pid - 100, 2)
        for n in range(6):
            process.kernel(f"k{n % 3}", 10 * n, 10 * n + 5, launched=10 * n)
            process.collective("ncclAllReduce", 10 * n, 10 * n + 4, size=8)
        process.copy(90, 95, 512)
        process.fill(96, 97, 64)
        process.range("step 1", 5, 99, registered=True)
        process.range("open", 7, 9)
        process.os_call("poll", 3, 8)
    return export


def exports() -> list[bytes]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, page in enumerate((512, 1024, 4096)):
            path = _export().write(Path(folder) / f"{number}.sqlite")
            with closing(sqlite3.connect(path, isolation_level=None)) as opened:
                opened.execute(f"PRAGMA page_size = {page}")
                opened.execute("VACUUM")
            found.append(path.read_bytes())
    return found


def rocpd_databases() -> list[bytes]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for version in (3, 4):
            one = rocpd_database.Recording(environment='{"RANK": "3"}')
            rocpd_database.steps(one, 2)
            begin = rocpd_database.BASE
            one.copy("HOST_TO_DEVICE", begin + 710_000, begin + 800_000, 1, 2, 4096)
            one.region("MARKER_CORE_API", "roctxRangePushA", begin, begin + 900, message="step")
            args = (("count", "1024"), ("datatype", "7"))
            one.region("RCCL_API", "ncclAllReduce", begin, begin + 900, args=args)
            path = Path(folder) / f"{version}.db"
            found.append(rocpd_database.write(path, one, version=version).read_bytes())
    return found


def tables() -> list[bytes]:
    """Return databases of one table, with numbers of every width, texts and overflow pages."""
    found = []
    for page in (512, 4096):
        with closing(sqlite3.connect(":memory:")) as opened:
            opened.execute(f"PRAGMA page_size = {page}")
            opened.execute(
                "CREATE TABLE events (start INTEGER, end INTEGER, kind INTEGER, text TEXT, x TEXT)"
            )
            rows = [
                (1 << (n % 63), -(1 << (n % 50)), n % 4, "t" * (n % 17), "x" * (40 * (n % 30)))
                for n in range(60)
            ]
            opened.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            opened.execute("UPDATE events SET end = NULL, text = NULL WHERE rowid % 7 = 0")
            opened.commit()
            found.append(opened.serialize())
    return found


def arrow() -> list[bytes]:
    """Return a stream of tables; without pyarrow there are none."""
    try:
        import pyarrow as pa
    except ImportError:
        return []
    sink = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = _export().write(Path(folder) / "a.sqlite")
        with closing(sqlite3.connect(path)) as opened:
            names = [row[0] for row in opened.execute("SELECT name FROM sqlite_master")]
            for name in names:
                cursor = opened.execute(f'SELECT * FROM "{name}"')
                heads = [one[0] for one in cursor.description]
                columns = list(zip(*cursor.fetchall(), strict=True))
                table = pa.table([pa.array(values) for values in columns], heads)
                named = table.replace_schema_metadata({"table_name": name})
                with pa.ipc.new_stream(sink, named.schema) as writer:
                    writer.write_table(named)
    return [sink.getvalue()]


CARD = b"""\
workload:
  model:
    phase: training
    moe: false
    granularity: model_fwd_bwd_pass
    model_family: llama-3.1-8b
    precision: bf16
    iteration: 50
  data: {batch_size: 8, seq_len: 4096, dataset: "c4"}
  hardware:
    gpu_model: &model nvidia_a100_40gb
    total_count: 16
    count_per_node: 4
    driver_version: 2.20
  contributed_by: someone@example.org
model_executor:
  framework: {name: torchtitan, compiler_tool_selection: plain_pytorch}
  model_plan_parallelization:
    dp_replicate: 1
    dp_shard: 8
    tp: 2
    pp: 1
    pp_mb: 1
  communication_library: {name: NCCL, version: "2.27.5", env: {NCCL_DEBUG: INFO}}
metric_source:
  traces: [kineto_trace, torch_et, nsys]
  metrics_specific_trace: |
    rank0
  again: *model
"""


def cards() -> list[bytes]:
    return [CARD, b"metric_source:\n  traces:\n    - nsys\nworkload: {batch_size: [1, 2]}\n"]


BENCHMARK = b"""\
timestamp: 2026-01-01T10:20:36.520830
hostname: worker-3
total_time: 172.49 seconds
results:
  Inter-Node Network:
    Latency (ping-pong): 0.02 ms
    Bandwidth (ping-pong, 24 GPUs): 309.57 GB/s
  GPU 7:
    Memory bandwidth: 3,960.35 GB/s
  node-b GPU 1:
    Compute (BF16 matmul): 700 TFLOPS
  Storage I/O (per-node):
    Random IOPS (4K blocks): 8882.67 ops/s
  CPU:
    Sorting (NumPy): 75.15 M elements/s [cpu, cached]
    Matrix multiply (NumPy): "not measured: too slow"
benchmark:
  schema_version: 1
  node_names: [a, b]
  results:
    - {id: allreduce, value: 12.5, unit: GB/s, category: Network, test: All reduce, ranks: 8}
"""

XML = b"""\
<system version="1">
  <cpu numaid="0"><pci busid="0000:5e:00.0"><pci busid="0000:60:00.0"><nic>
      <net name="mlx5_0" dev="0" speed="100000" port="1" gdr="0"/></nic></pci>
    <pci busid="0000:61:00.0"><gpu dev="0" sm="70" rank="0" gdr="1">
      <nvlink target="0000:62:00.0" count="2"/></gpu></pci></pci></cpu>
</system>
"""

NCCL_LOG = b"""\
n1:147:147 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
n1:147:147 [0] NCCL INFO NCCL version 2.26.2+cuda12.8
n1:147:211 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.1.9<0>
n1:147:211 [0] NCCL INFO Using network IB
n1:147:205 [0] NCCL INFO ncclCommInitRank comm 0x55f0 rank 0 nranks 16 cudaDev 0 busId 2d000 commId 0xc51 - Init START
n1:147:205 [0] NCCL INFO MNNVL busId 0x2d000 fabric UUID 7a4af5e106e46349.c4fe63d71b7d9aa1 cliqueId 0x7ffe state 3 healthMask 0x0
n1:147:205 [0] NCCL INFO MNNVL 1 cliqueId 7ffe cliqueSize 8 cliqueRank 5 nvlDomainSize 8
n1:147:205 [0] NCCL INFO Channel 00/02 :    0   1   2   3
n1:147:205 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
n1:147:205 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read
n1:147:205 [0] NCCL INFO Channel 00/0 : 3[3] -> 8[0] [send] via NET/IB/0/GDRDMA
n1:147:205 [0] NCCL INFO 24 coll channels, 16 collnet channels, 0 nvls channels, 32 p2p channels
n1:147:205 [0] misc/socket.cc:58 NCCL WARN Connection closed by remote peer n2<123>
"""

NCCL_TESTS = b"""\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  4711 on n1 device  0 [0x07] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  4711 on n1 device  1 [0x0f] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    62.13   16.88   29.53      0    61.20   17.13   29.99      0
     2097152        524288     float     sum      -1    80.95   25.91   45.34      0    80.10   26.18   45.82    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 37.6
"""

TOPOLOGY = b"""\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tPXB\t0-15,64-79\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t16-31\t1\t\tN/A
NIC0\tPXB\tSYS\t X
Legend:
  X    = Self
NIC Legend:
  NIC0: mlx5_0
"""

IBSTAT = b"""\
CA 'mlx5_0'
\tCA type: MT4123
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 200
\t\tLink layer: InfiniBand
"""

TITAN = b"""\
[rank0]:[titan] 2025-06-04 08:51:38,000 - root - INFO - Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=4
[rank0]:[titan] 2025-06-04 08:51:40,000 - root - INFO - Training starts at step 1, total steps 80
[rank0]:[titan] 2025-06-04 08:51:48,000 - root - INFO - step:  1  loss: 12.2254  memory: 27.34GiB(28.78%)  tps: 375  tflops: 21.73  mfu: 2.20%
[rank0]:[titan] 2025-06-04 08:51:57,000 - root - INFO - \x1b[31mstep: 10  loss: 10.7069\x1b[0m  grad_norm:  8.27  memory: 30.99GiB(32.62%)  tps: 7,034  tflops: 407.35  mfu: 41.19%
Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2025-06-04T09:00:00 DUE TO TIME LIMIT ***
"""
MEGATRON = b"""\
using world size: 16, data-parallel size: 4
 [2026-01-16 07:32:24] iteration        5/     100 | consumed samples:        10240 | elapsed time per iteration (ms): 15800.0 | throughput per GPU (TFLOP/s/GPU): 490.0 | global batch size:  2048 | lm loss: 1.344240E+01 | loss scale: 1.0 | grad norm: 2.870 |
 [2026-01-16 07:32:40] iteration        6/     100 | consumed samples: 12288 | elapsed time per iteration (ms): 13100.0/13240.9 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 | lm loss: 4.142716E-03 | loss scale: 1.0 |
"""
EPOCHS = b"""\
[Rank 0] Epoch 1 finished. Avg Loss: 8.2418, Time: 82.00s, Throughput: 29971.23 tokens/sec
[Rank 0] RUN_COMPLETE world_size=8 tokens_per_sec=29971.23 total_wall_time_sec=83.0
"""
NEMO = b"""\
0: Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | consumed_samples: 928
0: \rEpoch 0: :   0%|  | 2000/603000 [1:03:17<317:00:58, v_num=, reduced_train_loss=2.600, global_step=2e+3, train_step_timing in s=1.900, val_loss=2.800]
0: `Trainer.fit` stopped: `max_steps=40` reached.
"""
TRAINER = b"""\
\r  5%|  | 10/200 [00:25<08:00,  2.50s/it]\r{'loss': 2.7795, 'learning_rate': 1.1e-05, 'epoch': 0.08}
\r 10%|  | 20/200 [00:50<07:30,  2.50s/it]\r{'loss': '2.5', 'grad_norm': nan, 'epoch': '0.1', 'step': 20}
{'train_runtime': 116.1914, 'train_samples_per_second': 6.885, 'train_steps_per_second': 1.721, 'train_loss': 2.5, 'epoch': 0.15}
"""
MLPERF = b"""\
:::MLLOG {"namespace": "", "time_ms": 1721026606000, "event_type": "POINT_IN_TIME", "key": "global_batch_size", "value": 8, "metadata": {"lineno": 9}}
:::MLLOG {"namespace": "", "time_ms": 1721026606541, "event_type": "INTERVAL_START", "key": "block_start", "value": null, "metadata": {"lineno": 9, "samples_count": 0}}
:::MLLOG {"namespace": "", "time_ms": 1721026805975, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {"throughput": 1.9, "loss": 1.5}, "metadata": {"step": 384}}
:::MLLOG {"namespace": "", "time_ms": 1721026805975, "event_type": "INTERVAL_END", "key": "block_stop", "value": null, "metadata": {"lineno": 9, "samples_count": 384}}
:::MLLOG {"namespace": "", "time_ms": 1721026805976, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"status": "success"}}
"""
STATE = b"""\
{"global_step": 40, "log_history": [
  {"epoch": 0.5, "loss": 3.5, "step": 20},
  {"epoch": 1.0, "step": 40, "train_loss": 3.5, "train_runtime": 80.0, "train_steps_per_second": 0.5}
], "max_steps": 40}
"""
RATES = b"""\
:::MLLOG {"time_ms": 1721026000000, "key": "global_batch_size", "value": 400, "metadata": {}}
:::MLLOG {"time_ms": 1721026000000, "key": "run_start", "value": null, "metadata": {}}
:::MLLOG {"time_ms": 1721026020000, "key": "tracked_stats", "value": {"throughput": 1000.0}, "metadata": {"epoch_num": 20000}}
"""
ROCPROF = b"""\
"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"gemm(float*, int)",9,700000,77777.8,70.0
hipMalloc,2,300000,150000,30.0
"""
NVPROF = b"""\
==71== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.00000s       600  5.0000us  4.0000us  9.0000us  [CUDA memcpy HtoD]
      API calls:  100.00%  4.00000s       600  6.6660us  3.0000us  8.0000ms  cudaMemcpy
"""

STEPS = b"""\
{"step": 1, "step_time_sec": 0.5, "loss": 9.5, "tokens": 4096, "micro_step": 1}
{"step": 2, "step_time_sec": 0.25, "loss": 9.25, "tokens": 4096, "rank": 0}
{"step": 3, "step_time_sec": NaN, "loss": null}
"""
METRICS = json.dumps({
    "schema_version": "2.0", "run_id": "r1", "git_commit": "abc",
    "command_line": "gpt2.py --max_train_steps 300 --training.seq_len 512",
    "hardware": {"gpu_name": "Tesla V100", "world_size": 8},
    "training_config": {"seq_len": 512, "micro_batch_size_per_gpu": 2, "grad_accum_steps": 2,
                        "precision": "fp16_deepspeed", "zero_stage": 1, "deepspeed_enabled": True,
                        "dataset_subset_sizes": {"train": 56976, "val": 5738}},
    "deepspeed_config": {"sha256": "c84d"},
    "epochs": [{"epoch_idx": 1, "epoch_wall_time_sec": 82.0, "steps": 299, "micro_steps": 300,
                "tokens_per_sec_global": 29971.23, "step_time_mean_sec": 0.05,
                "step_time_num_samples": 300, "step_time_sampling": "all",
                "max_cuda_mem_allocated_bytes_global": 7}],
    "summary": {"total_wall_time_sec": 83.0},
}).encode()  # fmt: skip
OLD_METRICS = json.dumps({
    "train_time_per_epoch": [82.0, 80.5], "train_loss_per_epoch": [8.5, 7.5],
    "val_loss_per_epoch": [8.0], "throughput": 29971.2, "world_size": 8,
}).encode()  # fmt: skip
LAUNCH = json.dumps({
    "world_size": 8, "rank0_host": "n1", "git_commit": "abc", "started_utc": "2026-01-01T00:00:00Z",
    "slurm": {"hosts": "n1 n2", "job_id": 77}, "nccl_env": {"NCCL_DEBUG": "INFO"},
    "switches": {"x": "1"}, "train_arguments": ["--training.seq_len", "512"], "train_config": {},
}).encode()  # fmt: skip
COMPLETE = b"RUN_COMPLETE world_size=8 tokens_per_sec=29971.23 total_wall_time_sec=83.0 timestamp_utc=2026\n"
SUMMARY = json.dumps({
    "likely_bottleneck": "communication", "dominant_region": "x",
    "nvtx_top5": [{"range": "step", "total_ns": 12.0, "instances": 3, "time_pct": 99.0}],
    "cuda_kernels_top5": [{"name": "k", "time_pct": 5}],
}).encode()  # fmt: skip

VLLM: dict[str, Any] = {
    "date": "20250601", "backend": "vllm", "num_prompts": 3, "request_rate": "inf", "completed": 2,
    "mean_ttft_ms": 30.0, "median_ttft_ms": 30.0, "std_ttft_ms": 10.0, "p99_ttft_ms": 39.8,
    "mean_tpot_ms": 5.0, "p99_itl_ms": 9.0, "input_lens": [10, 20, 30], "output_lens": [3, 1, 0],
    "ttfts": [0.020, 0.040, 0.0], "itls": [[0.004, 0.006], [], []],
    "errors": ["", "", "timed out"],
}  # fmt: skip


def serving() -> list[bytes]:
    genai = {"time_to_first_token": {"unit": "ms", "avg": 30.0, "p99": 39.0},
             "inter_token_latency": {"unit": "us", "avg": 5000, "std": 1},
             "request_count": {"avg": 3}, "output_token_throughput": {"unit": "t/s", "avg": 9}}  # fmt: skip
    requests = [{"timestamp": 10**9, "response_timestamps": [10**9 + 10**7, 10**9 + 2 * 10**7],
                 "success": True}]  # fmt: skip
    raw = {"service_kind": "openai", "experiments": [{"experiment": {"mode": "concurrency",
           "value": 1}, "requests": requests, "window_boundaries": [0, 1]}]}  # fmt: skip
    latency = {"avg_latency": 1.5, "latencies": [1.0, 2.0], "percentiles": {"50": 1.5}}
    texts = [json.dumps(one).encode() for one in (VLLM, genai, raw, latency)]
    return compressed([*texts, texts[0] + b"\n" + texts[0] + b"\n"])


def expert_loads() -> list[bytes]:
    every: tuple[Any, ...] = (
        {"expert_loads": [[1, 2, 3], [4, 5, 6]]},
        {"rank": 3, "token_counts": [7, 9]},
        [{"rank": r, "token_counts": [r]} for r in range(3)],
        {"model.layers.0.mlp": {"expert_counts": [1, 2], "expert_active_calls": [1, 1]}, "n": "x"},
    )
    return compressed([json.dumps(one).encode() for one in every])


TRAIN_CONFIG = b"""\
[job]
dump_folder = "./outputs"
description = "a job"
[training]
local_batch_size = 8
seq_len = 8192
steps = 1000
compile = true
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
[activation_checkpoint]
mode = "selective"
list = [1, 2.5, 2026-01-01]
"""
SETTINGS = b"""\
[screen]
theme = "dark"
color = "256"
mouse = true
ascii = false
[keys]
"stragglers.next" = ["]", "x"]
"move.page_down" = []
quit = "Q"
"""


def recording() -> list[bytes]:
    head = b'{"recording":1,"opened":"traces","width":120,"height":40}\n'
    keys = b'{"at_ms":10,"key":"down"}\n{"at_ms":20,"key":"x","character":"x"}\n'
    return [head + keys, head]
