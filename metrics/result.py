"""The result of a metric: its value with unit and details, or the reasons why there is none.

Units follow from the names of keys: ``wait_us`` is in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field


class MetricDefinition(Protocol):
    """A metric without the function that computes it: functions on views take this type."""

    @property
    def name(self) -> str:
        """The name on the command line and in documents."""

    @property
    def unit(self) -> str:
        """Unit of the value."""

    @property
    def definition(self) -> str:
        """One sentence: the quantity, its unit and its denominator."""

    @property
    def headline(self) -> str:
        """The key of the details whose value is the value of the result."""


Status = Literal["ok", "partial", "unavailable"]

Code = Literal[
    "no_trace",
    "mode_mismatch",
    "no_gpu_events",
    "no_collectives",
    "no_step_markers",
    "single_rank",
    "missing_ranks",
    "unmatched_collectives",
    "no_process_groups",
    "no_message_size",
    "clock_unknown",
    "no_card",
    "card_invalid",
    "card_incomplete",
    "ambiguous_batch_scope",
    "card_conflict",
    "not_applicable",
    "host_bound",  # hosts would hold the devices up: the value is a bound
    "not_physical",  # a model gives an impossible value, so it does not describe this job
    "unknown_peak",
    "no_side_file",
    "phase_mismatch",
    "no_gpu_metrics",
    "truncated_trace",
    "damaged_trace",
    "uncorrelated_work",  # device work without a launch record, which no step surely launched
    "device_times",  # events of devices that are not timed or left out, as their times are wrong
    "lost_events",  # the profiler states that it did not collect all events
    "partly_read",  # the explorer shows the beginnings of files that are still being read
    "rank_conflict",
    "world_size_conflict",  # files state different world sizes, as those of different jobs do
    "sampled_ranks",  # only some ranks were read, on purpose
    "sampled_steps",  # only some steps were timed, and they do not represent all of them
    "incomplete_run",
    "window_empty",
    "function_failed",  # a function of the user raised, was stopped, or returned no number
    "function_partial",
    "internal_error",
]


class Reason(Struct, frozen=True):
    """Reason for a number that is missing or covers only a part of the input."""

    code: Code
    message: str
    rank: str | None = None
    file: str | None = None

    def to_dict(self) -> dict[str, str]:
        """The JSON form, without the keys that are not set."""
        pairs = {
            "code": self.code,
            "message": self.message,
            "rank": self.rank,
            "file": self.file,
        }
        return {key: value for key, value in pairs.items() if value is not None}


class Result(Struct, frozen=True):
    """One metric of one job under one view.

    ``value`` is the headline in ``unit`` (None when unavailable); ``details`` holds the keys
    of the metric's definition, JSON-ready: str keys, no NaN, no numpy scalars.
    """

    metric: str
    unit: str
    definition: str
    status: Status
    value: float | int | None
    details: Mapping[str, Any]
    reasons: Sequence[Reason] = ()
    warnings: Sequence[str] = ()
    source: str | None = None
    basis: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    schema: int = 1

    @property
    def reason(self) -> str | None:
        """Code of the first reason, None where there is none."""
        return self.reasons[0].code if self.reasons else None

    def to_document(self) -> dict[str, Any]:
        """The flat dictionary that ``ccl-metrics`` prints: envelope and details at one level."""
        return {
            "metric": self.metric,
            "schema": self.schema,
            "status": self.status,
            "reason": self.reason,
            "reasons": [reason.to_dict() for reason in self.reasons],
            **self.details,
            "source": self.source,
            "basis": dict(self.basis),
            "inputs": dict(self.inputs),
            "warnings": list(self.warnings),
        }


def values_by_step(result: Result, headline: str) -> list[float | None]:
    """Return the headline of a metric step by step, in order; [] where it has no such values."""
    details = result.details
    if headline == "avg_iter_time_ms":
        return list(details.get("iter_times_ms") or ())
    per_step = details.get("per_step")
    if isinstance(per_step, Mapping):
        ordered = sorted(per_step.items(), key=lambda item: int(item[0]))
        rows = [row for _, row in ordered if isinstance(row, Mapping)]
    else:
        rows = [row for row in per_step or () if isinstance(row, Mapping)]
    found = [row.get(headline) for row in rows]
    return found if any(_is_number(value) for value in found) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_UNITS: Final = tuple(
    (re.compile(rf"(?:.*_)?{pattern}"), unit)
    for pattern, unit in (
        ("tokens_per_s(?:_(?:per|by)_.*)?", "tokens/s"),
        ("per_s", "1/s"),
        ("ns", "ns"),
        ("us", "us"),
        ("ms", "ms"),
        ("m_s", ""),  # M_S, a share of the slowdown, is no time in seconds
        ("s", "s"),
        ("bytes", "bytes"),
        ("GBps(?:_.*)?", "GB/s"),
        ("us_per_MB", "us/MB"),
        ("tflops(?:_.*)?", "TFLOPS"),
        ("ppb", "ppb"),
        ("pct(?:_of_.*)?", "%"),
        ("(?:ratio|fraction)(?:_of_.*)?", "ratio"),
    )
)


def unit_of(key: str) -> str:
    """Unit by the suffix of a part of ``key``, the last part first; "" for none."""
    for part in reversed(key.split(".")):
        for pattern, unit in _UNITS:
            if pattern.fullmatch(part):
                return unit
    return ""
