"""Synthetic multi-rank jobs in genuine Kineto layout, with every answer known beforehand."""

from ccltui.demo.demo_job import BuiltJob, build, write_job
from ccltui.demo.spec import Cut, LateStart, SlowLink, Spec, Straggler
from ccltui.demo.truth import Truth

DEMO = Spec()
"""Eight ranks on two hosts: TP 2, PP 2, DP 2, a slow rank, a stall and a clock that is ahead."""

__all__ = [
    "DEMO",
    "BuiltJob",
    "Cut",
    "LateStart",
    "SlowLink",
    "Spec",
    "Straggler",
    "Truth",
    "build",
    "write_job",
]
