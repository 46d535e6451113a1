"""Number kernel names alike on all ranks of a job."""

from __future__ import annotations

import numpy as np

from ccltui.metrics.model.classify import distinct
from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING, RankTrace


class KernelNames:
    """Numbers of kernel names, the same on all ranks; ``texts`` are the names by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def ids(self, trace: RankTrace, names: I32) -> I64:
        """Return the numbers of a rank's names, which are given as ids into its strings."""
        table = np.full(len(trace.strings) + 1, MISSING, np.int64)
        for local in distinct(names):
            text = trace.text(local)
            if text not in self._ids:
                self._ids[text] = len(self.texts)
                self.texts.append(text)
            table[local] = self._ids[text]
        return table[names]
