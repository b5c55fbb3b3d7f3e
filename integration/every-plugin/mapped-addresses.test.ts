import { expect, test } from "bun:test"
import {
  Attachment,
  addressesOf,
  askEcho,
  builtPlugins,
  EchoPeer,
  fail,
  HostNamespace,
  newest,
  type PluginResult,
  ping,
  runPlugin,
  succeed,
} from "../lab/mod.ts"
import { hostAddresses, testEach } from "../portmap/portmap-lab.ts"

// Every plugin treats an IPv4-mapped address ("::ffff:10.1.0.2", RFC 4291, 2.5.5.2) as the IPv4 address.

/** The directory of Debian's Go plugins, which define the expected results. */
const theirs = "/usr/lib/cni"

/** Returns four IPv6 spellings of an IPv4 address. */
function spellings(ip: string): string[] {
  const [a = "", b = "", c = "", d = ""] = ip.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0"))
  return [`::ffff:${ip}`, `::ffff:${a}${b}:${c}${d}`, `0:0:0:0:0:ffff:${ip}`, `0000::FFFF:${a}${b}:${c}${d}`]
}

/** Returns a copy of a result with every IPv4 address written as an IPv4-mapped address. */
function mapped<R extends object>(result: R): R {
  const written = JSON.stringify(result).replace(
    /"(\d+\.\d+\.\d+\.\d+)(?:\/(\d+))?"/g,
    (_, ip, prefix) => `"::ffff:${ip}${prefix === undefined ? "" : `/${Number(prefix) + 96}`}"`,
  )
  return JSON.parse(written)
}

const staticNetwork = {
  cniVersion: "1.0.0",
  name: "lab",
  type: "bridge",
  bridge: "br-lab",
  isGateway: true,
  ipam: {
    type: "static",
    addresses: [{ address: "10.44.0.7/24", gateway: "10.44.0.1" }],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "198.51.100.0/24", gw: "10.44.0.9" }],
  },
}

test("static answers what the Go plugin answers: IPv4", async () => {
  await using host = await HostNamespace.create()
  const answer = async (directory: string, config: object, args = "") => {
    const call = { bin: `${directory}/static`, verb: "ADD", containerId: "c1", ifName: "eth0", netns: "/n" } as const
    const { json } = await succeed(runPlugin(host, { ...call, config, args }))
    const { ips, routes } = json as PluginResult
    return { ips: ips.map(({ address, gateway }) => ({ address, gateway })), routes }
  }
  const plain = { address: "10.44.0.7/24", gateway: "10.44.0.1" }
  for (const [at, ip] of spellings("10.44.0.7").entries()) {
    const gateway = spellings("10.44.0.1")[at] ?? ""
    const one = {
      ...mapped(staticNetwork),
      ipam: { ...mapped(staticNetwork.ipam), addresses: [{ address: `${ip}/120`, gateway }] },
    }
    const found = await answer(builtPlugins, one)
    expect(found).toEqual({ ips: [plain], routes: staticNetwork.ipam.routes as never })
    expect(found).toEqual(await answer(theirs, one))
    const none = { ...one, ipam: { type: "static", addresses: [] } }
    const asked = `IP=${ip}/120;GATEWAY=${gateway}`
    expect(await answer(builtPlugins, none, asked)).toEqual({ ips: [plain], routes: undefined })
    expect(await answer(builtPlugins, none, asked)).toEqual(await answer(theirs, none, asked))
    for (const more of [{ runtimeConfig: { ips: [`${ip}/120`] } }, { args: { cni: { ips: [`${ip}/120`] } } }]) {
      const wished = await answer(builtPlugins, { ...none, ...more })
      expect(wished.ips).toEqual([{ address: plain.address, gateway: undefined }])
      expect(wished).toEqual(await answer(theirs, { ...none, ...more }))
    }
  }
})

test("host-local's ranges, gateways, routes and requested addresses are IPv4", async () => {
  await using host = await HostNamespace.create()
  const range = { subnet: "10.44.0.0/24", rangeStart: "10.44.0.5", rangeEnd: "10.44.0.9", gateway: "10.44.0.3" }
  const ipam = { type: "host-local", ranges: [[range]], routes: staticNetwork.ipam.routes }
  const call = { bin: `${builtPlugins}/host-local`, ifName: "eth0", netns: "/n" } as const
  const config = mapped({ cniVersion: newest, name: "lab", ipam })
  const first = await succeed(runPlugin(host, { ...call, verb: "ADD", containerId: "c1", config }))
  const ips = [{ address: "10.44.0.5/24", gateway: "10.44.0.3" }]
  expect(first.json).toMatchObject({ ips, routes: ipam.routes })
  const asked = { ...config, runtimeConfig: { ips: spellings("10.44.0.8").slice(1, 2) } }
  const second = await succeed(runPlugin(host, { ...call, verb: "ADD", containerId: "c2", config: asked }))
  expect(second.json).toMatchObject({ ips: [{ address: "10.44.0.8/24" }] })
  const { stdout } = await host.exec("ls", ["/var/lib/cni/networks/lab"])
  expect(stdout.split("\n").filter((name) => /^[0-9:]/.test(name))).toEqual(["10.44.0.5", "10.44.0.8"])
})

