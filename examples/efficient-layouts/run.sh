#!/usr/bin/env bash
# The advice of a published sweep, the plan for its models beside the best layouts measured, and MFU by three counts.
#   examples/efficient-layouts/run.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; the picture goes to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-efficient-layouts}")
cd "$(dirname "$0")"
mkdir -p "$out"
python=${PYTHON:-python3}
echo "== the advice"
"$python" advice.py "$program" --svg "$out"
echo "== the plans"
"$python" plans.py "$program"
echo "== MFU"
"$python" mfu.py "$program"
echo "the picture: $out"
