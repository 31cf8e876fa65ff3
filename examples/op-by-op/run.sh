#!/usr/bin/env bash
# The memory of a Llama 2 layer, op by op, beside what was published of it; then that of a program recorded here where PyTorch is installed.
#   examples/op-by-op/run.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; pictures and tables go to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-op-by-op}")
cd "$(dirname "$0")"
mkdir -p "$out"
echo "== the real run: after each op, to the byte"
"$program" replay run.jsonl --beside published-run.csv --csv "$out/ops.csv" | tail -2
echo "== the published estimator, from its own rules: before each op, to the byte"
"$program" replay mentions.jsonl --no-aliases --beside published-estimate.csv | tail -1
echo "== why it was off"
"$program" replay run.jsonl --beside published-estimate.csv --svg "$out/memory.svg" | tail -3
if python=$(command -v "${PYTHON:-python3}") && "$python" -c 'import torch, trainwright' 2>/dev/null; then
  echo "== a training step recorded here with PyTorch, its first ops and its peak"
  "$python" -m trainwright.engine record llama --set hidden_size=256 --set num_hidden_layers=2 --output "$out/stage.jsonl"
  "$program" replay "$out/stage.jsonl" --ops --csv "$out/stage.csv" --svg "$out/stage.svg" >"$out/stage.txt"
  head -8 "$out/stage.txt"
  "$program" replay "$out/stage.jsonl" >"$out/peak.txt"
  sed -n '/^peak/,/^reserved/p; /^kind/,/^total/p' "$out/peak.txt"
else
  echo "(no PyTorch with the package trainwright here: a program of your own is not recorded)"
fi
echo "pictures and tables: $out"
