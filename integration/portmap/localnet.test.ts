import { expect, test } from "bun:test"
import {
  askEcho,
  chooseIptables,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  fail,
  readSysctl,
  ruleBackends,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { hostAddresses, type MappedPod, PortmapLab } from "./portmap-lab.ts"

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
const dns = { hostPort: 53, containerPort: 5353, protocol: "udp" } as const
const nothing = { "cni.dev/valid-attachments": [] }

/** Programs that may have enabled `route_localnet`. The next ADD cannot tell whether portmap enabled it. */
const causes = [
  {
    by: "an ADD, before all rules were flushed",
    async act(lab: PortmapLab, pod: MappedPod) {
      await succeed(pod.map([web]))
      await lab.host.exec("nft", ["flush", "ruleset"])
    },
  },
  { by: "an administrator", act: (lab: PortmapLab) => setLocalnet(lab, "br-lab", "1") },
  {
    by: "an ADD, and then the rules were loaded again without who is who",
    async act(lab: PortmapLab, pod: MappedPod) {
      await succeed(pod.map([web]))
      await lab.host.exec("nft", ["flush set ip cni_hostports localnet_links"])
    },
  },
]

async function setLocalnet(lab: PortmapLab, link: string, value: string): Promise<void> {
  await lab.host.exec("sysctl", ["-qw", `net.ipv4.conf.${link}.route_localnet=${value}`])
}

function localnet(lab: PortmapLab): Promise<string> {
  return readSysctl(lab.host, "net/ipv4/conf/br-lab/route_localnet")
}

/** Starts a server that only the host may reach, and returns a function with which a container connects to it. */
async function startService(lab: PortmapLab, pod: MappedPod) {
  const service = await EchoPeer.start(lab.host, { address: "127.0.0.1", port: 9999 })
  await pod.namespace.exec("sysctl", ["-qw", "net.ipv4.conf.all.route_localnet=1"])
  await pod.namespace.exec("ip", ["route", "replace", "127.0.0.1", "via", hostAddresses.gateway])
  const question = { transport: "udp", address: "127.0.0.1", port: service.port } as const
  return {
    service,
    ask: () => askEcho(pod.namespace, question),
    expectGuarded: () => expectNoEcho(pod.namespace, question),
  }
}

async function tablesOf(lab: PortmapLab): Promise<string> {
  return (await lab.host.exec("nft", ["list", "ruleset"])).stdout
}

test.each(causes)(
  "where route_localnet was switched on by $by, the guard outlives the mappings [S44]",
  async ({ act }) => {
    await using lab = await PortmapLab.create(ruleBackends[0])
    const [pod, other] = [await lab.addPod(), await lab.addPod()]
    const before = await takeSnapshot(lab.host)
    const { service, expectGuarded } = await startService(lab, other)
    await using _ = service
    await act(lab, pod)
    await succeed(pod.map([web]))
    await succeed(other.map([dns]))
    expect(await localnet(lab)).toBe("1")
    for (const one of [pod, other]) await succeed(one.unmap())
    expect(await localnet(lab)).toBe("1")
    await expectGuarded()

    // Only the guard remains. Another DEL, GC and new mappings do not change it.
    const guarded = await tablesOf(lab)
    expect(guarded.match(/^\t\w+ \w+ \{/gm)).toEqual(["\tset localnet_guarded {", "\tchain raw {"])
    await succeed(pod.unmap({ runtimeConfig: undefined }))
    await succeed(pod.portmap.run("GC", nothing))
    expect(await tablesOf(lab)).toBe(guarded)
    await succeed(pod.map([web]))
    await succeed(pod.check())
    await expectGuarded()
    await succeed(pod.portmap.run("GC", nothing))
    expect(await tablesOf(lab)).toBe(guarded)

    // It is deleted when the setting no longer needs it.
    await setLocalnet(lab, "br-lab", "0")
    await succeed(pod.unmap())
    expectUnchanged(before, await takeSnapshot(lab.host))
  },
)

/** The calls that may follow a flush of all rules. */
const afterFlush = [
  { what: "DEL", run: (pod: MappedPod) => pod.unmap() },
  { what: "DEL without mappings and prevResult", run: (pod: MappedPod) => pod.portmap.run("DEL", bare) },
  { what: "GC", run: (pod: MappedPod) => pod.portmap.run("GC", { ...nothing, ...bare }) },
]
const bare = { prevResult: undefined, runtimeConfig: undefined }

for (const backend of ruleBackends)
  test.each(afterFlush)(
    `${backend.name}: when all rules were flushed, $what does not leave route_localnet on without its guard [S46]`,
    async ({ run }) => {
      await using lab = await PortmapLab.create(backend)
      const [pod, other] = [await lab.addPod(), await lab.addPod()]
      const before = await takeSnapshot(lab.host)
      const { service, ask, expectGuarded } = await startService(lab, other)
      await using _ = service
      await succeed(pod.map([web]))
      await lab.host.exec("nft", ["flush", "ruleset"])
      await ask() // without the guard, the container reaches the server
      await succeed(run(pod))
      expect(await localnet(lab)).toBe("1")
      await expectGuarded()
      // The guard is recorded, and is deleted with the setting.
      await setLocalnet(lab, "br-lab", "0")
      await succeed(pod.unmap())
      expectUnchanged(
        before,
        await takeSnapshot(lab.host),
        ({ line }) => backend.name !== "nftables" && /HOSTPORT|^:|^\*|^COMMIT|"?(nat|raw)\b/.test(line),
      )
    },
  )

test.each([
  { what: "ADD without ports", run: (_: MappedPod, other: MappedPod) => other.portmap.run("ADD", {}) },
  { what: "CHECK without ports", run: (_: MappedPod, other: MappedPod) => other.portmap.run("CHECK", {}) },
  { what: "CHECK of what was flushed", run: (pod: MappedPod) => pod.check() },
])("when all rules were flushed, $what restores the guard of route_localnet [S154]", async ({ what, run }) => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const [pod, other] = [await lab.addPod(), await lab.addPod()]
  const { service, ask, expectGuarded } = await startService(lab, other)
  await using _ = service
  await succeed(pod.map([web]))
  await lab.host.exec("nft", ["flush", "ruleset"])
  await ask() // without the guard, the container reaches the server
  const { exitCode } = await run(pod, other)
  expect(exitCode).toBe(what === "CHECK of what was flushed" ? 1 : 0)
  await expectGuarded()
})

test("the guard goes with the bridge that it was for, at the next DEL or GC", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  for (const verb of ["DEL", "GC"] as const) {
    await setLocalnet(lab, "br-lab", "1")
    await succeed(pod.map([web]))
    await succeed(pod.unmap())
    expect(await tablesOf(lab)).toContain("chain raw")
    await lab.host.exec("ip", ["link", "set", "br-lab", "name", "br-old"])
    await succeed(pod.portmap.run(verb, nothing))
    expect(await tablesOf(lab)).toContain('elements = { "br-old" }') // the setting stays with the renamed bridge
    await setLocalnet(lab, "br-old", "0")
    await succeed(pod.portmap.run(verb, nothing))
    expect(await tablesOf(lab)).not.toContain("cni_hostports")
    await lab.host.exec("ip", ["link", "set", "br-old", "name", "br-lab"])
  }
})

