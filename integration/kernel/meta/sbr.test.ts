/** Tests the sbr plugin with the kernel's rules and routes. The plugin runs in this process; `ip` shows the results. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from "bun:test"
import { sbr } from "../../../meta/sbr/main.ts"
import { RouteSocket } from "../../../pkg/netlink/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall, refuseAnswer } from "../in-process.ts"
import { openRefusingSocket } from "../refusing-kernel.fixture.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

const inside = async (script: string) => (await pod.exec("sh", ["-c", script])).stdout
const batch = (...lines: string[]) => pod.exec("ip", ["-force", "-batch", "-"], { input: `${lines.join("\n")}\n` })

/** Creates two interfaces: "eth0" with 10.1.0.2, and "net1" with 10.2.0.2, 10.3.0.2 and fd00:2::2. */
beforeEach(async () => {
  await batch(
    ...["eth0", "net1"].flatMap((name) => [
      `link add ${name} type veth peer name far-${name}`,
      `link set far-${name} up`,
      `link set ${name} addrgenmode none`,
      `link set far-${name} addrgenmode none`,
      `link set ${name} up`,
    ]),
    "address add 10.1.0.2/16 dev eth0",
    "address add 10.2.0.2/16 dev net1",
    "address add 10.3.0.2/16 dev net1",
    "address add fd00:2::2/64 dev net1 nodad",
    "route add default via 10.1.0.1",
    "route add default via 10.2.0.1 metric 5",
    "route add 10.99.0.0/16 via 10.3.0.1",
    "route add 169.254.0.0/16 dev net1",
    "route add fe80::/64 dev net1",
  )
})
afterEach(async () => {
  const { stdout } = await pod.exec("sh", ["-c", "ip -4 rule; ip -6 rule | sed 's/^/-6 /'"])
  const rules = stdout.split("\n").filter((line) => line !== "" && !/lookup (local|main|default)/.test(line))
  const lines = rules.map((line) => line.replace(/^(-6 )?\d+:\s+/, "rule del ").replace("[detached]", ""))
  for (const [at, line] of lines.entries())
    await pod.exec("sh", ["-c", `ip ${rules[at]?.startsWith("-6") ? "-6 " : ""}${line}`])
  await batch("link del eth0", "link del net1")
})

const ips = [
  { address: "10.2.0.2/16", gateway: "10.2.0.1", interface: 0 },
  { address: "10.3.0.2/16", gateway: "10.3.0.1", interface: 0 },
  { address: "fd00:2::2/64", gateway: "fd00:2::1", interface: 0 },
]
const resultWith = (some: readonly object[]) => ({
  cniVersion: "1.1.0",
  interfaces: [{ name: "net1", sandbox: pod.path }, { name: "net1" }, { name: "eth0", sandbox: pod.path }],
  ips: some,
})

function call(verb: ProcessCall["verb"], keys: object = {}, more: Partial<ProcessCall> = {}): Answer {
  const config = { cniVersion: "1.1.0", name: "lab", type: "sbr", prevResult: resultWith(ips), ...keys }
  return callPlugin(host, sbr, { verb, config, pod, ifName: "net1", ...more })
}

function done(verb: ProcessCall["verb"], keys: object = {}, more: Partial<ProcessCall> = {}) {
  const answer = call(verb, keys, more)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

/** Returns the rules for source addresses, and the unicast routes of all tables, as `ip` prints them. */
async function shown(): Promise<string[]> {
  const text = await inside("ip -4 rule; ip -6 rule; ip -4 route show table all; ip -6 route show table all")
  const lines = text
    .split("\n")
    .map((line) => line.replace(/^\d+:\s+/, "").replace(/ (linkdown|scope link|pref medium)/g, ""))
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== "" && !/^(local|broadcast|multicast|anycast)|from all/.test(line))
    .sort()
}

const eth0 = ["10.1.0.0/16 dev eth0 proto kernel src 10.1.0.2", "default via 10.1.0.1 dev eth0"]
const linkLocal = ["169.254.0.0/16 dev net1", "fe80::/64 dev net1 metric 1024"]
const tablesOf = (first: number) => [
  `from 10.2.0.2 lookup ${first} proto 67`,
  `from 10.3.0.2 lookup ${first + 1} proto 67`,
  `from fd00:2::2 lookup ${first + 2} proto 67`,
  `10.2.0.0/16 dev net1 table ${first} proto kernel src 10.2.0.2`,
  `169.254.0.0/16 dev net1 table ${first}`,
  `default via 10.2.0.1 dev net1 table ${first} metric 5`,
  `default via 10.2.0.1 dev net1 table ${first} proto 67`,
  `10.3.0.0/16 dev net1 table ${first + 1} proto kernel src 10.3.0.2`,
  `10.99.0.0/16 via 10.3.0.1 dev net1 table ${first + 1}`,
  `169.254.0.0/16 dev net1 table ${first + 1}`,
  `default via 10.3.0.1 dev net1 table ${first + 1} proto 67`,
  `fd00:2::/64 dev net1 table ${first + 2} proto kernel metric 256`,
  `fe80::/64 dev net1 table ${first + 2} metric 1024`,
  `default via fd00:2::1 dev net1 table ${first + 2} proto 67 metric 1024`,
]

