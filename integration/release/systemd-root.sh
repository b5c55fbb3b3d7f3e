#!/bin/sh
# Starts systemd as process 1 of new namespaces and a new cgroup. Its root is this machine's file system with an overlay in memory.
#
#   unshare --mount sh systemd-root.sh DIRECTORY DIST UNITS
#
# DIRECTORY contains scene.sh, which runs when systemd is ready. Its output is written to DIRECTORY/scene.out. SIGTERM ends everything.
set -e
directory=$1 dist=$2 units=$3
if [ "$4" != inside ]; then
  groups=$directory/groups
  mkdir "$groups"
  mount -t cgroup -o none,name=systemd cgroup "$groups"
  mkdir "$groups/cni-test-$$"
  echo $$ >"$groups/cni-test-$$/cgroup.procs"
  unshare --mount --pid --kill-child --fork --net --ipc --uts --cgroup sh "$0" "$@" inside &
  inside=$!
  trap 'kill -KILL $inside' TERM
  wait $inside || true
  wait $inside || true # until it has ended
  echo $$ >"$groups/cgroup.procs"
  until find "$groups/cni-test-$$" -depth -type d -exec rmdir {} + 2>/dev/null; do sleep 0.1; done
  exit 0
fi
mount --make-rprivate /
mkdir -p "$directory/memory"
mount -t tmpfs cni-test "$directory/memory"
mkdir "$directory/memory/up" "$directory/memory/work" "$directory/memory/root"
root=$directory/memory/root
mount -t overlay cni-test -o "lowerdir=/,upperdir=$directory/memory/up,workdir=$directory/memory/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for place in dev run tmp sys/fs/cgroup; do mount -t tmpfs cni-test "$root/$place"; done
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/sys/fs/cgroup/systemd" "$root/tmp/scene" "$root/opt/dist"
mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount --bind "$directory" "$root/tmp/scene"
mount --bind "$dist" "$root/opt/dist"
touch "$root/dev/console" "$directory/console"
mount --bind "$directory/console" "$root/dev/console"
rm -rf "$root/var/lib/cni" "$root/etc/cni"
mkdir -p "$root/etc/cni/net.d" "$root/etc/systemd/system"
cp "$directory"/*.conflist "$root/etc/cni/net.d/"
for unit in "$units"/cni-*; do
  sed 's|/usr/local/bin/cni |/opt/dist/cni |; s|^\(ExecStart=.*/cni [gr][a-z]*\)\(.*\)|\1 --bin-dir /opt/dist/bin\2|; s|^OnBootSec=.*|OnActiveSec=1s|; s|^RandomizedDelaySec=.*|AccuracySec=1s|' \
    "$unit" >"$root/etc/systemd/system/${unit##*/}"
done
cat >"$root/etc/systemd/system/scene.service" <<'END'
[Service]
Type=oneshot
ExecStart=/bin/sh /tmp/scene/scene.sh
StandardOutput=file:/tmp/scene/scene.out
StandardError=file:/tmp/scene/scene.out
END
printf '[Unit]\nWants=scene.service\n' >"$root/etc/systemd/system/scene.target"
exec chroot "$root" /usr/bin/env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=scene.target --show-status=no
