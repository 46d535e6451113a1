"""Jobs with a planted cause of slowness: simulator, trace writer and known answer.

``build_job`` simulates a ``JobSpec`` twice with the same random draws, with and without its faults,
so that the cost of a fault is exact. ``random_spec`` draws a job from a seed.
"""

from ccltui.demo.planted.job_spec import Damage, Fault, JobSpec
from ccltui.demo.planted.planted_job import PlantedJob, build_job, write_planted
from ccltui.demo.planted.planted_truth import PlantedTruth
from ccltui.demo.planted.random_jobs import random_spec

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
