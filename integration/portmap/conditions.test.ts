import { expect } from "bun:test"
import { askEcho, EchoPeer, expectNoEcho, expectUnchanged, fail, outside, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, type PortmapLab, testEach } from "./portmap-lab.ts"

const { ip, ip6 } = hostAddresses

/** Returns conditions that exclude the other machine, in the syntax of the backend. */
function conditions({ backend }: PortmapLab) {
  const { ip, ip6 } = outside
  return backend.name === "nftables"
    ? { conditionsV4: ["ip", "saddr", "!=", ip], conditionsV6: [`ip6 saddr != ${ip6}`] }
    : { conditionsV4: ["!", "-s", `${ip}/32`], conditionsV6: ["!", "-s", `${ip6}/128`] }
}

testEach("conditions keep packets from the containers that have them, and from no others", async (lab) => {
  const [pod, other] = [await lab.addPod(), await lab.addPod()]
  await using peer = await EchoPeer.start(pod.namespace)
  await using otherPeer = await EchoPeer.start(other.namespace)
  const to = (hostPort: number, containerPort: number, hostIP = "") =>
    ({ hostPort, containerPort, protocol: "tcp", hostIP }) as const
  await succeed(pod.map([to(8080, peer.port), to(8081, peer.port, ip)], conditions(lab)))
  await succeed(other.map([to(9090, otherPeer.port)]))
  expect(await pod.check(conditions(lab))).toMatchObject({ exitCode: 0, stdout: "" })
  const at = (address: string, port: number) => ({ transport: "tcp", address, port }) as const
  for (const address of [ip, ip6]) {
    await askEcho(lab.host, at(address, 8080))
    await askEcho(lab.outside, at(address, 9090))
    await expectNoEcho(lab.outside, at(address, 8080))
  }
  await askEcho(lab.host, at(ip, 8081))
  await expectNoEcho(lab.outside, at(ip, 8081))
})

testEach("conditions go with DEL, with any input, and with an ADD that has none", async (lab) => {
  const pod = await lab.addPod()
  const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
  await succeed(pod.map([{ ...web, hostPort: 1 }]))
  const before = await takeSnapshot(lab.host)
  const other = await lab.addPod()
  const both = await takeSnapshot(lab.host)
  await succeed(other.map([web], conditions(lab)))
  await succeed(other.unmap())
  expectUnchanged(both, await takeSnapshot(lab.host))
  await succeed(other.map([web], conditions(lab)))
  await succeed(other.map([web], conditions(lab)))
  await succeed(other.map([web]))
  const plain = await takeSnapshot(lab.host)
  await succeed(other.map([web], conditions(lab)))
  await succeed(other.map([web]))
  expectUnchanged(plain, await takeSnapshot(lab.host))
  await succeed(other.unmap({ runtimeConfig: undefined, prevResult: undefined }, { netns: "" }))
  await other.link.del()
  expectUnchanged(before, await takeSnapshot(lab.host), ({ section }) => section.startsWith("/var/lib/cni"))
})

testEach("conditions that the backend does not understand change nothing", async (lab) => {
  const pod = await lab.addPod()
  const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
  await succeed(pod.map([{ ...web, hostPort: 1 }]))
  const before = await takeSnapshot(lab.host)
  const isNftables = lab.backend.name === "nftables"
  const nonsense = isNftables ? ["ip", "colour", "blue"] : ["-m", "colour", "--blue"]
  const wrong = await fail((await lab.addPod()).map([web], { conditionsV4: nonsense }))
  expect(wrong.msg).toMatch(/colour|blue/)
  if (!isNftables) expect(wrong.details).toEndWith('the rules contain the text of "conditionsV4"')
  const foreign = isNftables
    ? { conditionsV4: ["-s", "1.2.3.4"], backend: "nftables" }
    : { conditionsV4: ["ip saddr 1.2.3.4"] }
  const mismatch = await fail(pod.map([web], foreign))
  expect(mismatch).toMatchObject({ code: 7, msg: expect.stringContaining("conditionsV4") })
  expectUnchanged(
    before,
    await takeSnapshot(lab.host),
    ({ line, section }) => /veth|fe80|10\.22\.0\.3|fd00:22::3/.test(line) || section.startsWith("/var/lib/cni"),
  )
})
