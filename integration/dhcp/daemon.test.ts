import { expect, test } from "bun:test"
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import {
  Attachment,
  builtPlugins,
  type ContainerNamespace,
  fail,
  HostNamespace,
  newest,
  runPlugin,
  succeed,
  TemporaryDirectory,
  waitFor,
} from "../lab/mod.ts"
import { Running } from "./running.ts"
import { type Server, startDnsmasq } from "./servers.ts"
import { Site, startDaemon } from "./site.ts"

const quick = ["-timeout", "1s"]
const addressOf = (result: { ips: { address: string }[] }) => result.ips[0]?.address.split("/")[0] ?? ""
/** Server options with which the client renews a lease of two minutes every two seconds. */
const renewing = [
  "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m",
  "--dhcp-option=option:T2,3", // dnsmasq then sets T1 to two seconds
]

/** Creates a site with dnsmasq as server. */
async function siteWithServer(options?: readonly string[]): Promise<{ site: Site; server: Server } & AsyncDisposable> {
  const site = await Site.create("bridge", quick)
  const server = await startDnsmasq(site.server, site.directory.path, options)
  return {
    site,
    server,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await site[Symbol.asyncDispose]()
    },
  }
}

/** Kills the daemon without cleanup, and starts another daemon, which finds the socket of the first. */
async function restart(site: Site): Promise<void> {
  await site.daemon.end("SIGKILL")
  site.daemon = await startDaemon(site.host, quick)
}

const leasesAt = async (server: Server) => (await server.leases()).split("\n").filter((line) => line !== "")
const released = (server: Server) =>
  waitFor(async () => (await leasesAt(server)).length === 0, "the server to have no lease")

test("a killed daemon's leases are renewed by the next one, which takes over its socket", async () => {
  await using lab = await siteWithServer(renewing)
  const { attachment } = await lab.site.attach()
  const result = await attachment.add()
  await restart(lab.site)
  expect(lab.site.daemon.text).toContain("1 leases resumed")
  const before = lab.server.running.count(/DHCPACK/)
  await waitFor(() => lab.server.running.count(/DHCPACK/) >= before + 2, "two renewals")
  expect((await attachment.check(result)).exitCode).toBe(0)
  await attachment.del()
  await released(lab.server)
})

test("cni dhcp ls shows the lease as the daemon has it, and when its namespace no longer exists", async () => {
  await using lab = await siteWithServer()
  const { pod, attachment } = await lab.site.attach()
  const result = await attachment.add()
  const list = async () => {
    const { stdout } = await lab.site.host.exec(join(builtPlugins, "../cni"), ["dhcp", "ls", "net", "--json"])
    return JSON.parse(stdout)
  }
  const [shown, ...others] = await list()
  expect(others).toEqual([])
  const about = { network: "net", containerId: pod.name, ifName: "eth0", state: "bound", alive: true }
  expect(shown).toMatchObject({ ...about, address: result.ips[0]?.address, server: "10.1.2.1" })
  const times = [shown.renewAt, shown.rebindAt, shown.expiresAt].map((text) => Date.parse(text) - Date.now())
  expect(times).toEqual([...times].sort((a, b) => a - b))
  expect(times[0]).toBeGreaterThan(30_000)
  expect(times[2]).toBeLessThan(121_000) // dnsmasq's lease of two minutes
  await lab.site.host.removeContainer(pod)
  expect(await list()).toMatchObject([{ alive: false }])
})

test("DEL gives the lease back to the server also when no daemon runs", async () => {
  await using lab = await siteWithServer()
  const { attachment } = await lab.site.attach()
  await attachment.add()
  await lab.site.daemon.end("SIGKILL")
  expect(await leasesAt(lab.server)).toHaveLength(1)
  await attachment.del()
  await released(lab.server)
  await attachment.del() // a repeated DEL succeeds
})

