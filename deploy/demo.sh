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
export HOME=${HOME:-$(getent passwd "$EUID" | cut -d: -f6)} # Bazel wants one
(cd "$root" && bazel build --curses=no --color=no --show_progress_rate_limit=5 "${targets[@]}")

# Mounts, and for an ordinary user networks too, that end with the demo.
own=(unshare --mount)
((EUID == 0)) || own=(unshare --map-root-user --net --mount)
# In a chroot nobody has mounts of his own; root can do without.
((EUID != 0)) || "${own[@]}" true 2>/dev/null || own=()
exec "${own[@]}" /usr/bin/python3 "$root/tests/e2e/demo.py" "$@"
