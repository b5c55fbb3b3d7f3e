import { describe, expect, test } from "bun:test"
import { addressesOf, type Namespace, ping, waitFor } from "../lab/mod.ts"
import { startDhcpd, startDnsmasq } from "./servers.ts"
import { type LinkKind, Site } from "./site.ts"

// Cloud providers lease addresses with mask /32, or with a router in another network. The client must first add a route
// to the router on the link.

const router = "198.51.100.1"
const onLink = { dst: `${router}/32`, gw: "0.0.0.0", scope: 253 }
const byRouter = { dst: "0.0.0.0/0", gw: router }
const netmask32 = "--dhcp-option=option:netmask,255.255.255.255"
const range = "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m"

interface Listed {
  dst: string
  gateway?: string
  scope?: string
}

/** Returns the routes of a container's eth0 in the kernel's order. */
async function routesOf(pod: Namespace): Promise<Listed[]> {
  const routes = await pod.json<Listed[]>("ip", ["-4", "-j", "route", "show", "dev", "eth0"])
  return routes.map(({ dst, gateway, scope }) => ({
    dst,
    ...(gateway ? { gateway } : {}),
    ...(scope ? { scope } : {}),
  }))
}

/** Makes the server's machine a router with an address behind it. */
async function makeRouter(site: Site): Promise<void> {
  await site.server.exec("ip", ["address", "add", `${router}/32`, "dev", "eth0"])
  await site.server.exec("ip", ["address", "add", "203.0.113.9/32", "dev", "lo"])
}

const linkKinds: LinkKind[] = ["bridge", "macvlan"]

describe.each(linkKinds)("over %s", (linkKind) => {
  test.each([
    ["a mask of /32", [netmask32, `--dhcp-option=option:router,${router}`], "/32", [byRouter]],
    ["a router in another network", [`--dhcp-option=option:router,${router}`], "/24", [byRouter]],
    [
      "classless routes by such a router",
      [netmask32, `--dhcp-option=121,203.0.113.0/24,${router}`],
      "/32",
      [{ dst: "203.0.113.0/24", gw: router }],
    ],
    [
      "a fixed route by such a router",
      [netmask32, "--dhcp-option=option:router", `--dhcp-option=33,203.0.113.9,${router}`],
      "/32",
      [{ dst: "203.0.113.0/24", gw: router }],
    ],
    [
      "the route to the router among the classless ones, and last",
      [netmask32, `--dhcp-option=121,0.0.0.0/0,${router},${router}/32,0.0.0.0`],
      "/32",
      [byRouter],
    ],
  ])("a lease with %s is used", async (_, options, prefix, routes) => {
    await using site = await Site.create(linkKind)
    await makeRouter(site)
    await using server = await startDnsmasq(site.server, site.directory.path, [range, ...options])
    const { pod, attachment } = await site.attach({ request: [{ option: "33" }] })
    const result = await attachment.add()
    const address = result.ips[0]?.address ?? ""
    expect(address).toEndWith(prefix)
    expect(result.routes as object[]).toEqual([onLink, ...routes])
    expect(await addressesOf(pod, "eth0")).toEqual([address])
    expect(await routesOf(pod)).toContainEqual({ dst: router, scope: "link" })
    await site.server.exec("ip", ["route", "replace", `${address.split("/")[0]}/32`, "dev", "eth0"])
    expect(await ping(pod, "203.0.113.9")).toBe(true)
    expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    await pod.exec("ip", ["route", "del", `${router}/32`, "dev", "eth0"])
    const broken = await attachment.check(result)
    expect([broken.exitCode, broken.stdout]).toEqual([1, expect.stringContaining(`${router}/32`)])
    await attachment.del()
    await waitFor(async () => !(await server.leases()).includes(" 10.1.2."), "the lease to be given back")
  })
})

test("a version without scopes has such a lease used as well", async () => {
  await using site = await Site.create("bridge")
  await makeRouter(site)
  await using _server = await startDnsmasq(site.server, site.directory.path, [
    range,
    netmask32,
    `--dhcp-option=3,${router}`,
  ])
  const { pod, attachment } = await site.attach()
  attachment.config = { ...attachment.config, cniVersion: "0.2.0" }
  const { ip4 } = (await attachment.add()) as unknown as { ip4: object }
  expect(ip4).toMatchObject({ gateway: router, routes: [{ dst: `${router}/32`, gw: "0.0.0.0" }, byRouter] })
  expect(await routesOf(pod)).toEqual([
    { dst: "default", gateway: router },
    { dst: router, scope: "link" },
  ])
  await attachment.del()
})

test("a renewal that brings a router of another network changes the routes, also to one on the link again", async () => {
  await using site = await Site.create("bridge")
  const serve = async (address: string) => {
    const more = [`option routers ${address};`]
    return startDhcpd(site.server, site.path("dhcpd"), { more })
  }
  const first = await serve("10.1.2.1")
  const { pod, attachment } = await site.attach()
  await attachment.add()
  const network = { dst: "10.1.2.0/24", scope: "link" }
  expect(await routesOf(pod)).toEqual([{ dst: "default", gateway: "10.1.2.1" }, network])
  await first[Symbol.asyncDispose]()
  const second = await serve(router)
  await waitFor(async () => (await routesOf(pod))[0]?.gateway === router, "the other router")
  expect(await routesOf(pod)).toEqual([{ dst: "default", gateway: router }, network, { dst: router, scope: "link" }])
  await second[Symbol.asyncDispose]()
  await using _third = await serve("10.1.2.1")
  await waitFor(async () => (await routesOf(pod)).length === 2, "the route to that router to go")
  expect(await routesOf(pod)).toEqual([{ dst: "default", gateway: "10.1.2.1" }, network])
})
