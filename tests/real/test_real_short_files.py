"""A public job of four ranks without metadata, of which one file is made shorter."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

JOB = "torchrec/trace/sst_long_a2a_optimizer_3"
CULPRIT = 2
"""The rank that the others wait for in the whole job."""


def shortened(source: Path, directory: Path, *, late: bool) -> None:
    """Copy a job without the first or last two fifths of the collectives of the culprit."""
    directory.mkdir()
    for path in source.glob("*.gz"):
        document = json.loads(gzip.decompress(path.read_bytes()))
        if document["distributedInfo"]["rank"] == CULPRIT:
            events = document["traceEvents"]
            starts = sorted(
                event["ts"]
                for event in events
                if event.get("cat") == "kernel" and "nccl" in event["name"]
            )
            cut = starts[len(starts) * 2 // 5] if late else starts[len(starts) * 3 // 5]
            document["traceEvents"] = [one for one in events if _is_kept(one, cut, late=late)]
        (directory / path.name.removesuffix(".gz")).write_text(json.dumps(document))


def _is_kept(event: dict[str, Any], cut: float, *, late: bool) -> bool:
    if event.get("ph") != "X":
        return True
    begin = float(event["ts"])
    return begin >= cut if late else begin + float(event["dur"]) < cut


@pytest.mark.parametrize("late", [True, False], ids=["late", "early"])
def test_the_rank_with_the_short_file_is_still_the_root(
    shared: Path, tmp_path: Path, late: bool
) -> None:
    shortened(shared / "traces" / JOB, tmp_path / "job", late=late)
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))

    lag = find("straggler_lag").run(view).details
    root = find("blame_chain").run(view).details

    assert lag["num_ranks"] == 4
    assert lag["coverage"].startswith("4 of 4 ranks, ")
    assert lag["match"]["incomplete"] > 0
    assert (root["root_rank"], lag["worst_straggler"]) == (str(CULPRIT), CULPRIT)
    assert root["root_share"] > 0.9
