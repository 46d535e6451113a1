#!/usr/bin/env python
"""Download a data set of the hub and write its texts to train.txt and val.txt."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Download; needs the package datasets and the network, or its cache."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="Salesforce/wikitext")
    parser.add_argument("--config", default="wikitext-2-raw-v1")
    parser.add_argument("--output", type=Path, default=Path("data"))
    options = parser.parse_args()
    try:
        from datasets import load_dataset  # noqa: PLC0415  (--help works without it)
    except ImportError:
        print("download_data: no package datasets: pip install datasets", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for split, name in (("train", "train.txt"), ("validation", "val.txt")):
        texts = load_dataset(options.dataset, options.config, split=split)["text"]
        (options.output / name).write_text("".join(texts), encoding="utf-8")
        print(f"download_data: {len(texts):,} texts in {options.output / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
