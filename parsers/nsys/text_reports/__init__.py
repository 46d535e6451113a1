"""Read the text output of `nsys stats` and the tables of `nsys recipe`."""

from __future__ import annotations

from typing import Final

PARQUET: Final = b"PAR1"
RECIPES: Final = ("Name,Time,Total Time,Instances,Avg,", "Text,Count,Mean,Std,")
"""First columns of the csv of the `nsys recipe` reports ``cuda_gpu_kern_sum`` and ``nccl_sum``."""
