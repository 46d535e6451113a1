"""Lines around the panes: header, tabs, the two lines about the cursor, keys, messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import ELLIPSIS, GAP, Line, Piece, clean, fit, fit_middle, wrap
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.window import MissingRanks, format_duration, ranges_text
from ccltui.tui.action import GENERAL, Action, first_key
from ccltui.tui.state.pane import Pane, pane_in_view, pane_named, panes_with_tabs
from ccltui.tui.state.pane_states import OVERVIEW
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.parsers.job import Job


_BETWEEN: Final = re.compile(r"(?<=\S)(?: {2,}|; )(?=\S)")
"""What is between two facts of a line."""


def status(scene: Scene, width: int) -> list[Line]:
    """Return the two lines about the cursor.

    A notice replaces the second, or both where it is longer than a line. Of facts that do not
    fit, the last are left out whole.
    """
    # numpy comes with these, and the first frame has no such lines.
    from ccltui.tui.moves.loss_list import place_text  # noqa: PLC0415
    from ccltui.tui.moves.time_moves import count_text  # noqa: PLC0415

    above, below = _status(scene, width)
    message = message_line(scene)
    if message is not None:
        (text, style), *_ = message
        first, *rest = wrap(text.strip(), width - 2, most=2, indent="  ") or [""]
        below = [(f" {rest[0] if rest else first}", style)]
        above = [(f" {first}", style)] if rest else above
    session, findings = scene.session, scene.findings
    current = findings.complete and findings.generation == session.generation
    waiting = not current and session.ranks_loaded + session.ranks_partly > 0
    search = count_text(scene)
    right: Line = [(f" {search} ", Ink.HIT)] if search else []
    place = "" if scene.state.pane == OVERVIEW else place_text(scene)
    right += [(f" {place} ", Ink.HIT)] if place else []
    right += [("computing ", Ink.DIM)] if waiting else []
    taken = sum(len(text) for text, _ in right)
    above, below = whole_facts(above, width), whole_facts(below, width - taken)
    return [cut(above, width, Ink.TEXT), spread(below, right, width, Ink.TEXT)]


def whole_facts(line: Line, width: int) -> Line:
    """Return the facts of a line that fit as a whole, and an ellipsis for the others.

    A line whose first fact takes more than half of the width is returned as it is.
    """
    text = "".join(clean(part) for part, _ in line).rstrip()
    if len(text) <= width:
        return line
    ends = [found.start() for found in _BETWEEN.finditer(text)]
    end = max((end for end in ends if width // 2 <= end <= width - 2), default=None)
    if end is None:
        return line
    kept: Line = []
    for part, style in line:
        shown = clean(part)[:end]
        end -= len(shown)
        if shown:
            kept.append((shown, style))
    return [*kept, (f" {ELLIPSIS}", Ink.DIM)]


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    if scene.session.phase == "failed":
        return [(f" x {scene.session.problem}", Ink.ERROR)], []
    return pane_in_view(scene).status(scene, width)


NARROW = 100


def cut(pieces: Sequence[Piece], width: int, fill: int) -> Line:
    """Return the pieces cut or filled to exactly ``width`` cells."""
    line: Line = []
    left = width
    for text, style in pieces:
        whole = clean(text)
        shown = whole if len(whole) <= left else fit(whole.rstrip(), left)
        if shown:
            line.append((shown, style))
            left -= len(shown)
    if left:
        line.append((" " * left, fill))
    return line


def spread(left: Sequence[Piece], right: Sequence[Piece], width: int, fill: int) -> Line:
    """Return left pieces, cut where the right ones begin, and right pieces at the right edge."""
    return cut([*cut(left, max(width - _size(right), 0), fill), *right], width, fill)


def header(scene: Scene, width: int) -> Line:
    """Return the header: the open path, how much is loaded, and which part is shown."""
    session = scene.session
    name = PurePath(session.path).name or session.path
    left: Line = [(" ccltui ", Ink.HEADER_DIM), (fit_middle(name, width // 3), Ink.HEADER)]
    if session.job is not None:
        size = numbers.decimal_size(session.total_bytes)
        facts = [
            _ranks(session.ranks_expected, session.job.world_size)
            if session.files
            else "no traces",
            size if session.files else "",
            _capture(session.job, width // 4),
            describe(session.filter),
            _absent(session.job) if width >= 100 else "",
        ]
        left.append((GAP + GAP.join(fact for fact in facts if fact), Ink.HEADER_DIM))
    right = [*_followed(scene, width), (_loaded(session), Ink.HEADER_DIM)]
    return spread(left, right, width, Ink.HEADER_DIM)


def _followed(scene: Scene, width: int) -> Line:
    """Return when a followed directory was looked at, and the alerts that hold."""
    if scene.followed is None:
        return []
    alerts = scene.followed.alert_text()
    line: Line = (
        [(f" ! {fit(alerts, min(len(alerts), width // 3))} ", Ink.WARNING)] if alerts else []
    )
    return [*line, (f" {scene.followed.told(width)} ", Ink.HEADER_DIM)]


def _capture(job: Job, width: int) -> str:
    """Return the name of the capture, and of how many it is one; pane 5 lists the others."""
    several = len(job.discovery.captures)
    name = fit_middle(job.capture.name, width)
    return f"{name} (1 of {several}: 5)" if several > 1 else name


def _ranks(count: int, world_size: int | None) -> str:
    if world_size is not None and world_size > count:
        return f"{count} of {world_size} ranks"
    return numbers.counted(count, "rank")


def _absent(job: Job) -> str:
    """Ranks of the world without a file, and whether a sample is read; "" where none is missing."""
    global _absent_of  # noqa: PLW0603  (the last answer: the header is painted at each key)
    known, world, text = _absent_of
    if known is job.capture and world == job.world_size:
        return text
    files = {found.rank for found in job.capture.files}
    world = job.world_size
    missing = MissingRanks(world or 0, files.union(job.unread_ranks))
    parts = [f"sample of {len(files)}"] if job.unread_ranks else []
    if missing and None not in files:
        parts.append(f"missing {ranges_text(missing, 3)}")
    _absent_of = job.capture, world, ", ".join(parts)
    return _absent_of[2]


_absent_of: tuple[object, int | None, str] = (None, None, "")


def _loaded(session: Session) -> str:
    if session.phase == "opening":
        return " opening "
    if session.phase == "failed":
        return " nothing to show "
    if session.job is not None and not session.files:
        return ""
    stopped = " stopped" if session.phase == "stopped" else ""
    partly = f" ! {session.ranks_partly} partly read" if session.ranks_partly else ""
    return f"{partly} {session.ranks_loaded}/{session.ranks_expected}{stopped} "


def describe(chosen: ViewOptions) -> str:
    """Return the filter as the user would type it; "" when everything is shown."""
    parts = []
    if chosen.window is not None:
        parts.append(f"window {_window_text(chosen)}")
    if chosen.steps is not None:
        first, last = chosen.steps
        parts.append(f"it {first}" if first == last else f"it {first}-{last}")
    if chosen.ranks is not None:
        parts.append(f"ranks {','.join(map(str, sorted(chosen.ranks)))}")
    return " ".join(parts)


def _window_text(chosen: ViewOptions) -> str:
    window = chosen.window
    sides = (None, None) if window is None else (window.start_ns, window.end_ns)
    return "/".join("" if side is None else format_duration(side) for side in sides)


def tabs(scene: Scene, width: int) -> Line:
    """Return the tabs and the legend of the pane in view, shortened where space is short.

    Tabs shrink to their keys from the right until all fit. Where even that is too long, those that
    do not fit are left out; the tab in view is always there.
    """
    shown, panes = pane_in_view(scene), panes_with_tabs(scene)
    full, narrow = (shown.legend(scene, narrow=shorter) for shorter in (width < NARROW, True))
    long = [pane.short_title if width < NARROW else pane.title for pane in panes]
    short = [pane.short_title for pane in panes]
    here = panes.index(shown)
    keys = [
        [title if at < len(short) - count or at == here else "" for at, title in enumerate(short)]
        for count in (1, 2)
    ]
    tried = ((long, full), (short, full), *((titles, full) for titles in keys), (short, narrow))
    for titles, legend in tried:
        line = _tabs(scene, panes, titles)
        if _size(line) + 1 + _size(legend) <= width:  # a legend does not touch the last tab
            return spread(line, legend, width, Ink.TAB)
    for first in range(len(panes) - 1, 0, -1):
        titles = [t if at < first or at == here else "" for at, t in enumerate(short)]
        line = _tabs(scene, panes, titles)
        if _size(line) + _size(narrow) <= width:
            return spread(line, narrow, width, Ink.TAB)
    line = _tabs(scene, panes, short)
    if _size(line[: here + 2]) + _size(narrow) > width:
        digits = [title if at == here else "" for at, title in enumerate(short)]
        line = _tabs(scene, panes, digits)
    if _size(line[: here + 2]) + _size(narrow) > width:
        line = [line[0], line[here + 1]]
    return spread(_whole(line, width - _size(narrow)), narrow, width, Ink.TAB)


def _whole(line: Line, width: int) -> Line:
    """Return the tabs that fit; none is cut within its title."""
    ends = accumulate(len(clean(text)) for text, _ in line)
    return [
        piece
        for piece, end in zip(line, ends, strict=True)
        if end - len(piece[0]) + len(piece[0].rstrip()) <= width
    ]


def _size(line: Sequence[Piece]) -> int:
    return sum(len(clean(text)) for text, _ in line)


def _tabs(scene: Scene, panes: Sequence[Pane], titles: Sequence[str]) -> Line:
    line: Line = [(" ", Ink.TAB)]
    for pane, title in zip(panes, titles, strict=True):
        name = f"{pane.key} {title}".strip()
        on = pane.name == scene.state.pane
        line.append((f"[{name}]", Ink.TAB_ON) if on else (f" {name} ", Ink.TAB))
    return line


def too_small(scene: Scene, width: int, height: int) -> list[Line]:
    """Return the lines shown instead of a layout that does not fit the terminal."""
    path = scene.session.path
    return [
        cut([(f" Terminal is {width}x{height}; ccltui needs 70x18.", Ink.TEXT)], width, Ink.TEXT),
        cut([(f" Headless: ccltui {path} --metric all", Ink.TEXT)], width, Ink.TEXT),
    ]


def message_line(scene: Scene) -> Line | None:
    """Return the notice, else the message of the last action; None where there is neither."""
    if scene.notice:
        return [(f" ! {scene.notice}", Ink.WARNING)]
    return [(f" {scene.said}", Ink.TEXT)] if scene.said else None


def waiting(scene: Scene, width: int) -> list[Line]:
    """Return the two lines about the cursor while nothing is open yet, or cannot be opened."""
    failed = scene.session.phase == "failed"
    above: Line = [(f" x {scene.session.problem}", Ink.ERROR)] if failed else []
    return [cut(above, width, Ink.TEXT), cut(message_line(scene) or [], width, Ink.TEXT)]


def keys(scene: Scene, width: int) -> Line:
    """Return the key line: keys of the pane worth a reminder; the help key always fits."""
    actions = _actions(scene)
    known = {action.id: action for action in actions}
    help_line = _hint_pieces(known["app.help"], known, scene)
    pieces: Line = [(" ", Ink.TEXT)]
    lists_nothing = _lists_nothing(scene)
    for action in actions:
        if not action.hint or action.id == "app.help" or _leads_away(action, scene):
            continue
        if lists_nothing and action.why_not(scene) is not None:
            continue
        if action.id in _OF_COLLECTIVES and _has_none_matched(scene):
            continue
        hint = _hint_pieces(action, known, scene)
        if sum(len(text) for text, _ in (*pieces, *hint, *help_line)) < width:
            pieces += hint
    return cut([*pieces, *help_line], width, Ink.TEXT)


def _lists_nothing(scene: Scene) -> bool:
    """Return whether a pane with rows has none and will have none: most of its keys do nothing."""
    pane = pane_in_view(scene)
    is_list = pane.axis is None and pane.name != OVERVIEW
    return is_list and not scene.session.busy and pane.count(scene) == 0


def prompt_keys(width: int) -> Line:
    """Return the keys of a prompt, which takes all others as text."""
    pieces: Line = [(" ", Ink.TEXT)]
    for key, what in (("enter", "accept"), ("esc", "cancel"), ("tab", "complete")):
        pieces += [(key, Ink.KEY), (f" {what}  ", Ink.DIM)]
    return cut(pieces, width, Ink.TEXT)


def _actions(scene: Scene) -> tuple[Action, ...]:
    """Return the actions of the pane; those that need no trace while no trace is open."""
    if scene.session.job is None:
        return GENERAL
    from ccltui.tui.action_list import active  # noqa: PLC0415  (after the first paint)

    return active(scene.state.pane)


def _leads_away(action: Action, scene: Scene) -> bool:
    """Return whether an action is about another pane, or about traces while the pane is not."""
    if action.id.startswith("pane."):
        return pane_named(action.id.removeprefix("pane.")).from_pane != scene.state.pane
    if action.id == "rows.sort" and scene.state.pane == OVERVIEW:  # the rows of Metrics
        return True
    if pane_in_view(scene).is_of_traces or action.id == "filter.rows":
        return False
    return action.group in ("stragglers", "filter") or action.id == "find.pick"


_OF_COLLECTIVES: Final = frozenset(
    {"stragglers.next", "open.chain", "open.detail", "filter.communicator"}
)
"""Actions on collectives of several ranks: no reminder of them where none is matched."""


def _has_none_matched(scene: Scene) -> bool:
    found = scene.findings.communicators
    return found is not None and not any(map(len, found))


def _hint_pieces(action: Action, known: Mapping[str, Action], scene: Scene) -> Line:
    label = first_key(action, scene.bindings)
    if action.pair:
        label += f"/{first_key(known[action.pair], scene.bindings)}"
    return [(label, Ink.KEY), (f" {action.hint}  ", Ink.DIM)]
