"""A database with a table of every report of nsys stats: seeded, small, and full of edge cases.

Column names follow the public schema of the exporter. Families of tables can be left out, so that
each report can be asked of a database without its data.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path

VM = 3 << 56
PROCESSES = (4101, 4102)
THREADS = ((4101, 4101), (4101, 4177), (4102, 4102))
LAUNCH, COPY, FILL, LAUNCH_EX, DRIVER = (
    *("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020"),
    *("cudaLaunchKernelExC_v11060", "cuLaunchKernel"),
)
KERNELS = (
    ("void gemm<float, (int)4>(T1 *, int)", "gemm", "_Z4gemmIfLi4EEvPT_i"),
    ("void gemm<double, (int)2>(T1 *, int)", "gemm", "_Z4gemmIdLi2EEvPT_i"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm *)", "ncclDevKernel_AllReduce", None),
    ("with, commas", "commas", "_Z6commasv"),
)
Rows = Sequence[Sequence[object]]


class Builder:
    """Connection, texts and seeded numbers of one database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.random = random.Random(17)
        self._ids: dict[str, int] = {}

    def text(self, value: str) -> int:
        """Return the id of a string."""
        return self._ids.setdefault(value, len(self._ids) + 1)

    def table(self, name: str, columns: str, rows: Rows) -> None:
        """Create a table and fill it."""
        names = ", ".join(f'"{column}"' for column in columns.split())
        self.connection.execute(f'CREATE TABLE "{name}" ({names})')
        marks = ", ".join("?" * len(columns.split()))
        self.connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)

    def span(self, low: int, high: int, longest: int) -> tuple[int, int]:
        """Return a start in [low, high) and an end at most ``longest`` later."""
        start = self.random.randrange(low, high)
        return start, start + self.random.randrange(1, longest)

    def finish(self) -> None:
        """Write the strings."""
        rows = [(number, text) for text, number in self._ids.items()]
        self.table("StringIds", "id value", rows)


def thread_id(place: int) -> int:
    """Return the globalTid of the thread at this place of THREADS."""
    pid, tid = THREADS[place]
    return VM | pid << 24 | tid


PLACE = "start end deviceId contextId greenContextId streamId correlationId globalPid"
TABLES_OF_CUDA = {
    "KERNEL": f"{PLACE} demangledName shortName mangledName registersPerThread gridX gridY gridZ "
    "blockX blockY blockZ staticSharedMemory dynamicSharedMemory",
    "MEMCPY": f"{PLACE} bytes copyKind srcKind dstKind virtualAddress",
    "MEMSET": f"{PLACE} value bytes memKind",
    "RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
}
COPY_LABELS = (
    *("Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host"),
    *("Array-to-Array", "Array-to-Device", "Device-to-Array", "Device-to-Device"),
    *("Host-to-Host", "Peer-to-Peer", "Unified Host-to-Device", "Unified Device-to-Host"),
    "Unified Device-to-Device",
)
MEMORY_LABELS = (
    *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
    "Unknown",
)


def _cuda(to: Builder) -> None:
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES_OF_CUDA}
    clock = [1000 * (place + 1) for place in range(len(THREADS))]
    for index in range(90):
        _launch(to, rows, index, clock)
    names = [to.text(text) for text in KERNELS[0] if text]
    graph = (45_000, 45_900, 0, thread_id(0), 7000, to.text("cudaGraphLaunch_v10000"), 0)
    rows["RUNTIME"].append(graph)
    for node in range(3):  # the kernels of one graph have the correlation of its launch
        begin, of_graph = 46_000 + 900 * node, (0, 1, 0, 9, 7000, VM | 4101 << 24)
        kernel = (begin, begin + 700, *of_graph, *names, 16, 1, 1, 1, 32, 1, 1, 0, 0)
        rows["KERNEL"].append(kernel)
    alone = (0, 1, None, 7, 9999, VM | 4101 << 24)  # no call has this correlation
    rows["KERNEL"].append((90, 450, *alone, *names, 16, 1, 1, 1, 32, 1, 1, 0, 0))
    for table, columns in TABLES_OF_CUDA.items():
        to.table(f"CUPTI_ACTIVITY_KIND_{table}", columns, rows[table])
    for enum, labels in (("CUDA_MEMCPY_OPER", COPY_LABELS), ("CUDA_MEM_KIND", MEMORY_LABELS)):
        named = [(number, label, label) for number, label in enumerate(labels)]
        to.table(f"ENUM_{enum}", "id name label", named)
    to.table("TARGET_INFO_GPU", "id name", [(0, "NVIDIA H100"), (1, "NVIDIA H100")])


