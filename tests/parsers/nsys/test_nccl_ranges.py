"""Ranges of NCCL and their payloads."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import pytest
from nsys_exports import COMMUNICATOR, Export, Process

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.nvtx import PayloadSchemas, sizes
from ccltui.parsers.nsys.sqlite.database import Database


def pair(tmp_path: Path, write: object) -> tuple[RankTrace, RankTrace]:
    """Write two ranks of one communicator; ``write`` fills each."""
    export = Export()
    for rank in (0, 1):
        process = export.process(100 + rank)
        process.nccl(rank, 2)
        write(process)  # type: ignore[operator]
    first, second = read_nsys(export.write(tmp_path / "a.sqlite"))
    return first, second


def args_of(trace: RankTrace) -> list[tuple[str, int, int, int]]:
    """Return (operation, bytes in, bytes out, peer) of each kernel, () without arguments."""
    table, found = trace.collective_args, []
    for row in trace.group("gpu").args.tolist():
        peer = max(int(table.src[row]), int(table.dst[row])) if row >= 0 else -1
        found.append(
            (
                trace.text(int(table.op[row])),
                int(table.in_elems[row]),
                int(table.out_elems[row]),
                peer,
            )
            if row >= 0
            else ("no args", -1, -1, -1)
        )
    return found


def test_a_kernel_has_the_arguments_of_the_call_that_launched_it(tmp_path: Path) -> None:
    def write(process: Process) -> None:
        process.collective("ncclAllReduce", 10, 20, size=4096)
        process.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 30, 60, launched=15)
        process.kernel("gemm", 70, 80, launched=16)
        process.kernel("ncclDevKernel_Broadcast_RING_LL(args)", 90, 95, launched=40)

    for trace in pair(tmp_path, write):
        assert args_of(trace) == [
            ("ncclAllReduce", 4096, 4096, -1),
            ("no args", -1, -1, -1),  # not a kernel of NCCL
            ("no args", -1, -1, -1),  # launched outside of every call
        ]
        assert trace.collective_args.comms_id.tolist() == [COMMUNICATOR]
        assert trace.collective_args.group_size.tolist() == [2]
        assert [group.ranks for group in trace.process_groups] == [(0, 1)]
        assert trace.text(int(trace.collective_args.dtype[0])) == "bytes"


def test_grouped_calls_launch_at_the_end_of_the_outermost_group(tmp_path: Path) -> None:
    def write(process: Process) -> None:
        process.collective("ncclGroupStart", 10, 11)
        process.collective("ncclGroupStart", 12, 13)
        process.collective("ncclSend", 14, 15, size=100, **{"Peer rank": 1})
        process.collective("ncclRecv", 16, 17, size=300, **{"Peer rank": 1})
        process.collective("ncclGroupEnd", 18, 19)
        process.collective("ncclGroupEnd", 20, 30)
        process.kernel("ncclDevKernel_SendRecv(args)", 40, 60, launched=25)

    first, _ = pair(tmp_path, write)

    assert args_of(first) == [("", 100, 300, -1)]


def test_single_transfer_in_a_group_has_its_name_and_peer(tmp_path: Path) -> None:
    def write(process: Process) -> None:
        process.collective("ncclGroupStart", 10, 11)
        process.collective("ncclSend", 14, 15, size=100, **{"Peer rank": 1})
        process.collective("ncclGroupEnd", 20, 30)
        process.kernel("ncclDevKernel_SendRecv(args)", 40, 60, launched=25)

    first, _ = pair(tmp_path, write)

    assert args_of(first) == [("ncclSend", 100, -1, 1)]


def test_coalesced_calls_move_the_sum_of_their_bytes(tmp_path: Path) -> None:
    def write(process: Process) -> None:
        process.collective("ncclGroupStart", 10, 11)
        process.collective("ncclAllGather", 12, 13, size=8)
        process.collective("ncclAllGather", 14, 15, size=24)
        process.collective("ncclGroupEnd", 20, 30)
        process.kernel("ncclDevKernel_AllGather_RING_LL(args)", 40, 60, launched=25)

    first, _ = pair(tmp_path, write)

    assert args_of(first) == [("ncclAllGather", 32, 64, -1)]


def test_calls_without_payload_have_their_operation(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.domain(1, "NCCL")
    process.collective("ncclBcast", 10, 20)
    process.kernel("ncclKernel_Broadcast_RING_LL_Sum_int8_t(args)", 30, 60, launched=15)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert args_of(trace) == [("ncclBroadcast", -1, -1, -1)]
    assert trace.process_groups == ()


def test_ranges_of_other_domains_are_no_calls(tmp_path: Path) -> None:
    export = Export()
    process = export.process(100)
    process.range("ncclAllReduce", 10, 20)
    process.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(args)", 30, 60, launched=15)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert args_of(trace) == [("no args", -1, -1, -1)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclAllReduce", (100, 100)),
        ("ncclBroadcast", (100, 100)),
        ("ncclAllGather", (100, 400)),
        ("ncclReduceScatter", (400, 100)),
        ("ncclAlltoAll", (400, 400)),
        ("ncclSend", (100, -1)),
        ("ncclRecv", (-1, 100)),
        ("ncclGather", (100, -1)),
        ("ncclScatter", (-1, 100)),
    ],
)
def test_sizes_follow_the_meaning_of_each_count(name: str, expected: tuple[int, int]) -> None:
    assert sizes(name, 100, 4) == expected


def test_sizes_need_the_number_of_ranks_only_where_it_enters() -> None:
    assert sizes("ncclReduceScatter", 100, -1) == (-1, 100)
    assert sizes("ncclAllReduce", 100, -1) == (100, 100)
    assert sizes("ncclAllReduce", -1, 4) == (-1, -1)


@pytest.mark.parametrize(
    "payload",
    [
        "[1, 2]",
        "{",
        "3",
        '{"NCCL communicator ID": -4}',
        '{"Message size [bytes]": "x"}',
        "[" * 5000,
    ],
)
def test_unexpected_payloads_are_ignored(tmp_path: Path, payload: str) -> None:
    export = Export()
    process = export.process(100)
    process.domain(1, "NCCL")
    process.collective("ncclAllReduce", 10, 20)
    export.rows["NVTX_EVENTS"][-1]["jsonText"] = payload
    process.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 30, 60, launched=15)

    (trace,) = read_nsys(export.write(tmp_path / "a.sqlite"))

    assert args_of(trace) == [("ncclAllReduce", -1, -1, -1)]


CREATION, REDUCTION = (1 << 24) + 2, (1 << 24) + 5
UINT64, INT, SIZE, OWN = 18, 5, 22, (1 << 24) + 20
ENTRIES = [
    (CREATION, "NCCL communicator ID", UINT64, None),  # nsys writes no offset of 0
    (CREATION, "No. of ranks", INT, 8),
    (CREATION, "Rank", INT, 12),
    (CREATION, "CUDA device", INT, 16),
    (REDUCTION, "NCCL communicator ID", UINT64, None),
    (REDUCTION, "Message size [bytes]", SIZE, 8),
    (REDUCTION, "Reduction operation", OWN, 16),
]


def export() -> Export:
    found = Export()
    for index, (schema, name, kind, offset) in enumerate(ENTRIES):
        found.add(
            "NVTX_PAYLOAD_SCHEMA_ENTRIES",
            domainId=1,
            schemaId=schema,
            idx=index,
            type=kind,
            name=name,
            offset=offset,
        )
    return found


def blob(schema: int, payload: bytes) -> bytes:
    return struct.pack("<4Q", 1, schema, len(payload), 32 + len(payload)) + payload


def test_ranks_and_sizes_come_from_bytes(tmp_path: Path) -> None:
    found = export()
    for rank in (0, 1):
        process = found.process(100 + rank)
        process.domain(1, "NCCL")
        created = blob(CREATION, struct.pack("<Qiiii", COMMUNICATOR, 2, 1 - rank, 0, 0))
        process.range("ncclCommInitRankConfig", 1, 5, domain=1, blob=created)
        reduced = blob(REDUCTION, struct.pack("<QQii", COMMUNICATOR, 4096, 0, 0))
        process.range("ncclAllReduce", 10, 20, domain=1, blob=reduced, registered=True)
        process.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 30, 60, launched=15)

    first, second = read_nsys(found.write(tmp_path / "a.sqlite"))

    assert [(t.rank, t.rank_source, t.world_size) for t in (first, second)] == [
        (1, "NCCL payload", 2),
        (0, "NCCL payload", 2),
    ]
    for trace in (first, second):
        (row,) = trace.group("gpu").args.tolist()
        assert trace.collective_args.in_elems[row] == 4096
        assert trace.collective_args.comms_id[row] == COMMUNICATOR


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        blob(REDUCTION, b"")[:-1],
        blob(REDUCTION, struct.pack("<Q", 7)) + b"more",
        blob(99, struct.pack("<QQii", 7, 4096, 0, 0)),
        struct.pack("<4Q", 1, REDUCTION, 1 << 60, 40) + struct.pack("<Q", 7),
    ],
)
def test_inconsistent_bytes_are_ignored(tmp_path: Path, content: bytes) -> None:
    path = export().write(tmp_path / "a.sqlite")
    with closing(Database(path, "a.sqlite")) as database:
        assert PayloadSchemas.of(database).members(content, {}) == {}


def test_short_payload_has_its_complete_members(tmp_path: Path) -> None:
    path = export().write(tmp_path / "a.sqlite")
    with closing(Database(path, "a.sqlite")) as database:
        found = PayloadSchemas.of(database).members(blob(REDUCTION, struct.pack("<Q", 7)), {})

    assert found == {"NCCL communicator ID": 7}


@pytest.mark.parametrize("kind", [19, 20, 21, 75, -1, None, "int"])
def test_entries_that_are_not_integers_are_omitted(tmp_path: Path, kind: object) -> None:
    found = Export()
    found.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", schemaId=5, type=kind, name="Rank", offset=0)
    with closing(Database(found.write(tmp_path / "a.sqlite"), "a.sqlite")) as database:
        assert PayloadSchemas.of(database).members(blob(5, bytes(8)), {}) == {}


def test_text_with_bytes_that_are_no_text_has_no_members() -> None:
    assert PayloadSchemas({}).members('{"Rank": "\udcff"}', {}) == {}
