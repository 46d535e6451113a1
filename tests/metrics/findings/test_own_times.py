"""Who is slow by times that need neither a replay nor, of kernels, a match."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.demo.planted import Fault, JobSpec, random_spec, write_planted
from ccltui.demo.planted.job_spec import Level
from ccltui.metrics.findings.waits.link_times import slow_link
from ccltui.metrics.findings.waits.own_times import (
    busiest,
    is_always_slow,
    is_supported,
    slower_ranks,
)
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SMALL = {"steps": 4, "micro_batches": 2, "layers": 1}


def view_of(tmp_path: Path, spec: JobSpec) -> View:
    write_planted(tmp_path / "job", spec)
    return View(open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1))


def job(*faults: Fault, **shape: object) -> JobSpec:
    return JobSpec(**{**SMALL, **shape}, faults=faults)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "kind", "ranks"),
    [
        (job(Fault("slow_worker", (2,), 1.4), level="kernels"), "slow_worker", ("2",)),
        (
            job(Fault("slow_node", (4, 5, 6, 7), 1.3), dp=8, level="names"),
            "slow_node",
            ("4", "5", "6", "7"),
        ),
        (job(Fault("alternating", (1, 3), 1.6)), "occasional_worker", ("1", "3")),
        (job(Fault("alternating", (1, 3), 1.6), level="kernels"), "occasional_worker", ("1", "3")),
        # Tenths of a window of nine steps hold slow steps of both.
        (
            job(Fault("alternating", (1, 3), 1.6), level="kernels", steps=9),
            "occasional_worker",
            ("1", "3"),
        ),
        # The others wait where no kernel runs, and no launch tells for what.
        (
            job(
                Fault("occasional_worker", (1,), 2.2, steps=(3,)),
                family="pp",
                dp=2,
                pp=2,
                level="no_host",
                hidden_waits=True,
            ),
            "occasional_worker",
            ("1",),
        ),
        (
            job(Fault("occasional_worker", (1,), 1.6, steps=(2,))),
            "occasional_worker",
            ("1",),
        ),
        (
            job(Fault("heavy_stage", (2, 3), 1.8, stage=1), family="pp", dp=2, pp=2),
            "heavy_stage",
            ("2", "3"),
        ),
    ],
)
def test_ranks_with_slow_kernels_are_named(
    tmp_path: Path, spec: JobSpec, kind: str, ranks: tuple[str, ...]
) -> None:
    found = slower_ranks(view_of(tmp_path, spec))

    assert found is not None
    assert (found.kind, found.ranks) == (kind, ranks)
    assert found.share > 0.02


@pytest.mark.parametrize(
    ("ranks", "steps", "sure"),
    [(2, (2,), "low"), (2, (1, 2, 3, 4, 5), "medium"), (4, (2,), "medium")],
)
def test_few_slow_steps_of_one_of_two_ranks_may_be_chance(
    tmp_path: Path, ranks: int, steps: tuple[int, ...], sure: str
) -> None:
    spec = job(Fault("occasional_worker", (1,), 1.6, steps=steps), dp=ranks, steps=10)

    found = slower_ranks(view_of(tmp_path, spec))

    assert found is not None
    assert (found.kind, found.ranks, found.sure) == ("occasional_worker", ("1",), sure)


@pytest.mark.parametrize(
    "spec",
    [
        job(jitter=0.04),
        job(Fault("data_loading", (2,), extra_ns=5_000_000)),
        # Only the kernels of its experts take longer: it has more work.
        job(Fault("uneven_experts", (2,), 2.0), family="moe"),
        job(Fault("slow_pair", (0, 2), 30.0), family="pp", dp=2, pp=2),
        job(Fault("uneven_microbatches", (), 0.4)),
    ],
)
def test_nobody_is_slow_by_other_faults(tmp_path: Path, spec: JobSpec) -> None:
    assert slower_ranks(view_of(tmp_path, spec)) is None


def test_a_slow_pair_is_told_by_its_transfers(tmp_path: Path) -> None:
    spec = job(Fault("slow_pair", (0, 2), 20.0), family="pp", dp=2, pp=2)

    found = slow_link(view_of(tmp_path, spec))

    assert found is not None
    assert (found.ranks, found.is_pair, found.sure) == (("0", "2"), True, "medium")
    assert found.factor == pytest.approx(20, rel=0.3)


@pytest.mark.parametrize(("level", "is_matched"), [("names", False), ("full", True)])
def test_a_slow_group_is_told_by_long_calls_where_none_is_matched(
    tmp_path: Path, level: Level, is_matched: bool
) -> None:
    group = Fault("slow_group", (2, 3), 8.0)
    spec = job(group, family="tp", dp=4, tp=2, ring=True, hidden_waits=True, level=level)

    found = slow_link(view_of(tmp_path, spec))

    assert found is not None
    assert (found.ranks, found.is_pair) == (("2", "3"), is_matched)


def test_ranks_that_wait_for_a_late_one_are_no_slow_group(tmp_path: Path) -> None:
    late = Fault("slow_worker", (2,), 1.5)
    spec = job(late, family="tp", dp=4, tp=2, level="kernels")

    assert slow_link(view_of(tmp_path, spec)) is None


@pytest.mark.parametrize(("factor", "slow"), [(1.0, False), (10.0, True)])
def test_a_slow_network_is_told_by_its_bandwidth(tmp_path: Path, factor: float, slow: bool) -> None:
    spec = job(Fault("slow_network", (), factor), family="fsdp", dp=8, transfer_ns=400_000)

    found = slow_link(view_of(tmp_path, spec))

    assert (found is not None) is slow
    if found is not None:
        assert found.ranks == ()
        assert found.gbps == pytest.approx(100 * 7 / 8 / 1.6 / factor, rel=0.1)


@pytest.mark.parametrize("level", ["full", "no_host"])
def test_a_rank_that_pauses_is_busy_longest_and_others_are_not(tmp_path: Path, level: str) -> None:
    spec = job(Fault("data_loading", (2,), extra_ns=8_000_000), level=level, world_norm=False)
    view = view_of(tmp_path, spec)

    found = busiest(view)

    assert found is not None
    assert (found.ranks, found.sure) == (("2",), "medium")
    assert is_supported(view, ("2",), 0.2)
    assert not is_supported(view, ("1",), 0.2)


def test_a_rank_that_idles_while_the_others_wait_in_kernels_is_waited_for(tmp_path: Path) -> None:
    """Its graph was launched before its host paused, so that its device seems to wait as well."""
    late = Fault("synchronisation", (2,), extra_ns=4_000_000)
    shape = {"family": "fsdp", "graphs": True, "same_stream": True, "micro_batches": 4}

    found = busiest(view_of(tmp_path, job(late, **shape)))

    assert found is not None
    assert (found.ranks, found.sure) == (("2",), "low")
    assert found.share == pytest.approx(0.15, abs=0.03)


def test_a_rank_that_is_slow_in_every_other_step_is_not_always_slow(tmp_path: Path) -> None:
    shape = {"family": "pp", "dp": 1, "pp": 2, "steps": 6}
    in_turn = view_of(tmp_path / "turn", job(Fault("alternating", (0, 1), 1.6), **shape))
    always = view_of(tmp_path / "always", job(Fault("slow_worker", (0,), 1.6), **shape))

    assert not is_always_slow(in_turn, ("0",))
    assert is_always_slow(always, ("0",))
    assert is_always_slow(always, ("1",))  # nothing shows that it is slow at all


def test_a_rank_that_chance_makes_busiest_is_not_named_surely(tmp_path: Path) -> None:
    # Passes vary by chance; over 7 steps rank 1 is busy 12 % longer, and longest in 3 of them.
    found = busiest(view_of(tmp_path, random_spec(740309, varied=True)))

    assert found is not None
    assert found.share > 0.1
    assert found.sure == "low"


def test_work_on_another_stream_that_hides_waits_makes_no_rank_busiest(tmp_path: Path) -> None:
    beside = random_spec(860195, varied=True)
    slow = job(Fault("slow_worker", (2,), 1.6), family="fsdp", micro_batches=6)
    found = busiest(view_of(tmp_path / "slow", slow))

    assert busiest(view_of(tmp_path / "beside", beside)) is None
    assert found is not None
    assert found.ranks == ("2",)


def test_single_steps_of_several_ranks_are_chance(tmp_path: Path) -> None:
    # Of 8 steps rank 0 is slow in one, rank 4 in that and in another.
    view = view_of(tmp_path, random_spec(860267, varied=True))
    first = find("findings").run(view).details["findings"][0]

    assert slower_ranks(view) is None
    assert first["class"] == "random"


def test_without_steps_slow_kernels_are_not_slow_at_times_where_a_replay_has_them_always(
    tmp_path: Path,
) -> None:
    view = view_of(tmp_path, random_spec(860257, varied=True))
    first = find("findings").run(view).details["findings"][0]

    assert slower_ranks(view).kind == "occasional_worker"  # type: ignore[union-attr]
    assert (first["class"], first["where"]["ranks"]) == ("slow_worker", ["4"])


def test_the_order_of_a_pipeline_is_no_rank_to_wait_for(tmp_path: Path) -> None:
    # The first of two stages ends its last backward pass after the other has.
    spec = random_spec(797152, varied=True)
    found = find("findings").run(view_of(tmp_path, spec)).details["findings"]

    assert not [
        one for one in found if one["class"] == "waiting_for_rank" and one["where"]["ranks"]
    ]


def test_a_slow_node_is_named_where_no_file_names_a_communicator(tmp_path: Path) -> None:
    spec = job(
        Fault("slow_node", (4, 5, 6, 7), 1.5),
        family="fsdp",
        dp=4,
        tp=2,
        level="no_groups",
        gather="copy_engine",
    )
    details = find("findings").run(view_of(tmp_path, spec)).details

    first = details["findings"][0]

    assert first["class"] == "slow_node"
    assert first["where"]["host"] == "node-01"
    assert first["sure"]["who"] in ("medium", "high")


@pytest.mark.parametrize("level", ["full", "names"])
def test_all_transfers_between_two_stages_are_one_slow_link(tmp_path: Path, level: Level) -> None:
    shape = {"family": "pp", "dp": 2, "pp": 4, "gpus_per_node": 4, "micro_batches": 4}
    slow = job(Fault("slow_network", (), 9.0), level=level, **shape)
    truth = write_planted(tmp_path / "slow", slow).truth
    view = View(open_job(tmp_path / "slow", cache_dir=tmp_path / "cache", jobs=1))
    first = find("findings").run(view).details["findings"][0]

    assert first["class"] == "slow_link"
    assert first["where"]["group"] == "stages 1 and 2"
    assert first["text"].startswith("Probably transfers between stages 1 and 2 take 1")
    assert first["share"] == pytest.approx(truth.cost_ms / truth.step_ms, abs=0.01)
    # a network is slower than the links inside of a host
    assert slow_link(view_of(tmp_path / "usual", job(level=level, **shape))) is None


@pytest.mark.parametrize(
    "seed",
    [
        960122,  # passes vary by chance, and one takes 2.9 times as long
        960238,  # nothing but jitter in passes of one kernel
        960259,  # the same chance on 32 ranks
        960079,  # each stage of a pipeline is one rank
    ],
)
def test_what_may_be_chance_or_a_stage_is_never_surely_a_rank(tmp_path: Path, seed: int) -> None:
    found = slower_ranks(view_of(tmp_path, random_spec(seed, varied=True)))

    assert found is not None
    assert found.sure == "low"


def test_rounded_times_that_agree_exactly_do_not_end_the_answer(tmp_path: Path) -> None:
    # drifts of 0 in some queues, and of half a millisecond a second in others
    spec = random_spec(960263, varied=True)

    assert find("findings").run(view_of(tmp_path, spec)).status != "unavailable"


@pytest.mark.parametrize(
    "seed",
    [
        960009,  # by names alone
        960281,  # beside what varies by chance
        960333,  # of all-to-alls, which run the kernel of sends and receives
    ],
)
def test_transfers_that_take_longer_than_computing_are_a_slow_network(
    tmp_path: Path, seed: int
) -> None:
    first = (
        find("findings").run(view_of(tmp_path, random_spec(seed, varied=True))).details["findings"]
    )
    blaming = next(one for one in first if one["class"] == "slow_link")

    assert blaming["where"]["group"] == "between hosts"
    assert blaming["sure"]["what"] == "low"


def test_a_network_is_judged_where_no_step_can_be_replayed(tmp_path: Path) -> None:
    spec = random_spec(960580, varied=True)

    assert find("findings").run(view_of(tmp_path, spec)).status != "unavailable"


def test_members_of_a_link_may_wait_for_a_rank_that_is_busy_meanwhile(tmp_path: Path) -> None:
    # a late host of the first stage; calls of all ranks are matched among those of the second
    found = slow_link(view_of(tmp_path, random_spec(970153, varied=True)))

    assert found is None or found.sure == "low"


@pytest.mark.parametrize(
    ("seed", "pair", "sure"),
    [
        # the other pipeline waits for theirs in all its all-reduces, and its batches are matched
        (990410, ("3", "5"), "medium"),
        (990715, ("1", "5"), "low"),  # of two stages with tensor parallelism
        (990680, ("1", "3"), "low"),  # of four ranks
    ],
)
def test_both_ends_of_a_slow_transfer_are_named_where_kernels_only_say_sendrecv(
    seed: int, pair: tuple[str, str], sure: str, tmp_path: Path
) -> None:
    found = slow_link(view_of(tmp_path, random_spec(seed, varied=True)))
    assert found is not None
    assert (found.ranks, found.is_pair, found.sure) == (pair, True, sure)


def test_a_set_of_ranks_that_cannot_be_a_group_is_no_slow_link(tmp_path: Path) -> None:
    """Of sends of four ranks those of three are matched: the fourth has another window."""
    found = slow_link(view_of(tmp_path, random_spec(990700, varied=True)))
    assert found is None or 8 % len(found.ranks) == 0


@pytest.mark.parametrize(
    ("seed", "share"),
    [
        (781452, None),  # of the last stage, which waits for the first at the end of the step
        (781511, None),  # of the third, where most transfers before are matched to none
        (781460, None),  # 0.9 % of the step
        (781045, 0.192),  # what it costs in truth
        (794040, 0.012),  # at least: some of its transfers are matched to none
        (781035, 0.026),  # its transfers take a third of the step, and others wait longer
    ],
)
def test_a_slow_link_costs_what_its_members_do_not_wait_for_others_anyway(
    seed: int, share: float | None, tmp_path: Path
) -> None:
    found = slow_link(view_of(tmp_path, random_spec(seed, varied=True)))

    assert (found and found.share) == (share and pytest.approx(share, abs=0.002))


@pytest.mark.parametrize(
    "seed",
    [
        781707,  # two ranks
        790035,  # two ranks that are stages
        781788,  # 16 ranks
        790092,  # two of four ranks in three steps
    ],
)
def test_passes_that_vary_by_chance_make_nobody_slow_in_single_steps(
    seed: int, tmp_path: Path
) -> None:
    assert slower_ranks(view_of(tmp_path, random_spec(seed, varied=True))) is None


@pytest.mark.parametrize(
    ("seed", "ranks"),
    [
        (781543, []),  # another rank is busy for nearly as long
        (781769, [["1"]]),  # no other is: it pauses in one step
    ],
)
def test_of_hosts_that_are_all_late_one_is_named_that_exceeds_all_others(
    seed: int, ranks: list[list[str]], tmp_path: Path
) -> None:
    found = find("findings").run(view_of(tmp_path, random_spec(seed, varied=True))).details

    named = [one["where"]["ranks"] for one in found["findings"]]
    assert [one for one in named if one] == ranks
