"""Who did not arrive, from the words of watchdogs of every version."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from runs_by_hand import view_of
from watchdog_logs import NUMBERED, VERSIONS, Said, lines, log, waiting

from ccltui.metrics.hangs.find_hang import hang_of, hangs_of
from ccltui.metrics.hangs.hang import Hang
from ccltui.metrics.registry import find
from ccltui.parsers.discovery.discover import discover


def hang(tmp_path: Path, *texts: str, names: Sequence[str] = ()) -> Hang:
    for number, text in enumerate(texts):
        path = tmp_path / (names[number] if names else f"train{number}.log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = hang_of(discover(tmp_path))
    assert found is not None
    return found


@pytest.mark.parametrize("version", NUMBERED)
@pytest.mark.parametrize("culprit", [0, 5, 7])
def test_the_rank_behind_is_named_not_the_one_that_printed_first(
    tmp_path: Path, version: str, culprit: int
) -> None:
    others = [rank for rank in range(8) if rank != culprit]
    said = [*waiting(others), Said(culprit, 99, 99)]
    random.Random(version).shuffle(said)

    found = hang(tmp_path, log(version, said))

    assert (found.kind, found.ranks) == ("did_not_arrive", (str(culprit),))
    assert found.text.startswith(f"Rank {culprit} never entered all-reduce 100 of ")
    assert "7 ranks wait for it" in found.text
    assert set(found.waiting) == {str(rank) for rank in others}
    assert (found.operation, found.sequence) == ("all-reduce", 100)
    assert any("99" in one for one in found.more)
    assert f"rank {culprit}" in found.do


@pytest.mark.parametrize("version", NUMBERED)
def test_two_ranks_behind_are_both_named(tmp_path: Path, version: str) -> None:
    found = hang(tmp_path, log(version, [*waiting([0, 1, 3, 4]), Said(2, 98, 98), Said(5, 99, 99)]))

    assert found.ranks == ("2", "5")
    assert "Their last are 98 to 99." in found.more


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("prefix", [True, False])
def test_the_only_rank_without_a_word(tmp_path: Path, version: str, prefix: bool) -> None:
    found = hang(tmp_path, log(version, waiting([0, 1, 2, 4, 5, 6, 7]), prefix=prefix))

    assert (found.kind, found.ranks) == ("printed_nothing", ("3",))
    assert found.text.startswith("Rank 3 printed nothing")
    assert found.sure == ("low" if version in ("2.0", "2.1") else "medium")


def test_the_last_rank_without_a_word_is_known_by_the_size_of_the_job(tmp_path: Path) -> None:
    text = "using world size: 8, data-parallel size: 8\n" + log("2.8", waiting(range(7)))

    assert hang(tmp_path, text).ranks == ("7",)


def test_a_log_of_few_ranks_names_nobody(tmp_path: Path) -> None:
    found = hang(tmp_path, "using world size: 64\n" + log("2.8", waiting([0, 1])))

    assert (found.kind, found.ranks) == ("abstained", ())
    assert "it is not known who did not arrive" in " ".join(found.more)


@pytest.mark.parametrize("version", NUMBERED)
def test_all_arrived_and_none_finished_names_no_rank(tmp_path: Path, version: str) -> None:
    found = hang(tmp_path, log(version, waiting(range(8), 7420, enqueued=7422)))

    assert (found.kind, found.ranks) == ("all_arrived", ())
    assert found.text.startswith("All 8 ranks that print entered all-reduce 7,420 of ")
    assert "nccl-tests" in found.do


@pytest.mark.parametrize("version", NUMBERED)
def test_nothing_of_the_group_ever_completed(tmp_path: Path, version: str) -> None:
    said = waiting([0, 1, 2, 3], 1, enqueued=547, operation="BROADCAST", group="1", name="dp")

    found = hang(tmp_path, log(version, said))

    assert (found.kind, found.ranks) == ("never_completed", ())
    assert found.text.startswith("Group 1")
    assert " never completed a collective: all 4 ranks" in found.text
    assert "not a late rank" in found.more[0]


@pytest.mark.parametrize("version", NUMBERED)
def test_a_rank_that_never_entered_the_first_collective(tmp_path: Path, version: str) -> None:
    found = hang(tmp_path, log(version, [*waiting([0, 1, 2], 1), Said(3, -1, -1)]))

    assert (found.kind, found.ranks) == ("did_not_arrive", ("3",))
    assert "It has enqueued none." in found.more


def test_memory_that_was_never_set_is_no_number(tmp_path: Path) -> None:
    said = [Said(rank, 1, 76280750235782912, 1) for rank in range(4)]

    found = hang(tmp_path, log("2.3", said))

    assert found.kind == "all_arrived"
    assert "76280750235782912" not in str(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_another_operation_under_the_same_number(tmp_path: Path, version: str) -> None:
    said = [*waiting([0, 1, 3]), *waiting([2], operation="_ALLGATHER_BASE")]

    found = hang(tmp_path, log(version, said))

    assert (found.kind, found.ranks) == ("mismatch", ("2",))
    assert "rank 2 called all-gather" in found.text.lower()
    assert "3 ranks called all-reduce" in found.text


def test_another_size_under_the_same_number(tmp_path: Path) -> None:
    found = hang(tmp_path, log("2.8", [*waiting([0, 1, 3]), *waiting([2], numel=77)]))

    assert (found.kind, found.ranks) == ("mismatch", ("2",))
    assert "77 elements" in found.text


def test_two_against_two_names_neither(tmp_path: Path) -> None:
    found = hang(tmp_path, log("2.8", [*waiting([0, 1]), *waiting([2, 3], operation="BROADCAST")]))

    assert (found.kind, found.ranks, found.sure) == ("mismatch", (), "low")


@pytest.mark.parametrize("operation", ["ALLTOALL", "ALLTOALL_BASE", "GATHER", "SEND", "COALESCED"])
def test_sizes_that_may_differ_are_no_mismatch(tmp_path: Path, operation: str) -> None:
    said = [
        one for rank in range(4) for one in waiting([rank], operation=operation, numel=rank + 1)
    ]

    assert hang(tmp_path, log("2.8", said)).kind != "mismatch"


def test_a_send_and_its_receive_are_no_mismatch(tmp_path: Path) -> None:
    said = [*waiting([0], operation="SEND"), *waiting([1], operation="RECV")]

    assert hang(tmp_path, log("2.8", said)).kind != "mismatch"


def test_a_rank_that_stands_in_what_others_finished(tmp_path: Path) -> None:
    said = [*waiting([0, 1, 2], 120), Said(3, 131, 99, 100)]

    found = hang(tmp_path, log("2.8", said))

    assert (found.kind, found.ranks) == ("frozen", ("3",))
    assert "all-reduce 100" in found.text


@pytest.mark.parametrize("version", NUMBERED)
def test_the_root_of_a_chain_over_two_groups(tmp_path: Path, version: str) -> None:
    """Ranks 4, 6 and 7 wait for 5 in their group; 0 waits for 4, which waits itself."""
    tp = {"group": "37", "name": "tp", "base": 4}
    said = [
        *waiting([4, 6, 7], 50, **tp),  # type: ignore[arg-type]
        Said(5, 49, 49, local=1, group="37", name="tp"),
        *waiting([0], 9, group="41", name="dp", base=0, stride=4),
        Said(4, 8, 8, local=1, group="41", name="dp"),
    ]

    found = hang(tmp_path, log(version, said))

    assert (found.kind, found.ranks) == ("did_not_arrive", ("5",))
    assert found.group.startswith("group 37")
    assert set(found.waiting) == {"0", "4", "6", "7"}


def test_a_member_between_others_is_found_by_its_place(tmp_path: Path) -> None:
    """Rank 10 is the third of a group of ranks 2 apart; it answers for the default group only."""
    said = [
        *waiting([6, 8, 12], 50, group="3", name="dp", base=6, stride=2),
        Said(10, 4, 4),
    ]

    found = hang(tmp_path, log("2.8", said))

    assert found.ranks == ("10",)
    assert "its process is alive" in found.text


def test_the_one_rank_that_waits_in_nothing(tmp_path: Path) -> None:
    said = [*waiting([0, 1], 50, group="3", name="dp", base=0), Said(2, 4, 4)]

    found = hang(tmp_path, log("2.8", said))

    assert (found.ranks, found.sure) == (("2",), "low")


def test_a_rank_that_raised(tmp_path: Path) -> None:
    error = "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    consequence = "[rank0]: torch.distributed.DistBackendError: NCCL error in: x\n"

    found = hang(tmp_path, error + log("2.8", waiting([0, 1, 2, 3, 4, 6, 7])) + consequence)

    assert found.ranks == ("5",)
    assert "OutOfMemoryError" in found.text


def test_an_attempt_before_is_not_mixed_with_the_last(tmp_path: Path) -> None:
    first = log("2.8", [*waiting([0, 1, 3]), Said(2, 99, 99)])
    second = log("2.8", [*waiting([0, 2, 3], 40), Said(1, 39, 39)])
    start = "[default0]:using world size: 4, data-parallel size: 4\n"

    found = hang(tmp_path, start + first + start + second)

    assert found.ranks == ("1",)
    assert any("2 attempts" in one for one in found.more)


def test_attempts_a_quarter_of_an_hour_apart(tmp_path: Path) -> None:
    first = log("2.8", [*waiting([0, 1, 3]), Said(2, 99, 99)])
    second = log("2.8", [*waiting([0, 2, 3], 40), Said(1, 39, 39)]).replace("1218 20:", "1218 23:")

    assert hang(tmp_path, first + second).ranks == ("1",)


def test_a_log_for_each_rank(tmp_path: Path) -> None:
    said = [*waiting([0, 1, 3]), Said(2, 99, 99)]
    texts = ["\n".join(lines("2.8", one, prefix=False)) + "\n" for one in said]

    found = hang(tmp_path, *texts, names=[f"logs/rank_{one.rank}.log" for one in said])

    assert found.ranks == ("2",)
    assert len(found.files) == 4
    assert found.where == ""


def test_folders_of_torchrun(tmp_path: Path) -> None:
    said = [*waiting([0, 1, 3]), Said(2, 99, 99)]
    texts = ["\n".join(lines("2.8", one)) + "\n" for one in said]
    old = log("2.8", [*waiting([1, 2, 3]), Said(0, 99, 99)])

    names = [f"none_1/attempt_1/{one.rank}/stderr.log" for one in said]
    found = hang(tmp_path, *texts, old, names=[*names, "none_1/attempt_0/0/stderr.log"])

    assert found.ranks == ("2",)


def test_two_jobs_in_two_folders_are_two_hangs(tmp_path: Path) -> None:
    hang(
        tmp_path,
        log("2.8", [*waiting([0, 1, 3]), Said(2, 99, 99)]),
        log("2.8", [*waiting([1, 2, 3]), Said(0, 99, 99)]),
        names=["a/train.log", "b/train.log"],
    )

    found = hangs_of(discover(tmp_path))

    assert {(one.where, one.ranks) for one in found} == {("a", ("2",)), ("b", ("0",))}


PREFIXES = {
    "srun -l": "{0}: ",
    "mpirun": "[1,{0}]<stderr>:",
    "kubectl": "2025-10-28T12:00:01.123456789Z ",
    "Ray": "(Worker[rank={0}] pid=12, ip=10.0.0.1) ",
    "torchrun": "[default{0}]:",
    "compose": "node-{0}  | ",
}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("version", ["2.1", "2.3", "2.8"])
def test_prefixes_of_launchers(tmp_path: Path, prefix: str, version: str) -> None:
    said = waiting([0, 1, 2, 4])
    text = [
        PREFIXES[prefix].format(one.rank) + line for one in said for line in lines(version, one)
    ]

    assert hang(tmp_path, "\n".join(text) + "\n").ranks == ("3",)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("\t - To our best knowledge, ranks [3, 5] are the lagging ranks that caused this timeout. "
         "They never joined any collectives", ("3", "5")),
        ("[1, 7] finished collective #41, but didn't join collective #42 (count from 1)",
         ("1", "7")),
        ("[Rank 0]: Rank 3 failed to pass monitoredBarrier in 10000 ms", ("3",)),
        ("[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 10000 ms", ("2", "3")),
        ("[rank6]:[E P.cpp:1] [PG 0 Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds "
         "without making progress in monitoring enqueued collectives. ", ("6",)),
    ],
)  # fmt: skip
def test_reports_of_pytorch_itself(tmp_path: Path, text: str, ranks: tuple[str, ...]) -> None:
    assert hang(tmp_path, f"[2025-01-01 00:00:00] INFO x\n{text}\n").ranks == ranks


@pytest.mark.parametrize("text", ["", "step: 1 loss: 2.0\n", "Watchdog\n", "NCCL work\n"])
def test_other_logs_tell_of_no_hang(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.log").write_text(text)

    assert hangs_of(discover(tmp_path)) == ()


def test_hostile_numbers_and_lines(tmp_path: Path) -> None:
    words = log("2.8", waiting([0, 1]))
    changes = (
        ("SeqNum=100", f"SeqNum={'9' * 400}"),
        ("Rank 0", f"Rank {'9' * 400}"),
        ("enqueued work: 100", f"enqueued work: {'9' * 400}"),
        ("PG GUID 0", "PG GUID \x1b[31m"),
    )
    for old, new in changes:
        (tmp_path / "train.log").write_text(words.replace(old, new))
        assert all("\x1b" not in str(one) for one in hangs_of(discover(tmp_path)))


def test_random_hangs_name_the_rank_that_was_planted(tmp_path: Path) -> None:
    """Any version, size, prefix, order, and words of other groups in between."""
    chance = random.Random(7)
    for number in range(60):
        version = chance.choice(NUMBERED)
        size = chance.randrange(4, 40)
        culprit, at = chance.randrange(size), chance.randrange(2, 10**6)
        others = [rank for rank in range(size) if rank != culprit]
        lag = chance.randrange(1, 4)
        said = [
            *waiting(others, at, enqueued=at + chance.randrange(4)),
            Said(culprit, at - lag, at - lag),
        ]
        said += [Said(rank, 70, 70, group="5", name="ep", local=0) for rank in others[::3]]
        chance.shuffle(said)
        folder = tmp_path / str(number)
        folder.mkdir()

        assert hang(folder, log(version, said)).ranks == (str(culprit),), (version, size, culprit)


def test_the_metric_counts_the_ranks_that_did_not_arrive(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        log("2.8", [*waiting([0, 1, 4]), Said(2, 98, 98), Said(3, 7, 7)])
    )

    result = find("hang_verdict").run(view_of(tmp_path))

    assert (result.value, result.unit, result.status) == (2, "ranks", "ok")
    assert result.details["ranks"] == ["2", "3"]
    assert result.inputs["side_files"] == ["a.log"]


def test_numbers_of_groups_that_the_log_does_not_name_are_not_compared(tmp_path: Path) -> None:
    said = [Said(0, 96_120, 0, 96_117), Said(7, 64_088, 0, 64_088)]

    found = hang(tmp_path, log("2.0", said))

    assert (found.kind, found.ranks, found.sure) == ("abstained", (), "low")
    assert "in different collectives of groups that the log does not name" in found.text


def test_a_log_that_breaks_off_names_no_rank_for_its_silence(tmp_path: Path) -> None:
    text = log("2.8", waiting([0, 1, 3]))
    last = text.rindex("[PG ID 0", 0, text.rindex("failure detected by watchdog"))

    found = hang(tmp_path, text[:last])

    assert (found.kind, found.ranks) == ("abstained", ())


@pytest.mark.parametrize("width", [80, 100, 131])
def test_lines_that_a_terminal_has_broken(tmp_path: Path, width: int) -> None:
    lines = log("2.8", [*waiting([0, 1, 3]), Said(2, 98, 98)]).splitlines()
    broken = [one[at : at + width] for one in lines for at in range(0, len(one), width)]

    assert hang(tmp_path, "\n".join(broken)).ranks == ("2",)


def test_a_rank_in_another_call_is_not_said_to_be_silent(tmp_path: Path) -> None:
    lost = "[rank2]: RuntimeError: [pair.cc:1] Connection closed by peer [10.0.0.1]:9\n"

    found = hang(tmp_path, log("2.8", waiting([0, 1, 3])) + lost)

    assert found.ranks == ("2",)
    assert found.text.startswith("Rank 2 is not there while 3 ranks wait in all-reduce 100")
    assert "it was in another call, which ended with RuntimeError" in found.text


def test_words_of_watchdogs_behind_a_report_of_ras(tmp_path: Path) -> None:
    report = (
        "NCCL version 2.26.2 compiled with CUDA 12.4\n\nJob summary\n===========\n\n"
        "Communicators... (0.01s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        "    0         1         1         4         4         4   RUNNING      OK\n\n"
    )

    found = hang(tmp_path, report + log("2.8", waiting([0, 1, 2, 3])))

    assert found.kind == "all_arrived"
    assert any(one.startswith("RAS (train0.log): RAS names no rank") for one in found.more)
