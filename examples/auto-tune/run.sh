#!/usr/bin/env bash
# Search that prunes, then trials: a replay of published runs, real small trainings under a memory limit, and Paddle's own tuner where it
# is installed.
#   examples/auto-tune/run.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; histories and the picture go to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-auto-tune}")
cd "$(dirname "$0")"
mkdir -p "$out"
rm -rf "$out/trained"
plain=$(command -v python3)

echo "== replayed: 49 published runs of a 65B on 64 A100; a trial prints what its authors measured"
./replay.sh "$program" "$out"

python=$(command -v "${PYTHON:-python3}")
if "$python" -c 'import torch, transformers' 2>/dev/null; then
  echo "== trained here: two processes that may hold 200 MiB each"
  # DDP, FSDP that keeps weights gathered (ZeRO-2) or not (ZeRO-3), tensor parallelism; micro-batches; recompute.
  layouts=()
  for recompute in none full; do
    for mbs in 1 2 4 8; do
      rest=mbs=$mbs,gbs=8,seq=64,recompute=$recompute,precision=fp32
      layouts+=(--among "tp=2,$rest")
      [ "$mbs" -gt 4 ] || layouts+=(--among "dp=2,$rest" --among "dp=2,sharding=fsdp,zero=2,$rest" --among "dp=2,sharding=fsdp,zero=3,$rest")
    done
  done
  question=(llama.json --on machine.json --trainer accelerate --optimizer adamw-fused)
  training=("$python" "$PWD/train.py" --model "$PWD/llama.json" --limit-mib 200)
  "$program" tune run "${question[@]}" --precision fp32 --batch 8 --seq 64 "${layouts[@]}" --history "$out/trained" \
    --trials 5 --minutes "${MINUTES:-0.7}" --trial-limit "${TRIAL:-45}" --steps 7 --start-up 8 --tokens 1e9 --step-pattern 'step time: ([0-9.]+) s' -- \
    "${training[@]}" '{layout}' --steps '{steps}' ||
    { [ $? -eq 1 ] && echo "(no trial came to its end: this machine is busy; TRIAL=120 MINUTES=5 gives them more time)"; }
  "$program" tune status --history "$out/trained" --json >"$out/trained.json"
  "$plain" told.py "$program" "$out/trained.json" -- "${question[@]}"
  echo "one of those ruled out, tried all the same:"
  timeout 15 "${training[@]}" dp=2,mbs=4,gbs=8,seq=64 --steps 2 2>&1 | tail -1 || true
else
  echo "(no PyTorch with transformers here: nothing is trained)"
fi

paddle=${PADDLE_PYTHON:-../../build/paddle/bin/python}
if [ "$SECONDS" -gt 85 ]; then
  echo "(this machine is busy: no time is left for Paddle's tuner; beside_paddle.py asks it)"
elif "$paddle" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("paddle"))' 2>/dev/null; then
  echo "== the same question to Paddle's tuner"
  "$paddle" beside_paddle.py "$program" --model llama-2-7b --seconds 30
else
  echo "(no Paddle here: its tuner is not asked)"
fi
echo "histories and the picture: $out"
