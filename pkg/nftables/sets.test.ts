import { expect, test } from "bun:test"
import { NetlinkError, type Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { listSetNames } from "./sets.ts"
import { answer } from "./testing.ts"

const table = { family: "ip", name: "t" } as const

// The request that `nft list table ip t` makes, and the beginning of two answers: NFTA_SET_TABLE, NFTA_SET_NAME, flags.
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

test("a table that is not there has none, and any other refusal is an error", () => {
  const refusing = (errno: string) => ({
    dump(): never {
      throw new NetlinkError("list", errno)
    },
  })
  expect(listSetNames(refusing("ENOENT"), table)).toEqual([])
  expect(() => listSetNames(refusing("EPERM"), table)).toThrow("EPERM")
})
