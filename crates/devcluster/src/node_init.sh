# The first process of a node, in its own mount, network and process namespaces.
# $1: directory of the node, $2: Kubernetes binaries, $3: tools.
set -eu
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
# The directories below may hide the places these come from, so they are given short names first.
mkdir -p /run/node/state /run/node/kubernetes /run/node/tools /run/lock
mount --bind "$1" /run/node/state
mount --bind "$2" /run/node/kubernetes
mount --bind "$3" /run/node/tools
# What belongs to a machine, private to this node. A bind below a shared mount joins its peers, and every
# mount made later would appear twice: leave the peers first.
for pair in lib:/var/lib log:/var/log tmp:/tmp; do
    mount --bind "/run/node/state/${pair%%:*}" "${pair#*:}"
    mount --make-private "${pair#*:}"
    mount --make-shared "${pair#*:}"
done
mount --bind /dev/null /etc/resolv.conf
echo 1 > /proc/sys/net/ipv4/ip_forward
# Sockets whose peer was killed would keep this network alive for minutes after its last process.
echo 1 > /proc/sys/net/ipv4/tcp_orphan_retries
exec /run/node/tools/catatonit -P
