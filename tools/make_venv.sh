#!/usr/bin/env bash
# Makes build/venv, the virtual environment with PyTorch and the oracles that the Python tests use,
# and build/paddle, one with PaddlePaddle, whose auto tuner a test drives. Does nothing where they are
# there and complete.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(transformers==5.22.2 numpy==2.4.6 pytest==9.2.0 ortools==9.15.6755)
stamp="build/venv/.made-with-torch-2.13.0-${packages[*]// /-}"
stamp=${stamp// /_}
if [ ! -e "$stamp" ]; then
  rm -rf build/venv
  python3 -m venv build/venv
  # PyTorch first and alone: what follows then finds it installed and does not pull a CUDA build.
  build/venv/bin/pip install --quiet torch==2.13.0
  build/venv/bin/pip install --quiet "${packages[@]}"
  touch "$stamp"
fi
if [ ! -e build/paddle/.made-with-3.3.1 ]; then
  rm -rf build/paddle
  python3 -m venv build/paddle
  build/paddle/bin/pip install --quiet paddlepaddle==3.3.1
  touch build/paddle/.made-with-3.3.1
fi
