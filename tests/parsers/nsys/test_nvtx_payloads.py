"""Test payloads in bytes, as `nsys export --include-blobs=true` writes them."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import pytest
from nsys_exports import COMMUNICATOR, Export

from ccltui.parsers.nsys.nsys_reader import read_nsys
from ccltui.parsers.nsys.nvtx import PayloadSchemas
from ccltui.parsers.nsys.sqlite.database import Database

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
