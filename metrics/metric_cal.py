"""From a directory to a metric's document: the calling convention of the metric collection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ccltui.metrics.registry import find

if TYPE_CHECKING:
    from ccltui.metrics.view.view_options import Span
    from ccltui.parsers.job import ProfileMode
    from ccltui.parsers.window import Window


class MetricCal(Protocol):
    """``metric_cal(directory)`` of one metric: its document as a flat dictionary.

    Raises NotFoundError where the directory does not exist, ValueError for a mode that does
    not. What can be read but not answered is a document with ``status`` unavailable and reasons.
    """

    def __call__(
        self,
        directory: str | Path,
        profile_mode: ProfileMode = "auto",
        *,
        window: Window | None = None,
        steps: tuple[int, int] | None = None,
        ranks: frozenset[int] | None = None,
        group: str | None = None,
        span: Span = "steps",
        raw_clocks: bool = False,
        overrides: Mapping[str, object] | None = None,
        rank_map: Mapping[str, int] | None = None,
        iteration: int | None = None,
        capture: str | None = None,
        cache_dir: Path | None = None,
        jobs: int | None = None,
    ) -> dict[str, Any]:
        """Compute the metric; the keyword options are those of ``ViewOptions`` and ``open_job``."""


def metric_cal(name: str) -> MetricCal:
    """The function ``metric_cal`` of the metric called ``name``."""

    def calculate(
        directory: str | Path,
        profile_mode: ProfileMode = "auto",
        *,
        window: Window | None = None,
        steps: tuple[int, int] | None = None,
        ranks: frozenset[int] | None = None,
        group: str | None = None,
        span: Span = "steps",
        raw_clocks: bool = False,
        overrides: Mapping[str, object] | None = None,
        rank_map: Mapping[str, int] | None = None,
        iteration: int | None = None,
        capture: str | None = None,
        cache_dir: Path | None = None,
        jobs: int | None = None,
    ) -> dict[str, Any]:
        if profile_mode not in ("auto", "torch", "nsys"):
            raise ValueError(f"profile_mode is auto, torch or nsys, not {profile_mode!r}")
        # Not before it is called: listing metrics must not load the readers.
        from ccltui.metrics.view.job_view import View  # noqa: PLC0415
        from ccltui.metrics.view.view_options import ViewOptions  # noqa: PLC0415
        from ccltui.parsers.job import open_job  # noqa: PLC0415

        job = open_job(
            directory,
            rank_map=rank_map,
            iteration=iteration,
            capture=capture,
            cache_dir=cache_dir,
            jobs=jobs,
            profile_mode=profile_mode,
        )
        options = ViewOptions(
            window=window,
            steps=steps,
            ranks=ranks,
            group=group,
            profile_mode=profile_mode,
            raw_clocks=raw_clocks,
            overrides=overrides or {},
            span=span,
        )
        return find(name).run(View(job, options)).to_document()

    return calculate
