#!/bin/busybox sh
# The first part of process 1 of a test machine, in its initial RAM disk. Mounts the root file system: that of the outer
# machine, read-only, with an overlay in memory for all writes. Mounts the directory for reports.
set -e
/bin/busybox --install -s /bin
export PATH=/bin
. /settings # share, reports, modules, checkout; see initramfs.ts

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /modules/*.ko; do insmod "$module"; done

mount_share() { # name, path on the outer machine, mount point, options
  case "$share" in
    9p) mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144,$4" "$1" "$3" ;;
    hostfs) mount -t hostfs -o "${4%%,*}" -o "$2" none "$3" ;;
  esac
}
mount_share host / /host ro,cache=loose
mount -t tmpfs -o size=75% tmpfs /ram
mkdir /ram/upper /ram/work
mount -t overlay -o lowerdir=/host,upperdir=/ram/upper,workdir=/ram/work overlay /newroot
mount -t tmpfs tmpfs /newroot/run
mkdir /newroot/run/netns /newroot/run/reports
mount_share reports "$reports" /newroot/run/reports rw

installed="/newroot/lib/modules/$(uname -r)"
mkdir -p /newroot/lib/modules
[ -e "$installed" ] || ln -s "$modules" "$installed"
for directory in proc sys dev; do mount --move "/$directory" "/newroot/$directory"; done
exec switch_root /newroot /bin/busybox sh "$checkout/integration/vm/guest.sh" "$checkout"
