import { expect, test } from "bun:test"
import { askEcho, EchoPeer, expectNoEcho, fail, outside, pingOnce, ruleBackends, succeed, uplink } from "../lab/mod.ts"
import { expectAnswer, FirewallLab } from "./firewall-lab.ts"
import { runFirewalld, sourcesIn, startBus, startFirewalld, stopFirewalld } from "./firewalld-lab.ts"

/** Restarts firewalld. After a flush firewalld cannot reload, because the table that it wants to delete is missing. */
async function restartFirewalld(host: FirewallLab["host"]): Promise<void> {
  await stopFirewalld(host)
  await runFirewalld(host)
}

async function labWithFirewalld(): Promise<FirewallLab> {
  const lab = await FirewallLab.create(ruleBackends[0])
  await startFirewalld(lab.host)
  return lab
}

test("firewalld, where it runs: addresses become sources of zone trusted, and so containers get out; DEL takes them back", async () => {
  await using lab = await labWithFirewalld()
  const [bare, pod] = [await lab.connectPod(), await lab.addPod()]
  expect(await sourcesIn(lab.host)).toEqual([`${pod.ip}/32`, `${pod.ip6}/128`])
  expect(await pingOnce(bare.namespace, outside.ip)).toBe(false)
  await expectAnswer(pod.namespace, outside.ip)
  await expectAnswer(pod.namespace, outside.ip6)
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0, stdout: "" })
  await succeed(pod.allow())
  await pod.remove()
  expect(await sourcesIn(lab.host)).toEqual([])
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

for (const what of ["a container", "a container without prevResult", "GC"] as const)
  test(`after \`nft flush ruleset\` firewalld does not let go of a source: ${what} goes all the same, with one line on stderr`, async () => {
    await using lab = await labWithFirewalld()
    const pod = await lab.addPod()
    // Delete only firewalld's table, because a flush would also delete our record of the sources.
    await lab.host.exec("nft", ["delete", "table", "inet", "firewalld"])
    const keys = what === "a container" ? { prevResult: pod.result } : { prevResult: undefined }
    const verb = what === "GC" ? "GC" : "DEL"
    const { stderr } = await succeed(pod.firewall.run(verb, { ...keys, "cni.dev/valid-attachments": [] }))
    expect(stderr.trim().split("\n")).toHaveLength(1)
    expect(stderr).toContain('from zone "trusted" of firewalld: COMMAND_FAILED: ')
    expect(stderr).toContain("and 1 more; a reload or restart of firewalld removes it")
    expect(await lab.nftables()).not.toContain("cni_firewall")
    await restartFirewalld(lab.host)
    expect(await sourcesIn(lab.host)).toEqual([])
  })

test("after `nft flush ruleset` all of a network's containers are reloaded: DEL and ADD succeed; after firewalld's restart the next ADD adds all sources", async () => {
  await using lab = await labWithFirewalld()
  const pods = [await lab.addPod(), await lab.addPod()]
  await lab.host.exec("nft", ["flush", "ruleset"])
  for (const pod of pods) await succeed(pod.firewall.run("DEL", { prevResult: pod.result }))
  for (const pod of pods) await succeed(pod.allow())
  const late = await lab.connectPod()
  expect((await succeed(late.allow())).stderr).toContain("COMMAND_FAILED")
  for (const pod of [...pods, late]) await expectAnswer(pod.namespace, outside.ip)
  await restartFirewalld(lab.host)
  const last = await lab.addPod()
  for (const pod of [...pods, late]) {
    await expectAnswer(pod.namespace, outside.ip)
    expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
  }
  for (const pod of [...pods, late, last]) expect((await succeed(pod.firewall.run("DEL"))).stderr).toBe("")
  expect(await sourcesIn(lab.host)).toEqual([])
})

