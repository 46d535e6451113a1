"""The host of a rank, as its file states it or is named."""

from __future__ import annotations

import pytest
from factories import job, kernel, rank_trace
from msgspec.structs import replace

from ccltui.metrics.findings.waits.own_times import host_of, slower_ranks
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace


def trace(name: str, number: int = 0, host: str = "", slower: float = 1.0) -> RankTrace:
    gpu = [kernel(f"gemm{n % 5}", 1000 * n, 800 * slower) for n in range(60)]
    one = rank_trace(number, gpu=gpu, host=host)
    return replace(one, source=replace(one.source, path=f"traces/{name}"))


@pytest.mark.parametrize(
    ("name", "host"),
    [
        (
            "ip-172-31-16-248.us-east-2.internal_21147.1698955063520869240.pt.trace.json.gz",
            "ip-172-31-16-248.us-east-2.internal",
        ),
        ("gpu_node_3_200691.1758927066581847260.pt.trace.json", "gpu_node_3"),
        ("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", ""),
        ("rank0_trace.json", ""),
    ],
)
def test_the_name_that_pytorch_gives_a_file_tells_the_host(name: str, host: str) -> None:
    assert host_of(trace(name)) == host


def test_what_the_file_states_comes_first() -> None:
    assert host_of(trace("a_1.1698955063520869240.pt.trace.json", host="b")) == "b"


def test_a_slow_half_of_the_ranks_is_named_by_the_names_of_the_files() -> None:
    names = [f"node{n // 4}_{100 + n}.169895506352086924{n}.pt.trace.json" for n in range(8)]
    ranks = [trace(name, n, slower=1.2 if n >= 4 else 1.0) for n, name in enumerate(names)]

    found = slower_ranks(View(job(*ranks)))

    assert found is not None
    assert (found.kind, found.host, found.ranks) == ("slow_node", "node1", ("4", "5", "6", "7"))
