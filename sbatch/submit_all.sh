#!/usr/bin/env bash
# Submit several workloads, or all of them.
#
#     submit_all.sh [OPTION]... [OPTION OF run.sh]... [-- ARGUMENT OF THE TRAINING PROGRAM...]
#
#   --list            print the names and submit nothing
#   --only PATTERN    only workloads whose name matches, as in 'llama3*'; may be repeated
#   --except PATTERN  without those; may be repeated
#   --chain KIND      one after the other: afterany, or afterok, which stops at a failure
#   --dry-run         print what would be submitted
#   --help
#
# What else is given goes to each run.sh: --account, --profile, --steps, … A workload that cannot run
# here as it is configured is named with the reason, and the others are submitted; the status is 1
# where Slurm refuses a job, or where there is nothing to submit.
set -euo pipefail

export PROGRAM=submit_all
CCLTUI_SBATCH=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"

main() {
    local workload status=0 submitted=0
    read_options "$@"
    select_workloads
    if [[ $ACTION == list ]]; then
        printf '%s\n' "${SELECTED[@]}"
        return
    fi
    PREVIOUS="" SUMMARY=()
    for workload in "${SELECTED[@]}"; do
        hand_over "$workload"
        case $RESULT in
        0) submitted=$((submitted + 1)) ;;
        "$CANNOT") ;;
        *) status=$FAILED ;;
        esac
    done
    printf '%-52s %s\n' workload job "${SUMMARY[@]}"
    ((submitted)) || status=$FAILED
    return "$status"
}

read_options() {
    ACTION=submit CHAIN="" ONLY=() EXCEPT=() FURTHER=()
    split_options "$@"
    set -- "${WORDS[@]}"
    while (($#)); do
        case $1 in
        --help | -h)
            help_text "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --list) ACTION=list ;;
        --dry-run) ACTION=dry-run ;;
        --only)
            need_value "$1" $#
            ONLY+=("$2")
            shift
            ;;
        --except)
            need_value "$1" $#
            EXCEPT+=("$2")
            shift
            ;;
        --chain)
            need_value "$1" $#
            need_one_of --chain "$2" afterany afterok
            CHAIN=$2
            shift
            ;;
        --dependency | --local | --output) fail "$USAGE" "$1 is for one workload" "use it with run.sh" ;;
        --)
            FURTHER+=("$@")
            break
            ;;
        *) FURTHER+=("$1") ;;
        esac
        shift
    done
}

select_workloads() {
    local folder name
    SELECTED=()
    for folder in "$CCLTUI_SBATCH"/workloads/*/; do
        name=$(basename -- "$folder")
        if ((${#ONLY[@]})) && ! matches "$name" "${ONLY[@]}"; then continue; fi
        if matches "$name" "${EXCEPT[@]}"; then continue; fi
        SELECTED+=("$name")
    done
    ((${#SELECTED[@]})) || fail "$USAGE" "no workload has such a name" "see --list"
}

# matches NAME PATTERN...
matches() {
    local name=$1 pattern
    shift
    for pattern in "$@"; do
        # shellcheck disable=SC2053
        [[ $name != $pattern ]] || return 0
    done
    return 1
}

# hand_over WORKLOAD: submit it, dependent on the previous job in a chain. RESULT is the status of
# its run.sh; without a job there is the reason instead.
hand_over() {
    local options=() id="" said
    RESULT=0
    said=$(mktemp)
    [[ -z $CHAIN || -z $PREVIOUS ]] || options+=(--dependency "$CHAIN:$PREVIOUS")
    if [[ $ACTION == dry-run ]]; then
        options+=(--dry-run)
        id="JOB_OF_$1"
        "$CCLTUI_SBATCH/workloads/$1/run.sh" "${options[@]}" "${FURTHER[@]}" 2>"$said" || RESULT=$?
        printf '\n'
    else
        options+=(--parsable)
        id=$("$CCLTUI_SBATCH/workloads/$1/run.sh" "${options[@]}" "${FURTHER[@]}" 2>"$said") || RESULT=$?
    fi
    cat -- "$said" >&2
    case $RESULT in
    0) PREVIOUS=$id ;;
    "$CANNOT") id="cannot run: $(sed -n 's/^error: //p' "$said" | sed -n 1p)" ;;
    *) id=refused ;;
    esac
    SUMMARY+=("$1" "$id")
    rm -f -- "$said"
}

main "$@"
