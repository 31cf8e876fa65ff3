#!/usr/bin/env bash
# Makes build/venv, the virtual environment with PyTorch and the oracles that the Python tests use.
# Does nothing when it is there and complete.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(transformers==5.22.2 numpy==2.4.6 pytest==9.2.0 ortools==9.15.6755)
stamp="build/venv/.made-with-torch-2.13.0-${packages[*]// /-}"
stamp=${stamp// /_}
[ -e "$stamp" ] && exit 0
rm -rf build/venv
python3 -m venv build/venv
# PyTorch first and alone: what follows then finds it installed and does not pull a CUDA build.
build/venv/bin/pip install --quiet torch==2.13.0
build/venv/bin/pip install --quiet "${packages[@]}"
touch "$stamp"
