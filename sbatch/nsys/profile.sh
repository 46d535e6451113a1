#!/usr/bin/env bash
# Run a command, under nsys on the nodes that were chosen and plainly on all others.
#
#     srun --ntasks-per-node=1 profile.sh [OPTION]... -- COMMAND...
#
#   --scribe LIST      tasks (SLURM_PROCID) that record: 0, 1,3 or all; default NSYS_SCRIBE, else all
#   --delay SECONDS    before recording starts; default NSYS_DELAY, else 120
#   --duration SECONDS of recording, 0: to the end; default NSYS_DURATION, else 15
#   --capture-range R  none (default), cudaProfilerApi or nvtx: the command opens the range itself,
#                      and delay and duration are not used; default NSYS_CAPTURE_RANGE
#   --trace LIST       default NSYS_TRACE, else cuda,nvtx,osrt,cudnn,cublas
#   --output PREFIX    reports are PREFIX_nodeN_HOST.nsys-rep; default report
#   --dry-run          print the command and run nothing
#   --help
set -euo pipefail

CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export PROGRAM=nsys/profile.sh
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"

main() {
    local scribe=${NSYS_SCRIBE:-all} delay=${NSYS_DELAY:-120} duration=${NSYS_DURATION:-15}
    local range=${NSYS_CAPTURE_RANGE:-none} trace=${NSYS_TRACE:-cuda,nvtx,osrt,cudnn,cublas}
    local output=report dry=no command=() NSYS=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --dry-run) dry=yes ;;
        --scribe | --delay | --duration | --trace | --output)
            need_value "$1" $#
            declare "${1#--}=$2"
            shift
            ;;
        --capture-range)
            need_value "$1" $#
            range=$2
            shift
            ;;
        --)
            command=("${@:2}")
            break
            ;;
        *) unknown_option "$1" ;;
        esac
        shift
    done
    ((${#command[@]})) || fail "$USAGE" "no command to run" "put it after --"
    need_one_of --capture-range "$range" none cudaProfilerApi nvtx
    [[ $delay =~ ^[0-9]+$ && $duration =~ ^[0-9]+$ ]] || fail "$USAGE" \
        "--delay is '$delay' and --duration '$duration'" "give whole seconds"
    [[ $scribe =~ ^(all|[0-9]+(,[0-9]+)*)$ ]] || fail "$USAGE" "--scribe is '$scribe'" "give 0, or 1,3, or all"
    # nsys puts sockets there, whose paths are limited to about a hundred characters.
    [[ -z ${TMPDIR:-} || ${#TMPDIR} -lt 60 ]] || export TMPDIR=/tmp
    if is_scribe "$scribe"; then
        nsys_command
        command=("${NSYS[@]}" "${command[@]}")
        [[ $dry == yes ]] || command -v nsys >/dev/null ||
            fail "$FAILED" "nsys is not on the PATH of $(hostname)" "load its module before srun"
    fi
    if [[ $dry == yes ]]; then
        shell_words "${command[@]}"
        return
    fi
    exec "${command[@]}"
}

task() {
    printf '%s\n' "${SLURM_PROCID:-0}"
}

# is_scribe LIST
is_scribe() {
    [[ $1 == all || ,$1, == *,$(task),* ]]
}

nsys_command() {
    local name=${output}_node${SLURM_NODEID:-0}_${SLURMD_NODENAME:-$(hostname -s)}
    NSYS=(
        nsys profile --trace="$trace" --sample=none --cpuctxsw=none --cuda-graph-trace=node
        --kill=none --force-overwrite=true --output="$name"
    )
    if [[ $range != none ]]; then
        NSYS+=(--capture-range="$range" --capture-range-end=stop)
        return
    fi
    [[ $delay == 0 ]] || NSYS+=(--delay="$delay")
    [[ $duration == 0 ]] || NSYS+=(--duration="$duration")
}

main "$@"
