#!/usr/bin/env bash
# Say which records of communication a run has left, and which are missing or not whole.
#
#     verify_records.sh [--ranks N] [--ended-well] DIR
#
# DIR is the folder of the run; --ranks is 1 where it is not given. A run that ended well has no
# reason to dump. The status is 0 when what the recorders promise is there, 4 when something is
# missing, 2 for a wrong command line. FR, INSPECTOR and RAS say which recorders were on.
set -euo pipefail

CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export PROGRAM=verify_records
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=records.sh
source "$CCLTUI_SBATCH/lib/records.sh"

main() {
    local ranks=1 ended_well=no directory="" folder missing=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --ranks)
            need_value "$1" $#
            ranks=$2
            shift
            ;;
        --ended-well) ended_well=yes ;;
        -*) unknown_option "$1" ;;
        *) directory=$1 ;;
        esac
        shift
    done
    need_count --ranks "$ranks"
    [[ -d $directory ]] || fail "$USAGE" "no directory ${directory:-given}" "name the directory of a run"
    [[ -d $directory/records ]] || missing+=("records")
    for folder in "$directory"/records/*/; do
        [[ ! -d $folder ]] || one_run "${folder%/}"
    done
    ((${#missing[@]} == 0)) || {
        log "missing: $(printf '%s; ' "${missing[@]}")"
        exit "$INCOMPLETE"
    }
}

# one_run FOLDER: the records of the run under one profiler. Only the last run can have failed.
one_run() {
    local logs reports run=${1##*/}
    [[ ${FR:-0} != 1 ]] || dumps "$1"
    if [[ ${INSPECTOR:-0} == 1 ]]; then
        logs=$(find "$1" -maxdepth 1 -name '*.log' -size +0 | wc -l)
        # Each process has a log of its own.
        log "$run: $logs Inspector logs of $ranks processes"
        if ((logs == 0)); then
            missing+=("Inspector logs of $run (did NCCL find the plug-in? NCCL_PROFILER_PLUGIN names it)")
        elif ((logs < ranks)); then
            missing+=("$((ranks - logs)) of $ranks Inspector logs of $run")
        fi
    fi
    if [[ ${RAS:-0} == 1 ]]; then
        reports=$(find "$1" -maxdepth 1 -name 'ras_*.txt' -size +0 | wc -l)
        log "$run: $reports RAS reports"
        ((reports)) || [[ $ended_well == yes ]] || missing+=("RAS reports of $run")
        whole_reports "$1"
    fi
}

# whole_reports FOLDER: a report in JSON has an end; that of one in text cannot be told.
whole_reports() {
    local file
    for file in "$1"/ras_*.txt; do
        [[ -f $file && $(head -c 1 -- "$file") == "{" ]] || continue
        is_whole "$file" || missing+=("the end of ${file##*/} of ${1##*/}")
    done
}

dumps() {
    local rank file absent=() cut=() folder=$1 run=${1##*/}
    for ((rank = 0; rank < ranks; rank++)); do
        file=$folder/nccl_trace_rank_$rank
        if [[ ! -s $file ]]; then
            absent+=("$rank")
        elif ! is_whole "$file"; then
            cut+=("$rank")
        fi
    done
    log "$run: dumps of $((ranks - ${#absent[@]})) of $ranks ranks"
    ((${#cut[@]} == 0)) || missing+=("whole dumps of ranks ${cut[*]} of $run")
    # Of two runs the first ended well, else there was no second.
    [[ $ended_well == yes || ! -e $folder/.collect || ${#absent[@]} == 0 ]] ||
        missing+=("dumps of ranks ${absent[*]} of $run")
}

main "$@"
