import { expect, test } from "bun:test"
import {
  askEcho,
  chooseIptables,
  EchoPeer,
  expectUnchanged,
  fail,
  type HostNamespace,
  type Namespace,
  readSysctl,
  ruleBackends,
  succeed,
  takeSnapshot,
  uplink,
} from "../lab/mod.ts"
import { ReconcileLab } from "../reconcile/reconcile-lab.ts"
import { PortmapLab } from "./portmap-lab.ts"

/**
 * The addresses and ports of a service. A container maps port 443 of all host addresses, and port 53 of the service's
 * addresses.
 */
const service = { addresses: ["10.96.0.10", "fd00:96::a"], ports: [443, 53] } as const
const mappings = [
  { hostPort: 443, containerPort: 80, protocol: "tcp" },
  ...service.addresses.map((hostIP) => ({ hostPort: 53, containerPort: 80, protocol: "tcp" as const, hostIP })),
] as const

/**
 * Creates the link of kube-proxy's ipvs mode with the service's addresses. A bridge suffices, because the type is
 * irrelevant.
 */
async function addServiceLink(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", "kube-ipvs0", "up", "type", "bridge"])
  for (const address of service.addresses)
    await host.exec("ip", ["address", "add", address, "dev", "kube-ipvs0", ...(address.includes(":") ? ["nodad"] : [])])
}

/** Loads kube-proxy's first rule in ipvs mode, which accepts service packets (`acceptIPVSTraffic`, ipvs/proxier.go). */
async function addServiceRules(host: HostNamespace): Promise<void> {
  for (const [at, program] of ["iptables", "ip6tables"].entries()) {
    const accept = service.ports.map(
      (port) => `-A KUBE-SERVICES -d ${service.addresses[at]} -p tcp --dport ${port} -j ACCEPT`,
    )
    const jumps = ["PREROUTING", "OUTPUT"].map((chain) => `-I ${chain} -j KUBE-SERVICES`)
    const input = ["*nat", ":KUBE-SERVICES - [0:0]", ...accept, ...jumps, "COMMIT", ""].join("\n")
    await host.exec(`${program}-restore`, ["--noflush"], { input })
  }
}

/** Starts servers of the host at the service's addresses, in place of ip_vs. */
async function startService(host: HostNamespace): Promise<AsyncDisposable> {
  await using stack = new AsyncDisposableStack()
  for (const address of service.addresses)
    for (const port of service.ports) stack.use(await EchoPeer.start(host, { address, port }))
  return stack.move()
}

async function answersAt(from: Namespace): Promise<string[]> {
  const answers = service.addresses.flatMap((address) =>
    service.ports.map((port) => askEcho(from, { transport: "tcp", address, port })),
  )
  return (await Promise.all(answers)).map(({ to }) => to.address)
}

async function nftMaps(host: HostNamespace): Promise<string[]> {
  const { nftables } = await host.json<{ nftables: { map?: { table: string; name: string } }[] }>("nft", [
    ...["-j", "list", "maps"],
  ])
  return nftables.flatMap(({ map }) => (map?.table === "cni_hostports" ? [map.name] : []))
}

async function iptablesTargets(host: HostNamespace): Promise<string[]> {
  const { stdout } = await host.exec("sh", ["-c", "iptables-save -t nat; ip6tables-save -t nat"])
  return [...stdout.matchAll(/--to-destination (\S+)/g)].map(([, target = ""]) => target)
}

const eachTwice = service.addresses.flatMap((address) => [address, address])

