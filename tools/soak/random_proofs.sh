#!/bin/sh
# Random problems of at most 150 layouts, each also answered by asking about every layout: the search must find the same ones and
# prove it. 10,000 take four minutes of one core; CI asks about 100.
#
#   tools/soak/random_proofs.sh [COUNT] [SEED]
set -eu
cd "$(dirname "$0")/../.."
RC_PARAMS="max_success=${1:-10000} max_discard_ratio=100${2:+ seed=$2}" \
    exec build/release/search_prop_test --test-case="*of at most 150"
