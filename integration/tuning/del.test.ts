import { expect, test } from "bun:test"
import { Attachment, expectUnchanged, fail, succeed, takeSnapshot, writeSysctl } from "../lab/mod.ts"
import { everything, linkOf, TuningChain } from "./chain.ts"

const sysctlPaths = ["net/ipv4/conf/eth0/arp_filter", "net/core/somaxconn", "net/ipv4/tcp_rmem"]

function sysctlsOf(chain: TuningChain): Promise<string[]> {
  return Promise.all(sysctlPaths.map((path) => chain.sysctl(path)))
}

test("DEL sets everything back, sysctls included, and removes the backup", async () => {
  await using chain = await TuningChain.create(everything)
  const [host, pod] = [await takeSnapshot(chain.host), await takeSnapshot(chain.pod)]
  const sysctls = await sysctlsOf(chain)
  await chain.tuning.add()
  await chain.tuning.del()
  expect(await sysctlsOf(chain)).toEqual(sysctls)
  expect(await chain.backups()).toEqual([])
  expectUnchanged(pod, await takeSnapshot(chain.pod))
  expectUnchanged(host, await takeSnapshot(chain.host), ({ line }) => line === "/run/cni/tuning/")
  await chain.tuning.del()
})

test("DEL needs neither prevResult nor a valid configuration", async () => {
  await using chain = await TuningChain.create(everything)
  const before = await chain.link()
  await chain.tuning.add()
  const broken = { mtu: "big", mac: 5, sysctl: { "kernel.x": 1 }, args: [], runtimeConfig: 7, prevResult: { ips: 5 } }
  await chain.tuning.del(broken, { args: "what" })
  expect(await chain.link()).toEqual(before)
  expect(await chain.backups()).toEqual([])
})

test("DEL goes by the backup, with any configuration of today", async () => {
  await using chain = await TuningChain.create(everything)
  const before = await chain.link()
  await chain.tuning.add()
  await chain.tuning.del({ mtu: 1300, mac: undefined, txQLen: undefined })
  expect(await chain.link()).toEqual(before)
})

test.each([
  ["the namespace is gone", (chain: TuningChain) => chain.host.removeContainer(chain.pod), {}],
  ["no namespace is given", async () => {}, { netns: "" }],
  ["the path is not a namespace any more", async () => {}, { netns: "/proc/version" }],
  ["the link is gone", (chain: TuningChain) => chain.pod.exec("ip", ["link", "del", "eth0"]), {}],
])("when %s, DEL succeeds and removes the backup", async (_, happens, call) => {
  await using chain = await TuningChain.create(everything)
  await chain.tuning.add()
  await happens(chain)
  await chain.tuning.del({}, call)
  expect(await chain.backups()).toEqual([])
  await chain.tuning.del({}, call)
})

test("when the link is gone, the sysctls of the namespace are set back all the same", async () => {
  await using chain = await TuningChain.create(everything)
  const somaxconn = await chain.sysctl("net/core/somaxconn")
  await chain.tuning.add()
  await chain.pod.exec("ip", ["link", "del", "eth0"])
  await chain.tuning.del()
  expect(await chain.sysctl("net/core/somaxconn")).toBe(somaxconn)
})

test.each(["", '{\n "mac": "0a:', "[]", "\u0000\u0000"])(
  "a backup that is torn to %j does not stop DEL",
  async (torn) => {
    await using chain = await TuningChain.create(everything)
    await chain.tuning.add()
    await chain.host.exec("tee", [`/run/cni/tuning/lab:${chain.pod.name}:eth0.json`], { input: torn })
    await chain.tuning.del()
    expect(await chain.backups()).toEqual([])
  },
)

test("what depends on each other comes back with any order", async () => {
  const [all, one] = ["net.ipv4.ip_forward", "net.ipv4.conf.IFNAME.forwarding"]
  for (const sysctl of [
    { [all]: "1", [one]: "1" },
    { [one]: "1", [all]: "1" },
  ]) {
    await using chain = await TuningChain.create({ sysctl })
    await writeSysctl(chain.pod, "net/ipv4/conf/eth0/forwarding", "1")
    await chain.tuning.add()
    await chain.tuning.del()
    expect(await chain.sysctl("net/ipv4/ip_forward")).toBe("0")
    expect(await chain.sysctl("net/ipv4/conf/eth0/forwarding")).toBe("1")
  }
})

test("an empty sysctl becomes empty again", async () => {
  await using chain = await TuningChain.create({ sysctl: { "net.ipv4.ip_local_reserved_ports": "8080,9148" } })
  await chain.tuning.add()
  expect(await chain.sysctl("net/ipv4/ip_local_reserved_ports")).toBe("8080,9148")
  await chain.tuning.del()
  expect(await chain.sysctl("net/ipv4/ip_local_reserved_ports")).toBe("")
})

