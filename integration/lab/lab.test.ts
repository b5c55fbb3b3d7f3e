import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { mkdir, symlink } from "node:fs/promises"
import { join } from "node:path"
import {
  answering,
  askEcho,
  connect,
  diffSnapshots,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  formatChanges,
  HostNamespace,
  listNamespaces,
  mustRun,
  namespacePrefix,
  ping,
  pingOnce,
  readSysctl,
  runPlugin,
  setIpv4Defaults,
  startDaemon,
  TemporaryDirectory,
  takeSnapshot,
  waitFor,
  writeSysctl,
} from "./mod.ts"

/** Creates a host with a pod, 10.77.0.2, and another machine, 203.0.113.9, which has no route back to the pod. */
async function routedSandbox() {
  const host = await HostNamespace.create()
  const pod = await host.addContainer("pod")
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "pod0", addresses: ["10.77.0.1/24"] },
    { namespace: pod, link: "eth0", addresses: ["10.77.0.2/24"] },
  )
  await connect(
    { namespace: host, link: "up0", addresses: ["203.0.113.1/24"] },
    { namespace: internet, link: "eth0", addresses: ["203.0.113.9/24"] },
  )
  await pod.exec("ip", ["route", "add", "default", "via", "10.77.0.1"])
  await writeSysctl(host, "net/ipv4/ip_forward", "1")
  return { host, pod, internet }
}

test("a host sees its own links and its own empty /var/lib/cni", async () => {
  await using host = await HostNamespace.create()
  const links = await host.json<{ ifname: string }[]>("ip", ["-j", "link"])
  expect(links.map((link) => link.ifname)).toEqual(["lo"])
  await host.exec("touch", ["/var/lib/cni/ours"])
  expect(existsSync(host.file("/var/lib/cni/ours"))).toBe(true)
  expect(existsSync("/var/lib/cni/ours")).toBe(false)
  await using other = await HostNamespace.create()
  expect((await other.exec("ls", ["/var/lib/cni"])).stdout).toBe("")
})

test("a host sees container namespaces that were made after it", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await host.exec("ip", ["-n", pod.name, "link", "set", "lo", "up"])
  expect(await ping(pod, "127.0.0.1")).toBe(true)
})

test("the disposal of a host leaves nothing in `ip netns list`, even with programs still running", async () => {
  const names: string[] = []
  {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    names.push(host.name, pod.name)
    await startDaemon(host.commandLine(["sleep", "infinity"]))
    await startDaemon(pod.commandLine(["sleep", "infinity"]))
  }
  const { stdout } = await mustRun(["ip", "netns", "list"])
  for (const name of names) expect(stdout).not.toContain(name)
})

test.each([false, true])(
  "namespaces of a killed test process are removed, and no others (its keeper too: %p)",
  async (withKeeper) => {
    await using bystander = await HostNamespace.create()
    const door = JSON.stringify(join(import.meta.dir, "mod.ts"))
    const start = async (then: string) => {
      const script = `
      const { HostNamespace } = await import(${door})
      const host = await HostNamespace.create()
      await host.addContainer()
      ${then}
      console.log(process.pid)
      process.kill(process.pid, "SIGKILL")`
      const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" })
      return namespacePrefix(Number(await child.stdout.text()))
    }
    const killKeeper = `Bun.spawnSync(["pkill", "-KILL", "--full", "keeper.sh " + process.pid + " "])`
    const ended = [await start(withKeeper ? killKeeper : "")]
    if (withKeeper) {
      expect(await listNamespaces(ended[0] ?? "")).toHaveLength(2)
      ended.push(await start(""))
    }
    for (const prefix of ended) {
      expect(prefix).not.toBe(namespacePrefix(0))
      await waitFor(async () => (await listNamespaces(prefix)).length === 0, "the keeper to clean up")
    }
    expect(await listNamespaces(bystander.name)).toEqual([bystander.name])
  },
)

test("nothing has changed between two snapshots of an idle host with a bridge", async () => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "br0", "type", "bridge"])
  await host.exec("ip", ["link", "set", "br0", "up"])
  await host.exec("nft", ["add table ip t; add chain ip t c; add rule ip t c counter"])
  const before = await takeSnapshot(host)
  expectUnchanged(before, await takeSnapshot(host))
})

