"""Files as PyTorch writes them give the columns of the JSON of the same recording."""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from perfetto_files import Layout, PytorchFile

from ccltui.demo import Spec, write_job
from ccltui.parsers.columns import Events, RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.pftrace import packet_scan
from ccltui.parsers.pftrace.pftrace_reader import read_pftrace

LAYOUTS: tuple[Layout, ...] = ("slices", "stages")
NOT_IN_STAGES = frozenset(("cuda_runtime", *("kernel", "gpu_memcpy", "gpu_memset")))
"""Categories whose events have no External id where kernels are stages of a device."""


def document_of(folder: Path) -> dict[str, Any]:
    write_job(folder, Spec(steps=2, layers=2))
    with gzip.open(folder / "kineto_trace_1.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A rank of the demo job, with what files of either layout have."""
    found = document_of(tmp_path_factory.mktemp("job"))
    found.pop("deviceProperties")
    found["distributedInfo"] = {}
    kept = (*PytorchFile.categories(), None)
    found["traceEvents"] = [e for e in found["traceEvents"] if e.get("cat") in kept]
    return found


def as_stages(document: dict[str, Any]) -> dict[str, Any]:
    """The same recording without what the layout with stages does not state."""
    found = copy.deepcopy(document)
    for event in found["traceEvents"]:
        if event.get("cat") in NOT_IN_STAGES:
            for key in ("External id", "blocks per SM", "est. achieved occupancy %"):
                event["args"].pop(key, None)
    return found


def both(document: dict[str, Any], layout: Layout, folder: Path) -> tuple[RankTrace, RankTrace]:
    if layout == "stages":
        document = as_stages(document)
    (folder / "a.json").write_text(json.dumps(document))
    (folder / "a.pftrace").write_bytes(PytorchFile(document, layout).encoded())
    (found,) = read_pftrace(folder / "a.pftrace")
    return read_kineto(folder / "a.json"), found


def rows_of(trace: RankTrace, events: Events) -> list[tuple[object, ...]]:
    """Rows as texts and numbers, without ids; external ids of annotations of a device are left."""
    args = trace.collective_args
    groups = [(g.name, g.description, g.ranks, g.size) for g in trace.process_groups]
    described = [
        tuple(
            groups[value] if name == "group" and value >= 0
            else trace.text(value) if name in ("op", "dtype", "in_split", "out_split")
            else value
            for name, _ in type(args).COLUMNS
            for value in (getattr(args, name)[row].item(),)
        )
        for row in range(len(args))
    ]  # fmt: skip
    texts = ("name", "category", "shapes", "input_types", "input_values")
    columns: list[list[object]] = []
    for name in [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]:
        values = events.sparse(name).tolist() if name not in dict(Events.COLUMNS) else None
        values = getattr(events, name).tolist() if values is None else values
        if name in texts:
            values = [trace.text(value) for value in values]
        if name == "track":
            tracks = [structs.replace(t, label=t.label.strip()) for t in trace.tracks]
            values = [tracks[value] for value in values]
        if name == "args":
            values = [described[value] if value >= 0 else None for value in values]
        columns.append(values)
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_are_those_of_the_json(
    document: dict[str, Any], layout: Layout, decoder: str, tmp_path: Path
) -> None:
    expected, found = both(document, layout, tmp_path)
    assert not found.notes
    assert found.counts == {k: v for k, v in expected.counts.items() if k.startswith("X:")}
    assert set(found.events) == set(expected.events)
    for group, events in expected.events.items():
        assert rows_of(found, found.events[group]) == rows_of(expected, events), group


@cache
def scanners() -> tuple[str, ...]:
    return ("general", "compiled") if packet_scan.compiled() else ("general",)


def test_chunks_of_any_size_give_the_same(
    document: dict[str, Any], decoder: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(PytorchFile(document).encoded())
    (whole,) = read_pftrace(path)
    (small,) = read_pftrace(path, chunk_bytes=997)
    for group, events in whole.events.items():
        assert rows_of(small, small.events[group]) == rows_of(whole, events)


def test_file_in_gzip_is_read(document: dict[str, Any], tmp_path: Path) -> None:
    data = PytorchFile(document).encoded()
    (tmp_path / "a.pftrace").write_bytes(data)
    (tmp_path / "a.pftrace.gz").write_bytes(gzip.compress(data))
    (plain,), (packed,) = (read_pftrace(tmp_path / f"a.pftrace{s}") for s in ("", ".gz"))
    assert (packed.source.compression, packed.counts) == ("gzip", plain.counts)
    assert np.array_equal(packed.events["gpu"].start_ns, plain.events["gpu"].start_ns)


def test_both_scanners_give_the_same(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pftrace"
    path.write_bytes(PytorchFile(document, "slices").encoded())
    found = []
    for name in scanners():
        monkeypatch.setenv("CCLTUI_ACCEL", "1" if name == "compiled" else "0")
        found.append(read_pftrace(path)[0])
    first, *others = found
    for other in others:
        assert list(other.strings) == list(first.strings)
        for group, events in first.events.items():
            for name, _ in Events.COLUMNS:
                mine, theirs = getattr(events, name), getattr(other.events[group], name)
                assert np.array_equal(mine, theirs), (group, name)
