"""The first sentence on public recordings of every kind, against answers written by hand.

``answers.tsv`` beside the recordings lists for each the accepted classes, the share of time, and
what must be mentioned.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from ccltui.commands import explain_command
from ccltui.metrics.findings.sentences import MOST_CHARACTERS

pytestmark = pytest.mark.shared

SHARED = Path(os.environ.get("CCLTUI_SHARED", "../shared"))
TOLERANCE = 0.03
"""Difference in share of time that counts as equal."""
OTHERWISE = {
    # two of them hold several recordings with device work, as mi300 does, whose answer is the same
    "traces/torchao": "choice",
    "traces/tracelens/traces/h100": "choice",
    # 88 % of the time its host is in cuMemAllocManaged and cuMemAllocHost: more than a slow host
    "nsys/paracodex/workdirs/serial_omp_hecbench_workdir/data/src/pathfinder-omp": (
        "host_allocation"
    ),
    # the second of its texts has a table of kernels: 739 ms in five kernels
    "nsys/paracodex/results/hecbench/paracodex_hecbench_codes/randomAccess-omp": "kernel_totals",
}
"""Rows whose accepted class is not what the files hold."""
REFUSALS = re.compile(
    r"cannot tell|I cannot|nobody can|is unavailable|internal error", re.IGNORECASE
)


class Row(NamedTuple):
    """One row: the path, accepted classes, share of time, and a pattern that must occur."""

    path: str
    accepted: frozenset[str]
    share: float | None
    mentioned: str


def rows() -> list[Row]:
    """Return the rows of the table, none where it is absent."""
    table = SHARED / "answers.tsv"
    if not table.is_file():
        return []
    found = []
    for line in table.read_text(encoding="utf-8").splitlines()[1:]:
        path, _, accepted, share, mentioned, *_ = [*line.split("\t"), "", "", "", ""]
        classes = frozenset(OTHERWISE.get(path, accepted).split(","))
        stated = float(share) if share and path not in OTHERWISE else None
        found.append(Row(path, classes, stated, mentioned))
    return found


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.path)
def test_the_first_finding_is_the_expected_one(
    shared: Path, row: Row, capfd: pytest.CaptureFixture[str]
) -> None:
    path = shared / row.path
    if not path.exists():
        pytest.skip(f"{row.path} is not here")

    arguments = [str(path), "--format", "json", "--budget", "60000"]
    status = explain_command.run(arguments)

    document = json.loads(capfd.readouterr().out)
    first = document["findings"][0]
    assert status == 0
    assert document["headline"] == first["text"]
    assert first["class"] in row.accepted, first["text"]
    if row.share is not None:
        assert first["share"] == pytest.approx(row.share, abs=TOLERANCE)
    every = " ".join(f"{one['text']} {one['more']}" for one in document["findings"])
    assert not row.mentioned or re.search(row.mentioned, every)
    assert len(first["text"]) <= MOST_CHARACTERS
    assert not REFUSALS.search(first["text"])