test("two ADDs for one key at the same time are one lease, and so is a third one later", async () => {
  await using lab = await siteWithServer()
  const { pod } = await lab.site.attach()
  await lab.site.host.exec("ip", ["link", "add", "vpod", "type", "veth", "peer", "name", "eth0", "netns", pod.name])
  await lab.site.host.exec("ip", ["link", "set", "vpod", "master", "br-lab", "up"])
  const alone = new Attachment(lab.site.host, pod, {
    cniVersion: newest,
    name: "net",
    type: "dhcp",
    ipam: { type: "dhcp" },
  })
  const results = await Promise.all([alone.add(), alone.add()])
  results.push(await alone.add())
  expect(new Set(results.map(addressOf)).size).toBe(1)
  expect(await leasesAt(lab.server)).toHaveLength(1)
  expect(lab.server.running.count(/DHCPREQUEST\(/)).toBe(1)
  await alone.del()
  await released(lab.server)
})

test("CHECK says what is not so, and leases nothing; STATUS wants a daemon", async () => {
  await using lab = await siteWithServer()
  const { site, server } = lab
  const { pod, attachment } = await site.attach()
  const result = await attachment.add()
  const { pod: other } = await site.attach()
  const config = { cniVersion: newest, name: "net", type: "dhcp", ipam: { type: "dhcp" } }
  const stranger = new Attachment(site.host, other, config)
  expect((await fail(stranger.check(result))).msg).toContain("no lease for")
  const wrong = { ...result, ips: [{ address: "10.1.2.99/24", interface: 2 }] }
  const own = new Attachment(site.host, (await site.attach()).pod, config, { containerId: pod.name })
  expect((await fail(own.check(wrong))).msg).toMatch(/does not belong to .*: the path now names another namespace/)
  expect(await leasesAt(server)).toHaveLength(1)
  await succeed(attachment.run("STATUS"))
  await site.daemon.end("SIGTERM")
  expect(await fail(attachment.run("STATUS"))).toMatchObject({ code: 50 })
  expect(await fail(attachment.run("CHECK", { prevResult: result }))).toMatchObject({ code: 11 })
  expect(await fail(stranger.run("ADD"))).toMatchObject({ code: 11 })
})

test("GC gives back the leases of the network's other attachments, with and without a daemon", async () => {
  await using lab = await siteWithServer()
  const { site, server } = lab
  const [kept, stale, later] = [await site.attach(), await site.attach(), await site.attach()]
  const address = addressOf(await kept.attachment.add())
  await stale.attachment.add()
  const valid = { "cni.dev/valid-attachments": [{ containerID: kept.pod.name, ifname: "eth0" }] }
  await succeed(kept.attachment.run("GC", valid))
  await waitFor(async () => (await leasesAt(server)).length === 1, "one lease to be left")
  await later.attachment.add()
  await site.daemon.end("SIGKILL")
  await succeed(kept.attachment.run("GC", valid))
  await waitFor(async () => (await leasesAt(server)).length === 1, "one lease to be left")
  expect(await server.leases()).toContain(address)
})

test("a caller that goes while it waits leaves no lease and no record", async () => {
  await using site = await Site.create("bridge", quick)
  const { pod, attachment } = await site.attach()
  const waiting = attachment.run("ADD", {}, { under: ["timeout", "-s", "KILL", "2"] })
  await waitFor(() => descriptorsOf(site, pod).length > 0, "the daemon to work on the container")
  await waiting
  await waitFor(() => descriptorsOf(site, pod).length === 0, "the daemon to let go of the container")
  await using server = await startDnsmasq(site.server, site.directory.path)
  expect(await leasesAt(server)).toEqual([])
  expect(await recordsOf(site)).toEqual([])
})

/** Returns the daemon's descriptors of a container's namespace. */
function descriptorsOf(site: Site, pod: ContainerNamespace): string[] {
  const directory = `/proc/${site.daemon.pid}/fd`
  return readdirSync(directory).filter((fd) => linkText(`${directory}/${fd}`).endsWith(`/${pod.name}`))
}

function linkText(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ""
  }
}

