import { expect, test } from "bun:test"
import { Attachment, builtPlugins, succeed, waitFor } from "../lab/mod.ts"
import { Running } from "./running.ts"
import { startDnsmasq } from "./servers.ts"
import { Site } from "./site.ts"

/** The directory of Debian's Go plugins, 1.1.1, which support versions up to 1.0.0. */
const theirs = "/usr/lib/cni"
const quick = ["-timeout", "1s", "-resendtimeout", "3s"]

/**
 * Creates a container with an interface in the server's network, and an attachment of only the plugin `dhcp` from
 * `bin`.
 */
async function standalone(site: Site, bin: string, socketPath: string): Promise<Attachment> {
  const pod = await site.host.addContainer()
  const port = `v${pod.name.slice(-8)}`
  await site.host.exec("ip", ["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", pod.name])
  await site.host.exec("ip", ["link", "set", port, "master", "br-lab", "up"])
  const ipam = { type: "dhcp", daemonSocketPath: socketPath, priority: 7, provide: [{ option: "12", fromArg: "HOST" }] }
  const config = { cniVersion: "1.0.0", name: "net", type: "dhcp", ipam }
  return new Attachment(site.host, pod, config, { bin: `${bin}/dhcp`, args: "HOST=a-name;OTHER=1" })
}

const options = ["--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m", "--dhcp-option=option:router,10.1.2.1"]

test.each([
  ["upstream's plugin by our daemon", theirs, builtPlugins],
  ["our plugin by upstream's daemon", builtPlugins, theirs],
  ["our plugin by our daemon", builtPlugins, builtPlugins],
])("%s: ADD, CHECK and DEL do what they do among their own", async (_, plugin, daemon) => {
  await using site = await Site.create("bridge", quick)
  await using server = await startDnsmasq(site.server, site.directory.path, options)
  const socketPath = daemon === theirs ? "/run/cni/theirs.sock" : "/run/cni/dhcp.sock"
  await using _daemon = daemon === theirs ? await startTheirs(site, socketPath) : undefined
  const attachment = await standalone(site, plugin, socketPath)
  const result = await attachment.add()
  const { ips, routes } = result
  expect(ips).toEqual([{ address: expect.stringMatching(/^10\.1\.2\.(5\d|60)\/24$/), gateway: "10.1.2.1" }])
  // The Go plugin 1.1.1 does not support `priority`.
  const priority = plugin === theirs || daemon === theirs ? {} : { priority: 7 }
  expect(routes).toEqual([{ dst: "0.0.0.0/0", gw: "10.1.2.1", ...priority }])
  await succeed(attachment.check(result))
  const [lease = ""] = (await server.leases()).split("\n")
  expect(lease).toContain(` ${ips[0]?.address.split("/")[0]} a-name 00:`) // both client identifiers begin with a zero byte
  await attachment.del()
  await attachment.del()
  if (daemon !== theirs) await waitFor(async () => (await server.leases()) === "", "the lease to be given back")
})

/** Starts the daemon of the Go plugin, which does not report that it is ready. */
async function startTheirs(site: Site, socketPath: string): Promise<Running> {
  const script = '(while ! [ -S "$1" ]; do sleep 0.05; done; echo ready) & exec "$0" daemon -socketpath "$1"'
  return Running.start(site.host, ["sh", "-c", script, `${theirs}/dhcp`, socketPath], /ready/)
}

test("both tell an error of the other in the same words", async () => {
  await using site = await Site.create("bridge", quick)
  const attachment = await standalone(site, theirs, "/run/cni/dhcp.sock")
  const failed = await attachment.run("ADD")
  expect((failed.json as { msg: string }).msg).toMatch(
    /^error calling DHCP\.Allocate: no more tries: no OFFER in 3 s on "eth0"/,
  )
  await using _daemon = await startTheirs(site, "/run/cni/theirs.sock")
  const ours = await standalone(site, builtPlugins, "/run/cni/theirs.sock")
  const missing = await ours.run("ADD", {}, { ifName: "absent" })
  expect((missing.json as { msg: string }).msg).toBe(
    'error calling DHCP.Allocate: error looking up "absent": Link not found',
  )
  await succeed(ours.run("GC", { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] }))
  await succeed(ours.run("STATUS", { cniVersion: "1.1.0" }))
})
