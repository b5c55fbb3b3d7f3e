import { expect, test } from "bun:test"
import type { Fd } from "../libc/mod.ts"
import { NetlinkError, type Request } from "../netlink/mod.ts"
import { sampleElements } from "./elements.ts"
import * as nftables from "./mod.ts"
import type { Netfilter } from "./netfilter.ts"
import { listSetNames } from "./tables.ts"
import { getGeneration } from "./transaction.ts"

function refusing(errno: string): Netfilter {
  const refuse = ({ what }: Pick<Request, "what">): never => {
    throw new NetlinkError(what, errno)
  }
  return { fd: -1 as Fd, get: refuse, dump: refuse, transact: ([first]) => refuse(first as Request) }
}

const table = { family: "ip", name: "t" } as const
const chain = { table, name: "c" }
const set = { table, name: "s", key: [nftables.dataTypes.ipv4] }
const key = [Uint8Array.of(10, 1, 0, 5)]
const needle = Uint8Array.of(1)

type Read = (socket: Netfilter) => unknown

// The error messages that DEL, GC and CHECK show to the administrator, followed by the kernel's errno; and the results
// if the object does not exist.
test.each<[string, Read, unknown]>([
  ["find chain ip t c", (socket) => nftables.hasChain(socket, chain), false],
  ["find chain ip t c", (socket) => nftables.findBase(socket, chain), undefined],
  ["find set ip t s", (socket) => nftables.findSetLayout(socket, table, "s"), undefined],
  ["list the sets of table ip t", (socket) => listSetNames(socket, table), []],
  ["list chain ip t c", (socket) => nftables.listRules(socket, chain), []],
  ["list table ip t", (socket) => nftables.listRules(socket, { table }), []],
  ["list table ip t", (socket) => nftables.listComments(socket, table), []],
  ["list chain ip t c", (socket) => nftables.listComments(socket, table, "c"), []],
  ["list table ip t", (socket) => nftables.hasRules(socket, table, [{ comment: "a" }]), false],
  ["list set ip t s", (socket) => nftables.findElements(socket, set), undefined],
  ["list set ip t s", (socket) => nftables.findElement(socket, set, needle, () => true), undefined],
  ["list set ip t s", (socket) => sampleElements(socket, set, "a"), { count: 0, commented: 0 }],
  ["find an element of ip t s", (socket) => nftables.getElement(socket, set, key), undefined],
])("a refusal names the request: %s; ENOENT is an empty answer", (what, read, nothing) => {
  expect(() => read(refusing("EPERM"))).toThrow(`${what}: EPERM`)
  expect(read(refusing("ENOENT"))).toEqual(nothing as never)
})

test.each<[string, Read]>([
  ["list tables", (socket) => nftables.listTables(socket)],
  ["list tables", (socket) => nftables.listCommented(socket, () => true)],
  ["list the chains of table ip t", (socket) => nftables.listChains(socket, table)],
  ["list chains", (socket) => nftables.listBaseChains(socket)],
  ["read the generation of the rule set", (socket) => getGeneration(socket)],
  ["change the rule set", (socket) => nftables.commit(socket, [nftables.add.table(table)])],
])("there is always %s, so that every refusal is an error", (what, read) => {
  for (const errno of ["EPERM", "ENOENT"]) expect(() => read(refusing(errno))).toThrow(`${what}: ${errno}`)
})

test.each(["EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT"])("a kernel that answers %s has no nf_tables", (errno) => {
  expect(nftables.hasNftables(refusing(errno))).toBe(false)
  expect(() => nftables.hasNftables(refusing("EPERM"))).toThrow("EPERM")
})
