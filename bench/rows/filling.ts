import type { HostNamespace } from "../../integration/lab/mod.ts"
import type { Suite } from "../suites.ts"

/** Adds a suite's rules for many simulated containers. An ADD must have created the tables and chains before this. */
export type Filling = (host: HostNamespace, suite: Suite) => Promise<void>

const indexes = (count: number) => Array.from({ length: count }, (_, index) => index)
const addressOf = (index: number) => `10.88.${100 + (index >> 8)}.${index & 0xff}`
const ownerOf = (index: number) => `comment "bench/other-${index}/eth0"`

/** Returns a function that adds the rules of many containers, by `nft` or by `iptables-restore`. */
function filling(nftables: (index: number) => string, iptables: { table: string; rules: (index: number) => string }) {
  return (count: number): Filling =>
    async (host, suite) => {
      if (count === 0) return
      if (suite.name === "ours") await host.exec("nft", ["-f", "-"], { input: indexes(count).map(nftables).join("") })
      else {
        const input = `*${iptables.table}\n${indexes(count).map(iptables.rules).join("")}COMMIT\n`
        await host.exec("iptables-restore", ["--noflush"], { input })
      }
    }
}

/** Adds the rules of containers with one published port each. */
export const fillPortmap = filling(
  (index) => {
    const [ip, owner] = [addressOf(index), ownerOf(index)]
    return `add element ip cni_hostports ports { tcp . ${20_000 + index} ${owner} : ${ip} . 80 }
add element ip cni_hostports hairpin { 10.88.0.0 . ${ip} ${owner} }
add element ip cni_hostports localhost { ${ip} ${owner} }\n`
  },
  {
    table: "nat",
    rules: (index) => {
      const [chain, port] = [`CNI-DN-${index.toString(16).padStart(21, "0")}`, 20_000 + index]
      const comment = `--comment "dnat name: \\"bench\\" id: \\"other-${index}\\""`
      return `:${chain} - [0:0]
-A ${chain} -s 10.88.0.0/16 -p tcp -m tcp --dport ${port} -j CNI-HOSTPORT-SETMARK
-A ${chain} -s 127.0.0.1/32 -p tcp -m tcp --dport ${port} -j CNI-HOSTPORT-SETMARK
-A ${chain} -p tcp -m tcp --dport ${port} -j DNAT --to-destination ${addressOf(index)}:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment ${comment} -m multiport --dports ${port} -j ${chain}\n`
    },
  },
)

export const fillMasquerade = filling(
  (index) => `add element ip cni_masquerade containers { ${addressOf(index)} ${ownerOf(index)} }
add element ip cni_masquerade networks_16 { ${addressOf(index)} . 10.88.0.0 ${ownerOf(index)} }\n`,
  {
    table: "nat",
    rules: (index) => {
      const chain = `CNI-${index.toString(16).padStart(24, "0")}`
      const comment = `-m comment --comment "name: \\"bench\\" id: \\"other-${index}\\""`
      return `:${chain} - [0:0]
-A ${chain} -d 10.88.0.0/16 ${comment} -j ACCEPT
-A ${chain} ! -d 224.0.0.0/4 ${comment} -j MASQUERADE
-A POSTROUTING -s ${addressOf(index)}/32 ${comment} -j ${chain}\n`
    },
  },
)

const allowed = (index: number) =>
  `add element inet cni_firewall containers { ${addressOf(index)} ${ownerOf(index)} }\n`
const iptablesAllowed = {
  table: "filter",
  rules: (
    index: number,
  ) => `-A CNI-FORWARD -d ${addressOf(index)}/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s ${addressOf(index)}/32 -j ACCEPT\n`,
}

export const fillFirewall = filling(allowed, iptablesAllowed)

/** Adds the rules of containers with the policy "same-bridge". A real container with this policy must exist. */
export const fillSameBridge = filling(
  (index) =>
    `${allowed(index)}add element inet cni_firewall same_bridge { "bench0" . "veth${index}" ${ownerOf(index)} }\n`,
  iptablesAllowed,
)
