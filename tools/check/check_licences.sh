#!/usr/bin/env bash
# Fails where a file has no licence or a licence no text (reuse.software), or code of others ships without its notice.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 tools/check/check_notices.py
env=build/reuse tool=reuse==6.2.0
if [ ! -e "$env/.made-with-$tool" ]; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install --quiet "$tool"
  touch "$env/.made-with-$tool"
fi
"$env/bin/reuse" lint --quiet || "$env/bin/reuse" lint