test("each address has a table with the routes that concern it, and in main there are those of others, and link-local ones", async () => {
  expect(done("ADD")).toMatchObject({ ips })
  expect(await shown()).toEqual([...eth0, ...linkLocal, ...tablesOf(100)].sort())
  done("CHECK")
})

test("tables that a rule leads to, or that have a route, are not taken", async () => {
  await batch("rule add from 192.0.2.1 lookup 100", "route add fd00:9::/64 dev eth0 table 102")
  done("ADD")
  const tables = (await shown()).flatMap((line) => /^from .* lookup (\d+) proto 67/.exec(line)?.[1] ?? [])
  expect(tables.sort()).toEqual(["101", "103", "104"])
})

test("source hints: the networks are in main with their sources, beside nothing else of the interface", async () => {
  done("ADD", { addSourceHints: true })
  expect(await shown()).toEqual(
    [
      ...[...eth0, ...linkLocal, ...tablesOf(100)],
      "10.2.0.0/16 dev net1 proto 67 src 10.2.0.2",
      "10.3.0.0/16 dev net1 proto 67 src 10.3.0.2",
      "fd00:2::/64 dev net1 proto 67 src fd00:2::2 metric 1024",
    ].sort(),
  )
  done("CHECK", { addSourceHints: true })
})

test.each([[{}], [{ addSourceHints: true }], [{ gateways: ["10.3.0.9"] }], [{ table: 500 }]])(
  "with %j an ADD whose answer is not read leaves all as it was, and so does DEL, once and again",
  async (keys) => {
    const before = await shown()
    expect(call("ADD", keys, { write: refuseAnswer })).toMatchObject({ exitCode: 1, log: [] })
    expect(await shown()).toEqual(before)
    done("ADD", keys)
    done("DEL", keys)
    expect(await shown()).toEqual(before)
    done("DEL", keys)
    done("ADD", keys)
    done("DEL", { ...keys, prevResult: undefined })
    expect(await shown()).toEqual(before)
  },
)

test("with a table of the configuration there are rules alone, which CHECK looks for", async () => {
  const before = await shown()
  done("ADD", { table: 500 })
  const rules = ips.map(({ address }) => `from ${address.replace(/\/.*/, "")} lookup 500 proto 67`)
  expect(await shown()).toEqual([...before, ...rules].sort())
  done("CHECK", { table: 500 })
  expect(call("CHECK", { table: 501 }).json.msg).toBe(
    "Check of rules failed: expected from 10.2.0.2 lookup 501, found lookup 500",
  )
})

test("CHECK names a rule that is missing, and a table without a default route", async () => {
  done("ADD")
  await batch("route del default table 101")
  expect(call("CHECK").json.msg).toBe("Check of table 101 failed: expected a default route dev net1, found none")
  await batch("route add default dev eth0 table 101")
  expect(call("CHECK").json.msg).toBe("Check of table 101 failed: expected a default route dev net1, found none")
  await batch("route del default table 101", "route add default dev net1 table 101")
  done("CHECK")
  await batch("rule del from 10.2.0.2")
  expect(call("CHECK").json.msg).toBe(
    "Check of rules failed: expected from 10.2.0.2 lookup a table of its own, found none",
  )
  // If the address has no gateway, no default route is required.
  const plain = { prevResult: resultWith(ips.slice(1).map(({ gateway: _, ...ip }) => ip)) }
  await batch("route del default table 101")
  done("CHECK", plain)
})

