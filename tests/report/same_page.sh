#!/bin/sh
# data/report/page.html is what tools/make/make_report_page.sh makes. Exit code 77 where its tools are missing.
set -eu
cd "$(dirname "$0")/../.."
if ! command -v esbuild >/dev/null || [ ! -d /usr/share/nodejs/d3-zoom ]; then
  echo "there is no esbuild or node-d3 here: the page was not made again"
  exit 77
fi
made=$(mktemp)
trap 'rm "$made"' EXIT
tools/make/make_report_page.sh "$made"
cmp "$made" data/report/page.html || {
  echo "run tools/make/make_report_page.sh"
  exit 1
}
