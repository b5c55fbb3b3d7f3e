import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  fail,
  HostNamespace,
  type PluginResult,
  writeSysctl,
} from "../lab/mod.ts"

const everything = { isDefaultGateway: true, ipMasq: true, hairpinMode: true, portIsolation: true, mtu: 1400 }
const config = bridgeNetwork(everything)

async function attached() {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, config)
  return { host, pod, attachment, result: await attachment.add() }
}

test("CHECK right after ADD passes and prints nothing", async () => {
  const { host, attachment, result } = await attached()
  await using _ = host
  expect(await attachment.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
})

test("CHECK of an attachment without addresses passes", async () => {
  await using host = await HostNamespace.create()
  const { ipam: _none, ...bare } = config
  const attachment = new Attachment(host, await host.addContainer(), {
    ...bare,
    isDefaultGateway: false,
    ipMasq: false,
  })
  expect(await attachment.check(await attachment.add())).toMatchObject({ exitCode: 0 })
})

test("CHECK takes no notice of what others have added to the result, or have done to the bridge", async () => {
  const { host, pod, attachment, result } = await attached()
  await using _ = host
  const others = [{ name: "net7", mac: "0a:00:00:00:00:07", sandbox: pod.path }, { name: "gone0" }]
  await host.exec("ip", ["link", "set", "br-lab", "promisc", "on"])
  const checked = await attachment.check({ ...result, interfaces: [...result.interfaces, ...others] })
  expect(checked).toMatchObject({ exitCode: 0, stdout: "" })
})

test("CHECK without prevResult says that it is missing", async () => {
  const { host, attachment } = await attached()
  await using _ = host
  expect((await fail(attachment.run("CHECK"))).msg).toContain("prevResult")
})

/** What may happen to an attachment, and what CHECK has to say then. */
const damages: {
  what: string
  damage: (host: HostNamespace, pod: ContainerNamespace, result: PluginResult) => Promise<unknown>
  says: string[]
}[] = [
  {
    what: "the interface is gone",
    damage: (_, pod) => pod.exec("ip", ["link", "del", "eth0"]),
    says: ['interface "eth0"', "found none"],
  },
  {
    what: "the interface is down",
    damage: (_, pod) => pod.exec("ip", ["link", "set", "eth0", "down"]),
    says: ['interface "eth0"', "expected up, found down"],
  },
  {
    what: "the MAC is another",
    damage: (_, pod) => pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:99"]),
    says: ["MAC", "found 0a:00:00:00:00:99"],
  },
  {
    what: "the address is gone",
    damage: (_, pod) =>
      pod
        .exec("ip", ["addr", "replace", "10.99.0.77/16", "dev", "eth0"])
        .then(() => pod.exec("ip", ["addr", "del", "10.22.0.2/16", "dev", "eth0"])),
    says: ["expected 10.22.0.2/16", "10.99.0.77/16"],
  },
  {
    what: "the default route is gone",
    damage: (_, pod) => pod.exec("ip", ["route", "del", "default"]),
    says: ["routes", "default via 10.22.0.1"],
  },
  {
    what: "the port has left the bridge",
    damage: (host, _, { interfaces }) => host.exec("ip", ["link", "set", interfaces[1]?.name ?? "", "nomaster"]),
    says: ['a port of bridge "br-lab"'],
  },
  {
    what: "the port has lost hairpin mode",
    damage: (host, _, { interfaces }) =>
      host.exec("bridge", ["link", "set", "dev", interfaces[1]?.name ?? "", "hairpin", "off"]),
    says: ["hairpin"],
  },
  {
    what: "the port is no longer isolated",
    damage: (host, _, { interfaces }) =>
      host.exec("bridge", ["link", "set", "dev", interfaces[1]?.name ?? "", "isolated", "off"]),
    says: ["isolation of port", "expected on, found off"],
  },
  {
    what: "the port is down",
    damage: (host, _, { interfaces }) => host.exec("ip", ["link", "set", interfaces[1]?.name ?? "", "down"]),
    says: ["host interface", "expected up, found down"],
  },
  {
    what: "the port is another attachment's",
    damage: (host, _, { interfaces }) => host.exec("ip", ["link", "set", interfaces[1]?.name ?? "", "alias", "other"]),
    says: ["alias of host interface", "/eth0, found other"],
  },
  {
    what: "the port has another MTU",
    damage: (host, _, { interfaces }) => host.exec("ip", ["link", "set", interfaces[1]?.name ?? "", "mtu", "1300"]),
    says: ["MTU of host interface", "expected 1400, found 1300"],
  },
  {
    what: "the host no longer forwards",
    damage: (host) => writeSysctl(host, "net/ipv4/ip_forward", "0"),
    says: ['sysctl "net/ipv4/ip_forward"', "expected 1, found 0"],
  },
  {
    what: "the bridge is down",
    damage: (host) => host.exec("ip", ["link", "set", "br-lab", "down"]),
    says: ['bridge "br-lab"', "found down"],
  },
  {
    what: "the bridge has another MAC",
    damage: (host) => host.exec("ip", ["link", "set", "br-lab", "address", "0a:00:00:00:00:99"]),
    says: ['MAC of "br-lab"', "found 0a:00:00:00:00:99"],
  },
  {
    what: "the gateway address is gone",
    damage: (host) => host.exec("ip", ["addr", "flush", "dev", "br-lab"]),
    says: ['"br-lab"', "expected 10.22.0.1/16"],
  },
  {
    what: "the masquerade is gone",
    damage: (host) => host.exec("nft", ["flush", "ruleset"]),
    says: ["masquerade", "ip saddr @containers"],
  },
  {
    what: "the lease is gone",
    damage: (host) => host.exec("rm", ["/var/lib/cni/networks/lab/10.22.0.2"]),
    says: ["10.22.0.2"],
  },
]

test.each(damages)("CHECK names it when $what", async ({ damage, says }) => {
  const { host, pod, attachment, result } = await attached()
  await using _ = host
  await damage(host, pod, result)
  const { msg, details } = await fail(attachment.check(result))
  for (const words of says) expect(`${msg}; ${details ?? ""}`).toContain(words)
})
