#!/usr/bin/env bash
# Say what a run has left, what is missing, and what could not be checked.
#
#     verify_traces.sh [--ranks N] [--profile torch|nsys|both] [--device cuda|cpu] [--python P] DIR
#
# --ranks is 1 and --profile torch where they are not given; --device cpu expects no GPU events.
# The status is 0 when all that the profile mode promises is there, 4 when something is missing,
# 2 for a wrong command line.
set -euo pipefail

CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export PROGRAM=verify_traces
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"

main() {
    local ranks=1 profile=torch device=cuda python=${PYTHON:-python3} directory="" missing=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --ranks | --profile | --device | --python)
            need_value "$1" $#
            declare "${1#--}=$2"
            shift
            ;;
        -*) unknown_option "$1" ;;
        *) directory=$1 ;;
        esac
        shift
    done
    need_count --ranks "$ranks"
    need_one_of --profile "$profile" torch nsys both
    need_one_of --device "$device" cuda cpu
    [[ -d $directory ]] || fail "$USAGE" "no directory ${directory:-given}" "name the directory of a run"
    [[ $profile == nsys ]] || torch_traces
    [[ $profile == torch ]] || nsys_reports
    side_files
    contents
    ((${#missing[@]} == 0)) || {
        log "missing: $(printf '%s; ' "${missing[@]}")"
        exit "$INCOMPLETE"
    }
    log "all that profile mode $profile promises is there"
}

# with_content PATTERN: how many files of that name, not empty, are below the directory.
with_content() {
    find -L "$directory" -name '.*' -prune -o -type f -size +0 -name "$1" -print | wc -l
}

torch_traces() {
    local rank kineto=() executions=()
    for ((rank = 0; rank < ranks; rank++)); do
        [[ -s $directory/kineto_trace_$rank.json || -s $directory/kineto_trace_$rank.json.gz ]] || kineto+=("$rank")
        [[ -s $directory/torch_et_$rank.json ]] || executions+=("$rank")
    done
    log "kineto traces linked: $((ranks - ${#kineto[@]})) of $ranks ranks"
    log "execution traces linked: $((ranks - ${#executions[@]})) of $ranks ranks"
    ((${#kineto[@]} == 0)) || missing+=("kineto_trace_R.json of rank ${kineto[*]} (did training reach profile_freq steps?)")
    ((${#executions[@]} == 0)) || missing+=("torch_et_R.json of rank ${executions[*]}")
}

nsys_reports() {
    local reports
    reports=$(with_content '*.nsys-rep')
    log "nsys reports: $reports"
    ((reports > 0)) || missing+=("a .nsys-rep (did training last longer than NSYS_DELAY?)")
}

side_files() {
    [[ -s $directory/workload_card.yaml ]] || missing+=("workload_card.yaml")
    (($(with_content '*.log') > 0)) || missing+=("a log of the training")
}

# contents: names prove little; ccltui reads the traces.
contents() {
    local line
    if ! "$python" -P -c 'import ccltui' 2>/dev/null; then
        log "not checked: what is in the files ($python has no ccltui); names and sizes only"
        return
    fi
    while IFS= read -r line; do
        case $line in
        "missing "*) missing+=("${line#missing }") ;;
        *) log "$line" ;;
        esac
    done < <("$python" "$CCLTUI_SBATCH/lib/look_into_traces.py" --profile "$profile" --device "$device" "$directory" 2>&1)
}

main "$@"
