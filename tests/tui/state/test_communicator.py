"""Collectives of one communicator: harm, order, moments, and what each rank took part in."""

from __future__ import annotations

import numpy as np
from fakes import Plan, full_job, ready_and_end, scene, trace
from msgspec.structs import replace

from ccltui.draw.alignment_chart import ABSENT
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.tui.engine.analysis import (
    clock_of,
    communicators_of,
    nodes_of,
    span_of,
    steps_of_job,
)
from ccltui.tui.state.communicator import (
    calls_by_rank,
    groups_by_size,
    harm_by_rank,
    worst_first,
)

PLAN = Plan()


def test_times_are_those_of_the_trace() -> None:
    (communicator,) = scene().findings.communicators or ()
    ready, end = ready_and_end(PLAN)

    assert communicator.name == "default_pg 0-7"
    assert communicator.labels == tuple("01234567")
    assert communicator.start_ns[40].tolist() == (ready[:, 40] - 150_000).tolist()
    assert communicator.dur_ns[40].tolist() == (end[40] - ready[:, 40] + 150_000).tolist()
    assert communicator.moment_ns(40) == ready[5, 40] - 150_000
    assert communicator.first_ns[40] == ready[:, 40].min() - 150_000


def test_harm_is_what_all_others_waited() -> None:
    (communicator,) = scene().findings.communicators or ()
    ready, _ = ready_and_end(PLAN)

    waits = (ready[:, 40].max() - ready[:, 40]).sum()
    assert communicator.harm_ns[40] == waits
    assert communicator.by_harm[:3].tolist() == [40, 41, 20]
    assert communicator.culprit(40) == "5"
    order = worst_first((communicator,))
    assert order.k[:3].tolist() == [40, 41, 20]
    assert order.place_of(0, 20) == 2
    assert order.place_of(0, len(communicator)) is None
    assert order.place_of(1, 0) is None


def test_the_worst_of_several_communicators_are_one_list() -> None:
    (communicator,) = scene().findings.communicators or ()
    second = replace(communicator, name="half", wait_ns=communicator.wait_ns // 2)
    order = worst_first((communicator, second))

    harm = [communicator.harm_ns, second.harm_ns]
    listed = list(zip(order.communicator.tolist(), order.k.tolist(), strict=True))
    sizes = [int(harm[index][k]) for index, k in listed]
    assert sizes == sorted(sizes, reverse=True)
    assert len(order) == sum(int((one > 0).sum()) for one in harm)
    assert {index for index, _ in listed[:4]} == {0, 1}
    assert [order.place_of(*row) for row in listed] == list(range(len(order)))
    assert len(worst_first(())) == 0


def test_harm_by_rank_blames_the_planted_ranks() -> None:
    found = scene().findings.communicators or ()
    harm = harm_by_rank(found)

    assert max(harm, key=lambda label: harm[label]) == "5"
    assert sum(harm.values()) == sum(int(item.harm_ns.sum()) for item in found)


def test_every_rank_has_its_calls_in_order() -> None:
    calls = calls_by_rank(scene().findings.communicators or ())["3"]
    ready, _ = ready_and_end(PLAN)

    assert calls.start_ns.tolist() == (ready[3] - 150_000).tolist()
    assert calls.k.tolist() == list(range(84))
    assert calls.after(int(calls.start_ns[7])) == 8
    assert calls.before(int(calls.start_ns[7])) == 6
    assert calls.after(int(calls.start_ns[-1])) is None
    assert calls.before(0) is None


def test_nearest_and_next_over() -> None:
    (communicator,) = scene().findings.communicators or ()

    assert communicator.nearest(0) == 0
    assert communicator.nearest(int(communicator.first_ns[33])) == 33
    assert communicator.nearest(int(communicator.first_ns[33]) - 1) == 32
    assert communicator.next_over(500_000, None, forward=True) == 20
    assert communicator.next_over(500_000, 40, forward=True) == 41
    assert communicator.next_over(500_000, 41, forward=True) is None
    assert communicator.next_over(500_000, 20, forward=False) is None


def test_heat_is_ranks_by_collectives() -> None:
    (communicator,) = scene().findings.communicators or ()

    assert communicator.heat.late_ns.shape == (8, 84)
    assert communicator.heat.late_ns[5, 40] == communicator.late_ns[40, 5]
    assert ABSENT not in communicator.late_ns
    assert np.all(communicator.late_ns >= 0)


def test_steps_and_span_of_the_job() -> None:
    view = View(full_job(PLAN))
    _, end = ready_and_end(PLAN)
    steps = steps_of_job(view)
    span = span_of(view, ViewOptions(), steps)

    assert [step.id for step in steps] == [0, 1, 2, 3, 4, 5]
    assert steps[1].start_ns == end[13]
    assert span is not None
    assert (span.start_ns, span.end_ns) == (0, end[-1])
    inside = span_of(view, ViewOptions(steps=(1, 1)), steps)
    assert inside is not None
    assert (inside.start_ns, inside.end_ns) == (end[13], end[27])
    assert len(communicators_of(view, ViewOptions(steps=(1, 1)))[0]) == 14


def test_a_window_keeps_the_place_of_each_collective_among_the_arrivals() -> None:
    (communicator,) = scene().findings.communicators or ()

    kept = communicator.take(communicator.lag_ns > 500_000)

    assert kept.row.tolist() == [20, 40, 41]
    assert (kept.number, kept.name) == (0, "default_pg 0-7")


def test_clocks_are_only_compared_where_they_are_known() -> None:
    view = View(full_job(Plan(ranks=2)))

    assert clock_of(view, ["0", "1"]).startswith("clock ±")
    assert clock_of(view, ["0"]) == ""
    nameless = View(full_job(Plan(ranks=2)).with_rank(replace(trace(Plan(), 2), rank=None)))
    labels = [rank.label for rank in nameless.ranks]
    assert len(labels) == 3
    assert clock_of(nameless, labels) == "clocks unknown"


def test_groups_of_a_size_are_numbered_by_their_first_members() -> None:
    one = scene().findings.communicators
    assert one is not None
    labels = [("0", "1"), ("10", "2"), ("3", "9"), ("0", "1", "2"), ("3", "4", "5"), ("1", "10")]
    groups = [replace(one[0], labels=members) for members in labels]

    assert groups_by_size(groups) == {
        2: {"0": 0, "1": 0, "10": 1, "3": 2, "9": 2, "2": 3},  # 10 counts with 1
        3: {"0": 0, "1": 0, "2": 0, "3": 1, "4": 1, "5": 1},
    }
    assert groups_by_size([]) == {}


def test_hosts_are_numbered_in_the_order_of_their_first_ranks() -> None:
    job = full_job(Plan(ranks=4))
    hosts = ("b", "a", "b", "")
    traces = [replace(one, host=host) for one, host in zip(job.ranks, hosts, strict=True)]

    assert nodes_of(View(replace(job, ranks=tuple(traces)))) == {"0": 0, "1": 1, "2": 0}


def test_collectives_with_which_the_recording_begins_come_last() -> None:
    (communicator,) = scene().findings.communicators or ()
    begins = np.arange(len(communicator)) == 40

    found = replace(communicator, begins=begins)

    assert not communicator.begins.any()
    assert found.by_harm[:2].tolist() == [41, 20]
    assert found.by_harm[-1] == 40
    assert found.harm_ns.tolist() == communicator.harm_ns.tolist()