test.each([
  ["a link's MTU", ["ip", "link", "set", "d0", "mtu", "1400"], "links\n  - d0 mtu 1500\n  + d0 mtu 1400"],
  ["an address", ["ip", "address", "add", "10.5.0.1/24", "dev", "d0"], "+ d0 10.5.0.1/24 family inet scope global"],
  ["a route in a table of its own", ["ip", "route", "add", "10.9.0.0/16", "dev", "d0", "table", "77"], "+ 10.9.0.0/16"],
  ["an IPv6 route", ["ip", "route", "add", "fd09::/64", "dev", "d0"], "IPv6 routes\n  + fd09::/64"],
  ["a routing rule", ["ip", "rule", "add", "from", "10.5.0.9", "table", "77"], "src 10.5.0.9 table 77"],
  ["an nftables table", ["nft", "add table inet leftover"], "nftables\n  + table inet leftover"],
  ["an nftables element", ["nft", "add element ip t s { 10.0.0.9 }"], '+ set ip t s element "10.0.0.9"'],
  ["queueing", ["tc", "qdisc", "add", "dev", "d0", "root", "pfifo"], "+ d0 kind pfifo"],
  ["a file", ["touch", "/var/lib/cni/lease"], '/var/lib/cni\n  + /var/lib/cni/lease = ""'],
])("a snapshot shows a change of %s", async (_, command, expected) => {
  await using host = await HostNamespace.create()
  await host.exec("ip", ["link", "add", "d0", "type", "veth", "peer", "name", "d1"])
  await host.exec("ip", ["link", "set", "d0", "up"])
  await host.exec("nft", ["add table ip t; add set ip t s { type ipv4_addr; }"])
  const before = await takeSnapshot(host)
  const [file = "", ...args] = command
  await host.exec(file, args)
  const after = await takeSnapshot(host)
  expect(formatChanges(diffSnapshots(before, after))).toContain(expected)
  expect(() => expectUnchanged(before, after)).toThrow(expected)
  expectUnchanged(before, after, () => true)
})

test("a snapshot shows a change of a sysctl, of this namespace only", async () => {
  await using host = await HostNamespace.create()
  const before = await takeSnapshot(host)
  await writeSysctl(host, "net/ipv4/ip_forward", "1")
  expect(await readSysctl(host, "net/ipv4/ip_forward")).toBe("1")
  expect(formatChanges(diffSnapshots(before, await takeSnapshot(host)))).toContain("+ net/ipv4/ip_forward = 1")
  await using other = await HostNamespace.create()
  expect(await readSysctl(other, "net/ipv4/ip_forward")).toBe("0")
})

test("a snapshot shows what is in given directories: files, folders and symbolic links", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const before = await takeSnapshot(host, [directory.path])
  await mkdir(directory.join("folder"))
  await Bun.write(directory.join("folder", "file"), "one\n")
  await symlink("folder", directory.join("link"))
  const changes = diffSnapshots(before, await takeSnapshot(host, [directory.path]))
  expect(changes.map(({ line }) => line)).toEqual([
    `${directory.path}/folder/`,
    `${directory.path}/folder/file = "one\\n"`,
    `${directory.path}/link -> folder`,
  ])
})

test("an echo peer sees who asks, over TCP and UDP, IPv4 and IPv6", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await connect(
    { namespace: host, link: "pod0", addresses: ["10.77.0.1/24", "fd77::1/64"] },
    { namespace: pod, link: "eth0", addresses: ["10.77.0.2/24", "fd77::2/64"] },
  )
  await using peer = await EchoPeer.start(host, { port: 8080 })
  expect(peer.port).toBe(8080)
  for (const transport of ["tcp", "udp"] as const) {
    for (const net of ["10.77.0.", "fd77::"]) {
      const reply = await askEcho(pod, { transport, address: `${net}1`, port: 8080, message: "über" })
      expect(reply).toMatchObject({ message: "über", from: { address: `${net}2` } })
    }
  }
})

