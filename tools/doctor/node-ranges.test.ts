import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checkNodeRanges } from "./node-ranges.ts"
import { attachmentOf, inputOf } from "./testing/inputs.ts"

test("containers whose addresses are not of the node's range are named, and none where the file has no range", () => {
  const path = mkdtempSync(join(tmpdir(), "doctor-ranges-"))
  try {
    const rangesFile = join(path, "pods.json")
    const networks = [
      { file: "/x", network: { name: "pods", plugins: [] }, pools: [{ rangesFile, directory: "/d", rangeSets: [] }] },
    ]
    const stores = [
      { network: "pods", directory: "/d", leases: [{ address: "10.244.1.2" }, { address: "10.244.7.2" }] },
    ]
    const attachments = [
      attachmentOf({ network: "pods", containerId: "old", addresses: ["10.244.1.2/24"] }),
      attachmentOf({ network: "pods", containerId: "new", addresses: ["10.244.7.2/24"] }),
    ]
    const found = () => checkNodeRanges(inputOf({ networks, stores, attachments }))
    expect(found()).toEqual([])
    const write = (ranges: string[]) =>
      writeFileSync(rangesFile, JSON.stringify({ version: 1, node: "a", ranges, former: [] }))
    write([])
    expect(found()).toEqual([])
    write(["10.244.7.0/24"])
    expect(found()).toMatchObject([
      {
        rule: "address-outside",
        severity: "warning",
        network: "pods",
        what: "10.244.1.2 is not in this node's range, 10.244.7.0/24",
        affected: [{ attachment: { containerId: "old" } }],
      },
    ])
  } finally {
    rmSync(path, { recursive: true })
  }
})
