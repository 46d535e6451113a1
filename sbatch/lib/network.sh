# shellcheck shell=bash
# The network between the nodes of a job: NCCL's plug-in for it, and the log that tells which was used.
# A job on one node, or on CPUs, needs neither.

needs_network() {
    ((NODES > 1)) && [[ $SITE_DEVICE == cuda ]]
}

# load_network: before the training starts.
load_network() {
    needs_network || return 0
    if [[ -n ${SITE_NCCL_PLUGIN:-} ]]; then
        export LD_LIBRARY_PATH=$SITE_NCCL_PLUGIN${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    elif ((${#SITE_NETWORK_MODULES[@]})); then
        load_modules "${SITE_NETWORK_MODULES[@]}"
    fi
    need_plugin
}

# need_plugin: where the site names its network, this PyTorch can load the plug-in. That of a container
# comes with the container.
need_plugin() {
    [[ -n ${SITE_NCCL_NETWORK:-} ]] && ((${#SITE_CONTAINER[@]} == 0)) || return 0
    local plugin said others
    others="PyTorch of a module or of a container (SITE_CONTAINER) can do without: see «The network» in $CCLTUI_SBATCH/perlmutter/README.md"
    plugin=$(find_plugin) || fail "$FAILED" \
        "NCCL's plug-in for $SITE_NCCL_NETWORK, libnccl-net.so, is in no folder of LD_LIBRARY_PATH" \
        "name its module (SITE_NETWORK_MODULES) or its folder (SITE_NCCL_PLUGIN) in $CCLTUI_SITE; $others"
    # PyTorch brings the libraries of CUDA that the plug-in needs, as in the training.
    said=$("$PYTHON" -P -c 'import ctypes, sys; import torch; ctypes.CDLL(sys.argv[1])' "$plugin" 2>&1) ||
        fail "$FAILED" "$PYTHON cannot load NCCL's plug-in $plugin: ${said##*$'\n'}" \
            "name another version of its module (SITE_NETWORK_MODULES in $CCLTUI_SITE); $others"
    log "NCCL's plug-in for $SITE_NCCL_NETWORK: $plugin"
}

# find_plugin: as NCCL looks for it. NCCL_NET_PLUGIN may name a file, or the part after "libnccl-net-".
find_plugin() {
    local folder folders name=libnccl-net.so
    case ${NCCL_NET_PLUGIN:-} in
    "") ;;
    */*)
        [[ -r $NCCL_NET_PLUGIN ]] && printf '%s' "$NCCL_NET_PLUGIN"
        return
        ;;
    *.so*) name=$NCCL_NET_PLUGIN ;;
    *) name=libnccl-net-$NCCL_NET_PLUGIN.so ;;
    esac
    IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
    for folder in "${folders[@]}"; do
        [[ -n $folder && -r $folder/$name ]] || continue
        printf '%s' "$folder/$name"
        return
    done
    return 1
}

# log_network: on every node, before site_environment. NCCL says which network it took only with INFO,
# in files of its own: the log of the training stays readable. What the user chose is kept.
log_network() {
    needs_network && [[ -z ${NCCL_DEBUG:-} ]] || return 0
    mkdir -p -- "$TRACE_DIR/nccl"
    export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=${NCCL_DEBUG_SUBSYS:-INIT,NET}
    export NCCL_DEBUG_FILE=${NCCL_DEBUG_FILE:-$TRACE_DIR/nccl/nccl_rank_%h_%p.log}
}

# networks_of FOLDER: what NCCL took, and how often, from its logs and that of the training.
networks_of() {
    local count name found=()
    while read -r count name; do
        found+=("$name ($count)")
    done < <(
        find -L "$1" -maxdepth 2 -name '*.log' -exec sed -nE \
            's/.*NCCL INFO (Using network|Assigned NET plugin) //; T; s/ to comm[[:space:]]*$//; s/[[:space:]]+$//; p' {} + |
            LC_ALL=C sort | uniq -c
    )
    ((${#found[@]} == 0)) || printf '%s, ' "${found[@]}" | sed 's/, $//'
}
