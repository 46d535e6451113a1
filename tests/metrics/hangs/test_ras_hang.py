"""Reports of NCCL's RAS in every layout: who is missing, and who is behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui.metrics.hangs.find_hang import hang_of, hangs_of
from ccltui.metrics.hangs.hang import Hang
from ccltui.parsers.cluster.nccl_log import read_ras_text
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError

HEAD = """\
NCCL version 2.28.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   {status}

Errors
======

{errors}
Warnings
========

{warnings}
"""


def rank(number: int) -> str:
    return f"  Rank {number} -- GPU {number % 8} managed by process {900 + number} on node 10.0.0.4"


def counts(*parts: tuple[int, int, Sequence[int]], operation: str = "AllGather ") -> str:
    """The section of a communicator: how many ranks launched how many, and which are listed."""
    lines = ["#0-0 (fa93daea854b060c) MISMATCH",
             f"  Communicator ranks have different {operation}operation counts"]  # fmt: skip
    for ranks, launched, listed in parts:
        if ranks > 1:
            lines.append(
                f"  {ranks} ranks have launched up to operation {launched}" if launched
                else f"  {ranks} ranks have not launched any operations"
            )  # fmt: skip
            lines += [rank(number) for number in listed]
        else:
            did = (
                f"launched up to operation {launched}"
                if launched
                else "not launched any operations"
            )
            lines.append(rank(listed[0]).replace(" --", f" has {did} --", 1))
    return "\n".join(lines) + "\n"


def report(warnings: str = "", errors: str = "", status: str = "RUNNING  MISMATCH") -> str:
    return HEAD.format(status=status, errors=errors, warnings=warnings)


def hang(tmp_path: Path, text: str) -> Hang:
    (tmp_path / "ras.txt").write_text(text)
    discovery = discover(tmp_path)
    assert [file.kind for file in discovery.files] == ["nccl_ras"]
    found = hang_of(discovery)
    assert found is not None
    return found


def test_the_listed_ranks_are_ahead(tmp_path: Path) -> None:
    found = hang(tmp_path, report(counts((30, 812, ()), (2, 813, (20, 21)))))

    assert found.kind == "behind"
    assert found.text.startswith("All ranks but 20 and 21 are one all-gather behind")
    assert "communicator #0-0 (fa93daea854b060c)" in found.more[0]
    assert set(found.ranks) == {str(number) for number in range(32)} - {"20", "21"}
    assert "ranks 20 and 21" in found.more[0]
    assert "few ranks are ahead" in found.more[1]
    assert found.sure == "low"


@pytest.mark.parametrize("operation", ["AllReduce ", "ReduceScatter ", "collective "])
def test_the_listed_ranks_are_behind(tmp_path: Path, operation: str) -> None:
    text = counts((26, 6650, ()), (6, 6645, (0, 2, 3, 4, 5, 7)), operation=operation)

    found = hang(tmp_path, report(text))

    assert found.ranks == ("0", "2", "3", "4", "5", "7")
    assert found.text.startswith("6 of 32 ranks are 5 ")
    assert "ranks 0, 2-5 and 7 launched 6,645" in found.more[0]
    assert "few ranks are ahead" not in " ".join(found.more)
    assert "process 900" in " ".join(found.more)
    assert found.sure == "medium"


def test_one_rank_in_one_line(tmp_path: Path) -> None:
    found = hang(tmp_path, report(counts((31, 64, ()), (1, 60, (7,)))))

    assert found.ranks == ("7",)
    assert found.text == "Rank 7 is 4 all-gathers behind; the 31 others may wait for it."


def test_one_rank_is_ahead(tmp_path: Path) -> None:
    found = hang(tmp_path, report(counts((31, 64, ()), (1, 65, (7,)))))

    assert "7" not in found.ranks
    assert len(found.ranks) == 31


def test_ranks_that_launched_nothing(tmp_path: Path) -> None:
    assert hang(tmp_path, report(counts((30, 5, ()), (2, 0, (3, 4))))).ranks == ("3", "4")


def test_three_counts(tmp_path: Path) -> None:
    found = hang(tmp_path, report(counts((29, 50, ()), (2, 48, (1, 2)), (1, 40, (9,)))))

    assert found.ranks == ("1", "2", "9")


def test_counts_that_do_not_move_are_a_hang(tmp_path: Path) -> None:
    one = report(counts((31, 64, ()), (1, 60, (7,))))

    found = hang(tmp_path, one + one)

    assert (found.sure, found.ranks) == ("high", ("7",))


def test_counts_that_move_are_none(tmp_path: Path) -> None:
    later = report(counts((31, 90, ()), (1, 89, (7,))))

    found = hang(tmp_path, report(counts((31, 64, ()), (1, 63, (7,)))) + later)

    assert found.sure == "low"
    assert "the communicator makes progress" in " ".join(found.more)


def test_processes_that_do_not_answer_come_first(tmp_path: Path) -> None:
    errors = (
        "INCOMPLETE\n  Missing communicator data from 1 job process\n"
        "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
        "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n"
        "  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213\n"
    )

    found = hang(
        tmp_path, report(counts((30, 812, ()), (1, 813, (20,))), errors, "RUNNING  INCOMPLETE")
    )

    assert found.kind == "peers_missing"
    assert found.text == (
        "Process 3487984 on node 172.16.64.213 is missing: RAS gets no answer from it."
    )
    assert "managing GPU 5" in found.more[0]
    assert "Rank 21 of communicator #0-0" in " ".join(found.more)


def test_dead_processes(tmp_path: Path) -> None:
    errors = (
        "DEAD\n  2 job processes are considered dead (unreachable via the RAS network)\n"
        "  Process 11 on node a managing GPU 5\n  Process 12 on node b managing GPU 6\n"
    )

    found = hang(tmp_path, report(errors=errors))

    assert found.text == "2 processes are dead: RAS does not reach them."
    assert "process 11 on node a managing GPU 5" in found.more[0]
    assert found.ranks == (
        "process 11 on node a managing GPU 5",
        "process 12 on node b managing GPU 6",
    )


def test_errors_that_ranks_report(tmp_path: Path) -> None:
    errors = (
        "#0-0 (cf264af53edbe986) ERROR\n  Asynchronous error on 1 rank\n"
        "  Rank 3 reported ncclRemoteError -- GPU 3 managed by process 9 on node a\n"
    )

    found = hang(tmp_path, report(errors=errors, status="RUNNING  ERROR"))

    assert (found.kind, found.ranks) == ("errors", ("3",))
    assert found.text == "Rank 3 reports ncclRemoteError."


def test_ranks_of_another_status(tmp_path: Path) -> None:
    text = (
        "#0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different status\n"
        "  31 ranks have status RUNNING\n"
        "  Rank 5 has status ABORT -- GPU 5 managed by process 9 on node a\n"
    )

    found = hang(tmp_path, report(text))

    assert found.ranks == ("5",)
    assert found.text == "Rank 5 has status ABORT, and 31 ranks RUNNING."
    assert "rank 5 ABORT" in found.more[0]


def test_a_report_without_any_error(tmp_path: Path) -> None:
    found = hang(tmp_path, report(status="RUNNING      OK"))

    assert (found.kind, found.ranks) == ("nothing", ())
    assert "in 1 communicator" in found.text


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "2025-10-28T12:00:01Z ", "node1: "])
def test_prefixes_of_launchers(tmp_path: Path, prefix: str) -> None:
    text = report(counts((31, 64, ()), (1, 60, (7,))))

    assert hang(tmp_path, "".join(f"{prefix}{line}\n" for line in text.split("\n"))).ranks == ("7",)


def test_a_piece_that_was_pasted(tmp_path: Path) -> None:
    """Without the table of communicators their size is not known: nobody is named."""
    found = hang(tmp_path, counts((30, 812, ()), (2, 813, (20, 21))))

    assert found.ranks == ()
    assert "30 of 32 ranks" in found.text


def test_another_column_in_the_table(tmp_path: Path) -> None:
    lines = report(counts((30, 812, ()), (2, 813, (20, 21)))).split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("Group"))
    lines[at] = lines[at].replace("Group     Comms", "Group     Kinds     Comms")
    lines[at + 1] = lines[at + 1].replace("    #  in group", "    #   of comm  in group", 1)
    lines[at + 2] = lines[at + 2].replace("    0         1", "    0         7         1")

    assert len(hang(tmp_path, "\n".join(lines)).ranks) == 30


def test_a_text_without_a_report(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("words\n")

    with pytest.raises(TraceError, match="no report of RAS"):
        read_ras_text(path, shown="x.txt")
    assert hangs_of(discover(tmp_path)) == ()
