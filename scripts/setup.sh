#!/usr/bin/env bash
# Prepares a new checkout: installs npm packages, the programs that a build needs, and on request groups of Debian packages.
#   tools     programs with which the demo and the tests check results (ip, nft, ping, strace, sysctl, conntrack, busybox, groff, man, mkfs, openssl), kernel headers
#   firewall  firewalld and the D-Bus daemon
#   arm64     the cross compiler, and QEMU for its programs; the build itself fetches the C library (scripts/musl.ts)
#   dhcp      the DHCP servers for the tests, and tcpdump, which decodes packets
#   peers     the Go reference plugins, for the interop tests and the benchmark
#   browser   Chromium, which renders the pictures of cni graph
#   kubernetes  etcd for kube-apiserver
#   conformance  the programs that Kubernetes' own tests run in pods
#   runtimes  podman and containerd, for the interop tests
#   go        Go's compiler and Go's libcni, for the tests of the npm package
#   vm        QEMU, user-mode Linux, and the programs that create their disks
#   release   the programs that create and read packages, and those that create roots and a registry for installing them
set -euo pipefail
cd "$(dirname "$0")/.."

# Reports whether the npm packages are installed, as in the lock file, or by a packager with another Bun.
has_packages() {
  if [ -n "${CNI_BUN:-}" ] && [ ! -e node_modules/.package-lock.json ]; then [ -d node_modules ] && return; fi
  [ -x node_modules/.bin/bun ] && [ ! package-lock.json -nt node_modules/.package-lock.json ]
}
if [ -n "${CNI_VENDOR:-}" ]; then
  if ! differs=$({ cd "$CNI_VENDOR" && sha256sum --check --quiet --strict SHA256SUMS; } 2>&1); then
    echo "Cannot build from \"$CNI_VENDOR\": it is not as \"npm run vendor\" made it: ${differs%%$'\n'*}" >&2
    exit 1
  fi
  has_packages || node scripts/vendored.js "$CNI_VENDOR"
elif ! has_packages; then
  # Not "npm ci", which fails if the registry lacks packages for other platforms.
  npm install --no-save --no-audit --no-fund --loglevel=error
fi

missing=()
# The programs that the build needs, from any package. With a packager's own compiler or sources it needs fewer.
programs=(as:binutils patch:patch)
[ -n "${CNI_CC_AMD64:-}" ] || programs+=(gcc:gcc musl-gcc:musl-tools)
[ -n "${CNI_VENDOR:-}${CNI_ENGINE_SOURCE:-}" ] || programs+=(python3:python3)
need_programs() {
  for program in "$@"; do command -v "${program%:*}" >/dev/null || missing+=("${program#*:}"); done
}
need_programs "${programs[@]}"
if [ -z "${CNI_VENDOR:-}${CNI_ENGINE_SOURCE:-}" ]; then
  python3 -c 'import importlib.util as u; raise SystemExit(not u.find_spec("pip"))' 2>/dev/null || missing+=(python3-pip)
fi

need() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed' || missing+=("$1"); }
for group in "$@"; do
  case "$group" in
    tools) for package in iproute2 nftables openssl iputils-ping strace procps conntrack busybox-static libc6-dev groff-base man-db e2fsprogs xfsprogs; do need "$package"; done ;;
    firewall) for package in firewalld dbus-daemon dbus-bin; do need "$package"; done ;;
    arm64)
      [ -n "${CNI_CC_ARM64:-}" ] || need_programs aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu
      need_programs qemu-aarch64:qemu-user ;;
    dhcp) for package in dnsmasq-base isc-dhcp-server kea-dhcp4-server kea-dhcp6-server tcpdump; do need "$package"; done ;;
    peers) for package in containernetworking-plugins iptables; do need "$package"; done ;;
    browser) for package in chromium fonts-dejavu-core; do need "$package"; done ;;
    kubernetes) for package in etcd-server; do need "$package"; done ;;
    conformance) for package in bind9-dnsutils bind9-host curl netcat-openbsd; do need "$package"; done ;;
    runtimes) for package in podman conmon crun containerd runc busybox-static; do need "$package"; done ;;
    go) for package in golang-go golang-github-appc-cni-dev; do need "$package"; done ;;
    vm) for package in qemu-system-x86 busybox-static cpio kmod user-mode-linux secilc e2fsprogs xfsprogs; do need "$package"; done ;;
    release) for package in rpm squashfs-tools openssh-client lintian skopeo debootstrap docker-registry; do need "$package"; done ;;
    *) echo "setup.sh: unknown group \"$group\"" >&2; exit 2 ;;
  esac
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "These Debian packages are missing: ${missing[*]}. Install them, or run this as root." >&2
    exit 1
  fi
  # Debian starts services when it installs them. Masking keeps firewalld, DHCP servers, etcd and the registry from starting.
  for package in firewalld kea-dhcp4-server kea-dhcp6-server etcd-server docker-registry; do
    service="${package/etcd-server/etcd}"
    case " ${missing[*]} " in
      *" $package "*) mkdir -p /etc/systemd/system && ln -sn /dev/null "/etc/systemd/system/$service.service" 2>/dev/null || true ;;
    esac
  done
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
