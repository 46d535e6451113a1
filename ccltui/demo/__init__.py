"""Synthetic multi-rank jobs written in the layouts of Kineto, with known values of the metrics."""

from ccltui.demo.demo_job import BuiltJob, build, write_job
from ccltui.demo.spec import Cut, LateStart, SlowLink, Spec, Straggler
from ccltui.demo.truth import Truth

DEMO = Spec()
"""Default job: 8 ranks on 2 hosts, TP 2, PP 2, DP 2, a slow rank, a stall and a clock ahead."""

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
