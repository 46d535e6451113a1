"""Carry out eleven tasks in the explorer, in a pseudo-terminal; print keys and seconds as a table.

``python -m bench.explorer_tasks [--only NAME ...]`` opens the synthetic job of ``ccltui demo`` and,
where the directory in CCLTUI_SHARED has them, public traces. A task is done when its text stands
on the screen; a text that is typed counts as one key. docs/tasks.md has the table.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bench.keys import Screen
from ccltui.demo import DEMO, write_job

ROOT: Final = Path(__file__).resolve().parent.parent
WIDE, NARROW = (120, 40), (80, 24)
MOST_KEYS: Final = 4
_LONGEST_S: Final = 30.0
_OPENING_S: Final = 180.0
_ESCAPE: Final = "\x1b[27u"
_BACK: Final = (_ESCAPE, _ESCAPE, _ESCAPE, "\x14", "1")
"""Keys between two tasks: they close lists and drawers, clear the window, and open Overview."""
VERDICT: Final = r"─ Diagnosis ─.*● \S"
PARTS: Final = r"compute \d"


class Task(Struct, frozen=True):
    """One task.

    Attributes:
        name: What is asked.
        keys: Keys, each with a pattern of the screen that it leads to; that of the last, or the
            only one where no key is needed, is the answer. A text is typed as a whole.
        refusal: Pattern of the reason where the recording cannot answer it.
        pair: Whether two jobs are opened.
    """

    name: str
    keys: tuple[tuple[str, str], ...]
    refusal: str = r"(?!)"
    pair: bool = False

    @property
    def num_keys(self) -> int:
        """Number of keys; a text counts as one."""
        return sum(bool(key) for key, _ in self.keys)

    def shown_keys(self) -> str:
        """Return the keys as a user reads them."""
        names = [{"\r": "enter"}.get(key, key) for key, _ in self.keys if key]
        return " ".join(f"`{name}`" for name in names) or "none"


STEPS: Final = r"\[6 Steps\].*(rank by rank|vs median)"
NO_STEPS: Final = r"(?:The|the) traces have no step markers|[Nn]o step has device work"
ALONE: Final = r"nothing to compare with|no other rank is recorded"
NO_WORK: Final = r"No kernel was recorded"
NO_PARTS: Final = r"What costs time|Findings|Nothing can be told"
KERNELS: Final = r"\[\* Ker.*total +calls"
TASKS: Final = (
    Task("who is late, and why", (("", VERDICT),)),
    Task("where the time of a step goes", (("", PARTS),), NO_PARTS),
    Task(
        "how much communication is hidden, by dimension",
        (("%", r"\[% Par.*of the time in collectives is hidden"),),
        "no collective is loaded|Nothing tells how much communication",
    ),
    Task(
        "two steps compared",
        (
            ("6", STEPS),
            ("V", "compare what is selected"),
            ("\r", r"── \S+ it \d+ against \S+ it \d+"),
        ),
        f"{NO_STEPS}|{ALONE}",
    ),
    Task(
        "two ranks compared",
        (
            ("3", r"\[3 Tim"),
            ("V", "compare what is selected"),
            ("\r", r"── \S+( it \d+)? against \S"),
        ),
        ALONE,
    ),
    Task(
        "a window of time, exported",
        (("3", r"\[3 Tim"), ("T", r"window \S+/\S+"), ("e", "ccltui-"), ("\r", "rows in ")),
        r"nothing is in view that could be written",
    ),
    Task(
        "a kernel and its launch",
        (("*", KERNELS), ("E", r"\[\* Ker.*── .*(launch|operator|not recorded: correlation)")),
        NO_WORK,
    ),
    Task(
        "a kernel found by name",
        (("*", KERNELS), ("/", r"[Rr]ows whose name"), ("gemm", "gemm"), ("\r", r"names? /gemm/")),
        NO_WORK,
    ),
    Task("two jobs compared", (("&", r"\[& .*B  \S+.*(step time|property)"),), pair=True),
    Task("what the numbers rest on", (("", r"╰─ \d+( of \d+)? ranks?"),)),
    Task("which keys there are", (("?", "Help: "),)),
)
FIRST_SCREEN: Final = (VERDICT, f"{PARTS}|{NO_PARTS}")
"""Patterns found on the first screen of 80 by 24 before any key is pressed."""


class Traces(Struct, frozen=True):
    """Traces of one job: a name, their path, and the path of a second job to compare with."""

    name: str
    path: Path
    other: Path


class Done(Struct, frozen=True):
    """Result of a task on a job.

    ``seconds`` until the answer, None where it did not appear; ``refused`` where the screen states
    why the recording has no answer.
    """

    task: str
    seconds: float | None
    refused: bool = False
    screen: str = ""

    def cell(self) -> str:
        """Return the cell of the table."""
        if self.seconds is None:
            return "FAILED"
        return f"{self.seconds:.1f}{' (why not)' if self.refused else ''}"


def traces(folder: Path) -> list[Traces]:
    """Return the jobs that are here; the synthetic ones are written to a folder."""
    write_job(folder / "demo", DEMO)
    write_job(folder / "demo-2", replace(DEMO, gemm_ns=DEMO.gemm_ns * 11 // 10))
    found = [Traces("demo", folder / "demo", folder / "demo-2")]
    shared = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))
    long = "traces/torchrec/trace/sst_long_a2a_optimizer"
    samples = "traces/kineto/samples/resnet50"
    single = f"{samples}_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
    second = f"{samples}_autograd_api_num_workers_0/worker0.pt.trace.json.gz"
    database = "nsys/ddp53/profiles/ddp53_profile.sqlite"
    for name, path, other in (
        ("megatron-tp8", "traces/astra-sim/megatron-tp8", "recorded/tp_4"),
        ("torchrec", f"{long}_3", f"{long}_4"),
        ("recorded", "recorded/dp_tp_4", "recorded/tp_4"),
        ("ddp53.sqlite", database, database),
        ("single GPU", single, second),
    ):
        if (shared / path).exists():
            found.append(Traces(name, shared / path, shared / other))
    return found


class Session:
    """An explorer in a pseudo-terminal with a job that is loaded and computed."""

    def __init__(self, paths: Sequence[Path], cache: Path, size: tuple[int, int]) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-P", "-m", "ccltui", *map(str, paths)]
        self._screen = Screen([*command, "--cache-dir", str(cache)], *size)
        if not self._until(re.compile(VERDICT), _OPENING_S):
            raise TimeoutError("\n".join(self._screen.rows()))
        self.opened_s = time.perf_counter() - began
        self._settle()

    def _settle(self) -> None:
        """Wait until nothing is computed or written: all metrics are there."""
        end = time.perf_counter() + _OPENING_S
        while self._screen.read(0.5)[0] or " computing " in f"{self.text()} ":
            if time.perf_counter() > end:
                raise TimeoutError(self.text())

    def _until(self, pattern: re.Pattern[str], longest_s: float) -> bool:
        end = time.perf_counter() + longest_s
        while time.perf_counter() < end:
            if pattern.search(self.text()):
                return True
            self._screen.read(0.02)
        return False

    def text(self) -> str:
        """Return the screen as one line."""
        return " ".join(row.strip() for row in self._screen.rows())

    def do(self, task: Task) -> Done:
        """Press the keys of a task and wait for its answer."""
        refused = re.compile(task.refusal)
        began = time.perf_counter()
        for key, answer in task.keys:
            os.write(self._screen.descriptor, key.encode())
            if not self._until(re.compile(f"(?:{answer})|(?:{task.refusal})"), _LONGEST_S):
                return Done(task.name, None, screen="\n".join(self._screen.rows()))
            if re.search(answer, self.text()) is None and refused.search(self.text()):
                break
        seconds = time.perf_counter() - began
        why_not = re.search(task.keys[-1][1], self.text()) is None
        self._settle()
        return Done(task.name, seconds, why_not, "\n".join(self._screen.rows()))

    def back(self) -> None:
        """Return to Overview with nothing open."""
        for key in _BACK:
            self._screen.press(key)
        self._settle()

    def close(self) -> None:
        """End the process."""
        self._screen.close()


def carried_out(one: Traces, cache: Path, folder: Path) -> tuple[float, list[Done]]:
    """Carry out all tasks on one job; return seconds until the verdict, and what was done."""
    found: list[Done] = []
    here = Path.cwd()
    os.chdir(folder)  # exports go to the working directory
    try:
        session = Session([one.path], cache, WIDE)
        opened_s = session.opened_s
        for task in TASKS:
            if not task.pair:
                found.append(session.do(task))
                session.back()
        session.close()
        pair = Session([one.path, one.other], cache, WIDE)
        found += [pair.do(task) for task in TASKS if task.pair]
        pair.close()
        narrow = Session([one.path], cache, NARROW)
        text = narrow.text()
        both = all(re.search(pattern, text) for pattern in FIRST_SCREEN)
        seconds = narrow.opened_s if both else None
        found.append(Done("verdict and parts at 80x24", seconds, screen=text))
        narrow.close()
    finally:
        os.chdir(here)
    return opened_s, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 where a task is not answered."""
    parser = argparse.ArgumentParser(prog="bench.explorer_tasks", description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of jobs")
    parser.add_argument("--screens", action="store_true", help="print the screen of each answer")
    options = parser.parse_args(arguments)
    keys = {task.name: task.shown_keys() for task in TASKS}
    assert all(task.num_keys <= MOST_KEYS for task in TASKS)
    columns: dict[str, tuple[float, list[Done]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one in traces(folder):
            if not options.only or one.name in options.only:
                columns[one.name] = carried_out(one, folder / "cache", folder)
                sys.stderr.write(f"{one.name}: {columns[one.name][0]:.1f} s to the verdict\n")
                for done in columns[one.name][1]:
                    if options.screens or done.seconds is None:
                        sys.stderr.write(f"--- {one.name}: {done.task}\n{done.screen}\n")
    print("| task | keys | " + " | ".join(columns) + " |")
    print("|---" * (2 + len(columns)) + "|")
    print("| until the verdict | | " + " | ".join(f"{s:.1f}" for s, _ in columns.values()) + " |")
    rows = next([done.task for done in found] for _, found in columns.values())
    for number, task in enumerate(rows):
        cells = [found[number].cell() for _, found in columns.values()]
        print(f"| {task} | {keys.get(task, 'none')} | " + " | ".join(cells) + " |")
    return int(any(done.seconds is None for _, found in columns.values() for done in found))


if __name__ == "__main__":
    sys.exit(main())
