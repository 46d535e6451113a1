"""Hold a private Slurm until standard input ends; SLURM_CONF is printed when it is up.

python tests/slurm/hold_cluster.py    # then, in another shell: SLURM_CONF=... sinfo
"""

from __future__ import annotations

import sys

from cluster import Cluster, private_directory
from presence import why_not


def main() -> int:
    """Run the cluster; 1 where none can run here, with the reason on standard error."""
    reason = why_not()
    if reason is not None:
        print(f"no Slurm here: {reason}", file=sys.stderr)
        return 1
    with private_directory() as directory:
        running = Cluster(directory)
        running.start()
        try:
            print(running.plan.conf, flush=True)
            sys.stdin.read()
        finally:
            running.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
