"""Read the ranks of a job on an engine (processes, Slurm, dask) into a shared store of columns."""

from __future__ import annotations

from typing import Final

STATE_FOLDER: Final = "index"
"""Folder of a store that holds the state and the results of index runs."""
