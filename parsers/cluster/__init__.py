"""Files about the machines of a job: benchmarks, topologies, network cards, NCCL's own words."""
