#!/usr/bin/env bash
# Eight published cards' memory beside what is counted for them, the speed, ZB-VPP under a cap in bytes, and, where PyTorch is installed,
# four schedules that train the same model for 30 steps.
#   examples/zero-bubble/run.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; pictures and tables go to FOLDER
set -euo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-zero-bubble}")
cd "$(dirname "$0")"
mkdir -p "$out"
layout=pp=4,mbs=1,gbs=16,seq=2048,precision=fp32
echo "== eight cards: measured and counted, MiB"
"$program" validate memory --measurements cards.csv --rows --files "$out/rows" | cut -d, -f2,4,6,7 | tee "$out/cards.csv"
"$program" validate memory --measurements cards.csv | grep -E '^ *(allocated|reserved) '
echo "== the speed: 1F1B, then ZB-H1"
"$program" estimate four.json --on 4xRTX-3090 --trainer paddle.json --layout $layout | grep 's/step (90'
"$program" estimate four.json --on 4xRTX-3090 --trainer paddle-split.json --layout $layout,schedule=csv --schedule zbh1.csv | grep 's/step (90'
echo "== ZB-VPP of a 13B model under 60 GiB on each GPU"
"$program" schedule make zb-vpp --memory-cap 60GiB --model llama-2-13b --on 8xA100-80GB --layout pp=4,vpp=2,dp=2,zero=1,mbs=1,gbs=32,seq=4096 \
  --svg "$out/zb-vpp.svg"
if python=$(command -v "${PYTHON:-python3}") && "$python" -c 'import torch, transformers, trainwright' 2>/dev/null; then
  echo "== four schedules train the same model for 30 steps on PyTorch's pipeline runtime"
  for kind in 1f1b zb-h1 zb-vpp zb-v; do
    "$program" schedule make $kind --ranks 2 --microbatches 4 --csv "$out/$kind.csv" >/dev/null
  done
  "$python" converge.py "$out"/{1f1b,zb-h1,zb-vpp,zb-v}.csv --steps 30 --out "$out"
else
  echo "(no PyTorch with transformers and the package trainwright here: nothing is trained)"
fi
echo "pictures and tables: $out"
