"""blame_chain on a job of two tensor-parallel pairs that share data parallelism."""

from __future__ import annotations

from typing import Any

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace, world
from msgspec.structs import replace

from ccltui.metrics.catalog.stragglers.blame_chain import blame_chain
from ccltui.metrics.catalog.stragglers.straggler_cause import straggler_cause
from ccltui.metrics.collectives.matching.match import CONFIDENCES, HIGH, LOW, MEDIUM
from ccltui.metrics.findings.causes import chain
from ccltui.metrics.findings.causes.cause_search import job_causes
from ccltui.metrics.findings.causes.chain import chain_of
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.findings.causes.roots import (
    NOBODY_LATE,
    SEVERAL,
    Behind,
    Root,
    Roots,
    choose_root,
    roots_of,
)
from ccltui.metrics.findings.rank_time.partition import partition
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace


def groups(rank: int) -> list[ProcessGroup]:
    pair = (0, 1) if rank < 2 else (2, 3)
    across = (rank % 2, rank % 2 + 2)
    return [
        world(4),
        ProcessGroup("1", "mesh_tp", pair, 2, "cuda:nccl"),
        ProcessGroup("2", "mesh_dp_replicate", across, 2, "cuda:nccl"),
    ]


def call(group: int, start_us: float, end_us: float, seq: int = 0) -> Event:
    coll = Coll("allreduce", 8, 8, group=group, seq=seq)
    return allreduce(start_us, end_us - start_us, coll, stream=20 + group)


def rank(number: int, slow_us: float = 0) -> RankTrace:
    """Meets all at 100, computes, meets its pair, computes, meets its peer across.

    Rank 1 computes ``slow_us`` longer before it meets rank 0.
    """
    own = slow_us if number == 1 else 0
    pair = slow_us if number < 2 else 0
    gpu = [
        call(0, 0, 100),
        kernel("gemm", 100, 300 + own),
        call(1, 400 + own, 420 + pair),
        kernel("gemm", 420 + pair, 300),
        call(2, 720 + pair, 740 + slow_us),
    ]
    return rank_trace(number, gpu=gpu, groups=groups(number), world_size=4, host="a")


def view(slow_us: float = 300) -> View:
    return View(job(*(rank(number, slow_us) for number in range(4))))


def asked(**options: Any) -> Result:
    return blame_chain.run(View(view().job, ViewOptions(**options)))


def place(found: View, label: str) -> int:
    labels = [found.group_label(group.match.group) for group in found.arrivals.groups]
    return labels.index(label)


def test_a_late_rank_that_its_pair_kept_is_not_the_root() -> None:
    found = view()

    first, root = chain_of(job_causes(found), place(found, "dp_replicate 0,2"), 0)

    assert (first.label, first.cause, first.lag_ns) == ("0", "previous_collective", 300_000)
    assert (root.label, root.cause, root.lag_ns) == ("1", "compute", 300_000)
    assert found.group_label(root.group) == "tp 0,1"
    assert root.share == 1.0


def test_a_link_that_hands_on_little_of_the_lag_is_not_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow = chain._follow
    for handed_us, sure in ((80, HIGH), (70, LOW)):
        found = view()

        def little(*asked: Any, handed_us: int = handed_us) -> Any:
            labels, link = yield from follow(*asked)  # type: ignore[misc]
            return labels, replace(link, lag_ns=1_000 * handed_us)

        monkeypatch.setattr(chain, "_follow", little)
        root = chain_of(job_causes(found), place(found, "dp_replicate 0,2"), 0)[-1]

        assert (root.label, root.lag_ns, root.confidence) == ("1", 1_000 * handed_us, sure)


def test_a_rank_that_waits_for_nobody_longer_than_its_peers_ends_the_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits_of = chain.waits_of

    def for_nobody(*asked: Any) -> Any:
        waits = waits_of(*asked)
        assert waits is not None
        return replace(waits, partner="", number=-1, waited_ns=0, excess_ns=-16_709)

    monkeypatch.setattr(chain, "waits_of", for_nobody)
    found = view()

    (only,) = chain_of(job_causes(found), place(found, "dp_replicate 0,2"), 0)

    assert (only.label, only.cause, only.confidence) == ("0", "unknown", LOW)


def test_the_slow_rank_itself_needs_no_chain() -> None:
    found = view()

    (only,) = chain_of(job_causes(found), place(found, "dp_replicate 1,3"), 0)

    assert (only.label, only.cause) == ("1", "compute")


