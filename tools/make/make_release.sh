#!/usr/bin/env bash
# Makes all that a release ships, in build/published: wheels, sdist, Debian packages, the static program, site, playground and SBOM.
#   tools/make/make_release.sh VERSION              from a clean tree on Debian 12; each is tried as its step of .ci/run tries it
#   tools/make/make_release.sh VERSION --dry-run    what is wrong with the tree and its versions, and the steps that would run
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:?usage: tools/make/make_release.sh VERSION [--dry-run]} dry=${2:-}

faults=0
fault() { echo "not ready: $*" >&2; faults=1; }
[ -z "$(git status --porcelain)" ] || fault "the tree has changes that are not committed"
said=$(sed -n 's/^project(trainwright VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ "$said" = "$version" ] || fault "CMakeLists.txt says $said"
said=$(sed -n 's/^version: *"\{0,1\}\([0-9.]*\).*/\1/p' CITATION.cff)
[ "${said:-$version}" = "$version" ] || fault "CITATION.cff says $said"
grep -q "^## $version\b" CHANGELOG.md || fault "CHANGELOG.md has no heading ## $version"
! grep -q '^## Unreleased' CHANGELOG.md || fault "CHANGELOG.md still has a heading ## Unreleased"

steps=(install release installed packages site playground wheel)
if [ "$dry" = --dry-run ]; then
  echo "would run: WHEELS='3.10 3.11 3.12' .ci/run ${steps[*]}"
  for step in "${steps[@]}"; do grep -q "^$step() {" .ci/run || fault "no step $step in .ci/run"; done
  exit "$faults"
fi
[ "$faults" = 0 ] || exit 1

export TRAINWRIGHT_FORGET=1 WHEELS="3.10 3.11 3.12" SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
.ci/run "${steps[@]}"
rm -rf build/published
mkdir -p build/published
cp build/wheels/*.whl build/wheels/*.tar.gz build/deb/*.deb build/sbom.json build/published/
# The static program reads data/ beside itself.
tar -C build/release -czf "build/published/trainwright-$version-linux-$(uname -m).tar.gz" --dereference \
  --transform "s|^|trainwright-$version/|;s|trainwright-static|trainwright|" trainwright-static data
tar -C build/site -czf "build/published/trainwright-$version-site.tar.gz" html
tar -C build -czf "build/published/trainwright-$version-playground.tar.gz" playground
(cd build/published && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
