#!/usr/bin/env bats
# shellcheck disable=SC2016
# Submitting: what reaches sbatch, and what is said when it refuses.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log
    # Quick, and without ccltui: the checks of a workload have tests of their own.
    mkdir -p "$BATS_TEST_TMPDIR/venv/bin"
    printf '#!/usr/bin/env bash\nexec python3 -S "$@"\n' >"$BATS_TEST_TMPDIR/venv/bin/python"
    chmod +x "$BATS_TEST_TMPDIR/venv/bin/python"
    stand_in sbatch 'printf "%s\n" "${PROFILE_MODE:-none} $*" >>"$RECORD"; echo $((41 + $(wc -l <"$RECORD")))'
    export RECORD=$BATS_TEST_TMPDIR/record SCRATCH=$BATS_TEST_TMPDIR VENV_DIR=$BATS_TEST_TMPDIR/venv
    LLAMA=$CCLTUI_SBATCH/workloads/llama3.1-8b-torchtitan-tp-perlmutter-16
}

@test "a job is submitted and its number printed" {
    run "$LLAMA/run.sh" --parsable --profile nsys 2>/dev/null
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == 42 ]]
    [[ $(cat "$RECORD") == "nsys --parsable --export=ALL --nodes=1 "*" --constraint= "* ]]
    CCLTUI_SITE=perlmutter NERSC_ALLOCATION=m1 run "$LLAMA/run.sh"
    [[ $(sed -n 2p "$RECORD") == *" --constraint=gpu --qos=regular "*"/run.sbatch" ]]
    [ -d "$SCRATCH/ccl-bench-traces/logs" ]
}

@test "a site without a qos does not ask for that of Perlmutter" {
    stand_in sbatch 'for word in "$@"; do [[ ! -r $word ]] || cat "$word"; done >"$RECORD"; echo "$*" >"$RECORD.words"; echo 42'
    run "$LLAMA/run.sh" -- --training.steps 20
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD.words") == *" --training.steps 20" ]]
    diff <(grep -v '^#SBATCH --qos=' "$LLAMA/run.sbatch") "$RECORD"
    SITE_QOS=mine run "$LLAMA/run.sh"
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD.words") == *" --qos=mine "*"/run.sbatch" ]]
}

@test "Slurm may be asked when it would start" {
    run "$LLAMA/run.sh" --test-only
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD") == "none --test-only "* ]]
}

@test "a refusal by Slurm is passed on with what may help" {
    stand_in sbatch 'echo "sbatch: error: Invalid account" >&2; exit 1'
    run "$LLAMA/run.sh"
    [ "$status" -eq 1 ]
    [[ $output == *"Invalid account"*"Slurm refused the job"*"sacctmgr show assoc"* ]]
}

@test "a missing account is refused before Slurm is asked" {
    CCLTUI_SITE=perlmutter run "$LLAMA/run.sh"
    [ "$status" -eq 2 ]
    [[ $output == *"no account to charge on perlmutter"*"NERSC_ALLOCATION"*"or give --account"* ]]
    [ ! -e "$RECORD" ]
}

@test "without sbatch that is said" {
    # All the machine's programs but those of Slurm, which may be installed.
    local others=$BATS_TEST_TMPDIR/others
    mkdir "$others"
    ln -s /usr/bin/* "$others/"
    rm -f "$others/sbatch" "$others/python3"
    printf '#!/bin/bash\nexec %q "$@"\n' "$(command -v python3)" >"$others/python3"
    chmod +x "$others/python3"
    PATH=$others run "$LLAMA/run.sh"
    [ "$status" -eq 1 ]
    [[ $output == *"there is no sbatch here"*"--local"* ]]
}

@test "a workload on more nodes than one does not run here" {
    run "$LLAMA/run.sh" --local --gpus-per-node 2
    [ "$status" -eq 2 ]
    [[ $output == *"make 2 nodes"*"--gpus-per-node 4"* ]]
}

@test "nodes follow from the degrees and the GPUs of a node" {
    SITE_GPUS_PER_NODE=8 run "$LLAMA/run.sh" --parsable
    SITE_GPUS_PER_NODE=2 run "$LLAMA/run.sh" --parsable
    [[ $(sed -n 1p "$RECORD") == *" --nodes=1 "*"--gpus-per-node=4 "* ]]
    [[ $(sed -n 2p "$RECORD") == *" --nodes=2 "*"--gpus-per-node=2 "* ]]
}

@test "all are submitted, one behind the other" {
    run "$CCLTUI_SBATCH/submit_all.sh" --only 'deepseek*' --chain afterok
    [ "$status" -eq 0 ]
    [[ $(sed -n 1p "$RECORD") != *--dependency* ]]
    [[ $(sed -n 2p "$RECORD") == *"--dependency=afterok:42 "* ]]
    [[ ${lines[-2]} == *"dp+pp-perlmutter-16"*" 42" ]]
    [[ ${lines[-1]} == *"dp+tp-perlmutter-16"*" 43" ]]
}

# copied_scripts: a copy whose workloads may be changed.
copied_scripts() {
    cp -r "$CCLTUI_SBATCH" "$BATS_TEST_TMPDIR/sbatch"
    unset CCLTUI_SBATCH
    COPY=$BATS_TEST_TMPDIR/sbatch
}

@test "what cannot run is named, all else is submitted, and that is a success" {
    copied_scripts
    sed -i '/^custom_import/d' "$COPY"/workloads/qwen3*3d*/train_config.toml
    run "$COPY/submit_all.sh" --only '*pp*' --except 'deepseek*' --only '*3d*'
    [ "$status" -eq 0 ]
    [[ ${lines[-3]} == llama* && ${lines[-3]} == *" 42" ]]
    [[ ${lines[-2]} == qwen*3d* && ${lines[-2]} == *" cannot run: torchtitan 0.2.2 does not pipeline qwen3" ]]
    [[ ${lines[-1]} == qwen*dp+pp* && ${lines[-1]} == *" 43" ]]
    [ "$(wc -l <"$RECORD")" -eq 2 ]
}

