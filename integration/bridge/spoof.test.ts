import { describe, expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  type ContainerNamespace,
  changeMac,
  expectUnchanged,
  fail,
  HostNamespace,
  IpMonitor,
  isAllocationTrace,
  linkOf,
  type PluginResult,
  ping,
  pingOnce,
  portOf,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"

const guarded = bridgeNetwork({ macspoofchk: true })

async function hostAndPods() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer(), other: await host.addContainer() }
}

interface Ruleset {
  nftables: {
    table?: { family: string; name: string }
    chain?: { name: string; type: string; hook: string; prio: number; policy: string }
    set?: { name: string; elem?: { elem: { val: unknown; comment: string } }[] }
    rule?: { chain: string; expr: object[] }
  }[]
}

/** Returns the objects in the table of the spoof check, as `nft` prints them, or an empty list without a table. */
async function spoofTable(host: HostNamespace): Promise<Ruleset["nftables"]> {
  const { exitCode, stdout } = await host.tryExec("nft", ["-j", "list", "table", "bridge", "cni_spoofcheck"])
  return exitCode === 0 ? (JSON.parse(stdout) as Ruleset).nftables.slice(1) : []
}

/** Returns the elements of a set with their comments. */
async function elementsOf(host: HostNamespace, name: string): Promise<{ val: unknown; comment: string }[]> {
  const set = (await spoofTable(host)).find((object) => object.set?.name === name)?.set
  return (set?.elem ?? []).map(({ elem }) => elem)
}

describe("ADD with macspoofchk", () => {
  test("guards the port in a table of its own, in the bridge family, before everything else", async () => {
    const { host, pod } = await hostAndPods()
    await using _ = host
    const result = await new Attachment(host, pod, guarded).add()
    const objects = await spoofTable(host)
    expect(objects.flatMap(({ chain }) => chain ?? [])).toMatchObject([
      { name: "prerouting", type: "filter", hook: "prerouting", prio: -300, policy: "accept" },
    ])
    expect(objects.filter(({ rule }) => rule)).toHaveLength(1)
    const { stdout } = await host.exec("nft", ["list", "chain", "bridge", "cni_spoofcheck", "prerouting"])
    expect(stdout).toContain("iifname @guarded iifname . ether saddr != @allowed drop")
    const port = portOf(result)
    const comment = `lab/${pod.name}/eth0`
    expect(await elementsOf(host, "guarded")).toEqual([{ val: port, comment }])
    expect(await elementsOf(host, "allowed")).toEqual([
      { val: { concat: [port, result.interfaces[2]?.mac ?? ""] }, comment },
    ])
  })

  test("drops what a container sends from another MAC, and nothing else [S51]", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    await new Attachment(host, pod, guarded).add()
    await new Attachment(host, other, bridgeNetwork()).add()
    expect(await ping(pod, "10.22.0.3")).toBe(true)
    const { address } = await linkOf(pod, "eth0")
    await changeMac(pod, "0a:00:00:00:00:99")
    expect(await pingOnce(pod, "10.22.0.3")).toBe(false)
    await changeMac(pod, address)
    expect(await waitFor(() => pingOnce(pod, "10.22.0.3"), "its own MAC to pass again")).toBe(true)
  })

  test("without it, and for containers beside it, any MAC passes", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    await new Attachment(host, other, guarded).add()
    await new Attachment(host, pod, bridgeNetwork()).add()
    await changeMac(pod, "0a:00:00:00:00:99")
    expect(await waitFor(() => pingOnce(pod, "10.22.0.2"), "another MAC to pass")).toBe(true)
  })

  test("works for an attachment without addresses, with a MAC that the runtime chose", async () => {
    const { host, pod } = await hostAndPods()
    await using _ = host
    const { ipam: _none, ...config } = bridgeNetwork({
      macspoofchk: true,
      runtimeConfig: { mac: "0a:00:00:00:00:07" },
      disableContainerInterface: true,
    })
    const result = await new Attachment(host, pod, config).add()
    const [allowed] = await elementsOf(host, "allowed")
    expect(allowed?.val).toEqual({ concat: [portOf(result), "0a:00:00:00:00:07"] })
  })

  test("again after DEL leaves one element for the port", async () => {
    const { host, pod } = await hostAndPods()
    await using _ = host
    const attachment = new Attachment(host, pod, guarded)
    await attachment.add()
    expect((await attachment.run("ADD")).exitCode).toBe(1)
    expect(await elementsOf(host, "guarded")).toHaveLength(1)
    await attachment.del()
    await attachment.add()
    expect(await elementsOf(host, "guarded")).toHaveLength(1)
    expect((await spoofTable(host)).filter(({ rule }) => rule)).toHaveLength(1)
  })

  test("puts a rule set right that was changed", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    await new Attachment(host, pod, guarded).add()
    await host.exec("nft", ["add", "rule", "bridge", "cni_spoofcheck", "prerouting", "accept"])
    await new Attachment(host, other, guarded).add()
    expect((await spoofTable(host)).filter(({ rule }) => rule)).toHaveLength(1)
    expect(await elementsOf(host, "guarded")).toHaveLength(2)
  })

  test("does not bring the port up before it is guarded, and takes all back when it cannot be", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    await new Attachment(host, other, bridgeNetwork()).add() // creates the bridge, which stays
    // A set with the name of ours, but another type.
    await host.exec("nft", ["add table bridge cni_spoofcheck; add set bridge cni_spoofcheck guarded { type mark; }"])
    const before = await takeSnapshot(host)
    await using links = await IpMonitor.start(host)
    const { msg } = await fail(new Attachment(host, pod, guarded).run("ADD"))
    expect(msg).toContain("Cannot guard port")
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    const seen = (await links.stop()).filter((line) => /\bveth[0-9a-f]{8}[@:]/.test(line))
    expect(seen.length).toBeGreaterThan(0)
    expect(seen.filter((line) => /<([A-Z_]+,)*UP\b/.test(line))).toEqual([])
  })
})

