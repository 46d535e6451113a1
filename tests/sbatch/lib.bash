# shellcheck shell=bash
# What every suite needs: the libraries, and a folder of stand-ins on the PATH.

load_libraries() {
    CCLTUI_SBATCH=$(cd -- "$BATS_TEST_DIRNAME/../../sbatch" && pwd)
    export CCLTUI_SBATCH PROGRAM=test
    unset CCLTUI_SITE NERSC_HOST SLURM_JOB_ID PYTHONPATH "${!SITE_@}"
    local name
    for name in "$@"; do
        # shellcheck source=/dev/null
        source "$CCLTUI_SBATCH/lib/$name.sh"
    done
    TOOLS=$BATS_TEST_TMPDIR/tools
    mkdir -p "$TOOLS"
    PATH=$TOOLS:$PATH
}

# stand_in NAME TEXT: a program of that name which runs TEXT.
stand_in() {
    printf '#!/usr/bin/env bash\n%s\n' "$2" >"$TOOLS/$1"
    chmod +x "$TOOLS/$1"
}
