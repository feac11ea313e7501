#!/bin/bash
# Runs a test (and its arguments) between two interfaces in a network namespace
# of its own. Needs no root, as user namespaces are enough, but for AF_XDP,
# which the kernel leaves to the machine's own root.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

if [[ "${IN_NAMESPACE:-}" != 1 ]]; then
    if [[ "$*" != *af_xdp* ]]; then
        own=(--map-root-user --net)
        # Root may be where there are no user namespaces, as in a chroot.
        [[ $(id -u) != 0 ]] || unshare "${own[@]}" true 2> /dev/null || own=(--net)
        IN_NAMESPACE=1 exec unshare "${own[@]}" -- "$0" "$@"
    fi
    read -r _ outside length < /proc/self/uid_map
    if [[ $(id -u) != 0 || "$outside" != 0 || "$length" != 4294967295 ]]; then
        echo "skipped: AF_XDP needs root"
        exit 0
    fi
    # DPDK's driver forgets what libxdp has allocated for it.
    suppressions="${TEST_TMPDIR:-/tmp}/af_xdp.supp"
    echo "leak:xsk_umem__create" > "$suppressions"
    export LSAN_OPTIONS="suppressions=$suppressions:print_suppressions=0"
    IN_NAMESPACE=1 exec unshare --net -- "$0" "$@"
fi
ip link set lo up
ip link add veth0 type veth peer name veth1
for interface in veth0 veth1; do
    ip link set "$interface" addrgenmode none
    ethtool -K "$interface" tx off > /dev/null
done
ip addr add 10.7.0.1/24 dev veth0
ip link set veth0 up
ip link set veth1 up
ip route add default via 10.7.0.254 dev veth0
exec "$@"
