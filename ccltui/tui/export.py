"""Export and copy: rows in view as csv or json, the screen, and the command that prints them.

Each performs its effect and returns a scene with a message.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.window import Window, format_ranks, format_steps, format_window
from ccltui.report.output import require_target, write_new_file
from ccltui.report.result_rows import csv_text
from ccltui.tui.moves import drawer
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.pane import Record, drawer_shows, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown

if TYPE_CHECKING:
    from textual.app import App

    from ccltui.metrics.device.repetition import Block


def command_line(scene: Scene, options: ExplorerOptions) -> str:
    """Return the shell command that prints the numbers of the view."""
    pane = pane_in_view(scene)
    inspected = drawer.event_report(scene) if drawer_shows(scene, Shown.EVENT) else None
    if inspected is not None:
        event = inspected.event
        words = ["ccltui", "inspect", scene.session.path, "--rank", event.rank]
        words += ["--kind", event.group, "--row", str(event.row)]
        # The command computes no metric: it takes no files of metrics.
        return _joined([*words, *_opened(scene, replace(options, functions=None))])
    whole = pane.command(scene)
    if whole is not None:
        return _joined(whole)
    words = ["ccltui", scene.session.path, "--metric", pane.metric(scene)]
    chosen, window = scene.session.filter, _window(scene)
    if window is not None:
        words.append(f"--window={format_window(window)}")
    step = pane.chosen_step(scene)
    if step is not None:
        words += ["--steps", format_steps((step, step))]
    elif chosen.steps is not None:
        words += ["--steps", format_steps(chosen.steps)]
    if chosen.ranks is not None:
        words += ["--ranks", format_ranks(chosen.ranks)]
    communicator = scene.communicator
    if pane.names_communicator and communicator is not None and communicator.group >= 0:
        words += ["--group", communicator.name]
    return _joined([*words, *_opened(scene, options)])


def _joined(words: Sequence[str]) -> str:
    """Join words into a command line that can be pasted into a shell."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Quote ``word``; with octal escapes where a line editor would act on its characters.

    Quotes alone do not help there: ctrl+c in a pasted name ends the line before a shell reads it.
    """
    if safe_text(word) == word:
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{safe_text(plain, _octal)}'"


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def _window(scene: Scene) -> Window | None:
    """Return the measured area, else the window that is set."""
    measured = pane_in_view(scene).measured(scene)
    if measured is not None:
        return Window(measured.start_ns, measured.end_ns)
    return scene.session.filter.window


def _opened(scene: Scene, options: ExplorerOptions) -> list[str]:
    """Return the arguments the explorer was started with, as far as numbers depend on them."""
    words = []
    if options.rank_map:
        pairs = ",".join(f"{rank}={path}" for path, rank in options.rank_map.items())
        words += ["--rank-map", pairs]
    job = scene.session.job
    if job is not None and len(job.discovery.captures) > 1:
        words += ["--capture", job.capture.name]
    if options.sample_ranks is not None:
        words += ["--sample-ranks", str(options.sample_ranks)]
    if options.view.profile_mode != "auto":
        words += ["--profile-mode", options.view.profile_mode]
    if options.view.span != "steps":
        words += ["--span", options.view.span]
    for name, value in options.view.overrides.items():
        words += ["--set", f"{name}={value}"]
    if options.functions is not None:
        for source in options.functions.sources:
            words += ["--metric-file", source.shown]
    return [*words, "--raw-clocks"] if options.view.raw_clocks else words


def copy(put: Callable[[str], None], scene: Scene, options: ExplorerOptions) -> Scene:
    """Copy the command line of the view to the clipboard of the user's terminal."""
    text = command_line(scene, options)
    put(text)
    return replace(scene, said=f"copied: {text}")


def copy_rows(put: Callable[[str], None], scene: Scene) -> Scene:
    """Copy the rows in view to the clipboard with tabs between cells, as spreadsheets expect."""
    text, count = tabular(scene)
    if not count:
        return replace(scene, notice="there is nothing in view to copy")
    put(text)
    return replace(scene, said=f"copied: {numbers.counted(count, 'row')}")


def take_picture(app: App[Any], scene: Scene) -> Scene:
    """Write a screenshot into the current directory."""
    from ccltui.report.output import write_new_file  # noqa: PLC0415
    from ccltui.tui.terminal.compat import screen_picture  # noqa: PLC0415

    path = free_name(f"ccltui-{scene.state.pane}", ".svg")
    try:
        write_new_file(screen_picture(app).encode(), Path(path))
    except OSError as error:
        return replace(scene, notice=f"{path}: {error.strerror}")
    return replace(scene, said=f"picture in {path}")


ENDINGS = (".csv", ".json")


class Export(Struct, frozen=True):
    """Request to write the rows in view to a file."""

    path: str


