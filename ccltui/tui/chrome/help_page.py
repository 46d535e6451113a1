"""Help for one pane, generated from the registry: text in pieces."""

from __future__ import annotations

from ccltui.draw.palette import Ink
from ccltui.draw.text import wrap
from ccltui.tui.actions.action import Action, Bindings, first_key
from ccltui.tui.actions.action_list import GROUPS, active, by_id
from ccltui.tui.chrome.chrome_lines import Line, cut
from ccltui.tui.state.view_state import Pane

_ABOUT = {
    Pane.SUMMARY: (
        "What most time is lost to: ! shows where, the largest first. Then every metric with its",
        "unit; (by rank) in brackets shows another number, min and max name the rank, spread is",
        "between them over the mean; -- says why it is not there. enter: a metric by rank with its",
        "definition, a remark with what to do.",
    ),
    Pane.ALIGNMENT: (
        "Rows are ranks, columns collectives of one communicator in order of time.",
        "Colour: how much later than the first rank this one arrived; a cell of several",
        "shows the largest, below the floor it is blank. Who waits has a LONG kernel:",
        "the late rank has the shortest one. The line above the keys says how sure.",
    ),
    Pane.TIMELINE: (
        "Per rank one row of compute and one of network, on corrected clocks. A network",
        "cell is exposed, or hidden under compute, by majority. A height is the share of",
        "busy time, rounded up: any activity shows. The last rows, where there is room, are the",
        "whole window: network and compute time of all ranks, and what of it is in view. R: the",
        "kernels from this one to its next occurrence, over all repetitions; V: this rank and step",
        "against another.",
    ),
    Pane.STEPS: (
        "Steps, the slowest first: length on the slowest rank, and what the time of the device",
        "went to, mean over ranks; below the same rank by rank for the chosen step. Moving here",
        "moves the cursor of all panes to the step; enter limits them to it, and again to all.",
    ),
    Pane.RUNS: (
        "Runs below what is open: figures that each recorded, loss and throughput in its course,",
        "and what it lacks. !: the step times rest on few samples, or the run has no mark of its",
        "end. ccltui diff A B says whether two of them may be compared, and what changed.",
    ),
    Pane.CLUSTER: (
        "What benchmarks, nccl-tests, logs of NCCL and drivers say of the machines. outlier: far",
        "from the median of the other devices; impossible: above what the hardware can do, or at",
        "odds with another value of the same file; suspect: probably not what its name says.",
    ),
    Pane.REPORTS: (
        "What files of nsys say: for each node how long its all-to-all exchanges waited for the",
        "last device (p50, p95, the whole distribution) and where device time went, shares below",
        "1 % added up; then the tables of every text of nsys stats. ccltui stats prints them.",
    ),
    Pane.FILES: (
        "What lies in the directory: captures to switch to, then every file and its state.",
        "x: cannot be read, and why; !: read in part, and what is missing.",
    ),
    Pane.EVENTS: (
        "Collectives of the selected rank, or all work of its device. lag: how long after the",
        "first rank the last one came; k: place among the collectives of its communicator.",
    ),
}
_ABOUT_LINES = 8
_COLUMN = 40
_KEYS_WIDTH = 9


def help_lines(pane: Pane, width: int, bindings: Bindings) -> list[Line]:
    """Everything a pane knows, group by group, in as many columns as there is room for."""
    lines = [cut([(f" Help: {pane.title}", Ink.HEADER)], width, Ink.HEADER_DIM)]
    about = wrap(" ".join(_ABOUT[pane]), width - 2, most=_ABOUT_LINES)
    lines += [cut([(f" {text}", Ink.TEXT)], width, Ink.TEXT) for text in about]
    columns = max(width // _COLUMN, 1)
    entries = _entries(pane, bindings)
    rows = -(-len(entries) // columns)
    for row in range(rows):
        pieces: Line = []
        for cell in entries[row::rows]:
            pieces += cut(cell, width // columns, Ink.TEXT)
        lines.append(cut(pieces, width, Ink.TEXT))
    return lines


def _entries(pane: Pane, bindings: Bindings) -> list[Line]:
    entries: list[Line] = []
    for group in GROUPS:
        actions = [action for action in active(pane) if action.group == group]
        twins = {action.twin for action in actions}
        if actions:
            entries.append([(f" {group}", Ink.STRONG)])
        for action in actions:
            if action.id not in twins:
                entries += _explained(action, bindings)
    return entries


def _explained(action: Action, bindings: Bindings) -> list[Line]:
    """Two actions that belong together in one line, or in two where their keys are long."""
    keys = first_key(action, bindings)
    if not action.twin:
        return [_entry(keys, action.help)]
    twin = by_id(action.twin)
    other = first_key(twin, bindings)
    if len(f"{keys} {other}") > _KEYS_WIDTH:
        return [_entry(keys, action.help), _entry(other, twin.help)]
    return [_entry(f"{keys} {other}", action.both or action.help)]


def _entry(keys: str, text: str) -> Line:
    return [(f"  {keys.ljust(_KEYS_WIDTH)} ", Ink.KEY), (text, Ink.TEXT)]


def help_page(
    pane: Pane, first: int, width: int, height: int, bindings: Bindings
) -> tuple[list[Line], int]:
    """As many lines from ``first`` on as fit above a foot, and the first that was shown."""
    lines = help_lines(pane, width, bindings)
    room = max(height - 1, 1)
    last = max(len(lines) - room, 0)
    first = max(min(first, last), 0)
    more = "j/k scroll   " if last else ""
    foot = cut([(f" {more}any other key closes", Ink.DIM)], width, Ink.TEXT)
    page = lines[first : first + room]
    blank: Line = cut([], width, Ink.TEXT)
    return [*page, *[blank] * (room - len(page)), foot], first


SCROLL = {"j": 1, "down": 1, "k": -1, "up": -1, "pagedown": 10, "pageup": -10}
"""Lines by which a key scrolls the help; any other key closes it."""
