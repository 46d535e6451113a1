"""Request for verdicts on late arrivals."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.matching.match import HIGH
from ccltui.parsers.array_types import I8


class VerdictRequest(Struct, frozen=True):
    """Late arrivals of the ranks ``labels``, whose causes are requested.

    ``limit`` [t] is the confidence of the matches, an upper bound of that of the verdicts; None
    for no bound.
    """

    labels: tuple[str, ...]
    targets: Targets
    limit: I8 | None = None

    @property
    def limits(self) -> I8:
        """Upper bound of the confidence of each target, int8 [t]."""
        return np.full(len(self.targets), HIGH, np.int8) if self.limit is None else self.limit
