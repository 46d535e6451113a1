#!/usr/bin/env bash
#SBATCH --job-name=benchmark
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=00:30:00
#SBATCH --output=logs/benchmark_%j.out
#SBATCH --error=logs/benchmark_%j.err
# Measure the cluster and do nothing else; see slurm_submit.sh for the variables.
set -euo pipefail

# Slurm runs a copy of this file, so the scripts are looked for from where it was submitted.
for CCLTUI_SBATCH in "${CCLTUI_SBATCH:-}" "${SLURM_SUBMIT_DIR:-.}"{/..,/sbatch,}; do
    [[ ! -r $CCLTUI_SBATCH/fsdp_benchmark/lib.sh ]] || break
done
# shellcheck source=lib.sh
source "$CCLTUI_SBATCH/fsdp_benchmark/lib.sh"
prepare "$@"
run_benchmark
