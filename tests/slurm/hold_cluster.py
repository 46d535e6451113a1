"""Hold a private Slurm until standard input ends, or a signal asks for the end.

SLURM_CONF is printed when it is up. At the end what was started here is ended, and nothing else:
shells and clients that use the cluster stay.

python tests/slurm/hold_cluster.py    # then, in another shell: SLURM_CONF=... sinfo
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

from cluster import Cluster, private_directory
from presence import why_not


def main() -> int:
    """Run the cluster; 1 where none can run here, with the reason on standard error."""
    reason = why_not()
    if reason is not None:
        print(f"no Slurm here: {reason}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    with private_directory() as directory:
        running = Cluster(directory)
        running.start()
        try:
            print(running.plan.conf, flush=True)
            sys.stdin.read()
        finally:
            running.stop()
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the cluster and its folder go too."""
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
