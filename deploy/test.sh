#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; docs/TESTING.md explains.
#
#   deploy/test.sh [--tier=1|2|3] [BLOCK...]
#
# Tier 1 (the default): what every change must pass; minutes.
# Tier 2: tier 1 under the sanitizers, static analysis, fuzzing, more seeds; an hour.
# Tier 3: soak runs, hours, by hand; leaves a report in docs/reports/.
# With BLOCK names only those blocks run; --help lists them.
#
# The last line is "N passed, N failed": test targets, and blocks that are not
# Bazel tests. The exit code is 0 only if none failed.
set -uo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

# ---- what each tier runs, in this order ----------------------------------

TIER1=(packages format tidy build tests simulator)
TIER2=("${TIER1[@]}" simulator-more asan-ubsan tsan clang clang-tidy fuzz mutation bounded demo)
TIER3=("${TIER2[@]}" simulator-long exact fuzz-long mutation-all coverage)

# ---- blocks --------------------------------------------------------------
# A block is a function block_NAME. It either runs Bazel tests (`bazel_tests`
# counts the targets) or is one check: its exit status counts as one.

# Debian packages that are missing.
block_packages() { check install_missing_packages deploy/packages.txt; }

# C++ formatted as .clang-format says, BUILD files as buildifier would.
block_format() {
  clang_format() { find_sources | xargs -0 -r clang-format --dry-run -Werror; }
  check clang_format
  check /usr/bin/python3 tests/tidy/build_format.py .
}

# Dependencies point one way; nothing unfinished or private is in the tree.
block_tidy() {
  check /usr/bin/python3 tests/tidy/layers.py .
  check /usr/bin/python3 tests/tidy/words.py .
}

