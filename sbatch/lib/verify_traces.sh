#!/usr/bin/env bash
# Say what a run has left, what is missing, and what could not be checked.
#
#     verify_traces.sh [--ranks N] [--profile torch|nsys|both] [--device cuda|cpu] [--steps N]
#         [--nsys-steps FIRST-LAST] [--nodes N] [--sockets yes|no] [--python P] DIR
#
# --ranks is 1 and --profile torch where they are not given; --device cpu expects no GPU events.
# --steps is the last step of the training; that and the steps of nsys are in launcher_metadata.json
# of the run as well. On more --nodes than one, NCCL must not have used sockets between them, unless
# --sockets is yes: the cluster has no faster network.
# The status is 0 when all that the profile mode promises is there, 4 when something is missing,
# 2 for a wrong command line.
set -euo pipefail

CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export PROGRAM=verify_traces
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=network.sh
source "$CCLTUI_SBATCH/lib/network.sh"

main() {
    local ranks=1 profile=torch device=cuda python=${PYTHON:-python3} directory="" missing=()
    local steps="" nsys_steps="" nodes=1 sockets=no
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --ranks | --profile | --device | --python | --steps | --nsys-steps | --nodes | --sockets)
            need_value "$1" $#
            local name=${1#--}
            declare "${name//-/_}=$2"
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
    need_count --nodes "$nodes"
    need_one_of --sockets "$sockets" yes no
    [[ -d $directory ]] || fail "$USAGE" "no directory ${directory:-given}" "name the directory of a run"
    steps_of_run
    [[ $profile == nsys ]] || torch_traces
    [[ $profile == torch ]] || nsys_reports
    side_files
    network
    contents
    ((${#missing[@]} == 0)) || {
        log "missing: $(printf '%s; ' "${missing[@]}")"
        exit "$INCOMPLETE"
    }
    log "all that profile mode $profile promises is there"
}

torch_traces() {
    captures_within_run
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

# steps_of_run: STEPS and NSYS_STEPS of the run, as given, else of launcher_metadata.json.
steps_of_run() {
    local known=()
    mapfile -t known < <("$python" -P -S -c "$FACTS_OF_RUN" "$directory/launcher_metadata.json" 2>/dev/null)
    steps=${steps:-${known[0]:-}} nsys_steps=${nsys_steps:-${known[1]:-}}
    [[ -z $steps ]] || need_count --steps "$steps"
    [[ -z $nsys_steps || $nsys_steps =~ ^[1-9][0-9]{0,8}-[1-9][0-9]{0,8}$ ]] || nsys_steps=""
}

# shellcheck disable=SC2016
readonly FACTS_OF_RUN='
import json, sys
document = json.load(open(sys.argv[1], encoding="utf-8"))
steps = document.get("train_config", {}).get("training.steps")
recorded = document.get("nsys_steps")
print(steps if type(steps) is int else "")
print(recorded if isinstance(recorded, str) else "")
'

# captures_within_run: a capture after the last step is not of this run.
captures_within_run() {
    local folder number late=()
    [[ -n $steps ]] || return 0
    while IFS= read -r folder; do
        number=${folder##*iteration_}
        [[ ! $number =~ ^[0-9]{1,9}$ ]] || ((10#$number <= steps)) || late+=("$number")
    done < <(find -L "$directory" -maxdepth 2 -type d -name 'iteration_*' | sort -V)
    ((${#late[@]} == 0)) || missing+=("captures of this run: iteration ${late[*]} is after its last step, $steps")
}

# is_report FILE: what every report begins with, and more than a header.
is_report() {
    local size
    size=$(stat -L -c %s -- "$1")
    ((size >= 1024)) && [[ $(head -c 28 -- "$1" | tr -d '\0') == "NVIDIA Tegra Profiler Report" ]]
}

nsys_reports() {
    local report good=0 bad=()
    while IFS= read -r -d '' report; do
        if is_report "$report"; then good=$((good + 1)); else bad+=("${report##*/}"); fi
    done < <(find -L "$directory" -name '.*' -prune -o -type f -name '*.nsys-rep' -print0)
    log "nsys reports: $good"
    ((good > 0 || ${#bad[@]})) || missing+=("a .nsys-rep (did training last longer than NSYS_DELAY?)")
    ((${#bad[@]} == 0)) || missing+=("a report in ${bad[*]} (too small, or not written by nsys)")
    [[ -z $steps || -z $nsys_steps ]] || ((${nsys_steps#*-} <= steps)) ||
        missing+=("steps $nsys_steps of nsys: the run ended at step $steps")
}

side_files() {
    [[ -s $directory/workload_card.yaml ]] || missing+=("workload_card.yaml")
    [[ -n $(find -L "$directory" -maxdepth 1 -type f -size +0 -name '*.log') ]] || missing+=("a log of the training")
}

# network: over which the nodes communicated, by NCCL's own account.
network() {
    local networks
    [[ $device == cuda ]] && ((nodes > 1)) || return 0
    networks=$(networks_of "$directory")
    if [[ -z $networks ]]; then
        log "not checked: which network NCCL used (it says so with NCCL_DEBUG=INFO)"
        return
    fi
    log "network of NCCL: $networks"
    [[ $networks != *Socket* || $sockets == yes ]] ||
        missing+=("a fast network: NCCL used sockets between $nodes nodes (the plug-in or InfiniBand was not found; SITE_SOCKETS_ALLOWED=yes where there is nothing faster)")
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
