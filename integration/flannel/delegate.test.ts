import { expect, test } from "bun:test"
import { builtPlugins, fail, linkNames, succeed } from "../lab/mod.ts"
import { FlannelHost, ipv4Node } from "./flannel-lab.ts"

const other = `
[ ! -e /run/cni/fail-$CNI_COMMAND ] || { echo '{"cniVersion":"1.1.0","code":142,"msg":"not now"}'; exit 1; }
[ $CNI_COMMAND != ADD ] || echo '{"cniVersion":"1.1.0","ips":[{"address":"10.244.1.9/24"}]}'`

/** Creates a host with the script "other" as delegate, and an attachment that uses it. */
async function withOther() {
  const net = await FlannelHost.create()
  const pod = await net.host.addContainer()
  const path = `${await net.addDelegate("other", other)}:${builtPlugins}`
  const failing = (verb: string) => net.host.exec("touch", [`/run/cni/fail-${verb}`])
  const working = (verb: string) => net.host.exec("rm", [`/run/cni/fail-${verb}`])
  return { net, pod, failing, working, attachment: net.attachment(pod, { delegate: { type: "other" } }, { path }) }
}

test("every verb reaches the delegate, with what the runtime says now", async () => {
  const { net, pod, attachment } = await withOther()
  await using _ = net
  await succeed(attachment.run("STATUS"))
  const { name, ipam, prevResult: absent } = await net.given("STATUS")
  expect({ name, ipam, absent }).toMatchObject({ name: "podnet", ipam: { ranges: [[{ subnet: "10.244.1.0/24" }]] } })
  const prevResult = await attachment.add({ runtimeConfig: { mac: "0a:00:00:00:00:01" } })
  expect(prevResult.ips.map(({ address }) => address)).toEqual(["10.244.1.9/24"])
  await succeed(attachment.check(prevResult))
  expect(await net.given("CHECK")).toEqual({ ...(await net.given("ADD")), prevResult })
  const valid = [{ containerID: pod.name, ifname: "eth0" }]
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": valid }))
  expect(await net.given("GC")).toMatchObject({ name: "podnet", type: "other", "cni.dev/valid-attachments": valid })
  expect(Object.keys(await net.kept())).toHaveLength(1)
  const runtimeConfig = { mac: "0a:00:00:00:00:02" }
  await attachment.del({ prevResult, runtimeConfig, delegate: "broken", subnetFile: 7 })
  expect(await net.given("DEL")).toEqual({ ...(await net.given("ADD")), prevResult, runtimeConfig })
})

test("a delegate's error passes as it is, ADD leaves nothing, and DEL keeps the configuration until it succeeds", async () => {
  const { net, attachment, failing, working } = await withOther()
  await using _ = net
  await failing("ADD")
  expect(await fail(attachment.run("ADD"))).toMatchObject({ code: 142, msg: "not now" })
  expect(await net.kept()).toEqual({})
  await failing("DEL")
  expect(await fail(attachment.run("ADD"))).toMatchObject({ code: 142, msg: "not now" })
  expect(Object.keys(await net.kept())).toHaveLength(1) // kept for the next DEL
  expect(await fail(attachment.run("DEL"))).toMatchObject({ code: 142, msg: "not now" })
  expect(Object.keys(await net.kept())).toHaveLength(1)
  await working("DEL")
  await attachment.del()
  expect(await net.kept()).toEqual({})
  for (const verb of ["CHECK", "GC", "STATUS"] as const) {
    await working("ADD").catch(() => undefined)
    await attachment.add()
    await failing(verb)
    const keys = { prevResult: {}, "cni.dev/valid-attachments": [] }
    expect(await fail(attachment.run(verb, keys))).toMatchObject({ code: 142, msg: "not now" })
    expect(Object.keys(await net.kept())).toHaveLength(1)
    await attachment.del()
  }
})

test("an ADD that is repeated is refused, and DEL is not what the delegate is called with", async () => {
  await using net = await FlannelHost.create()
  const pod = await net.host.addContainer()
  const attachment = net.attachment(pod)
  const result = await attachment.add()
  expect((await fail(attachment.run("ADD"))).msg).toContain("it already exists")
  await succeed(attachment.check(result))
})

