"""Tables of nccl-tests in every layout that its options, versions and launchers print."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccltui.parsers.cluster.nccl_tests import NcclTest, read_nccl_tests, read_nccl_tests_json
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError

LEAD = ("size", "count", "type", "redop", "root")
HALF = ("time", "algbw", "busbw", "#wrong")
ITERATIONS = ("i_min", "i_max", "i_p99", "i_cv%")
SIZES = ((1024, 6.5, 7.5), (2048, 8.0, 9.0), (4096, 20.25, 19.75))
"""Size, bus bandwidth out of place, and in place."""


def table(
    *,
    lead: Sequence[str] = LEAD,
    half: Sequence[str] = HALF,
    after: Sequence[str] = (),
    tail: str = "",
    tail_cells: str = "",
    operation: str = "sum",
    root: str = "-1",
    wrong: str = "0",
    out_of_place: bool = True,
    ranks: int = 4,
    name: str = "all_reduce_perf",
    footer: bool = True,
) -> list[str]:
    """The lines of one test, as `printf` of nccl-tests aligns them."""
    lines = [
        "# nccl-tests version 2.19.1 nccl-headers=23007 nccl-library=23007",
        f"# Collective test starting: {name}",
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 20",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid  {100 + rank} on  nodea device  0 [0000:{rank:02}:00] H100"
        for rank in range(ranks)
    ]
    lines += ["#", f"# {'':50} out-of-place                       in-place"]
    columns = (*lead, *half, *after, *half, *after)
    lines.append(f"# {' '.join(f'{name:>12}' for name in columns)} {tail:>19}".rstrip())
    lines.append("#  (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)")
    for size, out, into in SIZES:
        cells = {
            "size": size,
            "count": size // 4,
            "type": "float",
            "redop": operation,
            "root": root,
        }
        values: list[object] = [cells[name] for name in lead]
        for busbw, printed in ((out, out_of_place), (into, True)):
            numbers = dict.fromkeys(after, 99999.0) | {
                "time": 6900.0, "cputime": 12.0, "algbw": busbw / 2, "busbw": busbw,
                "#wrong": wrong, "error": wrong, "new": 777,
            }  # fmt: skip
            values += [numbers[name] if printed else "" for name in (*half, *after)]
        lines.append(f"  {' '.join(f'{value:>12}' for value in values)}  {tail_cells}".rstrip())
    if footer:
        lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 11.8 ", "#"]
    return lines


def read(tmp_path: Path, lines: Sequence[str]) -> tuple[NcclTest, ...]:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return read_nccl_tests(path, shown="run.log")


def check(test: NcclTest, *, wrong: int = 0, out: bool = True) -> None:
    assert test.size_bytes.tolist() == [1024, 2048, 4096]
    assert test.in_busbw.tolist() == [7.5, 9.0, 19.75]
    if out:
        assert test.out_busbw.tolist() == [6.5, 8.0, 20.25]
    assert test.wrong.tolist() == [wrong] * 3
    assert not [note for note in test.notes if note.code == "bad_row"]


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stamps": {"tail": "timestamp", "tail_cells": "2026-07-10 10:11:00"},
    "stamps of one word": {"tail": "timestamp", "tail_cells": "2026-07-10T10:11:00"},
    "iterations": {"after": ITERATIONS},
    "iterations and stamps": {
        "after": ITERATIONS, "tail": "timestamp", "tail_cells": "2026-07-10 10:11:00",
    },
    "a new column at the end": {"tail": "note", "tail_cells": "x"},
    "a new column in the halves": {"half": ("time", "new", "algbw", "busbw", "#wrong")},
    "time of the host": {"half": ("cputime", "algbw", "busbw", "#wrong")},
    "error": {"half": ("time", "algbw", "busbw", "error")},
    "no root": {"lead": ("size", "count", "type", "redop")},
    "no operation printed": {"lead": ("size", "count", "type", "redop"), "operation": ""},
    "neither printed": {"operation": "", "root": ""},
    "no operation of a root": {"operation": "", "root": "0"},
    "none": {"operation": "none"},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_is_read_by_its_header(tmp_path: Path, layout: str) -> None:
    (found,) = read(tmp_path, table(**LAYOUTS[layout]))

    check(found)
    assert (found.ranks, found.collective, found.nccl_version) == (4, "all_reduce", "2.30.7")
    assert found.average_busbw == 11.8


def test_values_that_were_not_checked(tmp_path: Path) -> None:
    (found,) = read(tmp_path, table(wrong="N/A"))

    check(found, wrong=-1)


def test_wrong_values_of_both_halves_count(tmp_path: Path) -> None:
    (found,) = read(tmp_path, table(wrong="3"))

    check(found, wrong=6)


def test_a_replay_prints_the_in_place_half_only(tmp_path: Path) -> None:
    (found,) = read(tmp_path, table(out_of_place=False))

    check(found, out=False)
    assert not (found.out_busbw > 0).any()


def test_the_time_of_the_host_is_not_that_of_the_device(tmp_path: Path) -> None:
    (found,) = read(tmp_path, table(half=("cputime", "algbw", "busbw", "#wrong")))

    assert not (found.out_time_us > 0).any()


def test_rows_that_do_not_fit_the_header_are_counted(tmp_path: Path) -> None:
    lines = table()
    lines.insert(
        -3, "        8192   2048  float  sum  -1  1.0  2.0  3.0  0  1.0  2.0  3.0  0  4.0  5.0"
    )

    (found,) = read(tmp_path, lines)

    check_codes = [(note.code, note.count) for note in found.notes]
    assert check_codes == [("bad_row", 1)]
    assert found.in_busbw.tolist() == [7.5, 9.0, 19.75]


def test_a_test_that_ends_before_its_largest_size_says_so(tmp_path: Path) -> None:
    lines = [line for line in table(footer=False) if not line.startswith("  " + " " * 8 + "4096")]

    (found,) = read(tmp_path, lines)

    assert len(found) == 2
    assert [note.code for note in found.notes] == ["unfinished_test"]


PREFIXES: dict[str, Callable[[int, str], str]] = {
    "srun -l": lambda _, line: f"0: {line}",
    "srun -l, padded": lambda _, line: f"  0: {line}",
    "mpirun --tag-output": lambda _, line: f"[1,0]<stdout>:{line}",
    "mpirun of Open MPI 5": lambda _, line: f"[prterun-nodea-77@1,0]<stdout>: {line}",
    "mpirun with times": lambda at, line: f"Tue Oct 28 12:00:{at % 60:02} 2025[1,0]<stdout>:{line}",
    "kubectl --timestamps": lambda at, line: f"2025-10-28T12:00:{at % 60:02}.123456789Z {line}",
    "kubectl of mpirun": lambda at, line: f"2025-10-28T12:00:{at % 60:02}Z [1,0]<stdout>:{line}",
    "kubectl --prefix": lambda _, line: f"[pod/launcher-x/main] {line}",
    "docker compose": lambda _, line: f"launcher-1  | {line}",
    "Ray": lambda _, line: f"(Bench pid=12, ip=10.0.0.1) {line}",
    "mpiexec -l": lambda _, line: f"[0] {line}",
    "pdsh": lambda _, line: f"nodea: {line}",
    "a logger": lambda at, line: f"[2026-02-02 10:00:{at % 60:02}] [INFO] [r.py:9:f] {line}",
}  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("layout", ["plain", "iterations and stamps"])
def test_prefixes_of_launchers_are_taken_off(tmp_path: Path, prefix: str, layout: str) -> None:
    tag = PREFIXES[prefix]
    lines = ["+ mpirun -np 4 all_reduce_perf -b 1K -e 4K -f 2"]
    lines += [tag(at, line) for at, line in enumerate(table(**LAYOUTS[layout]))]

    (found,) = read(tmp_path, lines)

    check(found)
    assert found.ranks == 4
    assert [file.kind for file in discover(tmp_path).files] == ["nccl_tests"]


def test_other_ranks_print_between_the_rows(tmp_path: Path) -> None:
    lines = []
    for line in table():
        lines += [
            f"0: {line}",
            "3: nodea:103:103 [3] NCCL INFO Channel 00/0 : 3[3] -> 0[0] via P2P",
        ]

    (found,) = read(tmp_path, lines)

    check(found)
    assert found.writer == ""


@pytest.mark.parametrize(
    "tags",
    [
        ("[1,0]<stdout>:", "[1,1]<stdout>:"),
        ("[1,0]<stdout>:", "[2,0]<stdout>:"),
        ("0: ", "1: "),
        ("[pod/a/x] ", "[pod/b/x] "),
        ("a-1 | ", "b-1 | "),
    ],
)
def test_two_worlds_with_tags_are_two_tests(tmp_path: Path, tags: tuple[str, str]) -> None:
    pairs = zip(table(ranks=1), table(ranks=1, wrong="2"), strict=True)

    first, second = read(
        tmp_path, [tag + line for pair in pairs for tag, line in zip(tags, pair, strict=True)]
    )

    check(first)
    check(second, wrong=4)
    assert (first.ranks, second.ranks) == (1, 1)
    assert first.writer != second.writer


@pytest.mark.parametrize("behind", [0, 1, 9, 11, 12])
def test_two_worlds_without_tags_are_named(tmp_path: Path, behind: int) -> None:
    """The second begins to print so many lines after the first."""
    ours, theirs = table(ranks=1), table(ranks=1)
    lines = ours[:behind]
    for at, line in enumerate(theirs):
        lines += [*ours[at + behind : at + behind + 1], line]

    (found,) = read(tmp_path, lines)

    assert found.mixed == 2
    assert (found.ranks, found.average_busbw, len(found)) == (None, None, 6)
    assert [note.code for note in found.notes] == ["mixed_tests"]


def test_tests_one_after_the_other_are_not_mixed(tmp_path: Path) -> None:
    killed = table(name="alltoall_perf", operation="none", footer=False)[:-1]
    other = table(name="reduce_scatter_perf")

    found = read(tmp_path, table() + killed + other)

    assert [one.collective for one in found] == ["all_reduce", "alltoall", "reduce_scatter"]
    assert [one.mixed for one in found] == [1, 1, 1]
    assert [len(one) for one in found] == [3, 2, 3]


def document(**changes: object) -> dict[str, Any]:
    def half(busbw: float) -> dict[str, object]:
        return {"time": 6900.0, "alg_bw": busbw / 2, "bus_bw": busbw, "nwrong": 0.0}

    return {
        "version": 2, "start_time": "2026-03-01 10:11:12",
        "args": ["./build/all_reduce_perf", "-J", "out.json", "--secret"],
        "env": ["TOKEN=sesame"], "nccl_version": 22904,
        "config": {
            "minimum_bytes": 1024, "maximum_bytes": 4096, "step_factor": 2,
            "devices": [{"rank": n, "hostname": "nodea", "device_info": "H100"} for n in range(4)],
        },
        "results": [
            {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
             "out_of_place": half(out), "in_place": half(into)} for size, out, into in SIZES
        ],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 11.8, "okay": "unchecked"},
        **changes,
    }  # fmt: skip


def read_json(tmp_path: Path, text: str) -> NcclTest:
    path = tmp_path / "out.json"
    path.write_text(text)
    (found,) = read_nccl_tests_json(path, shown="out.json")
    return found


def test_json_of_nccl_tests_without_its_environment(tmp_path: Path) -> None:
    found = read_json(tmp_path, json.dumps(document()))

    check(found)
    assert (found.ranks, found.collective, found.nccl_version) == (4, "all_reduce", "2.29.4")
    assert "sesame" not in repr(found)
    assert "secret" not in repr(found)
    assert [file.kind for file in discover(tmp_path).files] == ["nccl_tests_json"]


def test_devices_at_the_top_level_of_the_json(tmp_path: Path) -> None:
    changed = document(config={}, devices=[{"rank": 0, "hostname": "a", "device_info": "H100"}])

    assert read_json(tmp_path, json.dumps(changed)).ranks == 1


def test_json_without_an_out_of_place_half_and_with_numbers_as_text(tmp_path: Path) -> None:
    results = document()["results"]
    for row in results:
        row["out_of_place"] = None
        row["in_place"] |= {"nwrong": None, "alg_bw": "nan"}

    found = read_json(tmp_path, json.dumps(document(results=results)))

    check(found, wrong=-1, out=False)


def test_json_that_is_cut_off_gives_its_whole_rows(tmp_path: Path) -> None:
    text = json.dumps(document())
    found = read_json(tmp_path, text[: text.index('"size": 4096') + 60])

    assert found.in_busbw.tolist() == [7.5, 9.0]
    assert {note.code for note in found.notes} == {"cut_file", "unfinished_test"}


@pytest.mark.parametrize(
    "text", ["", "{", '{"results": 3}', '{"results": [', "[1]", '{"env": ["A=b"]}']
)
def test_other_json_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_json(tmp_path, text)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "row", [None, 3, {}, {"size": "x"}, {"size": 8, "out_of_place": 3}, {"size": 1e300}]
)
def test_rows_of_another_form_are_counted(tmp_path: Path, row: object) -> None:
    found = read_json(tmp_path, json.dumps(document(results=[*document()["results"], row])))

    check_codes = [note.code for note in found.notes]
    assert check_codes == ["bad_row"]
    assert len(found) == 3
