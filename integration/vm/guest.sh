#!/bin/sh
# The second part of process 1 of a test machine, in the root file system. Runs the tests, then powers the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C NO_COLOR=1
modprobe -a -q ipv6 tun virtio_blk ext4 # modules in some kernels; every node loads them at its start
echo 2 >/proc/sys/net/core/devconf_inherit_init_net # new namespaces get the kernel's own settings, so tests need not set them
cd "$1" && node_modules/.bin/bun integration/vm/guest.ts /run/reports </dev/null
busybox sync
busybox poweroff -f
