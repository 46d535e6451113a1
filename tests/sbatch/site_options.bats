#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2034,SC2317
# A job of a plain sbatch: what the site needs and sbatch was not given ends it.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options site_options
    unset CCLTUI_SUBMITTED "${!SBATCH_@}"
    SLURM_JOB_ID=4
    SITE_NAME=mine SITE_ACCOUNT=m1 SITE_PARTITION="" SITE_QOS="" SITE_CONSTRAINT="" SITE_ACCOUNT_LIST=list
    SITE_ACCOUNT_NEEDED=no
    export RECORD=$BATS_TEST_TMPDIR/record JOB=$BATS_TEST_TMPDIR/job SCRIPT=$BATS_TEST_TMPDIR/script
    printf '#!/bin/bash\n' >"$SCRIPT"
    describe root main normal
    stand_in sbatch 'echo submitted >"$RECORD"'
    stand_in scontrol 'case "$1 $2" in
"show partition") echo "   AllowGroups=ALL Default=${DEFAULT-YES}" ;;
"show config") echo "AccountingStorageType   = ${STORAGE-accounting_storage/slurmdbd}" ;;
"show job") cat "$JOB" ;;
"write batch_script") cat "$SCRIPT" ;;
esac'
    stand_in sacct 'echo "${SUBMITTED_BY-}"; exit ${NO_DATABASE:-0}'
    stand_in sacctmgr 'echo root; exit ${NO_DATABASE:-0}'
    stand_in sleep '' # the database is asked again for ten seconds
}

# describe ACCOUNT PARTITION QOS [FEATURES]: as `scontrol show job` does.
describe() {
    printf '%s\n' "JobId=4 JobName=train" "   Priority=1 Nice=0 Account=$1 QOS=$3" \
        "   JobState=RUNNING Reason=None BatchFlag=1" "   Partition=$2 AllocNode:Sid=login:1" \
        "   Features=${4:-(null)} DelayBoot=00:00:00" "   Command=/w 4/job.sh --steps 3" "   WorkDir=/w 4" >"$JOB"
}

refused() {
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [ ! -e "$RECORD" ]
}

@test "without the account of the site the job ends, with the command that is right" {
    SUBMITTED_BY="sbatch --nodes 2 /w 4/job.sh --steps 3" run need_site_options --steps 3
    refused
    [[ $output == *"error: sbatch was not given --account=m1, which site mine needs"* ]]
    [[ $output == *"submit it with: sbatch --account=m1 --nodes 2 /w 4/job.sh --steps 3" ]]
}

@test "all that is missing is said at once" {
    SITE_PARTITION=gpu SITE_QOS=regular SITE_CONSTRAINT='gpu&a' SUBMITTED_BY="sbatch job.sh" run need_site_options
    refused
    [[ $output == *"submit it with: sbatch --account=m1 --partition=gpu --qos=regular '--constraint=gpu&a' job.sh" ]]
}

@test "what the user gave wins, in any spelling" {
    SITE_PARTITION=gpu SITE_QOS=regular
    for words in "--account=root -p main --qos=normal" "--acco root --partition main --qo=normal" \
        "-Aroot -pmain -qnormal" "-HA root -Qp main -Wq normal"; do
        SUBMITTED_BY="sbatch $words job.sh" run need_site_options
        [ "$status" -eq 0 ]
        [ "$output" = "" ]
    done
    SBATCH_ACCOUNT=root SBATCH_PARTITION=main SBATCH_QOS=normal SUBMITTED_BY="sbatch job.sh" run need_site_options
    [ "$status" -eq 0 ]
    describe root main normal cpu
    SITE_CONSTRAINT=gpu SUBMITTED_BY="sbatch -A root -p main -q normal job.sh" run need_site_options
    [ "$status" -eq 0 ]
}

@test "a line of the script is given too, one after its first command is not" {
    printf '%s\n' '#!/bin/bash' '#SBATCH --nodes=1 -A root' 'true' >"$SCRIPT"
    SUBMITTED_BY="sbatch job.sh" run need_site_options
    [ "$status" -eq 0 ]
    printf '%s\n' '#!/bin/bash' 'true' '#SBATCH -A root' >"$SCRIPT"
    SUBMITTED_BY="sbatch job.sh" run need_site_options
    refused
}

@test "words of the script itself are no options of sbatch" {
    SUBMITTED_BY="sbatch /w 4/job.sh --account x" run need_site_options --account x
    refused
    SUBMITTED_BY="sbatch --chdir=/w/job.sh -A root /w 4/job.sh --steps 3" run need_site_options --steps 3
    [ "$status" -eq 0 ]
}

@test "where Slurm does not tell the command line, what is not the default was given" {
    SUBMITTED_BY="" NO_DATABASE=1 STORAGE="(null)" run need_site_options
    [ "$status" -eq 0 ]
    NO_DATABASE=1 run need_site_options
    refused
    stand_in sacctmgr 'echo root'
    NO_DATABASE=1 run need_site_options
    refused
    describe other main normal
    NO_DATABASE=1 run need_site_options
    [ "$status" -eq 0 ]
    DEFAULT=NO SITE_PARTITION=gpu NO_DATABASE=1 run need_site_options
    [ "$status" -eq 0 ]
    SITE_PARTITION=gpu NO_DATABASE=1 run need_site_options
    refused
}

@test "a job with the site's settings goes on, in any case of letters" {
    SITE_ACCOUNT=Root run need_site_options
    [ "$status" -eq 0 ]
    CCLTUI_SUBMITTED=yes
    need_site_options
    [ -z "${CCLTUI_SUBMITTED:-}" ]
}

@test "where somebody has to pay, no account at all is a failure" {
    SITE_ACCOUNT="" SITE_ACCOUNT_NEEDED=yes SUBMITTED_BY="sbatch job.sh" run need_site_options
    refused
    [[ $output == *"no account to charge on mine"*"listed by: list" ]]
    SITE_ACCOUNT="" SITE_ACCOUNT_NEEDED=yes SUBMITTED_BY="sbatch -A root job.sh" run need_site_options
    [ "$status" -eq 0 ]
}

@test "of an array the record of this task counts" {
    describe m1 main normal
    sed 's/JobId=4 /JobId=3 ArrayJobId=4 /; s/=m1 /=root /' "$JOB" >"$JOB.other"
    printf '%s\n\n%s\n' "$(cat "$JOB.other")" "$(cat "$JOB")" >"$JOB.both"
    mv "$JOB.both" "$JOB"
    run need_site_options
    [ "$status" -eq 0 ]
}

@test "an interactive job has what its user chose" {
    sed -i s/BatchFlag=1/BatchFlag=0/ "$JOB"
    run need_site_options
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
}

@test "a job that Slurm does not describe is not run" {
    stand_in scontrol 'exit 1'
    run need_site_options
    refused
    [[ $output == *"scontrol does not describe job 4"* ]]
    SITE_ACCOUNT="" run need_site_options
    [ "$status" -eq 0 ]
}
