/** Tests masquerading with either packet filter, and the Go plugins' rules, with `nft` and `iptables-save`. */
import { afterAll, beforeAll, expect } from "bun:test"
import type * as masquerade from "../../../pkg/masquerade/mod.ts"
import type * as nftables from "../../../pkg/nftables/mod.ts"
import type * as undo from "../../../pkg/undo/mod.ts"
import { type ContainerNamespace, chooseIptables, HostNamespace, type IptablesKind, testWith } from "../../lab/mod.ts"
import { type Kit, runOnHost } from "./rooms.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("masquerade")
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

type Room = Kit & typeof masquerade & typeof nftables & typeof undo

/**
 * Empties nf_tables, chooses `iptables`, and runs `body` on the host. Leaves the host unchanged if `iptables` is
 * undefined.
 */
async function onHost<T, Given extends object = object>(
  iptables: IptablesKind | undefined,
  body: (kit: Room & Given) => T,
  given?: Given,
): Promise<T> {
  if (iptables !== undefined) {
    await chooseIptables(host, iptables)
    await host.exec("nft", ["flush", "ruleset"])
  }
  const rooms = ["masquerade/mod.ts", "nftables/mod.ts", "undo/mod.ts"]
  return await runOnHost<T, Room & Given>(host, pod, body, {
    more: rooms,
    ...(given && { given }),
  })
}

const ruleset = async () => (await host.exec("nft", ["list", "ruleset"])).stdout

testWith(
  ["nf_tables"],
  "by nftables what is asked for is there, is checked, and is removed and collected by its owner",
  async () => {
    const seen = await onHost("none", ({ Masquerade, PacketFilter, NamespaceFile, Undo, parseCidr }) => {
      using filter = PacketFilter.find()
      const masquerade = new Masquerade(filter)
      const cidrs = (...texts: string[]) => texts.flatMap((text) => parseCidr(text) ?? [])
      const owner = (containerId: string) => ({ network: "lab", containerId, ifName: "eth0" })
      const attempt = (act: () => void) => {
        try {
          act()
          return "done"
        } catch (error) {
          return (error as Error).message
        }
      }
      const nowhere = NamespaceFile.open("")
      const tables = () => ["ip", "ip6"].map((family) => `${family}:${nftablesIn(family)}`).join(" ")
      const nftablesIn = (family: string) => {
        filter?.forgetTables()
        return family === "ip" && filter?.hasTable("cni_masquerade") === true
      }
      const seen: string[] = []
      masquerade.requireUsable()
      masquerade.requireUsable("nftables")
      masquerade.add({ owner: owner("c1"), addresses: [] }, undefined, new Undo(() => {}))
      seen.push(tables())
      masquerade.add(
        { owner: owner("c1"), addresses: cidrs("10.1.0.2/16", "fd00::2/64") },
        undefined,
        new Undo(() => {}),
      )
      masquerade.add({ owner: owner("c2"), addresses: cidrs("10.1.0.3/16") }, "nftables", new Undo(() => {}))
      masquerade.add({ owner: owner("c3"), addresses: cidrs("10.1.0.4/16") }, undefined, new Undo(() => {}))
      for (const backend of [undefined, "nftables", "iptables"] as const)
        seen.push(
          attempt(() =>
            masquerade.check({ owner: owner("c1"), addresses: cidrs("10.1.0.2/16", "fd00::2/64") }, backend),
          ),
        )
      seen.push(attempt(() => masquerade.check({ owner: owner("c1"), addresses: cidrs("10.1.0.9/16") })))
      seen.push(attempt(() => masquerade.check({ owner: owner("c1"), addresses: cidrs("10.1.0.2/24") })))
      masquerade.remove(owner("c1"), nowhere)
      seen.push(attempt(() => masquerade.check({ owner: owner("c1"), addresses: cidrs("10.1.0.2/16") }, "nftables")))
      masquerade.gc("lab", [owner("c3")])
      masquerade.gc("other", [])
      return seen
    })
    const missing = "Cannot find the masquerade of lab/c1/eth0: expected"
    expect(seen.slice(0, 4)).toEqual(["ip:false ip6:false", "done", "done", "done"])
    expect(seen[4]).toBe(
      `${missing} 10.1.0.9 comment "lab/c1/eth0" in set ip cni_masquerade containers; found ` +
        '10.1.0.2 comment "lab/c1/eth0" in set ip cni_masquerade containers, ' +
        '10.1.0.2 . 10.1.0.0 comment "lab/c1/eth0" in set ip cni_masquerade networks_16',
    )
    expect(seen[5]).toStartWith(
      `${missing} ip cni_masquerade postrouting ip saddr . ip daddr & 255.255.255.0 @networks_24`,
    )
    expect(seen[5]).toEndWith(
      'found rules with the comments "to its own network, /16", "from containers to everywhere else"',
    )
    expect(seen[6]).toBe(`${missing} 10.1.0.2 comment "lab/c1/eth0" in set ip cni_masquerade containers; found nothing`)
    const left = await ruleset()
    expect(left).toContain('elements = { 10.1.0.4 comment "lab/c3/eth0" }')
    expect(left).not.toMatch(/lab\/c[12]|table ip6/)
    const text = await ruleset()
    await host.exec("nft", ["add", "rule", "ip", "cni_masquerade", "postrouting", "accept"])
    const disturbed = await onHost(undefined, ({ Masquerade, PacketFilter, parseCidr }) => {
      using filter = PacketFilter.find()
      const masquerade = new Masquerade(filter)
      masquerade.requireUsable("nftables")
      const address = parseCidr("10.1.0.4/16")
      if (address)
        masquerade.check({ owner: { network: "lab", containerId: "c3", ifName: "eth0" }, addresses: [address] })
    })
    expect((disturbed as unknown as { message: string }).message).toEndWith(
      'found rules with the comments "to its own network, /16", "from containers to everywhere else", one without',
    )
    await onHost(undefined, ({ Masquerade, PacketFilter, Undo, parseCidr }) => {
      using filter = PacketFilter.find()
      const address = parseCidr("10.1.0.4/16")
      if (address) {
        const owner = { network: "lab", containerId: "c3", ifName: "eth0" }
        new Masquerade(filter).add({ owner, addresses: [address] }, undefined, new Undo(() => {}))
      }
      new Masquerade(filter).requireUsable("nftables")
    })
    expect(await ruleset()).toBe(text) // deletes the unknown rule; requireUsable changes nothing
  },
)

