#!/usr/bin/env bash
# The table of docs/try.md again, in about nine minutes of two GPUs with 32 cores: bash tests/levers/on_gpu.sh OUT
#
# Eight loops, each with its levers, their combination and the hand-made loop in one session; of three of them the whole
# command by default. Sessions on one GPU have it in turns by a lock. With one GPU all share it, and fewer pairs are
# made. OUT/levers/NAME.json holds the rows, OUT/NAME.log what was said meanwhile.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd)
seconds=${SECONDS_EACH:-470}
hand=80 # of these, for the hand-made loop beside the whole command
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
gpus=$(python3 -c "import torch; torch.zeros(1).cuda(); print(torch.cuda.device_count())") # from here on torch is in memory
cores=$(($(nproc) / 8))
number=0

session() { # MODE SECONDS NAME [LEVER…]
  local gpu=$((number % gpus)) first=$((number * cores)) mode=$1 budget=$2 name=$3
  shift 3
  number=$((number + 1))
  touch "$out/lock$gpu"
  CUDA_VISIBLE_DEVICES=$gpu LOOP_LOCK=$out/lock$gpu taskset -c "$first-$((first + cores - 1))" timeout $((seconds + 40)) \
    python3 tests/levers/measure.py "$mode" "$name" "$out/levers" "$budget" "$@" >"$out/$name.log" 2>&1 &
}

# Every second one is on the same GPU: long and short turns are mixed
session session "$seconds" vit bf16 tf32 fused compile
session try $((seconds - hand)) host_line
session session "$seconds" conv bf16 channels-last cudnn-benchmark fused compile
session session "$seconds" gpt bf16 fused compile
session session "$seconds" lstm bf16 tf32 cudnn-benchmark fused
session session "$seconds" gan bf16 fused compile
session try $((seconds - hand)) loader
session try $((seconds - hand)) fine
wait