def test_in_words() -> None:
    found = view()

    told = describe(found, place(found, "dp_replicate 0,2"), 0)

    assert told.why == (
        "rank 0 was delayed 300 us at tp 0,1 AllReduce, where rank 1 was late: "
        "its kernels take longer"
    )
    assert told.chain_sentences == (
        "rank 0 at dp_replicate 0,2 AllReduce, 300 us: delayed by a collective of another group",
        "rank 1 at tp 0,1 AllReduce, 300 us: its kernels take longer",
    )
    assert told.root is not None
    assert told.root.label == "1"


def test_the_metric_weighs_roots_by_the_waiting_behind_them() -> None:
    result = asked()

    details = result.details
    assert (result.status, result.unit) == ("ok", "ratio")
    # three collectives waited 300 µs each; one of them for a rank that another group had kept
    assert result.value == 1 / 3
    assert (details["num_blamed"], details["num_followed"], details["num_inherited"]) == (3, 3, 1)
    assert details["longest"] == 2
    root = [details[f"root_{key}"] for key in ("rank", "cause", "confidence")]
    assert root == ["1", "compute", "high"]
    assert (details["root_share"], details["unknown_share"], details["root_why"]) == (1, 0, None)
    assert details["roots"] == [
        {
            "rank": "1",
            "cause": "compute",
            "count": 3,
            "caused_wait_ms": 0.9,
            "share_of_waiting": 1.0,
            "share_of_time": details["root_share_of_time"],
            "confidence": "high",
        }
    ]
    links = [
        [(link["rank"], link["cause"]) for link in chain["links"]] for chain in details["chains"]
    ]
    assert [("0", "previous_collective"), ("1", "compute")] in links


def test_a_root_is_as_sure_as_most_of_the_waiting_behind_it() -> None:
    found = view()
    told = chain_of(job_causes(found), place(found, "dp_replicate 1,3"), 0)[-1]

    def sure(*behind: tuple[int, int]) -> str:
        (root,) = roots_of(
            [Behind((replace(told, confidence=level),), wait, wait) for wait, level in behind]
        )
        return CONFIDENCES[root.confidence]

    assert sure((10, HIGH), (9, LOW)) == "high"
    assert sure((9, HIGH), (10, LOW)) == "low"
    assert sure((9, HIGH), (9, LOW)) == "low"
    assert sure((6, HIGH), (5, MEDIUM), (10, LOW)) == "medium"
    assert sure((10, MEDIUM)) == "medium"


def root(label: str, cause: str, wait_ns: int, confidence: int = HIGH) -> Root:
    return Root(label, cause, 1, wait_ns, confidence)


def named(*every: Root, **options: Any) -> tuple[str, str, int, int] | None:
    found = choose_root(every, **options).named
    return None if found is None else (found.label, found.cause, found.wait_ns, found.confidence)


def test_the_order_of_a_pipeline_blames_no_rank() -> None:
    order, late = root("3", "pipeline", 600, LOW), root("1", "compute", 400)

    assert named(order, late) == ("1", "compute", 400, HIGH)  # all but the order is due to it
    assert named(order) is None
    assert "100 % follows from the order of the pipeline" in (choose_root([order]).why_nobody or "")


def test_the_root_is_the_rank_behind_most_waiting_and_its_cause_may_be_unknown() -> None:
    most, known = root("5", "unknown", 109_000_000, LOW), root("0", "compute", 680_000)

    assert named(most, known) == ("5", "unknown", 109_000_000, LOW)
    assert named(
        root("5", "unknown", 500, LOW), root("0", "compute", 400), root("0", "copies", 300)
    ) == (*("0", "compute", 700, MEDIUM),)


@pytest.mark.parametrize(
    ("own", "second", "rest", "sure"),
    [
        (70, 20, 10, HIGH),
        (69, 20, 11, MEDIUM),
        (70, 21, 9, MEDIUM),
        (50, 35, 15, MEDIUM),
        (50, 36, 14, LOW),
        (49, 10, 41, LOW),
        (20, 19, 61, LOW),
        (19, 18, 63, None),
    ],
)
def test_a_statement_is_as_sure_as_the_share_of_its_rank(
    own: int, second: int, rest: int, sure: int | None
) -> None:
    found = named(root("", SEVERAL, rest), root("1", "compute", own), root("2", "compute", second))

    assert (found and found[3]) == sure


