#!/usr/bin/env bats
# shellcheck disable=SC2016
# Submitting a run of GPT-2: what is missing is said before the job waits.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log
    SUBMIT=$CCLTUI_SBATCH/gpt2_deepspeed/submit.sh
    export RECORD=$BATS_TEST_TMPDIR/record SCRATCH=$BATS_TEST_TMPDIR VENV_DIR=$BATS_TEST_TMPDIR/venv
    export RUN_DIR=$BATS_TEST_TMPDIR/run DATA_DIR=$BATS_TEST_TMPDIR
    stand_in sbatch 'printf "%s\n" "${CCLTUI_SUBMITTED:-no} $*" >>"$RECORD"; echo "Submitted batch job 42"'
    touch "$DATA_DIR/train_small.bin" "$DATA_DIR/val_small.bin"
    mkdir -p "$VENV_DIR/bin" "$BATS_TEST_TMPDIR/packages"/{torch,numpy,deepspeed}
    touch "$BATS_TEST_TMPDIR/packages"/{torch,numpy,deepspeed}/__init__.py
    printf '#!/usr/bin/env bash\nPYTHONPATH=%q exec python3 -S "$@"\n' "$BATS_TEST_TMPDIR/packages" >"$VENV_DIR/bin/python"
    chmod +x "$VENV_DIR/bin/python"
}

@test "a run is submitted with what the site and the user say" {
    SITE_ACCOUNT=m1 SITE_QOS=regular SITE_CONSTRAINT=gpu run "$SUBMIT" --qos=debug --array=1-3
    [ "$status" -eq 0 ]
    [[ $(cat "$RECORD") == "yes --account=m1 --qos=regular --constraint=gpu --qos=debug --array=1-3 "*"/run_2node_8gpu.sbatch" ]]
}

@test "a missing package is noticed before submission" {
    rm -r "$BATS_TEST_TMPDIR/packages/deepspeed"
    run "$SUBMIT"
    [ "$status" -eq 1 ]
    [[ $output == *"error: $VENV_DIR/bin/python has no deepspeed"*"fix: pip install -r "*"requirements.txt"* ]]
    [ ! -e "$RECORD" ]
    GPT2_EXTRA_ARGS="--plain_ddp --epochs 2" run "$SUBMIT"
    [ "$status" -eq 0 ]
    rm -r "$BATS_TEST_TMPDIR/packages/torch"
    run "$SUBMIT"
    [[ $output == *"has no torch and no deepspeed"* ]]
}

@test "so are data, a finished run and a wrong switch" {
    NSYS=maybe run "$SUBMIT"
    [ "$status" -eq 2 ]
    rm "$DATA_DIR/val_small.bin"
    run "$SUBMIT"
    [[ $output == *"error: no $DATA_DIR/val_small.bin"* ]]
    mkdir "$RUN_DIR"
    touch "$RUN_DIR/RUN_COMPLETE.txt"
    run "$SUBMIT"
    [[ $output == *"holds a finished run"* ]]
    [ ! -e "$RECORD" ]
}

@test "a dry run says what is missing and submits nothing" {
    rm -r "$BATS_TEST_TMPDIR/packages/deepspeed"
    DRY_RUN=yes run "$SUBMIT" --nodes=4
    [ "$status" -eq 0 ]
    [[ $output == *"warning: "*"has no deepspeed: this run would be refused"* ]]
    [[ ${lines[-1]} == "sbatch --nodes=4 "*"/run_2node_8gpu.sbatch" ]]
    [ ! -e "$RECORD" ]
}

@test "a refusal by Slurm is passed on with what may help" {
    stand_in sbatch 'echo "sbatch: error: Invalid account" >&2; exit 1'
    run "$SUBMIT"
    [ "$status" -eq 1 ]
    [[ $output == *"Invalid account"*"Slurm refused the job"*"sacctmgr show assoc"* ]]
}
