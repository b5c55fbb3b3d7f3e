import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { pluginNames } from "../../suite/plugins.ts"
import { integrationOf } from "./integration.ts"

const root = join(import.meta.dir, "../..")
const rooms = [...new Bun.Glob("{plugins,ipam,meta}/*/main.ts").scanSync(root)].map((file) =>
  file.replace("/main.ts", ""),
)

test("every plugin's mistakes are tried by integration tests that exist", () => {
  const without = rooms.filter((room) => integrationOf(room).length === 0)
  const missing = rooms.flatMap(integrationOf).filter((file) => !existsSync(join(root, file)))
  expect({ rooms: rooms.length, without, missing }).toEqual({ rooms: pluginNames.length, without: [], missing: [] })
})

test("a plugin without a row has the tests of its folder, and a room of pkg none", () => {
  expect(integrationOf("plugins/ipvlan")).toEqual(["integration/ipvlan/ipvlan.test.ts"])
  expect(integrationOf("pkg/types/result")).toEqual([])
})
