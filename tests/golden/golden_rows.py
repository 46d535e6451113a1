"""The rows of golden.json, and the trace that each of them is about, read once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from msgspec import Struct

from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.view.rank_view import RankView
from ccltui.parsers.job import open_job

Value = float | list[float] | dict[str, float]


class Number(Struct, frozen=True):
    """One number that another tool measured; ``paths`` are the files it measured."""

    trace: str
    rank: int | None
    paths: tuple[Path, ...]
    metric: str
    value: Value
    unit: str
    tool: str

    @property
    def name(self) -> str:
        """Where the row stands, to be found again."""
        rank = "all ranks" if self.rank is None else f"rank {self.rank}"
        return f"{self.tool} {self.trace} {rank} {self.metric}"

    @property
    def path(self) -> Path:
        """The one file of a number of one rank."""
        (path,) = self.paths
        return path


def numbers_of(shared: Path) -> list[Number]:
    """Every row, in order."""
    rows = json.loads((shared / "golden" / "golden.json").read_bytes())["numbers"]
    found = []
    for row in rows:
        files = [row["file"]] if isinstance(row["file"], str) else row["file"]
        found.append(
            Number(
                trace=row["trace"],
                rank=row["rank"],
                paths=tuple(shared / file for file in files),
                metric=row["metric"],
                value=row["value"],
                unit=row["unit"],
                tool=row["tool"],
            )
        )
    return found


@cache
def view_of(path: Path) -> View:
    """A file alone, its steps measured."""
    return View(open_job(path, jobs=1))


@cache
def rank_of(path: Path) -> RankView:
    """The only rank of a file, measured over the whole trace."""
    (rank,) = View(view_of(path).job, ViewOptions(span="trace")).ranks
    return rank
