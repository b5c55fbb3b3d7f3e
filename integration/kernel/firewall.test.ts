/**
 * The firewall plugin on a real nf_tables, called in this process, judged with `nft`.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test"
import { firewall } from "../../meta/firewall/main.ts"
import { type ContainerNamespace, HostNamespace, patient } from "../lab/mod.ts"
import { callFirewall, configOf, type Firewalled, succeedAll } from "./firewalled.ts"
import { callPlugin, type ProcessCall, refuseAnswer } from "./in-process.ts"

setDefaultTimeout(patient(30_000))

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
})
afterEach(async () => void (await host.exec("nft", ["flush", "ruleset"])))
afterAll(() => host[Symbol.asyncDispose]())

const call = (verb: ProcessCall["verb"], spec: Firewalled, more: Partial<ProcessCall> = {}) =>
  callFirewall({ host, pod }, verb, spec, more)
const done = (verb: ProcessCall["verb"], ...specs: Firewalled[]) => succeedAll({ host, pod }, verb, ...specs)
const add = (...specs: Firewalled[]) => done("ADD", ...specs)
const ruleset = async () => (await host.exec("nft", ["list", "ruleset"])).stdout
const nft = (line: string) => host.exec("nft", ["-f", "-"], { input: `${line}\n` })

/** The elements of all sets that have any, by the set's name; "ports" is the one of family bridge. */
async function elements(): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const table of (await ruleset()).split(/^table /m)) {
    for (const [, name = "", list = ""] of table.matchAll(/(?:set|map) (\w+) \{[^{]*?elements = \{([^}]*)\}/g))
      found[table.startsWith("bridge") ? "ports" : name] = list
        .split(",")
        .map((line) => line.trim().replace(/"(net\w*\/c\d+)\/eth0"/, "$1"))
        .sort()
  }
  return found
}

/** What an ADD of each has made, so that `elements` finds nothing else. */
function expected(...specs: Firewalled[]): Record<string, string[]> {
  const found: Record<string, string[]> = {}
  const put = (set: string, line: string) => {
    found[set] = [...(found[set] ?? []), line].sort()
  }
  for (const { number, policy, name = "net1", bridge = "br1" } of specs) {
    const owner = `comment ${name}/c${number}`
    put("containers", `10.1.0.${number} ${owner}`)
    put("containers6", `fd00:1::${number} ${owner}`)
    if (policy === "same-bridge") put("same_bridge", `"${bridge}" . "veth${number}" ${owner}`)
    if (policy !== "isolated") continue
    put("isolated", `"${bridge}" . "veth${number}" ${owner}`)
    put("ports", `"veth${number}" ${owner}`)
  }
  for (const bridge of new Set(specs.map(({ bridge = "br1" }) => bridge))) {
    const asked = specs.filter((spec) => (spec.bridge ?? "br1") === bridge).map(({ policy }) => policy)
    const policy = (["isolated", "same-bridge"] as const).find((each) => asked.includes(each))
    if (!policy) continue
    const verdict = policy === "isolated" ? "drop" : "goto admit"
    put("within", `"${bridge}" . "${bridge}" comment "${policy}" : ${verdict}`)
    put("policed", `"${bridge}" comment "${policy}"`)
  }
  return found
}

/** The comment is that of the policy the bridge has had first. */
const sameButComments = (found: Record<string, string[]>) =>
  JSON.parse(JSON.stringify(found).replace(/(\\"br\d\\") comment \\"[\w-]+\\"/g, "$1"))

test("the tables as nft shows them", async () => {
  add({ number: 2, policy: "isolated" })
  expect(await ruleset()).toBe(await Bun.file(`${import.meta.dir}/firewall.nft`).text())
})

const one: Firewalled = { number: 2 }
const policies = ["open", "same-bridge", "isolated"] as const
const pairs = policies.flatMap((first) => policies.map((second) => [first, second] as const))

