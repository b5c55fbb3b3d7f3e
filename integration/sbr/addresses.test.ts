import { expect, test } from "bun:test"
import { Attachment, bridgeNetwork, HostNamespace, newest, succeed, waitFor } from "../lab/mod.ts"

const ranges = [[{ subnet: "10.2.0.0/16" }], [{ subnet: "10.3.0.0/16" }], [{ subnet: "fd00:2::/64" }]]
const network = { name: "b", bridge: "br-b", isDefaultGateway: true, ipam: { type: "host-local", ranges } }

/** Creates a container with two IPv4 addresses and an IPv6 address on an interface, and an attachment of sbr. */
async function withAddresses(keys: object = {}) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const maker = new Attachment(host, pod, bridgeNetwork(network))
  const prevResult = await maker.add()
  const sbr = new Attachment(host, pod, { cniVersion: newest, name: "b", type: "sbr", prevResult, ...keys })
  const gatewayOf = async (table: number, family = "-4") => {
    const shown = ["-j", family, "route", "show", "default", "table", String(table)]
    const [route] = await pod.json<{ gateway: string }[]>("ip", shown)
    return route?.gateway
  }
  return { host, pod, maker, prevResult, sbr, gatewayOf }
}

test("each address has a table with its own gateway, and the plugin before finds its routes where they are", async () => {
  const { host, pod, maker, prevResult, sbr, gatewayOf } = await withAddresses()
  await using _ = host
  await sbr.add()
  const { stdout } = await pod.exec("sh", ["-c", "ip rule; ip -6 rule"])
  const rules = stdout.match(/from \S+ lookup \d+/g)
  expect(rules?.sort()).toEqual(["from 10.2.0.2 lookup 100", "from 10.3.0.2 lookup 101", "from fd00:2::2 lookup 102"])
  expect([await gatewayOf(100), await gatewayOf(101), await gatewayOf(102, "-6")]).toEqual([
    "10.2.0.1",
    "10.3.0.1",
    "fd00:2::1",
  ])
  for (const net of ["10.2.0.", "10.3.0.", "fd00:2::"]) {
    const from = ["-c", "1", "-W", "1", "-I", `${net}2`, `${net}1`]
    await waitFor(async () => (await pod.tryExec("ping", from)).exitCode === 0, `${net}1 to answer`)
  }
  for (const attachment of [sbr, maker]) await succeed(attachment.check(prevResult))
  await sbr.del()
  await succeed(maker.check(prevResult))
})

test("#26, #27 CHECK of bridge misses a route that sbr has moved when it is gone from there, too", async () => {
  const { host, pod, maker, prevResult, sbr } = await withAddresses()
  await using _ = host
  await sbr.add()
  for (const table of ["100", "101"]) await pod.exec("ip", ["route", "del", "default", "table", table])
  // The address of another link is not the interface's.
  await pod.exec("sh", ["-c", "ip link add other up type bridge && ip route add default dev other table 300"])
  expect((await maker.check(prevResult)).stdout).toContain("Check of routes failed: expected default")
})

test("a gateway of the configuration is for the addresses of its network; for all, where it lies in none", async () => {
  const { host, prevResult, sbr, gatewayOf } = await withAddresses({ gateways: ["10.3.0.99"] })
  await using _ = host
  await sbr.add()
  expect([await gatewayOf(100), await gatewayOf(101), await gatewayOf(102, "-6")]).toEqual([
    "10.2.0.1",
    "10.3.0.99",
    "fd00:2::1",
  ])
  await succeed(sbr.check(prevResult))
})

test("a route by two gateways of the interface is moved as a whole, and comes back as one", async () => {
  const { host, pod, sbr } = await withAddresses()
  await using _ = host
  const hops = ["nexthop", "via", "10.2.0.1", "dev", "eth0", "nexthop", "via", "10.3.0.1", "dev", "eth0"]
  await pod.exec("ip", ["route", "replace", "10.50.0.0/16", ...hops])
  const shown = async (table: string) =>
    (await pod.exec("ip", ["route", "show", "10.50.0.0/16", "table", table])).stdout
  const before = await shown("main")
  await sbr.add()
  expect(await shown("main")).toBe("")
  expect(await shown("100")).toContain("nexthop via 10.3.0.1")
  await sbr.del()
  expect(await shown("main")).toBe(before)
})

test.each(["Go", "ours"])(
  "the rules of sbr that one suite has made go by the other's DEL: made by %s",
  async (first) => {
    const { host, pod, prevResult, sbr } = await withAddresses()
    await using _ = host
    const old = { cniVersion: "1.0.0", prevResult: { ...prevResult, cniVersion: "1.0.0" } }
    const go = new Attachment(host, pod, { ...sbr.config, ...old }, { bin: "/usr/lib/cni/sbr" })
    const [maker, remover] = first === "Go" ? [go, sbr] : [sbr, go]
    await maker.add()
    expect((await pod.exec("ip", ["rule"])).stdout).toContain("from 10.2.0.2 lookup 100")
    await remover.del()
    expect((await pod.exec("sh", ["-c", "ip rule; ip -6 rule"])).stdout).not.toMatch(/lookup 1\d\d/)
  },
)