describe("DEL", () => {
  test("takes the elements, and with the last one the table, with and without a namespace", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    await new Attachment(host, other, guarded).add()
    const one = await takeSnapshot(host)
    const attachment = new Attachment(host, pod, guarded)
    for (const call of [{}, { netns: "" }]) {
      await attachment.add()
      await attachment.del({}, call)
      expectUnchanged(one, await takeSnapshot(host), isAllocationTrace)
    }
    await new Attachment(host, other, guarded).del()
    expect(await spoofTable(host)).toEqual([])
  })

  test("takes them also when the configuration no longer asks for the check, or is broken", async () => {
    const { host, pod } = await hostAndPods()
    await using _ = host
    const attachment = new Attachment(host, pod, guarded)
    for (const macspoofchk of [false, "perhaps"]) {
      await attachment.add()
      await attachment.del({ macspoofchk })
      expect(await spoofTable(host)).toEqual([])
    }
  })

  test("takes back what the Go bridge plugin made, with and without a namespace", async () => {
    const { host, pod, other } = await hostAndPods()
    await using _ = host
    const config = { ...guarded, cniVersion: "1.0.0" }
    const go = { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" }
    const ours = { bin: `${builtPlugins}/bridge` }
    await new Attachment(host, other, config, go).add()
    const before = await takeSnapshot(host)
    for (const call of [{}, { netns: "" }]) {
      await new Attachment(host, pod, config, go).add()
      expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain(`macspoofchk-${pod.name}-eth0`)
      await new Attachment(host, pod, config, ours).del({}, call)
      const { stdout } = await host.exec("nft", ["list", "ruleset"])
      expect(stdout).not.toContain(`-${pod.name}-eth0`)
      expect(stdout).toContain(`macspoofchk-${other.name}-eth0`)
      if (call.netns === undefined) expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    }
  })
})

test("GC ends the checks of what is gone from its network, and no others", async () => {
  const { host, pod, other } = await hostAndPods()
  await using _ = host
  const gone = await host.addContainer()
  await new Attachment(host, pod, guarded).add()
  await new Attachment(host, other, { ...guarded, name: "lab-2" }).add()
  const wanted = await takeSnapshot(host)
  await new Attachment(host, gone, guarded).add()
  const valid = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
  expect(await new Attachment(host, pod, { ...guarded, ...valid }).run("GC")).toMatchObject({ exitCode: 0 })
  expectUnchanged(wanted, await takeSnapshot(host), isAllocationTrace)
})

