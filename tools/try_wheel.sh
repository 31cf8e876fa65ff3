#!/usr/bin/env bash
# Installs a wheel into an empty environment, as somebody new would, and tests it there.
#   tools/try_wheel.sh WHEEL [PYTHON]    default: python3
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "$1") python=${2:-python3}
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
SECONDS=0
"$python" -m venv "$env"
"$env/bin/pip" install --quiet --no-index "$wheel"
(cd "$env" && bin/trainwright plan llama-3.1-8b --on 8xH100 --batch 64 --seq 8192 --top 3)
echo "from nothing to the first plan: $SECONDS s"
"$env/bin/pip" install --quiet pytest==9.2.0
"$env/bin/python" -m pytest -q -p no:cacheprovider tests/wheel
