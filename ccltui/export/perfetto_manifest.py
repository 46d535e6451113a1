"""Write the manifest with which Perfetto opens the original files of all ranks on one clock."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace


class ManifestError(ValueError):
    """The files of a job cannot be described by a manifest; the message says why."""


def manifest(view: View) -> bytes:
    """Return a `perfetto_manifest` with the offset of each file to the first one.

    Perfetto places the events of a JSON trace by their written times, without the base time of the
    file; both the clock and the base time are therefore in the offset. A clock that drifts has the
    offset of the middle of the job.

    Raises:
        ManifestError: a rank has no JSON trace of its own, or two files have one name.
    """
    traces = [rank.trace for rank in view.ranks]
    if not traces:
        raise ManifestError("no rank is selected")
    names = [_member(trace) for trace in traces]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        text = ", ".join(sorted(twice)[:3])
        raise ManifestError(f"several files are named {text}: an archive needs different names")
    first = traces[0]
    files = [
        {"path": name, "machine": {"name": f"rank {trace.label}"}}
        | ({} if trace is first else _clocks(view, trace, first, names[0]))
        for name, trace in zip(names, traces, strict=True)
    ]
    document = {"perfetto_manifest": {"version": 1, "files": files}}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _member(trace: RankTrace) -> str:
    if trace.source.format != "kineto" or trace.source.parts != 1:
        kind = f"{trace.source.path} ({trace.source.format})"
        raise ManifestError(f"{kind} is no JSON trace that Perfetto opens; use --to perfetto")
    return PurePath(trace.source.path).name


def _clocks(view: View, trace: RankTrace, first: RankTrace, name: str) -> dict[str, object]:
    """State by how much later the events of the first file are read at one time."""
    own, reference = (view.offsets_ns.get(one.label, 0) - one.base_ns for one in (trace, first))
    return {"clocks": {"sync_to": {"file": name}, "offset_ns": reference - own}}
