#!/bin/sh
# Builds and runs a program against an installed prefix, by find_package and by pkg-config.
#   tests/consumer/run.sh PREFIX
set -eu
here=$(dirname "$(realpath "$0")")
prefix=$(realpath "$1")
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -G Ninja -S "$here" -B "$build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug >/dev/null
cmake --build "$build" >/dev/null
"$build/consumer" "$prefix/share/trainwright" >"$build/answer"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig:$prefix/lib/x86_64-linux-gnu/pkgconfig"
# shellcheck disable=SC2046 # words
c++ "$here/main.cc" $(pkg-config --cflags --libs trainwright) -o "$build/by-pkg-config"
"$build/by-pkg-config" "$prefix/share/trainwright" | cmp - "$build/answer"
"$prefix/bin/trainwright" estimate llama-2-7b --on 8xH100 --layout tp=2,zero=1,mbs=1,gbs=64,seq=4096 | cmp - "$build/answer"
echo "find_package and pkg-config: programs answer as the program does"