describe("ADD changes nothing", () => {
  test.each<[string, string, () => object, object]>([
    [
      "without prevResult",
      "true",
      () => ({ prevResult: undefined }),
      {
        code: 7,
        msg: "This plugin must be called as chained plugin",
        details: '"net1" does not exist: put sbr after the plugin that creates it',
      },
    ],
    [
      "where the addresses are those of other interfaces",
      "true",
      () => ({
        prevResult: resultWith([
          { ...ips[0], interface: 1 },
          { ...ips[1], interface: 2 },
        ]),
      }),
      { code: 7, msg: "No IP addresses supplied on interface: net1" },
    ],
    [
      "without the interface",
      "ip link set net1 down; ip link set net1 name other",
      () => ({}),
      {
        code: 999,
        msg: expect.stringMatching(/^Cannot route by source on "net1" in ".*": the interface does not exist$/),
      },
    ],
  ])("%s", async (_, script, keys, error) => {
    await inside(script)
    const before = await shown()
    expect(call("ADD", keys()).json).toMatchObject(error)
    expect(await shown()).toEqual(before)
    await inside("ip link set other name net1 2>/dev/null; true")
  })

  test("where a step is refused", async () => {
    const before = await shown()
    const wrong = [...ips.slice(0, 2), { address: "fd00:2::2/64", gateway: "2001:db8::1", interface: 0 }]
    expect(call("ADD", { prevResult: resultWith(wrong) }).json).toMatchObject({
      code: 999,
      msg: "Cannot add a route to table 102",
    })
    expect(await shown()).toEqual(before)
  })
})

test("addresses that belong to no interface are the container's", async () => {
  done("ADD", { prevResult: resultWith([{ address: "10.2.0.2/16" }]) })
  expect(await shown()).toContain("from 10.2.0.2 lookup 100 proto 67")
})

describe("DEL", () => {
  const foreign = ["from 10.1.0.2 lookup 300", "from 192.0.2.1 lookup 301", "from 10.2.0.0/16 lookup 302"]

  test("leaves the rules of other interfaces, of other programs, and for networks", async () => {
    await batch(...foreign.map((line) => `rule add ${line}`), "rule add from 10.1.0.2 lookup 303 proto 67")
    done("ADD")
    done("DEL")
    expect((await shown()).filter((line) => line.startsWith("from"))).toEqual(
      [...foreign, "from 10.1.0.2 lookup 303 proto 67"].sort(),
    )
  })

  test("takes rules without the mark, of upstream's: those to a table of this interface alone, or the configuration's", async () => {
    await batch(
      ...["rule add from 10.2.0.2 lookup 400", "route add default dev net1 table 400"],
      ...[
        "rule add from 10.3.0.2 lookup 401",
        "route add default dev net1 table 401",
        "route add 10.5.0.0/16 dev eth0 table 401",
      ],
    )
    done("DEL")
    expect((await shown()).filter((line) => line.startsWith("from"))).toEqual(["from 10.3.0.2 lookup 401"])
    done("DEL", { table: 401 })
    expect((await shown()).filter((line) => line.startsWith("from"))).toEqual([])
  })

  test("after the interface no longer exists takes its rules, by prevResult or by their mark; without a namespace it succeeds", async () => {
    for (const keys of [{}, { prevResult: undefined }]) {
      done("ADD")
      await batch("link set net1 down", "link set net1 name other", "address flush dev other")
      done("DEL", keys)
      expect((await shown()).filter((line) => line.startsWith("from"))).toEqual([])
      await batch(
        "link set other name net1",
        "link set net1 up",
        "address add 10.2.0.2/16 dev net1",
        "address add 10.3.0.2/16 dev net1",
        "address add fd00:2::2/64 dev net1 nodad",
      )
    }
    done("DEL", {}, { pod: undefined })
  })
})

const [NEWROUTE, DELROUTE] = [24, 25]

test.each([
  ["ENETDOWN", NEWROUTE, 100],
  ["ENODEV", NEWROUTE, 19],
  ["EINVAL, as for a source that it has no more", NEWROUTE, 22],
  ["ENETUNREACH", NEWROUTE, 101],
  ["EHOSTUNREACH", NEWROUTE, 113],
  ["ESRCH", DELROUTE, 3],
])(
  "DEL succeeds where the container changes its interface just then, so that the kernel says %s",
  async (_, type, errno) => {
    done("ADD")
    const open = spyOn(RouteSocket, "open").mockImplementation(() => openRefusingSocket(new Map([[type, errno]])))
    try {
      done("DEL")
    } finally {
      open.mockRestore()
    }
    expect(await shown()).not.toContainEqual(expect.stringMatching(/^from /))
  },
)

test("DEL fails, and leaves the rules to the next one, where a route cannot be put back for lack of memory", async () => {
  done("ADD")
  const open = spyOn(RouteSocket, "open").mockImplementation(() => openRefusingSocket(new Map([[NEWROUTE, 12]])))
  try {
    expect(call("DEL")).toMatchObject({ exitCode: 1, json: { msg: "Cannot restore the routes" } })
  } finally {
    open.mockRestore()
  }
  done("DEL")
  const left = await shown()
  expect(left).not.toContainEqual(expect.stringMatching(/^from /))
  expect(left).toContain("10.99.0.0/16 via 10.3.0.1 dev net1")
})
