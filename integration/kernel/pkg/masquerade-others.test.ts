/** Tests the masquerading rules of the Go plugins in nf_tables, and hosts that cannot masquerade, on a real kernel. */
import { afterAll, beforeAll, expect } from "bun:test"
import { createHash } from "node:crypto"
import type * as masquerade from "../../../pkg/masquerade/mod.ts"
import type * as upstream from "../../../pkg/masquerade/testing.ts"
import type * as nftables from "../../../pkg/nftables/mod.ts"
import type * as undo from "../../../pkg/undo/mod.ts"
import { type ContainerNamespace, chooseIptables, HostNamespace, testWith } from "../../lab/mod.ts"
import { type Kit, runOnHost } from "./rooms.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("masquerade")
  pod = await host.addContainer()
  await chooseIptables(host, "none")
})
afterAll(() => host[Symbol.asyncDispose]())

type Room = typeof masquerade & typeof upstream & typeof nftables & typeof undo
const onHost = <T>(body: (kit: Kit & Room) => T) =>
  runOnHost<T, Room>(host, pod, body, {
    more: ["masquerade/mod.ts", "masquerade/testing.ts", "nftables/mod.ts", "undo/mod.ts"],
  })

const digits = (text: string) => createHash("sha512").update(text).digest("hex").slice(0, 16)

/** Returns the rule of the Go plugins 1.6, backend nftables, for an address. */
function rule(network: string, containerId: string, address: string): string {
  const comment = `${digits(network)}-${digits(`eth0:${containerId}`)}, net: ${network}, if: eth0, id: ${containerId}`
  return `ip saddr ${address.replace(/\/.*/, "")} ip daddr != ${address} masquerade comment "${comment}"`
}

/** Returns the table of the Go plugins with `rules`, and with a rule `way` that jumps to them. */
const table = (rules: string[], way = "goto masq_checks") => `table inet cni_plugins_masquerade {
  chain masq_checks { ${rules.join("; ")}; }
  chain postrouting { type nat hook postrouting priority 100; ip daddr 224.0.0.0/4 return; ${way}; }
}`

const ours = [rule("lab", "c1", "10.1.0.2/24"), rule("lab", "c1", "10.2.0.2/24")]
const missing = "Cannot find the other suite's masquerade of lab/c1/eth0: expected"

testWith(
  ["nf_tables"],
  "the Go suite's rules are found when there is one for each address, and packets are sent to it",
  async () => {
    const cases: [string[], string | undefined, string][] = [
      [ours, undefined, "done"],
      [
        ours.slice(0, 1),
        undefined,
        `${missing} a rule for 10.2.0.2 in chain inet cni_plugins_masquerade masq_checks; found none`,
      ],
      [
        [rule("lab", "c2", "10.1.0.2/24"), ...ours.slice(1)],
        undefined,
        `${missing} a rule for 10.1.0.2 in chain inet cni_plugins_masquerade masq_checks; found none`,
      ],
      [
        ours.map((text) => text.replace("masquerade", "accept")),
        undefined,
        `${missing} a rule for 10.1.0.2 in chain inet cni_plugins_masquerade masq_checks; found none`,
      ],
      [
        ours.map((text) => text.replace(/ip saddr \S+ /, "")),
        undefined,
        `${missing} a rule for 10.1.0.2 in chain inet cni_plugins_masquerade masq_checks; found none`,
      ],
      [ours, "return", `${missing} a rule that jumps to chain inet cni_plugins_masquerade masq_checks; found none`],
    ]
    for (const [rules, way, says] of cases) {
      await host.exec("nft", ["-f", "-"], { input: `flush ruleset; ${table(rules, way)}` })
      const said = await onHost(({ PacketFilter, checkUpstreamMasquerade, Masquerade, parseCidr }) => {
        using filter = PacketFilter.find()
        if (!filter) return ["no nf_tables"]
        const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
        const addresses = ["10.1.0.2/24", "10.2.0.2/24"].flatMap((text) => parseCidr(text) ?? [])
        return [
          () => checkUpstreamMasquerade(filter.socket, owner, addresses),
          () => new Masquerade(filter).check({ owner, addresses }),
        ].map((act) => {
          try {
            act()
            return "done"
          } catch (error) {
            return (error as Error).message
          }
        })
      })
      expect(said[0]).toBe(says)
      expect(said[1] === "done").toBe(says === "done") // CHECK recognizes each kind of jump
    }
  },
)

testWith(
  ["nf_tables"],
  "DEL and GC take the Go suite's rules of an attachment, and leave its table as its own DEL does",
  async () => {
    const rules = [
      ...ours,
      rule("lab", "c2", "10.1.0.3/24"),
      rule("other", "c1", "10.1.0.2/24"),
      rule("lab", "c3", "10.1.0.4/24"),
      "accept",
    ]
    await host.exec("nft", ["-f", "-"], { input: `flush ruleset; ${table(rules)}` })
    const left = async () => {
      const { stdout } = await host.exec("nft", ["list", "chain", "inet", "cni_plugins_masquerade", "masq_checks"])
      return [...stdout.matchAll(/net: (\w+), if: eth0, id: (\w+)|\t(accept)/g)].map(
        ([, net, id, accept]) => accept ?? `${net} ${id}`,
      )
    }
    await onHost(({ PacketFilter, Masquerade, NamespaceFile }) => {
      using filter = PacketFilter.find()
      new Masquerade(filter).remove({ network: "lab", containerId: "c1", ifName: "eth0" }, NamespaceFile.open(""))
    })
    expect(await left()).toEqual(["lab c2", "other c1", "lab c3", "accept"])
    await onHost(({ PacketFilter, Masquerade }) => {
      using filter = PacketFilter.find()
      new Masquerade(filter).gc("lab", [{ network: "lab", containerId: "c3", ifName: "eth0" }])
    })
    expect(await left()).toEqual(["other c1", "lab c3", "accept"])
  },
)
