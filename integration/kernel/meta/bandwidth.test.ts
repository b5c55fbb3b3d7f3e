/** Tests the qdiscs and filters that the bandwidth plugin, in this process, creates and deletes, with `tc` and `ip`. */
import { describe, expect } from "bun:test"
import { bandwidth } from "../../../meta/bandwidth/main.ts"
import { testWith } from "../../lab/mod.ts"
import { callPlugin, refuseAnswer } from "../in-process.ts"
import {
  add,
  both,
  call,
  configOf,
  connect,
  done,
  host,
  ifb,
  inside,
  needs,
  ownName,
  pod,
  prevResultOf,
  redirected,
  shown,
  subnets,
  useHost,
} from "./limits.ts"

useHost()

describe("ADD makes, and DEL takes back,", () => {
  const ownQueue = (mtu: number) => `${ifb} mtu ${mtu} txqlen 1000 up lab/c1/eth0`
  const hook = (link: string) => `${link} qdisc ingress ffff: parent ffff:fff1`
  const tbf = (link: string, rate: string) => `${link} qdisc tbf 1: root ${rate} lat 25ms`
  const [slow, fast] = ["rate 8Mbit burst 32Kb", "rate 16Mbit burst 40000b"]
  const htb = (link: string, isShaped: boolean, limit: string, queue: number, offsets: readonly number[]) => {
    const [v4, high, low] = offsets
    const flow = `u32 flowid 1:${isShaped ? "30" : "1"}`
    const twice = limit.replace(
      /(rate|burst) (\S+)/g,
      (_, word, value) => `${word} ${value} c${word === "rate" ? "eil" : word} ${value}`,
    )
    return [
      `${link} qdisc htb 1: root r2q 10 default ${isShaped ? "0x1" : "0x30"}`,
      `${link} qdisc bfifo parent 1:30 limit ${queue}b`,
      `${link} class htb 1:1 root prio 0 rate 800Gbit ceil 800Gbit burst 100000000b cburst 100000000b`,
      `${link} class htb 1:30 root leaf prio 0 ${twice}`,
      `${link} filter parent 1: protocol ipv6 pref 15 ${flow}`,
      `${link} filter: match fd000001/ffffffff at ${high}`,
      `${link} filter: match 00000000/ffffff00 at ${low}`,
      `${link} filter parent 1: protocol ip pref 16 ${flow}`,
      `${link} filter: match 0a090000/ffff0000 at ${v4}`,
    ]
  }
  const bySubnets = (isShaped: boolean) => [
    ownQueue(1400),
    ...htb("veth1", isShaped, slow, 123304, [12, 8, 12]),
    hook("veth1"),
    ...redirected("veth1"),
    ...htb(ifb, isShaped, fast, 155536, [16, 24, 28]),
  ]

  const cases: [string, object, string[], string[]][] = [
    [
      "on the host's end",
      both,
      [ownQueue(1400), tbf("veth1", slow), hook("veth1"), ...redirected("veth1"), tbf(ifb, fast)],
      [],
    ],
    ["towards the container", { ingressRate: "8M" }, [tbf("veth1", slow)], []],
    [
      "from the container",
      { egressRate: "16M" },
      [ownQueue(1400), hook("veth1"), ...redirected("veth1"), tbf(ifb, fast)],
      [],
    ],
    ["inside", inside, [], [ownQueue(1500), tbf("eth0", fast), hook("eth0"), ...redirected("eth0"), tbf(ifb, slow)]],
    ["inside, from the container", { egressRate: "16M", shapeIn: "container" }, [], [tbf("eth0", fast)]],
    ["with some peers", { ...both, ...subnets }, bySubnets(true), []],
    ["with all but some peers", { ...both, unshapedSubnets: subnets.shapedSubnets }, bySubnets(false), []],
  ]
  for (const [where, keys, onHost, within] of cases) {
    testWith(needs, `limits ${where}`, async () => {
      await connect()
      const result = add(keys)
      expect((await shown()).sort()).toEqual(onHost.sort())
      expect((await shown(pod)).sort()).toEqual(within.sort())
      const device = [...onHost, ...within].some((line) => line.startsWith(`${ifb} mtu`))
      const mac = expect.stringMatching(/^([0-9a-f]{2}:){5}/)
      const made = within.length > 0 ? { name: ifb, mac, mtu: 1500, sandbox: pod.path } : { name: ifb, mac, mtu: 1400 }
      expect(result.interfaces).toEqual([...prevResultOf("veth1", "eth0").interfaces, ...(device ? [made] : [])])

      expect(call("ADD", { ...keys, egressRate: "1M" }, { write: refuseAnswer }).exitCode).toBe(1)
      expect([await shown(), await shown(pod)]).toEqual([[], []])
      for (const del of [{}, keys, { prevResult: undefined }]) {
        add(keys)
        done("DEL", del)
        expect([await shown(), await shown(pod)]).toEqual([[], []])
      }
      done("DEL", keys)
    })
  }

  testWith(needs, "the same when it is repeated with other limits", async () => {
    await connect()
    for (const keys of [{ ...both, ...subnets }, inside, both]) add(keys)
    done("DEL", { shapeIn: "container" })
    expect((await shown()).sort()).toEqual([])
    add({ ...both, ...subnets })
    add(both)
    expect(await shown()).toEqual([
      ownQueue(1400),
      tbf("veth1", slow),
      hook("veth1"),
      ...redirected("veth1"),
      tbf(ifb, fast),
    ])
  })

  testWith(needs, "by the owner's name, when the namespace or the interface no longer exists", async () => {
    await connect()
    for (const keys of [both, { ingressRate: "8M" }]) {
      add(keys)
      done("DEL", { prevResult: undefined }, { pod: undefined })
      expect(await shown()).toEqual([])
    }
    add(both)
    await pod.exec("ip", ["link", "del", "eth0"])
    done("DEL", both)
    expect(await shown()).toEqual([])
  })
})

