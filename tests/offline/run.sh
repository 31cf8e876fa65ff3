#!/bin/sh
# The program answers the same where there is no network at all, and has no call that would open a connection.
#   tests/offline/run.sh PROGRAM
set -eu
program=$(realpath "$1")
if ! unshare -rn true 2>/dev/null; then
  echo "no network namespaces here"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
ask() {
  "$@" plan llama-3.2-1b --on 8xH100 --batch 64 --seq 4096 --report page.html --json
  "$@" estimate llama-2-7b --on 8xH100 --layout tp=2,zero=1,mbs=1,gbs=64,seq=4096
  sha256sum page.html
}
ask "$program" >with
ask unshare -rn "$program" >without
cmp with without
calls=$(nm -D --undefined-only "$program" | grep -wE 'socket|connect|getaddrinfo|gethostbyname|sendto|recvfrom' || true)
if [ -n "$calls" ]; then
  echo "it could open a connection: $calls"
  exit 1
fi
echo "the same answers without a network; no call that opens a connection"
