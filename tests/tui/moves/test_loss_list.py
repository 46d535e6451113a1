"""The findings, and the view that shows each; remarks and what can be done."""

from __future__ import annotations

import msgspec
import numpy as np
from fakes import (
    FOUND,
    Plan,
    answer_details,
    full_job,
    literal_metrics,
    scene,
)
from msgspec.structs import replace

from ccltui.metrics.findings.finding import Finding
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import Note
from ccltui.tui.engine.messages import FindingsReady
from ccltui.tui.moves import drawer, loss_list, view_moves
from ccltui.tui.panes import collective_drawer, first_screen
from ccltui.tui.reducer import scene_after
from ccltui.tui.state.communicator import calls_by_rank
from ccltui.tui.state.notes import notes
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    OVERVIEW,
    OVERVIEW_STATE,
    RANKS,
    TIMELINE,
    OverviewState,
    Section,
)
from ccltui.tui.state.scene import Scene


def own(found: Scene) -> OverviewState:
    """State of Overview."""
    return OVERVIEW_STATE.of(found.state)


def opened() -> Scene:
    return scene(pane=OVERVIEW)


def text(found: Scene, height: int = 20, width: int = 100) -> list[str]:
    planes = first_screen.paint(found, height, width)
    return [planes.row_text(y).rstrip() for y in range(planes.height)]


def with_answer(found: Scene, *rows: Finding) -> Scene:
    """The scene with other findings."""
    result = replace(found.findings.results["findings"], details=answer_details(rows))
    results = {**found.findings.results, "findings": result}
    return replace(found, findings=replace(found.findings, results=results))


def test_each_key_press_shows_the_next() -> None:
    found = opened()
    first = found.with_state(loss_list.show_next(found))

    assert (first.state.pane, first.state.selection.k) == (ALIGNMENT, 40)
    assert first.state.selection.rank == "5"
    assert first.state.drawer is not None
    assert loss_list.place_text(first) == "! 1 of 3: waiting for rank 5"

    second = first.with_state(loss_list.show_next(first))
    assert (second.state.pane, second.state.selection.rank) == (TIMELINE, "2")
    view = second.state.time
    assert second.state.selection.time_ns == 21_000_000
    assert view.left_ns <= 21_000_000
    assert view.right_ns >= 21_300_000
    assert view.cells * view.cell_ns < 20 * 300_000

    third = second.with_state(loss_list.show_next(second))
    assert OVERVIEW_STATE.of(third.state).loss == 2
    assert (third.state.pane, third.state.drawer) == (OVERVIEW, None)  # it has no place
    assert third.with_state(loss_list.show_next(third)).state.pane == ALIGNMENT


def test_the_drawer_states_the_finding_that_was_opened() -> None:
    """Two findings have their largest instance at one collective: the drawer is not the same."""
    place = FOUND[0].place
    other = msgspec.structs.replace(FOUND[1], place=place)
    found = with_answer(opened(), FOUND[0], other)
    first = found.with_state(loss_list.show(found, 0))
    second = found.with_state(loss_list.show(found, 1))

    def drawn(there: Scene) -> list[str]:
        planes = collective_drawer.paint(there, 14, 120)
        return [planes.row_text(y).strip() for y in range(14)]

    assert first.state.selection == second.state.selection
    assert drawn(first)[0].startswith("! 1 of 2: ")
    assert drawn(second)[0].startswith("! 2 of 2: ")
    assert other.text[:40] in drawn(second)[1]
    moved = second.with_state(second.state.select(k=1))
    assert drawn(moved)[0].startswith("── ")


def test_the_timeline_shows_the_step_of_a_finding_that_was_opened() -> None:
    found = opened()
    shown = loss_list.show(found, 0)
    at = shown.selection.time_ns
    assert at is not None
    (step,) = [one for one in found.findings.steps if one.start_ns <= at < one.end_ns]

    assert shown.time.left_ns <= step.start_ns < step.end_ns <= shown.time.right_ns
    length = shown.time.right_ns - shown.time.left_ns
    assert length < 2 * (step.end_ns - step.start_ns)


def test_the_cursor_is_on_the_rank_of_the_finding_though_another_arrives_last() -> None:
    here = {"rank": "2", "time_us": 0.0, "group_number": 0, "index": 40}
    found = with_answer(opened(), msgspec.structs.replace(FOUND[0], place=here))

    for state in (loss_list.show_next(found), loss_list.at_first(found)):
        assert (state.selection.k, state.selection.rank) == (40, "2")


def test_the_cursor_goes_to_the_place_of_findings_over_all_ranks_when_they_follow() -> None:
    early = {"rank": "2", "time_us": 0.0, "group_number": 0, "index": 7}
    complete = opened()
    of_few = with_answer(complete, msgspec.structs.replace(FOUND[0], place=early))
    of_few = of_few.with_state(loss_list.at_first(of_few))
    assert of_few.state.selection.k == 7

    after = scene_after(of_few, FindingsReady(complete.findings))

    assert (after.state.selection.k, after.state.selection.rank) == (40, "5")


def test_a_finding_in_a_collective_that_is_not_in_view_is_a_moment() -> None:
    far = {"rank": "3", "time_us": 5000.0, "group_number": 7, "index": 1}
    found = with_answer(opened(), msgspec.structs.replace(FOUND[0], place=far))
    moved = loss_list.show_next(found)

    assert (moved.pane, moved.selection.rank, moved.selection.time_ns) == (
        TIMELINE,
        "3",
        5_000_000,
    )


