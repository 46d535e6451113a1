"""Why a job stands: what watchdogs and NCCL's RAS said, and who did not arrive."""