test("ADD still fails where firewalld drops, and cannot add the source", async () => {
  await using lab = await labWithFirewalld()
  await lab.host.exec("nft", ["delete", "table", "inet", "firewalld"])
  await lab.host.exec("nft", ["add", "table", "inet", "firewalld_policy_drop"]) // with this table firewalld drops all packets during a reload
  const pod = await lab.connectPod()
  expect((await fail(pod.allow())).msg).toContain(`Cannot add the address ${pod.ip}/32 to zone "trusted"`)
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

test("a reload makes firewalld forget: CHECK says so, and the next ADD adds the sources of all containers again", async () => {
  await using lab = await labWithFirewalld()
  const [pod, other] = [await lab.addPod(), await lab.addPod({ firewall: { firewalldZone: "home" } })]
  await using service = await EchoPeer.start(lab.host, { port: 9999 })
  const question = { transport: "tcp", address: "10.1.0.1", port: service.port } as const
  await askEcho(pod.namespace, question)
  await lab.host.exec("firewall-cmd", ["--reload"])
  expect(await pingOnce(pod.namespace, outside.ip)).toBe(false)
  await expectNoEcho(pod.namespace, question)
  const { msg, details } = await fail(pod.firewall.check(pod.result))
  expect(msg).toContain(`Cannot find the address ${pod.ip}/32 in zone "trusted" of firewalld`)
  expect(details).toContain("the next ADD")
  const third = await lab.addPod()
  await expectAnswer(pod.namespace, outside.ip)
  await askEcho(pod.namespace, question)
  expect(await pod.firewall.check(pod.result)).toMatchObject({ exitCode: 0 })
  expect(await sourcesIn(lab.host, "home")).toEqual([`${other.ip}/32`, `${other.ip6}/128`])
  for (const each of [pod, other, third]) await each.remove()
  expect([...(await sourcesIn(lab.host)), ...(await sourcesIn(lab.host, "home"))]).toEqual([])
})

test("policies hold beside firewalld, and published ports are reached", async () => {
  await using lab = await labWithFirewalld()
  const policy = "same-bridge"
  const [a, b] = [await lab.addPod({ policy }), await lab.addPod({ network: 2, policy })]
  const neighbour = await lab.addPod({ policy })
  expect(await pingOnce(a.namespace, b.ip)).toBe(false)
  await expectAnswer(a.namespace, neighbour.ip)
  await succeed(a.portmap(lab).run("ADD"))
  await using _server = await EchoPeer.start(a.namespace, { port: 80 })
  await askEcho(lab.outside, { transport: "tcp", address: uplink.ip, port: 8080 })
})

test("DEL removes what ADD has added, also by another configuration, and GC too", async () => {
  await using lab = await labWithFirewalld()
  const [pod, stale, valid] = [await lab.addPod(), await lab.addPod(), await lab.addPod()]
  await pod.firewall.del({ backend: "nftables", firewalldZone: "home", prevResult: undefined })
  const attachments = [{ containerID: valid.namespace.name, ifname: "eth0" }]
  await succeed(stale.firewall.run("GC", { "cni.dev/valid-attachments": attachments, prevResult: undefined }))
  expect(await sourcesIn(lab.host)).toEqual([`${valid.ip}/32`, `${valid.ip6}/128`])
})

test("firewalld that comes or goes between ADD and DEL leaves nothing behind", async () => {
  await using lab = await FirewallLab.create()
  await startBus(lab.host)
  const before = await lab.addPod()
  expect(await lab.nftables()).toContain("cni_firewall")
  await runFirewalld(lab.host)
  const during = await lab.addPod()
  await before.remove()
  expect(await sourcesIn(lab.host)).toEqual([`${during.ip}/32`, `${during.ip6}/128`])
  await stopFirewalld(lab.host)
  expect(await during.firewall.check(during.result)).toMatchObject({ exitCode: 0 }) // without firewalld nothing drops packets
  await during.remove()
  expect(await lab.nftables()).not.toContain("cni_firewall")
})

test("a late DEL leaves the address to the container that has it by then", async () => {
  await using lab = await labWithFirewalld()
  const pod = await lab.addPod()
  const late = { ...pod.firewall.config }
  await pod.remove()
  const next = await lab.addPod()
  await succeed(next.allow({ prevResult: late.prevResult })) // gets the former address of the first container
  await pod.firewall.del()
  expect(await sourcesIn(lab.host)).toEqual([`${pod.ip}/32`, `${pod.ip6}/128`])
})

test("backend firewalld without firewalld is refused, by STATUS too, and a zone that does not exist; then nothing stays", async () => {
  await using lab = await FirewallLab.create()
  const pod = await lab.connectPod({ firewall: { backend: "firewalld" } })
  expect((await fail(pod.allow())).msg).toContain("Cannot use firewalld")
  expect((await fail(pod.firewall.run("STATUS"))).code).toBe(50)
  await startFirewalld(lab.host)
  const { msg, details } = await fail(pod.allow({ firewalldZone: "no-such-zone" }))
  expect(`${msg}; ${details}`).toContain("INVALID_ZONE")
  expect(await lab.nftables()).not.toContain("cni_firewall")
  await succeed(pod.firewall.run("STATUS"))
  await succeed(pod.allow())
})

test("DBUS_SYSTEM_BUS_ADDRESS says where the bus is", async () => {
  await using lab = await labWithFirewalld()
  await lab.host.exec("mv", ["/run/dbus/system_bus_socket", "/run/dbus/other,bus"])
  const pod = await lab.connectPod({ firewall: { backend: "firewalld" } })
  await fail(pod.allow())
  const env = { DBUS_SYSTEM_BUS_ADDRESS: "tcp:host=x;unix:guid=1,path=/run/dbus/other%2cbus" }
  expect(await pod.firewall.run("ADD", {}, { env })).toMatchObject({ exitCode: 0 })
})

test("what Go's ADD has added to firewalld our CHECK finds and our DEL removes, and the other way round", async () => {
  await using lab = await labWithFirewalld()
  const bin = "/usr/lib/cni/firewall"
  const [theirs, ours] = [await lab.connectPod(), await lab.connectPod()]
  const keysFor = (pod: typeof ours) => ({ cniVersion: "1.0.0", prevResult: { ...pod.result, cniVersion: "1.0.0" } })
  await succeed(theirs.firewall.run("ADD", keysFor(theirs), { bin }))
  expect(await sourcesIn(lab.host)).toEqual([`${theirs.ip}/32`, `${theirs.ip6}/128`])
  expect(await theirs.firewall.run("CHECK", keysFor(theirs))).toMatchObject({ exitCode: 0 })
  await lab.host.exec("firewall-cmd", ["--zone=trusted", `--remove-source=${theirs.ip6}/128`])
  await fail(theirs.firewall.run("CHECK", keysFor(theirs)))
  await succeed(theirs.firewall.run("DEL", keysFor(theirs)))
  expect(await sourcesIn(lab.host)).toEqual([])
  await succeed(ours.firewall.run("ADD", keysFor(ours)))
  await succeed(ours.firewall.run("CHECK", keysFor(ours), { bin }))
  await succeed(ours.firewall.run("DEL", keysFor(ours), { bin }))
  expect(await sourcesIn(lab.host)).toEqual([])
  await ours.firewall.del()
})
