#!/bin/sh
# Process 1 of a test machine, second half, in the root file system. Runs the tests, then switches the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C NO_COLOR=1
modprobe -a -q ipv6 tun virtio_blk ext4 # modules in some kernels; any node has them from its start
echo 2 >/proc/sys/net/core/devconf_inherit_init_net # new namespaces have the kernel's own settings: tests need not set them
cd "$1" && node_modules/.bin/bun integration/vm/guest.ts /run/reports </dev/null
busybox sync
busybox poweroff -f
