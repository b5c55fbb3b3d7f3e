import { describe, expect, test } from "bun:test"
import { NetlinkError } from "../../pkg/netlink/mod.ts"
import { dumping } from "../../pkg/netlink/testing.ts"
import { type Netfilter, type Operation, printTransaction } from "../../pkg/nftables/mod.ts"
import { answer, answerGeneration, commentUserdata, refusing, ruleAttributes } from "../../pkg/nftables/testing.ts"
import { CniError } from "../../pkg/types/mod.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { SpoofCheck } from "./spoof-check.ts"
import {
  allowedElement,
  type GuardedPort,
  guardedElement,
  planGuard,
  planNewGuard,
  planUnguard,
} from "./spoof-check-rules.ts"

function spoofCheckOn(socket: Netfilter, tables = ["cni_spoofcheck", "nat"]): SpoofCheck {
  return new SpoofCheck({ socket, hasTable: (name) => tables.includes(String(name)), forgetTables() {} })
}

const port: GuardedPort = { port: "veth0", mac: "0a:00:00:00:00:01" }

/** Returns a rule set with the elements of `owners`: "net/c1/eth0" owns the port "veth0" and its MAC. */
function holding(owners: Record<string, GuardedPort>) {
  const list = Object.entries(owners)
  const guarded = list.map(([comment, port]) => guardedElement(port, comment))
  const allowed = list.map(([comment, port]) => allowedElement(port, comment))
  const elements = { guarded: { count: list.length, elements: guarded } }
  return { isComplete: true, ...elements, allowed: { count: list.length, elements: allowed } }
}
const nothing = { isComplete: false, guarded: undefined, allowed: undefined }

function text(operations: readonly Operation[]): string[] {
  return printTransaction(operations).trim().split("\n")
}

describe("guarding a port", () => {
  test("the first makes all there is, and the rule is the last before its elements", () => {
    expect(text(planGuard(nothing, port, "net/c1/eth0"))).toEqual([
      'add table bridge cni_spoofcheck { comment "CNI: elements are commented network/containerID/ifname"; }',
      "add chain bridge cni_spoofcheck prerouting { type filter hook prerouting priority -300; policy accept; }",
      "flush chain bridge cni_spoofcheck prerouting",
      'add set bridge cni_spoofcheck guarded { type ifname; comment "ports of containers"; }',
      'add set bridge cni_spoofcheck allowed { type ifname . ether_addr; comment "the source MAC of each port"; }',
      'add rule bridge cni_spoofcheck prerouting iifname @guarded iifname . ether saddr != @allowed drop comment "frames from another MAC than the container\'s"',
      'add element bridge cni_spoofcheck allowed { "veth0" . 0a:00:00:00:00:01 comment "net/c1/eth0" }',
      'add element bridge cni_spoofcheck guarded { "veth0" comment "net/c1/eth0" }',
    ])
  })

  test("the next only add their elements", () => {
    expect(text(planNewGuard(port, "net/c1/eth0"))).toEqual([
      'create element bridge cni_spoofcheck guarded { "veth0" comment "net/c1/eth0" }',
      'create element bridge cni_spoofcheck allowed { "veth0" . 0a:00:00:00:00:01 comment "net/c1/eth0" }',
    ])
    expect(planGuard(holding({ "net/c2/eth0": { ...port, port: "veth2" } }), port, "net/c1/eth0")).toHaveLength(2)
  })

  test("what is there already is left alone", () => {
    expect(planGuard(holding({ "net/c1/eth0": port }), port, "net/c1/eth0")).toEqual([])
  })

  test("a port has one owner and one MAC: what others have left behind goes", () => {
    const old = holding({ "net/old/eth0": { ...port, mac: "0a:00:00:00:00:99" } })
    expect(text(planGuard(old, port, "net/c1/eth0"))).toEqual([
      'delete element bridge cni_spoofcheck allowed { "veth0" . 0a:00:00:00:00:99 }',
      'add element bridge cni_spoofcheck allowed { "veth0" . 0a:00:00:00:00:01 comment "net/c1/eth0" }',
      'delete element bridge cni_spoofcheck guarded { "veth0" }',
      'add element bridge cni_spoofcheck guarded { "veth0" comment "net/c1/eth0" }',
    ])
  })
})

