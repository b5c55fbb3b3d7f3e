import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  fail,
  HostNamespace,
  type PluginResult,
} from "../lab/mod.ts"

const everything = { isDefaultGateway: true, ipMasq: true, hairpinMode: true, portIsolation: true, mtu: 1400 }
const config = bridgeNetwork(everything)

async function attached() {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, config)
  return { host, pod, attachment, result: await attachment.add() }
}

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

/** Changes to an attachment, with the error of CHECK for each. */
const damages: {
  what: string
  damage: (host: HostNamespace, pod: ContainerNamespace, result: PluginResult) => Promise<unknown>
  says: string[]
}[] = [
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
    what: "the port is another attachment's",
    damage: (host, _, { interfaces }) => host.exec("ip", ["link", "set", interfaces[1]?.name ?? "", "alias", "other"]),
    says: ["alias of host interface", "/eth0, found other"],
  },
  {
    what: "the bridge is down",
    damage: (host) => host.exec("ip", ["link", "set", "br-lab", "down"]),
    says: ['bridge "br-lab"', "found down"],
  },
]

test.each(damages)("CHECK names it when $what", async ({ damage, says }) => {
  const { host, pod, attachment, result } = await attached()
  await using _ = host
  await damage(host, pod, result)
  const { msg, details } = await fail(attachment.check(result))
  for (const words of says) expect(`${msg}; ${details ?? ""}`).toContain(words)
})
