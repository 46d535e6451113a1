"""The dense peak of a device in the precision of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ccltui.metrics.model.peaks import precision_of
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.overrides import positive_number
from ccltui.metrics.workload.hardware import device_names, device_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

PEAK_OVERRIDE: Final = "peak_tflops"


@dataclass(frozen=True, slots=True)
class Peak:
    """TFLOPS of one device in the precision of the model."""

    tflops: float
    source: str
    notes: tuple[str, ...] = ()


def peak_of(view: View) -> Peak:
    """The peak given by the user, otherwise that of the device in the precision of the card."""
    given = positive_number(view, PEAK_OVERRIDE)
    if given is not None:
        return Peak(given, "override")
    device = device_of(view)
    if device is None:
        names = ", ".join(device_names(view))
        found = f"no known peak of {names}" if names else "neither card nor traces name the device"
        raise refuse("unknown_peak", f"{found}: give {PEAK_OVERRIDE}")
    stated = view.card.text("precision")
    if not stated:
        raise view.card.lacking(["precision"])
    precision = precision_of(stated)
    if precision is None or precision not in device.tflops:
        text = f"no known peak of {device.name} in {stated}: give {PEAK_OVERRIDE}"
        raise refuse("unknown_peak", text)
    notes = (device.note,) if device.note else ()
    return Peak(device.tflops[precision], f"{device.name} {precision}, {device.source}", notes)
