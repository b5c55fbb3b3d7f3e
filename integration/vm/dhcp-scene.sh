# Read by a machine's process 1: the network namespace /run/netns/pod, in which eth0 is one end of a cable, the configuration of busybox's
# udhcpd for the other end, with leases of ten seconds, and dhcp's daemon, whose messages are in /run/daemon.
touch /run/netns/pod
unshare -n sh -c 'mount --bind /proc/self/ns/net /run/netns/pod'
inside() { nsenter --net=/run/netns/pod "$@"; }
ip link add s0 type veth
nsenter --net=/run/netns/pod sleep 1000 &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link set veth0 netns $!
inside ip link set veth0 name eth0
inside ip link set eth0 up
ip addr add 10.1.2.1/24 dev s0
ip link set s0 up

printf '%s\n' 'interface s0' 'start 10.1.2.50' 'end 10.1.2.60' 'option subnet 255.255.255.0' \
  'option lease 10' 'min_lease 10' 'max_leases 11' >/etc/udhcpd.conf
touch /var/lib/misc/udhcpd.leases
/dhcp daemon -timeout 1s >/run/daemon 2>&1 &
until [ -S /run/cni/dhcp.sock ]; do :; done
