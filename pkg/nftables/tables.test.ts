import { expect, test } from "bun:test"
import type { Message, Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import {
  describeDormant,
  findBase,
  findSetLayout,
  hasChain,
  isDormant,
  listBaseChains,
  listChains,
  listSetNames,
  listTables,
} from "./tables.ts"
import { answer, refusing } from "./testing.ts"

const nat = { family: "ip", name: "nat" } as const
const table = { family: "ip", name: "t" } as const

// Captured from `nft list tables`: the request NFT_MSG_GETTABLE for NFPROTO_UNSPEC, and the payloads of the kernel's
// answer for `ip nat` and `bridge nat` (struct nfgenmsg, NFTA_TABLE_NAME, _USE, _HANDLE, _FLAGS). No family has the
// number 13.
test("tables are asked for in all families at once, and those of unknown families left out", () => {
  const asked: Request[] = []
  const dump = dumping((request) => {
    asked.push(request)
    return [
      answer("02000002 080001006e617400 0800030000000000 0c0004000000000000000001 0800020000000000"),
      answer("07000002 080001006e617400 0800030000000000 0c0004000000000000000002 0800020000000000"),
      answer("0d000002 080001006e617400 0800030000000000 0c0004000000000000000003 0800020000000000"),
    ]
  })
  expect(listTables({ dump })).toEqual([
    { family: "ip", name: "nat" },
    { family: "bridge", name: "nat" },
  ])
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])).toEqual([[0xa01, "00000000"]])
})

// The request of `nft list chain ip nat POSTROUTING`: struct nfgenmsg, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME.
test("a chain is asked for by family, table and name", () => {
  const asked: Request[] = []
  const get = <T>(request: Request, read: (message: Message) => T): T => {
    asked.push(request)
    return read(answer("02000000"))
  }
  expect(hasChain({ get }, { table: nat, name: "POSTROUTING" })).toBe(true)
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])).toEqual([
    [0xa04, "02000000" + "080001006e617400" + "10000300504f5354524f5554494e4700"],
  ])
})

// Captured: the kernel's answer for `nft add table inet t '{ flags dormant; }'`.
test("a table with the flag dormant is dormant, with other flags too; one that does not exist is not", () => {
  const asked: Request[] = []
  const kernel = (flags: string) => ({
    get: <T>(request: Request, read: (message: Message) => T): T => {
      asked.push(request)
      return read(answer(`01000002 0600010074000000 0800030000000000 0c0004000000000000000001 08000200${flags}`))
    },
  })
  const inet = { family: "inet", name: "t" } as const
  expect(["00000000", "00000001", "00000002", "00000003"].map((flags) => isDormant(kernel(flags), inet))).toEqual([
    false,
    true,
    false,
    true,
  ])
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])[0]).toEqual([0xa01, "01000000" + "0600010074000000"])
  expect(isDormant(refusing("ENOENT"), inet)).toBe(false)
  expect(() => isDormant(refusing("EPERM"), inet)).toThrow("EPERM")
  expect(describeDormant(kernel("00000001"), inet)).toBe('table inet t with "flags dormant"')
  expect(describeDormant(kernel("00000000"), inet)).toBeUndefined()
})

// The messages that nft sends to create chains, with which the kernel also answers: policy drop, hook forward, priority
// 0; and a chain without a hook.
test("a chain that hangs in the packets' way has a policy, and no other one has", () => {
  const forward = { table: { family: "ip", name: "filter" }, name: "FORWARD" } as const
  const base = `02000000 0b00010066696c7465720000 0c000300464f525741524400 0b00070066696c7465720000 08000500POLICY
    14000480 0800010000000002 0800020000000000`
  const policyOf = (text: string) => findBase({ get: (_, read) => read(answer(text)) }, forward)?.policy
  expect(policyOf(base.replace("POLICY", "00000000"))).toBe("drop")
  expect(policyOf(base.replace("POLICY", "00000001"))).toBe("accept")
  expect(policyOf("02000000 0b00010066696c7465720000 0c000300464f525741524400")).toBeUndefined()
})

// The kernel lists the chains of all tables of a family, even if the request names a table.
test("of the chains that the kernel lists those of the table are returned", () => {
  const dump = dumping(() => [
    answer("02000000 080001006e617400 0a000300434e492d61000000"),
    answer("02000000 0b00010066696c7465720000 0a000300434e492d62000000"),
  ])
  expect(listChains({ dump }, nat)).toEqual([{ table: nat, name: "CNI-a" }])
})

// The request of `nft list table ip t`, and the beginning of two answers: NFTA_SET_TABLE, NFTA_SET_NAME, flags.
test("the sets of a table are asked for by family and table", () => {
  const asked: Request[] = []
  const dump = dumping((request) => {
    asked.push(request)
    return [
      answer("02000002 06000100 74000000 0a000200 706f727473000000 0800030000000008"),
      answer("02000002 06000100 75000000 0a000200 6c696e6b73000000 0800030000000000"),
    ]
  })
  expect(listSetNames({ dump }, table)).toEqual(["ports"])
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])).toEqual([[0xa0a, "02000000" + "0600010074000000"]])
})

