# shellcheck shell=bash
# For batch scripts of your own on Perlmutter: everything that a run.sbatch uses.
#
#     source "$SLURM_SUBMIT_DIR/sbatch/perlmutter/common.sh"
#     run_workload NAME [ARGUMENT OF THE TRAINING PROGRAM...]
#
# Allocation, modules and NCCL settings are in ../sites/perlmutter.sh, profile modes in ../lib/job.sh.

export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
CCLTUI_SBATCH=${CCLTUI_SBATCH:-$(dirname -- "${BASH_SOURCE[0]}")/..}
# shellcheck source=../lib/job.sh
source "$CCLTUI_SBATCH/lib/job.sh"
