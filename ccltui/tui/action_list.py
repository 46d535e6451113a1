"""Registry of all actions of the explorer: id, keys, help, panes and reason if unavailable.

The dispatcher, the help screen, the key line and the documentation all read this registry.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Final

from ccltui.tui.action import GENERAL, Action, Effect, Where, WhyNot, only
from ccltui.tui.moves import chart_moves, drawer, loss_list, time_moves, view_moves
from ccltui.tui.moves.cursor import no_collectives, no_time
from ccltui.tui.panes import (
    files,
    hours,
    kernels,
    metrics,
    parallelism_pane,
    ranks_pane,
    runs_and_machines,
)
from ccltui.tui.state import pane_states
from ccltui.tui.state.pane import Axis, Pane, all_panes, pane_in_view, pane_named
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


def nothing_to_write(scene: Scene) -> str | None:
    """Return the reason when there is nothing to export."""
    return pane_in_view(scene).why_no_export(scene)


def chart_is_empty(scene: Scene) -> str | None:
    """Return the reason when the chart in view is empty."""
    return no_time(scene) if pane_in_view(scene).axis is Axis.TIME else no_collectives(scene)


def no_rows_to_filter(scene: Scene) -> str | None:
    """Return the reason when there is no row that a filter could keep."""
    pane = pane_in_view(scene)
    return None if pane.row_pattern(scene) else view_moves.why_none(scene)


def no_worst(scene: Scene) -> str | None:
    """Return the reason when no rank can be blamed in any communicator."""
    communicators = scene.findings.communicators
    if not communicators or not any(len(one) for one in communicators):
        return no_collectives(scene)
    if scene.disproved:
        return f"nobody can be blamed: {scene.disproved}"
    if not scene.num_worst:
        return "no rank is late by more than the error of the clocks"
    return None


def no_other_communicator(scene: Scene) -> str | None:
    """Return the reason when there is no second communicator."""
    communicators = scene.findings.communicators
    if communicators is not None and len(communicators) == 1:
        return f"{communicators[0].name} is the only communicator"
    return None if communicators else no_collectives(scene)


def none_over_floor(direction: int) -> WhyNot:
    """Return the check for a further lag above the floor in a direction."""

    def why_not(scene: Scene) -> str | None:
        empty = no_collectives(scene)
        if empty is None and scene.disproved:
            return f"nobody can be blamed: {scene.disproved}"
        if empty is not None or view_moves.next_over_floor(scene, direction) is not None:
            return empty
        return f"no {'later' if direction > 0 else 'earlier'} lag over the floor: < lowers it"

    return why_not


def no_event(direction: int) -> WhyNot:
    """Return the check for a further collective of the rank, or edge to measure up to."""

    def why_not(scene: Scene) -> str | None:
        empty = no_time(scene) if time_moves.is_measuring(scene) else no_collectives(scene)
        return time_moves.why_no_event(scene, direction) if empty is None else empty

    return why_not


def no_iteration(direction: int) -> WhyNot:
    """Return the check for a further step in a direction."""

    def why_not(scene: Scene) -> str | None:
        if not scene.findings.steps:
            return "the traces have no step markers"
        if time_moves.next_iteration(scene, direction) is None:
            return f"no {'later' if direction > 0 else 'earlier'} iteration"
        return None

    return why_not


def no_window(scene: Scene) -> str | None:
    """Return the reason when no window is set."""
    return None if scene.session.filter.limits_time else "no window is set: t sets one"


def no_view_before(scene: Scene) -> str | None:
    """Return the reason when this is the first view."""
    return None if scene.history.before else "no view before this one"


def no_view_after(scene: Scene) -> str | None:
    """Return the reason when this is the last view."""
    return None if scene.history.after else "no view after this one: backspace goes back"


def no_window_here(scene: Scene) -> str | None:
    """Return the reason when the area in view makes no window."""
    return time_moves.why_no_window(scene)


def nothing_to_go_back(scene: Scene) -> str | None:
    """Return the reason when nothing is open that could be closed."""
    if view_moves.is_open(scene) or scene.session.busy:
        return None
    return "nothing is open: q quits"


ALIGNMENT: Final = only(pane_states.ALIGNMENT)
TIMELINE: Final = only(pane_states.TIMELINE)
OVERVIEW: Final = only(pane_states.OVERVIEW)
METRICS: Final = only(pane_states.METRICS)
WITH_METRICS: Final = only(pane_states.OVERVIEW, pane_states.METRICS)
EVENTS: Final = only(pane_states.EVENTS)
FILES: Final = only(pane_states.FILES)
STEPS: Final = only(pane_states.STEPS)
RUNS: Final = only(pane_states.RUNS)
KERNELS: Final = only(pane_states.TIMELINE, pane_states.EVENTS)
WORK: Final = only(pane_states.KERNELS)
DIMENSIONS: Final = only(pane_states.PARALLELISM)
RANKS: Final = only(pane_states.RANKS)
HOURS: Final = only(pane_states.HOURS)
INSPECTED: Final = only(
    pane_states.ALIGNMENT, pane_states.TIMELINE, pane_states.EVENTS, pane_states.KERNELS
)
COMPARED: Final = only(pane_states.TIMELINE, pane_states.STEPS)
LATE: Final = only(
    pane_states.OVERVIEW, pane_states.ALIGNMENT, pane_states.TIMELINE, pane_states.EVENTS
)
FILTERED: Final[Where] = attrgetter("is_filtered")
CHARTS: Final[Where] = attrgetter("is_chart")
SEARCHED: Final[Where] = attrgetter("is_searchable")
SORTED: Final[Where] = attrgetter("is_sorted")
WITH_COLUMNS: Final[Where] = attrgetter("has_columns")
WITH_DRAWER: Final[Where] = attrgetter("has_drawer")

GROUPS: Final = ("panes", "stragglers", "move", "view", "find", "filter", "out", "app")


def _measure(scene: Scene) -> ViewState:
    from ccltui.tui.moves import time_moves  # noqa: PLC0415  (numpy: after the first paint)

    return time_moves.measure(scene)


_OTHERS: Final[tuple[Action, ...]] = (
    Action("pane.next", ("tab",), "next pane; drawer", "panes", view_moves.tab,
           pair="pane.previous", pair_help="next; drawer; previous"),
    Action("pane.previous", ("shift+tab",), "previous pane", "panes", view_moves.next_pane(-1)),
    Action("open.ranks", ("enter",), "proof; rank; capture", "panes",
           Effect.OPEN_ROW, OVERVIEW, view_moves.why_none, hint="open"),
    Action("open.metric", ("enter",), "tables; fold; advice", "panes", metrics.enter, METRICS,
           view_moves.why_none, hint="open"),
    Action("view.fold", ("space",), "fold, unfold a group", "view", view_moves.fold, METRICS,
           metrics.why_not_fold),
    Action("metrics.hide", ("H",), "hide this metric; show all", "view", metrics.hide, METRICS,
           metrics.why_not_hide),
    Action("view.unavailable", ("u",), "list what is unavailable", "view",
           metrics.with_unavailable, WITH_METRICS, metrics.why_none_unavailable),
    Action("open.step", ("enter",), "all panes: this step alone", "panes", Effect.STEP_HERE,
           STEPS, view_moves.why_none, hint="this step alone"),
    Action("open.detail", ("enter",), "why late; inspect other work", "panes", drawer.enter,
           SEARCHED, drawer.why_not_enter, hint="why"),
    Action("open.capture", ("enter",), "open this capture", "panes", Effect.OPEN_CAPTURE,
           FILES, files.why_no_capture, hint="open"),
    Action("open.run", ("enter",), "traces of this run", "panes", Effect.OPEN_RUN, RUNS,
           runs_and_machines.why_no_capture, hint="its traces"),
    Action("open.longest", ("enter",), "its longest instance", "panes", kernels.to_longest,
           WORK, kernels.why_no_longest, hint="longest"),
    Action("open.dimension", ("enter",), "its worst collective", "panes",
           parallelism_pane.to_worst, DIMENSIONS, parallelism_pane.why_not_open, hint="its worst"),
    Action("view.groups", ("space",), "fold, unfold its groups", "view", view_moves.fold,
           DIMENSIONS, view_moves.why_none, hint="groups"),
    Action("open.rank_row", ("enter",), "its ranks; a rank's timeline", "panes",
           ranks_pane.enter, RANKS, view_moves.why_none, hint="open"),
    Action("ranks.by", ("C",), "by node, group, share, rank", "view", view_moves.next_kind,
           RANKS, view_moves.why_none, hint="by"),
    Action("app.back", ("escape",), "close; back; stop loading", "panes", Effect.BACK,
           why_not=nothing_to_go_back),
    Action("stragglers.next", ("]",), "next worst", "stragglers", view_moves.worst(1),
           why_not=no_worst, hint="worst", pair="stragglers.previous",
           pair_help="next, previous worst of all"),
    Action("stragglers.previous", ("[",), "previous worst", "stragglers", view_moves.worst(-1),
           why_not=no_worst),
    Action("stragglers.next_over", ("}",), "next over the floor", "stragglers",
           view_moves.over_floor(1), why_not=none_over_floor(1),
           pair="stragglers.previous_over",
           pair_help="next, previous over floor"),
    Action("stragglers.previous_over", ("{",), "previous over the floor", "stragglers",
           view_moves.over_floor(-1), why_not=none_over_floor(-1)),
    Action("stragglers.raise_floor", (">",), "floor x2", "stragglers",
           view_moves.floor(higher=True),
           SEARCHED, pair="stragglers.lower_floor", pair_help="floor x2, /2"),
    Action("stragglers.lower_floor", ("<",), "floor /2", "stragglers",
           view_moves.floor(higher=False), SEARCHED),
    Action("move.left", ("h", "left"), "one cell or collective left", "move", view_moves.across(-1),
           CHARTS, chart_is_empty, pair="move.right", pair_help="cell or collective"),
    Action("move.right", ("l", "right"), "one cell or collective right", "move",
           view_moves.across(1), CHARTS, chart_is_empty),
    Action("move.down", ("j", "down"), "one row down", "move", view_moves.down(1),
           why_not=view_moves.why_none, pair="move.up", pair_help="row"),
    Action("move.up", ("k", "up"), "one row up", "move", view_moves.down(-1),
           why_not=view_moves.why_none),
    Action("move.page_left", ("H", "shift+left"), "a page left", "move", view_moves.page_across(-1),
           CHARTS, chart_is_empty, pair="move.page_right", pair_help="page across"),
    Action("move.page_right", ("L", "shift+right"), "a page right", "move",
           view_moves.page_across(1), CHARTS, chart_is_empty),
    Action("move.page_down", ("J", "pagedown", "shift+down"), "a page of rows down", "move",
           view_moves.page_down(1), why_not=view_moves.why_none, pair="move.page_up",
           pair_help="page of rows"),
    Action("move.page_up", ("K", "pageup", "shift+up"), "a page of rows up", "move",
           view_moves.page_down(-1), why_not=view_moves.why_none),
    Action("move.first_row", ("g g", "home"), "first row", "move", view_moves.first_row,
           why_not=view_moves.why_none, pair="move.last_row", pair_help="first, last row"),
    Action("move.last_row", ("G", "end"), "last row", "move", view_moves.last_row,
           why_not=view_moves.why_none),
    Action("move.pan_left", ("a",), "pan 10 % left", "move", view_moves.pan(-1), CHARTS,
           chart_is_empty, hint="pan", pair="move.pan_right", pair_help="pan 10 %"),
    Action("move.pan_right", ("d",), "pan 10 % right", "move", view_moves.pan(1), CHARTS,
           chart_is_empty),
    Action("move.pan_page_left", ("A",), "pan 90 % left", "move", view_moves.pan(-9), CHARTS,
           chart_is_empty, pair="move.pan_page_right", pair_help="pan 90 %"),
    Action("move.pan_page_right", ("D",), "pan 90 % right", "move", view_moves.pan(9), CHARTS,
           chart_is_empty),
    Action("events.next", (".",), "next collective", "move", time_moves.event(1), CHARTS,
           no_event(1), hint="step", pair="events.previous",
           pair_help="collective; area: work edges"),
    Action("events.previous", (",",), "previous collective", "move", time_moves.event(-1), CHARTS,
           no_event(-1)),
    Action("events.next_iteration", ("i",), "next iteration", "move", time_moves.iteration(1),
           CHARTS, no_iteration(1), pair="events.previous_iteration",
           pair_help="iteration"),
    Action("events.previous_iteration", ("I",), "previous iteration", "move",
           time_moves.iteration(-1), CHARTS, no_iteration(-1)),
    Action("zoom.in", ("w", "+", "="), "zoom in at the cursor", "view",
           view_moves.zoom(inwards=True), CHARTS, chart_is_empty, hint="zoom",
           pair="zoom.out",
           pair_help="zoom in, out at the cursor"),
    Action("zoom.out", ("s", "-"), "zoom out", "view", view_moves.zoom(inwards=False), CHARTS,
           chart_is_empty),
    Action("zoom.fit", ("0",), "the whole window", "view", view_moves.fit, CHARTS,
           chart_is_empty, hint="all"),
    Action("zoom.centre", ("f",), "centre; again: fit selection", "view",
           chart_moves.centre, CHARTS, chart_is_empty),
    Action("rows.in", ("ctrl+w",), "fewer ranks, more room each", "view",
           chart_moves.zoom_rows(inwards=True), CHARTS,
           chart_moves.why_not_zoom_rows(inwards=True), pair="rows.out",
           pair_help="fewer, more ranks in view"),
    Action("rows.out", ("ctrl+s",), "more ranks in view", "view",
           chart_moves.zoom_rows(inwards=False), CHARTS,
           chart_moves.why_not_zoom_rows(inwards=False)),
    Action("view.order", ("o",), "by rank, wait, node, group", "view", chart_moves.order,
           CHARTS, chart_is_empty),
    Action("view.pin", ("p",), "keep this rank on top", "view", chart_moves.pin, CHARTS,
           chart_moves.no_rank),
    Action("view.scale", ("z",), "colours by factors or steps", "view", chart_moves.scale,
           ALIGNMENT),
    Action("view.layout", ("|",), "above, beside, one alone", "view", chart_moves.layout, CHARTS),
    Action("view.maximise", ("x",), "this one alone, full size", "view", chart_moves.maximise,
           WITH_DRAWER),
    Action("rows.sort", ("o", "l", "right"), "sort by the next column", "view",
           view_moves.sort(1), SORTED, view_moves.why_none, hint="sort", pair="rows.sort_back",
           pair_help="sort: next, previous column"),
    Action("rows.sort_back", ("h", "left"), "sort by the previous column", "view",
           view_moves.sort(-1), SORTED, view_moves.why_none),
    Action("rows.reverse", ("O",), "most first, or least first", "view", view_moves.reverse,
           SORTED, view_moves.why_none),
    Action("rows.columns", ("|",), "columns: hide, list again", "view", Effect.PROMPT_COLUMNS,
           WITH_COLUMNS, view_moves.why_none),
    Action("events.sort", ("o",), "sort by the next column", "view", view_moves.sort(1), EVENTS,
           no_time, hint="sort"),
    Action("events.reverse", ("O",), "reverse the order", "view", view_moves.reverse,
           EVENTS, no_time),
    Action("events.switch", ("C",), "collectives; or device work", "view",
           view_moves.next_kind, EVENTS, no_time, hint="what"),
    Action("events.next_rank", ("l", "right"), "next rank", "move", view_moves.other_rank(1),
           EVENTS,
           no_time, hint="rank", pair="events.previous_rank", pair_help="next, previous rank"),
    Action("events.previous_rank", ("h", "left"), "previous rank", "move",
           view_moves.other_rank(-1), EVENTS, no_time),
    Action("kernels.by", ("C",), "by name, operator, ...", "view", view_moves.next_kind,
           WORK, no_time, hint="by"),
    Action("hours.kind", ("C",), "kind of collective", "view", view_moves.next_kind, HOURS,
           view_moves.why_none, hint="kind"),
    Action("hours.zoom_in", ("w", "+", "="), "zoom into the hours", "view", hours.zoom(1), HOURS,
           hours.why_not, hint="zoom", pair="hours.zoom_out",
           pair_help="zoom into, out of the hours"),
    Action("hours.zoom_out", ("s", "-"), "zoom out of the hours", "view", hours.zoom(-1), HOURS,
           hours.why_not),
    Action("hours.all", ("0",), "the whole recording", "view", hours.zoom(0), HOURS,
           hours.why_not, hint="all"),
    Action("hours.earlier", ("a",), "earlier", "move", hours.move(-1), HOURS, hours.why_not,
           hint="time", pair="hours.later", pair_help="earlier, later"),
    Action("hours.later", ("d",), "later", "move", hours.move(1), HOURS, hours.why_not),
    Action("view.merge", ("b",), "one row a rank, or two", "view", chart_moves.merge, TIMELINE),
    Action("filter.kernels", ("C",), "one kind of kernels", "filter", Effect.PROMPT_KERNELS,
           TIMELINE, no_time),
    Action("filter.window", ("t",), "window of time or steps", "filter", Effect.PROMPT_WINDOW,
           why_not=no_time, hint="window"),
    Action("filter.here", ("T",), "window = area or view", "filter", Effect.WINDOW_HERE, CHARTS,
           no_window_here),
    Action("filter.clear", ("ctrl+t",), "clear the window", "filter", Effect.CLEAR_WINDOW,
           why_not=no_window),
    Action("filter.events", ("F",), "rows whose name matches", "filter", Effect.PROMPT_ROWS,
           EVENTS, no_time, hint="filter"),
    Action("filter.rows", ("/", "F"), "rows whose name matches", "filter", Effect.PROMPT_ROWS,
           FILTERED, no_rows_to_filter, hint="filter"),
    Action("filter.communicator", ("c",), "communicator, by figures", "filter",
           Effect.PICK_COMMUNICATOR, SEARCHED, no_other_communicator, hint="comm"),
    Action("filter.ranks", ("r",), "ranks 0-7,16", "filter", Effect.PROMPT_RANKS,
           why_not=no_time),
    Action("find.search", ("/",), "search names", "find", Effect.PROMPT_SEARCH, SEARCHED,
           no_time, hint="find"),
    Action("find.next", ("n",), "next hit", "find", time_moves.next_hit(1), SEARCHED,
           time_moves.why_not_next, pair="find.previous", pair_help="next, previous hit"),
    Action("find.previous", ("N",), "previous hit", "find", time_moves.next_hit(-1), SEARCHED,
           time_moves.why_not_next),
    Action("find.like_this", ("#",), "find names like this one", "find", time_moves.like_this,
           SEARCHED, time_moves.why_not_like_this),
    Action("find.goto", ("g",), "go to k 4705, r16, it 42, 2s", "find", Effect.PROMPT_GOTO,
           SEARCHED, no_time, hint="goto"),
    Action("find.mark", ("m",), "set a bookmark: ma", "find", Effect.PROMPT_MARK,
           why_not=no_time, pair="find.return", pair_help="set, go to a bookmark"),
    Action("find.return", ("'",), "go to a bookmark: 'a; '': back", "find",
           Effect.PROMPT_RETURN, why_not=no_time),
    Action("find.back", ("backspace",), "the view before", "find", Effect.VIEW_BACK,
           why_not=no_view_before, pair="find.forward", pair_help="view back, forward"),
    Action("find.forward", ("ctrl+r",), "the view after", "find", Effect.VIEW_FORWARD,
           why_not=no_view_after),
    Action("measure.area", ("v",), "measure: begin, end", "view", _measure, TIMELINE,
           no_time, hint="measure"),
    Action("view.unfold", ("u",), "streams and idle causes", "view", chart_moves.unfold, TIMELINE,
           chart_moves.no_streams, hint="streams"),
    Action("view.unfold_host", ("U",), "host: ranges, ops, calls", "view",
           chart_moves.unfold_host, TIMELINE, chart_moves.no_host, hint="host"),
    Action("compare.block", ("R",), "repeating block of a kernel", "view", drawer.show_block,
           KERNELS, drawer.why_no_block, hint="block"),
    Action("compare.versus", ("V",), "against another rank or step", "view",
           Effect.PROMPT_VERSUS, COMPARED, drawer.why_no_versus, hint="versus"),
    Action("compare.sort", ("O",), "largest changes, or in order", "view", drawer.sort_rows,
           TIMELINE, drawer.why_not_sort),
    Action("open.chain", ("Z",), "chain of events to the cause", "stragglers", drawer.show_chain,
           LATE, drawer.why_no_chain, hint="chain"),
    Action("open.loss", ("!",), "evidence of the next finding", "stragglers", loss_list.show_next,
           why_not=loss_list.why_no_evidence, hint="next finding"),
    Action("open.event", ("E",), "inspect this event", "panes", drawer.inspect, INSPECTED,
           drawer.why_not_inspect, hint="inspect"),
    Action("out.export", ("e",), "write csv or json", "out", Effect.PROMPT_EXPORT,
           why_not=nothing_to_write, hint="export"),
    Action("out.copy", ("y",), "copy as a command line", "out", Effect.COPY, hint="copy"),
    Action("out.rows", ("Y",), "copy the rows in view", "out", Effect.COPY_ROWS,
           why_not=nothing_to_write),
    Action("find.pick", ("@",), "choose rank, step, kernel", "find", Effect.PICK,
           why_not=no_time, hint="list"),
    Action("out.picture", ("S",), "picture of the screen (SVG)", "out", Effect.SCREENSHOT),
    *GENERAL,
)  # fmt: skip


def all_actions() -> tuple[Action, ...]:
    """Return all actions: first those that open a pane, in the order of the tabs."""
    return _with_panes(all_panes())


@cache
def _with_panes(panes: tuple[Pane, ...]) -> tuple[Action, ...]:
    return (*(_opening(pane) for pane in panes if pane.key), *_OTHERS)


def _opening(pane: Pane) -> Action:
    return Action(
        f"pane.{pane.name}",
        (pane.key,),
        pane.title,
        "panes",
        view_moves.open_pane(pane.name),
        why_not=pane.why_unavailable,
        hint=pane.title.lower() if pane.from_pane else "",
    )


def active(pane: str) -> tuple[Action, ...]:
    """Return the actions that act in the pane of that name."""
    shown = pane_named(pane)
    return tuple(action for action in all_actions() if action.where(shown))


def by_id(action_id: str) -> Action:
    """Return the action of that id. Raises KeyError when there is none."""
    return {action.id: action for action in all_actions()}[action_id]