describe.each(pairs)(
  "a container with policy %s, and then another network's with %s on its bridge",
  (first, second) => {
    const a: Firewalled = { number: 2, policy: first }
    const b: Firewalled = { number: 3, policy: second, name: "net2" }

    test("have what they ask for, the stricter policy is in force, and a second ADD changes nothing", async () => {
      add(a, b)
      expect(sameButComments(await elements())).toEqual(sameButComments(expected(a, b)))
      const before = await ruleset()
      done("CHECK", a, b)
      add(a, b)
      expect(await ruleset()).toBe(before)
    })

    test("go one by one, and the table with the last, whatever DEL is told", async () => {
      const nothing = { prevResult: undefined, ingressPolicy: "" }
      const wrong = [configOf({ number: 9, policy: first }), configOf(b)].map(({ prevResult }) => ({ prevResult }))
      for (const keys of first === "open" && second === "open" ? [{}] : [{}, nothing, ...wrong]) {
        add(a, b)
        done("DEL", { ...a, keys })
        expect(sameButComments(await elements())).toEqual(sameButComments(expected(b)))
        done("DEL", { ...a, keys }, { ...b, keys })
        if (Object.hasOwn(keys, "prevResult")) done("DEL", { ...b, keys: nothing })
      }
      expect(await ruleset()).toBe("")
    })
  },
)

test.each(pairs)("a network whose policy was %s and is %s has the new one for all on the bridge", async (old, now) => {
  const [a, b, elsewhere] = [{ number: 2 }, { number: 3 }, { number: 4, bridge: "br2", policy: old }]
  add({ ...a, policy: old }, elsewhere)
  add({ ...b, policy: now })
  const wanted = expected({ ...a, policy: now }, { ...b, policy: now }, elsewhere)
  // Which ports those containers have that the network had let go, only their own ADD can say.
  if (old === "open" && now !== "open") wanted[now.replace("-", "_")] = [`"br1" . "veth3" comment net1/c3`]
  if (old === "open" && now === "isolated") wanted.ports = ['"veth3" comment net1/c3']
  expect(sameButComments(await elements())).toEqual(sameButComments(wanted))
})

test("an ADD whose answer nobody takes leaves the others as they were", async () => {
  const others: Firewalled[] = [{ number: 3, policy: "same-bridge" }]
  for (const present of [[], others]) {
    add(...present)
    const before = await ruleset()
    for (const policy of policies)
      expect(call("ADD", { number: 2, policy, name: "net2" }, { write: refuseAnswer }).exitCode).toBe(1)
    expect(await ruleset()).toBe(before)
  }
})

test("containers without a port in the result are told apart by the first 15 bytes of their ids", async () => {
  const interfaces = [{ name: "veth7" }, { name: "eth0", sandbox: "/run/netns/c" }]
  const ips = [{ address: "10.1.0.2/16", interface: 1 }]
  const keys = { prevResult: { cniVersion: "1.1.0", interfaces, ips } }
  const spec = { number: 2, policy: "isolated", keys } as const
  expect(call("ADD", spec, { containerId: "0123456789abcdef" }).exitCode).toBe(0)
  expect((await elements()).isolated).toEqual(['"veth7" . "0123456789abcde" comment "net1/0123456789abcdef/eth0"'])
  expect(call("CHECK", spec, { containerId: "0123456789abcdef" }).exitCode).toBe(0)
  expect(call("DEL", spec, { containerId: "0123456789abcdef" }).exitCode).toBe(0)
  expect(await ruleset()).toBe("")
})

describe("an address", () => {
  test("of two networks is let through until both have gone, whichever goes first", async () => {
    const [a, b, c] = [one, { ...one, name: "net2" }, { ...one, name: "net3" }]
    for (const [first, second, third] of [
      [a, b, c],
      [b, c, a],
      [c, b, a],
    ] as const) {
      add(a, b, c)
      done("CHECK", a, b, c)
      expect((await elements()).containers_standby).toHaveLength(2)
      done("DEL", first)
      done("CHECK", second, third)
      done("DEL", second)
      expect(await elements()).toEqual(expected(third))
      done("DEL", third)
      expect(await ruleset()).toBe("")
    }
  })

  test("that the network gives to another container is that one's, and the late DEL of the first leaves it", async () => {
    add(one)
    const later = { containerId: "c9" }
    expect(call("ADD", one, later).exitCode).toBe(0)
    const taken = await ruleset()
    expect(taken).not.toContain("c2")
    expect(call("CHECK", one).json.msg).toBe(
      "Cannot find the firewall rules of net1/c2/eth0: expected " +
        '10.1.0.2 comment "net1/c2/eth0" in set inet cni_firewall containers; found 10.1.0.2 comment "net1/c9/eth0"',
    )
    done("DEL", one)
    expect(await ruleset()).toBe(taken)
  })

  test("that a container has no more goes with its next ADD", async () => {
    add(one, { number: 3 })
    const { prevResult } = configOf(one)
    const ips = [{ address: "10.1.0.9/16", interface: 2 }, ...prevResult.ips.slice(1)]
    add({ number: 2, keys: { prevResult: { ...prevResult, ips } } })
    const { containers, containers6 } = await elements()
    expect(containers).toEqual(["10.1.0.3 comment net1/c3", "10.1.0.9 comment net1/c2"])
    expect(containers6).toEqual(["fd00:1::2 comment net1/c2", "fd00:1::3 comment net1/c3"])
  })
})

