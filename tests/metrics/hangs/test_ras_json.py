"""Reports of NCCL's RAS in JSON, and events of its monitor, with planted faults."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.hangs import ras_hang
from ccltui.metrics.hangs.find_hang import hang_of, hangs_of
from ccltui.metrics.hangs.hang import Hang
from ccltui.parsers.cluster.ras_json import read_ras
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError

Json = dict[str, Any]
RANKS = 8
LAUNCHED = 1200


def rank(number: int, launched: Mapping[str, int] | None = None, **status: Any) -> Json:
    well = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False}
    return {
        **process(number),
        "status": {**well, "abort_flag": False, **status},
        "collective_counts": {"AllReduce": LAUNCHED, "AllGather": 600, "SendRecv": number,
                              **(launched or {})},
    }  # fmt: skip


def process(number: int) -> Json:
    return {"rank": number, "host": f"10.0.0.{number // 4}", "pid": 4000 + number,
            "cuda_dev": number % 4, "nvml_dev": number % 4}  # fmt: skip


def lost(number: int, **status: bool) -> Json:
    return {**process(number), "status": {"unresponsive": True, "considered_dead": False, **status}}


def communicator(ranks: Sequence[Json], missing: Sequence[Json] = (), hash_: str = "ab12") -> Json:
    return {"hash": f"0x{hash_}", "size": len(ranks) + len(missing), "ranks": list(ranks),
            "ranks_count": len(ranks), "missing_ranks_count": len(missing),
            "missing_ranks": list(missing)}  # fmt: skip


def report(*communicators: Json, minute: int = 0) -> Json:
    return {
        "nccl_version": "2.29.2",
        "timestamp": f"2026-05-28 20:{minute:02}:40",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
    }


def healthy(**changed: Json) -> list[Json]:
    """Ranks of a communicator; ``rank3=…`` is another one in place of rank 3."""
    return [changed.get(f"rank{number}", rank(number)) for number in range(RANKS)]


def hang(folder: Path, *documents: Json) -> Hang:
    for number, document in enumerate(documents):
        (folder / f"ras_{number}.txt").write_text(json.dumps(document, indent=2))
    found = discover(folder)
    assert {file.kind for file in found.files} == {"nccl_ras"}
    told = hang_of(found)
    assert told is not None
    return told


def behind(by: int, minute: int = 0, number: int = 3, launched: int = LAUNCHED) -> Json:
    ranks = [
        rank(one, {"AllReduce": launched - (by if one == number else 0)}) for one in range(RANKS)
    ]
    return report(communicator(ranks), minute=minute)


def test_ranks_that_do_not_answer_come_first(tmp_path: Path) -> None:
    ranks = [one for one in healthy(rank3=rank(3, {"AllReduce": 1199})) if one["rank"] != 6]

    found = hang(tmp_path, report(communicator(ranks, [lost(6, considered_dead=True)])))

    assert (found.kind, found.ranks, found.sure) == ("peers_missing", ("6",), "high")
    assert found.text == "Rank 6 does not answer RAS; the 7 others do."
    assert "process 4006 on node 10.0.0.1, considered dead" in found.more[0]
    assert "(ab12) rank 3 launched 1,199 AllReduce; ranks 0-2, 4, 5" in found.more[1]


def test_a_process_that_is_missing_in_two_communicators_is_named_in_the_larger(
    tmp_path: Path,
) -> None:
    small = communicator([rank(4)], [lost(6)], "cd34")
    large = communicator([one for one in healthy() if one["rank"] != 6], [lost(6)])

    found = hang(tmp_path, report(small, large))

    assert (found.group, found.ranks) == ("communicator #1 (ab12)", ("6",))
    assert not any("cd34" in one for one in found.more)


@pytest.mark.parametrize(("by", "sure"), [(1, "low"), (5, "medium")])
def test_one_report_of_a_rank_behind(tmp_path: Path, by: int, sure: str) -> None:
    found = hang(tmp_path, behind(by))

    assert (found.kind, found.ranks, found.sure) == ("behind", ("3",), sure)
    assert (found.operation, found.sequence) == ("AllReduce", LAUNCHED - by + 1)
    assert not any("few ranks are ahead" in one for one in found.more)


@pytest.mark.parametrize("number", range(RANKS))
def test_counts_that_do_not_move_are_a_hang(tmp_path: Path, number: int) -> None:
    found = hang(tmp_path, behind(1, 1, number), behind(1, 0, number))

    assert (found.ranks, found.sure) == ((str(number),), "high")
    assert any("makes no progress" in one for one in found.more)


def test_the_later_report_counts_whatever_its_name(tmp_path: Path) -> None:
    found = hang(tmp_path, behind(1, minute=9), behind(1, minute=2, number=5, launched=700))

    assert (found.ranks, found.sure) == (("3",), "low")
    assert any("makes progress" in one for one in found.more)


def test_most_ranks_behind_few_are_not_named_one_by_one(tmp_path: Path) -> None:
    ranks = [rank(one, {"AllReduce": LAUNCHED + (one == 2)}) for one in range(32)]

    found = hang(tmp_path, report(communicator(ranks)))

    assert found.text == "All ranks but 2 are one all-reduce behind; this one may wait for them."
    assert "2" not in found.ranks


@pytest.mark.parametrize(
    ("code", "words"), [(6, "remote error"), (1, "unhandled CUDA error"), (42, "error 42")]
)
def test_asynchronous_errors(tmp_path: Path, code: int, words: str) -> None:
    found = hang(tmp_path, report(communicator(healthy(rank2=rank(2, async_error=code)))))

    assert (found.kind, found.ranks) == ("errors", ("2",))
    assert words in found.text


def test_a_rank_that_aborts(tmp_path: Path) -> None:
    found = hang(tmp_path, report(communicator(healthy(rank7=rank(7, abort_flag=True)))))

    assert (found.kind, found.ranks) == ("errors", ("7",))
    assert found.text.startswith("Rank 7 has status ABORT")


@pytest.mark.parametrize("code", [0, 7])
def test_a_healthy_job_of_pipeline_stages_blames_nobody(tmp_path: Path, code: int) -> None:
    """Each rank has its own number of sends; a communicator may be in progress (7)."""
    found = hang(tmp_path, report(communicator(healthy(rank2=rank(2, async_error=code)))))

    assert (found.kind, found.ranks) == ("nothing", ())
    assert "1 communicator (RUNNING OK)" in found.text


def test_ranks_that_send_and_that_all_wait_blame_nobody(tmp_path: Path) -> None:
    """Each is ahead in one communicator and behind in another, and none is behind alone."""
    apart = [communicator([rank(0), rank(1, {"AllReduce": LAUNCHED - 1})], hash_="a1"),
             communicator([rank(0, {"AllReduce": LAUNCHED - 1}), rank(1)], hash_="b2")]  # fmt: skip

    found = hang(tmp_path, report(*apart))

    assert (found.kind, found.ranks) == ("abstained", ())
    assert "ranks 0 and 1 are ahead of others" in found.text.lower()


def event(name: str, peer: Json | None, time: str = "2026-05-28 20:26:31") -> Json:
    told = {"timestamp": time, "group": "LIFECYCLE", "event": name, "details": ""}
    return told if peer is None else {**told, "peer": peer}


def test_the_monitor_says_which_processes_died(tmp_path: Path) -> None:
    dead = event("PEER_DEAD", {"host": "10.0.0.2", "pid": 40006, "cuda_devs": [2]})
    other = event("PEER_DEAD", {"addr": "10.0.0.9:5000"})
    joined = event("PEER_JOINED", {"host": "10.0.0.1", "pid": 1})
    text = "\n".join(json.dumps(one, indent=2) for one in (joined, dead, other))
    (tmp_path / "monitor.json").write_text(text)

    found = hang_of(discover(tmp_path))

    assert found is not None
    assert (found.kind, found.num_blamed, found.sure) == ("peers_missing", 2, "high")
    assert found.text == "2 processes are dead: RAS does not reach them."
    assert "process 40006 on node 10.0.0.2 (lost at 2026-05-28 20:26:31)" in found.more[0]
    assert "the process at 10.0.0.9:5000" in found.more[0]


def test_a_process_that_answers_again_is_not_lost(tmp_path: Path) -> None:
    peers = [{"host": "10.0.0.1", "pid": pid} for pid in (1, 2, 3)]
    names = ("PEER_UNRESPONSIVE", "PEER_RECOVERED", "PEER_KEEPALIVE_TIMEOUT", "PEER_TIMEOUT_DEAD")
    told = [event(names[0], peers[0]), event(names[0], peers[1]), event(names[1], peers[0]),
            event(names[2], peers[1]), event(names[3], peers[2]), event("PEER_DEAD", peers[2]),
            event(names[1], peers[2])]  # fmt: skip
    (tmp_path / "monitor.json").write_text("\n".join(map(json.dumps, told)))

    report = read_ras(tmp_path / "monitor.json", shown="monitor.json")[-1]

    assert report.missing_processes == ("process 2 on node 10.0.0.1 (lost at 2026-05-28 20:26:31)",)
    assert [one.split(" on ")[0] for one in report.dead_processes] == ["process 3"]


def test_an_event_does_not_hide_the_report_before_it(tmp_path: Path) -> None:
    dead = event("PEER_DEAD", {"host": "10.0.0.1", "pid": 4006}, time="2026-05-28 23:00:00")

    found = hang(tmp_path, behind(5), dead)

    assert (found.kind, found.ranks) == ("behind", ("3",))
    assert "process 4006" in " ".join(found.more)


def test_events_without_a_lost_process_tell_of_no_hang(tmp_path: Path) -> None:
    (tmp_path / "monitor.json").write_text(json.dumps(event("PEER_JOINED", {"pid": 1})))

    assert hangs_of(discover(tmp_path)) == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"nccl_version": "2.29"' + ', "a": ' + "[" * 100_000,
        '{"nccl_version": "2.29", "communicators": [',
        "{}",
        "{" + "9" * 100,
    ],
)
def test_what_is_no_report_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(text)

    with pytest.raises(TraceError) as raised:
        read_ras(path, shown="ras.json")

    assert str(raised.value).startswith("ras.json")
    assert "\n" not in str(raised.value)
    assert "internal error" not in str(raised.value)


@pytest.mark.parametrize("value", [None, -1, "x", 1.5, [], {}, 10**30, True])
@pytest.mark.parametrize("key", ["size", "missing_ranks_count", "ranks", "missing_ranks", "hash"])
def test_values_of_other_types_are_left_out(tmp_path: Path, key: str, value: Any) -> None:
    one = {**communicator(healthy()), key: value}
    path = tmp_path / "ras.json"
    path.write_text(json.dumps(report(one)))

    (read,) = read_ras(path, shown="ras.json")

    assert ras_hang.ras_hang([read]) is not None


def test_the_made_sample(shared: Path) -> None:
    folder = shared / "commlogs" / "made" / "ras"
    if not folder.is_dir():
        pytest.skip(f"no samples in {folder}")
    truth = json.loads((folder / "truth.json").read_text())

    found = hang_of(discover(folder))

    assert found is not None
    assert found.ranks == tuple(map(str, truth["missing"]))
    assert len(re.findall(r"\d+", found.text)) <= 3
    assert "(" not in found.text
    behind_rank = f"rank {truth['behind']['rank']} launched 1,199 AllReduce"
    assert any(behind_rank in one for one in found.more)


def test_an_unforeseen_error_of_a_judge_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Hang:
        raise ZeroDivisionError("not foreseen")

    monkeypatch.setattr(ras_hang, "ras_hang", fails)

    found = hang(tmp_path, behind(77))

    assert (found.kind, found.ranks, found.sure) == ("abstained", (), "low")
    assert "internal error: ZeroDivisionError: not foreseen" in found.text
    assert "\n" not in found.text
