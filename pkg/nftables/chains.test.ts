import { expect, test } from "bun:test"
import { NetlinkError, type Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { hasChain, listChains } from "./chains.ts"
import { answer } from "./testing.ts"

const table = { family: "ip", name: "nat" } as const

// The request of `nft list chain ip nat POSTROUTING`: struct nfgenmsg, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME.
test("a chain is asked for by family, table and name", () => {
  const asked: Request[] = []
  const get = (request: Request) => {
    asked.push(request)
    return answer("02000000")
  }
  expect(hasChain({ get }, { table, name: "POSTROUTING" })).toBe(true)
  expect(asked.map(({ type, payload }) => [type, payload.toHex()])).toEqual([
    [0xa04, "02000000" + "080001006e617400" + "10000300504f5354524f5554494e4700"],
  ])
})

test("there is no chain when the kernel says ENOENT, and any other refusal is an error", () => {
  const refusing = (errno: string) => ({
    get(): never {
      throw new NetlinkError("find", errno)
    },
  })
  expect(hasChain(refusing("ENOENT"), { table, name: "X" })).toBe(false)
  expect(() => hasChain(refusing("EPERM"), { table, name: "X" })).toThrow("EPERM")
})

// The kernel lists the chains of all tables of a family, whichever is asked for.
test("of the chains that the kernel lists those of the table are answered", () => {
  const dump = dumping(() => [
    answer("02000000 080001006e617400 0a000300434e492d61000000"),
    answer("02000000 0b00010066696c7465720000 0a000300434e492d62000000"),
  ])
  expect(listChains({ dump }, table)).toEqual([{ table, name: "CNI-a" }])
})
