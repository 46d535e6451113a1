"""Read the ranks of a job on an engine (processes, Slurm, dask) into a shared store of columns."""