describe("CHECK names what is missing, and the next ADD makes it", () => {
  const rules = "the rules of table inet cni_firewall"
  test.each<[string, Firewalled["policy"], string, string]>([
    ["flush chain inet cni_firewall unmark", "open", rules, "none"],
    [
      "delete element inet cni_firewall containers6 { fd00:1::2 }",
      "open",
      'fd00:1::2 comment "net1/c2/eth0" in set inet cni_firewall containers6',
      "none",
    ],
    [
      "delete element inet cni_firewall same_bridge { br1 . veth2 }",
      "same-bridge",
      'policy same-bridge for bridge "br1"',
      "none",
    ],
    [
      "delete element inet cni_firewall policed { br1 }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "open",
    ],
    [
      "delete element inet cni_firewall within { br1 . br1 }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "open",
    ],
    [
      "delete element inet cni_firewall within { br1 . br1 }; add element inet cni_firewall within { br1 . br1 : goto admit }",
      "isolated",
      'policy isolated in force on bridge "br1"',
      "same-bridge",
    ],
    [
      "delete element bridge cni_firewall isolated { veth2 }",
      "isolated",
      '"veth2" in set bridge cni_firewall isolated',
      "none",
    ],
    ["delete table bridge cni_firewall", "isolated", '"veth2" in set bridge cni_firewall isolated', "none"],
  ])("%s", async (damage, policy, what, found) => {
    const spec: Firewalled = { number: 2, policy }
    add({ number: 3, policy, name: "net2" }, spec)
    const whole = await ruleset()
    await nft(damage)
    expect(call("CHECK", spec).json).toMatchObject({
      code: 999,
      msg: `Cannot find the firewall rules of net1/c2/eth0: expected ${what}; found ${found}`,
    })
    add(spec)
    done("CHECK", spec)
    expect((await ruleset()).split("\n").sort()).toEqual(whole.split("\n").sort())
  })

  test("another policy, or another bridge, than that of ADD", () => {
    add({ number: 2, policy: "same-bridge" })
    const messageOf = (spec: Firewalled) => call("CHECK", spec).json.msg
    expect(messageOf({ number: 2, policy: "isolated" })).toContain(
      'expected policy isolated for bridge "br1"; found same-bridge',
    )
    expect(messageOf({ number: 2, policy: "same-bridge", bridge: "br2" })).toContain(
      'expected policy same-bridge for bridge "br2"; found same-bridge',
    )
    done("CHECK", { number: 2 })
  })
})

test("a table that a program has emptied in part is completed, with the ports of all that are isolated", async () => {
  const specs: Firewalled[] = [2, 3, 4].map((number) => ({ number, policy: "isolated", bridge: `br${number}` }))
  add(...specs)
  const whole = await elements()
  for (const damage of [
    "flush set bridge cni_firewall isolated",
    "delete element bridge cni_firewall isolated { veth3 }",
    "delete table bridge cni_firewall",
  ]) {
    await nft(damage)
    add(...specs.slice(0, 1))
    expect(await elements()).toEqual(whole)
    // Without the table DEL takes the kernel for one that cannot keep ports apart.
    if (damage.startsWith("delete table")) continue
    await nft(damage)
    done("DEL", ...specs.slice(0, 1))
    expect(await elements()).toEqual(expected(...specs.slice(1)))
    add(...specs.slice(0, 1))
  }
})

