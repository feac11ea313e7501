#!/usr/bin/env bash
# Installs what is missing, builds, and runs the demo (tests/e2e/demo.py).
# As root, or as an ordinary user in namespaces of his own.
#
#   deploy/demo.sh [--json FILE] [--png FILE] [--steps N]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/deploy/packages.sh"

for argument in "$@"; do
  [[ $argument != -h && $argument != --help ]] || exec /usr/bin/python3 "$root/tests/e2e/demo.py" --help
done

# What the demo runs.
targets=(//client:liboptireduce.so.0 //control:optireduced)

install_missing_packages "$root/deploy/packages.txt"
echo "Building ..."
(cd "$root" && HOME=${HOME:-/tmp} bazel build --curses=no --color=no --show_progress_rate_limit=5 "${targets[@]}")

# Mounts, and for an ordinary user networks too, that end with the demo.
namespaces=(--mount)
((EUID == 0)) || namespaces=(--map-root-user --net --mount)
exec unshare "${namespaces[@]}" /usr/bin/python3 "$root/tests/e2e/demo.py" "$@"