def with_second_group(found: Scene) -> Scene:
    """The scene with a group of ranks 2 and 3 that calls 100 us before each collective of all."""
    (whole,) = found.findings.communicators or ()
    pair = replace(
        whole,
        name="pair",
        labels=("2", "3"),
        start_ns=whole.start_ns[:, 2:4] - 100_000,
        dur_ns=np.full((len(whole), 2), 50_000, np.int64),
        **{key: getattr(whole, key)[:, 2:4] for key in ("present", "late_ns", "wait_ns")},
    )
    groups = (whole, pair)
    return replace(
        found,
        findings=replace(found.findings, communicators=groups, calls=calls_by_rank(groups)),
    )


def at_moment(found: Scene, time_ns: int) -> Scene:
    """The scene with one finding of rank 2 at a time, shown."""
    place = {"rank": "2", "time_us": time_ns / 1000}
    found = with_answer(found, msgspec.structs.replace(FOUND[0], place=place))
    return found.with_state(loss_list.show(found, 0))


def test_a_finding_inside_a_collective_of_another_group_selects_that_collective() -> None:
    """The chain and the drawer explain the collective that the cursor is on."""
    found = with_second_group(opened())
    inside = int((found.findings.communicators or ())[1].start_ns[7, 0]) + 10_000
    shown = at_moment(found, inside)

    assert shown.state.pane == TIMELINE
    assert (shown.state.selection.communicator, shown.state.selection.k) == (1, 7)
    assert shown.state.selection.time_ns == inside
    assert drawer.why_no_chain(shown) is None


def test_no_chain_explains_a_finding_at_which_its_rank_is_in_no_collective() -> None:
    found = with_second_group(opened())
    after = int((found.findings.communicators or ())[1].start_ns[7, 0]) + 60_000
    shown = at_moment(found, after)

    assert shown.state.selection.communicator == 0
    assert "in no collective here" in (drawer.why_no_chain(shown) or "")
    moved = shown.with_state(shown.state.select(k=1))
    assert drawer.why_no_chain(moved) is None


def test_rows_lead_through_findings_and_ranks() -> None:
    found = opened()
    third = found.with_state(view_moves.down(2)(found))
    assert (own(third).section, own(third).loss) == (Section.FINDINGS, 2)
    assert any("▶ 3 " in line for line in text(third))
    assert loss_list.open_row(found.with_state(view_moves.first_row(found))).pane == ALIGNMENT

    rank = third.with_state(view_moves.down(1)(third))
    assert (own(rank).section, own(rank).rank) == (Section.RANKS, 0)
    shown = loss_list.open_row(rank)
    assert (shown.pane, shown.selection.rank) == (TIMELINE, "5")
    others = rank.with_state(view_moves.down(1)(rank))
    assert (loss_list.open_row(others).pane, own(others).rank) == (RANKS, 1)

    last = found.with_state(view_moves.last_row(found))
    assert (own(last).section, own(last).rank) == (Section.RANKS, 1)


def test_a_click_on_a_finding_or_a_rank_shows_the_evidence() -> None:
    found = opened()

    assert loss_list.clicked(found, 1).selection.rank == "2"
    assert loss_list.clicked(found, 3).pane == TIMELINE


def test_what_is_missing_is_said_instead() -> None:
    found = opened()
    waiting = replace(found, findings=replace(found.findings, results={}))
    assert loss_list.why_no_evidence(waiting) == "still computing"
    assert loss_list.show_next(waiting) == waiting.state
    assert any("is being computed" in line for line in text(waiting))

    # Ranks are loaded before their lanes are there.
    early = replace(found, findings=replace(found.findings, results={}, lanes={}))
    assert loss_list.why_no_evidence(early) == "still computing"

    refused = literal_metrics()["tokens"].run(View(full_job(Plan())))
    absent = replace(found, findings=replace(found.findings, results={"findings": refused}))
    assert loss_list.why_no_evidence(absent) == "no workload card here"


def test_captures_are_listed_and_enter_opens_another() -> None:
    found = opened()
    job = found.session.job
    assert job is not None
    assert not any("Captures" in line for line in text(found))
    captures = tuple(msgspec.structs.replace(job.capture, name=name) for name in "ab")
    both = msgspec.structs.replace(job.discovery, captures=captures)
    several = replace(job, discovery=both, capture=captures[1])
    found = replace(found, session=replace(found.session, job=several))

    (line,) = [line for line in text(found) if "● open" in line]
    assert line.startswith("│ b ")
    assert loss_list.chosen_capture(found) is None
    rows = loss_list.sections(found)
    first = found.with_state(loss_list.to_row(found, rows[Section.FINDINGS] + rows[Section.RANKS]))
    assert (own(first).section, loss_list.chosen_capture(first)) == (Section.CAPTURES, "a")
    second = first.with_state(view_moves.down(1)(first))
    assert loss_list.chosen_capture(second) is None  # it is open


def test_of_several_captures_the_open_one_and_the_way_to_another_are_named() -> None:
    found = opened()
    job = found.session.job
    assert job is not None
    several = Note("several_captures", "2 captures: a and b", count=2)
    capture = msgspec.structs.replace(job.capture, notes=(several,))
    found = replace(found, session=replace(found.session, job=replace(job, capture=capture)))

    (note,) = notes(found)
    assert note.text == (
        f"! 2 captures: a and b; {job.capture.name} is open, 5 Files opens another"
    )
