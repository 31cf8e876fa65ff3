#!/bin/sh
# Random questions, of whose steps nothing may be faster than peak, memory or links. 100,000 take three minutes of one core; CI asks
# about 100.
#
#   tools/soak/random_steps.sh [COUNT] [SEED]
set -eu
cd "$(dirname "$0")/../.."
RC_PARAMS="max_success=${1:-100000}${2:+ seed=$2}" \
    exec build/release/simulate_prop_test --test-case="nothing in a step is faster*"
