"""Report on congestion of network devices: samples with a high rate of waits to send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ccltui.metrics.nsys_reports.report import (
    Columns,
    Make,
    NumberArgument,
    Recipe,
    ReportColumn,
    absent,
    events,
    numbers,
)
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.nsys.report_tables import RawColumns, ReportTables

_METRIC_KEY: Final = ("metricsListId", "metricsIdx")
_NETWORK: Final = ("start", "end", "globalId", *_METRIC_KEY, "value")
CARDS: Final = RawColumns("NET_NIC_METRIC", _NETWORK)
SWITCHES: Final = RawColumns("NET_IB_SWITCH_METRIC", _NETWORK)
METRIC_NAMES: Final = RawColumns("TARGET_INFO_NETWORK_METRICS", (*_METRIC_KEY, "name"))
CARD_INFO: Final = RawColumns("TARGET_INFO_NIC_INFO", ("nicId", "deviceId", "GUID"))
CARD_IDS: Final = RawColumns("NIC_ID_MAP", ("nicId", "globalId"))
DEVICE_NAMES: Final = RawColumns("ENUM_NET_DEVICE_ID", ("id", "label"))
_SEND_WAITS: Final = "IB: Send waits"
_DEFAULT_TICKS_PER_MS: Final = 10_000
_NS_PER_MS: Final = 1_000_000
_NO_NETWORK: Final = absent("NIC or IB switch metrics")


def congestion(ticks_per_ms: int) -> Make:
    """Return the function that makes ``network_congestion``: waits to send above a rate."""

    def make(tables: ReportTables, chosen: Filter) -> Columns:
        if CARDS not in tables.raw and SWITCHES not in tables.raw:
            return _NO_NETWORK
        rows = [
            (row, rate, guid, device)
            for source in (CARDS, SWITCHES)
            for row, rate in _waits(tables, source, chosen)
            if rate > ticks_per_ms
            for guid, device in [_device(tables, source, row["globalId"])]
        ]
        if not rows:
            return absent(f"congestion above {ticks_per_ms} ticks/ms")
        rows.sort(key=lambda one: one[0]["start"])
        start = numbers([row for row, *_ in rows], "start")
        end = numbers([row for row, *_ in rows], "end")
        rates = np.array([round(rate) for _, rate, *_ in rows], np.int64)
        return (
            ReportColumn("Start", "time", start),
            ReportColumn("End", "time", end),
            ReportColumn("Duration", "time", end - start),
            ReportColumn("Send wait rate (ticks/ms)", "count", rates),
            ReportColumn("GUID", "text", [guid for *_, guid, _ in rows]),
            ReportColumn("Device name", "text", [device for *_, device in rows]),
        )

    return make


def _waits(
    tables: ReportTables, source: RawColumns, chosen: Filter
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield the samples of the waits to send of a table, with their rates in ticks/ms."""
    named = tables.raw.get(METRIC_NAMES)
    if named is None:
        return
    columns = (named.columns[name] for name in (*_METRIC_KEY, "name"))
    wanted = {(one, two) for one, two, name in zip(*columns, strict=True) if name == _SEND_WAITS}
    for row in events(tables, source, chosen):
        duration = row["end"] - row["start"]
        if (row["metricsListId"], row["metricsIdx"]) in wanted and duration > 0:
            yield row, (row["value"] or 0) * _NS_PER_MS / duration


def _device(tables: ReportTables, source: RawColumns, global_id: int) -> tuple[str, str]:
    """Return GUID and name of a device; a switch is known by its own id only."""
    if source is SWITCHES:
        return f"{global_id & (1 << 64) - 1:x}", ""
    number = _lookup(tables, CARD_IDS, "globalId", global_id, "nicId")
    guid = _lookup(tables, CARD_INFO, "nicId", number, "GUID")
    device = _lookup(tables, CARD_INFO, "nicId", number, "deviceId")
    name = _lookup(tables, DEVICE_NAMES, "id", device, "label")
    return f"{guid & (1 << 64) - 1:x}" if isinstance(guid, int) else "", str(name or "")


def _lookup(tables: ReportTables, source: RawColumns, key: str, value: Any, wanted: str) -> Any:
    table = tables.raw.get(source)
    if table is None or value is None:
        return None
    pairs = zip(table.columns[key], table.columns[wanted], strict=True)
    return next((found for one, found in pairs if one == value), None)


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "network_congestion": Recipe(
            congestion(_DEFAULT_TICKS_PER_MS),
            raw=(CARDS, SWITCHES, METRIC_NAMES, CARD_INFO, CARD_IDS, DEVICE_NAMES),
            number=NumberArgument("ticks_threshold", _DEFAULT_TICKS_PER_MS, congestion),
            single_capture=True,
        ),
    }
)
