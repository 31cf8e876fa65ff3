#!/usr/bin/env bash
# Installs a wheel into an empty environment, as somebody new would, and tests it there.
#   tools/check/try_wheel.sh WHEEL [PYTHON]    default: python3
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=$(realpath "$1") python=${2:-python3}
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
SECONDS=0
"$python" -m venv "$env"
"$env/bin/pip" install --quiet --no-index "$wheel"
(cd "$env" && bin/trainwright plan llama-3.1-8b --on 8xH100 --batch 64 --seq 8192 --top 3)
echo "from nothing to the first plan: $SECONDS s"
# What tests look with, and the extras whose absence the lines above have shown to be no matter.
pandas=pandas==3.1.1
"$env/bin/python" -c 'import sys; sys.exit(sys.version_info >= (3, 11))' && pandas=pandas==2.3.3
"$env/bin/pip" install --quiet pytest==9.2.0 mypy==2.4.1 mcp==2.3.0 jsonschema==4.26.0 "$pandas"
"$env/bin/pip" install --quiet --no-index "$wheel[mcp,pandas]"
"$env/bin/python" -m pytest -q -p no:cacheprovider tests/wheel
# Beside what is no part of it: transformers of build/venv, where that is the same Python.
same() { [ -x "$1" ] && [ "$("$1" -V)" = "$("$2" -V)" ]; }
if same build/venv/bin/python "$env/bin/python"; then
  "$env/bin/pip" install --quiet --no-index --target "$env/beside" "$wheel"
  PYTHONPATH=$env/beside build/venv/bin/python -m pytest -q -p no:cacheprovider tests/wheel/test_answers.py -k transformers
else
  echo "configs of transformers are not tried: build/venv is no $("$env/bin/python" -V)"
fi
