#!/bin/busybox sh
# Process 1 of the machine of suspend.ts, all of which is in its initial RAM disk: a suspended virtual disk would not come back.
# A container's interface, eth0, with a lease of ten seconds of busybox's DHCP server, while the kernel suspends the machine:
# pm_test "core" does all but switch it off, and goes on after a while.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /run/netns /run/cni /var/lib/cni /var/lib/misc /var/run /etc
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up

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
udhcpd -f /etc/udhcpd.conf 2>&1 &
/dhcp daemon -timeout 1s >/run/daemon 2>&1 &
until [ -S /run/cni/dhcp.sock ]; do :; done
export CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_NETNS=/run/netns/pod CNI_PATH=/
echo '{"cniVersion":"1.0.0","name":"n","type":"dhcp","ipam":{"type":"dhcp"}}' | CNI_COMMAND=ADD /dhcp
echo

echo core >/sys/power/pm_test
echo 12 >/sys/module/suspend/parameters/pm_test_delay
echo "suspended at $(cat /proc/uptime)"
echo mem >/sys/power/state
echo "resumed at $(cat /proc/uptime)"
sleep 4 # less than half of the lease: what happens by then is not for want of a renewal
cat /run/daemon
poweroff -f