/** Returns the lines with "CNI-" in the output of `iptables-save -t nat`. */
const saved = async (program: string) =>
  (await host.exec(program, ["-t", "nat"])).stdout.split("\n").filter((line) => line.includes("CNI-"))

const kinds = [
  { kind: "nf_tables", save: "iptables-nft-save", save6: "ip6tables-nft-save" },
  { kind: "legacy", save: "iptables-legacy-save", save6: "ip6tables-legacy-save" },
] as const

for (const { kind, save, save6 } of kinds) {
  testWith(
    ["nf_tables", "iptables", "ip6tables"],
    `by iptables of ${kind} the rules are upstream's, and each attachment is removed by itself`,
    async () => {
      const first = await onHost(kind, ({ Masquerade, PacketFilter, Undo, parseCidr }) => {
        using filter = PacketFilter.find()
        const masquerade = new Masquerade(filter)
        const cidrs = (...texts: string[]) => texts.flatMap((text) => parseCidr(text) ?? [])
        const eth0 = { network: "mynet", containerId: "ctr-1", ifName: "eth0" }
        masquerade.requireUsable("iptables")
        masquerade.add(
          { owner: eth0, addresses: cidrs("10.1.0.2/16", "10.1.0.2/16", "fd00::2/64") },
          "iptables",
          new Undo(() => {}),
        )
        masquerade.add(
          { owner: { ...eth0, ifName: "net1" }, addresses: cidrs("10.2.0.2/16") },
          "iptables",
          new Undo(() => {}),
        )
        masquerade.add(
          { owner: { ...eth0, containerId: "ctr-2" }, addresses: cidrs("10.1.0.3/16") },
          "iptables",
          new Undo(() => {}),
        )
        for (const backend of [undefined, "nftables", "iptables"] as const)
          masquerade.check({ owner: eth0, addresses: cidrs("10.1.0.2/16", "fd00::2/64") }, backend)
        try {
          masquerade.check({ owner: eth0, addresses: cidrs("10.1.0.2/24") }, "iptables")
          return "nothing"
        } catch (error) {
          return (error as Error).message
        }
      })
      const chain = "CNI-76edbb2e17c69aeb6041d986"
      const said = String.raw`-m comment --comment "name: \"mynet\" id: \"ctr-1\""`
      expect(first).toBe(
        `Cannot find the masquerade of mynet/ctr-1/eth0 by iptables: expected rule "${chain} -d 10.1.0.0/24 ${said} -j ACCEPT"; ` +
          `found "${chain} -d 10.1.0.0/16 ${said} -j ACCEPT", "${chain} -d 10.2.0.0/16 ${said} -j ACCEPT", ` +
          `"${chain} ! -d 224.0.0.0/4 ${said} -j MASQUERADE"`,
      )
      const ofCtr1 = (await saved(save)).filter((line) => line.includes(chain))
      expect(ofCtr1).toEqual([
        expect.stringContaining(`:${chain} - [`),
        `-A POSTROUTING -s 10.1.0.2/32 ${said} -j ${chain}`,
        `-A POSTROUTING -s 10.2.0.2/32 ${said} -j ${chain}`,
        `-A ${chain} -d 10.1.0.0/16 ${said} -j ACCEPT`,
        `-A ${chain} -d 10.2.0.0/16 ${said} -j ACCEPT`,
        `-A ${chain} ! -d 224.0.0.0/4 ${said} -j MASQUERADE`,
        `-A ${chain} -s 10.1.0.2/32 -d 10.1.0.0/16 -m comment --comment "mynet/ctr-1/eth0"`,
        `-A ${chain} -s 10.2.0.2/32 -d 10.2.0.0/16 -m comment --comment "mynet/ctr-1/net1"`,
      ])
      expect((await saved(save6)).slice(1)).toEqual([
        `-A POSTROUTING -s fd00::2/128 ${said} -j ${chain}`,
        `-A ${chain} -d fd00::/64 ${said} -j ACCEPT`,
        `-A ${chain} ! -d ff00::/8 ${said} -j MASQUERADE`,
        `-A ${chain} -s fd00::2/128 -d fd00::/64 -m comment --comment "mynet/ctr-1/eth0"`,
      ])

      // Rules of the Go plugins do not contain the container's interface for an address.
      pod = await host.addContainer()
      for (const [ifName, ip] of [
        ["eth0", "10.4.0.2"],
        ["net1", "10.3.0.2"],
      ] as const) {
        await pod.exec("ip", ["link", "add", ifName, "type", "bridge"])
        await pod.exec("ip", ["address", "add", `${ip}/16`, "dev", ifName])
        const jump = [
          "-A",
          "POSTROUTING",
          "-s",
          ip,
          "-m",
          "comment",
          "--comment",
          'name: "mynet" id: "ctr-1"',
          "-j",
          chain,
        ]
        await host.exec(save.replace("-save", ""), ["-t", "nat", ...jump])
      }
      const sources = async () => {
        const lines = [...(await saved(save)), ...(await saved(save6))].filter((line) => line.includes(" -s "))
        return lines.map((line) => line.replace(/ (-d|-m) .*/, "").replace(/-A (\S+) -s (\S+)/, "$1 $2"))
      }
      const seen: string[][] = []
      for (const ifName of ["eth0", "net1", "gc"]) {
        const step = ({ Masquerade, PacketFilter, NamespaceFile, sandbox, ifName }: Room & { ifName: string }) => {
          using filter = PacketFilter.find()
          const masquerade = new Masquerade(filter)
          const owner = { network: "mynet", containerId: "ctr-1", ifName }
          if (ifName === "gc") masquerade.gc("mynet", [])
          else masquerade.remove(owner, NamespaceFile.open(sandbox.path))
        }
        await onHost(undefined, step, { ifName })
        seen.push(await sources())
      }
      const ofCtr2 = ["POSTROUTING 10.1.0.3/32", "CNI-4193df8be6d437f3e41db98b 10.1.0.3/32"]
      const ofNet1 = ["POSTROUTING 10.2.0.2/32", `${chain} 10.2.0.2/32`]
      expect(seen.map((lines) => lines.sort())).toEqual([
        [...ofCtr2, ...ofNet1, "POSTROUTING 10.3.0.2/32"].sort(), // an address of the container's interface net1
        [...ofCtr2].sort(),
        [],
      ])
    },
  )
}
