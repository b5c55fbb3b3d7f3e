#!/usr/bin/env bash
# Makes a fresh checkout ready: the npm packages, what compiles the executable, and on request more Debian packages.
#   tools     programs that the demo and the tests judge with (ip, nft, ping, strace, sysctl, conntrack, busybox, groff, man, mkfs, openssl), kernel headers
#   firewall  firewalld, and the bus that it is asked over
#   arm64     the cross compiler, and QEMU, which runs its programs; the build itself fetches the C library (scripts/musl.ts)
#   dhcp      the DHCP servers that leases come from in the tests, and tcpdump, which decodes what is sent
#   peers     the Go reference plugins that the interop tests and the benchmark compare with
#   browser   Chromium, which looks at the pictures that cni draws
#   kubernetes  etcd behind kube-apiserver, and what makes its certificates
#   conformance  programs of the image that Kubernetes' own tests run in pods
#   runtimes  podman and containerd, which the interop tests drive
#   go        Go's compiler and its libcni, which the npm package is tested beside
#   vm        QEMU, user-mode Linux and what their machines are made with
#   release   what makes packages, the programs that read them back, and what makes roots and a registry to install them from
set -euo pipefail
cd "$(dirname "$0")/.."

# Whether the npm packages are there: as the lock file has them, or as a packager has put them there, with a Bun of his own.
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
  # Not "npm ci": it fails where the registry has no packages for other platforms.
  npm install --no-save --no-audit --no-fund --loglevel=error
fi

missing=()
# The build needs these programs, from any package. A packager's own compiler, and sources that are there, need fewer.
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
  # Debian starts what it installs: the machine shall get no firewall of it, no DHCP server, no etcd and no registry.
  for package in firewalld kea-dhcp4-server kea-dhcp6-server etcd-server docker-registry; do
    service="${package/etcd-server/etcd}"
    case " ${missing[*]} " in
      *" $package "*) mkdir -p /etc/systemd/system && ln -sn /dev/null "/etc/systemd/system/$service.service" 2>/dev/null || true ;;
    esac
  done
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