# Everything compiles without a warning.
block_build() { check bazel_run build //...; }

# All unit and end-to-end tests.
block_tests() { bazel_tests; }

# The protocol in the simulator: every single packet of small runs lost,
# duplicated or delayed, then random scenarios by seed; oracles watch all of it.
simulate() {
  check bazel_run run //dataplane/sim:optisim -- coverage --seed "$1" --count "$2"
}
block_simulator() { simulate 1 2000; }
block_simulator-more() { simulate 2001 10000; }
block_simulator-long() { simulate 1000000 50000; }

# The same tests under gcc's sanitizers. A test tagged no-sanitizer runs no
# code of ours that a sanitizer could watch; one tagged no-tsan needs DPDK's
# EAL, whose synchronisation ThreadSanitizer cannot see.
block_asan-ubsan() {
  bazel_tests --config=asan --config=ubsan --test_tag_filters=-no-sanitizer
}
block_tsan() {
  bazel_tests --config=tsan --test_tag_filters=-no-sanitizer,-no-tsan --build_tag_filters=-no-tsan
}

# The same tests built by the other compiler.
block_clang() { bazel_tests --config=clang --test_tag_filters=-no-sanitizer; }

# Static analysis as .clang-tidy says.
block_clang-tidy() {
  check_clang_tidy() {
    # It reads generated headers, and sources where the last build saw them.
    bazel_run build //... && /usr/bin/python3 tests/tidy/compdb.py || return 1
    # Without --config-file it looks for one in the folder of every header. It
    # counts the warnings that it does not show, from other people's headers.
    find_sources '*.cc' | xargs -0 -r -n 4 -P "$(nproc)" \
      clang-tidy --config-file=.clang-tidy --quiet -p . 2> >(grep -v 'warnings\? generated')
  }
  check check_clang_tidy
}

# Real daemons on hosts in network namespaces: bounded operations under loss end
# on time and miss what they say; exact ones are right to the bit.
real_daemons() {
  bazel_run build //control:optireduced //client/optiperf && "$@"
}
block_bounded() { check real_daemons tests/e2e/bounded_run.py; }
block_exact() { check real_daemons tests/e2e/exact_matrix.py; }
block_demo() { check deploy/demo.sh --png "$(mktemp -d)/demo.png"; }

# Every fuzz target under libFuzzer, for half a minute or ten minutes.
block_fuzz() { check tests/fuzz/run 30; }
block_fuzz-long() { check tests/fuzz/run 600; }

# Small deliberate breaks, of which the tests must notice 95 %: a fixed sample
# of them, or all.
block_mutation() { check tests/mutation/run --sample; }
block_mutation-all() { check tests/mutation/run --all; }

# The share of each room's lines that the tests run.
block_coverage() {
  coverage() {
    bazel_run coverage --test_tag_filters=-no-sanitizer --build_tests_only //... &&
      /usr/bin/python3 tests/tidy/coverage.py bazel-out/_coverage/_coverage_report.dat
  }
  check coverage
}

# ---- the frame around the blocks -----------------------------------------

passed=0
failed=0
failures=()
minutes=() # "block seconds" of the blocks that ran

# Our own C++ files, separated by NUL: all of them, or those of one pattern.
find_sources() {
  local patterns=(-name '*.cc' -o -name '*.h' -o -name '*.c')
  (($# == 0)) || patterns=(-name "$1")
  find . -name 'bazel-*' -prune -o -path './.*' -prune -o -path ./third_party -prune \
    -o -type f \( "${patterns[@]}" \) -print0
}

# Bazel without cursor movements and with a line of progress now and then.
bazel_run() {
  bazel "$1" --curses=no --color=no --show_progress_rate_limit=20 --keep_going "${@:2}"
}

# Runs one check, which counts as one.
check() {
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("$block: $*")
  fi
}

# Runs all tests with these flags; counts each test target.
bazel_tests() {
  local log status good bad
  log=$(mktemp)
  bazel_run test --build_tests_only "$@" //... 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  # A line per target: "//room:name  (cached) PASSED in 0.1s", "FAILED in ...",
  # "FLAKY ...", "TIMEOUT ...", "FAILED TO BUILD", "NO STATUS".
  good=$(grep -cE '^//[^ ]+ +(\(cached\) )?PASSED' "$log")
  mapfile -t bad < <(grep -oE '^//[^ ]+ +(FAILED|FLAKY|TIMEOUT|INCOMPLETE|NO STATUS).*' "$log")
  rm -f "$log"
  # An error before any test could run, such as a broken BUILD file.
  ((status == 0 || ${#bad[@]} > 0)) || bad=("bazel test exited with $status")
  passed=$((passed + good))
  failed=$((failed + ${#bad[@]}))
  local line
  for line in "${bad[@]}"; do failures+=("$block: $line"); done
}

run_block() {
  local start=$SECONDS
  block=$1
  printf '\n==== %s ====\n' "$block"
  "block_$block"
  minutes+=("$block $((SECONDS - start))")
  printf -- '---- %s took %d seconds\n' "$block" $((SECONDS - start))
}

report() {
  local entry
  printf '\n%-16s %s\n' block minutes
  for entry in "${minutes[@]}"; do
    awk '{printf "%-16s %5.1f\n", $1, $2 / 60}' <<<"$entry"
  done
  awk -v s="$SECONDS" 'BEGIN {printf "%-16s %5.1f\n", "total", s / 60}'
  ((${#failures[@]} == 0)) || printf 'FAILED %s\n' "${failures[@]}"
  echo "$passed passed, $failed failed"
}

# Tier 3 is run by hand, for the record.
save_report() {
  local file
  file=docs/reports/$(date -u +%Y-%m-%d)-tier3.md
  mkdir -p docs/reports
  {
    echo "# Tier 3, $(date -u +%Y-%m-%d)"
    echo
    echo "Revision $(git rev-parse --short HEAD), $(nproc) cores, kernel $(uname -r)."
    echo
    report | sed 's/^/    /'
  } >"$file"
  echo "Report: $file"
}

usage() {
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0"
  echo "Tier 1: ${TIER1[*]}"
  echo "Tier 2: ${TIER2[*]}"
  echo "Tier 3: ${TIER3[*]}"
}

main() {
  local tier=1 blocks=() argument
  for argument in "$@"; do
    case $argument in
      --tier=[123]) tier=${argument#--tier=} ;;
      -h | --help) usage; exit 0 ;;
      -*) echo "test.sh: unknown option $argument (--help lists them)" >&2; exit 2 ;;
      *)
        declare -F "block_$argument" >/dev/null || {
          echo "test.sh: there is no block $argument (--help lists them)" >&2
          exit 2
        }
        blocks+=("$argument")
        ;;
    esac
  done
  if ((${#blocks[@]} == 0)); then
    local -n of_tier=TIER$tier
    blocks=("${of_tier[@]}")
  fi
  # Bazel wants a home directory; a bare CI machine may not name one.
  export HOME=${HOME:-$(getent passwd "$EUID" | cut -d: -f6)}
  for argument in "${blocks[@]}"; do run_block "$argument"; done
  ((tier < 3)) || save_report
  report
  ((failed == 0))
}

main "$@"; exit