describe("an administrator's chain", () => {
  const site = { iptablesAdminChainName: "SITE" }

  test("is heeded beside the others', and stays with its rules when all containers have gone", async () => {
    add(one, { number: 3, keys: site })
    expect((await ruleset()).match(/jump [-\w]+ comment "(CNI-ADMIN|SITE)"/g)).toEqual([
      'jump CNI-ADMIN comment "CNI-ADMIN"',
      'jump SITE comment "SITE"',
    ])
    done("CHECK", one, { number: 3, keys: site })
    await nft('add rule inet cni_firewall SITE ip saddr 10.9.9.9 drop comment "the site\'s"')
    done("DEL", one, { number: 3 })
    expect(await elements()).toEqual({})
    expect(await ruleset()).toContain("ip saddr 10.9.9.9 drop")
    add(one)
    expect((await ruleset()).match(/jump SITE/g)).toHaveLength(1)
    await nft("flush chain inet cni_firewall SITE")
    done("DEL", one)
    expect(await ruleset()).toBe("")
  })

  test("that no rule leads to is missing for CHECK", () => {
    add(one)
    expect(call("CHECK", { number: 2, keys: site }).json.msg).toContain("expected the rules of table inet cni_firewall")
  })
})

describe("GC", () => {
  const collect = (name: string, ...numbers: number[]) => {
    const valid = numbers.map((number) => ({ containerID: `c${number}`, ifname: "eth0" }))
    const config = { ...configOf({ number: 1, name }), prevResult: undefined, "cni.dev/valid-attachments": valid }
    expect(callPlugin(host, firewall, { verb: "GC", config })).toMatchObject({ exitCode: 0, log: [] })
  }

  test.each(policies)(
    "takes what is not valid of its network, policy %s and all, and nothing of others",
    async (policy) => {
      const kept: Firewalled[] = [{ number: 2 }, { number: 3, name: "net2", bridge: "br2", policy: "isolated" }]
      add(...kept, { number: 4, policy }, { number: 5, policy, bridge: "br3" })
      collect("net1", 2, 3)
      expect(await elements()).toEqual(expected({ number: 2 }, ...kept.slice(1)))
      collect("net1", 2)
      collect("net", 2)
      expect(await elements()).toEqual(expected(...kept))
      collect("net2")
      expect(await elements()).toEqual(expected({ number: 2 }))
      collect("net1")
      expect(await ruleset()).toBe("")
      collect("net1")
    },
  )
})

test("a table of the name that is another's is in the way: the kernel's refusal is told, and nothing has changed", async () => {
  await nft("table inet cni_firewall { set containers { type ipv6_addr; }; }")
  const before = await ruleset()
  expect(call("ADD", one).json).toMatchObject({
    code: 999,
    msg: "Cannot filter by nftables",
    details: expect.stringContaining("inet cni_firewall containers"),
  })
  expect(await ruleset()).toBe(before)
})

test("STATUS is well, with a table and without, and leaves nothing", async () => {
  const config = { ...configOf(one), prevResult: undefined }
  const status = () => callPlugin(host, firewall, { verb: "STATUS", config })
  expect(status().exitCode).toBe(0)
  expect(await ruleset()).toBe("")
  add(one)
  const before = await ruleset()
  expect(status().exitCode).toBe(0)
  expect(await ruleset()).toBe(before)
})

test("a result without addresses is passed on, and one without the host's side has no policy", async () => {
  const { prevResult } = configOf(one)
  const passed = call("ADD", { number: 2, policy: "isolated", keys: { prevResult: { ...prevResult, ips: [] } } })
  expect(passed).toMatchObject({ exitCode: 0, json: { interfaces: prevResult.interfaces } })
  const inside = { ...prevResult, interfaces: prevResult.interfaces.slice(2), ips: [{ address: "10.1.0.2/16" }] }
  expect(call("ADD", { number: 2, policy: "isolated", keys: { prevResult: inside } }).json).toMatchObject({
    code: 7,
    msg: 'Cannot apply ingressPolicy "isolated": prevResult names no interface of the host',
    details: "it goes by the bridge, or by the host's end of a pair: put firewall after bridge or ptp",
  })
  expect(await ruleset()).toBe("")
  add({ number: 2, keys: { prevResult: inside } })
  expect(await elements()).toEqual({ containers: ["10.1.0.2 comment net1/c2"] })
  done("CHECK", { number: 2, keys: { prevResult: inside } })
})

test.each(["ADD", "CHECK"] as const)("%s without prevResult is code 7", (verb) => {
  expect(call(verb, { number: 2, keys: { prevResult: undefined } }).json).toMatchObject({
    code: 7,
    msg: `Cannot ${verb} firewall rules: prevResult is missing`,
    details: "firewall must be called as chained plugin: it is for the container that an earlier plugin has connected",
  })
})
