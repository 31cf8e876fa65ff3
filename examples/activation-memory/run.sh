#!/usr/bin/env bash
# What a layer keeps for its backward pass as a formula, the figures of the paper that derived it, and Llama's terms.
#   examples/activation-memory/run.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; pictures go to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-activation-memory}")
cd "$(dirname "$0")"
mkdir -p "$out"
python=${PYTHON:-python3}
echo "== a GPT layer (22B, micro-batches of 4), term by term"
"$program" show work layer.json --on 3xA100-80GB --trainer megatron-lm-2022 --layout pp=3,mbs=4,gbs=96,seq=2048 --stage 1 --formula | tail -n +9
echo "== the paper's techniques, its figures 1 and 7"
"$python" figures.py "$program" --svg "$out"
echo "== from GPT's layer to Llama's"
"$python" terms.py "$program"
echo "== Llama-13B on one node of eight A100"
"$python" node.py "$program"
echo "the pictures: $out"
