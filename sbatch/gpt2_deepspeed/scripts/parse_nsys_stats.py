#!/usr/bin/env python
"""Write profiles/profile_summary.json from the texts of `nsys stats` in a run directory.

It needs Python 3.11 and no package. Shares of NVTX ranges nest and are never added.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from gpt2_run.stats_tables import read_tables
from gpt2_run.summary import Summary, top_of

_TEXTS: Final = "nsys_stats_*.txt"
_NO_TABLE: Final = "no table of nvtx_sum or osrt_sum in columns (nsys stats --format column)"


def main() -> int:
    """Write the summary; return 1 if there are no tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run_dir", type=Path, required=True)
    run_dir: Path = parser.parse_args().run_dir
    texts = sorted((run_dir / "profiles").glob(_TEXTS))
    if not texts:
        print(f"parse_nsys_stats: no profiles/{_TEXTS} in {run_dir}", file=sys.stderr)
        return 1
    per_file = {}
    for text in texts:
        try:
            top = top_of(read_tables(text))
        except (OSError, KeyError, ValueError) as error:
            print(f"parse_nsys_stats: {text.name}: {error}", file=sys.stderr)
            continue
        if any(top.values()):
            per_file[text.name] = top
        else:
            print(f"parse_nsys_stats: {text.name}: {_NO_TABLE}", file=sys.stderr)
    if not per_file:
        return 1
    summary = Summary(run_dir, per_file, _reports(run_dir), _metrics(run_dir))
    path = run_dir / "profiles" / "profile_summary.json"
    path.write_text(json.dumps(summary.document(), indent=2) + "\n", encoding="utf-8")
    print(f"parse_nsys_stats: {len(per_file)} of {len(texts)} texts in {path}")
    return 0


def _reports(run_dir: Path) -> Sequence[str]:
    return [str(path) for path in sorted((run_dir / "profiles").glob("*.nsys-rep"))]


def _metrics(run_dir: Path) -> dict[str, Any]:
    """Return the metrics of the run, empty if it ended before writing them."""
    try:
        found: dict[str, Any] = json.loads((run_dir / "training_metrics.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


if __name__ == "__main__":
    sys.exit(main())
