import { expect, test } from "bun:test"
import { byCause } from "./causes.ts"
import { lossesLeft } from "./reconcile-listener.ts"

test("what the listener has left is an error, one for each reason", () => {
  const reason = "the port is taken"
  const losses = [
    { what: "table ip cni_masquerade", reason },
    { what: "table ip cni_hostports", reason },
    { what: "everything", reason: "no such file" },
  ]
  const found = byCause(lossesLeft({ losses }))
  expect(found.map(({ rule, severity, affected }) => [rule, severity, affected?.length])).toEqual([
    ["losses-left", "error", 2],
    ["losses-left", "error", 1],
  ])
  expect(found[1]?.what).toBe("everything could not be restored: no such file")
  expect(lossesLeft({ losses: [] })).toEqual([])
})
