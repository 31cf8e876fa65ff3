#!/usr/bin/env bash
# Makes build/venv, the virtual environment with PyTorch and the oracles that the Python tests use,
# build/paddle, one with PaddlePaddle, whose auto tuner a test drives, build/deepspeed, which adds
# DeepSpeed to the packages of build/venv, and build/megatron*, each with one version of Megatron-Core
# alone. Does nothing where they are there and complete.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(transformers==5.22.2 numpy==2.4.6 pytest==9.2.0 ortools==9.15.6755 peft==0.21.2 bitsandbytes==0.50.2)
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
if [ ! -e build/deepspeed/.made-with-0.19.8 ]; then
  rm -rf build/deepspeed
  python3 -m venv build/deepspeed
  # The packages of build/venv, PyTorch above all, are found there and not installed again.
  realpath build/venv/lib/python3.*/site-packages > "$(echo build/deepspeed/lib/python3.*/site-packages)/venv.pth"
  DS_BUILD_OPS=0 build/deepspeed/bin/pip install --quiet deepspeed==0.19.8
  touch build/deepspeed/.made-with-0.19.8
fi
if [ ! -e build/megatron/.made-with-0.16.1 ]; then
  rm -rf build/megatron
  build/venv/bin/pip install --quiet --no-deps --target build/megatron megatron-core==0.16.1
  touch build/megatron/.made-with-0.16.1
fi
# Wheels from 0.17 on bring Megatron-LM's argument parser. They ask for a newer Python than Debian 12 has, but run on it.
for version in 0.17.1 0.19.2; do
  if [ ! -e "build/megatron-$version/.made" ]; then
    rm -rf "build/megatron-$version"
    build/venv/bin/pip download --quiet --no-deps --python-version 3.12 --only-binary=:all: \
      --dest "build/megatron-$version" "megatron-core==$version"
    python3 -m zipfile -e "build/megatron-$version"/megatron_core-*.whl "build/megatron-$version"
    touch "build/megatron-$version/.made"
  fi
done
