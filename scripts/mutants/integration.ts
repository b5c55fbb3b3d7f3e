/** The integration tests that a mistake in a room is likely to be noticed by, a few and quick ones. */
const byRoom: Readonly<Record<string, readonly string[]>> = {
  "ipam/dhcp": ["dhcp/lease", "dhcp/lease6", "dhcp/daemon"],
  "ipam/host-local": ["host-local/interop", "host-local/without-links", "host-local/hidden-store"],
  "ipam/static": ["static/static"],
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
  "plugins/dummy": ["dummy/dummy"],
  "plugins/host-device": ["host-device/add", "host-device/verbs"],
  "plugins/ipvlan": ["ipvlan/ipvlan"],
  "plugins/loopback": ["loopback/loopback"],
  "plugins/macvlan": ["macvlan/add", "macvlan/chained", "macvlan/modes", "macvlan/verbs"],
  "plugins/ptp": ["ptp/add", "ptp/addresses", "ptp/check", "ptp/undo"],
  "plugins/tap": ["tap/verbs", "tap/use"],
  "plugins/vlan": ["vlan/vlan"],
}

/** The integration tests for what the unit tests of a room let pass, as paths from the root. */
export function integrationOf(room: string): string[] {
  const kind = room.split("/").slice(0, 2).join("/")
  return (byRoom[kind] ?? []).map((name) => `integration/${name}.test.ts`)
}
