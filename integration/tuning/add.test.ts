import { expect, test } from "bun:test"
import {
  Attachment,
  fail,
  HostNamespace,
  newest,
  type PluginResult,
  readSysctl,
  runTraced,
  succeed,
} from "../lab/mod.ts"
import { everything, linkOf, TuningChain } from "./chain.ts"

test("#11 every setting is in the kernel, MAC and MTU are in the result, and nothing else of it changed", async () => {
  await using chain = await TuningChain.create(everything)
  const result = await chain.tuning.add()
  const eth0 = await chain.link()
  expect(eth0).toMatchObject({ address: "0a:00:00:00:00:07", mtu: 1400, txqlen: 77, promiscuity: 1 })
  expect(eth0.flags).toContainValues(["PROMISC", "ALLMULTI"])
  expect(await chain.sysctl("net/ipv4/conf/eth0/arp_filter")).toBe("1")
  expect(await chain.sysctl("net/core/somaxconn")).toBe("500")
  expect(await chain.sysctl("net/ipv4/tcp_rmem")).toBe("4096\t8192\t16384")
  const [bridge, port, container] = chain.bridged.interfaces
  expect(result).toEqual({
    ...chain.bridged,
    interfaces: [
      { name: "br-lab", mac: bridge?.mac ?? "", mtu: 1500 },
      { name: chain.port, mac: port?.mac ?? "", mtu: 1500 },
      { ...container, name: "eth0", mac: "0a:00:00:00:00:07", mtu: 1400 },
    ],
  })
})

test("a sysctl is read, written and read again; one after it is read once more, since it may go with the first", async () => {
  await using chain = await TuningChain.create({
    sysctl: { "net.core.somaxconn": "500", "net.ipv4.conf.IFNAME.arp_filter": "1" },
  })
  const { output, text } = await runTraced(chain.tuning, "ADD", ["trace=openat"])
  expect(output).toMatchObject({ exitCode: 0 })
  const opened = (name: string) =>
    [...text.matchAll(new RegExp(`/${name}", O_(RDONLY|WRONLY)`, "g"))].map(([, how]) => how)
  expect(opened("somaxconn")).toEqual(["RDONLY", "WRONLY", "RDONLY"])
  expect(opened("arp_filter")).toEqual(["RDONLY", "RDONLY", "WRONLY", "RDONLY"])
})

test("a smaller MTU is the container's alone where the host's end is a port: bridge, host and neighbors keep theirs", async () => {
  await using chain = await TuningChain.create({ mtu: 1400 })
  const { host, port } = chain
  const [before, bridge] = [await linkOf(host, port), await linkOf(host, "br-lab")]
  const { interfaces } = await chain.tuning.add()
  expect((await chain.link()).mtu).toBe(1400)
  expect(await linkOf(host, port)).toEqual(before)
  expect(await linkOf(host, "br-lab")).toEqual(bridge)
  expect(interfaces.map(({ mtu }) => mtu)).toEqual([1500, 1500, 1400])
  await chain.tuning.del()
  expect([(await chain.link()).mtu, (await linkOf(host, port)).mtu]).toEqual([1500, 1500])
})

test("a smaller MTU is that of both ends where the host's is not a port, and nothing else of that changes", async () => {
  await using chain = await TuningChain.create({ mtu: 1400, txQLen: 77, mac: "0a:00:00:00:00:07" })
  await chain.host.exec("ip", ["link", "set", chain.port, "nomaster"])
  const before = await linkOf(chain.host, chain.port)
  const { interfaces } = await chain.tuning.add()
  expect(await linkOf(chain.host, chain.port)).toEqual({ ...before, mtu: 1400 })
  expect(interfaces.map(({ mtu }) => mtu)).toEqual([1500, 1400, 1400])
})

test("a larger MTU is that of both ends, or nothing that large would pass, and the bridge may follow", async () => {
  await using chain = await TuningChain.create({ mtu: 9000 })
  const { interfaces } = await chain.tuning.add()
  const found = [await linkOf(chain.host, "br-lab"), await linkOf(chain.host, chain.port), await chain.link()]
  expect(found.map(({ mtu }) => mtu)).toEqual([9000, 9000, 9000])
  expect(interfaces.map(({ mtu }) => mtu)).toEqual([9000, 9000, 9000])
})

