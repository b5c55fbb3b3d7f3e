/**
 * The bandwidth plugin on real qdiscs and filters, called in this process, judged with `tc` and `ip`.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout } from "bun:test"
import { createHash } from "node:crypto"
import { bandwidth } from "../../meta/bandwidth/main.ts"
import { type ContainerNamespace, HostNamespace, type Namespace, patient, testWith } from "../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall, refuseAnswer } from "./in-process.ts"

setDefaultTimeout(patient(30_000))

const needs = ["ifb", "tbf"] as const
const both = { ingressRate: "8M", egressRate: "16M" }
const inside = { ...both, shapeIn: "container" }
const subnets = { shapedSubnets: ["10.9.0.0/16", "fd00:1::/56"] }

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
  for (const where of [host, pod])
    await where.exec("tc", "qdisc add dev lo root handle 99: bfifo limit 4242".split(" "))
})
afterAll(() => host[Symbol.asyncDispose]())

/** A pair between host, "veth1", and container, "eth0", or other names, and the ids that the kernel gives. */
async function connect(port = "veth1", ifName = "eth0", alias = `lab/c1/${ifName}`): Promise<void> {
  await host.exec("ip", ["link", "add", port, "mtu", "1400", "type", "veth", "peer", "name", ifName, "netns", pod.name])
  await host.exec("ip", ["link", "set", port, "alias", alias])
}
afterEach(async () => {
  for (const where of [host, pod])
    for (const { ifname } of await where.json<{ ifname?: string }[]>("ip", ["-j", "link"]))
      if (ifname !== undefined && ifname !== "lo") await where.tryExec("ip", ["link", "del", ifname])
})

const prevResultOf = (port: string, ifName: string) => ({
  cniVersion: "1.1.0",
  interfaces: [{ name: port }, { name: ifName, sandbox: pod.path }],
  ips: [{ address: "10.1.0.2/16", interface: 1 }],
})

function configOf(keys: object, port = "veth1", ifName = "eth0") {
  return { cniVersion: "1.1.0", name: "lab", type: "bandwidth", prevResult: prevResultOf(port, ifName), ...keys }
}

function call(verb: ProcessCall["verb"], keys: object, more: Partial<ProcessCall> = {}): Answer {
  return callPlugin(host, bandwidth, { verb, config: configOf(keys), pod, ...more })
}

