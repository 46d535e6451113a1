"""Text about the selected collective, and pieces of legends."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.draw.palette import Ink, filled, style_of
from ccltui.draw.text import fit_middle
from ccltui.parsers import numbers
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.styled_text import GAP, Line


def collective_text(scene: Scene) -> str:
    """Describe the selected collective."""
    if scene.collective is None:
        return ""
    communicator, k = scene.collective
    size, step = int(communicator.message_bytes[k]), int(communicator.step[k])
    lag = int(communicator.lag_ns[k])
    culprit = None if scene.disproved else communicator.culprit(k)
    place = scene.state.worst
    name, kind = fit_middle(communicator.name, 30), communicator.kind[communicator.kind_id[k]]
    parts = [
        f"{scene.communicator_place}{name} {kind} #{numbers.count(k)}",
        f"worst {place + 1}/{scene.num_worst}" if place is not None else "",
        f"last {rank_name(culprit)}" if culprit is not None else "",
        "recording begins here" if communicator.begins[k] else "",
        _lag_text(scene, lag),
        numbers.binary_size(size) if size >= 0 else "",
        f"it {step}" if step >= 0 else "",
    ]
    return "  ".join(part for part in parts if part)


def _lag_text(scene: Scene, lag_ns: int) -> str:
    if scene.disproved:
        return "not proven to be the same on all ranks"
    return f"lag {numbers.duration(lag_ns)}" if lag_ns >= 0 else "not matched on all ranks"


def as_many(parts: Sequence[str], width: int) -> str:
    """Join as many parts as fit; only the first is ever cut."""
    text = parts[0]
    for part in parts[1:]:
        if part and len(text) + len(GAP) + len(part) <= width:
            text += GAP + part
    return text


def named(scene: Scene, inks: Sequence[Ink], names: Sequence[str]) -> Line:
    """Return a sample of each ink, followed by its name."""
    line: Line = []
    for ink, name in zip(inks, names, strict=True):
        glyph = filled(ink, colour=scene.colour)
        line += [(glyph, style_of(glyph, ink)), (name, Ink.TAB)]
    return line
