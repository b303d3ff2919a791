#!/usr/bin/env bash
# What issue 17 still owes on one GPU with 16 cores, in about nine minutes: bash tests/levers/on_gpu.sh OUT
#
# Combinations of levers beside the hand-made loop, `fix` on three loops, and the loops that were not tried. Sessions
# that run at once have the GPU in turns by a lock. Raw rows, logs and patched scripts are in OUT.
set -u
root=$PWD
out=$(mkdir -p "$1" && cd "$1" && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 LOOP_LOCK=$out/lock
touch "$LOOP_LOCK"
python3 -c "import torch; torch.zeros(1).cuda()" # from here on torch is in memory

session() { # CORES NAME SECONDS LEVER…
  local cores=$1 name=$2 seconds=$3
  shift 3
  taskset -c "$cores" timeout $((seconds + 40)) python3 tests/levers/measure.py session "$name" "$out/levers" \
    "$seconds" "$@" >"$out/$name.log" 2>&1
}

fix() { # CORES NAME SECONDS
  local folder=$out/fix/$2
  mkdir -p "$folder" && cp tests/levers/fix_loops.py "$folder"
  (cd "$folder" && taskset -c "$1" timeout $(($3 + 30)) python3 -m tracelens fix fix_loops.py --yes --budget "$3s" \
    --format json -- "$2" >answer.json 2>said.txt; echo "$2: exit $?" | tee exit.txt
  diff "$root/tests/levers/fix_loops.py" fix_loops.py >applied.diff)
}

LOOP_COMPILE=0 session 0-3 conv 270 bf16 channels-last &
LOOP_HAND=0 session 4-8 gpt 275 bf16 compile &
(fix 9-11 collect 130; fix 9-11 reads 130) &
fix 12-15 loader 150 &
wait
LOOP_HAND=0 session 0-5 vit 228 bf16 compile &
LOOP_COMPILE=0 session 6-9 gan 200 bf16 fused &
(LOOP_HAND=0 session 10-15 fine 100 bf16 fused; session 10-15 loader 110 workers=4 pin-memory) &
wait