async function recordsOf(site: Site): Promise<string[]> {
  const { stdout } = await site.host.exec("find", ["/var/lib/cni/dhcp", "-name", "*.json"])
  return stdout.split("\n").filter((line) => line !== "")
}

test("ADD without a server ends in time, with an error that names link and last packet", async () => {
  await using site = await Site.create("bridge", [...quick, "-resendtimeout", "3s"])
  const { pod, attachment } = await site.attach()
  const { msg, details } = await fail(attachment.run("ADD"))
  expect(msg).toBe("error calling DHCP.Allocate: no more tries")
  expect(details).toMatch(/no OFFER in 3 s on "eth0" \([0-9a-f:]{17}\) in "\/run\/netns\/.*last packet seen: none/)
  const shorter = await fail(attachment.run("ADD", { ipam: { type: "dhcp", timeout: 1 } }))
  expect(shorter.details).toContain("no OFFER in 1 s")
  expect(await recordsOf(site)).toEqual([])
  expect(await pod.json("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
})

test("a namespace that goes while its lease is renewed in vain is not kept alive", async () => {
  await using lab = await siteWithServer(renewing)
  const { site, server } = lab
  const { pod, attachment } = await site.attach()
  await attachment.add()
  await waitFor(() => descriptorsOf(site, pod).length === 0, "the daemon to let go of the container")
  await server.running.end("SIGKILL")
  await waitFor(() => descriptorsOf(site, pod).length > 0, "a renewal to begin")
  await site.host.exec("ip", ["netns", "del", pod.name])
  const ports = () => site.host.json<unknown[]>("ip", ["-j", "link", "show", "master", "br-lab"])
  await waitFor(async () => (await ports()).length === 1, "the container's end to go, and the host's with it")
  await attachment.del()
  expect(await recordsOf(site)).toEqual([])
})

test("a bound lease holds nothing of its container open", async () => {
  await using lab = await siteWithServer()
  const { pod, attachment } = await lab.site.attach()
  await attachment.add()
  await waitFor(() => descriptorsOf(lab.site, pod).length === 0, "the daemon to let go of the container")
})

test("a second daemon is refused; the first, told to end, takes its socket and pidfile along and keeps its leases", async () => {
  await using lab = await siteWithServer()
  const { site, server } = lab
  const { attachment } = await site.attach()
  await attachment.add()
  const bin = join(builtPlugins, "dhcp")
  const second = await site.host.tryExec(bin, ["daemon"])
  expect(second).toMatchObject({ exitCode: 1 })
  expect(second.stderr).toContain('another daemon uses the leases in "/var/lib/cni/dhcp"')
  await site.daemon.end("SIGTERM")
  site.daemon = await startDaemon(site.host, ["-pidfile", "/run/cni/dhcp.pid", "--socketpath=/run/cni/dhcp/other.sock"])
  const { stdout: pid } = await site.host.exec("cat", ["/run/cni/dhcp.pid"])
  expect(pid).toBe(String(site.daemon.pid))
  const limits = readFileSync(`/proc/${pid}/limits`, "latin1")
  const [, soft, hard] = /^Max open files\s+(\d+)\s+(\d+)/m.exec(limits) ?? []
  expect(Number(soft)).toBeGreaterThanOrEqual(Math.min(Number(hard), 65_536))
  const onOther = { ipam: { type: "dhcp", daemonSocketPath: "/run/cni/dhcp/other.sock" } }
  await succeed(attachment.run("STATUS", onOther))
  expect(await leasesAt(server)).toHaveLength(1)
  await site.daemon.end("SIGINT")
  expect((await site.host.exec("find", ["/run/cni", "-type", "f", "-o", "-type", "s"])).stdout).toBe("")
  await attachment.del()
  await released(server)
})

test("systemd's socket is served; command lines that make no sense are refused", async () => {
  await using site = await Site.create("bridge", quick)
  await site.daemon.end("SIGTERM")
  // does the same as systemd-socket-activate(1)
  const script = `import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind("/run/cni/act.sock"); s.listen(5)
os.dup2(s.fileno(), 9); os.dup2(9, 3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[1], [sys.argv[1], "daemon"])`
  const bin = join(builtPlugins, "dhcp")
  site.daemon = await Running.start(site.host, ["python3", "-c", script, bin, "1"], /serving the socket handed over/)
  const { attachment } = await site.attach({ daemonSocketPath: "/run/cni/act.sock" })
  await succeed(attachment.run("STATUS"))
  await site.daemon.end("SIGTERM")
  const refused = await site.host.tryExec("python3", ["-c", script.replace("act.sock", "act2.sock"), bin, "2"])
  expect(refused).toMatchObject({ exitCode: 1 })
  expect(refused.stderr).toContain("Too many (2) FDs passed through socket activation")
  for (const [flags, words] of [
    [["-timeout", "10"], 'invalid value "10" for -timeout'],
    [["-pidfile", "relative"], "path not absolute"],
    [["-nonsense"], "unknown flag -nonsense"],
    [["-socketpath"], "flag -socketpath needs a value"],
  ] as const) {
    expect((await site.host.tryExec(bin, ["daemon", ...flags])).stderr).toContain(words)
  }
})

test("with a prefix the daemon finds namespaces below it, and keeps its leases there", async () => {
  await using lab = await siteWithServer()
  const { site, server } = lab
  await site.daemon.end("SIGTERM")
  await site.host.exec("mkdir", ["-p", "/run/cni/prefix/run"])
  await site.host.exec("ln", ["-s", "/run/netns", "/run/cni/prefix/run/netns"])
  const flags = ["-hostprefix", "/run/cni/prefix", ...quick]
  site.daemon = await startDaemon(site.host, flags)
  const { attachment } = await site.attach({ daemonSocketPath: "/run/cni/prefix/run/cni/dhcp.sock" })
  await attachment.add()
  expect((await site.host.exec("ls", ["/run/cni/prefix/var/lib/cni/dhcp"])).stdout).toContain(".json")
  await attachment.del()
  await released(server)
  const { stdout } = await runPlugin(site.host, { bin: join(builtPlugins, "dhcp"), verb: "VERSION" })
  expect(stdout).toContain(newest)
})

// <https://man7.org/linux/man-pages/man2/accept.2.html>: with EMFILE the connection stays in the queue, and poll(2)
// reports it at once.
test("a daemon without a free descriptor tries to accept once a second, and serves again when a connection ends", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const trace = directory.join("trace")
  const limited = ["prlimit", "--nofile=40:40", "strace", "-D", "-ttt", "-e", "trace=accept4", "-o", trace]
  await using daemon = await startDaemon(host, [], limited)
  const callers = Array.from({ length: 60 }, () => connect(`/proc/${daemon.pid}/root/run/cni/dhcp.sock`))
  try {
    const refusals = () =>
      [...readFileSync(trace, "latin1").matchAll(/^([\d.]+) accept4\(.*EMFILE/gm)].map(([, time]) => Number(time))
    await waitFor(() => refusals().length >= 3, "the third attempt without a free descriptor")
    const [first = 0, , third = 0] = refusals()
    expect(third - first).toBeGreaterThan(1.9)
    const greeting: (string | Buffer)[] = []
    callers.at(-1)?.on("data", (bytes) => greeting.push(bytes))
    callers.at(-1)?.write("CONNECT /_goRPC_ HTTP/1.0\n\n")
    for (const caller of callers.slice(0, -1)) caller.destroy()
    await waitFor(() => greeting.join("") === "HTTP/1.0 200 Connected to Go RPC\n\n", "the last caller to be served")
  } finally {
    for (const caller of callers) caller.destroy()
  }
})
