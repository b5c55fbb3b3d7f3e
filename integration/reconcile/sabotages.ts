import { podsNetwork } from "../cni/node-lab.ts"
import type { Published, ReconcileLab } from "./reconcile-lab.ts"

/** A deletion of objects on the host that containers need. */
export interface Sabotage {
  readonly what: string
  readonly network?: { name: string; plugins: readonly object[] }
  readonly act: (lab: ReconcileLab, pods: readonly Published[]) => Promise<unknown>
}

const nft =
  (...args: string[]) =>
  (lab: ReconcileLab) =>
    lab.host.exec("nft", args)
const ip =
  (...args: string[]) =>
  (lab: ReconcileLab) =>
    lab.host.exec("ip", args)

const inShell = (script: string) => (lab: ReconcileLab) => lab.host.exec("sh", ["-ec", script])
const deleteTables = (name: string) => `nft list tables | grep ${name} | sed "s/^/delete /" | nft -f -`

async function hostEndOf(lab: ReconcileLab, { pod }: Published): Promise<string> {
  const links = await lab.host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  const found =
    links.find(({ ifalias = "" }) => ifalias.includes(pod.name)) ??
    links.find(({ ifname }) => ifname.startsWith("veth"))
  if (!found) throw new Error(`no host end of ${pod.name}`)
  return found.ifname
}

const ofFirstEnd =
  (act: (end: string) => readonly string[]) => async (lab: ReconcileLab, pods: readonly Published[]) => {
    const [file = "", ...args] = act(await hostEndOf(lab, pods[0] as Published))
    await lab.host.exec(file, args)
  }

const [bridge = {}, portmap = {}] = podsNetwork.plugins
const byIptables = {
  ...podsNetwork,
  plugins: [
    { ...bridge, ipMasqBackend: "iptables" },
    { ...portmap, backend: "iptables" },
  ],
}

const guarded = {
  ...podsNetwork,
  plugins: [{ ...bridge, macspoofchk: true }, portmap, { type: "firewall", ingressPolicy: "same-bridge" }],
}
const pairs = {
  ...podsNetwork,
  plugins: [
    {
      type: "ptp",
      ipMasq: true,
      ipam: { type: "host-local", subnet: "10.85.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
    },
    portmap,
  ],
}

/** The losses that the listener notices and restores. */
export const sabotages: readonly Sabotage[] = [
  { what: "nft flush ruleset", act: nft("flush", "ruleset") },
  { what: "the table of masquerade deleted", act: nft("delete", "table", "ip", "cni_masquerade") },
  { what: "the table of published ports deleted", act: nft("delete", "table", "ip", "cni_hostports") },
  { what: "the rules of a table flushed", act: nft("flush", "table", "ip", "cni_hostports") },
  { what: "the rules of a chain flushed", act: nft("flush", "chain", "ip", "cni_masquerade", "postrouting") },
  { what: "a map of ports flushed", act: nft("flush", "map", "ip", "cni_hostports", "ports") },
  { what: "the set of containers flushed", act: nft("flush", "set", "ip", "cni_masquerade", "containers") },
  { what: "the bridge deleted", act: ip("link", "delete", "cni0") },
  { what: "the bridge set down", act: ip("link", "set", "cni0", "down") },
  { what: "the gateway's address deleted", act: ip("address", "delete", "10.85.0.1/24", "dev", "cni0") },
  { what: "all addresses of the bridge flushed", act: ip("address", "flush", "dev", "cni0") },
  { what: "a port taken out of the bridge", act: ofFirstEnd((end) => ["ip", "link", "set", end, "nomaster"]) },
  { what: "a port set down", act: ofFirstEnd((end) => ["ip", "link", "set", end, "down"]) },
  {
    what: "forwarding switched off",
    act: (lab) => lab.host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=0"]),
  },
  { what: "a table made dormant", act: nft("add table ip cni_hostports { flags dormant; }") },
  {
    what: "a chain deleted with its rules",
    act: nft("flush table ip cni_masquerade; delete chain ip cni_masquerade postrouting"),
  },
  { what: "the bridge's link and all tables at once", act: inShell("ip link delete cni0; nft flush ruleset") },
  { what: "the tables of firewall deleted", network: guarded, act: inShell(deleteTables("cni_firewall")) },
  { what: "the table that checks MACs deleted", network: guarded, act: inShell(deleteTables("cni_spoofcheck")) },
  { what: "a route to a container of ptp deleted", network: pairs, act: ip("route", "delete", "10.85.0.2") },
  {
    what: "the gateway's address of ptp deleted",
    network: pairs,
    act: ofFirstEnd((end) => ["ip", "address", "delete", "10.85.0.1/32", "dev", end]),
  },
  {
    what: "a host's end of ptp set down",
    network: pairs,
    act: ofFirstEnd((end) => ["ip", "link", "set", end, "down"]),
  },
  {
    what: "iptables' nat table flushed",
    network: byIptables,
    act: (lab) => lab.host.exec("iptables", ["-t", "nat", "-F"]),
  },
  {
    what: "iptables-restore of an empty rule set",
    network: byIptables,
    act: (lab) => lab.host.exec("iptables-restore", [], { input: "*nat\nCOMMIT\n*filter\nCOMMIT\n" }),
  },
]