test("where it is on for all interfaces, which portmap never does, nothing stays", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  await setLocalnet(lab, "all", "1")
  const before = await takeSnapshot(lab.host)
  await succeed(pod.map([web]))
  await succeed(pod.check())
  expect(await tablesOf(lab)).not.toContain("guarded")
  await succeed(pod.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})

test("an ADD that fails leaves neither a guard nor a note", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const [pod, other] = [await lab.addPod(), await lab.addPod()]
  await setLocalnet(lab, "br-lab", "1")
  for (const mappings of [[], [dns]]) {
    await succeed(other.map(mappings))
    const before = await takeSnapshot(lab.host)
    const { stderr } = await lab.host.tryExec(
      "bash",
      ["-c", 'exec "$0" > /dev/full', `${import.meta.dir}/../../dist/bin/portmap`],
      {
        env: environment(pod),
        input: JSON.stringify({ ...pod.portmap.config, runtimeConfig: { portMappings: [web] } }),
      },
    )
    expect(stderr).toContain("Cannot write the result")
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
})

function environment({ namespace }: MappedPod): Record<string, string> {
  const names = { CNI_CONTAINERID: namespace.name, CNI_NETNS: namespace.path, CNI_IFNAME: "eth0", CNI_PATH: "/nowhere" }
  return { ...names, CNI_COMMAND: "ADD" }
}

test("while iptables still maps ports, setting and guard stay; they go with the last of these [S45]", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  await chooseIptables(lab.host, "nf_tables")
  const [pod, other] = [await lab.addPod(), await lab.addPod()]
  const iptables = { backend: "iptables" }
  await using peer = await EchoPeer.start(other.namespace)
  await succeed(pod.map([dns]))
  await succeed(other.map([{ ...web, containerPort: peer.port }], iptables))
  const { service, expectGuarded } = await startService(lab, pod)
  await using _ = service
  await succeed(pod.unmap())
  expect(await localnet(lab)).toBe("1")
  await askEcho(lab.host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  await expectGuarded()
  await succeed(other.unmap(iptables))
  expect(await localnet(lab)).toBe("0")
  expect(await tablesOf(lab)).not.toContain("cni_hostports")
  expect((await fail(other.check(iptables))).msg).toContain("Cannot find a port mapping")
})
