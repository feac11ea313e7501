#!/usr/bin/env bash
# Measures OptiReduce and what it is compared with; docs/EXPERIMENTS.md explains,
# `deploy/bench.sh --help` lists the commands. All of it is in tests/bench.
set -euo pipefail
exec /usr/bin/python3 "$(dirname "$0")/../tests/bench/bench.py" "$@"
