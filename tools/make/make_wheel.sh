#!/usr/bin/env bash
# Makes a wheel in build/wheels, with the libraries that it needs inside.
#   tools/make/make_wheel.sh [PYTHON [BUILD]]    default: python3, a folder of its own; with a BUILD, such as build/release,
#                                           what was compiled there is not compiled again
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3} build=${2:-}
env=$(tools/make/wheel_tools.sh "$python")
options=(--config-settings=cmake.define.CMAKE_CXX_FLAGS=-Werror)
if [ -n "$build" ]; then
  options+=("--config-settings=build-dir=$build" --config-settings=cmake.define.TRAINWRIGHT_TESTS=ON)
  rm -f "$build/.skbuild-info.json"  # or the backend begins anew for every interpreter
fi
rm -rf build/wheels/bare
# CI=1: the backend waits longer for a busy host. Compiler and flags are those of the release build, which the cache knows.
CI=1 CXX=c++ CMAKE_GENERATOR=Ninja "$env/bin/pip" wheel . --quiet --no-deps --no-build-isolation --wheel-dir build/wheels/bare "${options[@]}"
# Both call programs of their environment.
PATH=$env/bin:$PATH "$env/bin/auditwheel" repair --strip --wheel-dir build/wheels build/wheels/bare/trainwright-*.whl
ls -l build/wheels/*.whl