def export_to(text: str, scene: Scene) -> Export:
    """Return the export to the named file. Raises GrammarError where nothing can be written."""
    path = Path(text.strip()).expanduser()
    if path.suffix not in ENDINGS:
        raise GrammarError("the name must end in .csv or .json")
    if os.path.lexists(path):  # also true of a broken link: writing would create its target
        raise GrammarError(f"{path} is there already")
    require_target(str(path))
    if is_of_beginnings(scene):
        raise GrammarError("ranks are only partly read: their numbers are not written")
    if next(rows_of(scene), None) is None:
        raise GrammarError("nothing is in view that could be written")
    return Export(str(path))


def suggestion(scene: Scene) -> str:
    """Return a file name that is not in use yet."""
    return free_name(f"ccltui-{scene.state.pane}", ".csv")


def free_name(stem: str, ending: str) -> str:
    """Return ``stem`` plus ``ending``, with the first number between them that makes a new file."""
    number = 1
    while os.path.lexists(f"{stem}-{number}{ending}"):
        number += 1
    return f"{stem}-{number}{ending}"


def write_rows(scene: Scene, path: str) -> int:
    """Write the rows in view to a new file and return their number. Raises OSError."""
    rows = list(rows_of(scene))
    if path.endswith(".json"):
        data = json.dumps(rows, indent=1).encode()
    else:
        data = _delimited(rows, ",").encode()
    write_new_file(data, Path(path))
    return len(rows)


def rows_of(scene: Scene) -> Iterator[Record]:
    """Yield rows in view; times in ns since the job's origin, None while ranks are partly read."""
    if is_of_beginnings(scene):
        return
    if drawer_shows(scene, Shown.BLOCK):
        yield from _block(drawer.repeated_block(scene))
    elif drawer_shows(scene, Shown.VERSUS):
        yield from _versus(scene)
    elif drawer_shows(scene, Shown.EVENT):
        yield from _event(scene)
    elif drawer_shows(scene, Shown.CHAIN):
        yield from _chain(scene)
    else:
        yield from pane_in_view(scene).records(scene)


def is_of_beginnings(scene: Scene) -> bool:
    """Return whether rows in view may come from a rank of which only the beginning is read."""
    if not pane_in_view(scene).is_of_ranks:
        return False
    results = scene.findings.results.values()
    return scene.session.ranks_partly > 0 or any(
        reason.code == "partly_read" for result in results for reason in result.reasons
    )


def _block(found: Block | None) -> Iterator[Record]:
    """Yield the positions of a repeating block."""
    for place, one in enumerate(() if found is None else found.positions):
        times = ("median_ns", "p5_ns", "p95_ns", "spread_ns", "least_ns", "most_ns", "gap_ns")
        cells: Record = {"position": place, "name": one.name, "count": one.count}
        yield cells | {name: getattr(one, name) for name in times}


def _versus(scene: Scene) -> Iterator[Record]:
    """Yield the kernels of both sides in the order of the drawer."""
    found = drawer.versus(scene)
    if found is None:
        return
    ops = {0: "matched", 1: "added", -1: "missing"}
    for row in drawer.comparison_rows(scene):
        starts, durs = found.start_ns[:, row].tolist(), found.dur_ns[:, row].tolist()
        yield {
            "op": ops[int(found.op[row])],
            "name": found.names[found.name[row]],
            "stream": found.streams[found.stream[row]],
            "start_ns": None if durs[0] < 0 else starts[0],
            "dur_ns": None if durs[0] < 0 else durs[0],
            "other_start_ns": None if durs[1] < 0 else starts[1],
            "other_dur_ns": None if durs[1] < 0 else durs[1],
            "change_ns": int(found.change_ns[row]),
        }


def _event(scene: Scene) -> Iterator[Record]:
    """Yield the facts of the event in the inspector, then the events that it leads to."""
    found = drawer.event_report(scene)
    if found is None:
        return
    yield {"fact": "name", "value": found.name, "unit": None, "reason": None}
    for fact in found.facts:
        value = "\n".join(fact.value) if isinstance(fact.value, tuple) else fact.value
        yield {
            "fact": fact.name,
            "value": value,
            "unit": fact.unit or None,
            "reason": fact.why or None,
        }
    for link in found.links:
        event = f"rank {link.event.rank} {link.event.group} {link.event.row}: {link.name}"
        yield {"fact": link.relation, "value": event, "unit": None, "reason": None}


def _chain(scene: Scene) -> Iterator[Record]:
    """Yield the events of the chain in the order of the drawer."""
    for label, event in drawer.chain_events(scene):
        yield {
            "rank": label,
            "role": event.role,
            "name": event.name,
            "start_ns": event.start_ns,
            "end_ns": event.end_ns,
            "gap_ns": event.gap_ns,
        }


def tabular(scene: Scene) -> tuple[str, int]:
    """Return the rows in view as tab-separated lines with a heading, and the number of rows."""
    rows = list(rows_of(scene))
    if not rows:
        return "", 0
    return _delimited(rows, "\t"), len(rows)


def _delimited(rows: Sequence[Record], delimiter: str) -> str:
    """Return a heading and the rows; every row must have the column names of the first."""
    names = list(rows[0]) if rows else []
    return csv_text(
        [names, *([row.get(name) for name in names] for row in rows)], delimiter=delimiter
    )
