#!/usr/bin/env bats
# shellcheck disable=SC2016
# nsys: who records what into which file, and statistics by the names of the version that is here.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options
    PROFILE=$CCLTUI_SBATCH/nsys/profile.sh STATS=$CCLTUI_SBATCH/nsys/stats.sh
    unset "${!NSYS_@}"
    cd "$BATS_TEST_TMPDIR" || return
    printf x >run.nsys-rep
    stand_in nsys '[[ $1 != --version ]] || { echo "NVIDIA Nsight Systems version ${NSYS_IS:-2024.5.1}"; exit; }
printf "%s\n" "$*" >>record
if [[ $* == *nonsense* ]]; then echo "ERROR: Report '"'nonsense'"' could not be found."; exit 0; fi
if [[ $* == *broken* ]]; then echo "Exportation error" >&2; exit 1; fi
if [[ $1 == profile ]]; then while [[ $1 == -* || $1 == profile ]]; do shift; done; exec "$@"; fi
echo "table of rows"'
}

@test "only scribes record, the others run plainly" {
    for node in 0 1 2; do
        SLURM_PROCID=$node SLURM_NODEID=$node SLURMD_NODENAME=nid$node run "$PROFILE" --scribe 1,2 -- echo trained
        [ "$output" = trained ]
    done
    [ "$(wc -l <record)" -eq 2 ]
    [[ $(sed -n 1p record) == *"--output=report_node1_nid1 "* ]]
    [[ $(sed -n 2p record) == *"--output=report_node2_nid2 "* ]]
}

@test "the status of the training is passed on" {
    run "$PROFILE" --scribe all -- bash -c 'exit 7'
    [ "$status" -eq 7 ]
    SLURM_PROCID=1 run "$PROFILE" --scribe 0 -- bash -c 'exit 7'
    [ "$status" -eq 7 ]
}

@test "a window in seconds, or none" {
    "$PROFILE" --delay 3 --duration 0 -- true
    [[ $(cat record) == *"--delay=3 true" ]]
    NSYS_DELAY=0 NSYS_DURATION=9 "$PROFILE" -- true
    [[ $(tail -n 1 record) != *--delay* ]]
    [[ $(tail -n 1 record) == *"--duration=9 true" ]]
}

@test "what cannot be meant is refused" {
    for wrong in "--delay soon" "--duration -1" "--scribe one" "--capture-range cuda"; do
        # shellcheck disable=SC2086
        run "$PROFILE" $wrong -- true
        [ "$status" -eq 2 ]
    done
    run "$PROFILE"
    [ "$status" -eq 2 ]
    [[ $output == *"no command to run"* ]]
}

@test "sockets of nsys get a short path" {
    TMPDIR=/tmp/$(printf 'x%.0s' {1..80}) run "$PROFILE" -- bash -c 'echo $TMPDIR'
    [ "$output" = /tmp ]
}

@test "names are those of the version" {
    NSYS_IS=2022.4.2 "$STATS" --report cuda_gpu_kern_sum,nvtx_pushpop_sum,um_sum run.nsys-rep
    "$STATS" --report gpu-kern-summary run.nsys-rep
    [[ $(sed -n 1p record) == *"--report gpukernsum,nvtxppsum,umsum "* ]]
    [[ $(sed -n 2p record) == *"--report cuda_gpu_kern_sum "* ]]
    [ "$(cat nsys_stats_run.txt)" = "table of rows" ]
}

@test "a report that nsys does not know is a failure, although nsys ends with 0" {
    run "$STATS" --report nonsense run.nsys-rep
    [ "$status" -eq 1 ]
    [[ $output == *"could not be found"*"--help-reports"* ]]
    [ ! -e nsys_stats_run.txt ]
}

@test "a file that fails does not keep the others from being read" {
    printf x >broken.nsys-rep
    run "$STATS" .
    [ "$status" -eq 1 ]
    [[ $output == *"nsys stats failed on ./broken.nsys-rep: Exportation error"* ]]
    [ -s nsys_stats_run.txt ]
}

@test "a window needs an nsys that has it" {
    NSYS_IS=2022.4.2 run "$STATS" --filter-time 1s/2s run.nsys-rep
    [ "$status" -eq 1 ]
    [[ $output == *"nsys of 2022 has no --filter-time"*"ccltui stats"* ]]
}

@test "an export is not exported again" {
    printf x >run.sqlite
    "$STATS" run.sqlite
    [[ $(cat record) != *force-export* ]]
}

@test "a folder without reports is refused" {
    mkdir empty
    run "$STATS" empty
    [ "$status" -eq 1 ]
    [[ $output == *"no .nsys-rep below empty"* ]]
}

@test "linked reports are read, each once" {
    mkdir run elsewhere
    mv run.nsys-rep elsewhere/a.nsys-rep
    ln -s ../elsewhere/a.nsys-rep run/
    ln -s a.nsys-rep run/again.nsys-rep
    "$STATS" run
    [ "$(wc -l <record)" -eq 1 ]
    [ -s run/nsys_stats_a.txt ]
}
