"""Read GPU metrics that nsys sampled at a fixed rate: active SMs, memory and link traffic.

A capture has about sixty counters per device at ten thousand samples per second. Only counters
that match the pattern below are read, under the names that the chip gives them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import Samples
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.export_schema import GPU_COUNTERS, GPU_METRICS
from ccltui.parsers.nsys.sqlite.spill import Scratch, Spill
from ccltui.parsers.nsys.sqlite.table_rows import Pairs
from ccltui.parsers.nsys.sqlite.table_scans import new_numbers

_SELECTED_COUNTERS: Final = re.compile(
    r"SMs? (?:Active|Issue)\b|Tensor Active\b|(?:GR|GPU) Active\b"
    r"|DRAM (?:Read|Write)\b|PCIe [RT]X\b|NVLink\b"
)
_GPU: Final = 0xFF  # mask of ``typeId``: the machine's number of the device
_MAX_TIME_NS: Final = 1 << 61


@dataclass(slots=True)
class CounterRows:
    """Samples of a file: ``gpus`` and ``names`` by number; ``num_left_out`` samples are skipped."""

    spill: Spill
    gpus: list[int]
    names: list[str]
    num_left_out: int = 0

    def of_gpu(self, gpu: int, ids: I32, base_ns: int) -> Samples:
        """Return the samples of one device by time; ``ids``: string ids of ``names``."""
        owners = [number for number, known in enumerate(self.gpus) if known == gpu]
        time = self.spill.column("time", owners)
        order = np.argsort(time, kind="stable")
        value = self.spill.column("value", owners)[order]
        name = ids[self.spill.column("name", owners)[order]]
        return Samples(time[order] + base_ns, name, _unsigned(value))


def read_counters(database: Database, scratch: Scratch) -> CounterRows:
    """Read all samples of the selected counters."""
    known = {
        (kind, metric): " ".join(name.split())
        for kind, metric, name in database.rows(GPU_COUNTERS, ("typeId", "metricId", "metricName"))
        if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str)
    }
    names = sorted({name for name in known.values() if _SELECTED_COUNTERS.match(name)})
    spill = Spill(scratch, {"time": np.int64, "name": np.int32, "value": np.int64})
    wanted = tuple(sorted({key[1] for key, name in known.items() if name in names}))
    found = CounterRows(spill, [], names, database.last_row(GPU_METRICS))
    if not wanted:
        return found
    gpus, kinds, metrics, pairs = new_numbers(), new_numbers(), new_numbers(), Pairs()
    columns = ("timestamp", "typeId", "metricId", "value")
    for time, kind, metric, value in database.numbers(
        GPU_METRICS, columns, only=("metricId", wanted)
    ):
        counter = pairs.of(kinds.of(kind), metrics.of(metric))
        of_pair = [
            known.get((kinds.values().tolist()[a], metrics.values().tolist()[b]), "")
            for a, b in pairs.values()
        ]
        place = np.array([names.index(n) if n in names else -1 for n in of_pair], np.int32)[counter]
        rows = (place >= 0) & (np.abs(time) < _MAX_TIME_NS)
        owner = gpus.of(kind & _GPU)
        spill.append(owner[rows], {"time": time[rows], "name": place[rows], "value": value[rows]})
        found.num_left_out -= int(rows.sum())
    found.gpus = gpus.values().tolist()
    return found


def _unsigned(values: I64) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Convert samples, unsigned 32-bit numbers that some releases of nsys write as signed."""
    return np.where(values < 0, values + (1 << 32), values).astype(np.float64)
