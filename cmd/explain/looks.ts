/** Commands that show what an error of this suite is about, by words of its message. They change nothing. */
const looks: readonly (readonly [RegExp, readonly string[]])[] = [
  [/plugin "…" in path|Cannot start plugin/, ["ls -l /opt/cni/bin", "cni lint"]],
  [/CNI_NETNS|netns/, ["findmnt -t nsfs", "ip netns"]],
  [
    /Cannot use "KEY"|Cannot use "ipam|range set|no net configuration|ipam\.type|IPAM config|cniVersion|network config/,
    ["cni lint"],
  ],
  [/chained plugin|prevResult|gateways list|port mappings: prevResult/, ["cni lint"]],
  [/failed to allocate|reserve|release|no IP addresses/, ["cni ipam ls"]],
  [/host port|map ports/i, ["nft list table ip cni_hostports", "ss -tulpn"]],
  [/masquerade/, ["nft list table ip cni_masquerade", "cni status NETWORK"]],
  [/source MAC|guard port/, ["nft list table bridge cni_spoofcheck"]],
  [/VLAN/, ["bridge vlan", "ip -d link show type bridge"]],
  [/bridge/i, ["ip -d link show type bridge", "bridge link"]],
  [/master/, ["ip -d link"]],
  [/device|rename/, ["ip -d link", "ls -l /sys/bus/pci/devices"]],
  [/sysctl|allow list|backup/i, ["ls -l /run/cni/tuning", "cat /etc/cni/tuning/allowlist.conf"]],
  [/forwarding/, ["sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding", "findmnt /proc/sys"]],
  [/cache|cached/, ["ls -l /var/lib/cni/results", "df -h /var/lib/cni"]],
  [/Cannot lock|lost the lock/, ["cat /proc/locks", "ps -eo pid,etime,args"]],
  [/tun"|tap/, ["ls -l /dev/net/tun", "cni status NETWORK"]],
  [/Check of|CHECK/, ["cni diff NETWORK NETNS"]],
  [/attached already|it already exists|duplicate allocation/, ["cni ipam ls", "ls /var/lib/cni/results"]],
]

/** What to look at for a message, at most three commands. */
export function looksFor(message: string): string[] {
  const found = looks.filter(([words]) => words.test(message)).flatMap(([, commands]) => commands)
  return [...new Set(found)].slice(0, 3)
}
