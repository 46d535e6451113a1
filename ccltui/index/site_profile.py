"""Options of sbatch from a site profile of the collection scripts (`sbatch/sites`)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from ccltui.index.index_engine import EngineError

_VARIABLE: Final = "CCLTUI_SBATCH"
_TIMEOUT_S: Final = 60
# Profiles are bash. Those for analysis come first: reading needs no GPU. What the user exported for
# sbatch wins over the profile.
_PRINT: Final = r"""
set -eu
if [[ -r $CCLTUI_SBATCH/lib/site.sh ]]; then
    source "$CCLTUI_SBATCH/lib/site.sh"
    take_sbatch_variables
fi
source "$1" >&2
[[ ${SITE_ACCOUNT_NEEDED:-no} != yes || -n ${SITE_ANALYSIS_ACCOUNT:-${SITE_ACCOUNT:-}} ]] || {
    echo "no account: ${SITE_ACCOUNT_FROM:-set SITE_ACCOUNT}" >&2
    exit 3
}
one() { [[ -z $2 ]] || printf -- '--%s=%s\0' "$1" "$2"; }
one account "${SITE_ANALYSIS_ACCOUNT:-${SITE_ACCOUNT:-}}"
one partition "${SITE_ANALYSIS_PARTITION:-}"
one constraint "${SITE_ANALYSIS_CONSTRAINT:-}"
one qos "${SITE_ANALYSIS_QOS:-}"
"""


def site_options(profile: str) -> tuple[str, ...]:
    """Return the options of sbatch that a profile states for work without GPUs.

    Args:
        profile: Path of a profile, or the name of one in ``sites`` of the collection scripts, which
            are found by ``CCLTUI_SBATCH`` or beside the package in a checkout.

    Raises:
        EngineError: There is no such profile, or it cannot be read.
    """
    folder = Path(os.environ.get(_VARIABLE) or Path(__file__).resolve().parents[2] / "sbatch")
    path = Path(profile) if "/" in profile else folder / "sites" / f"{profile}.sh"
    if not path.is_file():
        there = ", ".join(sorted(one.stem for one in folder.glob("sites/*.sh"))) or "none found"
        raise EngineError(
            f"no site profile {path}: give its path, or one of: {there} "
            f"({_VARIABLE} names the folder of the collection scripts)"
        )
    try:
        done = subprocess.run(
            ["bash", "-c", _PRINT, "site", str(path.resolve())],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            env={**os.environ, _VARIABLE: str(folder)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"the site profile {path} cannot be read: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise EngineError(f"the site profile {path} cannot be read: {last}")
    return tuple(option for option in done.stdout.split("\0") if option)
