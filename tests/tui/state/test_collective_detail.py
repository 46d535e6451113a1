"""Details of collectives and communicators."""

from __future__ import annotations

import re

import numpy as np
from fakes import Plan, full_job, ready_and_end, scene, trace
from msgspec import structs
from msgspec.structs import replace

from ccltui.draw.alignment_chart import ABSENT
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.tui.action_list import by_id
from ccltui.tui.engine.analysis import clock_of, communicators_of, nodes_of, span_of, steps_of_job
from ccltui.tui.moves import drawer, view_moves
from ccltui.tui.panes.collective_drawer import paint
from ccltui.tui.state.answers import Answered, Answers
from ccltui.tui.state.communicator import calls_by_rank, groups_by_size, harm_by_rank, worst_first
from ccltui.tui.state.pane_states import TIMELINE
from ccltui.tui.state.query_kinds import Detail, Stop, detail
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Drawer
from ccltui.tui.state.wanted_queries import answered, detail_query


def opened(*, focused: bool = False) -> Scene:
    """The drawer over the worst collective, with everything known."""
    found = scene()
    found = found.with_state(view_moves.worst(1)(found))
    found = found.with_state(replace(found.state, drawer=Drawer(focused=focused)))
    query = detail_query(found)
    assert query is not None
    known = detail(View(full_job(Plan())), found.findings, query.number, query.row)
    return answered(found, Answered(query, known))


def with_detail(found: Scene, detail: Detail) -> Scene:
    """The scene with another answer about its collective."""
    query = detail_query(found)
    assert query is not None
    return answered(found, Answered(query, detail))


def picture(found: Scene, height: int = 14, width: int = 110) -> list[str]:
    """Rows of the drawer as text."""
    planes = paint(found, height, width)
    return [planes.row_text(y).rstrip() for y in range(height)]


def cells(row: str) -> list[str]:
    """Cells of a row of a table."""
    return re.split(r"\s{2,}", row.strip())


def test_ranks_by_arrival_with_waits_bandwidth_and_what_they_did() -> None:
    shown = picture(opened())

    assert shown[0].startswith("── default_pg 0-7 AllReduce #40  32 MiB BFloat16  it 2  matched by")
    assert shown[1].split() == [
        *("rank", "arrived", "waited", "dur", "busbw", "mostly", "before", "it", "host")
    ]
    assert cells(shown[2])[:6] == ["r5", "+12 ms", "0 s", "550 us", "106.8", "◀ last"]
    assert cells(shown[3])[:5] == ["r1", "+52.1 us", "12 ms", "12.5 ms", "--"]
    assert "why late: rank 5: 12 ms more computation" in shown[11]
    assert "sm90_xmma_gemm_bf16" in shown[11]


def test_before_the_reason_is_known_the_ranks_are_there() -> None:
    shown = picture(replace(opened(), answers=Answers()))

    assert cells(shown[2])[:4] == ["r5", "+12 ms", "0 s", "550 us"]
    assert shown[11] == " finding out why…"
    assert drawer.why_not_enter(replace(opened(), answers=Answers())) == "still finding out why"


def test_a_tie_blames_nobody() -> None:
    found = opened()
    communicator = found.communicator
    assert communicator is not None
    last = communicator.last.copy()
    last[40] = -1
    tied = replace(communicator, last=last)
    found = replace(found, findings=replace(found.findings, communicators=(tied,)))
    known = drawer.described(found)
    assert known is not None
    instance = structs.replace(known.instance, last=None, chain=(), why=None)
    found = with_detail(found, replace(known, instance=instance, stops=()))

    assert "nobody is blamed" in picture(found)[11]
    assert drawer.why_not_enter(found) == "no rank is blamed for this collective"


def test_ranks_without_room_are_counted_and_reached_by_the_cursor() -> None:
    found = opened(focused=True)
    assert any("more ranks: tab, then j" in row for row in picture(found, 8))

    last = found.with_state(view_moves.last_row(found))
    shown = picture(last, 8)
    assert any(row.startswith("▶r2") for row in shown)


def test_enter_on_a_rank_opens_it_on_the_timeline_when_it_arrived() -> None:
    found = opened(focused=True)
    found = found.with_state(view_moves.down(1)(found))
    ready, _ = ready_and_end(Plan())

    moved = drawer.enter(found)

    assert moved.pane == TIMELINE
    assert moved.selection.rank == "1"
    assert moved.selection.time_ns == ready[1, 40] - 150_000


def test_a_chain_of_one_ends_where_it_begins() -> None:
    found = opened()

    assert drawer.why_not_enter(found) == "the blame ends here: r5 was late by itself"
    assert drawer.count(found) == 8


def test_a_chain_that_ends_with_an_unknown_cause_has_no_root() -> None:
    found = opened()
    known = drawer.described(found)
    assert known is not None
    one = known.instance
    chain = (structs.replace(one.chain[0], cause="unknown"),)
    detail = replace(known, instance=structs.replace(one, chain=chain))

    said = drawer.why_not_enter(with_detail(found, detail))

    assert said == "the root is unknown: the trace does not show why r5 was late"


def with_chain(found: Scene) -> Scene:
    """The same, as if rank 2 at collective 20 had kept rank 5."""
    known = drawer.described(found)
    assert known is not None
    one = known.instance
    instance = structs.replace(
        one, chain=one.chain * 2, chain_sentences=("rank 5 was kept", "rank 2: its kernels")
    )
    stops = (known.stops[0], Stop("2", 33_000_000, 0, 20))
    return with_detail(found, Detail(instance, stops))


def test_enter_follows_the_blame_to_the_collective_where_it_began() -> None:
    found = with_chain(opened())
    assert picture(found)[12:] == ["   rank 5 was kept", " ← rank 2: its kernels"]
    assert drawer.why_not_enter(found) is None

    moved = drawer.enter(found)

    assert (moved.selection.rank, moved.selection.k) == ("2", 20)
    assert moved.selection.time_ns == 33_000_000
    assert moved.drawer == Drawer()


def test_links_of_the_chain_are_rows_too() -> None:
    found = with_chain(opened(focused=True))
    found = found.with_state(view_moves.last_row(found))

    assert drawer.row(found) == 9
    assert picture(found)[13].startswith("▶← rank 2")
    assert drawer.enter(found).selection.k == 20


def test_tab_gives_the_keys_to_the_drawer_and_esc_closes_it_in_two_steps() -> None:
    found = scene()
    found = found.with_state(drawer.enter(found))
    assert found.state.drawer == Drawer()

    found = found.with_state(view_moves.tab(found))
    assert found.state.drawer == Drawer(focused=True)
    found = found.with_state(view_moves.back(found))
    assert found.state.drawer == Drawer()
    assert view_moves.back(found).drawer is None
    assert by_id("app.back").why_not(found) is None


def test_with_room_the_evidence_and_what_is_usual_follow() -> None:
    shown = picture(opened(), 24)
    at = next(i for i, row in enumerate(shown) if "since they last waited" in row) - 1

    assert [row.strip() for row in shown[at + 1 : at + 4]] == [
        "since they last waited for each other: r5 13.1 ms, its peers 1.14 ms (median)",
        "against its peers: compute +12 ms",
        "+12 ms in 1 of sm90_xmma_gemm_bf16, its peers have 1",
    ]
    assert shown[at + 4].startswith(" lag of 84 such calls: median 52.1 us  52.1 us █ ")
    assert shown[at + 5].startswith(" in order of time  ")


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
