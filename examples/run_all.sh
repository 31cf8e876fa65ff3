#!/usr/bin/env bash
# Runs every example: one command each, in at most two minutes, from a plain clone.
#   examples/run_all.sh [PROGRAM] [FOLDER]     PROGRAM: trainwright; what they write goes to FOLDER/NAME
set -uo pipefail
program=$(realpath "$(command -v "${1:-trainwright}")")
out=$(realpath -m "${2:-examples-out}")
passed=0 failed=0
for example in "$(dirname "$0")"/*/run.sh; do
  name=$(basename "$(dirname "$example")") began=$SECONDS
  mkdir -p "$out/$name"
  if timeout 120 "$example" "$program" "$out/$name" >"$out/$name/log" 2>&1; then
    passed=$((passed + 1))
    echo "$name: $((SECONDS - began)) s"
  else
    failed=$((failed + 1))
    echo "FAILED $name after $((SECONDS - began)) s:"
    tail -20 "$out/$name/log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
