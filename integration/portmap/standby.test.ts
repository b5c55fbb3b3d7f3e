import { expect } from "bun:test"
import { EchoPeer, expectUnchanged, fail, succeed, takeSnapshot, UdpFlow } from "../lab/mod.ts"
import { testEach } from "./portmap-lab.ts"
import { createTwins, expectAll, mappingsTo, sctpTo } from "./twins.ts"

testEach("ports that a container has in two networks lead to the first one, then to the other", async (lab) => {
  const { first, second, peer, before, mappings } = await createTwins(lab)
  await using _ = peer
  await succeed(first.map(mappings))
  await succeed(second.map(mappings))
  for (const pod of [first, second]) await succeed(pod.check())
  await expectAll(lab, first)
  for (const _again of [1, 2]) await succeed(first.unmap())
  await succeed(second.check())
  expect((await fail(first.check())).msg).toContain("Cannot find a port mapping of lab/")
  await expectAll(lab, second)
  expect(await lab.rules()).toMatch(sctpTo(second))
  expect(await lab.rules()).not.toMatch(sctpTo(first))
  for (const _again of [1, 2]) await succeed(second.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("who stands by may go first, and come again, and ADD again changes nothing", async (lab) => {
  const { first, second, peer, before, mappings } = await createTwins(lab)
  await using _ = peer
  await succeed(first.map(mappings))
  const alone = await takeSnapshot(lab.host)
  // Recorded with the setting, which is disabled with the last mapping.
  const isTrace = ({ line }: { line: string }) =>
    /localnet_links element "br-other"|br-other.*route_localnet/.test(line)
  await succeed(second.map(mappings))
  const both = await takeSnapshot(lab.host)
  for (const pod of [first, second]) {
    await succeed(pod.map(mappings))
    expectUnchanged(both, await takeSnapshot(lab.host))
  }
  await succeed(second.unmap())
  expectUnchanged(alone, await takeSnapshot(lab.host), isTrace)
  expect((await fail(second.check())).msg).toContain("Cannot find a port mapping of other/")
  await succeed(first.check())
  await expectAll(lab, first)
  await succeed(second.map(mappings))
  await expectAll(lab, first)
  await succeed(second.unmap({ runtimeConfig: undefined, prevResult: undefined }, { netns: "" }))
  await succeed(first.unmap({ runtimeConfig: undefined, prevResult: undefined }, { netns: "" }))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("two interfaces in one network, and a third attachment, go in any order", async (lab) => {
  const { first, second, peer, before, mappings } = await createTwins(lab)
  await using _ = peer
  const third = await lab.addPod({ namespace: first.namespace, ifName: "net2" })
  const orders = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ]
  for (const order of orders) {
    const pods = [first, second, third]
    for (const pod of pods) await succeed(pod.map(mappings))
    for (const at of order) {
      for (const pod of pods) await succeed(pod.check())
      const gone = [first, second, third][at]
      if (gone) await succeed(gone.unmap())
      if (gone) pods.splice(pods.indexOf(gone), 1)
    }
    expect(await lab.rules()).not.toContain(`/${first.namespace.name}/`)
  }
  await third.link.del()
  expectUnchanged(before, await takeSnapshot(lab.host), ({ section }) => section.startsWith("/var/lib/cni"))
})

testEach("another container is refused as ever, by the first that has the port", async (lab) => {
  const { first, second, peer, mappings } = await createTwins(lab)
  await using _ = peer
  const stranger = await lab.addPod()
  await succeed(first.map(mappings))
  await succeed(second.map(mappings))
  const holderOf = async () => (await fail(stranger.map([{ hostPort: 8080, containerPort: 80, protocol: "udp" }]))).msg
  const both = await takeSnapshot(lab.host)
  const id = first.namespace.name
  expect(await holderOf()).toMatch(/^Cannot map host port 8080\/udp to .* it is mapped to /)
  expect(await holderOf()).toEndWith(`it is mapped to ${first.ip}:${peer.port} for lab/${id}/eth0`)
  // An ID with one more letter belongs to another container.
  const longer = await fail(stranger.map(mappings, {}, { containerId: `${id}x` }))
  expect(longer.msg).toContain(`for lab/${id}/eth0`)
  expectUnchanged(both, await takeSnapshot(lab.host))
  await succeed(first.unmap())
  expect(await holderOf()).toEndWith(`it is mapped to ${second.ip}:${peer.port} for other/${id}/net1`)
})

testEach("GC of the first one's network lets the other take over, and the other way round", async (lab) => {
  const { first, second, peer, before, mappings } = await createTwins(lab)
  await using _ = peer
  const nothing = { "cni.dev/valid-attachments": [] }
  for (const [gone, left] of [
    [first, second],
    [second, first],
  ] as const) {
    await succeed(first.map(mappings))
    await succeed(second.map(mappings))
    await succeed(gone.portmap.run("GC", nothing))
    await succeed(left.check())
    expect((await fail(gone.check())).msg).toContain("Cannot find a port mapping")
    await expectAll(lab, left)
    await succeed(left.portmap.run("GC", nothing))
  }
  expectUnchanged(before, await takeSnapshot(lab.host))
})

testEach("a UDP flow stays with the first one, and goes on to the other when the first goes", async (lab) => {
  const { first, second, peer, mappings } = await createTwins(lab)
  await using _ = peer
  await using other = await EchoPeer.start(first.namespace)
  await succeed(first.map(mappings))
  await using flow = new UdpFlow(lab.host, "127.0.0.1", 8080)
  await flow.answeredBy(peer.port)
  const watch =
    "add table ip watch; add counter ip watch begun; add chain ip watch c { type filter hook output priority -150; }"
  await lab.host.exec("nft", [`${watch}; add rule ip watch c udp dport 8080 ct state new counter name begun`])
  await succeed(second.map(mappingsTo(other.port)))
  await flow.answeredBy(peer.port)
  const { stdout } = await lab.host.exec("nft", ["list", "counter", "ip", "watch", "begun"])
  expect(stdout).toContain("packets 0 ") // the kernel kept the flow's connection tracking entry
  await succeed(first.unmap())
  await flow.answeredBy(other.port)
})

testEach("an ADD of the second one that fails leaves the first one as it was", async (lab) => {
  const { first, second, peer, mappings } = await createTwins(lab)
  await using _ = peer
  await succeed(first.map(mappings))
  const file = "/proc/sys/net/ipv4/conf/br-other/route_localnet"
  await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.br-other.route_localnet=0"])
  await lab.host.exec("mount", ["--bind", file, file])
  await lab.host.exec("mount", ["-o", "remount,bind,ro", file])
  const before = await takeSnapshot(lab.host)
  expect((await fail(second.map(mappings))).msg).toContain("route_localnet")
  expectUnchanged(before, await takeSnapshot(lab.host))
  await expectAll(lab, first)
})
