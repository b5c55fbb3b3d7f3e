import { expect, test } from "bun:test"
import {
  askEcho,
  EchoPeer,
  expectUnchanged,
  fail,
  HostNamespace,
  ruleBackends,
  succeed,
  takeSnapshot,
  testWith,
} from "../lab/mod.ts"
import { hostAddresses, isLocalnetGuard, type MappedPod, PortmapLab } from "./portmap-lab.ts"

const go = { bin: "/usr/lib/cni/portmap" }
/** The newest version of the specification that it supports. */
const oldest = { cniVersion: "1.0.0" }

const mappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 53, containerPort: 5353, protocol: "udp" },
  { hostPort: 8081, containerPort: 81, protocol: "tcp", hostIP: hostAddresses.ip },
  { hostPort: 8082, containerPort: 82, protocol: "tcp", hostIP: "0.0.0.0" },
  { hostPort: 8083, containerPort: 83, protocol: "udp", hostIP: hostAddresses.ip6 },
  ...Array.from({ length: 20 }, (_, n) => ({ hostPort: 9000 + n, containerPort: 90, protocol: "tcp" }) as const),
] as const

/** Returns the rules of table nat without counters, and without the owners' comments, which only our plugin writes. */
async function natRules(lab: PortmapLab): Promise<string[]> {
  const { stdout } = await lab.host.exec("sh", ["-c", "iptables-save -t nat; ip6tables-save -t nat"])
  const lines = stdout.split("\n").map((line) => line.replace(/ \[\d+:\d+\]/, ""))
  return lines.filter((line) => !line.startsWith("#") && !/^-A CNI-DN-\S+ -m comment --comment "\S+ \S*"$/.test(line))
}

function prevResult(pod: MappedPod): object {
  return { prevResult: { ...pod.result, ...oldest } }
}

test.each([
  ["by default", {}],
  ["without snat", { snat: false }],
  ["with another bit", { markMasqBit: 5 }],
  ["with conditions", { conditionsV4: ["!", "-s", "192.0.2.0/24"], conditionsV6: ["-m", "limit", "--limit", "5/sec"] }],
])("the rules are the Go suite's, in its order, %s", async (_, keys) => {
  await using ours = await PortmapLab.create(ruleBackends[1])
  await using theirs = await PortmapLab.create(ruleBackends[1])
  const [pod, other] = [await ours.addPod(), await theirs.addPod()]
  const id = { containerId: "same" }
  await succeed(pod.map(mappings, { ...keys, ...prevResult(pod), ...oldest }, id))
  await succeed(other.map(mappings, { ...keys, ...prevResult(other), ...oldest }, { ...id, ...go }))
  expect(await natRules(ours)).toEqual(await natRules(theirs))
})

for (const backend of ruleBackends.slice(1)) {
  test(`${backend.name}: DEL here takes back what the Go suite's ADD has made`, async () => {
    await using lab = await PortmapLab.create(backend)
    const [pod, other] = [await lab.addPod(), await lab.addPod()]
    await succeed(other.map([{ ...mappings[0], hostPort: 1 }], { ...prevResult(other), ...oldest }, go))
    const before = await takeSnapshot(lab.host)
    await succeed(pod.map(mappings, { ...prevResult(pod), ...oldest }, go))
    await succeed(pod.unmap({ runtimeConfig: undefined, prevResult: undefined }, { netns: "" }))
    expectUnchanged(before, await takeSnapshot(lab.host), isLocalnetGuard) // the Go plugin leaves the setting without a guard
  })

  test(`${backend.name}: the Go suite's DEL takes back what ADD here has made`, async () => {
    await using lab = await PortmapLab.create(backend)
    const [pod, other] = [await lab.addPod(), await lab.addPod()]
    await succeed(other.map([{ ...mappings[0], hostPort: 1 }]))
    const before = await takeSnapshot(lab.host)
    await succeed(pod.map(mappings))
    await succeed(pod.unmap({ ...prevResult(pod), ...oldest }, go))
    expectUnchanged(before, await takeSnapshot(lab.host))
  })

  test(`${backend.name}: GC takes back what the Go suite has made for containers that are gone`, async () => {
    await using lab = await PortmapLab.create(backend)
    const [pod, other] = [await lab.addPod(), await lab.addPod()]
    await succeed(other.map([{ ...mappings[0], hostPort: 1 }], { ...prevResult(other), ...oldest }, go))
    const before = await takeSnapshot(lab.host)
    await succeed(pod.map(mappings, { ...prevResult(pod), ...oldest }, go))
    const valid = [{ containerID: other.namespace.name, ifname: "eth0" }]
    await succeed(pod.portmap.run("GC", { "cni.dev/valid-attachments": valid }))
    expectUnchanged(before, await takeSnapshot(lab.host), isLocalnetGuard)
  })
}

test("CHECK names the rule that is missing", async () => {
  await using lab = await PortmapLab.create(ruleBackends[1])
  const pod = await lab.addPod()
  await succeed(pod.map(mappings))
  for (const rule of [
    ["PREROUTING", "-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-HOSTPORT-DNAT"],
    ["CNI-HOSTPORT-MASQ", "-m", "mark", "--mark", "0x2000/0x2000", "-j", "MASQUERADE"],
  ]) {
    expect(await pod.check()).toMatchObject({ exitCode: 0 })
    await lab.host.exec("iptables", ["-t", "nat", "-D", ...rule])
    expect((await fail(pod.check())).msg).toContain(`expected rule "${rule.join(" ")}"`)
    await succeed(pod.map(mappings))
  }
})

test("an external chain marks in the place of ours, and has to be there", async () => {
  await using lab = await PortmapLab.create(ruleBackends[1])
  const pod = await lab.addPod()
  const keys = { externalSetMarkChain: "PLZ-SET-MARK", backend: undefined }
  const before = await takeSnapshot(lab.host)
  expect((await fail(pod.map(mappings, keys))).msg).toContain("PLZ-SET-MARK")
  expectUnchanged(before, await takeSnapshot(lab.host), ({ line }) => /nat|COMMIT|^:/.test(line))
  for (const program of ["iptables", "ip6tables"]) {
    await lab.host.exec(program, ["-t", "nat", "-N", "PLZ-SET-MARK"])
    await lab.host.exec(program, ["-t", "nat", "-A", "PLZ-SET-MARK", "-j", "MARK", "--set-xmark", "0x4000/0x4000"])
    await lab.host.exec(program, [
      "-t",
      "nat",
      "-A",
      "POSTROUTING",
      "-m",
      "mark",
      "--mark",
      "0x4000/0x4000",
      "-j",
      "MASQUERADE",
    ])
  }
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(pod.map([{ ...mappings[0], containerPort: peer.port }], keys))
  const { from } = await askEcho(lab.host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  expect(from.address).toBe(hostAddresses.gateway)
  expect((await natRules(lab)).join("\n")).not.toContain("CNI-HOSTPORT-SETMARK")
})

testWith(["no_nf_tables", "iptables"], "without nf_tables for IP, iptables maps the ports by itself", async () => {
  await using host = await HostNamespace.create()
  await using lab = await PortmapLab.onPlainHost(host)
  const pod = await lab.addPod({ isIpv4Only: true })
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(pod.map([{ hostPort: 8080, containerPort: peer.port, protocol: "tcp" }]))
  await askEcho(host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  expect(await pod.check()).toMatchObject({ exitCode: 0, stdout: "" })
  await succeed(pod.unmap())
  expect((await host.exec("iptables-legacy-save", ["-t", "nat"])).stdout).not.toContain("CNI-DN-")
})
