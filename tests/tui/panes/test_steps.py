"""Steps: the slowest first, one cursor with the other panes, and a step for the window."""

from __future__ import annotations

import re

import numpy as np
from fakes import Plan, full_job, scene
from msgspec.structs import replace

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.rank_time.step_parts import StepParts, step_parts
from ccltui.metrics.findings.slow_steps import StepCulprit, StepCulprits
from ccltui.metrics.view.job_view import View
from ccltui.tui.moves import view_moves
from ccltui.tui.panes.steps import PARTS, windowed
from ccltui.tui.panes.steps import STEPS as PANE
from ccltui.tui.state.answers import Answered, Findings, ViewQuery
from ccltui.tui.state.pane_states import STEPS, Sorting
from ccltui.tui.state.query_kinds import CulpritsQuery, StepsQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.wanted_queries import answered, parts_of_steps


def opened() -> Scene:
    """Steps are in view, and divided."""
    found = scene(pane=STEPS)
    for query in PANE.queries(found):
        assert isinstance(query, ViewQuery)
        view = View(full_job(Plan()))
        found = answered(found, Answered(query, query.answer(view, found.findings)))
    return found


def text(found: Scene, height: int = 24) -> list[str]:
    planes = PANE.paint(found, height, 80)
    return [planes.row_text(y).rstrip() for y in range(planes.height)]


def test_the_slowest_is_first_and_can_be_put_in_order() -> None:
    found = opened()
    slowest = text(found)[1]

    assert slowest.startswith("▶2 ")  # 15 ms of lateness are planted in it
    assert (
        re.split(r"\s{2,}", slowest)[3] == "r5"
    )  # who keeps the others waiting, not the slowest victim
    in_order = text(found.with_state(view_moves.sort(1)(found)))
    assert [line.split()[0].strip("▶") for line in in_order[1:7]] == [*"012345"]


def test_moving_takes_the_shared_cursor_along() -> None:
    found = opened()
    moved = found.with_state(view_moves.down(1)(found))
    parts = step_parts(View(full_job(Plan())))
    row = int(np.argsort(-parts.longest_ns, kind="stable")[1])

    assert PANE.own.of(moved.state).chosen == parts.steps[row]
    assert moved.state.selection.rank == parts.labels[int(parts.slowest[row])]
    assert moved.state.selection.time_ns == int(parts.start_ns[row, int(parts.slowest[row])])
    assert view_moves.current(moved) == 1


def test_the_chosen_step_is_the_window_and_again_it_is_not() -> None:
    found = opened()
    limited = windowed(found)

    assert limited.filter.steps == (2, 2)
    found = replace(found, session=limited)
    assert windowed(found).filter.steps is None
    assert re.split(r"\s{2,}", text(found)[1])[4] == "•"


def test_ranks_of_the_chosen_step_stand_below() -> None:
    shown = text(opened())
    at = next(i for i, line in enumerate(shown) if "rank by rank" in line)

    assert shown[at].startswith("── step 2 on the devices rank by rank")
    assert sorted(line.split()[0] for line in shown[at + 1 : at + 9]) == [f"r{r}" for r in range(8)]
    low = text(opened(), 14)
    assert low[-1].startswith(" … ")