testWith(
  needs,
  "two interfaces of a container have a device each: one with upstream's name, one with its own",
  async () => {
    await connect()
    await connect("veth2", "net1", "lab/c1/net1")
    const second = { egressRate: "1M", prevResult: prevResultOf("veth2", "net1") }
    add(both)
    const first = await shown()
    const result = done("ADD", second, { ifName: "net1" })
    const own = ownName("lab/c1/net1")
    expect(result.interfaces.at(-1)).toMatchObject({ name: own })
    done("CHECK", { ...second, prevResult: result }, { ifName: "net1" })
    done("CHECK", both)
    expect(await shown()).toContain(`${own} mtu 1400 txqlen 1000 up lab/c1/net1`)
    done("DEL", second, { ifName: "net1" })
    expect(await shown()).toEqual(first)
    done("DEL", both)
    expect(await shown()).toEqual([])
  },
)

describe("GC", () => {
  const collect = (...containers: string[]) => {
    const valid = containers.map((containerID) => ({ containerID, ifname: "eth0" }))
    const config = { ...configOf({ "cni.dev/valid-attachments": valid }), prevResult: undefined }
    expect(callPlugin(host, bandwidth, { verb: "GC", config })).toMatchObject({ exitCode: 0, log: [] })
  }
  for (const [where, keys] of [
    ["on the host", both],
    ["in a container that lives", inside],
    ["by classes", { ...both, ...subnets }],
  ] as const) {
    testWith(needs, `takes what is stale ${where}, and leaves what is valid, or another network's`, async () => {
      await connect()
      await host.exec("ip", "link add theirs type ifb".split(" "))
      await host.exec("ip", "link set theirs alias lab2/c1/eth0".split(" "))
      await host.exec("ip", "link add br0 type bridge".split(" "))
      await host.exec("ip", "link set br0 alias lab/c9/eth0".split(" "))
      add(keys)
      const before = [await shown(), await shown(pod)]
      collect("c1")
      expect([await shown(), await shown(pod)]).toEqual(before)
      collect("c2")
      expect(await shown()).toEqual(["theirs mtu 1500 txqlen 32 lab2/c1/eth0"])
      // In a container GC deletes only the devices, because nothing else holds packets without them.
      expect((await shown(pod)).filter((line) => line.includes(" mtu "))).toEqual([])
      expect((await host.exec("ip", ["link", "show", "br0"])).exitCode).toBe(0)
    })
  }
})

testWith(needs, "without limits nothing is looked at, be there an interface or none", async () => {
  for (const verb of ["ADD", "CHECK"] as const) done(verb, {})
  await connect()
  for (const verb of ["ADD", "CHECK"] as const) done(verb, { ingressRate: 0 })
  expect(await shown()).toEqual([])
})

testWith(needs, "STATUS is well where the limits can be set, and leaves nothing", async () => {
  for (const keys of [{}, both, inside, { ...both, ...subnets }]) {
    const config = { ...configOf(keys), prevResult: undefined }
    expect(callPlugin(host, bandwidth, { verb: "STATUS", config })).toMatchObject({ exitCode: 0, log: [] })
  }
  expect(await shown()).toEqual([])
  const { stdout } = await host.exec("tc", ["qdisc", "show", "dev", "lo"])
  expect(stdout).toContain("bfifo 99:")
})
