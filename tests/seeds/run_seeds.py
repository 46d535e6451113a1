"""Run what the seed documents state, statement by statement, and write docs/seeds.md.

python tests/seeds/run_seeds.py [--check] [--merge] [--only PREFIX] [--keep DIR]

The rows are in seed_rows.toml: a statement of a document in our words, the command that a reader of
it types (as our tools have it), and what the output must contain. Commands run on public traces
($PUBLIC, the folder that CCLTUI_SHARED names) where there are any of the kind, else on data made by
seed_data.py; rows of Slurm run on the private one of tests/slurm, whose nodes train on CPUs. What
needs a GPU or Perlmutter is marked: as much of it as runs without is run.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
ROWS: Final = HERE / "seed_rows.toml"
PAGE: Final = ROOT / "docs" / "seeds.md"
sys.path[:0] = [str(HERE.parent)]

import seed_data  # noqa: E402  (helpers of tests are beside its folder)

from ccltui.commands.seeds_layout_command import PATHS  # noqa: E402

CLUSTER: Final = HERE.parent / "slurm" / "hold_cluster.py"
_TIMEOUT_S: Final = 300
_MOST_SHOWN: Final = 160


class Row(Struct, frozen=True):
    """One statement.

    Attributes:
        id: Number of the document and of the statement in it.
        says: The statement in our words.
        run: Shell command; "" where nothing can be run here.
        expect: Regular expressions that must be found in the output, in any order.
        status: Exit status of the command.
        needs: What the whole of it needs: "a GPU", "Slurm", "Perlmutter", "the network".
        torch: Whether its data come from trainers.
        slurm: Whether it is run on a private Slurm.
        quick: Whether it runs within a second or so, in the test suite too.
        no: Why the statement does not hold here, as is known; the command shows it.
        note: What a reader should know about a yes.
        tested: File of the tests that run the whole of it.
    """

    id: str
    says: str
    run: str = ""
    expect: tuple[str, ...] = ()
    status: int = 0
    needs: str = ""
    torch: bool = False
    slurm: bool = False
    quick: bool = False
    no: str = ""
    note: str = ""
    tested: str = ""

    @property
    def document(self) -> str:
        """Number of the document."""
        return self.id.partition("-")[0]

    @property
    def is_public(self) -> bool:
        """Whether it runs on public traces."""
        return any(name in self.run for name in ("PUBLIC", "$CARDED"))

    @property
    def kind(self) -> str:
        """What the command proves: one of KINDS."""
        if self.slurm:
            return KINDS[2]
        if self.is_public:
            return KINDS[0]
        if "dry-run" in self.run or "DRY_RUN=yes" in self.run:
            return KINDS[3]
        words = {part.split()[0] for part in re.split(r"&&|[;|]", self.run) if part.split()}
        only_looks = words <= _LOOKS or self.run.rstrip().endswith("--help")
        return KINDS[4] if only_looks else KINDS[1]


KINDS: Final = (
    "run on public traces",
    "run on data that the demo and our trainers made",
    "run on a private Slurm",
    "print what they would run (a GPU, Perlmutter or nsys is needed for more)",
    "look at files of the project or of a run",
)
"""Kinds of rows by what their command does, the strongest first."""
_LOOKS: Final = frozenset(
    (
        *("ls", "cat", "grep", "find", "readlink", "du", "sort", "tail", "head", "uniq", "sed"),
        *("cd", "for", "do", "done", "echo"),
    )
)


class Outcome(Struct, frozen=True):
    """How the command of a row ended; ``problem`` is "" where the output was as expected."""

    row: Row
    problem: str = ""
    was_run: bool = True

    @property
    def cell(self) -> str:
        """Text of the outcome in the table."""
        row = self.row
        if row.no:
            return f"**no**: {row.no}"
        if self.problem:
            return f"**no**: {self.problem}"
        if not row.run:
            where = f"; run by `{row.tested}`" if row.tested else ""
            return f"not run here: needs {row.needs}{where}"
        more = [f"the whole needs {row.needs}"] if row.needs else []
        more += [f"the whole is run by `{row.tested}`"] if row.tested else []
        more += ["on a private Slurm, on CPUs"] if row.slurm else []
        more += [row.note] if row.note else []
        return "yes" + (f" ({'; '.join(more)})" if more else "")


def read_rows(path: Path = ROWS) -> tuple[list[Row], Mapping[str, str]]:
    """Return the rows in their order, and the title of each document."""
    with path.open("rb") as file:
        document = tomllib.load(file)
    rows = [Row(**{**row, "expect": tuple(row.get("expect", ()))}) for row in document["row"]]
    repeated = [name for name, count in Counter(row.id for row in rows).items() if count > 1]
    if repeated:
        raise ValueError(f"ids that are used twice: {', '.join(repeated)}")
    return rows, document["documents"]


def outcome_of(row: Row, env: Mapping[str, str], cwd: Path) -> Outcome:
    """Run the command of a row."""
    if not row.run:
        return Outcome(row)
    try:
        done = subprocess.run(
            ["bash", "-c", row.run],
            check=False,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return Outcome(row, f"ran longer than {_TIMEOUT_S} s")
    output = done.stdout.decode(errors="replace")
    return Outcome(row, problem_of(row, done.returncode, output, cwd))


@contextlib.contextmanager
def private_slurm(env: Mapping[str, str]) -> Iterator[Mapping[str, str] | None]:
    """The environment of clients of a private Slurm; None, with its reason, where none can run."""
    command = [sys.executable, str(CLUSTER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        conf = holder.stdout.readline().strip()
        yield (
            {**env, **seed_data.on_cpus(), "SLURM_CONF": conf} if conf else None
        )  # then stdin ends


def problem_of(row: Row, status: int, output: str, cwd: Path) -> str:
    """Difference between an output and what the row expects; "" where there is none."""
    if status != row.status:
        return f"exit status {status}, not {row.status}: {_complaint(output, cwd)}"
    absent = [text for text in row.expect if not re.search(text, output, re.MULTILINE)]
    return f"the output lacks {', '.join(f'`{text}`' for text in absent)}" if absent else ""


def _complaint(output: str, cwd: Path) -> str:
    """The first line of an output that states an error, else the last; no path of this machine."""
    lines = output.replace(str(cwd), "…").replace(str(ROOT), "$REPO").split("\n")
    said = [line.strip() for line in lines if line.strip()] or ["no output"]
    errors = [line for line in said if re.search(r"error|refused|unavailable", line)]
    return (errors or said[-1:])[0].rpartition("error: ")[2][:_MOST_SHOWN]


def page(outcomes: Sequence[Outcome], documents: Mapping[str, str]) -> str:
    """The page of all rows."""
    count = Counter(_verdict(one) for one in outcomes)
    kinds = Counter(one.row.kind for one in outcomes)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items()))
    lines = [
        *("# The seed documents, statement by statement", ""),
        "Five documents describe what ccltui has to cover. Each row is a statement of one of them,",
        "the command that does it here, and its outcome. `make seeds` runs every command and",
        "writes this page; `python tests/seeds/run_seeds.py --check` compares. `$PUBLIC` is the",
        "collection of public traces that `CCLTUI_SHARED` names; other variables are folders of",
        "data that the demo and the trainers of this project make. Rows of Slurm run on the",
        "private one of `tests/slurm`, whose nodes train on CPUs.",
        *("", f"{len(outcomes)} statements: {summary}. What the commands do:", ""),
        *(f"- {kinds[kind]} {kind}" for kind in KINDS if kinds[kind]),
        "",
        *_paths(),
    ]
    for number, title in documents.items():
        lines += [f"## {number}: {title}", "", "| | statement | command | outcome |"]
        lines += ["|---|---|---|---|"]
        lines += [_line(one) for one in outcomes if one.row.document == number]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _paths() -> list[str]:
    """The paths that the documents name, and what `ccltui seeds-layout` puts there."""
    return [
        *("## The paths of the documents", ""),
        "`ccltui seeds-layout DIR` writes them, so that the commands of the documents work in DIR",
        "as they are written; `--copy` takes a copy of `sbatch/` whose settings can be changed.",
        *("", "| path | what is there |", "|---|---|"),
        *(f"| {path} | {what} |" for path, what in PATHS),
        "",
    ]


def _verdict(outcome: Outcome) -> str:
    text = outcome.cell
    return "no" if text.startswith("**no**") else "not run here" if text[:3] == "not" else "yes"


def _line(outcome: Outcome) -> str:
    row = outcome.row
    command = " ".join(row.run.split())
    ticks = "``" if "`" in command else "`"
    cells = (row.id, row.says, f"{ticks}{command}{ticks}" if command else "", outcome.cell)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def rows_by_id(text: str) -> dict[str, str]:
    """Lines of a page by the first cell of their row."""
    return {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}


def differences(old: str, new: str, rows: Iterable[Row]) -> list[str]:
    """Lines of rows that differ between two pages."""
    before, after = rows_by_id(old), rows_by_id(new)
    return [
        f"{row.id}:\n  page: {before.get(row.id, 'absent')}\n  here: {after[row.id]}"
        for row in rows
        if before.get(row.id) != after[row.id]
    ]


def main() -> int:
    """Run the rows and write or check the page; 1 where a checked row differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the page; write nothing")
    parser.add_argument(
        "--merge", action="store_true", help="rows that cannot run here keep their line"
    )
    parser.add_argument("--only", default="", metavar="PREFIX", help="rows of this id; only prints")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the data in a new folder")
    options = parser.parse_args()
    rows, documents = read_rows()
    rows = [row for row in rows if row.id.startswith(options.only)]
    trainers = seed_data.has_torch()
    with tempfile.TemporaryDirectory(prefix="seeds-") as temporary:
        folder = options.keep or Path(temporary)
        if not (folder / "demo").exists():
            folder.mkdir(parents=True, exist_ok=True)
            seed_data.make(folder, trainers=trainers)
        env = seed_data.environment(folder)
        cluster = private_slurm(env) if any(row.slurm for row in rows) else None
        with cluster or contextlib.nullcontext() as slurm:
            outcomes = []
            for row in rows:
                outcomes.append(_tried(row, env, slurm, folder, trainers=trainers))
                print(f"{row.id}  {outcomes[-1].cell}", flush=True)
    return _finish(options, outcomes, documents)