def test_the_differences_to_the_median_step_fill_the_room_below_the_ranks() -> None:
    found = opened()
    shown = text(found, 40)
    at = next(i for i, line in enumerate(shown) if " against step " in line)
    rows = {line.split()[0]: line.split()[1] for line in shown[at + 1 :] if line.strip()}

    chosen = PANE.chosen(found)
    assert chosen is not None
    median = chosen.parts.median_step
    assert median is not None
    longest = chosen.parts.longest_ns.tolist()
    assert longest[median] == sorted(longest)[(len(longest) - 1) // 2]
    usual = chosen.parts.steps[median]
    assert shown[at].startswith(f"── step {chosen.number} against step {usual}, the median")
    assert rows["compute"].startswith("+")
    assert not any(" against step " in line for line in text(found, 18))  # ranks come first


def test_the_chosen_step_names_its_culprit_and_its_differences() -> None:
    found = opened()
    above, below = (line[0][0] for line in PANE.status(found, 160))

    assert "r5 keeps the others waiting" in above
    assert "confidence: cause" in above
    assert below.startswith(" against step ")
    assert "compute +" in below
    named = [text for text, _ in PANE.legend(found, narrow=False)]
    assert any("waiting" in name for name in named)


def test_the_sentence_about_the_culprit_comes_before_the_length_where_room_is_short() -> None:
    found = opened()
    above = PANE.status(found, 160)[0][0][0]
    number, length, sentence, *_ = above.strip().split("   ")

    narrow = PANE.status(found, len(f"{number}   {sentence}") + 2)[0][0][0]

    assert length.endswith("s")
    assert narrow.strip() == f"{number}   {sentence}"


def test_without_matches_nobody_is_named_and_the_reason_stands_there() -> None:
    found = opened()
    answer = StepCulprits({}, why="1 rank found")
    for query in PANE.queries(found):
        if isinstance(query, CulpritsQuery):
            found = answered(found, Answered(query, answer))

    assert re.split(r"\s{2,}", text(found)[1])[3] == "--"
    assert "nobody is named: 1 rank found" in PANE.status(found, 160)[0][0][0]


def test_a_step_that_idle_time_makes_long_is_not_explained_by_a_small_wait() -> None:
    parts_ns = np.zeros((len(PARTS), 3, 2), np.int64)
    parts_ns[PARTS.index("compute")] = 50_000_000
    parts_ns[PARTS.index("idle"), 1, 1] = 12_000_000
    starts = np.arange(6, dtype=np.int64).reshape(3, 2) * 100_000_000
    parts = StepParts(("0", "6"), (11, 12, 13), starts, parts_ns.sum(axis=0), parts_ns)
    wait = StepCulprit(12, "0", "compute", wait_ns=6_000_000, sure=Sure(who="high"))
    culprits = StepCulprits({12: wait})
    found = opened()
    for query in PANE.queries(found):
        found = answered(
            found, Answered(query, culprits if isinstance(query, CulpritsQuery) else parts)
        )

    assert text(found)[1].split()[:2] == ["▶12", "62"]
    told = PANE.status(found, 160)[0][0][0]
    assert "on r6, from its first work to that of the next step: idle +12 ms" in told


def test_what_is_missing_is_said() -> None:
    assert PANE.why_no_rows(Scene(Session("x"))) == "no rank is loaded yet"
    found = scene(pane=STEPS)
    assert PANE.why_no_rows(found) == "the steps are still being divided into parts"
    unmarked = replace(found, findings=replace(found.findings, steps=()))
    assert PANE.why_no_rows(unmarked) == "the traces have no step markers"
    assert text(unmarked)[1] == " The traces have no step markers."
    assert not PANE.queries(unmarked)


def test_older_steps_are_shown_until_newer_are_there() -> None:
    found = opened()
    newer = replace(found, findings=replace(found.findings, generation=99))

    assert text(newer)[1].startswith("▶2 ")
    stale = Answered(StepsQuery(3), None)
    assert answered(newer, stale).answers == newer.answers
    assert Findings().steps == ()


def test_steps_are_filtered_by_number_and_by_who_keeps_the_others_waiting() -> None:
    found = opened()

    assert _numbers(found, "^4") == [4]
    assert 2 in _numbers(found, "r5")  # its lateness is planted in step 2
    assert _numbers(found, "no such") == []
    nothing = found.with_state(PANE.with_row_pattern(found, "no such"))
    assert view_moves.count(nothing) == 0
    assert PANE.why_no_rows(nothing) == "no step matches /no such/: / changes the filter"


def _numbers(found: Scene, pattern: str) -> list[int]:
    filtered = found.with_state(PANE.with_row_pattern(found, pattern))
    return [row.number for row in PANE.rows(filtered)]


def test_steps_are_sorted_by_each_part_of_their_time() -> None:
    found = opened()
    parts = parts_of_steps(found)
    assert parts is not None
    for place, column in enumerate(PARTS):
        sorted_by = found.with_state(PANE.with_sorting(found, Sorting(column)))
        rows = [row.at for row in PANE.rows(sorted_by)]
        spent = [parts.mean_ns(row)[place] for row in rows]
        assert spent == sorted(spent, reverse=True)
        assert sorted(rows) == list(range(len(parts)))
