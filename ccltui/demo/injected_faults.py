"""Describe the injected faults of a job in sentences."""

from __future__ import annotations

from ccltui.demo.spec import SlowLink, Spec, Straggler
from ccltui.demo.topology import Topology
from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.numbers import duration


def fault_sentences(spec: Spec, topology: Topology) -> tuple[str, ...]:
    """One sentence per injected fault of the job."""
    hosts = [topology.host_name(host * spec.gpus_per_node) for host in range(spec.num_hosts)]
    return (
        *(delay_sentence(spec, item, f"rank {item.rank}") for item in spec.stragglers),
        *(link_sentence(link) for link in spec.slow_links),
        *(
            f"the clock of {name} is {abs(offset) / 1e6:g} ms {'ahead' if offset > 0 else 'behind'}"
            for name, offset in zip(hosts, spec.clock_offsets_ns, strict=False)
            if offset
        ),
        *(
            f"the clock of {name} gains {drift / 1e3:g} us a second"
            for name, drift in zip(hosts, spec.clock_drifts_ppb, strict=False)
            if drift
        ),
        *(
            f"rank {start.rank} lacks its first {start.missing} collectives"
            for start in spec.late_starts
        ),
        *(f"the file of rank {cut.rank} is cut at {cut.fraction:.0%}" for cut in spec.cuts),
    )


_CAUSES = {
    "compute": "computes {} longer",
    "kernel": "computes {} longer, in its attention alone",
    "more_kernels": "runs more kernels, {} in all",
    "tokens": "computes {} longer, for its experts are sent more tokens",
    "copies": "copies its input {} longer",
    "data_loading": "waits {} longer for its data",
    "checkpoint": "saves a checkpoint for {}",
    "garbage_collection": "collects garbage for {}",
    "allocation": "allocates memory for {}",
    "synchronisation": "waits in a synchronisation for {}",
    "operator": "is frozen inside an operator for {}",
    "host": "launches its work {} later, without a reason on its host rows",
}


def delay_sentence(spec: Spec, straggler: Straggler, who: str) -> str:
    """Return what delays a rank, or several that are named by ``who``."""
    what = _CAUSES[straggler.cause].format(duration(straggler.extra_ns))
    if straggler.steps is None:
        return f"{who} {what} in every step"
    steps = sorted(spec.first_step + step for step in straggler.steps)
    noun = "step" if len(steps) == 1 else "steps"
    return f"{who} {what} in {noun} {ranges_text(steps)}"


def link_sentence(link: SlowLink) -> str:
    """Return which collectives take longer."""
    return (
        f"every {link.dimension} collective of rank {link.rank} transfers "
        f"{duration(link.extra_ns)} longer, and no rank is late because of it"
    )
