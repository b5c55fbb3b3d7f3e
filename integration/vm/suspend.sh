#!/bin/busybox sh
# Process 1 of the machine of suspend.ts, all of which is in its initial RAM disk: a suspended virtual disk would not come back.
# A container's interface with a lease of ten seconds, while the kernel suspends the machine:
# pm_test "core" does all but switch it off, and goes on after a while.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /run/netns /run/cni /var/lib/cni /var/lib/misc /var/run /etc
for module in /modules/*.ko; do insmod "$module"; done
ip link set lo up

. /dhcp-scene.sh
udhcpd -f /etc/udhcpd.conf 2>&1 &
export CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_NETNS=/run/netns/pod CNI_PATH=/
echo '{"cniVersion":"1.0.0","name":"n","type":"dhcp","ipam":{"type":"dhcp"}}' | CNI_COMMAND=ADD /dhcp
echo

echo core >/sys/power/pm_test
echo 12 >/sys/module/suspend/parameters/pm_test_delay
echo "suspended at $(cat /proc/uptime)"
echo mem >/sys/power/state
echo "resumed at $(cat /proc/uptime)"
sleep 4 # less than half of the lease: what happens by then is not for lack of a renewal
cat /run/daemon
poweroff -f
