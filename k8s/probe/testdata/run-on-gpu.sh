#!/usr/bin/env bash
# Runs the probe on a machine with one idle NVIDIA card and python3, as root: `k8s/probe/testdata/run-on-gpu.sh`. Writes to
# $OUT what each run said and what the machine is. Ends by itself and stops the MPS daemons that it starts.
#
#   unlimited.log        nothing holds the worker back
#   mps-default.log      MPS limits every client to 8 GiB by itself
#   mps-client.log       only a variable of the client limits it: the clean environment finds no limit
#   mps-client-kept.log  the same where that variable is said to be the platform's own
#   neighbours-{a,b}.log two clients of 8 GiB fill the card at the same time
set -euo pipefail
out=${OUT:-.}
probe=$(cd "$(dirname "$0")/.." && pwd)/probe.py
state=$(mktemp -d)

stop() { # of one daemon, by its folder
  echo quit | CUDA_MPS_PIPE_DIRECTORY=$1 timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1 || true
}
trap 'stop "$state/pipe"; stop /tmp/nvidia-mps; rm -rf "$state"' EXIT

start() { # folder: a daemon that listens there
  mkdir -p "$1" "$state/log"
  CUDA_MPS_PIPE_DIRECTORY=$1 CUDA_MPS_LOG_DIRECTORY=$state/log nvidia-cuda-mps-control -d
}

{
  date -u +%Y-%m-%dT%H:%M:%SZ
  nvidia-smi --query-gpu=name,uuid,memory.total,memory.used,driver_version,compute_mode --format=csv
  python3 --version
  command -v nvidia-cuda-mps-control || echo 'no nvidia-cuda-mps-control'
} >"$out/machine.txt" 2>&1
total=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -1 | tr -d ' ')

worker='"pod":"worker","slice_gib":8,"card_gib":'$((total / 1024))',"card_mib":'$total
run() { # name, more of the spec, variables…
  local name=$1 more=$2
  shift 2
  env "$@" timeout 180 python3 "$probe" '{"mode":"worker","run":"'"$name"'","call_seconds":30'"$more"',"workers":[{'"$worker"',"core_percent":50}]}' \
    >"$out/$name.log" 2>"$out/$name.err" || echo "$name: exit $?" >>"$out/machine.txt"
}

run unlimited ''

start "$state/pipe"
limited=("CUDA_MPS_PIPE_DIRECTORY=$state/pipe" 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8G')
run mps-client '' "${limited[@]}"
run mps-client-kept ',"keep_env":["CUDA_MPS_PIPE_DIRECTORY","CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]' "${limited[@]}"
at=$(($(date +%s) + 8))
for name in neighbours-a neighbours-b; do
  env "${limited[@]}" timeout 60 python3 "$probe" '{"mode":"worker","run":"'$name'","call_seconds":30,"workers":[{'"$worker"',"phases":["hold"],"hold":{"mib":7168,"start":'$at',"seconds":4}}]}' \
    >"$out/$name.log" 2>"$out/$name.err" &
done
wait
stop "$state/pipe"

start /tmp/nvidia-mps # where a client looks that no variable tells otherwise
echo 'set_default_device_pinned_mem_limit 0 8G' | CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps timeout 20 nvidia-cuda-mps-control >>"$out/machine.txt" 2>&1
run mps-default ''
cp -r "$state/log" "$out/mps-log" 2>/dev/null || true
