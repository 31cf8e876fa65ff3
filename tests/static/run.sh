#!/bin/sh
# The static program answers as the other one does, in a root without libc or anything else.
#   tests/static/run.sh STATIC PROGRAM
set -eu
here=$(dirname "$(realpath "$0")")
static=$(realpath "$1") program=$(realpath "$2")
if ! unshare -r true 2>/dev/null; then
  echo "no user namespaces here"
  exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/bin" "$root/share"
cp "$static" "$root/bin/trainwright"
cp -r "$here/../../data" "$root/share/trainwright"
cp "$here/../golden/calibrate/titan.log" "$here/../golden/replay/llama_layer.jsonl" "$root"
ask() {
  "$@" plan llama-3.2-1b --on 8xH100 --batch 64 --seq 4096
  "$@" estimate llama-2-7b --on 8xH100 --layout tp=2,zero=1,mbs=1,gbs=64,seq=4096 --json
  "$@" calibrate titan.log --model llama-3.1-8b --on 8xH100 --trainer torchtitan --layout fsdp,mbs=1,gbs=8,seq=8192 --json
  "$@" replay llama_layer.jsonl
  "$@" schedule make auto --ranks 4 --chunks 2 --microbatches 16 --memory-cap 6
}
cd "$root"
ask "$program" >"$root/expected"
ask unshare -r chroot "$root" /bin/trainwright --data /share/trainwright >"$root/answer"
cmp "$root/expected" "$root/answer"
echo "$(stat -c %s "$static") bytes, no libc, the same answers"
