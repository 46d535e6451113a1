#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2034,SC2317
# A job of a plain sbatch: what it has been given, and what it keeps when it submits itself again.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options follow_site
    unset CCLTUI_SUBMITTED "${!SBATCH_@}"
    SLURM_JOB_ID=4 SLURM_JOB_ACCOUNT=root SLURM_JOB_PARTITION=main SLURM_JOB_NAME=train
    SLURM_JOB_NUM_NODES=2 SLURM_SUBMIT_DIR=$BATS_TEST_TMPDIR SLURM_GPUS_PER_NODE=8
    SITE_NAME=mine SITE_ACCOUNT=m1 SITE_PARTITION="" SITE_QOS="" SITE_CONSTRAINT="" SITE_ACCOUNT_LIST=list
    export RECORD=$BATS_TEST_TMPDIR/record
    touch "$BATS_TEST_TMPDIR/job.sh"
    stand_in sbatch 'printf "%s\n" "$PWD ${CCLTUI_SUBMITTED-} ${SLURM_JOB_ID-none} $*" >>"$RECORD"; echo 5'
    stand_in scontrol 'if [[ $2 == partition ]]; then echo "   AllowGroups=ALL Default=YES"; exit; fi
printf "%s\n" "JobId=4 JobName=train" "   JobState=RUNNING BatchFlag=1" "   RunTime=00:00:01 TimeLimit=00:30:00 TimeMin=N/A" \
    "   Features=gpu&a DelayBoot=00:00:00" "   Command='"$BATS_TEST_TMPDIR"'/job.sh --steps 3" "   WorkDir=/w 4" \
    "   StdErr=/logs4/4/train_4.err" "   StdOut=/logs4/4/train_4.out"'
    stand_in sacct 'echo "${SUBMITTED_BY-}"; exit ${NO_DATABASE:-0}'
    stand_in sacctmgr 'echo root'
}

@test "another account than the site's is the default one: submitted again, with all it had" {
    SUBMITTED_BY="sbatch --nodes 2 job.sh --account=x" run follow_site --steps 3
    [ "$status" -eq 0 ]
    [[ $output == *"submitted again as job 5 with --account=m1, as site mine has it"* ]]
    [ "$(cat "$RECORD")" = "$BATS_TEST_TMPDIR yes none --parsable --export=ALL --account=m1 --chdir=/w 4 --nodes=2 --job-name=train --output=/logs4/4/train_%j.out --error=/logs4/4/train_%j.err --time=00:30:00 --constraint=gpu&a --gpus-per-node=8 $BATS_TEST_TMPDIR/job.sh --steps 3" ]
}

@test "an account given to sbatch is kept, in any spelling" {
    for words in "--account=root" "--account root" "-A root" "-Aroot"; do
        SUBMITTED_BY="sbatch $words job.sh" run follow_site
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done
    SBATCH_ACCOUNT=root SUBMITTED_BY="sbatch job.sh" run follow_site
    [ ! -e "$RECORD" ]
}

@test "without a database what differs from the default was given" {
    NO_DATABASE=1 SLURM_JOB_ACCOUNT=other run follow_site
    [ ! -e "$RECORD" ]
    NO_DATABASE=1 SITE_PARTITION=gpu run follow_site
    [[ $(cat "$RECORD") == *" --account=m1 --partition=gpu "* ]]
}

@test "a job that was submitted with the site's settings stays" {
    CCLTUI_SUBMITTED=yes
    follow_site
    [ -z "${CCLTUI_SUBMITTED:-}" ]
    SLURM_JOB_ACCOUNT=m1
    follow_site
    [ ! -e "$RECORD" ]
}

@test "an interactive job stays where it is" {
    stand_in scontrol 'echo "   JobState=RUNNING BatchFlag=0"'
    run follow_site
    [ "$output" = "" ]
    [ ! -e "$RECORD" ]
}

@test "a refusal is said with the accounts there are" {
    stand_in sbatch 'echo "sbatch: error: Invalid account" >&2; exit 1'
    SUBMITTED_BY="sbatch job.sh" run follow_site
    [ "$status" -eq 1 ]
    [[ $output == *"Invalid account"*"job 4 has account 'root'"*"accounts and qos of yours: list"* ]]
}

@test "of the numbers in a log's name the last one is taken as the job's" {
    [ "$(of_next_job /runs4/llama4.1_4.out)" = "/runs4/llama4.1_%j.out" ]
    [ "$(of_next_job /runs/slurm-4.out)" = "/runs/slurm-%j.out" ]
    [ "$(of_next_job /runs/4)" = "/runs/%j" ]
    [ "$(of_next_job /runs/train_14_44.out)" = "/runs/train_14_44.out" ]
}