def test_a_statement_is_no_surer_than_its_cause_its_chains_and_the_ranks_recorded() -> None:
    assert named(root("1", "compute", 90, MEDIUM)) == ("1", "compute", 90, MEDIUM)
    assert named(root("1", "compute", 90), limit=LOW) == ("1", "compute", 90, LOW)
    assert named(root("1", "compute", 50), root("1", "copies", 40)) == (
        *("1", "compute", 90),
        MEDIUM,
    )


def test_nobody_is_named_for_waiting_that_is_not_material() -> None:
    late = root("1", "compute", 900_000)

    assert named(late, least_ns=900_000) is not None
    found = choose_root([late], least_ns=1_000_000)
    assert found.named is None
    assert found.why_nobody == (
        "nothing worth fixing: rank 1 makes the others wait 900 us, below the threshold of 1 ms"
    )
    assert choose_root([]) == Roots((), None, None)


def test_waiting_for_several_late_ranks_is_not_that_of_the_last() -> None:
    link = chain_of(job_causes(view()), place(view(), "dp_replicate 1,3"), 0)[-1]
    other = replace(link, label="7", cause="compute")

    (shared, own) = roots_of([Behind((link,), 1000, 100, "7")])
    assert (shared.label, shared.cause, shared.wait_ns) == ("", SEVERAL, 900)
    assert (own.label, own.cause, own.wait_ns) == ("1", "compute", 100)

    # the last but one rank is a victim of the same rank: all of the waiting is due to it
    victim = Behind((other, link), 10, 10)
    (whole,) = roots_of([Behind((link,), 1000, 100, "7"), victim])
    assert (whole.label, whole.wait_ns) == ("1", 1010)


def test_a_rank_that_explains_little_of_a_lag_is_not_its_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow = chain._follow
    for handed_us, cause in ((60, "compute"), (59, "unknown")):
        found = view()

        def little(*asked: Any, handed_us: int = handed_us) -> Any:
            labels, link = yield from follow(*asked)  # type: ignore[misc]
            return labels, replace(link, lag_ns=1_000 * handed_us)

        monkeypatch.setattr(chain, "_follow", little)
        told = describe(found, place(found, "dp_replicate 0,2"), 0)

        assert told.root is not None
        assert (told.root.label, told.root.cause) == ("1", cause)
    assert told.cause_confidence == "low"
    assert told.why == (
        "rank 0 was delayed 300 us at tp 0,1 AllReduce, where rank 1 was late; "
        "the root is unknown: rank 1 accounts for 20 % of the lag"
    )


def test_what_is_said_of_a_chain_is_no_surer_than_its_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow = chain._follow

    def unsure(*asked: Any) -> Any:
        labels, link = yield from follow(*asked)  # type: ignore[misc]
        return labels, replace(link, confidence=LOW)

    found = view()
    assert describe(found, place(found, "dp_replicate 0,2"), 0).cause_confidence == "high"

    monkeypatch.setattr(chain, "_follow", unsure)
    found = view()
    assert describe(found, place(found, "dp_replicate 0,2"), 0).cause_confidence == "low"


def test_causes_name_the_rank_with_most_lag_and_why() -> None:
    details = straggler_cause.run(view()).details

    named = [details[f"main_{key}"] for key in ("rank", "cause", "confidence", "why")]
    assert named[:3] == ["1", "compute", "high"]
    assert named[3].startswith("rank 1: 300 us more computation")


def test_the_largest_losses_name_the_root_and_no_victim() -> None:
    found = view()

    lost = {one.what for one in partition(found).losses if one.kind == "straggler"}

    assert lost == {"1"}  # rank 0 is late too, because of rank 1


def test_causes_of_a_quiet_job_name_nobody() -> None:
    details = straggler_cause.run(view(0)).details

    assert [details[f"main_{key}"] for key in ("rank", "cause", "why")] == [None] * 3


def test_a_quiet_job_has_no_chain() -> None:
    result = blame_chain.run(view(0))

    assert (result.status, result.value) == ("ok", None)
    assert (result.details["num_blamed"], result.details["roots"]) == (0, [])
    assert NOBODY_LATE in result.warnings
    assert result.details["root_rank"] is None


def test_one_rank_alone() -> None:
    assert blame_chain.run(View(job(rank(0)))).reason == "single_rank"