test("an interface gets IPv4 addresses and routes, its bridge the gateway, and CHECK agrees", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, mapped({ ...staticNetwork, ipMasq: true, isDefaultGateway: true }))
  const result = await attachment.add()
  expect(await addressesOf(pod, "eth0")).toEqual(["10.44.0.7/24"])
  expect(await addressesOf(host, "br-lab")).toContain("10.44.0.1/24")
  expect(await ping(pod, "10.44.0.1")).toBe(true)
  type Listed = { dst: string; gateway?: string }
  const routes = await pod.json<Listed[]>("ip", ["-4", "-j", "route", "show", "dev", "eth0"])
  expect(routes.map(({ dst, gateway }) => [dst, gateway])).toEqual([
    ["default", "10.44.0.1"],
    ["10.44.0.0/24", undefined],
    ["198.51.100.0/24", "10.44.0.9"],
  ])
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain("table ip6")
  expect(await attachment.check(mapped(result))).toMatchObject({ exitCode: 0, stdout: "" })
  await attachment.del({ prevResult: mapped(result) })
})

test("firewall and sbr take the addresses of prevResult and their own for IPv4", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const config = { ...staticNetwork, ipam: { ...staticNetwork.ipam, routes: [] } }
  const prevResult = mapped(await new Attachment(host, pod, config).add())
  await succeed(new Attachment(host, pod, { ...config, type: "firewall", prevResult }).run("ADD"))
  const { stdout } = await host.exec("nft", ["list", "ruleset"])
  expect(stdout).toMatch(/elements = \{ 10\.44\.0\.7 /)
  expect(stdout).not.toContain("::ffff")
  const gateways = [spellings("10.44.0.1")[1] ?? ""]
  await succeed(new Attachment(host, pod, { ...config, type: "sbr", gateways, prevResult }).run("ADD"))
  const rules = await pod.json<{ src: string; table: string }[]>("ip", ["-4", "-j", "rule"])
  const { table = "" } = rules.find(({ src }) => src === "10.44.0.7") ?? {}
  expect(await pod.json<object[]>("ip", ["-4", "-j", "route", "show", "default", "table", table])).toMatchObject([
    { dst: "default", gateway: "10.44.0.1" },
  ])
})

test("a network that has other addresses besides the mapped ones is refused", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ipam = { type: "static", addresses: [{ address: "::ffff:10.44.0.7/64" }] }
  const error = await fail(new Attachment(host, pod, { ...staticNetwork, ipam }).run("ADD"))
  expect(error).toMatchObject({ code: 7, msg: expect.stringContaining("::ffff:10.44.0.7/64") })
  const prevResult = { cniVersion: "1.0.0", interfaces: [], ips: [{ address: "::ffff:10.44.0.7/64" }] }
  const chained = await fail(new Attachment(host, pod, { ...staticNetwork, type: "firewall", prevResult }).run("ADD"))
  expect(chained.details).toContain('"ips[0].address"')
})

testEach(
  "every spelling of hostIP maps a port of IPv4, to the address of a prevResult in any spelling",
  async (lab) => {
    const pod = await lab.addPod({ isIpv4Only: true })
    await using peer = await EchoPeer.start(pod.namespace)
    const mappings = spellings(hostAddresses.ip).map((hostIP, at) => ({
      hostPort: 8080 + at,
      containerPort: peer.port,
      protocol: "tcp" as const,
      hostIP,
    }))
    const prevResult = mapped(pod.result)
    await succeed(pod.map(mappings, { prevResult }))
    for (const { hostPort: port } of mappings) {
      const { from } = await askEcho(lab.outside, { transport: "tcp", address: hostAddresses.ip, port })
      expect(from.address).toBe("203.0.113.9")
    }
    const rules = await lab.rules()
    expect(rules).toContain(pod.ip)
    expect(rules.replace(/^table ip6 .*|^:.*|^\*.*/gm, "")).not.toContain("::")
  },
)