test.each(["before", "after"])(
  "while kube-proxy works in mode ipvs, a service keeps its traffic, with its rules made %s the mapping [S155]",
  async (when) => {
    await using lab = await PortmapLab.create({ ...ruleBackends[0], iptables: "nf_tables" })
    const { host } = lab
    const [pod, other] = [await lab.addPod(), await lab.addPod()]
    await addServiceLink(host)
    await using _ = await startService(host)
    await using __ = await EchoPeer.start(pod.namespace, { port: 80 })
    await lab.outside.exec("ip", ["route", "add", "10.96.0.0/12", "via", uplink.ip])
    await lab.outside.exec("ip", ["-6", "route", "add", "fd00:96::/64", "via", uplink.ip6])
    if (when === "before") await addServiceRules(host)
    await succeed(pod.portmap.run("STATUS", { prevResult: undefined }))
    await succeed(pod.map(mappings))
    await succeed(pod.check())
    if (when === "after") await addServiceRules(host)

    expect(await nftMaps(host)).toEqual([])
    const [to4, to6] = [`${pod.ip}:80`, `[${pod.ip6}]:80`]
    expect(await iptablesTargets(host)).toEqual([to4, to4, to6, to6])
    for (const from of [lab.outside, host, other.namespace]) expect(await answersAt(from)).toEqual(eachTwice)
    for (const address of [uplink.ip, uplink.ip6]) {
      const { to } = await askEcho(lab.outside, { transport: "tcp", address, port: 443 })
      expect([pod.ip, pod.ip6]).toContain(to.address)
    }
    await succeed(pod.unmap())
    expect(await iptablesTargets(host)).toEqual([])
  },
)

test("portmap refuses to map by nftables while kube-proxy works in mode ipvs", async () => {
  await using lab = await PortmapLab.create({ ...ruleBackends[0], iptables: "nf_tables" })
  const pod = await lab.addPod()
  const keys = { backend: "nftables" }
  await succeed(pod.map(mappings, keys))
  await succeed(pod.unmap(keys))
  await addServiceLink(lab.host)
  const before = await takeSnapshot(lab.host)
  const error = {
    msg: 'Cannot map ports by nftables: kube-proxy runs in ipvs mode, and has the link "kube-ipvs0"',
    details: expect.stringContaining('set "backend" to "iptables"'),
  }
  expect(await fail(pod.map(mappings, keys))).toMatchObject({ code: 999, ...error })
  expect(await fail(pod.portmap.run("STATUS", { ...keys, prevResult: undefined }))).toMatchObject({
    code: 50,
    ...error,
  })
  await succeed(pod.map([], keys))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

test("cni reconcile moves to iptables what was mapped before kube-proxy worked in mode ipvs [S156]", async () => {
  await using lab = await ReconcileLab.create()
  const { host } = lab
  await chooseIptables(host, "nf_tables")
  const pods = await lab.addPods(2)
  const [{ pod, hostPort } = {}] = pods
  if (!pod || !hostPort) throw new Error("no pod")
  await addServiceLink(host)
  const [address] = service.addresses
  await using _ = await EchoPeer.start(host, { address, port: hostPort })
  const ask = (target: string) => askEcho(host, { transport: "tcp", address: target, port: hostPort })
  expect((await ask(address)).to.address).toStartWith("10.85.0.")
  expect(await nftMaps(host)).not.toEqual([])

  const restored = pods.map(() => expect.objectContaining({ plugin: "portmap", what: "published ports" }))
  expect(await lab.reconcile("--dry-run")).toMatchObject({ restored, failed: [] })
  expect(await nftMaps(host)).not.toEqual([])
  expect(await lab.reconcile()).toMatchObject({ restored, failed: [] })
  expect(await nftMaps(host)).toEqual([])
  expect(await iptablesTargets(host)).toHaveLength(2)
  await lab.expectNothingToDo()
  await host.exec("iptables", ["-t", "nat", "-I", "OUTPUT", "-d", address, "-j", "ACCEPT"])
  expect((await ask(address)).to.address).toBe(address)
  // Ports stay published, also at 127.0.0.1, and the guard of the setting stays.
  await lab.expectTraffic(pods)
  expect((await ask("127.0.0.1")).to.address).toStartWith("10.85.0.")
  expect(await readSysctl(host, "net/ipv4/conf/cni0/route_localnet")).toBe("1")
  expect((await host.exec("nft", ["list", "chain", "ip", "cni_hostports", "raw"])).stdout).toContain("drop")
  await lab.removePods(pods)
  expect(await iptablesTargets(host)).toEqual([])
  expect(await readSysctl(host, "net/ipv4/conf/cni0/route_localnet")).toBe("0")
})