test("a subnet that has changed is named by CHECK, by STATUS, and with a delegate's refusal, with what to do", async () => {
  const { net, attachment, failing } = await withOther()
  await using _ = net
  const result = await attachment.add()
  await net.writeSubnets({ ...ipv4Node, FLANNEL_SUBNET: "10.244.9.1/24" })
  const advice = "the subnet of this node changed from 10.244.1.0/24 to 10.244.9.0/24: delete the containers"
  expect(await fail(attachment.check(result))).toMatchObject({
    msg: "Check of the subnet failed: expected 10.244.1.0/24, found 10.244.9.0/24",
    details: expect.stringContaining(advice),
  })
  const { stderr } = await succeed(attachment.run("STATUS"))
  expect(stderr).toContain(advice)
  const next = await net.host.addContainer()
  const refused = net.attachment(next, { delegate: { type: "other" } }, { path: "/run/cni/bin" })
  await failing("ADD")
  expect(await fail(refused.run("ADD"))).toMatchObject({ code: 142, details: expect.stringContaining(advice) })
  await attachment.del()
  await succeed(refused.run("STATUS")).then(({ stderr }) => expect(stderr).toBe(""))
})

test("what the reference plugin has kept, by the container's ID, is used by CHECK and DEL, unless another network's", async () => {
  await using net = await FlannelHost.create()
  const pod = await net.host.addContainer()
  const attachment = net.attachment(pod)
  const result = await attachment.add()
  const directory = "/var/lib/cni/flannel"
  await net.host.exec("sh", ["-c", `cd ${directory} && mv * ${pod.name}`])
  await succeed(attachment.check(result))
  expect((await fail(attachment.check(result, { name: "other" }))).msg).toContain(
    "Check of the delegate's configuration failed",
  )
  await attachment.del({ name: "other" })
  expect(Object.keys(await net.kept())).toEqual([pod.name])
  expect(await linkNames(pod)).toContain("eth0")
  await attachment.del({ prevResult: result })
  expect(await net.kept()).toEqual({})
  expect(await linkNames(pod)).toEqual(["lo"])
})

test("GC forgets what is gone, under both names, and leaves what is another network's; a file that is no JSON stops nothing", async () => {
  await using net = await FlannelHost.create()
  const [pod, gone] = [await net.host.addContainer(), await net.host.addContainer()]
  for (const each of [pod, gone]) await net.attachment(each).add()
  const write = (name: string, text: string) => Bun.write(net.host.file(`/var/lib/cni/flannel/${name}`), text)
  await write("former", '{"name":"podnet","type":"bridge"}')
  await write("stranger", '{"name":"other","type":"bridge"}')
  await write(".podnet:killed:eth0.json", "{")
  await write("podnet:broken:eth0.json", "{")
  const attachment = net.attachment(pod)
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }))
  expect(Object.keys(await net.kept()).sort()).toEqual([`podnet:${pod.name}:eth0.json`, "stranger"].sort())
  expect(await linkNames(gone)).toEqual(["lo"])
  await write(`podnet:${pod.name}:eth0.json`, "{")
  await attachment.del()
  expect(await linkNames(pod)).toEqual(["lo"])
  expect(Object.keys(await net.kept())).toEqual(["stranger"])
})

// CHECK of the Go plugins does not find routes without a gateway, and all routes of flannel are such.
test("the Go plugins are delegates as well, also when DEL is another suite's", async () => {
  await using net = await FlannelHost.create()
  const pod = await net.host.addContainer()
  const attachment = net.attachment(pod, { cniVersion: "1.0.0" }, { path: "/usr/lib/cni" })
  for (const by of [{}, { path: builtPlugins }]) {
    const result = await attachment.add()
    expect(result.ips).toHaveLength(1)
    await succeed(attachment.run("DEL", { prevResult: result }, by))
  }
  expect(await linkNames(pod)).toEqual(["lo"])
  expect(await net.kept()).toEqual({})
})
