#!/usr/bin/env bash
# Tuning played through on published runs: a trial prints what its authors measured.
#   replay.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; the history and the picture go to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-auto-tune}")
cd "$(dirname "$0")"
mkdir -p "$out"
rm -rf "$out/replayed"
published=()
while IFS=';' read -r _ layout _; do published+=(--among "$layout"); done < <(tail -n +2 sweep.csv)
question=(65b.json --on 64xaleph-alpha --trainer megatron@0.8)
"$program" tune run "${question[@]}" --batch 2048 --seq 2048 "${published[@]}" --history "$out/replayed" --steps 8 \
  --step-pattern 'step time: ([0-9.]+) s' -- "$(command -v python3)" "$PWD/replay.py" "$PWD/sweep.csv" '{layout}'
"$program" tune status --history "$out/replayed" --json >"$out/replayed.json"
python3 told.py "$program" "$out/replayed.json" --published sweep.csv --svg "$out/trials.svg" -- "${question[@]}"