test("after an ADD that is repeated, DEL brings back what was before the first", async () => {
  await using chain = await TuningChain.create({ ...everything, mtu: 9000 })
  const [before, sysctls] = [await chain.link(), await sysctlsOf(chain)]
  await chain.tuning.add()
  await chain.tuning.add()
  expect(await linkOf(chain.host, chain.port)).toMatchObject({ mtu: 9000 })
  await chain.tuning.del()
  expect(await chain.link()).toEqual(before)
  expect(await sysctlsOf(chain)).toEqual(sysctls)
  expect(await linkOf(chain.host, chain.port)).toMatchObject({ mtu: 1500 })
})

const sysctl = { "net.core.somaxconn": "78", "net.ipv4.ip_default_ttl": "31" }

test.each([
  ["another", { mtu: 9100, mac: "0a:00:00:00:00:07", sysctl }],
  ["no", { mac: "0a:00:00:00:00:07", sysctl }],
])("two tuning plugins in one chain, the second with %s MTU: after both DELs all is as before", async (_, keys) => {
  await using chain = await TuningChain.create({ mtu: 9000, sysctl: { "net.core.somaxconn": "77" } })
  const [before, somaxconn] = [await chain.link(), await chain.sysctl("net/core/somaxconn")]
  const { mtu: _mtu, ...config } = chain.tuning.config
  const second = new Attachment(chain.host, chain.pod, { ...config, ...keys })
  const result = await second.add({ prevResult: await chain.tuning.add() })
  expect(result.interfaces[2]).toMatchObject({ mac: "0a:00:00:00:00:07" })
  expect((await linkOf(chain.host, chain.port)).mtu).toBe("mtu" in keys ? 9100 : 9000)
  await second.del()
  await chain.tuning.del()
  expect(await chain.link()).toEqual(before)
  expect((await linkOf(chain.host, chain.port)).mtu).toBe(1500)
  expect(await chain.sysctl("net/core/somaxconn")).toBe(somaxconn)
  expect(await chain.sysctl("net/ipv4/ip_default_ttl")).toBe("64")
  expect(await chain.backups()).toEqual([])
})

test("a container that comes again in a new namespace is not given what a dead one had", async () => {
  await using chain = await TuningChain.create({ mtu: 1400 })
  await chain.tuning.add()
  await chain.pod.exec("ip", ["link", "del", "eth0"]) // without a DEL
  await chain.pod.exec("ip", ["link", "add", "eth0", "mtu", "9000", "type", "veth", "peer", "other"])
  await chain.tuning.add()
  await chain.tuning.del()
  expect((await chain.link()).mtu).toBe(9000)
})

test("what the kernel does not take back is reported once, with the rest done, and DEL succeeds from then on", async () => {
  await using chain = await TuningChain.create(everything)
  const { address, mtu } = await chain.link()
  await chain.tuning.add()
  await chain.host.exec("mount", ["--bind", "/proc/sys", "/proc/sys"])
  await chain.host.exec("mount", ["-o", "remount,bind,ro", "/proc/sys"])
  const error = await fail(chain.tuning.run("DEL"))
  expect(error.msg).toContain("3 steps failed")
  for (const path of sysctlPaths) expect(error.msg).toContain(path)
  expect(error.details).toContain("EROFS")
  expect(await chain.link()).toMatchObject({ address, mtu })
  expect(await chain.backups()).toEqual([])
  await chain.tuning.del()
})

test.each([
  [
    "ip_unprivileged_port_start",
    "net/ipv4/ip_unprivileged_port_start",
    "0",
    "net/ipv4/ip_local_port_range",
    "500 60999",
  ],
  ["ipfrag_high_thresh", "net/ipv4/ipfrag_high_thresh", "8388608", "net/ipv4/ipfrag_low_thresh", "8388608"],
  ["the MTU of IPv6", "net/ipv6/conf/eth0/mtu", "1400", "net/ipv6/conf/eth0/mtu", "1300"],
])(
  "%s that a container has made impossible is a line on stderr, and the rest is set back",
  async (_, path, value, other, contradiction) => {
    await using chain = await TuningChain.create({ sysctl: { [path]: value, "net.ipv4.conf.eth0.arp_filter": "1" } })
    await chain.tuning.add()
    const attack = other === path ? "ip link set eth0 mtu 1300" : `echo ${contradiction} > /proc/sys/${other}`
    await chain.pod.exec("sh", ["-c", attack])
    const { stderr } = await succeed(chain.tuning.run("DEL"))
    expect(stderr).toContain(path)
    expect(stderr).toContain("EINVAL")
    expect(await chain.sysctl("net/ipv4/conf/eth0/arp_filter")).toBe("0")
    expect(await chain.backups()).toEqual([])
  },
)

test("a directory of one's own for the backups is used by all verbs", async () => {
  await using chain = await TuningChain.create({ mtu: 1400, dataDir: "/run/cni/elsewhere" })
  const result = await chain.tuning.add()
  expect(await chain.backups("/run/cni/elsewhere")).toHaveLength(1)
  expect(await chain.backups()).toEqual([])
  expect(await chain.tuning.check(result)).toMatchObject({ exitCode: 0 })
  await chain.tuning.del()
  expect(await chain.backups("/run/cni/elsewhere")).toEqual([])
  expect((await chain.link()).mtu).toBe(1500)
})
