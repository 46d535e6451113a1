"""Memory snapshots with known sizes: peaks, fragmentation, failed allocations, hostile files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from runs_by_hand import view_of

from ccltui.doctor.trace_checks import side_findings
from ccltui.metrics.findings.recordings.log_findings import log_answer
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.side import memory_snapshot
from ccltui.parsers.side.memory_snapshot import DeviceMemory, read_memory_snapshot

MIB = 1 << 20
NAME = "rank0_memory_snapshot.pickle"
Json = dict[str, Any]


def frame(name: str, filename: str, line: int = 7) -> Json:
    return {"name": name, "filename": filename, "line": line}


def block(mib: int, state: str = "active_allocated", frames: list[Json] | None = None) -> Json:
    return {"address": 0, "size": mib * MIB, "requested_size": mib * MIB, "state": state,
            "frames": frames or []}  # fmt: skip


def segment(*blocks: Json, device: int = 0) -> Json:
    used = sum(one["size"] for one in blocks if one["state"] != "inactive")
    return {
        "device": device,
        "total_size": sum(one["size"] for one in blocks),
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "blocks": list(blocks),
    }


def events(*steps: tuple[str, int]) -> list[Json]:
    return [
        {"action": action, "addr": 0, "size": mib * MIB, "time_us": number, "frames": []}
        for number, (action, mib) in enumerate(steps)
    ]


def oom(asked: int, free: int, time: int = 99) -> Json:
    return {"action": "oom", "size": asked * MIB, "device_free": free * MIB, "time_us": time}


def snapshot(segments: list[Json], *traces: list[Json]) -> Json:
    return {"segments": segments, "device_traces": list(traces), "allocator_settings": {}}


def write(folder: Path, value: Any, name: str = NAME, protocol: int = 4) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


def read(folder: Path, value: Any, protocol: int = 4) -> DeviceMemory:
    (one,) = read_memory_snapshot(write(folder, value, protocol=protocol), shown=NAME)
    return one


def measured(folder: Path) -> Result:
    return find("memory_peaks").run(view_of(folder))


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_peaks_of_known_events(tmp_path: Path, protocol: int) -> None:
    """100 MiB were in use before the first event: 100, 400, 250, 350, 150."""
    held = segment(block(150), block(350, "inactive"))
    trace = events(("segment_alloc", 700), ("alloc", 300), ("free_requested", 150),
                   ("free_completed", 150), ("alloc", 100), ("free_completed", 200),
                   ("segment_free", 300))  # fmt: skip

    found = read(tmp_path, snapshot([held], trace), protocol)

    assert (found.reserved, found.allocated) == (500 * MIB, 150 * MIB)
    assert (found.peak_reserved, found.peak_allocated) == (800 * MIB, 400 * MIB)
    assert (found.inactive, found.largest_inactive) == (350 * MIB, 350 * MIB)
    assert found.events == 7


def test_without_events_no_peak_is_claimed(tmp_path: Path) -> None:
    write(tmp_path, snapshot([segment(block(150))], []))

    result = measured(tmp_path)

    assert result.value == 150 * MIB
    assert result.details["peak_allocated"] is None
    assert result.details["devices"][0]["peak_reserved"] is None


def test_segments_of_expandable_memory_are_mapped(tmp_path: Path) -> None:
    trace = events(("segment_map", 40), ("segment_map", 60), ("segment_unmap", 90))

    assert read(tmp_path, snapshot([segment(block(10))], trace)).peak_reserved == 100 * MIB


def test_every_device_has_its_own_figures(tmp_path: Path) -> None:
    value = snapshot(
        [segment(block(5), device=1), segment(block(3))], [], events(("alloc", 2), ("alloc", 3))
    )

    found = read_memory_snapshot(write(tmp_path, value), shown=NAME)

    assert [(one.device, one.reserved, one.peak_allocated) for one in found] == [
        (0, 3 * MIB, None),
        (1, 5 * MIB, 5 * MIB),
    ]


def test_the_largest_places_are_those_of_the_user(tmp_path: Path) -> None:
    library = frame("empty", "/usr/lib/site-packages/torch/nn.py")
    loss, data = frame("loss", "/home/me/train.py"), frame("load", "/home/me/data.py", 12)
    blocks = [
        block(8, frames=[library, loss]),
        block(3, frames=[data]),
        block(4, frames=[library, loss, data]),
        block(9, "inactive", [data]),
        block(1),
    ]

    found = read(tmp_path, snapshot([segment(*blocks)]))

    assert [(one.place, one.size_bytes, one.blocks) for one in found.stacks] == [
        ("loss (train.py:7)", 12 * MIB, 2),
        ("load (data.py:12)", 3 * MIB, 1),
        ("no stack recorded", 1 * MIB, 1),
    ]


def test_stacks_of_old_snapshots_are_in_the_history(tmp_path: Path) -> None:
    """A bare list of segments, as PyTorch 2.0 wrote it."""
    old = {"size": 5, "state": "active_allocated",
           "history": [{"frames": [frame("step", "a/run.py", 3)]}]}  # fmt: skip

    found = read(tmp_path, [{"device": 0, "total_size": 5, "allocated_size": 5, "blocks": [old]}])

    assert [one.place for one in found.stacks] == ["step (run.py:3)"]


def explained(folder: Path) -> str:
    answer = log_answer(view_of(folder))
    assert answer is not None
    return " ".join(f"{one.text} {one.more}" for one in answer.findings)


def test_explain_states_the_peak_where_nothing_failed(tmp_path: Path) -> None:
    trace = events(("segment_map", 40), ("segment_unmap", 30))
    write(tmp_path, snapshot([segment(block(10, frames=[frame("f", "a/b.py")]))], trace))

    said = explained(tmp_path)

    assert "Rank 0 has 10 MiB of device 0 reserved, at most 40 MiB since the oldest event." in said
    assert "10 MiB in use are from f (b.py:7)." in said


def test_explain_says_who_ran_out_of_memory_and_why(tmp_path: Path) -> None:
    """600 MiB are free in three pieces, none of which holds what was asked for."""
    pieces = [segment(block(100), block(200, "inactive")) for _ in range(3)]
    for rank in range(3):
        trace = [oom(300, 50)] if rank == 2 else []
        write(tmp_path, snapshot(pieces, trace), f"rank{rank}_memory_snapshot.pickle")

    result, said = measured(tmp_path), explained(tmp_path)

    assert (result.details["num_oom"], result.details["oom_ranks"]) == (1, ["2"])
    assert "Rank 2 ran out of memory: it asked for 300 MiB with 50 MiB free on the device" in said
    assert "The free blocks together would hold it: the memory is fragmented." in said
    assert "in use are from" not in said  # no stack was recorded


@pytest.mark.parametrize(
    ("trace", "state", "words"),
    [([oom(8, 1)], "problem", "out of memory: rank 0"), ([], "ok", "no allocation failed")],
)
def test_doctor_says_who_ran_out_of_memory(
    tmp_path: Path, trace: list[Json], state: str, words: str
) -> None:
    write(tmp_path, snapshot([segment(block(1))], trace))

    (found,) = side_findings(view_of(tmp_path).job)

    assert (found.check, found.state) == ("memory", state)
    assert words in found.message


def test_a_failure_in_two_snapshots_of_a_rank_is_one(tmp_path: Path) -> None:
    for number, trace in enumerate(([oom(8, 1, 5)], [oom(8, 1, 5), oom(8, 1, 6)])):
        write(tmp_path, snapshot([segment(block(number + 1))], trace), f"i{number}/{NAME}")

    assert measured(tmp_path).details["num_oom"] == 2


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"segments": 3, "device_traces": []}, "no list of segments"),
        ({"segments": [1, 2], "device_traces": []}, "no list of segments"),
        ({"weights": {}}, "no list of segments"),
        (3, "no list of segments"),
        ({"segments": [Path("x")], "device_traces": []}, "opcode STACK_GLOBAL"),
    ],
)
def test_what_is_no_snapshot_is_one_line(tmp_path: Path, value: Any, why: str) -> None:
    path = write(tmp_path, value)

    with pytest.raises(TraceError, match=why) as raised:
        read_memory_snapshot(path, shown=NAME)

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_file_that_is_cut_off_has_no_sizes(tmp_path: Path, share: float) -> None:
    path = write(tmp_path, snapshot([segment(block(1)) for _ in range(50)]))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    with pytest.raises(TraceError, match="its sizes would be too small"):
        read_memory_snapshot(path, shown=NAME)


def test_a_file_beyond_the_limit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, snapshot([segment(block(1))]))
    monkeypatch.setattr(memory_snapshot, "MOST_BYTES", 64)

    result = measured(tmp_path)

    assert result.status == "unavailable"
    assert "are the most that is read" in result.reasons[0].message


@pytest.mark.parametrize("value", [None, -1, "x", 1.5, [], {}, 1 << 60, True])
@pytest.mark.parametrize("key", ["device", "total_size", "allocated_size", "blocks", "active_size"])
def test_values_of_other_types_count_as_absent(tmp_path: Path, key: str, value: Any) -> None:
    good, bad = segment(block(2)), {**segment(block(4)), key: value}

    found = read(tmp_path, snapshot([good, bad]))

    assert found.device == 0
    assert found.reserved == (2 if key == "total_size" else 6) * MIB


def test_one_file_of_code_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path, snapshot([segment(block(1))]))
    write(tmp_path, Path("x"), "rank1_memory_snapshot.pickle")

    result = measured(tmp_path)

    assert (result.status, result.value) == ("partial", MIB)
    (unread,) = result.details["unread"]
    assert "rank1_memory_snapshot.pickle" in unread
    assert "STACK_GLOBAL" in unread


def test_the_made_samples(shared: Path) -> None:
    folder = shared / "commlogs" / "made" / "memory_snapshot"
    if not folder.is_dir():
        pytest.skip(f"no samples in {folder}")
    truth = json.loads((folder / "truth.json").read_bytes())
    snapshots = [file for file in discover(folder).files if file.kind == "memory_snapshot"]

    assert len(snapshots) == 4
    for file in snapshots:
        (found,) = read_memory_snapshot(Path(file.real_path), shown=file.path)
        assert (found.reserved, found.allocated) == (truth["reserved"], truth["allocated"])
        assert found.inactive == truth["inactive"]
        assert found.peak_reserved == truth["peak_reserved_in_trace"]
        assert found.peak_allocated == truth["peak_allocated_in_trace"]
        failed = [truth["oom"][str(file.rank)]] if str(file.rank) in truth["oom"] else []
        assert [(one.asked, one.device_free) for one in found.ooms] == [
            (one["asked"], one["device_free"]) for one in failed
        ]
    assert measured(folder).details["num_oom"] == 1
