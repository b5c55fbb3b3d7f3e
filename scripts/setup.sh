#!/usr/bin/env bash
# Makes a fresh checkout ready: the npm packages, and on request Debian packages.
#   tools     programs that the demo and the tests judge with (ip, nft, ping, strace)
#   peers     the Go reference plugins that the interop tests and the benchmark compare with
#   runtimes  podman and containerd, which the interop tests drive
#   vm        QEMU, user-mode Linux and what their machines are made with
#   vagrant   what checks the Vagrantfile
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -x node_modules/.bin/bun ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  # Not "npm ci": it fails where the registry has no packages for other platforms.
  npm install --no-save --no-audit --no-fund --loglevel=error
fi

missing=()
need() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed' || missing+=("$1"); }
for group in "$@"; do
  case "$group" in
    tools) for package in iproute2 nftables iputils-ping strace; do need "$package"; done ;;
    peers) for package in containernetworking-plugins iptables; do need "$package"; done ;;
    runtimes) for package in podman conmon crun containerd runc busybox-static; do need "$package"; done ;;
    vm) for package in qemu-system-x86 busybox-static cpio kmod user-mode-linux; do need "$package"; done ;;
    vagrant) need vagrant ;;
    *) echo "setup.sh: unknown group \"$group\"" >&2; exit 2 ;;
  esac
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "These Debian packages are missing: ${missing[*]}. Install them, or run this as root." >&2
    exit 1
  fi
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
