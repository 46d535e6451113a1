#!/usr/bin/env bash
# Check a run of GPT-2 as the job would, then submit it.
#
#     RUN_DIR=/scratch/me/run1 submit.sh [OPTION OF sbatch...]
#
# Data, packages, configuration and RUN_DIR are looked at here, before the job waits. The variables are
# those of run_2node_8gpu.sbatch; account, partition, qos and constraint are those of the site where no
# option says otherwise. DRY_RUN=yes submits nothing.
set -euo pipefail

CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export PROGRAM=submit
# shellcheck source=lib.sh
source "$CCLTUI_SBATCH/gpt2_deepspeed/lib.sh"

main() {
    local name site words=()
    if [[ ${1:-} == --help || ${1:-} == -h ]]; then
        help_text "${BASH_SOURCE[0]}"
        return
    fi
    unset SLURM_JOB_ID # of a job in which this is called: it is not the one that trains
    load_site
    check_run
    for name in ACCOUNT PARTITION QOS CONSTRAINT; do
        site=SITE_$name
        [[ -z ${!site:-} ]] || words+=("--${name,,}=${!site}")
    done
    words+=("$@" "$GPT2_DEEPSPEED/run_2node_8gpu.sbatch")
    if [[ ${DRY_RUN:-no} == yes ]]; then
        shell_words sbatch "${words[@]}"
        return
    fi
    CCLTUI_SUBMITTED=yes sbatch "${words[@]}" || fail "$FAILED" "Slurm refused the job" \
        "see the line of sbatch above; accounts and qos of yours: $SITE_ACCOUNT_LIST; partitions: sinfo -s"
}

main "$@"
