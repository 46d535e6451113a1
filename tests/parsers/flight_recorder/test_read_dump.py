"""Dumps of the flight recorder of every version, their ranks, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder import read_dump
from ccltui.parsers.flight_recorder.dump import (
    COMPLETED,
    NONE,
    SCHEDULED,
    FlightDump,
    FlightGroup,
    Frame,
)
from ccltui.parsers.flight_recorder.read_dump import read_flight_dump

FRAMES = [{"name": "step", "filename": "/job/train.py", "line": 40}]
ENTRY: dict[str, Any] = {
    "frames": FRAMES,
    "record_id": 7,
    "pg_id": 1,
    "process_group": ("3", "mesh_tp"),
    "thread_name": "pt_autograd_0",
    "thread_id": "140",
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
    "state": "completed",
    "time_discovered_started_ns": None,
    "time_discovered_completed_ns": 1_780_000_000_100_000_000,
    "retired": True,
    "timeout_ms": 600_000,
    "is_p2p": False,
}
NEWEST: dict[str, Any] = {
    "version": "2.10",
    "pg_config": {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "3": {"name": "3", "desc": "mesh_tp", "ranks": "[2, 3]"},
    },
    "pg_status": {
        "0": {
            "last_enqueued_collective": 12,
            "last_started_collective": -1,
            "last_completed_collective": 11,
        },
        "1": {
            "last_enqueued_collective": 5,
            "last_started_collective": -1,
            "last_completed_collective": 5,
        },
    },
    "comm_lib_version": "2.27.5",
    "entries": [ENTRY],
}


def written(folder: Path, name: str, value: Any, form: str = "pickle") -> FlightDump:
    path = folder / name
    as_json = form == "json"
    path.write_bytes(json.dumps(value).encode() if as_json else pickle.dumps(value, protocol=2))
    return read_flight_dump(path, shown=name)


def entry(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (ENTRY | changes).items() if value is not ...}


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_newest_form(tmp_path: Path, form: str) -> None:
    dump = written(tmp_path, "nccl_trace_rank_3", NEWEST, form)

    assert (dump.rank, dump.version, dump.library) == (3, "2.10", "2.27.5")
    assert dump.groups == (
        FlightGroup("0", "default_pg", (0, 1, 2, 3), 0, 12, -1, 11),
        FlightGroup("3", "mesh_tp", (2, 3), 1, 5, -1, 5),
    )
    columns = dump.columns
    one = {
        name: getattr(columns, name)[0].item()
        for name in ("group", "seq", "p2p_seq", "op_id", "record_id", "peer", "state", "retired")
    }
    assert one == {
        **{"group": 1, "seq": 5, "p2p_seq": 0, "op_id": 6, "record_id": 7, "peer": NONE},
        **{"state": COMPLETED, "retired": True},
    }
    texts = {
        name: dump.texts[getattr(columns, name)[0]]
        for name in ("operation", "backend", "sizes_in", "sizes_out", "dtypes", "thread")
    }
    assert texts == {
        **{"operation": "all_reduce", "backend": "nccl", "sizes_in": "[4096, 2]"},
        **{"sizes_out": "[4096, 2]", "dtypes": "BFloat16 -> BFloat16", "thread": "pt_autograd_0"},
    }
    assert (columns.num_in[0], columns.bytes_in[0], columns.bytes_out[0]) == (8192, 16384, 16384)
    assert columns.created_ns[0] == 1_780_000_000_000_000_000
    assert columns.completed_ns[0] == 1_780_000_000_100_000_000
    assert columns.started_ns[0] == NONE
    assert columns.duration_ms[0] == 2.5
    assert dump.stacks[columns.stack[0]] == (Frame("step", "/job/train.py", 40),)
    assert dump.num_overwritten == 7
    assert dump.has_timing
    assert dump.has_stacks
    assert dump.has_finished_entries
    assert columns.completed_ns[0] == 1_780_000_000_100_000_000
    assert dump.notes == ()


OLD_FIELDS = {
    *("pg_id", "profiling_name", "input_sizes", "output_sizes", "state", "retired", "frames"),
}


def test_pytorch_2_2_is_a_list_in_microseconds(tmp_path: Path) -> None:
    old = {key: ENTRY[key] for key in OLD_FIELDS}
    old |= {"pg_id": 0, "seq_id": 9, "time_created_us": 1_780_000_000_000_000}

    dump = written(tmp_path, "nccl_trace_rank_1", [old])

    assert (dump.rank, dump.version, dump.num_overwritten) == (1, "", None)
    assert dump.groups == (FlightGroup("0", "default_pg", None, 0),)
    assert dump.columns.seq.tolist() == [9]
    assert dump.columns.created_ns.tolist() == [1_780_000_000_000_000_000]
    assert dump.columns.bytes_in.tolist() == [NONE]
    assert dump.columns.num_in.tolist() == [8192]


def test_pytorch_2_3_names_groups_by_numbers(tmp_path: Path) -> None:
    old = {key: ENTRY[key] for key in (*OLD_FIELDS, "record_id", "op_id", "time_created_ns")}
    value = {"entries": [old | {"seq_id": 4}], "version": "1.4", "pg_config": {0: [0, 1], 1: [0]}}

    dump = written(tmp_path, "nccl_trace_rank_0", value)

    assert dump.version == "1.4"
    assert dump.groups == (
        FlightGroup("0", "default_pg", (0, 1), 0),
        FlightGroup("1", "", (0,), 1),
    )
    assert dump.columns.group.tolist() == [1]
    assert dump.columns.seq.tolist() == [4]


def test_json_of_pytorch_has_counters_as_text_and_zero_for_no_time(tmp_path: Path) -> None:
    status = {"0": {"last_enqueued_collective": "9", "last_completed_collective": "-1"}}
    late = entry(pg_id=0, process_group=["0", "default_pg"], state="scheduled", retired=False,
                 time_discovered_completed_ns=0, time_discovered_started_ns=0)  # fmt: skip
    groups = {"0": NEWEST["pg_config"]["0"]}

    dump = written(
        tmp_path,
        "_dump_2.json",
        NEWEST | {"pg_status": status, "pg_config": groups, "entries": [late]},
        "json",
    )

    assert dump.rank == 2
    assert dump.groups == (FlightGroup("0", "default_pg", (0, 1, 2, 3), 0, 9, None, -1),)
    assert dump.columns.completed_ns.tolist() == [NONE]
    assert dump.columns.state.tolist() == [SCHEDULED]
    assert not dump.has_finished_entries


def test_a_dump_without_entries_has_its_counters(tmp_path: Path) -> None:
    dump = written(tmp_path, "_dump_3", {k: v for k, v in NEWEST.items() if k != "entries"})

    assert len(dump.columns) == 0
    assert [one.last_enqueued for one in dump.groups] == [12, 5]  # ids by the order of the names
    assert dump.num_overwritten is None


def test_ids_of_groups_without_entries_stay_open_where_an_entry_contradicts(tmp_path: Path) -> None:
    dump = written(tmp_path, "_dump_3", NEWEST | {"entries": [entry(pg_id=0)]})

    assert [(one.local_id, one.last_enqueued) for one in dump.groups] == [(None, None), (0, 12)]


def test_torchcomms_numbers_collectives_over_all_groups(tmp_path: Path) -> None:
    groups = {name: {"name": name, "desc": "ncclx", "ranks": "[0, 1]"} for name in ("main", "pair")}
    entries = [
        entry(record_id=n, process_group=(name, "ncclx"), pg_id=n % 2, collective_seq_id=n)
        for n, name in enumerate(["main", "pair", "main", "main", "pair"])
    ]
    value = NEWEST | {"pg_status": {}, "pg_config": groups, "entries": entries}

    assert written(tmp_path, "rank_1", value).columns.seq.tolist() == [1, 1, 2, 3, 2]
    lost = written(tmp_path, "rank_0", value | {"entries": entries[1:]})
    assert set(lost.columns.seq.tolist()) == {NONE}
    assert [note.code for note in lost.notes] == ["not_aligned"]


def test_sends_and_receives_name_their_peers(tmp_path: Path) -> None:
    entries = [
        entry(profiling_name="nccl:send 1->0", is_p2p=True),
        entry(profiling_name="nccl:recv 1<-0", is_p2p=True),
        entry(profiling_name="nccl:coalesced", input_sizes=[], output_sizes=[]),
        entry(profiling_name="odd name"),
    ]

    dump = written(tmp_path, "rank_3", NEWEST | {"entries": entries})

    names = [dump.texts[one] for one in dump.columns.operation]
    assert names == ["send", "recv", "coalesced", "odd name"]
    assert dump.columns.own.tolist() == [1, 1, NONE, NONE]
    assert dump.columns.peer.tolist() == [0, 0, NONE, NONE]
    assert dump.columns.is_p2p.tolist() == [True, True, False, False]
    assert dump.columns.is_closing.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("name", "own", "rank", "why"),
    [
        ("nccl_trace_rank_3", 1, 3, ""),
        ("run7_dump.pickle", 1, None, "its name states rank 7, its sends and receives rank 3"),
        ("dump", 1, 3, ""),  # the place in the group is enough
        ("dump", None, None, "neither its name nor its contents state a rank"),
        ("rank_1", None, None, "its name states rank 1, which is no member of its group 3"),
        ("rank_2", 1, None, "its name states rank 2, its sends and receives rank 3"),
    ],
)
def test_name_and_contents_agree_on_the_rank(
    tmp_path: Path, name: str, own: int | None, rank: int | None, why: str
) -> None:
    sent = "nccl:all_reduce" if own is None else f"nccl:send {own}->0"

    dump = written(tmp_path, name, NEWEST | {"entries": [entry(profiling_name=sent)]})

    assert dump.rank == rank
    assert [note.message for note in dump.notes] == ([why] if why else [])


def test_elements_and_bytes_of_many_tensors_and_of_unknown_types(tmp_path: Path) -> None:
    many = entry(input_sizes=[[3]] * 20, input_dtypes=["Float"] * 20, output_sizes=[[], [2, 0]],
                 output_dtypes=["Long", "Float8_e4m3fn"])  # fmt: skip
    odd = entry(input_sizes=[[2]], input_dtypes=["Strange"], output_sizes=[[-1]],
                output_dtypes=[])  # fmt: skip

    columns = (dump := written(tmp_path, "rank_3", NEWEST | {"entries": [many, odd]})).columns

    assert columns.num_in.tolist() == [60, 2]
    assert columns.bytes_in.tolist() == [240, NONE]
    assert columns.bytes_out.tolist() == [8, NONE]
    assert dump.texts[columns.sizes_in[0]].endswith(" and 4 more, 60 elements in all")


BAD = [
    {"record_id": "x", "state": 3, "input_sizes": "[[1]]", "profiling_name": "nccl:a"},
    {"profiling_name": None, "process_group": 7, "frames": [3, {"name": 1}], "pg_id": True},
    {"profiling_name": "x" * 9999, "collective_seq_id": 1 << 62, "time_created_ns": -5},
    {"profiling_name": "nccl:x", "input_sizes": [[1 << 62, 1 << 62]], "duration_ms": "7"},
    {"profiling_name": "nccl:send 1->99999999999", "input_sizes": [3, None, {}]},
]


def test_values_of_other_types_are_absent(tmp_path: Path) -> None:
    dump = written(tmp_path, "rank_3", NEWEST | {"entries": [*BAD, 5, None, "x"]})

    assert len(dump.columns) == len(BAD)
    assert set(dump.columns.num_in.tolist()) == {NONE}
    assert np.isnan(dump.columns.duration_ms).all()


def test_a_dump_that_is_cut_off_keeps_its_complete_entries(tmp_path: Path) -> None:
    entries = [entry(record_id=number) for number in range(30)]
    data = pickle.dumps(NEWEST | {"entries": entries}, protocol=2)
    (tmp_path / "rank_3").write_bytes(data[: len(data) * 2 // 3])

    dump = read_flight_dump(tmp_path / "rank_3", shown="rank_3")

    kept = dump.columns.record_id.tolist()
    assert kept == list(range(len(kept)))
    assert 5 < len(kept) < 30
    assert [note.code for note in dump.notes] == ["truncated"]
    assert dump.rank == 3


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"model": [1]}, "no dump of a flight recorder"),
        ({"version": 7, "pg_config": []}, "no dump of a flight recorder"),
        (NEWEST | {"version": "3.0"}, "version 3.0 of the flight recorder is not known"),
        ([], "no dump of a flight recorder"),
    ],
)
@pytest.mark.parametrize("form", ["pickle", "json"])
def test_what_is_no_dump_is_refused(tmp_path: Path, value: Any, why: str, form: str) -> None:
    with pytest.raises(TraceError, match=f"^rank_0: {why}"):
        written(tmp_path, "rank_0", value, form)


def samples(shared: Path) -> list[Path]:
    folder = shared / "commlogs"
    if not folder.is_dir():
        pytest.skip("no samples of communication logs")
    found = [*folder.glob("fr/*/*"), *folder.glob("recorded/*/*"), *folder.glob("made/fr/*/*")]
    return [one for one in found if one.name != "truth.json"]


def test_every_sample_is_read_or_refused_with_one_line(shared: Path) -> None:
    for path in samples(shared):
        shown = f"{path.parent.name}/{path.name}"
        if path.parent.name == "hostile" and path.name != "truncated_0":
            with pytest.raises(TraceError, match=rf"^{shown}[^\n]*: [^\n]+$"):
                read_flight_dump(path, shown=shown)
        else:
            dump = read_flight_dump(path, shown=shown)
            assert dump.rank == int("".join(one for one in path.stem[-2:] if one.isdigit()))
            assert path.name == "truncated_0" or not dump.notes


def test_json_keeps_every_field_that_is_read() -> None:
    asked: set[str] = set()

    class Asked(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            asked.add(key)
            return super().get(key, default)

    read_dump.dump_of(
        {**NEWEST, "entries": [Asked(entry(time_created_ns=...))]}, shown="rank_3", named=3
    )

    assert asked == {*read_dump._FIELDS, "frames"}


def test_equal_stacks_of_json_are_one(tmp_path: Path) -> None:
    other = [{"name": "g", "filename": "b.py", "line": 2}]
    entries = [entry(), entry(), entry(frames=other), entry(frames=None), entry(frames=...)]

    as_json = written(tmp_path, "rank_3.json", {**NEWEST, "entries": entries}, "json")
    as_pickle = written(tmp_path, "rank_3", {**NEWEST, "entries": entries})

    assert as_json.columns.stack.tolist() == [1, 1, 2, 0, 0]
    assert as_json.stacks == as_pickle.stacks
    assert as_json.columns.stack.tolist() == as_pickle.columns.stack.tolist()


def test_a_stack_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    data = json.dumps({**NEWEST, "entries": [entry(frames=[{"name": "BAD"}])]}).encode()
    (tmp_path / "rank_3").write_bytes(data.replace(b"BAD", b"\xff\xfe"))

    with pytest.raises(TraceError, match="not valid JSON"):
        read_flight_dump(tmp_path / "rank_3", shown="rank_3")
