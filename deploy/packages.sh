# Sourced by demo.sh and test.sh.
#
# install_missing_packages FILE: installs the Debian packages that FILE names
# and this machine lacks. Needs root, or sudo, only if one is missing.

install_missing_packages() {
  local package missing=() as_root=()
  while read -r package; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done <"$1"
  if ((${#missing[@]} == 0)); then
    echo "All packages are installed."
    return
  fi
  echo "Installing ${#missing[@]} packages: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "Neither root nor sudo: please have the packages above installed." >&2
      return 1
    }
    as_root=(sudo)
  fi
  # A package list of yesterday may name files that the mirror has replaced.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -q -y --no-install-recommends "${missing[@]}"
}
