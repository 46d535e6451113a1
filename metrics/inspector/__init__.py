"""Records of NCCL Inspector over all ranks of a job: who arrives late, which group is slow."""
