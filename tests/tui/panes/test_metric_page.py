"""The page of one metric or one remark, and the rows of remarks that lead there."""

from __future__ import annotations

from fakes import Plan, own_changed, scene, trace
from msgspec.structs import replace

from ccltui.parsers.columns import Note
from ccltui.tui.moves import view_moves
from ccltui.tui.panes import metrics
from ccltui.tui.panes.metrics import METRIC as PAGE
from ccltui.tui.panes.metrics import METRICS as PANE
from ccltui.tui.state.notes import notes
from ccltui.tui.state.pane_states import METRIC, METRICS, OVERVIEW
from ccltui.tui.state.scene import Scene


def opened(*noted: Note, ranks: int = 1) -> Scene:
    """The list of metrics of a job whose first ranks have remarks."""
    found = scene(pane=METRICS)
    job = found.session.job
    assert job is not None
    with_notes = [trace(Plan(), rank, (noted[rank],)) for rank in range(min(ranks, len(noted)))]
    job = replace(job, ranks=(*with_notes, *job.ranks[len(with_notes) :]))
    return replace(found, session=replace(found.session, job=job))


def text(found: Scene, height: int = 40) -> list[str]:
    planes = (PAGE if found.state.pane == METRIC else PANE).paint(found, height, 80)
    return [planes.row_text(y).rstrip() for y in range(height)]


def test_an_opened_metric_has_its_whole_definition_and_its_tables() -> None:
    found = own_changed(opened(), PANE.own, chosen="step_ms")
    page = found.with_state(metrics.enter(found))
    shown = text(page)

    assert page.state.pane == METRIC
    assert shown[0] == "▶step time (step_ms): Literal step time for tests, mean over ranks."
    assert shown[1] == " needs GPU kernels; --metric step_ms prints it"
    assert shown[2] == " window: step"
    assert shown[4] == " step time, by rank"


def test_its_tables_are_sorted_and_written() -> None:
    found = own_changed(opened(), PANE.own, chosen="step_ms")
    page = found.with_state(metrics.enter(found))
    assert "step_ms" in PAGE.sort_columns(page)

    by_value = page.with_state(view_moves.sort(2)(page))
    at = next(y for y, line in enumerate(text(by_value)) if line.startswith(" rank"))
    assert text(by_value)[at + 1].startswith(" r2 ")
    rows = list(PAGE.records(page))
    assert rows[0]["value"] == 18.82
    assert [row["rank"] for row in rows[1:]] == list("01234567")


def test_escape_and_the_key_of_a_pane_lead_back() -> None:
    found = own_changed(opened(), PANE.own, chosen="step_ms")
    page = found.with_state(metrics.enter(found))

    assert view_moves.is_open(page)
    back = page.with_state(view_moves.back(page))
    assert back.state.pane == METRICS
    assert view_moves.back(back).pane == OVERVIEW
    assert view_moves.open_pane(METRICS)(back).pane == OVERVIEW


def test_of_fewer_remarks_another_is_chosen() -> None:
    noted = [Note("bad", f"of {'ab'[rank]}") for rank in (0, 1)]
    both, one, none = opened(*noted, ranks=2), opened(*noted, ranks=1), opened()
    last = both.with_state(view_moves.last_row(both)).state

    assert any(line.startswith("▶! r1: of b") for line in text(both.with_state(last)))
    assert any(line.startswith("▶! r0: of a") for line in text(one.with_state(last)))
    assert text(none.with_state(last))


def test_remarks_open_with_what_can_be_done() -> None:
    found = opened(Note("truncated_trace", "the file ends at byte 77 \x1b[31m"))

    assert [one.text for one in notes(found)] == ["! r0: the file ends at byte 77 \x1b[31m"]
    last = found.with_state(view_moves.last_row(found))
    assert any(line.startswith("▶! r0: the file ends") for line in text(last))
    (above, below) = PANE.status(last, 80)
    assert "the process was killed" in above[0][0] + below[0][0]
    shown = text(last.with_state(metrics.enter(last)))
    assert shown[0] == "▶! r0: the file ends at byte 77 ␛[31m"
    assert "the process was killed" in "".join(shown)


def test_a_remark_stays_below_its_heading_when_it_is_filtered() -> None:
    found = opened(Note("bad", "one is odd"))
    typed = found.with_state(PANE.with_row_pattern(found, "odd"))

    assert [row.name for row in PANE.rows(typed)] == [metrics.REMARKS, "! r0: one is odd"]
