import { expect, test } from "bun:test"
import { expectUnchanged, fail, mountOver, ruleBackends, runTraced, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, type PortMapping, PortmapLab, testEach } from "./portmap-lab.ts"
import { inject } from "./trace.ts"

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
const dns = { hostPort: 53, containerPort: 5353, protocol: "udp" } as const

/** A breakage for each step of ADD, all on one host. `setUp` runs before the snapshot. */
const breakages: {
  step: string
  setUp?: (lab: PortmapLab) => Promise<unknown>
  mappings?: readonly Partial<PortMapping>[]
  keys?: object
  code: number
  says: string
}[] = [
  { step: "there is no container", keys: { prevResult: undefined }, code: 7, says: "prevResult is missing" },
  { step: "the host port is 0", mappings: [{ ...web, hostPort: 0 }], code: 7, says: 'portMappings[0].hostPort"' },
  { step: "the host port is too high", mappings: [web, { ...web, hostPort: 65536 }], code: 7, says: "found 65536" },
  { step: "the container port is 0", mappings: [{ ...web, containerPort: 0 }], code: 7, says: "containerPort" },
  {
    step: "there is no such protocol",
    mappings: [{ ...web, protocol: "icmp" as "tcp" }],
    code: 7,
    says: "tcp, udp or sctp",
  },
  { step: "the host's address cannot be parsed", mappings: [{ ...web, hostIP: "localhost" }], code: 7, says: "hostIP" },
  {
    step: "a port is to lead to two places",
    mappings: [web, { ...web, containerPort: 81 }],
    code: 7,
    says: "Cannot map host port 8080/tcp to container ports 80 and 81 at once",
  },
  { step: "there is no such backend", keys: { backend: "ipfw" }, code: 7, says: '"nftables" or "iptables"' },
  { step: "there is no such bit", keys: { markMasqBit: 32 }, code: 7, says: "from 0 to 31" },
  {
    step: "127.0.0.1 cannot be let through",
    setUp: readOnlyLocalnet,
    code: 999,
    says: "route_localnet",
  },
]

testEach("when any step of ADD fails, it says so and everything is as before", async (lab) => {
  const pod = await lab.addPod()
  if (lab.backend.name !== "nftables") {
    await succeed(pod.map([web], { snat: true }))
    await succeed(pod.unmap())
    await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.br-lab.route_localnet=0"])
  }
  for (const { step, setUp, mappings = [web, dns], keys, code, says } of breakages) {
    await setUp?.(lab)
    const before = await takeSnapshot(lab.host)
    const error = await fail(pod.map(mappings as PortMapping[], keys))
    expect({ step, said: `${error.msg}; ${error.details ?? ""}`, code: error.code }).toEqual({
      step,
      said: expect.stringContaining(says),
      code,
    })
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
})

/**
 * Makes `route_localnet` read-only by a bind mount in the host's mount namespace, so that the machine is unaffected.
 */
async function readOnlyLocalnet(lab: PortmapLab): Promise<void> {
  const file = "/proc/sys/net/ipv4/conf/br-lab/route_localnet"
  await lab.host.exec("mount", ["--bind", file, file])
  await lab.host.exec("mount", ["-o", "remount,bind,ro", file])
}

test("an ADD that fails restores what the same container had mapped before", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  await succeed(pod.map([{ ...web, hostIP: hostAddresses.ip }]))
  await readOnlyLocalnet(lab)
  const before = await takeSnapshot(lab.host)
  await fail(pod.map([web, dns]))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

test("without the program that the backend needs ADD says which one", async () => {
  await using lab = await PortmapLab.create({ ...ruleBackends[1], iptables: "none" })
  const pod = await lab.addPod()
  const before = await takeSnapshot(lab.host)
  expect((await fail(pod.map([web]))).msg).toContain("iptables")
  await mountOver(lab.host, "/usr/sbin/nft", "/bin/false")
  expect((await fail(pod.map([web], { backend: "nftables", conditionsV4: ["ip saddr != 192.0.2.1"] }))).msg).toContain(
    "nft",
  )
  await lab.host.exec("umount", ["/usr/sbin/nft"])
  expectUnchanged(before, await takeSnapshot(lab.host))
})

test("an ADD killed at any message to the kernel is undone by the next DEL", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  pod.mappings = [web, dns, { ...web, hostPort: 8081, hostIP: hostAddresses.ip }]
  const before = await takeSnapshot(lab.host)
  let nth = 1
  for (; await inject(pod, { verb: "ADD", name: "sendto", effect: "signal=KILL", nth }); nth++) {
    await succeed(pod.unmap())
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
  expect(nth).toBeGreaterThan(5)
})

test("an ADD in which any message to the kernel fails has changed nothing, or succeeds without it", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const pod = await lab.addPod()
  pod.mappings = [web, dns]
  const before = await takeSnapshot(lab.host)
  let nth = 1
  for (; ; nth++) {
    const output = await inject(pod, { verb: "ADD", name: "sendto", effect: "error=ENOBUFS", nth })
    if (!output) break
    if (output.exitCode === 0) {
      expect(output.stderr).toMatch(/UDP conntrack entries|list attached containers/) // the mappings exist
      await succeed(pod.unmap())
    }
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
  expect(nth).toBeGreaterThan(5)
})

testEach(
  "without mappings ADD and CHECK ask nothing of the kernel, DEL whose they are, and nothing is run",
  async (lab) => {
    const pod = await lab.addPod()
    const before = await takeSnapshot(lab.host)
    for (const verb of ["ADD", "CHECK", "DEL"] as const) {
      for (const runtimeConfig of [undefined, { portMappings: [] }]) {
        const { output, text } = await runTraced(pod.portmap, verb, ["trace=socket,execve,vfork"], { runtimeConfig })
        const { exitCode, stdout } = output
        expect(exitCode).toBe(0)
        expect(stdout === "" ? undefined : JSON.parse(stdout)).toEqual(verb === "ADD" ? pod.result : undefined)
        const calls = text.split("\n").filter((line) => /socket\(|execve\(|vfork\(/.test(line))
        const start = expect.stringContaining("execve(") // the start of the plugin by strace
        const asked = expect.stringContaining("NETLINK_NETFILTER")
        expect(calls).toEqual(verb === "DEL" ? [start, asked] : [start])
      }
    }
    expectUnchanged(before, await takeSnapshot(lab.host))
  },
)
