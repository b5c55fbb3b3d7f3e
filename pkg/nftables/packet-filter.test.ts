import { expect, test } from "bun:test"
import type { Request } from "../netlink/mod.ts"
import { dumping } from "../netlink/testing.ts"
import { listTables } from "./packet-filter.ts"
import { answer } from "./testing.ts"

// Captured: what `nft list tables` asks, NFT_MSG_GETTABLE for NFPROTO_UNSPEC, and the payloads of the kernel's answer for
// `ip nat` and `bridge nat` (struct nfgenmsg, NFTA_TABLE_NAME, _USE, _HANDLE, _FLAGS). No family has the number 13.
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
