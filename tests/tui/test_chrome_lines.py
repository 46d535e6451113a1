"""Header, tabs, status and keys, as text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes import Plan, empty_job, full_job, own_changed, scene
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from ccltui.draw.palette import SHADED, Ink
from ccltui.draw.text import Line
from ccltui.metrics.result import Reason
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import Window
from ccltui.tui import canvas, chrome_lines
from ccltui.tui.action_list import by_id
from ccltui.tui.chrome_lines import status, whole_facts
from ccltui.tui.moves import view_moves
from ccltui.tui.panes import PANES
from ccltui.tui.state.pane import pane_named
from ccltui.tui.state.pane_states import METRICS, OVERVIEW, STEPS, TIMELINE, TIMELINE_STATE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session


def text(line: Line) -> str:
    """Characters of a line."""
    return "".join(part for part, _ in line)


@pytest.mark.parametrize("width", [70, 80, 120, 200])
def test_every_line_is_as_wide_as_the_screen(width: int) -> None:
    for pane in PANES:
        found = replace(scene(pane=pane.name), notice="a notice " * 40)
        drawn = [
            chrome_lines.header(found, width),
            chrome_lines.tabs(found, width),
            *status(found, width),
            chrome_lines.keys(found, width),
            canvas.load_total(found.session, width),
            *canvas.load_files(found.session, width, 4),
        ]

        assert {len(text(line)) for line in drawn} == {width}


def test_header_tells_what_is_open_and_which_part_of_it() -> None:
    chosen = ViewOptions(Window(4_420_000_000, None), (12, 98), frozenset({0, 1}))
    found = scene()
    found = replace(found, session=replace(found.session, filter=chosen))

    assert text(chrome_lines.header(found, 100)).rstrip() == (
        " ccltui run-0421   8 ranks   32 MB   window 4s420ms/ it 12-98 ranks 0,1"
        "                         8/8"
    )


def test_header_counts_one_rank_as_one() -> None:
    assert "   1 rank   " in text(chrome_lines.header(scene(Plan(ranks=1)), 80))


def test_header_names_the_world_where_ranks_are_missing() -> None:
    found = scene(Plan(ranks=1))
    job = found.session.job
    assert job is not None
    (rank,) = job.ranks
    part = replace(job, ranks=(replace(rank, world_size=1024),))

    shown = text(chrome_lines.header(replace(found, session=replace(found.session, job=part)), 80))

    assert "   1 of 1024 ranks   " in shown


def test_header_says_of_how_many_captures_one_is_open() -> None:
    found = scene()
    job = found.session.job
    assert job is not None
    captures = tuple(replace_struct(job.capture, name=name) for name in ("run_1", "run_2"))
    both = replace_struct(job.discovery, captures=captures)
    job = replace(job, discovery=both, capture=captures[1])

    shown = text(chrome_lines.header(replace(found, session=replace(found.session, job=job)), 80))

    assert "   run_2 (1 of 2: 5)   " in shown
    assert "(1 of" not in text(chrome_lines.header(found, 80))


def test_header_cleans_the_name() -> None:
    found = Scene(Session("/data/evil\x1b[2J[bold]"))

    assert "evil␛[2J[bold]" in text(chrome_lines.header(found, 80))


def test_tabs_mark_the_pane_and_carry_its_legend() -> None:
    assert text(chrome_lines.tabs(scene(pane=TIMELINE), 80)) == (
        "  1 Over  2 Align [3 Time] 4  5  6  *  %  $      █ comp  █ both  █ net  █ wait  "
    )
    aligned = text(chrome_lines.tabs(scene(), 120))
    assert aligned.startswith("  1 Over [2 Align] 3 Time  4 Events  5 Files  6 Steps  * Kern  ")
    assert "default_pg 0-7 (84)  lag 100us" in aligned
    assert aligned.endswith(" 10ms ")


def test_names_of_panes_are_shorter_where_they_and_the_legend_have_no_room() -> None:
    assert text(chrome_lines.tabs(scene(pane=TIMELINE), 100)) == (
        "  1 Over  2 Align [3 Time] 4 Events  5 Files  6 Steps  * Kern  %  $ "
        " █ comp  █ both  █ net  █ wait  "
    )
    aligned = text(chrome_lines.tabs(scene(), 100))
    assert aligned.startswith("  1 Over [2 Align] 3 Time  4 Events  5 Files  6 Steps  * ")
    assert aligned.endswith("  lag 100us         10ms ")


@pytest.mark.parametrize("pane", [pane.name for pane in PANES])
@pytest.mark.parametrize("width", [70, 80, 100, 120])
def test_the_pane_in_view_is_always_named(pane: str, width: int) -> None:
    drawn = text(chrome_lines.tabs(scene(pane=pane), width))

    named = pane_named(pane)
    key = f"{re.escape(named.key)} " if named.key else ""
    assert re.search(rf"\[{key}({named.title}|{named.short_title})\]", drawn)


def test_tabs_shrink_to_their_keys_from_the_right() -> None:
    assert text(chrome_lines.tabs(scene(pane=STEPS), 70)) == (
        "  1  2  3  4  5 [6 Steps] *█comp █both █wait █net █bubble █copy ▒idle "
    )


def test_status_names_the_collective_and_who_was_last() -> None:
    found = scene()
    found = found.with_state(view_moves.worst(1)(found))

    above, below = status(found, 100)

    assert text(above).rstrip() == (
        " default_pg 0-7 AllReduce #40  worst 1/84  last r5  lag 12 ms  32 MiB  it 2"
    )
    assert text(below).startswith(" match confidence high   clock ±")


def test_status_says_where_the_recording_begins() -> None:
    found = scene()
    found = found.with_state(view_moves.worst(1)(found))
    assert found.communicator is not None
    begins = replace(found.communicator, begins=np.arange(84) == 40)
    found = replace(found, findings=replace(found.findings, communicators=(begins,)))

    assert "last r5  recording begins here  lag 12 ms" in text(status(found, 120)[0])


def test_pairs_that_the_clocks_disprove_blame_nobody() -> None:
    found = scene()
    found = found.with_state(view_moves.worst(1)(found))
    reason = Reason("unmatched_collectives", "in 93% of them a rank ends before another started")
    refused = replace(
        found.findings.results["straggler_lag"], status="unavailable", reasons=(reason,)
    )
    findings = replace(found.findings, results={"straggler_lag": refused})
    found = replace(found, findings=findings)

    above, below = status(found, 100)

    assert "last r5" not in text(above)
    assert text(below).rstrip() == (
        " ! pairs disproved by the clocks: in 93% of them a rank ends before another started"
    )
    assert by_id("stragglers.next").why_not(found) == (
        "nobody can be blamed: in 93% of them a rank ends before another started"
    )


def test_a_notice_takes_the_second_line() -> None:
    above, below = status(replace(scene(), notice="no later iteration"), 80)

    assert text(above).strip()
    assert text(below).rstrip() == " ! no later iteration"


def test_the_summary_defines_the_selected_metric_on_two_lines() -> None:
    found = scene(pane=METRICS)
    above, below = status(found, 40)

    assert text(above).rstrip() == " collective calls: Literal collective"
    assert text(below).rstrip() == " calls for tests, mean over ranks."


def test_keys_are_those_of_the_pane_and_help_always_fits() -> None:
    assert text(chrome_lines.keys(scene(pane=TIMELINE), 80)).rstrip() == (
        " enter why  ]/[ worst  a/d pan  ./, step  w/s zoom  0 all  t window  ? help"
    )
    for width in (20, 40, 70, 200):
        assert text(chrome_lines.keys(scene(), width)).rstrip().endswith("? help")


def test_a_prompt_has_its_own_keys() -> None:
    shown = text(chrome_lines.prompt_keys(80))

    assert shown.rstrip() == " enter accept  esc cancel  tab complete"
    assert len(shown) == 80


def test_no_key_of_matched_collectives_is_offered_where_there_are_none() -> None:
    found = scene(pane=TIMELINE)
    alone = replace(found, findings=replace(found.findings, communicators=()))

    shown = text(chrome_lines.keys(alone, 120))

    assert "worst" in text(chrome_lines.keys(found, 120))
    assert not {"worst", "comm", "why", "chain"} & set(shown.split())
    assert {"pan", "step", "zoom", "streams"} <= set(shown.split())
    waiting = replace(found, findings=replace(found.findings, communicators=None))
    assert "worst" in text(chrome_lines.keys(waiting, 120))  # not known yet


def test_no_key_of_rows_is_offered_where_a_loaded_job_has_none() -> None:
    found = scene(pane=STEPS)
    none = replace(found, findings=replace(found.findings, steps=()))
    assert pane_named(STEPS).count(none) == 0
    loading = replace(none, session=replace(none.session, phase="loading"))

    assert "sort" in text(chrome_lines.keys(loading, 200))  # rows may come
    shown = text(chrome_lines.keys(replace(none, session=_loaded(none.session)), 200))

    assert not {"sort", "filter", "versus", "alone"} & set(shown.split())
    assert {"window", "export", "quit"} <= set(shown.split())


def _loaded(session: Session) -> Session:
    return replace(session, phase="ready")


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("unfolds", [True, False])
def test_the_legend_of_the_timeline_has_every_colour(width: int, unfolds: bool) -> None:
    found = scene(pane=TIMELINE)
    if unfolds:
        found = found.with_state(replace(found.state, unfolded=("0",)))

    line = chrome_lines.tabs(found, width)

    inks = {ink - SHADED if ink >= SHADED else ink for text, ink in line if text in "█▒"}
    work = {Ink.COMPUTE, Ink.TRANSFER, Ink.OVERLAPPED, Ink.WAITING}
    causes = {Ink.HOST, Ink.INPUT, Ink.BLOCKED, Ink.DELAY, Ink.IDLE}
    assert inks - {Ink.COPY} == (work | causes if unfolds else work)
    assert "[3 Time" in text(line)


def test_loading_shows_a_bar_for_each_file_and_one_in_all() -> None:
    plan = Plan(ranks=4)
    session = Session("run").opened(empty_job(plan)).progressed({"rank1.json": 2_000_000})
    session = session.with_job(full_job(plan), {"rank0.json": ""})
    session = session.with_job(full_job(plan), {"rank3.json": "x"})

    assert text(canvas.load_total(session, 110)) == (
        " loading ███████████████           4/4 ranks  10 MB of 16 MB"
        "                esc stops and keeps what is there "
    )
    (row,) = canvas.load_files(session, 80, 1)
    assert text(row).rstrip() == (
        " r1     ████▌      r2                r3     x failed   r0     █████████"
    )


def test_too_small_says_what_is_needed() -> None:
    above, below = chrome_lines.too_small(scene(), 60, 15)

    assert text(above).rstrip() == " Terminal is 60x15; ccltui needs 70x18."
    assert text(below).rstrip() == " Headless: ccltui /nowhere/run-0421 --metric all"


def test_what_is_cut_leaves_an_ellipsis_and_blanks_do_not() -> None:
    assert chrome_lines.cut([("six so", 1), ("far", 2)], 8, 0) == [("six so", 1), ("f…", 2)]
    assert chrome_lines.cut([("six so    ", 1)], 8, 0) == [("six so  ", 1)]
    assert chrome_lines.cut([("six", 1)], 5, 0) == [("six", 1), ("  ", 0)]


def test_a_status_names_whole_facts_only() -> None:
    found = scene(pane=TIMELINE)
    wide = text(status(found, 200)[0])
    facts = [fact for fact in wide.strip().split("   ") if fact]
    assert len(facts) == 4

    for width in range(70, 200):
        kept = text(status(found, width)[0]).strip().split("   ")
        assert kept == [fact for fact in facts if fact in kept]
        assert kept[0] == facts[0]


def test_the_summary_names_the_iterations_that_numbers_are_of() -> None:
    found = scene(pane=OVERVIEW)
    steps = found.findings.steps
    second = steps[1]

    def legend(chosen: ViewOptions) -> str:
        drawn = replace(found, session=replace(found.session, filter=chosen))
        return text(chrome_lines.tabs(drawn, 100))

    assert legend(ViewOptions(steps=(second.id, second.id))).endswith(f" iteration {second.id} ")
    rest = ViewOptions(Window(second.start_ns, None))
    assert f"iterations {second.id}-{steps[-1].id} (n={len(steps) - 1})" in legend(rest)
    assert "iteration" not in legend(ViewOptions(Window(second.start_ns + 1, second.end_ns - 1)))


def test_without_colour_the_legend_names_what_can_be_told_apart() -> None:
    plain = replace(scene(pane=TIMELINE), colour=False)
    merged = own_changed(plain, TIMELINE_STATE, merged=True)

    assert text(chrome_lines.tabs(plain, 120)).rstrip().endswith("compute, network below it")
    assert "█ compute  ░ overlapped  ▒ transfer  ▓ waiting" in text(chrome_lines.tabs(merged, 120))


def test_one_iteration_is_no_range() -> None:
    found = scene(pane=OVERVIEW)
    step = found.findings.steps[0]
    one = replace(found, findings=replace(found.findings, steps=(step,)))

    assert text(chrome_lines.tabs(one, 100)).endswith(f" iteration {step.id} ")
    assert f"iterations {step.id}-" in text(chrome_lines.tabs(found, 100))


def test_facts_that_do_not_fit_are_left_out_whole() -> None:
    facts: Line = [(" step 3   6 ms", 0), ("   idle 4 ms", 1), ("   confidence low; n = 3", 2)]

    assert whole_facts(facts, 60) == facts
    assert text(whole_facts(facts, 40)) == " step 3   6 ms   idle 4 ms …"
    assert text(whole_facts(facts, 46)) == " step 3   6 ms   idle 4 ms   confidence low …"
    assert all(len(text(whole_facts(facts, width))) <= width for width in range(24, 48))


def test_a_long_first_fact_is_cut_where_the_line_ends() -> None:
    name: Line = [(" one_name_that_is_longer_than_any_line   5 us", 0)]

    assert whole_facts(name, 30) == name


def test_a_notice_that_is_longer_than_a_line_takes_both() -> None:
    notice = "no text of nsys stats and no all-to-all here; ccltui stats prints the tables of it"
    drawn = [text(line).rstrip() for line in status(replace(scene(), notice=notice), 80)]

    assert " ".join(" ".join(drawn).split()) == f"! {notice}"
    assert drawn[0].startswith(" ! no text")
    assert drawn[1].startswith("   ")
