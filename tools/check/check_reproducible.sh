#!/usr/bin/env bash
# Whether two builds of one commit, in folders of different names and depth, are the same bytes.
#   tools/check/check_reproducible.sh [TARGET...]
# Without targets the program and its Debian packages, which takes ten minutes: no cache has a say. With targets
# (trainwright_base trainwright_work) the libraries that they make. Prints a hash for each file; exit code 1 where two differ.
set -euo pipefail
cd "$(dirname "$0")/../.."
targets=("${@:-all}")
commit=$(git rev-parse HEAD)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CCACHE_DISABLE=1 LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH

build() {
  local source=$1
  mkdir -p "$source"
  git archive "$commit" | tar -x -C "$source"
  (
    cd "$source"
    cmake --preset release -DTRAINWRIGHT_TESTS=OFF -DTRAINWRIGHT_UNITY=ON -DTRAINWRIGHT_REPRODUCIBLE=ON >/dev/null
    cmake --build build/release --target "${targets[@]}" >/dev/null
    if [ "${targets[*]}" = all ]; then
      cpack --config build/release/CPackConfig.cmake -B build/deb >/dev/null
    fi
    find build -name '*.a' -o -name '*.deb' -o -path build/release/trainwright | grep -v _CPack_Packages | sort | xargs sha256sum
  ) >"$source.sums"
}

build "$folder/a"
build "$folder/another/and/deeper"
cat "$folder/a.sums"
if diff "$folder/a.sums" "$folder/another/and/deeper.sums" >&2; then
  echo "$(wc -l <"$folder/a.sums") files, the same bytes twice"
else
  echo "these differ" >&2
  exit 1
fi
