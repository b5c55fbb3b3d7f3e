import { expect, test } from "bun:test"
import { join } from "node:path"
import { addressesOf, extent, pingOnce, waitFor } from "../lab/mod.ts"
import { Running } from "./running.ts"
import { Site } from "./site.ts"

const frames = extent(3000, 100_000)

/** Runs `server.fixture.ts` on the server's machine. */
function startServer(site: Site, ...args: string[]): Promise<Running> {
  const program = join(import.meta.dir, "server.fixture.ts")
  return Running.start(site.server, [process.execPath, program, ...args], /listening/)
}

test("a server that sends thousands of frames that are wrong, or nearly right, keeps no client from its lease [S73]", async () => {
  await using site = await Site.create("bridge", ["-timeout", "20s"])
  await using server = await startServer(site, "hostile", String(frames))
  const { pod, attachment } = await site.attach()
  const result = await attachment.add()
  expect(result.ips).toMatchObject([{ gateway: "10.1.2.1" }])
  expect(await addressesOf(pod, "eth0")).toEqual(["10.1.2.77/24"])
  expect(JSON.stringify(result)).not.toContain("6.6.6.6")
  await server.waitFor(/answered 2\nanswered 5/)
  expect(server.count(/answered/)).toBe(2)
  await attachment.del()
  expect(site.daemon.text).not.toMatch(/Error|undefined|at .*\.ts/)
})

test("a renewal that brings another address takes the old one off the interface, and keeps the routes", async () => {
  await using site = await Site.create("bridge")
  await using _server = await startServer(site, "moving")
  const { pod, attachment } = await site.attach()
  await attachment.add()
  const routes = () => pod.exec("ip", ["-4", "route", "show"])
  const before = (await routes()).stdout
  expect(await addressesOf(pod, "eth0")).toEqual(["10.1.2.77/24"])
  await waitFor(async () => (await addressesOf(pod, "eth0")).join() === "10.1.2.78/24", "the other address")
  await waitFor(async () => (await routes()).stdout === before.replace("10.1.2.77", "10.1.2.78"), "the same routes")
  await waitFor(() => pingOnce(pod, "10.1.2.1"), "the server's machine to answer")
})

test("an answer that is longer than any that was asked for is not taken [S76]", async () => {
  await using site = await Site.create("bridge", ["-timeout", "20s"])
  for (const link of ["up0", "br-lab"]) await site.host.exec("ip", ["link", "set", link, "mtu", "9000"])
  await site.server.exec("ip", ["link", "set", "eth0", "mtu", "9000"])
  await using _server = await startServer(site, "giant")
  const { pod, attachment } = await site.attach()
  await attachment.add({ mtu: 9000 })
  expect(await addressesOf(pod, "eth0")).toEqual(["10.1.2.77/24"])
})

test("an MTU and a route that the kernel refuses keep no container from its new address and its other routes [S74]", async () => {
  await using site = await Site.create("macvlan")
  await using _server = await startServer(site, "refusing")
  const { pod, attachment } = await site.attach()
  await attachment.add()
  await site.daemon.waitFor(/lost 10.1.2.77\/24: NAK/)
  await waitFor(async () => (await addressesOf(pod, "eth0")).join() === "10.1.2.77/24", "the address")
  const routes = () => pod.exec("ip", ["-4", "route", "show", "default"])
  await waitFor(async () => (await routes()).stdout.trim() === "default via 10.1.2.1 dev eth0", "the default route")
  await site.daemon.waitFor(/Cannot set the MTU; Cannot add a route/)
})