test("the internet cannot answer a pod, except behind a masquerade, and then it sees the host's address", async () => {
  const { host, pod, internet } = await routedSandbox()
  await using _ = host
  await using peer = await EchoPeer.start(internet)
  const question = { address: "203.0.113.9", port: peer.port }
  await expectNoEcho(pod, { ...question, transport: "udp" })
  await host.exec("nft", [
    "add table ip nat; add chain ip nat post { type nat hook postrouting priority srcnat; }; " +
      'add rule ip nat post oifname "up0" masquerade',
  ])
  for (const transport of ["tcp", "udp"] as const) {
    const reply = await askEcho(pod, { ...question, transport })
    expect(reply.from.address).toBe("203.0.113.1")
  }
  expect(await ping(pod, "203.0.113.9")).toBe(true)
})

test("a ping into the void is not answered", async () => {
  await using host = await HostNamespace.create()
  expect(await pingOnce(host, "203.0.113.9")).toBe(false)
})

test("a ping waits for an address that is there late; a single request does not", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await connect(
    { namespace: host, link: "wire", addresses: ["192.0.2.1/24"] },
    { namespace: pod, link: "eth0", addresses: ["192.0.2.2/24"] },
  )
  const [unreachable, silent] = [ping(host, "198.51.100.2"), ping(host, "192.0.2.3")]
  expect(await pingOnce(host, "192.0.2.3")).toBe(false)
  await host.exec("ip", ["address", "add", "198.51.100.1/24", "dev", "wire"])
  for (const address of ["198.51.100.2/24", "192.0.2.3/24"])
    await pod.exec("ip", ["address", "add", address, "dev", "eth0"])
  expect(await Promise.all([unreachable, silent])).toEqual([true, true])
  const lists = [["192.0.2.2", "192.0.2.9"], ["192.0.2.2"]] as const
  expect(await answering(host, ...lists)).toEqual(["192.0.2.2"])
})

test("a plugin gets the given environment and configuration, and nothing else", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const bin = directory.join("plugin")
  await Bun.write(bin, "#!/bin/sh\nenv >&2\nreadlink /proc/self/ns/net >&2\ncat\nexit 3\n")
  await mustRun(["chmod", "+x", bin])
  const call = {
    bin,
    verb: "ADD",
    containerId: "c1",
    netns: "/run/netns/x",
    ifName: "eth0",
    env: { EXTRA: "1" },
  } as const
  const output = await runPlugin(host, { ...call, config: { name: "n" } })
  expect(output).toMatchObject({ exitCode: 3, stdout: '{"name":"n"}', json: { name: "n" } })
  expect(output.durationMs).toBeGreaterThan(0)
  const [namespace, ...env] = output.stderr.trim().split("\n").reverse()
  expect(namespace).toBe((await host.exec("readlink", ["/proc/self/ns/net"])).stdout.trim())
  expect(env.filter((line) => !line.startsWith("PWD=")).sort()).toEqual([
    "CNI_COMMAND=ADD",
    "CNI_CONTAINERID=c1",
    "CNI_IFNAME=eth0",
    "CNI_NETNS=/run/netns/x",
    `CNI_PATH=${directory.path}`,
    "EXTRA=1",
    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
  ])
})

test("waiting ends with the value, or with what was waited for and the last error", async () => {
  let looks = 0
  expect(await waitFor(() => (++looks > 2 ? looks : undefined), "three looks")).toBe(3)
  const waiting = waitFor(() => Promise.reject(new Error("not yet")), "the end of the world", 30)
  await expect(waiting).rejects.toThrow(/^Waited \d+ ms in vain for: the end of the world$/)
  await expect(waiting).rejects.toHaveProperty("cause.message", "not yet")
})

test("namespaces have the kernel's own IPv4 settings, with any settings of the machine", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  for (const namespace of [host, pod]) {
    const changed = {
      "net/ipv4/ip_forward": "1",
      "net/ipv4/conf/all/rp_filter": "2",
      "net/ipv4/conf/default/rp_filter": "1",
    }
    const before = await Promise.all(Object.keys(changed).map((key) => readSysctl(namespace, key)))
    expect(before).toEqual(["0", "0", "0"])
    const all = async () =>
      (await namespace.exec("grep", ["-r", "", "/proc/sys/net/ipv4/conf"])).stdout.split("\n").sort()
    const fresh = await all()
    for (const [key, value] of Object.entries(changed)) await writeSysctl(namespace, key, value)
    await setIpv4Defaults(namespace)
    expect(await all()).toEqual(fresh)
  }
})