@test "nothing to submit is a failure" {
    copied_scripts
    sed -i '/^custom_import/d' "$COPY"/workloads/qwen3*3d*/train_config.toml
    run "$COPY/submit_all.sh" --only '*3d*'
    [ "$status" -eq 1 ]
}

@test "a refusal by Slurm is a failure, and the others are submitted" {
    stand_in sbatch '[[ $CCLTUI_WORKLOAD_DIR != *llama*tp* ]] || exit 1
printf "%s\n" "$*" >>"$RECORD"; echo $((41 + $(wc -l <"$RECORD")))'
    run "$CCLTUI_SBATCH/submit_all.sh" --only 'llama*'
    [ "$status" -eq 1 ]
    [[ ${lines[-2]} == *"-pp-"*" 42" ]]
    [[ ${lines[-1]} == *"-tp-"*" refused" ]]
}

@test "larger nodes are asked for where a workload does not fit the others" {
    export CCLTUI_SITE=perlmutter NERSC_ALLOCATION=m1234
    stand_in sbatch 'printf "%s\n" "${SITE_GPU_MEMORY_GIB:-} $*" >>"$RECORD"; echo 42'
    run "$CCLTUI_SBATCH"/workloads/qwen3*3d*/run.sh
    [ "$status" -eq 0 ]
    [[ $output == *"note: about "*" GiB on every GPU: nodes with 80 GB are requested"* ]]
    run "$LLAMA/run.sh"
    run "$CCLTUI_SBATCH"/workloads/qwen3*3d*/run.sh --constraint mine
    [ "$status" -eq 3 ]
    [[ $output == *"would run out of memory"* ]]
    run "$CCLTUI_SBATCH"/workloads/qwen3*3d*/run.sh --constraint 'gpu&hbm80g'
    [ "$status" -eq 0 ]
    [[ $(sed -n 1p "$RECORD") == "80 "*" --constraint=gpu&hbm80g "* ]]
    [[ $(sed -n 2p "$RECORD") == " "*" --constraint=gpu "* ]]
    [[ $(sed -n 3p "$RECORD") == *" --constraint=gpu&hbm80g "* ]]
}

@test "a copy of a workload elsewhere finds the scripts" {
    local copy=$BATS_TEST_TMPDIR/mine
    cp -r "$LLAMA" "$copy"
    run env -u CCLTUI_SBATCH "$copy/run.sh" --dry-run
    [ "$status" -eq 2 ]
    [[ $output == *"the scripts are not beside this copy"*"fix: echo "*"$copy/CCLTUI_SBATCH"* ]]
    run env CCLTUI_SBATCH="$CCLTUI_SBATCH" "$copy/run.sh" --dry-run
    [ "$status" -eq 0 ]
    [[ $output == *"workload  mine"* ]]
    echo "$CCLTUI_SBATCH" >"$copy/CCLTUI_SBATCH"
    run env -u CCLTUI_SBATCH "$copy/run.sh" --dry-run
    [ "$status" -eq 0 ]
    [[ $output == *"CCLTUI_WORKLOAD_DIR=$copy"* ]]
}

@test "a value of the configuration is never executed" {
    local copy=$BATS_TEST_TMPDIR/mine
    cp -r "$LLAMA" "$copy"
    sed -i "s|^hf_assets_path.*|hf_assets_path = \"a\\\\nnodes=a[\$(touch $BATS_TEST_TMPDIR/mark)]\"|" "$copy/train_config.toml"
    grep -q '\\nnodes=a\[' "$copy/train_config.toml"
    run "$copy/run.sh"
    [ "$status" -eq 3 ]
    [[ $output == *"a text of one line without control characters"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/mark" ]
}

@test "names and patterns choose" {
    [ "$("$CCLTUI_SBATCH/submit_all.sh" --list | wc -l)" -eq 7 ]
    [ "$("$CCLTUI_SBATCH/submit_all.sh" --list --only '*3d*')" = qwen3-32b-torchtitan-3d-perlmutter-16 ]
    run "$CCLTUI_SBATCH/submit_all.sh" --only nothing
    [ "$status" -eq 2 ]
}
