/** Tests firewall's nf_tables objects for each policy, address and network, in this process and with `nft`. */
import { describe, expect, test } from "bun:test"
import { firewall } from "../../../meta/firewall/main.ts"
import { callPlugin, refuseAnswer } from "../in-process.ts"
import {
  call,
  configOf,
  done,
  elements,
  expected,
  type Firewalled,
  host,
  sameButComments,
  useHost,
} from "./firewalled.ts"

useHost()

const add = (...specs: Firewalled[]) => done("ADD", ...specs)
const ruleset = async () => (await host.exec("nft", ["list", "ruleset"])).stdout

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
      expect(sameButComments(await elements(host))).toEqual(sameButComments(expected(a, b)))
      const before = await ruleset()
      done("CHECK", a, b)
      add(a, b)
      expect(await ruleset()).toBe(before)
    })

    test("go one by one, and the table with the last, with any input of DEL", async () => {
      const nothing = { prevResult: undefined, ingressPolicy: "" }
      const wrong = [configOf({ number: 9, policy: first }), configOf(b)].map(({ prevResult }) => ({ prevResult }))
      for (const keys of first === "isolated" ? [{}, nothing, ...wrong] : [nothing]) {
        add(a, b)
        done("DEL", { ...a, keys })
        expect(sameButComments(await elements(host))).toEqual(sameButComments(expected(b)))
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
  // Containers that were attached under policy "open" have no port in the table. Only their own ADD can add it.
  if (old === "open" && now !== "open") wanted[now.replace("-", "_")] = [`"br1" . "veth3" comment net1/c3`]
  if (old === "open" && now === "isolated") wanted.ports = ['"veth3" comment net1/c3']
  expect(sameButComments(await elements(host))).toEqual(sameButComments(wanted))
})

test("an ADD whose answer is not read leaves the others as they were", async () => {
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
  expect((await elements(host)).isolated).toEqual(['"veth7" . "0123456789abcde" comment "net1/0123456789abcdef/eth0"'])
  expect(call("CHECK", spec, { containerId: "0123456789abcdef" }).exitCode).toBe(0)
  expect(call("DEL", spec, { containerId: "0123456789abcdef" }).exitCode).toBe(0)
  expect(await ruleset()).toBe("")
})

describe("an address", () => {
  test("of two networks is let through until both no longer exist, in either order", async () => {
    const [a, b, c] = [one, { ...one, name: "net2" }, { ...one, name: "net3" }]
    for (const [first, second, third] of [
      [a, b, c],
      [b, c, a],
      [c, b, a],
    ] as const) {
      add(a, b, c)
      done("CHECK", a, b, c)
      expect((await elements(host)).containers_standby).toHaveLength(2)
      done("DEL", first)
      done("CHECK", second, third)
      done("DEL", second)
      expect(await elements(host)).toEqual(expected(third))
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
    const { containers, containers6 } = await elements(host)
    expect(containers).toEqual(["10.1.0.3 comment net1/c3", "10.1.0.9 comment net1/c2"])
    expect(containers6).toEqual(["fd00:1::2 comment net1/c2", "fd00:1::3 comment net1/c3"])
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
      expect(await elements(host)).toEqual(expected({ number: 2 }, ...kept.slice(1)))
      collect("net1", 2)
      collect("net", 2)
      expect(await elements(host)).toEqual(expected(...kept))
      collect("net2")
      expect(await elements(host)).toEqual(expected({ number: 2 }))
      collect("net1")
      expect(await ruleset()).toBe("")
      collect("net1")
    },
  )
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

describe("rules for policies", () => {
  const inChain = async (name: string) => {
    const { stdout } = await host.exec("nft", ["-a", "list", "chain", "inet", "cni_firewall", name])
    return [...stdout.matchAll(/comment "([^"]*)" # handle (\d+)/g)].map(([, comment, handle]) => ({ comment, handle }))
  }
  const forward = async () => (await inChain("forward")).map(({ comment }) => comment)
  const policed = ["on one bridge", "from bridge to bridge", "all others"]

  test("are there while a bridge has a policy: else no packet passes them", async () => {
    const [bridged, isolated] = [
      { number: 3, name: "net2", bridge: "br2", policy: "same-bridge" },
      { number: 4, name: "net3", bridge: "br3", policy: "isolated" },
    ] as const
    add(one)
    expect(await forward()).toEqual(["all others"])
    for (const [first, second] of [
      [bridged, isolated],
      [isolated, bridged],
    ] as const) {
      add(first, second, { number: 5 })
      expect(await forward()).toEqual(policed)
      done("CHECK", one, first, second)
      done("DEL", first)
      expect(await forward()).toEqual(policed)
      done("DEL", second)
      expect(await forward()).toEqual(["all others"])
      done("CHECK", one)
    }
  })

  /**
   * Changes the table to that of the previous release, whose first rule clears the mark and which always has all rules.
   */
  async function makeFormer(): Promise<void> {
    const mark = (await inChain("admit")).find(({ comment }) => comment === "the mark of others does not count")
    const insert = (rule: string) => `insert rule inet cni_firewall forward ${rule}\n`
    const policies = [
      insert('iifname @policed oifname @policed drop comment "from bridge to bridge"'),
      insert('iifname . oifname vmap @within comment "on one bridge"'),
    ]
    const missing = (await forward()).length > 1 ? [] : policies
    const input = [
      `delete rule inet cni_firewall admit handle ${mark?.handle}\n`,
      ...missing,
      insert('meta mark set meta mark & 0xffffefff comment "the mark of others does not count"'),
    ]
    await host.exec("nft", ["-f", "-"], { input: input.join("") })
  }

  test("of the release before stay in use, and its containers are served as before", async () => {
    add(one)
    await makeFormer()
    const before = await forward()
    expect(before).toEqual(["the mark of others does not count", ...policed])
    const others: Firewalled[] = [{ number: 3 }, { number: 4, name: "net2", bridge: "br2", policy: "same-bridge" }]
    done("CHECK", one)
    add(...others)
    done("CHECK", one, ...others)
    expect(await forward()).toEqual(before)
    done("DEL", one, ...others)
    expect(await ruleset()).toBe("")
  })

  test("of the release before go with the last policy, and the mark is cleared all the same", async () => {
    const bridged = { number: 3, name: "net2", bridge: "br2", policy: "same-bridge" } as const
    add(one, bridged)
    await makeFormer()
    done("DEL", bridged)
    expect(await forward()).toEqual(["all others"])
    expect((await inChain("admit")).at(-1)?.comment).toBe("the mark of others does not count")
    done("CHECK", one)
  })
})
