import { expect, test } from "bun:test"
import { Attachment, fail, HostNamespace, newest, ping } from "../lab/mod.ts"

const config = { cniVersion: newest, name: "lo-net", type: "loopback" }

async function hostAndPod() {
  const host = await HostNamespace.create()
  return { host, pod: await host.addContainer() }
}

test("ADD brings lo up and answers its addresses; CHECK passes; DEL takes it down, twice", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const attachment = new Attachment(host, pod, config, { ifName: "lo" })
  expect(await attachment.add()).toEqual({
    cniVersion: newest,
    interfaces: [{ mac: "00:00:00:00:00:00", mtu: 65536, name: "lo", sandbox: pod.path }],
    ips: [
      { address: "127.0.0.1/8", interface: 0 },
      { address: "::1/128", interface: 0 },
    ],
  })
  expect(await ping(pod, "127.0.0.1")).toBe(true)
  expect(await attachment.run("CHECK")).toMatchObject({ exitCode: 0, stdout: "" })
  await attachment.del()
  expect((await fail(attachment.run("CHECK"))).msg).toContain("loopback interface is down")
  await attachment.del()
})

test("a result of an earlier plugin is passed on", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  const prevResult = { cniVersion: newest, ips: [{ address: "10.1.0.5/24" }] }
  const result: unknown = await new Attachment(host, pod, config).add({ prevResult })
  expect(result).toEqual(prevResult)
})

test("a foreign address on lo is an error, and lo is down again", async () => {
  const { host, pod } = await hostAndPod()
  await using _ = host
  await pod.exec("ip", ["addr", "add", "192.0.2.5/32", "dev", "lo"])
  expect((await fail(new Attachment(host, pod, config).run("ADD"))).msg).toContain("192.0.2.5/32")
  const [lo] = await pod.json<{ flags: string[] }[]>("ip", ["-j", "link", "show", "lo"])
  expect(lo?.flags).not.toContain("UP")
})