// NFTA_CHAIN_TABLE, _NAME, _TYPE, _POLICY, _HOOK with number and priority. The kernel lists the chains of all families.
test("of the chains of all tables those that hang in the packets' way are told with hook, priority and policy", () => {
  const asked: Request[] = []
  const hookOf = (number: string, priority: string) => `14000480 08000100${number} 08000200${priority}`
  const name = "08000100 6e617400 06000300 63000000"
  const dump = dumping((request) => {
    asked.push(request)
    return [
      answer(`02000000 ${name} 08000700 6e617400 08000500 00000001 ${hookOf("00000004", "00000064")}`),
      answer(`07000000 ${name} 0b000700 66696c746572 0000 08000500 00000000 ${hookOf("00000002", "ffffff38")}`),
      answer(`0a000000 ${name} ${hookOf("00000009", "00000000")}`),
      answer(`02000000 ${name}`),
      answer(`0d000000 ${name} ${hookOf("00000000", "00000000")}`),
      answer(`02000000 06000300 63000000 ${hookOf("00000000", "00000000")}`),
      answer(`02000000 08000100 6e617400 ${hookOf("00000000", "00000000")}`),
    ]
  })
  const of = (family: string) => ({ table: { family, name: "nat" }, name: "c" })
  expect(listBaseChains({ dump }) as unknown[]).toEqual([
    { ...of("ip"), type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
    { ...of("bridge"), type: "filter", hook: "forward", priority: -200, policy: "drop" },
    { ...of("ip6"), type: "", hook: "9", priority: 0, policy: "accept" },
  ])
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])).toEqual([[0xa04, "00000000"]])
})

// Captured on Linux 6.18 after `nft add chain netdev guard a '{ type filter hook ingress devices = { v0, v1 } priority
// 0; policy drop; }'`, an egress chain at v0, and `nft add chain inet guard2 i '{ type filter hook ingress device v0
// priority 0; }'`.
test("chains at interfaces are told with their hook and the interfaces", () => {
  const dump = dumping(() => [
    answer(
      "05000006 0a00010067756172640000000600030061000000 0c0002000000000000000001 28000400 0800010000000000 0800020000000000" +
        "14000400 0700010076310000 0700010076300000 0800050000000000 0b00070066696c7465720000",
    ),
    answer(
      "05000006 0a00010067756172640000000600030065000000 0c0002000000000000000002 28000400 0800010000000001 0800020000000000" +
        "0c000400 0700010076300000 0700030076300000 0800050000000001 0b00070066696c7465720000",
    ),
    answer(
      "01000006 0b00010067756172643200000600030069000000 0c0002000000000000000001 28000400 0800010000000005 0800020000000000" +
        "0c000400 0700010076300000 0700030076300000 0800050000000001 0b00070066696c7465720000",
    ),
  ])
  expect(listBaseChains({ dump })).toMatchObject([
    { table: { family: "netdev" }, name: "a", hook: "ingress", policy: "drop", devices: ["v1", "v0"] },
    { table: { family: "netdev" }, name: "e", hook: "egress", policy: "accept", devices: ["v0"] },
    { table: { family: "inet" }, name: "i", hook: "ingress", policy: "accept", devices: ["v0"] },
  ])
})

// NFTA_SET_FLAGS: NFT_SET_INTERVAL 4, NFT_SET_MAP 8; NFTA_SET_KEY_LEN, NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT,
// NFTA_SET_DATA_LEN
test("a set says how long keys and values are, whether they are verdicts, and whether its elements are ranges", () => {
  const asked: Request[] = []
  const layout = (attributes: string) => {
    const get = <T>(request: Request, read: (message: Message) => T): T => {
      asked.push(request)
      return read(answer(`02000000 ${attributes}`))
    }
    return findSetLayout({ get }, table, "s")
  }
  const none = { keyLength: 0, valueLength: 0, hasVerdicts: false, isInterval: false }
  expect(layout("08000300 00000004")).toEqual({ ...none, isInterval: true })
  expect(layout("08000300 0000000c 08000500 00000004")).toEqual({ ...none, keyLength: 4, isInterval: true })
  expect(layout("08000300 0000000b 08000600 00000007 08000700 00000008")).toEqual({ ...none, valueLength: 8 })
  expect(layout("08000300 00000008 08000600 ffffff00 08000700 00000010")).toEqual({ ...none, hasVerdicts: true })
  expect(layout("")).toEqual(none)
  expect([asked[0]?.type, asked[0]?.payload.toHex()]).toEqual([
    0xa0a,
    "02000000" + "0600010074000000" + "0600020073000000",
  ])
})