def _tried(
    row: Row,
    env: Mapping[str, str],
    slurm: Mapping[str, str] | None,
    folder: Path,
    *,
    trainers: bool,
) -> Outcome:
    if row.is_public and "PUBLIC" not in env:
        return Outcome(row, "no public traces here", was_run=False)
    if row.torch and not trainers:
        return Outcome(row, "no torch here", was_run=False)
    if row.slurm and slurm is None:
        return Outcome(row, "no Slurm here", was_run=False)
    return outcome_of(row, slurm if row.slurm and slurm is not None else env, folder)


def _finish(
    options: argparse.Namespace, outcomes: Sequence[Outcome], documents: Mapping[str, str]
) -> int:
    made = page(outcomes, documents)
    if options.check:
        checked = [one.row for one in outcomes if one.was_run]
        found = differences(PAGE.read_text(encoding="utf-8"), made, checked)
        print("\n".join(found) or f"{PAGE}: {len(checked)} rows are as they run")
        return 1 if found else 0
    if options.merge:
        before = rows_by_id(PAGE.read_text(encoding="utf-8"))
        kept = {one.row.id: before.get(one.row.id) for one in outcomes if not one.was_run}
        lines = made.splitlines()
        made = (
            "\n".join(kept.get(line.split(" | ")[0].strip("| ")) or line for line in lines) + "\n"
        )
    elif not all(one.was_run for one in outcomes):
        print("not written: rows need torch, Slurm or public traces, see above", file=sys.stderr)
        return 1
    if options.only:
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
