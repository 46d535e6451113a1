"""Whatever happens to the files of a store, numbers are those of the traces."""

from __future__ import annotations

import pickle
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ccltui
from ccltui.demo import Spec, write_job
from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace, Samples
from ccltui.parsers.errors import DamagedColumnsError
from ccltui.parsers.ingest import load
from ccltui.parsers.job import Job, open_job
from ccltui.parsers.store.store_entry import COLUMNS_NAME, MANIFEST_NAME

FLIPS = 100
MEASURED_FLIPS = 4
_LIMIT_S = 60


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    small = Spec(tp=1, pp=1, dp_shard=2, gpus_per_node=1, layers=1, steps=2, stragglers=())
    write_job(folder, small)
    return folder


@pytest.fixture(scope="module")
def pristine(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was written, with all columns of the job."""
    folder = tmp_path_factory.mktemp("written") / "store"
    open_job(traces, cache_dir=folder)
    return folder


@pytest.fixture
def store(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "store"))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines about damage that a user would see."""
    found: list[str] = []
    monkeypatch.setattr(load, "_print_line", found.append)
    return found


def columns(trace: RankTrace) -> dict[str, Any]:
    """Return everything that is known of a rank but where it is."""
    events = [name for name, _ in (*Events.COLUMNS, *Events.SPARSE)]
    found: dict[str, Any] = {
        **{
            f"{g}/{name}": getattr(rows, name)
            for g, rows in trace.events.items()
            for name in events
        },
        **{
            f"args/{name}": getattr(trace.collective_args, name)
            for name, _ in CollectiveArgs.COLUMNS
        },
        **{f"samples/{name}": getattr(trace.samples, name) for name, _ in Samples.COLUMNS},
        "blob": trace.strings.blob,
        "offsets": trace.strings.offsets,
    }
    heavy = ("events", "collective_args", "samples", "strings", "place")
    for name in RankTrace.__struct_fields__:
        if name not in heavy:
            found[name] = getattr(trace, name)
    return {**found, "counts": dict(trace.counts), "first_ns": trace.first_ns}


def differences(found: Job, expected: Job) -> list[str]:
    """Return names of all columns and facts that differ."""
    assert [trace.label for trace in found.ranks] == [trace.label for trace in expected.ranks]
    wrong = []
    for one, other in zip(found.ranks, expected.ranks, strict=True):
        mine, right = columns(one), columns(other)
        assert mine.keys() == right.keys()
        wrong += [name for name in mine if not np.array_equal(mine[name], right[name])]
    return wrong


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def files_of(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def chosen(chance: random.Random, store: Path) -> tuple[Path, int, int]:
    """Return a random place in all bytes of a store: half in manifests, which are small."""
    name = chance.choice((COLUMNS_NAME, COLUMNS_NAME, COLUMNS_NAME, MANIFEST_NAME))
    path = chance.choice([path for path in files_of(store) if path.name == name])
    return path, chance.randrange(path.stat().st_size), chance.randrange(8)


def test_flipped_bits_change_no_column(
    traces: Path, pristine: Path, tmp_path: Path, lines: list[str]
) -> None:
    chance = random.Random(28)
    truth = open_job(traces, cache_dir=tmp_path / "none")
    store = Path(shutil.copytree(pristine, tmp_path / "store"))
    read = 0
    for number in range(FLIPS):
        places = [chosen(chance, store) for _ in range(1 + number % 2)]
        for path, at, bit in places:
            flip(path, at, bit)
        assert differences(open_job(traces, cache_dir=store), truth) == [], places
        read += bool(lines)
        assert all("damaged" in line and "\n" not in line for line in lines)
        lines.clear()
        if number % 8 == 0:
            assert differences(open_job(traces, cache_dir=store), truth) == []
            assert lines == [], "the entry was not replaced"
    assert read > FLIPS // 3


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def of_another_rank(path: Path) -> None:
    others = [o for o in files_of(path.parent.parent) if o.name == path.name and o != path]
    path.write_bytes(others[0].read_bytes())


@pytest.mark.parametrize("name", [COLUMNS_NAME, MANIFEST_NAME])
@pytest.mark.parametrize("damage", [zeroed, halved, longer, emptied, of_another_rank])
def test_other_damage_changes_no_column(
    traces: Path,
    store: Path,
    tmp_path: Path,
    lines: list[str],
    name: str,
    damage: Callable[[Path], None],
) -> None:
    truth = open_job(traces, cache_dir=tmp_path / "none")
    damage(next(path for path in files_of(store) if path.name == name))

    assert differences(open_job(traces, cache_dir=store), truth) == []
    assert len(lines) == 1


def measured(traces: Path, store: Path) -> dict[str, Any]:
    """Return all metrics of a job, computed in a thread that has to end."""
    found: dict[str, Any] = {}

    def compute() -> None:
        for name, result in ccltui.open(traces, cache_dir=store).metrics().items():
            found[name] = (result.status, result.value, result.details, result.reasons)

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    thread.join(_LIMIT_S)
    assert not thread.is_alive(), "it hangs"
    return found


@pytest.mark.long
def test_metrics_of_a_damaged_store_are_those_of_the_traces(
    traces: Path, pristine: Path, tmp_path: Path, lines: list[str]
) -> None:
    chance = random.Random(10)
    truth = measured(traces, tmp_path / "none")
    assert len(truth) > 40
    for number in range(MEASURED_FLIPS):
        store = Path(shutil.copytree(pristine, tmp_path / f"{number}"))
        if number == 0:
            for path in files_of(store):
                zeroed(path) if path.name == COLUMNS_NAME else None
        for _ in range(20):
            flip(*chosen(chance, store))
        found = measured(traces, store)
        assert repr(found) == repr(truth)
        assert lines
        lines.clear()


def test_a_trace_that_is_gone_is_one_line(
    traces: Path, store: Path, tmp_path: Path, lines: list[str]
) -> None:
    moved = Path(shutil.copytree(traces, tmp_path / "moved"))
    job = ccltui.open(moved, cache_dir=store)
    for path in files_of(store):
        zeroed(path) if path.name == COLUMNS_NAME else None
    shutil.rmtree(moved)

    result = job.metric("idle_ratio")

    assert (result.status, result.value, result.reason) == ("unavailable", None, "damaged_trace")
    (reason,) = result.reasons
    assert "damaged" in reason.message
    assert "No such file" in reason.message
    assert "\n" not in reason.message
    with pytest.raises(DamagedColumnsError):
        _ = job.ranks[0].kernels["start_ns"]


def test_a_trace_that_has_changed_since_is_not_mixed_with_its_columns(
    traces: Path, store: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(traces, tmp_path / "moved"))
    job = ccltui.open(moved, cache_dir=store)
    for path in files_of(store):
        zeroed(path) if path.name == COLUMNS_NAME else None
    for path in moved.iterdir():
        path.write_bytes(path.read_bytes() + b" ")

    with pytest.raises(DamagedColumnsError, match="has changed"):
        _ = job.ranks[0].kernels["start_ns"]


def test_two_processes_may_find_the_same_damage(
    traces: Path, store: Path, tmp_path: Path, lines: list[str]
) -> None:
    truth = open_job(traces, cache_dir=tmp_path / "none")
    for path in files_of(store):
        zeroed(path) if path.name == COLUMNS_NAME else None
    jobs = [open_job(traces, cache_dir=store) for _ in range(2)]

    for job in jobs:
        assert differences(job, truth) == []
    assert len(lines) == len(truth.ranks)  # the second finds entries that the first replaced


def test_stored_columns_can_be_sent_and_replaced(traces: Path, store: Path, tmp_path: Path) -> None:
    job = open_job(traces, cache_dir=store)
    gpu = job.ranks[0].group("gpu")

    sent = pickle.loads(pickle.dumps((gpu, job.ranks[0].strings, job.ranks[0].collective_args)))
    later = gpu.later(7)
    other = gpu.with_columns(dur_ns=gpu.dur_ns + 1)

    assert np.array_equal(sent[0].start_ns, gpu.start_ns)
    assert list(sent[1]) == list(job.ranks[0].strings)
    assert np.array_equal(sent[2].op, job.ranks[0].collective_args.op)
    assert later.first_ns == gpu.first_ns + 7
    assert np.array_equal(later.start_ns, gpu.start_ns + 7)
    assert np.array_equal(other.dur_ns, gpu.dur_ns + 1)
    assert np.array_equal(other.start_ns, gpu.start_ns)


def test_ranks_share_the_columns_that_have_the_same_bytes(traces: Path, store: Path) -> None:
    """Also where those of one rank are damaged: they are read again from its trace."""
    first, second = open_job(traces, cache_dir=store).ranks
    one, other = first.group("cpu_ops"), second.group("cpu_ops")
    assert one.name is other.name
    assert one.name.tolist() == other.name.tolist()

    assert second.place is not None
    (place,) = (found for found in second.place.columns if found.name == "cpu_ops/name")
    flip(second.place.path, (second.place.begin or 0) + place.begin, 0)
    known, damaged = open_job(traces, cache_dir=store).ranks

    assert known.group("cpu_ops").name is one.name
    assert damaged.group("cpu_ops").name is not one.name
    assert damaged.group("cpu_ops").name.tolist() == one.name.tolist()
