import { expect } from "bun:test"
import {
  Attachment,
  fail,
  HostNamespace,
  interfacePlugin,
  linkNames,
  newest,
  succeed,
  testBreakages,
  testWith,
} from "../lab/mod.ts"

const { network, everything } = interfacePlugin("dummy")

type Shown = { address: string; mtu: number; ifalias?: string; linkinfo: { info_kind: string } }

testWith(["dummy"], "dummy: made in the container, where the host has one of the same name", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "eth0", "type", "dummy"])
  const attachment = new Attachment(host, pod, network(everything))
  await succeed(attachment.run("STATUS"))
  const result = await attachment.add()
  expect((await pod.json<Shown[]>("ip", ["-d", "-j", "link", "show", "eth0"]))[0]).toMatchObject({
    address: "0a:00:00:00:00:01",
    mtu: 1400,
    ifalias: `lab/${pod.name}/eth0`,
    linkinfo: { info_kind: "dummy" },
  })
  expect(result.interfaces).toEqual([{ name: "eth0", mac: "0a:00:00:00:00:01", mtu: 1400, sandbox: pod.path }])
  await succeed(attachment.check(result))
  await pod.exec("ip", ["-6", "route", "del", "default"])
  expect((await fail(attachment.check(result))).msg).toContain("expected default")
  await attachment.del()
  expect(await linkNames(pod)).toEqual(["lo"])
  expect(await linkNames(host)).toEqual(["lo", "eth0"])
})

testBreakages(network, [
  {
    step: "there is no IPAM plugin",
    keys: { ipam: {} },
    code: 7,
    says: "dummy interface requires an IPAM configuration",
    everyAdd: true,
  },
])

testWith(["dummy"], "dummy: CHECK asks for an IPAM plugin, DEL for none", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const attachment = new Attachment(host, pod, { cniVersion: newest, name: "lab", type: "dummy" })
  expect((await fail(attachment.check({ cniVersion: newest }))).msg).toBe(
    "dummy interface requires an IPAM configuration",
  )
  await attachment.del()
})
