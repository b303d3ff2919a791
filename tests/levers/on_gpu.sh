#!/usr/bin/env bash
# The rows of docs/try.md again: bash tests/levers/on_gpu.sh OUT [LOOP…]
#
# Eight loops, or those that are named, each with its levers, their combination and the hand-made loop; of two of them
# the whole command. They run side by side on the GPUs there are; those on one GPU have it in turns by a lock, and each
# has processor cores of its own. Eight on two GPUs with 32 cores take nine minutes, six of them seven. SECONDS_EACH is
# the budget of one. With MODE=together all levers of a loop run at once beside the hand-made loop; with MODE=planned each
# loop is recorded, and what `try` chooses by default is tried (with WORDS=all: everything).
# OUT/levers/NAME.json holds the rows, OUT/NAME.log what was said meanwhile.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
loops=("$@")
[ $# -gt 0 ] || loops=(vit host_line conv gpt lstm gan loader fine) # long and short turns are mixed on each GPU
seconds=${SECONDS_EACH:-470}
hand=100 # of these, for the hand-made loop beside the whole command
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
gpus=$(python3 -c "import torch; torch.zeros(1).cuda(); print(torch.cuda.device_count())") # from here on torch is in memory
cores=${CORES:-$(($(nproc) / ${#loops[@]}))}

levers() {
  case $1 in
    vit) echo bf16 tf32 fused compile ;;
    conv) echo bf16 channels-last cudnn-benchmark fused compile ;;
    gpt | gan) echo bf16 fused compile ;;
    lstm) echo bf16 tf32 cudnn-benchmark fused ;;
    loader) echo workers=4 workers=8 pin-memory omp-threads=1 ;;
    host_line) echo gc-collect bf16 fused compile ;;
  esac
}

for number in "${!loops[@]}"; do
  name=${loops[$number]} gpu=$((number % gpus)) first=$((number * cores))
  mode=${MODE:-session} budget=$seconds
  case $name in host_line | fine) [ "$mode" = planned ] || mode=try budget=$((seconds - hand)) ;; esac
  words=$([ "$mode" = planned ] && echo "${WORDS:-}" || levers "$name")
  touch "$out/lock$gpu"
  # shellcheck disable=SC2086
  CUDA_VISIBLE_DEVICES=$gpu LOOP_LOCK=$out/lock$gpu taskset -c "$first-$((first + cores - 1))" timeout $((seconds + 50)) \
    python3 tests/levers/measure.py "$mode" "$name" "$out/levers" "$budget" $words >"$out/$name.log" 2>&1 &
done
wait