/** Calls it, which has to succeed without a line in the log; returns the result. */
function done(verb: ProcessCall["verb"], keys: object, more: Partial<ProcessCall> = {}): Answer["json"] {
  const answer = call(verb, keys, more)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

/** ADD, and CHECK by its result. */
function add(keys: object): Answer["json"] {
  const result = done("ADD", keys)
  done("CHECK", { ...keys, prevResult: result })
  return result
}

const upstreamName = (containerId: string) =>
  `bwp${createHash("sha512").update(`lab${containerId}`).digest("hex").slice(0, 12)}`
const ownName = (owner: string) => `bwp${createHash("sha256").update(owner).digest("hex").slice(0, 12)}`
const ifb = upstreamName("c1")

/** All that a limit is made of, as lines: qdiscs, classes and filters, and the devices. */
async function shown(where: Namespace = host): Promise<string[]> {
  const links = await where.json<Record<string, unknown>[]>("ip", ["-d", "-j", "link"])
  const lines: string[] = []
  for (const { ifname, mtu, txqlen, ifalias, flags, linkinfo } of links) {
    const up = String(flags).includes("UP") ? " up" : ""
    const isIfb = (linkinfo as { info_kind?: string } | undefined)?.info_kind === "ifb"
    if (isIfb) lines.push(`${ifname} mtu ${mtu} txqlen ${txqlen}${up} ${ifalias}`)
  }
  const names = links.flatMap(({ ifname }) => (ifname === undefined || ifname === "lo" ? [] : String(ifname)))
  // One program for all: what it shows of "lo" is the mark between two answers.
  const places = names.flatMap((name) =>
    ["qdisc show", "class show", "filter show", "filter show ingress"].map((words) => [name, words] as const),
  )
  const batch = places.map(([name, words]) => `${words} dev ${name}\nqdisc show dev lo\n`)
  const { stdout } = await where.exec("tc", ["-batch", "-"], { input: batch.join("") })
  const answers = stdout.split(/qdisc bfifo 99: root refcnt \d+ limit 4242b/)
  const said = places.flatMap(([name, words], at) =>
    (answers[at] ?? "").split("\n").map((line) => `${name} ${words.split(" ")[0]}: ${line}`),
  )
  const isOfKernel = (line: string) =>
    / noqueue| mq |pfifo|random type|divisor|u32 chain 0 $|: $|class tbf|: index/.test(line)
  const plain = (line: string) =>
    line
      .replace(/\s+/g, " ")
      .replace(/(qdisc|filter|class): \1 /, "$1 ")
      .replace(/ chain 0 fh .*(flowid \S+) not_in_hw| (bfifo|leaf) \w+:| refcnt \d+| -{9,}/, " $1$2")
      .replace(/ r2q.*(default \w+).*/, " $1")
      .replace(/(\w) +/g, "$1 ")
      .trim()
  return [...lines, ...said.map(plain).filter((line) => !isOfKernel(`${line} `))]
}

/** A redirect of all that a link receives to the device. */
const redirected = (link: string, priority = 1, parent = "ffff:") => [
  `${link} filter parent ${parent} protocol all pref ${priority} u32 flowid 1:1`,
  `${link} filter: match 00000000/00000000 at 0`,
  `${link} filter: action order 1: mirred (Egress Redirect to device ${ifb}) stolen`,
]

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
      `${link} qdisc htb 1: root default ${isShaped ? "0x1" : "0x30"}`,
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

  testWith(needs, "by the owner's name, when the namespace or the interface has gone", async () => {
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

describe("CHECK", () => {
  const tc = (words: string) => host.exec("tc", words.split(" "))
  const wanted = 'Check of the root qdisc of "veth1" failed: expected'
  const filters = 'Check of the filters of "veth1" failed: expected'
  const redirect = `${filters} a redirect of everything to "${ifb}", found`
  const limit = "rate 8000000bit burst 32768b"
  const plain: [string, string][] = [
    ["qdisc del dev veth1 root", `${wanted} tbf 1: ${limit} limit 57768b, found none`],
    ["qdisc replace dev veth1 root handle 5: bfifo", `${wanted} tbf 1: ${limit} limit 57768b, found bfifo 5:`],
    [
      "qdisc replace dev veth1 root handle 1: tbf rate 9mbit burst 32kb limit 57768",
      `${wanted} tbf 1: ${limit} limit 57768b, found tbf 1: rate 9000000bit burst 32768b limit 57768b`,
    ],
    [
      `qdisc del dev ${ifb} root`,
      `Check of the root qdisc of "${ifb}" failed: expected tbf 1: rate 16000000bit burst 40000b limit 90000b, found none`,
    ],
    ["qdisc del dev veth1 ingress", `${redirect} neither ingress nor clsact`],
    ["filter del dev veth1 ingress", `${redirect} ingress ffff: with 0 other filters`],
  ]
  testWith(needs, "names what is missing or another limit, and the next ADD makes it", async () => {
    await connect()
    const result = add(both)
    const whole = await shown()
    for (const [damage, msg] of plain) {
      await tc(damage)
      expect(call("CHECK", { ...both, prevResult: result }).json).toMatchObject({ code: 999, msg })
      if (damage.includes("handle 5:")) await tc("qdisc del dev veth1 root") // another's is not taken away
      add(both)
      expect(await shown()).toEqual(whole)
    }
    await host.exec("ip", ["link", "set", ifb, "down"])
    expect(call("CHECK", { ...both, prevResult: result }).json.msg).toContain("expected up, found down")
    await host.exec("ip", ["link", "del", ifb])
    expect(call("CHECK", { ...both, prevResult: result }).json.msg).toBe(
      `Check of the ifb of "veth1" failed: expected "${ifb}", found none`,
    )
  })

  const u32 = "protocol ip prio 16 u32 match ip src 10.8.0.0/16 flowid 1:30"
  const classes: [string, string][] = [
    ["filter del dev veth1 parent 1: prio 15", `${filters} protocol ipv6 match fd000001/ffffffff at 8`],
    [`filter add dev veth1 parent 1: ${u32}`, `${filters} 2, found 3`],
    ["class change dev veth1 parent 1: classid 1:30 htb rate 9mbit", 'Check of class 1:30 of "veth1" failed: expected'],
    [
      "class change dev veth1 parent 1: classid 1:1 htb rate 9mbit",
      "expected rate 800000000000bit burst 100000000b, found",
    ],
    ["qdisc del dev veth1 root", `${wanted} htb 1: with the default class 1:1, found none`],
  ]
  testWith(needs, "of limits for some peers looks at classes and filters, too", async () => {
    await connect()
    const keys = { ...both, ...subnets }
    add(keys)
    const whole = (await shown()).sort()
    for (const [damage, msg] of classes) {
      await tc(damage)
      expect(call("CHECK", keys).json).toMatchObject({ code: 999, msg: expect.stringContaining(msg) })
      add(keys)
      expect((await shown()).sort()).toEqual(whole)
    }
    const unshaped = { ...both, unshapedSubnets: subnets.shapedSubnets }
    expect(call("CHECK", unshaped).json.msg).toBe(`${wanted} htb 1: with the default class 1:30, found htb 1:`)
    expect(call("CHECK", both).json.msg).toContain("found htb 1:")
    expect(call("CHECK", { ...keys, shapedSubnets: ["10.9.0.0/16"] }).json.msg).toBe(`${filters} 1, found 2`)
  })

  testWith(needs, "and ADD need an interface, prevResult, and for the host's end one", async () => {
    for (const verb of ["ADD", "CHECK"] as const) {
      expect(call(verb, { ...both, prevResult: undefined }).json).toMatchObject({
        code: 7,
        msg: 'Cannot limit "eth0": prevResult is missing',
        details: "bandwidth must be called as chained plugin: it limits what an earlier plugin of the chain has made",
      })
      expect(call(verb, both).json).toMatchObject({
        code: 999,
        msg: `Cannot limit "eth0" in "${pod.path}": there is no such interface`,
      })
    }
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    expect(call("ADD", { ...both, shapeIn: "host" }).json).toMatchObject({
      code: 7,
      msg: 'Cannot limit "eth0" on the host: it has no end there',
      details: 'it is of kind "bridge": leave "shapeIn" out, or set it to "container"',
    })
    add(both)
    expect((await shown(pod)).filter((line) => line.includes("tbf"))).toHaveLength(2)
    expect(await shown()).toEqual([])
  })
})

describe("what is not ours", () => {
  testWith(needs, "stays: another root qdisc is in the way of ADD, and told with the way out", async () => {
    await connect()
    await host.exec("tc", ["qdisc", "add", "dev", "veth1", "root", "handle", "7:", "bfifo", "limit", "9999"])
    const before = await shown()
    expect(call("ADD", both).json).toMatchObject({
      code: 999,
      msg: 'Cannot limit "veth1"',
      details: 'another program has put a qdisc there: bfifo 7:; "tc qdisc del dev veth1 root" takes it away',
    })
    done("DEL", both)
    expect(await shown()).toEqual(before)
    await host.exec("tc", "qdisc del dev veth1 root".split(" "))
    await host.exec("tc", "qdisc add dev veth1 root handle 7: tbf rate 1mbit burst 10kb limit 10kb".split(" "))
    const changed = await shown()
    done("DEL", both)
    expect(await shown()).toEqual(changed)
  })

  const drop = "u32 match ip protocol 1 0xff flowid 1:1"
  testWith(needs, "stays: a hook is used after its filters, whichever kind it is", async () => {
    for (const [kind, parent] of [
      ["clsact", "ffff:fff2"],
      ["ingress", "ffff:"],
    ] as const) {
      await connect()
      await host.exec("tc", ["qdisc", "add", "dev", "veth1", kind])
      for (const priority of [3, 1])
        await host.exec("tc", `filter add dev veth1 parent ${parent} protocol ip prio ${priority} ${drop}`.split(" "))
      const before = await shown()
      add(both)
      const place = kind === "clsact" ? "" : "parent ffff: "
      const ours = (await shown()).filter((line) => line.includes("pref 4"))
      expect(ours).toEqual([`veth1 filter ${place}protocol all pref 4 u32 flowid 1:1`])
      expect(call("ADD", both, { write: refuseAnswer }).exitCode).toBe(1)
      expect(await shown()).toEqual(before)
      add(both)
      done("DEL", both)
      expect(await shown()).toEqual(before)
      await host.exec("ip", ["link", "del", "veth1"])
    }
  })

  testWith(needs, "is used at the last priority, and a clsact without filters stays", async () => {
    await connect()
    await host.exec("tc", "qdisc add dev veth1 clsact".split(" "))
    const empty = await shown()
    add(both)
    done("DEL", both)
    expect(await shown()).toEqual(empty)
    await host.exec("tc", `filter add dev veth1 ingress protocol all prio 65535 ${drop}`.split(" "))
    const before = await shown()
    add(both)
    expect((await shown()).filter((line) => line.includes("pref 65535"))).toHaveLength(2)
    done("DEL", both)
    expect(await shown()).toEqual(before)
  })

  testWith(
    needs,
    "but upstream's, without an owner's name, goes: by the filter, by the result, or by the name alone",
    async () => {
      const make = async (isLed: boolean) => {
        await connect("veth1", "eth0", "")
        await host.exec("ip", ["link", "add", ifb, "up", "type", "ifb"])
        await host.exec("tc", "qdisc add dev veth1 root handle 1: tbf rate 1mbit burst 10kb limit 10kb".split(" "))
        if (!isLed) return
        await host.exec("tc", "qdisc add dev veth1 ingress".split(" "))
        await host.exec(
          "tc",
          `filter add dev veth1 ingress protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev ${ifb}`.split(
            " ",
          ),
        )
      }
      const recorded = {
        prevResult: { ...prevResultOf("veth1", "eth0"), interfaces: [{ name: "veth1" }, { name: ifb }] },
      }
      for (const [isLed, keys] of [
        [true, {}],
        [true, { prevResult: undefined }],
        [false, recorded],
      ] as const) {
        await make(isLed)
        done("DEL", keys)
        expect(await shown()).toEqual([])
        await host.exec("ip", ["link", "del", "veth1"])
      }
      // Of another interface of the container, by what is known.
      for (const keys of [{}, { prevResult: undefined }]) {
        await make(false)
        done("DEL", keys)
        expect((await shown()).filter((line) => line.startsWith(`${ifb} mtu`))).toHaveLength(1)
        await host.exec("sh", ["-c", `ip link del ${ifb}; ip link del veth1`])
      }
      await make(true)
      await host.exec("ip", ["link", "del", "veth1"])
      done("DEL", { prevResult: undefined }, { pod: undefined })
      expect(await shown()).toEqual([])
    },
  )

  testWith(needs, "but a filter that leads nowhere, which upstream's DEL leaves, goes with the hook", async () => {
    await connect()
    add(both)
    await host.exec("ip", ["link", "del", ifb])
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
      // Of a container the devices alone: without them nothing waits.
      expect((await shown(pod)).filter((line) => line.includes(" mtu "))).toEqual([])
      expect((await host.exec("ip", ["link", "show", "br0"])).exitCode).toBe(0)
    })
  }
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
