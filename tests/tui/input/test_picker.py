"""Lists of communicators, ranks, steps and kernels with figures, to go to one."""

from __future__ import annotations

import pytest
from explorers import Settle, Start, screen
from fakes import Plan, full_job, scene
from msgspec.structs import replace

from ccltui.metrics.device.work_pivot import pivot_columns
from ccltui.metrics.findings.rank_time.step_parts import step_parts
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.tui.input.picker import KINDS, Picker
from ccltui.tui.input.prompted_list import Chosen, Entry, Prompt, misfit
from ccltui.tui.panes.steps import STEPS as STEPS_PANE
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.pane_states import ALIGNMENT, KERNELS, OVERVIEW, STEPS, TIMELINE
from ccltui.tui.state.query_kinds import NamesQuery, StepsQuery
from ccltui.tui.state.scene import Picked, Scene
from ccltui.tui.state.view_state import ViewState


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("flash", "flash_bwd kernel", 0),
        ("kernel flash", "flash_bwd kernel", 0),
        ("ker", "flash_bwd kernel", 1),
        ("ash", "flash_bwd kernel", 2),
        ("fbk", "flash_bwd kernel", 3),
        ("krnl", "flash_bwd kernel", 3),
        ("lnrk", "flash_bwd kernel", None),
        ("FLASH", "flash_bwd kernel", 0),
        ("", "anything", 0),
        ("flash zz", "flash_bwd kernel", None),
    ],
)
def test_words_fit_as_words_beginnings_parts_or_abbreviations(
    words: str, text: str, expected: int | None
) -> None:
    assert misfit(words, text) == expected


def with_two(found: Scene) -> Scene:
    """The scene with a second communicator."""
    (one,) = found.findings.communicators or ()
    two = replace(one, name="tp 0,1")
    return replace(found, findings=replace(found.findings, communicators=(one, two)))


def places(found: Scene, kind: Picked) -> list[Entry]:
    return KINDS[kind].places(found)


def figures(place: Entry, kind: Picked) -> list[str]:
    """What the columns after the name print."""
    return [column.cell(place, 80) for column in KINDS[kind].columns[1:]]


def shown(place: Entry) -> ViewState:
    state = place.choose().state
    assert state is not None
    return state


def typed(kind: Picked, text: str) -> Picker:
    return Picker(kind=kind, prompt=Prompt.asking("", text))


def chosen(picker: Picker, found: Scene) -> ViewState:
    after = picker.press("enter", None, found, {})
    assert isinstance(after, Chosen)
    assert after.state is not None
    return after.state


def test_a_communicator_by_a_part_of_its_name_or_the_next_one() -> None:
    found = with_two(scene())

    assert chosen(typed(Picked.COMMUNICATORS, "TP"), found).selection.communicator == 1
    state = chosen(Picker.of(Picked.COMMUNICATORS, found), found)
    assert state.selection.communicator == 1
    again = chosen(
        Picker.of(Picked.COMMUNICATORS, found.with_state(state)), found.with_state(state)
    )
    assert again.selection.communicator == 0


def test_a_communicator_has_the_figures_of_the_metric() -> None:
    found = scene()
    result = find("parallelism").run(View(full_job(Plan())))
    results = {**found.findings.results, "parallelism": result}
    found = replace(found, findings=replace(found.findings, results=results))
    (row,) = result.details["groups"]
    (place,) = places(found, Picked.COMMUNICATORS)

    calls, *_, worst = figures(place, Picked.COMMUNICATORS)[1:]
    assert calls == f"{row['calls']:,}"
    assert worst == ("--" if row["worst_rank"] is None else f"r{row['worst_rank']}")


def test_unknown_figures_are_not_zero() -> None:
    (place,) = places(scene(), Picked.COMMUNICATORS)

    assert (
        figures(place, Picked.COMMUNICATORS)[1:] == ["\u2026"] * 4
    )  # the metric is not computed yet


def test_a_rank_is_shown_where_ranks_are() -> None:
    found = scene(pane=OVERVIEW)
    state = chosen(typed(Picked.RANKS, "r5"), found)

    assert (state.pane, state.selection.rank) == (TIMELINE, "5")
    stays = chosen(typed(Picked.RANKS, "r5"), scene(pane=ALIGNMENT))
    assert (stays.pane, stays.selection.rank) == (ALIGNMENT, "5")


def test_the_slowest_step_is_first_and_is_chosen() -> None:
    found = scene(pane=OVERVIEW)
    parts = step_parts(View(full_job(Plan())))
    query = StepsQuery(found.findings.generation)
    found = replace(found, answers=found.answers.with_result(Answered(query, parts)))
    slowest = parts.steps[int(parts.longest_ns.argmax())]
    first = places(found, Picked.STEPS)[0]

    assert first.name == f"step {slowest}"
    state = shown(first)
    assert (state.pane, STEPS_PANE.own.of(state).chosen) == (STEPS, slowest)


def test_a_kernel_has_the_figures_of_the_table_and_is_selected_there() -> None:
    found = replace(scene(pane=OVERVIEW), picking=Picked.KERNELS)
    table = pivot_columns(View(full_job(Plan())), "name")
    query = NamesQuery(found.findings.generation, "name")
    found = replace(found, answers=found.answers.with_result(Answered(query, table)))
    listed = places(found, Picked.KERNELS)

    assert [place.name for place in listed] == list(table.name)
    assert figures(listed[0], Picked.KERNELS)[2] == f"{int(table.calls[0]):,}"
    assert shown(listed[-1]).pane == KERNELS


def test_nothing_to_choose_has_its_reason() -> None:
    found = scene(Plan(ranks=1))
    after = Picker(kind=Picked.COMMUNICATORS).press("enter", None, found, {})

    assert isinstance(after, Picker)
    assert after.prompt.problem == "no collective is matched across ranks"
    none = typed(Picked.RANKS, "no such").press("enter", None, scene(), {})
    assert isinstance(none, Picker)
    assert none.prompt.problem == "no rank matches 'no such'"


@pytest.mark.parametrize(("width", "height"), [(70, 18), (120, 40)])
@pytest.mark.parametrize("kind", Picked)
def test_a_page_is_as_large_as_the_screen(width: int, height: int, kind: Picked) -> None:
    page = Picker(kind=kind).page(scene(), {}, width, height)

    assert len(page) == height
    assert {sum(len(text) for text, _ in line) for line in page} == {width}


async def test_in_the_explorer(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("at", *"r3", "enter")
        assert app.scene.state.selection.rank == "3"
        assert not app.scene.picking

        await pilot.press("6", "at")
        await settle(pilot)
        assert any("on device" in row for row in screen(app))
        await pilot.press("tab")
        await settle(pilot)
        assert "[kernels]" in screen(app)[0]
        await pilot.press("enter")
        assert app.scene.state.pane == KERNELS
        await pilot.press("at", "escape")
        assert not app.scene.picking
