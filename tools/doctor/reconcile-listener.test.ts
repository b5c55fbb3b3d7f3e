import { expect, test } from "bun:test"
import { byCause } from "./causes.ts"
import { lossesLeft } from "./reconcile-listener.ts"

test("what the listener has left is an error, one for each reason", () => {
  const reason = "it was removed three times in a minute"
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
  expect(found[1]?.what).toBe("everything is gone and stays so: no such file")
  expect(lossesLeft({ losses: [] })).toEqual([])
})
