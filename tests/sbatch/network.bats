#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2317
# The network between nodes: NCCL's plug-in for it, what the site sets, and what NCCL says it took.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options site network distributed torchrun
    unset NODES LD_LIBRARY_PATH "${!NCCL_@}" "${!FI_@}"
    NODES=2 CCLTUI_SITE=perlmutter NERSC_ALLOCATION=m1
    TRACE_DIR=$BATS_TEST_TMPDIR/run
    PLUGIN=$BATS_TEST_TMPDIR/plugin
    mkdir -p "$PLUGIN" "$TRACE_DIR"
    touch "$PLUGIN/libnccl-net.so"
    stand_in loads 'exit 0'
    PYTHON=$TOOLS/loads
    module() { LOADED+=" $2"; }
}

@test "several nodes of Perlmutter communicate by Slingshot, and by nothing of InfiniBand" {
    load_site
    site_environment
    [ "$NCCL_NET" = "AWS Libfabric" ]
    [ "$NCCL_SOCKET_IFNAME" = hsn ]
    [ "$FI_CXI_DISABLE_HOST_REGISTER" = 1 ]
    [ "$FI_MR_CACHE_MONITOR" = userfaultfd ]
    [ "$NCCL_NET_GDR_LEVEL" = PHB ]
    run compgen -v NCCL_IB
    [ "$output" = "" ]
}

@test "one node needs no plug-in, and NCCL is not told to use one" {
    NODES=1
    load_site
    site_environment
    load_network
    log_network
    [ -z "${NCCL_NET:-}${LOADED:-}${NCCL_DEBUG_FILE:-}" ]
}

@test "what the user chose for NCCL is kept" {
    export NCCL_NET=Socket NCCL_DEBUG=WARN
    load_site
    log_network
    site_environment
    [ "$NCCL_NET $NCCL_DEBUG ${NCCL_DEBUG_FILE:-none}" = "Socket WARN none" ]
}

@test "the plug-in comes from the module of the site" {
    load_site
    export LD_LIBRARY_PATH=/nowhere::$PLUGIN
    load_network
    [ "$LOADED" = " nccl/2.24.3" ]
}

@test "or from a folder" {
    SITE_NCCL_PLUGIN=$PLUGIN
    load_site
    load_network
    [ -z "${LOADED:-}" ]
    [ "$LD_LIBRARY_PATH" = "$PLUGIN" ]
    [ "$(find_plugin)" = "$PLUGIN/libnccl-net.so" ]
}

@test "a plug-in of another name is looked for as NCCL does" {
    export LD_LIBRARY_PATH=$PLUGIN NCCL_NET_PLUGIN=ofi
    run find_plugin
    [ "$status" -eq 1 ]
    touch "$PLUGIN/libnccl-net-ofi.so"
    [ "$(find_plugin)" = "$PLUGIN/libnccl-net-ofi.so" ]
    NCCL_NET_PLUGIN=$PLUGIN/libnccl-net.so
    [ "$(find_plugin)" = "$PLUGIN/libnccl-net.so" ]
}

@test "a job without the plug-in ends before it trains" {
    load_site
    run load_network
    [ "$status" -eq 1 ]
    [[ $output == *"libnccl-net.so, is in no folder of LD_LIBRARY_PATH"*"fix: name its module (SITE_NETWORK_MODULES)"* ]]
    [[ $output == *"PyTorch of a module or of a container (SITE_CONTAINER) can do without"* ]]
}

@test "a plug-in that this PyTorch cannot load is said to be one" {
    stand_in refuses 'echo Traceback >&2; echo "OSError: libcudart.so.13: cannot open shared object file" >&2; exit 1'
    PYTHON=$TOOLS/refuses SITE_NCCL_PLUGIN=$PLUGIN
    load_site
    run load_network
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == *"cannot load NCCL's plug-in $PLUGIN/libnccl-net.so: OSError: libcudart.so.13"* ]]
    [[ $output == *"fix: name another version of its module"*"container"* ]]
}

@test "a container brings its own plug-in and Python" {
    load_site
    SITE_CONTAINER=(shifter --image=some)
    load_network
    SLURM_JOB_ID=1 MASTER_ADDR=a MASTER_PORT=1 GPUS_PER_NODE=4
    set_node_command bash node.sh
    [[ "${NODE_COMMAND[*]}" == "srun --nodes=2 "*" shifter --image=some bash node.sh" ]]
    set_torchrun torch
    [ "${TORCHRUN[0]}" = python ]
}

@test "on several nodes NCCL says in files of its own which network it took" {
    load_site
    log_network
    [ "$NCCL_DEBUG $NCCL_DEBUG_SUBSYS" = "INFO INIT,NET" ]
    [ "$NCCL_DEBUG_FILE" = "$TRACE_DIR/nccl/nccl_rank_%h_%p.log" ]
    [ -d "$TRACE_DIR/nccl" ]
}

# taken NAME RANK...: the lines of NCCL 2.23 on a node with Slingshot.
taken() {
    local rank
    mkdir -p "$TRACE_DIR/nccl"
    for rank in "${@:2}"; do
        printf '%s\n' "nid1:1:2 [$rank] NCCL INFO NET/OFI Using aws-ofi-nccl 1.6.0" \
            "nid1:1:2 [$rank] NCCL INFO Using network $1" >>"$TRACE_DIR/nccl/nccl_rank_nid1_$rank.log"
    done
}

# verify WORD...: what the check at the end of a job says of the network.
verify() {
    stand_in bare 'exec python3 -S "$@"'
    run "$CCLTUI_SBATCH/lib/verify_traces.sh" --python "$TOOLS/bare" "$@" "$TRACE_DIR"
}

@test "the network is stated, and sockets between nodes are a failure" {
    taken "AWS Libfabric" 0 1
    verify --nodes 2
    [[ $output == *"network of NCCL: AWS Libfabric (2)"* ]]
    [[ $output != *"a fast network"* ]]
    taken Socket 2
    verify --nodes 2
    [ "$status" -eq 4 ]
    [[ $output == *"network of NCCL: AWS Libfabric (2), Socket (1)"* ]]
    [[ $output == *"missing: "*"a fast network: NCCL used sockets between 2 nodes"*"SITE_SOCKETS_ALLOWED=yes"* ]]
}

@test "sockets are none on one node, on CPUs, and where there is nothing faster" {
    taken Socket 0
    for words in "--nodes 1" "--nodes 2 --device cpu" "--nodes 2 --sockets yes"; do
        # shellcheck disable=SC2086
        verify $words
        [[ $output != *"a fast network"* ]]
    done
}

@test "newer lines of NCCL are read, also in the log of the training" {
    printf 'nid1:1:2 [0] NCCL INFO Assigned NET plugin Socket to comm\nstep 1\n' >"$TRACE_DIR/a_torch.log"
    [ "$(networks_of "$TRACE_DIR")" = "Socket (1)" ]
}

@test "without a word of NCCL that is said, and no failure" {
    verify --nodes 2
    [[ $output == *"not checked: which network NCCL used (it says so with NCCL_DEBUG=INFO)"* ]]
    [[ $output != *"a fast network"* ]]
}
