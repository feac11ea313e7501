#!/bin/bash
# Runs dpdk_af_packet_test between two interfaces in a network namespace of its
# own. Needs no root: user namespaces are enough.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
test_binary="$1"

if [[ "${IN_NAMESPACE:-}" != 1 ]]; then
    IN_NAMESPACE=1 exec unshare --map-root-user --net -- "$0" "$test_binary"
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
exec "$test_binary"
