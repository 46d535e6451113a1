"""Jobs with a planted cause of slowness: programs, faults and known answer.

``build_job`` simulates a ``JobSpec`` twice with the same random draws, with and without its faults,
so that the cost of a fault is exact. ``random_spec`` draws a job from a seed. The event graph, the
event writer and the writer of files are those of the demo.

The programs are not. Here every rank draws its own variation of each pass, and faults change the
program itself, so a rank is recorded on its own; seeds keep their jobs, whose scores are published.
The program of the demo is the same for all ranks of a pipeline stage, which lets thousands of ranks
be recorded at once, and its numbers are those that pages and tests state.
"""

from ccltui.demo.planted.job_spec import Damage, Fault, JobSpec, random_spec
from ccltui.demo.planted.planted_job import PlantedJob, PlantedTruth, build_job, write_planted

__all__ = [
    "Damage",
    "Fault",
    "JobSpec",
    "PlantedJob",
    "PlantedTruth",
    "build_job",
    "random_spec",
    "write_planted",
]
