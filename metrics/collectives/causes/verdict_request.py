"""Late arrivals of the same ranks, to be judged in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.matching.match import HIGH
from ccltui.parsers.array_types import I8


@dataclass(frozen=True, slots=True)
class Question:
    """Why the late members of ``targets``, of the ranks ``labels``, came after their peers.

    ``limit`` is the confidence of the matches, above which no verdict's can be.
    """

    labels: tuple[str, ...]
    targets: Targets
    limit: I8 | None = None

    @property
    def limits(self) -> I8:
        """The limit of each target."""
        return np.full(len(self.targets), HIGH, np.int8) if self.limit is None else self.limit
