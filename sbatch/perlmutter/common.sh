# shellcheck shell=bash
# Set your allocation here, once for all scripts: run.sh, submit_all.sh and every run.sbatch read it.

export NERSC_ALLOCATION="${NERSC_ALLOCATION:-}" # as in "m1234"; yours: sacctmgr show assoc user=$USER

# For batch scripts of your own on Perlmutter: everything that a run.sbatch uses.
#
#     source "$SLURM_SUBMIT_DIR/sbatch/perlmutter/common.sh"
#     run_workload NAME [ARGUMENT OF THE TRAINING PROGRAM...]
#
# Modules and NCCL settings are in ../sites/perlmutter.sh, profile modes in ../lib/job.sh.

# ../sites/perlmutter.sh reads this file for the allocation; the functions are loaded then.
if ! declare -F load_site >/dev/null; then
    export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
    CCLTUI_SBATCH=${CCLTUI_SBATCH:-$(dirname -- "${BASH_SOURCE[0]}")/..}
    # shellcheck source=../lib/job.sh
    source "$CCLTUI_SBATCH/lib/job.sh"
fi