test("STATUS tries whether the kernel can check MACs, and changes nothing", async () => {
  const { host, pod } = await hostAndPods()
  await using _ = host
  const before = await takeSnapshot(host)
  expect(await new Attachment(host, pod, guarded).run("STATUS")).toMatchObject({ exitCode: 0 })
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

/** Changes to the spoof check, with the error of CHECK for each. */
const damages: { what: string; damage: (host: HostNamespace, pod: ContainerNamespace) => unknown; says: string[] }[] = [
  {
    what: "the rule is gone",
    damage: (host) => host.exec("nft", ["flush", "chain", "bridge", "cni_spoofcheck", "prerouting"]),
    says: ["spoof check", "iifname @guarded", "no such rule"],
  },
  {
    what: "the table is dormant",
    damage: (host) => host.exec("nft", ["add table bridge cni_spoofcheck { flags dormant; }"]),
    says: ["iifname @guarded", 'found table bridge cni_spoofcheck with "flags dormant"'],
  },
  {
    what: "the port is not guarded",
    damage: (host) => host.exec("nft", ["flush", "set", "bridge", "cni_spoofcheck", "guarded"]),
    says: ["set bridge cni_spoofcheck guarded", "found none"],
  },
  {
    what: "another MAC is allowed",
    damage: async (host, pod) => {
      const { val } = (await elementsOf(host, "guarded"))[0] ?? {}
      const element = `{ "${val}" . 0a:00:00:00:00:99 comment "lab/${pod.name}/eth0" }`
      await host.exec("nft", ["flush", "set", "bridge", "cni_spoofcheck", "allowed"])
      await host.exec("nft", [`add element bridge cni_spoofcheck allowed ${element}`])
    },
    says: ["set bridge cni_spoofcheck allowed", ". 0a:00:00:00:00:99"],
  },
]

test.each(damages)("CHECK names it when $what", async ({ damage, says }) => {
  const { host, pod } = await hostAndPods()
  await using _ = host
  const attachment = new Attachment(host, pod, guarded)
  const result: PluginResult = await attachment.add()
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await damage(host, pod)
  const { msg, details } = await fail(attachment.check(result))
  for (const words of says) expect(`${msg}; ${details ?? ""}`).toContain(words)
})

test("CHECK takes the spoof check that the Go suite has made, and misses each part of it", async () => {
  const { host, pod } = await hostAndPods()
  await using _ = host
  const config = bridgeNetwork({ cniVersion: "1.0.0", macspoofchk: true })
  const theirs = new Attachment(host, pod, config, { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" })
  const result = await theirs.add()
  const attachment = new Attachment(host, pod, config)
  const whole = (await host.exec("nft", ["list", "table", "bridge", "nat"])).stdout
  const check = async (input: string) => {
    await host.exec("nft", ["-f", "-"], { input: `flush ruleset\n${input}` })
    return attachment.check(result)
  }
  expect(await check(whole)).toMatchObject({ exitCode: 0, stdout: "" })
  const damaged = {
    "another port": whole.replace(`"${portOf(result)}"`, '"veth0"'),
    "nothing leads to the chain of the MAC": whole.replace(/jump \S+-mac/, "accept"),
    "another MAC": whole.replace(/saddr \S+/, "saddr 0a:00:00:00:00:99"),
    "nothing is dropped": whole.replace("drop", "accept"),
    "everything passes before": whole.replace("ether saddr", "accept\nether saddr"),
  }
  for (const text of Object.values(damaged)) {
    expect(text).not.toBe(whole)
    expect((await fail(check(text))).msg).toContain("Cannot find the spoof check of")
  }
  await attachment.del()
})

test("dormant tables are woken by the next ADD, of any container", async () => {
  const { host, pod, other } = await hostAndPods()
  await using _ = host
  const config = bridgeNetwork({ macspoofchk: true, ipMasq: true })
  const attachment = new Attachment(host, pod, config)
  const result = await attachment.add()
  const tables = ["bridge cni_spoofcheck", "ip cni_masquerade"]
  for (const table of tables) await host.exec("nft", [`add table ${table} { flags dormant; }`])
  await new Attachment(host, other, config).add()
  for (const table of tables) expect((await host.exec("nft", [`list table ${table}`])).stdout).not.toContain("dormant")
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
})
