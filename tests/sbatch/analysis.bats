#!/usr/bin/env bats
# Submitting an analysis: what reaches sbatch, and what is refused before.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log
    # shellcheck disable=SC2016
    stand_in sbatch 'printf "%s\n" "$*" >>"$RECORD"; echo "77;cluster"'
    export RECORD=$BATS_TEST_TMPDIR/record SITE_SCRATCH=$BATS_TEST_TMPDIR/scratch
    ANALYSE=$CCLTUI_SBATCH/analysis/submit.sh
    cd "$BATS_TEST_TMPDIR" || return
    mkdir run
}

@test "traces that are there need no job to wait for" {
    run "$ANALYSE" --parsable run
    [ "$status" -eq 0 ]
    [ "$output" = 77 ]
    [ -d scratch/ccl-bench-traces/logs ]
    [[ $(cat "$RECORD") == *"/analyse.sbatch -- $BATS_TEST_TMPDIR/run" ]]
    [[ $(cat "$RECORD") != *--dependency* ]]
}

@test "traces to come wait for the success of their jobs" {
    run "$ANALYSE" --after 12:13_4 later 'other one' -- --metric iter_time
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "submitted 77" ]]
    [[ $(cat "$RECORD") == *"--dependency=afterok:12:13_4 --kill-on-invalid-dep=yes "* ]]
    [[ $(cat "$RECORD") == *"/analyse.sbatch --metric iter_time -- $PWD/later $PWD/other one" ]]
}

@test "the site says where analyses go" {
    CCLTUI_SITE=perlmutter run "$ANALYSE" --account m1 run
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD") == *"--account=m1 --qos=shared --constraint=cpu "* ]]
}

@test "options win over the site, and its account over that of training" {
    export CCLTUI_SITE=perlmutter SITE_ACCOUNT=m1 SITE_ANALYSIS_ACCOUNT=m2
    run "$ANALYSE" --qos=debug --partition p --constraint c --time 5 run
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD") == *"--account=m2 --qos=debug --partition=p --constraint=c --time=5 "* ]]
}

@test "a dry run submits nothing" {
    run "$ANALYSE" --dry-run --after 7 run
    [ "$status" -eq 0 ]
    [[ $output == *"$PWD/run/metrics.json and .csv"*"--dependency=afterok:7"* ]]
    [ ! -e "$RECORD" ]
    [ ! -e scratch ]
}

@test "a directory that nobody is going to write is a mistake" {
    run "$ANALYSE" run absent
    [ "$status" -eq 2 ]
    [[ $output == *"no directory $PWD/absent"*"--after"* ]]
    [ ! -e "$RECORD" ]
}

@test "a wrong command line is told" {
    local words
    for words in "" "--after x run" "--after 7: run" "--after" "--unknown run" "--after 7"; do
        # shellcheck disable=SC2086
        run "$ANALYSE" $words
        [ "$status" -eq 2 ]
        [[ $output == *"analysis: error: "*"fix: "* ]]
    done
    [ ! -e "$RECORD" ]
}

@test "a missing account is refused before Slurm is asked" {
    CCLTUI_SITE=perlmutter run "$ANALYSE" run
    [ "$status" -eq 2 ]
    [[ $output == *"no account to charge on perlmutter"* ]]
    [ ! -e "$RECORD" ]
}

@test "a refusal by Slurm is passed on with what may help" {
    stand_in sbatch 'echo "sbatch: error: Invalid qos" >&2; exit 1'
    run "$ANALYSE" run
    [ "$status" -eq 1 ]
    [[ $output == *"Invalid qos"*"Slurm refused the job"*"sinfo -s"* ]]
}

@test "a job without ccltui says how to get it" {
    mkdir -p venv/bin
    printf '#!/bin/sh\nexit 1\n' >venv/bin/python
    chmod +x venv/bin/python
    VENV_DIR=$PWD/venv PATH=/usr/bin:/bin run bash "$CCLTUI_SBATCH/analysis/analyse.sbatch" -- run
    [ "$status" -eq 1 ]
    [[ $output == *"neither $PWD/venv nor the PATH has ccltui"*"setup_env.sh"* ]]
}
