"""NVLink domains by the logs of NCCL: ranks, folds of waits, bandwidth, and the peak of links."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from ccltui.demo.large_job import large_spec, write_large
from ccltui.metrics.catalog.cluster.nccl_transport import nccl_transport
from ccltui.metrics.catalog.communication.node_locality import node_locality
from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.findings.waits.rank_lateness import rank_table
from ccltui.metrics.view.job_view import View
from ccltui.metrics.workload.hardware import (
    crosses_domains,
    crosses_hosts,
    device_names,
    link_peak,
    nvlink_domains,
)
from ccltui.parsers.cluster.nccl_log import FabricPlace, read_nccl_log
from ccltui.parsers.job import Job, open_job

UUIDS = ("7a4af5e106e46349.c4fe63d71b7d9aa1", "a44167d15423d758.7d6b24c07d32e7b3")
RANKS, PER_HOST = 32, 8
_NUMBERS = count()


def lines(host: str, rank: int, uuid: str, *, size: int = RANKS, clique: str = "7ffe") -> str:
    """Return what NCCL 2.27 prints of one rank with NCCL_DEBUG=INFO."""
    head = f"{host}:{4000 + rank}:{5000 + rank} [{rank % 4}] NCCL INFO"
    bus = f"{1 + rank % PER_HOST:x}801000"
    return (
        f"{head} MNNVL busId 0x{bus} fabric UUID {uuid} cliqueId 0x{clique} state 3 "
        "healthMask 0x0\n"
        f"{head} MNNVL 1 cliqueId {clique} cliqueSize 16 cliqueRank {rank % 16} nvlDomainSize 16\n"
        f"{head} ncclCommInitRankConfig comm 0x55f{rank} rank {rank} nranks {size} cudaDev "
        f"{rank % 4} nvmlDev {rank % 4} busId {bus} commId 0xc51 - Init COMPLETE\n"
    )


def whole_log(job: Job, **more: str) -> str:
    """Return the log of all ranks: two hosts a domain."""
    return "".join(
        lines(trace.host, trace.rank, UUIDS[trace.rank // 16], **more)  # type: ignore[arg-type]
        for trace in job.ranks
        if trace.rank is not None
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("domains")
    spec = large_spec(RANKS, megabytes=0.3, faults=("slow_worker",), seed=1)
    write_large(found / "job", spec)
    return found


@pytest.fixture(scope="module")
def job(folder: Path) -> Job:
    return open_job(folder / "job", cache_dir=folder / "store", jobs=1)


def view_with(folder: Path, text: str) -> View:
    """Return a view with this log alone, under a name that no other had: read logs are kept."""
    for old in (folder / "job").glob("nccl_*.log"):
        old.unlink()
    (folder / "job" / f"nccl_{next(_NUMBERS)}.log").write_text(text)
    return View(open_job(folder / "job", cache_dir=folder / "store", jobs=1))


def test_the_lines_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    path.write_text(
        lines("tray-1", 5, UUIDS[0], size=8)
        + lines("tray-1", 1, UUIDS[0], size=2)  # another communicator of another device
        + lines("tray-2", 6, "0.0", size=8)  # no NVLink between hosts
    )

    log = read_nccl_log(path, shown="nccl.log")

    assert log.fabric == (
        FabricPlace("tray-1", "6801000", 5, f"{UUIDS[0]}/7ffe"),
        FabricPlace("tray-1", "2801000", None, f"{UUIDS[0]}/7ffe"),
    )


def test_ranks_by_domain(folder: Path, job: Job) -> None:
    view = view_with(folder, whole_log(job))

    domains = nvlink_domains(view)

    assert {domains[rank] for rank in range(16)} == {"NVLink domain 1"}
    assert {domains[rank] for rank in range(16, 32)} == {"NVLink domain 2"}
    assert crosses_domains(view, (0, 15)) is False
    assert crosses_domains(view, (0, 16)) is True


def test_two_cliques_of_one_fabric_are_two_domains(folder: Path, job: Job) -> None:
    text = "".join(
        lines(trace.host, trace.rank, UUIDS[0], clique=str(trace.rank // 16))
        for trace in job.ranks
        if trace.rank is not None
    )

    assert len(set(nvlink_domains(view_with(folder, text)).values())) == 2


def test_a_log_of_one_rank_a_host_states_the_domain_of_the_host(folder: Path, job: Job) -> None:
    text = "".join(
        lines(f"{trace.host}.cluster.local", 0, UUIDS[trace.rank // 16], size=2)
        for trace in job.ranks
        if trace.rank is not None and trace.rank % PER_HOST == 0
    )

    domains = nvlink_domains(view_with(folder, text))

    assert len(domains) == RANKS
    assert domains[0] == domains[15] != domains[16] == domains[31]


def test_waits_folded_by_domain(folder: Path, job: Job) -> None:
    view = view_with(folder, whole_log(job))
    lag = straggler_lag.run(view)

    table = rank_table(view, lag)

    assert table.kinds == ("node", "domain", "tp", "pp", "share")
    assert {len(members) for members in table.members["domain"].values()} == {16}
    whole = sum(row["caused_wait_us"] for row in lag.details["blame"].values())
    assert sum(one.caused_us or 0 for one in table.folds("domain")) == pytest.approx(whole)


def test_bandwidth_inside_and_between_domains(folder: Path, job: Job) -> None:
    details = node_locality.run(view_with(folder, whole_log(job))).details

    rows = {row["place"]: row for row in details["by_nvlink_domain"]}

    assert sum(row["wire_bytes"] for row in rows.values()) == (
        details["intra_node_bytes"] + details["inter_node_bytes"] + details["unknown_bytes"]
    )
    assert rows["inside"]["wire_bytes"] >= details["intra_node_bytes"]
    assert rows["inside"]["busbw_GBps"] > 0


@pytest.mark.parametrize("uuid", ["", "0.0"])
def test_nothing_is_known_where_nothing_is_stated(folder: Path, job: Job, uuid: str) -> None:
    text = whole_log(job)
    for known in UUIDS:
        text = text.replace(known, uuid)
    view = view_with(folder, text)

    assert nvlink_domains(view) == {}
    assert crosses_domains(view, (0, 1)) is None
    assert "domain" not in rank_table(view, None).kinds
    assert node_locality.run(view).details["by_nvlink_domain"] == []


def test_the_transports_list_domains(folder: Path, job: Job) -> None:
    details = nccl_transport.run(view_with(folder, whole_log(job))).details

    assert [row["num_devices"] for row in details["nvlink_domains"]] == [16, 16]
    assert [len(row["hosts"]) for row in details["nvlink_domains"]] == [2, 2]


def test_links_inside_a_domain_are_those_of_the_device(folder: Path, job: Job) -> None:
    text = whole_log(job).replace(UUIDS[1], UUIDS[0])
    alone = view_with(folder, "")
    network = link_peak(alone, 1)
    together = view_with(folder, text)
    group = next(n for n, one in enumerate(together.groups) if crosses_hosts(together, one.ranks))

    links = link_peak(together, group)

    assert group == 1
    assert network is not None
    assert links is not None
    assert network.source == "card, 200 Gbit/s between hosts"
    assert links.source.startswith(device_names(together)[0].removeprefix("NVIDIA ")[:4])
    assert links.gbps > network.gbps
