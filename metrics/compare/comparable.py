"""Check whether two runs are comparable: properties that must be equal, and others to report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from ccltui.metrics.runs.completeness import completeness
from ccltui.metrics.runs.run_files import Run

Standing = Literal["equal", "different", "unknown"]
Verdict = Literal["comparable", "not comparable", "unknown"]

_Describe = Callable[[Run], str]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _steps(run: Run) -> str:
    """Micro-steps performed in all epochs."""
    made = completeness(run).last_step
    return _number(made)


def _dataset(run: Run) -> str:
    config = run.configuration
    sizes = ", ".join(f"{name} {size}" for name, size in config.dataset_sizes.items())
    return f"{config.dataset} ({sizes})" if sizes and config.dataset else config.dataset or sizes


def _model(run: Run) -> str:
    config = run.configuration
    return " ".join(part for part in (config.model_name, config.model_size) if part)


def _profiled(run: Run) -> str:
    return {True: "on", False: "off", None: ""}[run.profiled]


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {text}" for name, text in sorted(run.configuration.versions.items()))


MUST_BE_EQUAL: Final[tuple[tuple[str, _Describe], ...]] = (
    ("world_size", lambda run: _number(run.world_size)),
    ("gpu", lambda run: run.configuration.gpu_name),
    ("model", _model),
    ("seq_len", lambda run: _number(run.configuration.seq_len)),
    ("micro_batch", lambda run: _number(run.configuration.micro_batch)),
    ("grad_accum", lambda run: _number(run.configuration.grad_accum)),
    ("steps", _steps),
    ("max_steps", lambda run: _number(run.configuration.max_steps)),
    ("precision", lambda run: run.configuration.precision),
    ("zero_stage", lambda run: _number(run.configuration.zero_stage)),
    ("dataset", _dataset),
    ("nsys", _profiled),
    ("state", lambda run: "incomplete" if completeness(run).state == "incomplete" else "ended"),
)
"""Properties that must be equal; else runs did different work or were profiled differently."""

REPORTED: Final[tuple[tuple[str, _Describe], ...]] = (
    ("git_commit", lambda run: run.git_commit),
    ("config_sha256", lambda run: run.configuration.config_sha256),
    ("versions", _versions),
    ("optimizer", lambda run: run.configuration.optimizer),
)
"""Properties that may differ because their effect is compared; differences are always reported."""

OF_UPDATES: Final = frozenset({"world_size", "model", "zero_stage"})
"""Properties that must be equal to compare calls per optimizer step.

These counts do not depend on the length of the run or on nsys."""
OF_BACKWARDS: Final = OF_UPDATES | {"grad_accum"}
"""Properties that must be equal to compare calls per backward pass.

Gradients are exchanged in one of grad_accum passes."""

_SENTENCES: Final = {
    "git_commit": "different commits",
    "config_sha256": "different DeepSpeed configurations",
    "versions": "different versions",
    "optimizer": "different optimizers",
}


class Check(Struct, frozen=True):
    """One property of both runs; "" where a run does not state it.

    ``required`` properties must be equal.
    """

    name: str
    a: str
    b: str
    required: bool

    @property
    def standing(self) -> Standing:
        """Whether the property is equal, different, or unknown because a run does not state it."""
        if not self.a or not self.b:
            return "unknown"
        return "equal" if self.a == self.b else "different"

    @property
    def sentence(self) -> str:
        """Description of the difference, "" where both are equal."""
        if self.standing == "different":
            text = _SENTENCES.get(self.name)
            values = f"{_short(self.a, self.name)} against {_short(self.b, self.name)}"
            return f"{text}: {values}" if text else f"{self.name} {values}"
        if self.standing == "unknown":
            lacking = [side for side, value in (("A", self.a), ("B", self.b)) if not value]
            return f"{self.name} is unknown in {' and '.join(lacking)}"
        return ""


def _short(text: str, name: str) -> str:
    return text[:7] if name in ("git_commit", "config_sha256") else text


class Comparability(Struct, frozen=True):
    """All checks of two runs."""

    checks: tuple[Check, ...]

    @property
    def differences(self) -> tuple[Check, ...]:
        """Required properties in which the runs differ."""
        return tuple(c for c in self.checks if c.required and c.standing == "different")

    @property
    def reported(self) -> tuple[Check, ...]:
        """Other properties in which the runs differ, which do not affect the verdict."""
        return tuple(c for c in self.checks if not c.required and c.standing == "different")

    @property
    def unknown(self) -> tuple[Check, ...]:
        """Required properties that a run does not state."""
        return tuple(c for c in self.checks if c.required and c.standing == "unknown")

    @property
    def verdict(self) -> Verdict:
        """Not comparable where required properties differ, unknown where most are not stated."""
        if self.differences:
            return "not comparable"
        required = sum(check.required for check in self.checks)
        return "unknown" if 2 * len(self.unknown) > required else "comparable"

    @property
    def why_not(self) -> str:
        """Reason why the runs are not comparable, "" where they are."""
        return "; ".join(check.sentence for check in self.differences)

    def unknown_of(self, names: frozenset[str]) -> str:
        """Return which of ``names`` are unknown in a run, "" where all are known."""
        return "; ".join(check.sentence for check in self.unknown if check.name in names)

    def why_not_in(self, names: frozenset[str]) -> str:
        """Return why a number that depends only on ``names`` is not comparable, "" where it is."""
        return "; ".join(check.sentence for check in self.differences if check.name in names)


def comparability(a: Run, b: Run) -> Comparability:
    """Compare two runs property by property."""
    checks = [Check(name, of(a), of(b), required=True) for name, of in MUST_BE_EQUAL]
    checks += [Check(name, of(a), of(b), required=False) for name, of in REPORTED]
    return Comparability(tuple(checks))
