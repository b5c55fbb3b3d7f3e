import { join } from "node:path"

/** The integration tests that a mistake in a room of `pkg` is likely to be noticed by: a few quick ones of the built plugins. */
const byRoom: Readonly<Record<string, readonly string[]>> = {
  attachment: ["ptp/add", "macvlan/add", "every-plugin/interface-del", "every-plugin/check", "every-plugin/gc"],
  devices: ["host-device/add", "host-device/verbs"],
  ip: ["ptp/add", "bridge/add", "every-plugin/check", "every-plugin/router-advertisements"],
  iptables: ["portmap/iptables", "bridge/masquerade", "firewall/iptables"],
  masquerade: ["bridge/masquerade", "every-plugin/masquerade"],
  netlink: ["bridge/add", "bridge/vlan", "bandwidth/add", "sbr/sbr"],
  netns: ["every-plugin/protocol", "ptp/add"],
  nftables: ["portmap/nftables", "bridge/masquerade", "firewall/nftables"],
  skel: ["cni/recorder", "every-plugin/bad-input"],
}

/** The integration tests for what the unit tests of a room let pass, as paths from the root: a plugin's are in its own folder. */
export function integrationOf(room: string): string[] {
  const [kind, name = ""] = room.split("/")
  if (kind === "pkg") return (byRoom[name] ?? []).map((test) => `integration/${test}.test.ts`)
  return [...new Bun.Glob(`integration/${name}/*.test.ts`).scanSync(join(import.meta.dir, "../.."))].sort()
}
