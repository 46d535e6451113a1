"""Four ranks without metadata of which one sleeps before its all-to-alls (torchrec)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

Opener = Callable[[str], View]
SLEEPS = ("sst_long_a2a_optimizer", "sst_long_a2a_optimizer_2")
ALLOCATES = ("sst_long_a2a_optimizer_3", "sst_long_a2a_optimizer_5_qcomm")


@pytest.fixture(scope="module")
def opened(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Views of the runs by name, each opened once."""
    known: dict[str, View] = {}

    def view_of(name: str) -> View:
        if name not in known:
            place = shared / "traces" / "torchrec" / "trace" / name
            cache = tmp_path_factory.mktemp("torchrec")
            known[name] = View(open_job(place, cache_dir=cache, jobs=1))
        return known[name]

    return view_of


@pytest.mark.parametrize("name", SLEEPS)
def test_the_rank_that_sleeps_is_named_though_no_call_names_its_group(
    opened: Opener, name: str
) -> None:
    verdict = find("verdict").run(opened(name)).details
    roots = find("blame_chain").run(opened(name)).details["roots"]

    assert verdict["verdict"] == "host", verdict["why"]
    assert verdict["culprit"]["ranks"] == ["2"]
    assert verdict["confidence"] == "medium"
    assert (roots[0]["rank"], roots[0]["cause"]) == ("2", "host_stall")
    assert roots[0]["confidence"] == "medium"
    assert 0.6 < roots[0]["share_of_time"] < 0.69


@pytest.mark.parametrize("name", ALLOCATES)
def test_nobody_is_named_where_all_hosts_allocate(opened: Opener, name: str) -> None:
    verdict = find("verdict").run(opened(name)).details

    assert (verdict["verdict"], verdict["culprit"]) == ("host", None), verdict["why"]
    assert "allocates" in verdict["why"]
