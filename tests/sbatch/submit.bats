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
    stand_in sbatch 'printf "%s\n" "$PROFILE_MODE $*" >>"$RECORD"; echo $((41 + $(wc -l <"$RECORD")))'
    export RECORD=$BATS_TEST_TMPDIR/record SCRATCH=$BATS_TEST_TMPDIR VENV_DIR=$BATS_TEST_TMPDIR/venv
    LLAMA=$CCLTUI_SBATCH/workloads/llama3.1-8b-torchtitan-tp-perlmutter-16
}

@test "a job is submitted and its number printed" {
    run "$LLAMA/run.sh" --parsable --profile nsys 2>/dev/null
    [ "$status" -eq 0 ]
    [[ ${lines[-1]} == 42 ]]
    [[ $(cat "$RECORD") == "nsys --parsable --export=ALL --nodes=1 "*"/run.sbatch" ]]
    [ -d "$SCRATCH/ccl-bench-traces/logs" ]
}

@test "Slurm may be asked when it would start" {
    run "$LLAMA/run.sh" --test-only
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD") == "torch --test-only "* ]]
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
    [[ $output == *"no account to charge on perlmutter"*"give --account"* ]]
    [ ! -e "$RECORD" ]
}

@test "without sbatch that is said" {
    # All the machine's programs but those of Slurm, which may be installed.
    local others=$BATS_TEST_TMPDIR/others
    mkdir "$others"
    ln -s /usr/bin/* "$others/"
    rm -f "$others/sbatch"
    PATH=$(dirname "$(command -v python3)"):$others run "$LLAMA/run.sh"
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

@test "one that is refused does not stop the others" {
    run "$CCLTUI_SBATCH/submit_all.sh" --only '*pp*' --except 'deepseek*' --only '*3d*'
    [ "$status" -eq 1 ]
    [[ ${lines[-3]} == llama* && ${lines[-3]} == *" 42" ]]
    [[ ${lines[-2]} == qwen* && ${lines[-2]} == *" refused" ]]
    [[ ${lines[-1]} == qwen* && ${lines[-1]} == *" refused" ]]
    [ "$(wc -l <"$RECORD")" -eq 1 ]
}

@test "names and patterns choose" {
    [ "$("$CCLTUI_SBATCH/submit_all.sh" --list | wc -l)" -eq 7 ]
    [ "$("$CCLTUI_SBATCH/submit_all.sh" --list --only '*3d*')" = qwen3-32b-torchtitan-3d-perlmutter-16 ]
    run "$CCLTUI_SBATCH/submit_all.sh" --only nothing
    [ "$status" -eq 2 ]
}
