"""Record the programs of all ranks and compute all times."""

from __future__ import annotations

from itertools import accumulate, pairwise

from ccltui.demo.planted.event_graph import evaluate
from ccltui.demo.planted.job_spec import JobSpec
from ccltui.demo.planted.replicated_step import ReplicatedStep
from ccltui.demo.planted.sharded_step import ShardedStep
from ccltui.demo.planted.tape import Simulation, Tape
from ccltui.demo.planted.workload import Workload

BETWEEN_STEPS_NS = 5_000
FIRST_STEP = 10
"""Number of the first step."""


def run_job(spec: JobSpec) -> tuple[Simulation, list[Tape]]:
    """Simulate a job; times are on the true clock, which begins at 0."""
    job, load = Simulation(spec), Workload(spec)
    tapes = [Tape(job, rank) for rank in range(spec.world_size)]
    for tape in tapes:
        program = ShardedStep if spec.family == "fsdp" else ReplicatedStep
        steps = program(tape, load)
        for step in range(spec.steps):
            tape.begin("user_annotation", f"ProfilerStep#{FIRST_STEP + step}")
            steps.record(step)
            tape.end()
            tape.busy("", "", BETWEEN_STEPS_NS)
    evaluate(job.ops, job.segments)
    return job, tapes


def step_time_ns(job: Simulation) -> float:
    """Mean time of a step: from the start of the hosts to the end of all work, over the steps."""
    return max(op.end_ns for op in job.ops) / job.spec.steps


def step_times_ns(job: Simulation) -> list[int]:
    """Time of each step: from the end of all work of the steps before to that of its own."""
    ends = [0] * (job.spec.steps + 1)
    for op in job.ops:
        ends[op.step + 1] = max(ends[op.step + 1], op.end_ns)
    reached = list(accumulate(ends, max))
    return [end - begin for begin, end in pairwise(reached)]
