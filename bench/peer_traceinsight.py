"""Run HTA's TraceAnalysis on a directory of one rank, with the interpreter of traceinsight.

It prints the number of complete events that became rows of the frame, before steps are filtered.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from hta.common import trace_parser  # type: ignore[import-not-found]
from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

_rows: list[int] = []
_compress = trace_parser._compress_df


def _counted(*arguments: Any, **options: Any) -> Any:
    frame, symbols = _compress(*arguments, **options)
    _rows.append(len(frame))
    return frame, symbols


trace_parser._compress_df = _counted
TraceAnalysis(trace_dir=sys.argv[1])
print(json.dumps({"timed": sum(_rows), "version": version("traceinsight")}))
