"""The two lines about the cursor: what is selected in the pane in view, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.text import fit, fit_middle, wrap
from ccltui.tui.chrome.chrome_lines import GAP, Line, cut, spread, told
from ccltui.tui.moves import loss_list, step_rows
from ccltui.tui.moves.kernel_at import running_at_cursor
from ccltui.tui.moves.search_steps import count_text
from ccltui.tui.state import side_tables
from ccltui.tui.state.file_rows import file_rows
from ccltui.tui.state.queries import steps_told
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.summary_rows import chosen_metric, fallback, leading, rank_columns
from ccltui.tui.state.view_state import Pane, Section

_KERNEL_NAME = 30


def status(scene: Scene, width: int) -> list[Line]:
    """Two lines about the cursor; a notice takes the second."""
    above, below = _status(scene, width)
    below = told(scene) or below
    session, findings = scene.session, scene.findings
    current = findings.complete and findings.generation == session.generation
    waiting = not current and session.ranks_loaded + session.ranks_partly > 0
    search = count_text(scene)
    right: Line = [(f" {search} ", Ink.HIT)] if search else []
    right += [("computing ", Ink.DIM)] if waiting else []
    return [cut(above, width, Ink.TEXT), spread(below, right, width, Ink.TEXT)]


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    if scene.session.phase == "failed":
        return [(f" x {scene.session.problem}", Ink.ERROR)], []
    if scene.state.pane is Pane.SUMMARY:
        return _definition(scene, width)
    collective: Line = [(f" {collective_text(scene)}", Ink.TEXT)]
    if scene.state.pane is Pane.FILES:
        return _file_text(scene)
    if scene.state.pane in side_tables.PANES:
        return [(f" {side_tables.definition(scene)}", Ink.TEXT)], []
    if scene.state.pane is Pane.STEPS:
        return [(f" {_step_text(scene)}", Ink.TEXT)], collective
    if scene.state.pane is Pane.EVENTS:
        return collective, [(f" {_event_text(scene)}", Ink.DIM)]
    if scene.state.pane is Pane.TIMELINE:
        measured = area_text(scene)
        below: Line = [(f" {measured}", Ink.STRONG)] if measured else collective
        return [(f" {_time_text(scene, width - 2)}", Ink.TEXT)], below
    if scene.disproved:
        text = f" ! pairs disproved by the clocks: {scene.disproved}"
        return collective, [(text, Ink.WARNING)]
    floor = numbers.short_duration(scene.state.floor_ns)
    order = f"ranks by {scene.state.order.value}"
    if scene.state.ranks_in_view:
        order += f", {scene.state.ranks_in_view} of {len(scene.members)}"
    clock = "" if scene.communicator is None else scene.communicator.clock
    parts = [_match_text(scene), clock, f"floor {floor}", order]
    sure = _whole([part for part in parts if part], width - 2)
    return collective, [(f" {sure}", Ink.DIM)]


def _definition(scene: Scene, width: int) -> tuple[Line, Line]:
    metric = chosen_metric(scene)
    if metric is None:
        return [], []
    if scene.state.section is Section.LOSSES and loss_list.losses(scene):
        at = min(scene.state.loss or 0, len(loss_list.losses(scene)) - 1)
        text = wrap(loss_list.losses(scene)[at]["sentence"], width - 2, most=1)
        return [(f" {text[0]}", Ink.TEXT)], [(" enter shows where; ! shows the next", Ink.DIM)]
    result = scene.findings.results.get(metric.name)
    text = wrap(f"{metric.title}: {metric.definition}", width - 2, most=2)
    above: Line = [(f" {text[0]}", Ink.TEXT)]
    if len(text) > 1 or result is None:
        return above, [(f" {line}", Ink.TEXT) for line in text[1:]]
    parts = [f"{key}: {value}" for key, value in result.basis.items()]
    labels = tuple(scene.findings.lanes)
    columns = rank_columns(result, labels)
    if leading(columns, metric.headline) is None and fallback(columns) is not None:
        parts = [f"(by rank): {fallback(columns)}", *parts]
    return above, [(f" {GAP.join(parts)}", Ink.DIM)]


def collective_text(scene: Scene) -> str:
    """The selected collective in words."""
    communicator, k = scene.communicator, scene.state.selection.k
    if communicator is None or k is None or k >= len(communicator):
        return ""
    size, step = int(communicator.message_bytes[k]), int(communicator.step[k])
    lag = int(communicator.lag_ns[k])
    culprit = None if scene.disproved else communicator.culprit(k)
    place = scene.state.worst
    name, kind = fit_middle(communicator.name, 30), communicator.kind[communicator.kind_id[k]]
    parts = [
        f"{name} {kind} #{numbers.count(k)}",
        f"worst {place + 1}/{len(communicator.by_harm)}" if place is not None else "",
        f"last {rank_name(culprit)}" if culprit is not None else "",
        "recording begins here" if communicator.begins[k] else "",
        f"lag {numbers.duration(lag)}" if lag >= 0 else "not matched on all ranks",
        numbers.binary_size(size) if size >= 0 else "",
        f"it {step}" if step >= 0 else "",
    ]
    return "  ".join(part for part in parts if part)


def _match_text(scene: Scene) -> str:
    communicator, k = scene.communicator, scene.state.selection.k
    if communicator is None or k is None or k >= len(communicator):
        return ""
    return f"match {('low', 'medium', 'high')[communicator.confidence[k]]}"


def _step_text(scene: Scene) -> str:
    """The chosen step: how long it is against the middle one, and what its parts are."""
    parts, step = steps_told(scene), step_rows.chosen(scene)
    if parts is None or step is None:
        return ""
    from ccltui.metrics.device.step_parts import PARTS  # noqa: PLC0415  (numpy: the screen paints before)

    row = parts.steps.index(step)
    longest, shares = int(parts.longest_ns[row]), parts.mean_shares(row)
    told = [f"{name} {share:.0%}" for name, share in zip(PARTS, shares, strict=True)]
    over = f"{numbers.signed_duration(longest - parts.median_ns)} against the median step"
    return GAP.join([f"step {step}  {numbers.duration(longest)}  {over}", "  ".join(told)])


def _file_text(scene: Scene) -> tuple[Line, Line]:
    """Full name and state of the selected file."""
    found = file_rows(scene)
    if not found:
        return [], []
    name, kind, _, size, state = found[min(scene.state.file, len(found) - 1)].cells
    return [(f" {name}   {kind}   {size}", Ink.TEXT)], [(f" {state}", Ink.DIM)]


def area_text(scene: Scene) -> str:
    """What is measured on the timeline."""
    if scene.state.area is None:
        return ""
    from ccltui.tui.moves import measured_area  # noqa: PLC0415  (numpy: the screen paints before)

    return measured_area.text(scene)


def _event_text(scene: Scene) -> str:
    """Full name of the selected row, and its place."""
    events = scene.events
    if events is None or not len(events):
        return ""
    at = events.at(scene)
    place = f"row {numbers.count(at + 1)} of {numbers.count(len(events))}"
    total = "" if len(events) == events.total else f" ({numbers.count(events.total)} unfiltered)"
    return f"{place}{total}   {events.name_of(int(events.order[at]))}"


def _time_text(scene: Scene, width: int) -> str:
    view, selection = scene.state.time, scene.state.selection
    cursor = "--" if selection.time_ns is None else numbers.instant(selection.time_ns, view.cell_ns)
    rank = "" if selection.rank is None else rank_name(selection.rank)
    left = numbers.instant(view.left_ns, view.cell_ns)
    parts = [
        f"at {cursor}  {rank} {_running_text(scene)}",
        f"cell {numbers.duration(view.cell_ns)}",
        f"view {left} +{numbers.duration(view.cells * view.cell_ns)}",
        scene.findings.clock,
    ]
    return _whole(parts, width)


def _whole(parts: Sequence[str], width: int) -> str:
    """As many parts as there is room for, none of them cut but the first."""
    text = parts[0]
    for part in parts[1:]:
        if part and len(text) + len(GAP) + len(part) <= width:
            text += GAP + part
    return text


def _running_text(scene: Scene) -> str:
    """The kernel under the cursor, or that there is none."""
    running = running_at_cursor(scene)
    if running is None:
        return "idle"
    stream = f"s{running.stream} " if running.stream >= 0 else ""
    name = fit(running.name, _KERNEL_NAME).rstrip()
    return f"{stream}{name} {numbers.duration(running.dur_ns)}"