describe("ending it", () => {
  const isC1 = (comment: string) => comment === "net/c1/eth0"

  test("one of several takes its elements", () => {
    const found = holding({ "net/c1/eth0": port, "net/c2/eth0": { ...port, port: "veth2" } })
    expect(text(planUnguard(found, isC1))).toEqual([
      'delete element bridge cni_spoofcheck guarded { "veth0" }',
      'delete element bridge cni_spoofcheck allowed { "veth0" . 0a:00:00:00:00:01 }',
    ])
  })

  test("the last takes the table", () => {
    expect(text(planUnguard(holding({ "net/c1/eth0": port }), isC1))).toEqual(["delete table bridge cni_spoofcheck"])
  })

  test("elements of one set alone are all there is, or not", () => {
    const { guarded, allowed } = holding({ "net/c1/eth0": port })
    const gone = ["delete table bridge cni_spoofcheck"]
    expect(text(planUnguard({ guarded: undefined, allowed }, isC1))).toEqual(gone)
    expect(text(planUnguard({ guarded, allowed: undefined }, isC1))).toEqual(gone)
    expect(text(planUnguard({ guarded: { ...guarded, count: 2 }, allowed: undefined }, isC1))).toEqual([
      'delete element bridge cni_spoofcheck guarded { "veth0" }',
    ])
  })

  test("nothing there is nothing to do, and neither are the elements of others", () => {
    expect(planUnguard(nothing, isC1)).toEqual([])
    expect(planUnguard(holding({ "net/c2/eth0": port }), isC1)).toEqual([])
  })
})

const owner = { network: "net", containerId: "c1", ifName: "eth0" }

test("nothing there is success for DEL and GC, and nothing is sent", () => {
  const check = spoofCheckOn(refusing("ENOENT"), [])
  check.remove(owner, undefined)
  check.gc("net", [])
})

test("what the Go suite has left of an attachment goes: the rule with its comment, and its two chains", () => {
  const sent: string[][] = []
  const upstream = { table: "nat", chain: "PREROUTING" }
  const rules = ["macspoofchk-c1-eth0", "macspoofchk-c1-eth01", "other"].map((comment, at) =>
    answer(
      `07000000${ruleAttributes.encode({ ...upstream, handle: BigInt(at + 1), userdata: commentUserdata(comment) }).toHex()}`,
    ),
  )
  const kernel: Netfilter = {
    ...refusing("ENOENT"),
    get: (request, read) => {
      if (request.type === 0xa10) return answerGeneration(request, read)
      if (request.what.includes("cni_spoofcheck")) throw new NetlinkError(request.what, "ENOENT")
      return read(answer("07000000"))
    },
    dump: dumping(() => rules),
    transact: (requests) => void sent.push(requests.slice(1, -1).map(({ what }) => what)),
  }
  spoofCheckOn(kernel, ["nat"]).remove(owner, undefined)
  expect(sent).toEqual([
    [
      "delete rule bridge nat PREROUTING handle 1",
      "flush chain bridge nat cni-br-iface-c1-eth0",
      "flush chain bridge nat cni-br-iface-c1-eth0-mac",
      "delete chain bridge nat cni-br-iface-c1-eth0",
      "delete chain bridge nat cni-br-iface-c1-eth0-mac",
    ],
  ])
})

test("a refusal of the kernel's is kept as the cause", () => {
  const check = spoofCheckOn(refusing("EPERM"))
  for (const action of [
    () => check.add({ owner, ...port }, undefined, new Undo(() => {})),
    () => check.remove(owner, undefined), // our table and the Go suite's
    () => check.gc("net", []),
  ]) {
    expect(action).toThrow(CniError)
    expect(action).toThrow(expect.objectContaining({ details: expect.stringContaining("EPERM") }))
  }
  expect(() => check.remove(owner, undefined)).toThrow(
    "Cannot remove the spoof check of net/c1/eth0 by nftables; Cannot remove the other suite's spoof check of net/c1/eth0",
  )
})

test("a kernel without nf_tables for bridges is told what it lacks", () => {
  const check = spoofCheckOn(refusing("EOPNOTSUPP", { get: answerGeneration, dump: () => [] }))
  expect(() => check.add({ owner, ...port }, undefined, new Undo(() => {}))).toThrow(
    'Cannot guard port "veth0" against other MACs than 0a:00:00:00:00:01 by nftables: the kernel needs nf_tables for bridges (CONFIG_NF_TABLES_BRIDGE)',
  )
  const unusable = { code: 50, details: expect.stringContaining("CONFIG_NF_TABLES_BRIDGE") }
  expect(() => check.requireUsable()).toThrow(expect.objectContaining(unusable))
  expect(() => new SpoofCheck(undefined).requireUsable()).toThrow(expect.objectContaining(unusable))
})

test("a kernel can guard ports when it agrees to everything but the last, a table that is there already", () => {
  spoofCheckOn(refusing("EEXIST", { dump: () => [] })).requireUsable()
  expect(() => spoofCheckOn(refusing("EPERM", { dump: () => [] })).requireUsable()).toThrow("EPERM")
})

test("CHECK without the rule says which one it misses", () => {
  expect(() => spoofCheckOn(refusing("ENOENT")).check({ owner, ...port })).toThrow(
    "Cannot find the spoof check of net/c1/eth0: expected bridge cni_spoofcheck prerouting iifname @guarded",
  )
})
