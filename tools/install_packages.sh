#!/usr/bin/env bash
# Installs what the project needs on Debian 12; does nothing when everything is there.
set -euo pipefail
packages=(cmake ninja-build g++ ccache doctest-dev librapidcheck-dev libexpected-dev libcli11-dev
  nlohmann-json3-dev libfmt-dev libtbb-dev libbenchmark-dev libceres-dev libtomlplusplus-dev libyaml-cpp-dev libsqlite3-dev clang-19 clang-format-19
  lld-19 libclang-rt-19-dev python3-venv python3-dev chromium esbuild node-d3
  groff-base mandoc zsh fish lintian pkgconf file libsimgrid-dev)
dpkg -s "${packages[@]}" >/dev/null 2>&1 && exit 0
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