test("a pair that ends in a third namespace is changed at the container's end alone, also when a link here has its index", async () => {
  await using host = await HostNamespace.create()
  const [pod, third] = [await host.addContainer(), await host.addContainer("third")]
  // Both ends have index 9, and so does the container's end of a veth pair of this host.
  const other = await host.addContainer("other")
  const pair = (peer: string) => "link add x0 index 9 type veth peer name eth0 index 9 netns".split(" ").concat(peer)
  await third.exec("ip", pair(pod.name))
  await host.exec("ip", pair(other.name))
  const prevResult = { interfaces: [{ name: "eth0", sandbox: pod.path }], ips: [] }
  const config = { cniVersion: newest, name: "lab", type: "tuning", mtu: 1400, prevResult }
  const attachment = new Attachment(host, pod, config)
  await attachment.add()
  expect((await linkOf(pod, "eth0")).mtu).toBe(1400)
  expect([(await linkOf(third, "x0")).mtu, (await linkOf(host, "x0")).mtu]).toEqual([1500, 1500])
  await attachment.del()
  expect((await linkOf(pod, "eth0")).mtu).toBe(1500)
})

test("a link of another kind is tuned as well", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
  const prevResult = { interfaces: [{ name: "eth0", mac: "aa:aa:aa:aa:aa:aa", sandbox: pod.path }], ips: [] }
  const config = { cniVersion: newest, name: "lab", type: "tuning", mtu: 1400, mac: "0a:00:00:00:00:07", prevResult }
  const { interfaces } = await new Attachment(host, pod, config).add()
  expect(interfaces).toEqual([{ name: "eth0", mac: "0a:00:00:00:00:07", mtu: 1400, sandbox: pod.path }])
  expect(await linkOf(pod, "eth0")).toMatchObject({ mtu: 1400, address: "0a:00:00:00:00:07" })
})

test("sysctls are the container's: the host's own stay", async () => {
  await using chain = await TuningChain.create({ sysctl: { "net.ipv4.ip_default_ttl": "31" } })
  const before = await readSysctl(chain.host, "net/ipv4/ip_default_ttl")
  await chain.tuning.add()
  expect(await chain.sysctl("net/ipv4/ip_default_ttl")).toBe("31")
  expect(await readSysctl(chain.host, "net/ipv4/ip_default_ttl")).toBe(before)
})

test.each([
  ["net.ipv4.conf.IFNAME.arp_filter"],
  ["net/ipv4/conf/IFNAME/arp_filter"],
  ["net.ipv4.conf.eth0/5.arp_filter"],
  ["net/ipv4/conf/eth0.5/arp_filter"],
])("the interface eth0.5 is found by %s", async (key) => {
  await using chain = await TuningChain.create({ sysctl: { [key]: "1" } }, { ifName: "eth0.5" })
  await chain.tuning.add()
  expect(await chain.sysctl("net/ipv4/conf/eth0.5/arp_filter")).toBe("1")
  expect(await chain.sysctl("net/ipv4/conf/all/arp_filter")).toBe("0")
})

test("separators may be mixed, as for upstream", async () => {
  await using chain = await TuningChain.create({ sysctl: { "net.ipv4/conf.IFNAME/arp_filter": "1" } })
  await chain.tuning.add()
  expect(await chain.sysctl("net/ipv4/conf/eth0/arp_filter")).toBe("1")
})

test("sysctls are set in the order in which they are written", async () => {
  // The last setting wins: ip_forward sets the forwarding of every interface.
  const [all, one] = ["net.ipv4.ip_forward", "net.ipv4.conf.IFNAME.forwarding"]
  await using chain = await TuningChain.create({ sysctl: { [all]: "1", [one]: "0" } })
  await chain.tuning.add()
  expect(await chain.sysctl("net/ipv4/conf/eth0/forwarding")).toBe("0")
  await using other = await TuningChain.create({ sysctl: { [one]: "0", [all]: "1" } })
  await other.tuning.add()
  expect(await other.sysctl("net/ipv4/conf/eth0/forwarding")).toBe("1")
})

test("a sysctl that can only be written is written", async () => {
  await using chain = await TuningChain.create({ sysctl: { "net.ipv4.route.flush": "1" } })
  const result = await chain.tuning.add()
  expect(await chain.tuning.check(result)).toMatchObject({ exitCode: 0 })
  await chain.tuning.del()
})

test("args.cni.sysctl without sysctl at the top is set", async () => {
  await using chain = await TuningChain.create({ args: { cni: { sysctl: { "net.core.somaxconn": "77" } } } })
  await chain.tuning.add()
  expect(await chain.sysctl("net/core/somaxconn")).toBe("77")
})

test("a MAC in capitals or with dashes is applied, and answered as the kernel has it", async () => {
  await using chain = await TuningChain.create({ mac: "0A-58-0A-01-02-03" })
  const { interfaces } = await chain.tuning.add()
  expect(interfaces[2]?.mac).toBe("0a:58:0a:01:02:03")
  expect((await chain.link()).address).toBe("0a:58:0a:01:02:03")
})

