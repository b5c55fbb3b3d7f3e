import { expect } from "bun:test"
import {
  Attachment,
  type ContainerNamespace,
  fail,
  type HostNamespace,
  hostFor,
  newest,
  testWhereItRuns,
} from "../lab/mod.ts"

/** A missing precondition of ADD. */
interface Missing {
  readonly plugin: string
  readonly what: string
  readonly keys: object
  /** Keys with which ADD succeeds. If undefined, ADD succeeds with `keys` unless `breakHost` has run. */
  readonly mended?: object
  readonly breakHost?: (host: HostNamespace, pod: ContainerNamespace) => Promise<unknown>
  readonly says: string
}

const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]] }
const line = (words: string) => (host: HostNamespace) => host.exec("ip", words.split(" "))
/** Attaches another container to a network that can have only one container. */
const holder = async (host: HostNamespace, network: object) => {
  await new Attachment(host, await host.addContainer(), { ...network, ipam: undefined }).add(
    "vlanId" in network ? { ipam: { type: "static", addresses: [{ address: "10.99.0.1/24" }] } } : {},
  )
}

const uplink = { master: "uplink" }
const missing: readonly Missing[] = [
  {
    plugin: "macvlan",
    what: "the master does not exist",
    keys: { master: "up9" },
    mended: uplink,
    says: 'Cannot find the master interface "up9"',
  },
  {
    plugin: "macvlan",
    what: "the MTU is larger than the master's",
    keys: { ...uplink, mtu: 9001 },
    mended: { mtu: 0 },
    says: "invalid MTU 9001",
  },
  {
    plugin: "ipvlan",
    what: "the master does not exist",
    keys: { master: "up9" },
    mended: uplink,
    says: 'Cannot find the master interface "up9"',
  },
  {
    plugin: "vlan",
    what: "the master is down",
    keys: { ...uplink, vlanId: 5 },
    breakHost: line("link set uplink down"),
    says: "it is down",
  },
  {
    plugin: "vlan",
    what: "another container has the VLAN",
    keys: { ...uplink, vlanId: 7 },
    mended: { vlanId: 5 },
    breakHost: (host) => holder(host, { cniVersion: newest, name: "holder", type: "vlan", ...uplink, vlanId: 7 }),
    says: "Cannot use VLAN 7",
  },
  {
    plugin: "host-device",
    what: "the device does not exist",
    keys: { device: "dev9" },
    mended: { device: "dev8080" },
    says: 'Cannot find the device "dev9"',
  },
  {
    plugin: "host-device",
    what: "another container has the device",
    keys: { device: "dev8081" },
    mended: { device: "dev8080" },
    breakHost: (host) => holder(host, { cniVersion: newest, name: "holder", type: "host-device", device: "dev8081" }),
    says: 'Cannot take the device "dev8081": it is "eth0" of holder/',
  },
  {
    plugin: "bridge",
    what: "the bridge's name belongs to something else",
    keys: { bridge: "taken" },
    mended: { bridge: "br0" },
    breakHost: line("link add taken type veth peer name other"),
    says: '"taken" already exists but is not a bridge',
  },
  {
    plugin: "tap",
    what: "the bridge in the container does not exist",
    keys: { bridge: "br9" },
    mended: { bridge: "" },
    says: 'Cannot find the bridge "br9"',
  },
]

/** Returns host-local's files for a network, including the position in the pool. */
async function storeOf(host: HostNamespace): Promise<string> {
  const script = "cd /var/lib/cni/networks/lab && find . -type f ! -path './.index/*' | sort && cat last_reserved_ip.0"
  return (await host.exec("sh", ["-c", script])).stdout
}

for (const { plugin, what, keys, mended = {}, breakHost, says } of missing) {
  testWhereItRuns(plugin, `${plugin}: when ${what}, no address is taken for an ADD that cannot succeed`, async () => {
    await using host = await hostFor(plugin)
    const pod = await host.addContainer()
    const config = { cniVersion: newest, name: "lab", type: plugin, ipam, ...keys }
    const works = new Attachment(host, await host.addContainer(), { ...config, ...mended })
    expect(await works.add()).toMatchObject({ ips: [{ address: "10.22.0.2/24" }] })
    await works.del()
    await breakHost?.(host, pod)
    const before = await storeOf(host)
    expect(before).toContain("last_reserved_ip.0")
    const broken = new Attachment(host, pod, config)
    for (let times = 0; times < 2; times++) expect((await fail(broken.run("ADD"))).msg).toContain(says)
    expect(await storeOf(host)).toBe(before)
  })
}
