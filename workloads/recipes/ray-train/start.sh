#!/bin/bash
# Make the nodes of the job a cluster of Ray, and run a program on the first of them: start.sh COMMAND ...
# `ray symmetric-run` does so, too, but ends with 0 where Ray does not start: the job would count as finished.
set -eu

reachable() { (: <"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; }
alive() { kill -0 "$ray" 2>/dev/null || { echo "Ray has ended on node $NODE_RANK" >&2 && exit 1; }; }

# Without a token, everybody who reaches a node could run programs as the user of the job.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$CHECKPOINT_PATH/ray-token"
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=1 # the program has ended by then
options=(--num-cpus "$PET_NPROC_PER_NODE" --num-gpus "$GPUS_PER_NODE" --object-store-memory "$OBJECT_STORE_BYTES")
options+=(--disable-usage-stats --block)
if [ "$NODE_RANK" = 0 ]; then
    mkdir -p "$CHECKPOINT_PATH"
    (umask 077 && python -c 'import secrets; print(secrets.token_hex(32))' >"$RAY_AUTH_TOKEN_PATH")
    # Ray would look for its own address on the way to the internet, which nodes may not have.
    address="$(getent ahostsv4 "$MASTER_ADDR")"
    options+=(--head --node-ip-address "${address%% *}" --port "$MASTER_PORT" --include-dashboard false)
else
    for _ in {1..120}; do reachable && break || sleep 1; done
    options+=(--address "$MASTER_ADDR:$MASTER_PORT")
fi
ray start "${options[@]}" &
ray=$!
trap 'kill -TERM "$ray" 2>/dev/null; wait "$ray" || true' EXIT
trap 'exit 143' TERM

if [ "$NODE_RANK" = 0 ]; then
    until reachable; do alive && sleep 1; done
    export RAY_ADDRESS="$MASTER_ADDR:$MASTER_PORT"
    "$@" &
    program=$!
    wait -n "$program" "$ray" || exit
    alive
else # until the first node has ended
    while reachable; do alive && sleep 2; done
fi
