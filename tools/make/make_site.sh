#!/usr/bin/env bash
# Makes the documentation's site in build/site/html, with references that the program tells of itself.
#   tools/make/make_site.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "$1")
env=build/site-tools tool=mkdocs-material==9.8.1
if [ ! -e "$env/.made-with-$tool" ]; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install --quiet "$tool"
  touch "$env/.made-with-$tool"
fi
pages=build/site/pages
rm -rf build/site
mkdir -p "$pages"
cp -r docs/. examples "$pages"
cp ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md GLOSSARY.md SECURITY.md RELEASING.md "$pages"
cp data/README.md "$pages/data.md"
python3 tools/make/make_reference.py "$program" "$pages/reference"
# Every page lies one folder higher than in the sources.
find "$pages" -maxdepth 1 -name '*.md' -exec sed -i 's|](docs/|](|g; s|](\.\./|](|g; s|](data/README.md|](data.md|g' {} +
find "$pages" -mindepth 2 -name '*.md' -exec sed -i 's|](\.\./\.\./data/README.md|](../data.md|g; s|](\.\./\.\./examples/|](../examples/|g; s|](\.\./\.\./\([A-Z]*\.md\)|](../\1|g' {} +
find "$pages/examples" -name '*.md' -exec sed -i 's|](\.\./\.\./docs/|](../../|g' {} +
NO_MKDOCS_2_WARNING=1 "$env/bin/mkdocs" build --strict --quiet
if grep -rhoE '(src="|rel="stylesheet" href=")https?://[^"]*' build/site/html --include='*.html' | sort -u | grep .; then
  echo "pages would load these from elsewhere"
  exit 1
fi
du -sh build/site/html | cut -f1