test("an interface of the host with the container's name keeps its MAC in the result", async () => {
  await using chain = await TuningChain.create({ mac: "0a:00:00:00:00:07" })
  const [bridge, ...others] = chain.bridged.interfaces
  const prevResult = { ...chain.bridged, interfaces: [{ ...bridge, name: "eth0" }, ...others] }
  const { interfaces } = await chain.tuning.add({ prevResult })
  expect(interfaces.map(({ mac }) => mac)).toEqual([bridge?.mac ?? "", others[0]?.mac ?? "", "0a:00:00:00:00:07"])
})

test.each([
  ["the configuration", { mac: "0a:00:00:00:00:01" }, ""],
  ["CNI_ARGS", { mac: "0a:00:00:00:00:09" }, "IgnoreUnknown=true;MAC=0a:00:00:00:00:01"],
  ["runtimeConfig", { RuntimeConfig: { Mac: "0a:00:00:00:00:01" } }, "MAC=0a:00:00:00:00:09"],
  ["args.cni", { args: { cni: { mac: "0a:00:00:00:00:01" } }, runtimeConfig: { mac: "0a:00:00:00:00:09" } }, ""],
])("a MAC of %s is set, and after DEL the old one is back", async (_, keys, args) => {
  await using chain = await TuningChain.create(keys, { args })
  const { address } = await chain.link()
  expect(((await succeed(chain.tuning.run("ADD"))).json as PluginResult).interfaces[2]?.mac).toBe("0a:00:00:00:00:01")
  expect((await chain.link()).address).toBe("0a:00:00:00:00:01")
  await chain.tuning.del()
  expect((await chain.link()).address).toBe(address)
})

test("settings of args.cni are applied, and undone by DEL", async () => {
  await using chain = await TuningChain.create({
    args: { cni: { mtu: 1400, promisc: true, allmulti: true, txQLen: 7 } },
  })
  const before = await chain.link()
  await chain.tuning.add()
  const tuned = await chain.link()
  expect(tuned).toMatchObject({ mtu: 1400, txqlen: 7 })
  expect(tuned.flags).toContainValues(["PROMISC", "ALLMULTI"])
  await chain.tuning.del()
  expect(await chain.link()).toEqual(before)
})

test("allmulti is switched off as well as on; promisc is never switched off", async () => {
  await using chain = await TuningChain.create({ allmulti: false, promisc: false })
  await chain.pod.exec("ip", ["link", "set", "eth0", "allmulticast", "on", "promisc", "on"])
  await chain.tuning.add()
  const { flags } = await chain.link()
  expect(flags).not.toContain("ALLMULTI")
  expect(flags).toContain("PROMISC")
  await chain.tuning.del()
  expect((await chain.link()).flags).toContain("ALLMULTI")
})

test("without a setting the result passes through, and there is no backup", async () => {
  await using chain = await TuningChain.create()
  expect(await chain.tuning.add()).toEqual(chain.bridged)
  expect(await chain.backups()).toEqual([])
  await chain.tuning.del()
})

test("the backup holds what was there, with upstream's keys, for root alone", async () => {
  await using chain = await TuningChain.create(everything)
  const before = await chain.link()
  await chain.tuning.add()
  expect(await chain.backups()).toEqual([`lab:${chain.pod.name}:eth0.json`])
  const { mac, promisc, mtu, allmulti, txQLen } = await chain.backup()
  expect({ mac, promisc, mtu, allmulti, txQLen }).toEqual({
    mac: before.address,
    promisc: false,
    mtu: before.mtu,
    allmulti: false,
    txQLen: before.txqlen,
  })
  const { stdout } = await chain.host.exec("stat", ["-c", "%a", `/run/cni/tuning/lab:${chain.pod.name}:eth0.json`])
  expect(stdout).toBe("600\n")
})

test("without prevResult ADD says what is missing", async () => {
  await using chain = await TuningChain.create({ mtu: 1400 })
  const error = await fail(chain.tuning.run("ADD", { prevResult: undefined }))
  expect(error).toMatchObject({ code: 7, msg: expect.stringContaining("Required prevResult missing") })
})

test.each(["0.1.0", "0.2.0", undefined])("version %s has no chains, but what it has is tuned", async (cniVersion) => {
  await using chain = await TuningChain.create({ cniVersion, mtu: 1400 })
  const prevResult = { cniVersion, ip4: { ip: "10.1.0.5/24" } }
  const result: unknown = await chain.tuning.add({ prevResult })
  expect(result).toEqual({ cniVersion: cniVersion ?? "0.1.0", ip4: { ip: "10.1.0.5/24" }, dns: {} })
  expect((await chain.link()).mtu).toBe(1400)
  await chain.tuning.del({ prevResult: undefined })
  expect((await chain.link()).mtu).toBe(1500)
})