def _launch(
    to: Builder, rows: dict[str, list[tuple[object, ...]]], index: int, clock: list[int]
) -> None:
    """Add a call of a thread and the work that it launches."""
    thread = to.random.randrange(len(THREADS))
    pid = THREADS[thread][0]
    start = clock[thread] + to.random.randrange(50, 4000)
    clock[thread] = end = start + to.random.randrange(100, 3000)
    at = max(start + 50, end + to.random.randrange(-2000, 9000))
    until = at + to.random.randrange(500, 20000)
    green = to.random.choice((None, 0, 3))
    place = (at, until, PROCESSES.index(pid), 1, green, 7, index + 1, VM | pid << 24)
    if index % 9 == 7:
        name, kind = COPY, (1, 11, 12, 2, 11, 8, 10, 12)[index // 9 % 8]
        page = 0x7F0000000000 + 4096 * to.random.randrange(3)
        memory = (to.random.randrange(8), to.random.choice((None, 2, 4)))
        rows["MEMCPY"].append((*place, to.random.randrange(1, 5_000_000), kind, *memory, page))
    elif index % 9 == 8:
        name = FILL
        rows["MEMSET"].append((*place, 0, 4096 * index, 2))
    else:
        name = LAUNCH_EX if index % 9 == 3 else LAUNCH
        demangled, short, mangled = to.random.choice(KERNELS)
        names = [to.text(text) for text in (demangled, short, mangled or demangled)]
        grid = (to.random.choice((1, 4, 12345)), to.random.choice((1, 20)), 1, 128, 1, 1)
        shared = (to.random.choice((0, 4096)), to.random.choice((0, 49152)))
        rows["KERNEL"].append((*place, *names, 32, *grid, *shared))
    call = (start, end, 0, thread_id(thread), index + 1, to.text(name), int(index % 5 == 4))
    rows["RUNTIME"].append(call)
    if index % 10 == 0:
        driver = (start + 10, start + 60, 1, thread_id(thread), 5000 + index, to.text(DRIVER), 0)
        rows["RUNTIME"].append(driver)


def _threads(to: Builder) -> None:
    python = to.text("python")
    to.table(
        "ThreadNames",
        "nameId priority globalTid",
        [(python, 20, thread_id(0)), (to.text("worker"), 19, thread_id(1))],
    )


def _nvtx(to: Builder) -> None:
    rows: list[tuple[object, ...]] = [
        (0, None, 75, None, "NCCL", thread_id(0), None, None, 1),
        (0, None, 75, None, "lib", thread_id(2), None, None, 1),
    ]

    def nested(place: int, start: int, end: int, depth: int) -> None:
        number = to.random.randrange(4)
        text: str | None = f"level {depth}"
        text_id: int | None = None
        domain = 0
        if number == 1:
            text, text_id, domain = (None, to.text("ncclAllReduce"), 1)
        elif number == 2:
            text, text_id = None, to.text("step")
        rows.append((start, end, 59, None, text, thread_id(place), None, text_id, domain))
        if depth < 4:
            at = start + to.random.randrange(0, 500)
            while at < end - 3000 and to.random.random() < 0.8:
                until = min(end, at + to.random.randrange(2000, max(2001, (end - start) // 2)))
                nested(place, at, until, depth + 1)
                at = until + to.random.randrange(0, 900)

    for place in range(len(THREADS)):
        for low in (900, 40_000, 90_000):
            nested(place, low + 17 * place, low + 38_000, 0)
    rows.append((2_000, 60_000, 60, 1, "epoch", thread_id(0), None, None, 0))
    rows.append((2_100, 59_000, 60, 5, "stored", thread_id(0), thread_id(0), None, 0))
    rows.append((2_500, 50_000, 60, 2, "across", thread_id(0), thread_id(1), None, 0))
    rows.append((3_000, 70_000, 60, 3, "epoch", thread_id(2), None, None, 0))
    rows.append((100_000, None, 59, None, "never popped", thread_id(1), None, None, 0))
    rows.append((110_000, None, 60, 4, "never ended", thread_id(0), None, None, 0))
    rows.append((5_000, None, 34, None, "a mark", thread_id(0), None, None, 0))
    columns = "start end eventType rangeId text globalTid endGlobalTid textId domainId"
    to.table("NVTX_EVENTS", columns, rows)


def _osrt(to: Builder) -> None:
    rows = [
        (
            *to.span(0, 90_000, 5_000),
            27 if index % 7 else 31,
            thread_id(index % 3),
            to.text(("poll", "read", "pthread_cond_wait")[index % 3]),
        )
        for index in range(40)
    ]
    to.table("OSRT_API", "start end eventClass globalTid nameId", rows)


def _openmp(to: Builder) -> None:
    for number, table in enumerate(("PARALLEL", "SYNC_REGION", "TASK_CREATE", "WORKSHARE")):
        rows = [
            (
                *to.span(0, 90_000, 5_000),
                78,
                thread_id(0),
                to.text(f"OpenMP {table.lower()}"),
                28 + number,
            )
            for _ in range(7)
        ]
        columns = "start end eventClass globalTid nameId eventKind"
        to.table(f"OPENMP_EVENT_KIND_{table}", columns, rows)


def _openacc(to: Builder) -> None:
    kinds = ("Device init", "Enqueue launch", "Wait")
    to.table("ENUM_OPENACC_EVENT_KIND", "id name label", [(i, k, k) for i, k in enumerate(kinds)])
    for number, table in enumerate(("DATA", "LAUNCH", "OTHER")):
        rows = [
            (
                *to.span(0, 90_000, 5_000),
                to.text(f"acc_{table.lower()}_{index % 2}"),
                thread_id(0),
                number,
                10 + index % 2,
                to.text("main.c"),
                to.text("solve"),
            )
            for index in range(6)
        ]
        columns = "start end nameId globalTid eventKind lineNo srcFile funcName"
        to.table(f"CUPTI_ACTIVITY_KIND_OPENACC_{table}", columns, rows)


def _unified_memory(to: Builder) -> None:
    pages = [0x7F0000000000 + 4096 * page for page in range(5)]
    cpu = [
        (
            100 * index,
            VM | 4101 << 24,
            to.random.choice(pages),
            77 + index,
            to.text(("main+0x10", "fill+0x20")[index % 3 == 0]),
            to.text("a.out"),
        )
        for index in range(20)
    ]
    columns = "start globalPid address originalFaultPc CpuInstruction module"
    to.table("CUDA_UM_CPU_PAGE_FAULT_EVENTS", columns, cpu)
    gpu = [
        (
            100 * index,
            100 * index + 50,
            VM | 4101 << 24,
            0,
            to.random.choice(pages),
            to.random.randrange(1, 9),
            1,
        )
        for index in range(15)
    ]
    columns = "start end globalPid deviceId address numberOfPageFaults faultAccessType"
    to.table("CUDA_UM_GPU_PAGE_FAULT_EVENTS", columns, gpu)


def _opengl(to: Builder) -> None:
    rows = [
        (
            62 if index % 2 else 63,
            *to.span(0, 90_000, 5_000),
            to.text(f"pass {index % 3}") if index != 6 else None,
            thread_id(0),
            index,
        )
        for index in range(16)
    ]
    to.table("KHR_DEBUG_EVENTS", "eventClass start end textId globalTid id", rows)


def _vulkan(to: Builder) -> None:
    calls = [
        (
            index + 1,
            *to.span(0, 90_000, 5_000),
            53,
            thread_id(index % 3),
            index,
            to.text(("vkQueueSubmit", "vkCreateBuffer")[index % 2]),
            3,
        )
        for index in range(12)
    ]
    columns = "id start end eventClass globalTid correlationId nameId contextId"
    to.table("VULKAN_API", columns, calls)
    marks = [
        (
            *to.span(0, 90_000, 5_000),
            66,
            thread_id(0),
            index,
            to.text("vkMark"),
            3,
            to.text(f"draw {index % 2}") if index % 4 else None,
        )
        for index in range(9)
    ]
    columns = "start end eventClass globalTid correlationId nameId contextId textId"
    to.table("VULKAN_DEBUG_API", columns, marks)
    work = [(start, end, 54, *rest) for start, end, _, *rest in marks]
    to.table("VULKAN_WORKLOAD", columns, work)


def _direct_x(to: Builder) -> None:
    for table in ("D3D11_PIX_DEBUG_API", "D3D12_PIX_DEBUG_API", "DX12_WORKLOAD"):
        rows = [
            (
                *to.span(0, 90_000, 5_000),
                42,
                thread_id(0),
                index,
                to.text("PIX"),
                to.text(f"frame {index % 3}") if index % 4 else None,
            )
            for index in range(9)
        ]
        columns = "start end eventClass globalTid correlationId nameId textId"
        to.table(table, columns, rows)


def _video(to: Builder) -> None:
    for number, table in enumerate(("ENCODER", "DECODER", "JPEG")):
        rows = [
            (
                *to.span(0, 90_000, 5_000),
                (83, 86, 89)[number],
                thread_id(0),
                to.text(f"Nv{table.title()}{index % 2}"),
            )
            for index in range(6)
        ]
        to.table(f"NVVIDEO_{table}_API", "start end eventClass globalTid nameId", rows)


def _mpi(to: Builder) -> None:
    to.table("MPI_RANKS", "globalTid rank", [(thread_id(0), 0), (thread_id(2), 1)])
    points = [
        (
            *to.span(0, 90_000, 5_000),
            thread_id(2 * (index % 2)),
            to.text(("MPI_Send", "MPI_Recv", "MPI_Sendrecv")[index % 3]),
            1,
            5 + index % 2,
            1 - index % 2,
            1024 * index,
            None,
        )
        for index in range(9)
    ]
    columns = "start end globalTid textId commHandle tag remoteRank size requestHandle"
    to.table("MPI_P2P_EVENTS", columns, points)
    collectives = [
        (
            *to.span(0, 90_000, 5_000),
            thread_id(2 * (index % 2)),
            to.text(("MPI_Allreduce", "MPI_Bcast")[index % 2]),
            1,
            0 if index % 2 else None,
            64 * index,
            None if index % 2 else 64 * index,
            None,
        )
        for index in range(8)
    ]
    columns = "start end globalTid textId commHandle rootRank size recvSize requestHandle"
    to.table("MPI_COLLECTIVES_EVENTS", columns, collectives)
    waits = [(*to.span(0, 90_000, 5_000), thread_id(0), to.text("MPI_Wait"), 4) for _ in range(3)]
    to.table("MPI_START_WAIT_EVENTS", "start end globalTid textId requestHandle", waits)
    others = [(*to.span(0, 90_000, 5_000), thread_id(1), to.text("MPI_Init")) for _ in range(2)]
    to.table("MPI_OTHER_EVENTS", "start end globalTid textId", others)


def _network(to: Builder) -> None:
    names = ("IB: Bytes sent", "IB: Send waits", "Eth: Bytes sent")
    to.table(
        "TARGET_INFO_NETWORK_METRICS",
        "metricsListId metricsIdx name description unit",
        [(1, index, name, name, "") for index, name in enumerate(names)],
    )
    to.table(
        "TARGET_INFO_NIC_INFO",
        "globalId stateName nicId name deviceId vendorId linkLayer GUID",
        [(VM | 5, "mlx", 5, "mlx5_0", 1, 1, 1, 0xB83FD20300AB12)],
    )
    to.table("ENUM_NET_DEVICE_ID", "id name label", [(1, "CX6", "ConnectX-6")])
    to.table("NIC_ID_MAP", "nicId globalId", [(5, VM | 5)])
    rows = [
        (
            1_000_000 * index,
            1_000_000 * (index + 1),
            VM | 5,
            1,
            metric,
            to.random.randrange(0, 40_000) * (metric == 1) * (index % 3 > 0),
        )
        for index in range(12)
        for metric in range(3)
    ]
    columns = "start end globalId metricsListId metricsIdx value"
    to.table("NET_NIC_METRIC", columns, rows)


FAMILIES: dict[str, Callable[[Builder], None]] = {
    "cuda": _cuda,
    "threads": _threads,
    "nvtx": _nvtx,
    "osrt": _osrt,
    "openmp": _openmp,
    "openacc": _openacc,
    "unified memory": _unified_memory,
    "opengl": _opengl,
    "vulkan": _vulkan,
    "direct x": _direct_x,
    "video": _video,
    "mpi": _mpi,
    "network": _network,
}


def write_database(path: Path, families: Collection[str] = tuple(FAMILIES)) -> Path:
    """Write a database with the tables of these families, and return its path."""
    with closing(sqlite3.connect(path)) as connection:
        builder = Builder(connection)
        for name, fill in FAMILIES.items():
            if name in families:
                fill(builder)
        builder.finish()
        builder.table("META_DATA_EXPORT", "name value", [("EXPORT_SCHEMA_VERSION", "3.7.2")])
        connection.commit()
    return path
