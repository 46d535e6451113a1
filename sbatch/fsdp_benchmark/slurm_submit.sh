#!/usr/bin/env bash
#SBATCH --job-name=fsdp-benchmark
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=02:00:00
#SBATCH --output=logs/train_%j.out
#SBATCH --error=logs/train_%j.err
# Measure the cluster, then train on it:
#
#     sbatch --nodes 2 slurm_submit.sh [ARGUMENT OF train.py...]
#
# BENCHMARK_ARGUMENTS are words for benchmark.py, STORAGE_DIR is the folder it writes in, and
# DRY_RUN=yes only says what would run. Training starts even if a measurement fails.
set -euo pipefail

# Slurm runs a copy of this file, so the scripts are looked for from where it was submitted.
for CCLTUI_SBATCH in "${CCLTUI_SBATCH:-}" "${SLURM_SUBMIT_DIR:-.}"{/..,/sbatch,}; do
    [[ ! -r $CCLTUI_SBATCH/fsdp_benchmark/lib.sh ]] || break
done
# shellcheck source=lib.sh
source "$CCLTUI_SBATCH/fsdp_benchmark/lib.sh"
prepare "$@"
run_benchmark || warn "the benchmark failed; what it measured is in logs/"
next_port
run_training --checkpoints "${CHECKPOINT_DIR:-checkpoints/${SLURM_JOB_ID:-local}}" "$@"
