"""Execution traces of PyTorch: operators with shapes, dependencies and process groups, no times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.parsers.format import Format, Match, Priority, Rule

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample


def _is_execution_trace(sample: FileSample) -> Match | None:
    keys = frozenset() if sample.json is None else sample.json.object_keys
    return Match() if "schema" in keys and keys & {"nodes", "start_ts"} else None


EXECUTION_TRACE: Final = Format(
    kind="execution_trace",
    description="operators of PyTorch with shapes and dependencies, without times",
    sniff=(Rule(Priority.JSON_CONTENT, _is_execution_trace),),
    rank_in_name=True,
    completes="torch",
    card_name="torch_et",
)
