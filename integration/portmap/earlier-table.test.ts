import { expect, test } from "bun:test"
import { askEcho, EchoPeer, ruleBackends, succeed } from "../lab/mod.ts"
import { hostAddresses, type MappedPod, PortmapLab } from "./portmap-lab.ts"

const mapping = (hostPort: number) => ({ hostPort, containerPort: 80, protocol: "tcp" }) as const

/** Returns the chains of builds up to 0.1.0: they have kube-proxy's priority and masquerade all translated packets. */
function earlierChains(family: "ip" | "ip6"): string {
  const table = `${family} cni_hostports`
  const chains = ["prerouting", "output"].map(
    (hook) => `flush chain ${table} ${hook}
delete chain ${table} ${hook}
add chain ${table} ${hook} { type nat hook ${hook} priority -100; }`,
  )
  const own = family === "ip" ? "ip saddr & 255.255.0.0" : "ip6 saddr & ffff:ffff:ffff:ffff::"
  return `${chains.join("\n")}
add rule ${table} prerouting fib daddr type local jump hostports comment "from elsewhere"
add rule ${table} output fib daddr type local jump hostports comment "from the host itself"
flush chain ${table} hostports
${family === "ip6" ? `add rule ${table} hostports ip6 daddr ::1 return comment "answers would get lost"` : ""}
add rule ${table} hostports jump conditions comment "may end here"
add rule ${table} hostports dnat to ${family} daddr . meta l4proto . th dport map @address_ports comment "one address first"
add rule ${table} hostports dnat to meta l4proto . th dport map @ports comment "then all"
flush chain ${table} postrouting
add rule ${table} postrouting ct status dnat ${family} daddr @everybody masquerade comment "from everywhere"
${family === "ip" ? `add rule ${table} postrouting ct status dnat ip saddr 127.0.0.0/8 ip daddr @localhost masquerade comment "from the host as 127.0.0.1"` : ""}
add rule ${table} postrouting ct status dnat ${own} . ${family} daddr @hairpin masquerade comment "from beside the container, /${family === "ip" ? 16 : 64}"
`
}

/** Returns sets, elements, chains and rules of both tables. Chains are sorted, because a restored chain comes last. */
async function tables(lab: PortmapLab): Promise<string> {
  const listed = await Promise.all(
    ["ip", "ip6"].map((family) => lab.host.exec("nft", ["list", "table", family, "cni_hostports"])),
  )
  return listed
    .flatMap(({ stdout }) =>
      stdout
        .replace(/}\n$/, "")
        .split(/^\t(?=chain )/m)
        .map((part) => part.trim())
        .sort(),
    )
    .join("\n")
}

async function create(): Promise<{ lab: PortmapLab; kept: MappedPod; other: MappedPod }> {
  const lab = await PortmapLab.create(ruleBackends[0])
  return { lab, kept: await lab.addPod(), other: await lab.addPod() }
}

const verbs = ["ADD", "DEL", "GC"] as const

test.each(verbs)("a table of an earlier build is replaced by %s, and each mapping stays [S152]", async (verb) => {
  const { lab, kept, other } = await create()
  await using _lab = lab
  await using _peer = await EchoPeer.start(kept.namespace, { port: 80 })
  await succeed(kept.map([mapping(8080)]))
  if (verb === "ADD") await succeed(other.map([mapping(8081)]))
  const expected = await tables(lab)
  expect(expected).toContain("hook prerouting priority dstnat + 5;")
  if (verb === "ADD") await succeed(other.unmap())
  if (verb === "DEL") await succeed(other.map([mapping(8081)]))
  await lab.host.exec("nft", ["-f", "-"], { input: earlierChains("ip") + earlierChains("ip6") })
  expect(await kept.check()).toMatchObject({ exitCode: 0 })
  const valid = [{ containerID: kept.namespace.name, ifname: "eth0" }]
  if (verb === "ADD") await succeed(other.map([mapping(8081)]))
  else if (verb === "DEL") await succeed(other.unmap())
  else await succeed(kept.portmap.run("GC", { "cni.dev/valid-attachments": valid, prevResult: undefined }))
  expect(await tables(lab)).toBe(expected)
  expect(await kept.check()).toMatchObject({ exitCode: 0 })
  await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port: 8080 })
})

test("a table whose guards look at the interface first, as an earlier build made them, is complete", async () => {
  const { lab, kept, other } = await create()
  await using _lab = lab
  await succeed(kept.map([mapping(8080)]))
  const list = async () => (await lab.host.exec("nft", ["list", "chain", "ip", "cni_hostports", "raw"])).stdout
  const chain = await list()
  const former = chain.replace(/(ip [sd]addr 127\.0\.0\.0\/8) (iifname != "lo")/g, "$2 $1")
  expect(former).not.toBe(chain)
  await lab.host.exec("nft", ["-f", "-"], { input: `flush chain ip cni_hostports raw\n${former}` })
  expect(await kept.check()).toMatchObject({ exitCode: 0 })
  await succeed(other.map([mapping(8081)]))
  expect(await list()).toBe(former)
})
