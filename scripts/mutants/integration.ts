import { join } from "node:path"

const project = join(import.meta.dir, "../..")

/**
 * The integration tests that a mistake in a room is likely to be noticed by: a few and quick ones, where a plugin's
 * folder has more.
 */
const byRoom: Readonly<Record<string, readonly string[]>> = {
  "ipam/dhcp": ["dhcp/lease", "dhcp/lease6", "dhcp/daemon"],
  "ipam/host-local": ["host-local/interop", "host-local/without-links", "host-local/hidden-store"],
  "meta/bandwidth": ["bandwidth/add", "bandwidth/verbs", "bandwidth/check", "bandwidth/undo"],
  "meta/firewall": ["firewall/nftables", "firewall/iptables", "firewall/policies", "firewall/firewalld"],
  "meta/flannel": ["flannel/add", "flannel/delegate"],
  "meta/portmap": ["portmap/nftables", "portmap/iptables", "portmap/add", "portmap/del", "portmap/conditions"],
  "meta/sbr": ["sbr/sbr", "sbr/addresses"],
  "meta/tuning": ["tuning/add", "tuning/del", "tuning/check", "tuning/gc", "tuning/undo"],
  "meta/vrf": ["vrf/vrf", "vrf/refused"],
  "pkg/attachment": ["ptp/add", "macvlan/add", "every-plugin/interface-del", "every-plugin/check", "every-plugin/gc"],
  "pkg/dbus": ["firewall/firewalld"],
  "pkg/devices": ["host-device/add", "host-device/verbs"],
  "pkg/flight": ["cni/recorder"],
  "pkg/ip": ["ptp/add", "bridge/add", "every-plugin/check", "every-plugin/router-advertisements"],
  "pkg/iptables": ["portmap/iptables", "bridge/masquerade", "firewall/iptables"],
  "pkg/masquerade": ["bridge/masquerade", "every-plugin/masquerade"],
  "pkg/netlink": ["bridge/add", "bridge/vlan", "bandwidth/add", "sbr/sbr"],
  "pkg/netns": ["every-plugin/protocol", "ptp/add"],
  "pkg/nftables": ["portmap/nftables", "bridge/masquerade", "firewall/nftables"],
  "pkg/records": ["tuning/add", "tuning/del", "tuning/gc"],
  "pkg/skel": ["cni/recorder", "every-plugin/bad-input"],
  "plugins/bridge": [
    "bridge/add",
    "bridge/settings",
    "bridge/port",
    "bridge/spoof",
    "bridge/chained",
    "bridge/undo",
    "bridge/check",
    "bridge/vlan",
  ],
  "plugins/host-device": ["host-device/add", "host-device/verbs"],
  "plugins/ptp": ["ptp/add", "ptp/addresses", "ptp/check", "ptp/undo"],
  "plugins/tap": ["tap/verbs", "tap/use"],
}

/**
 * The integration tests for what the unit tests of a room let pass, as paths from the root: for a plugin without a row
 * its folder's.
 */
export function integrationOf(room: string): string[] {
  const [kind = "", name = ""] = room.split("/")
  const listed = byRoom[`${kind}/${name}`]
  if (listed) return listed.map((test) => `integration/${test}.test.ts`)
  return kind === "pkg" ? [] : [...new Bun.Glob(`integration/${name}/*.test.ts`).scanSync(project)].sort()
}
