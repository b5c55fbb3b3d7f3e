import { expect, test } from "bun:test"
import { chmodSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { cachedAttachments, openCache, readCache, removeCache } from "./cache.ts"
import { checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import { attachmentOf, failure, Lab, networkOf } from "./testing/lab.ts"

const key = { network: "lab", containerId: "c1", ifName: "eth0" }
const network = networkOf([{ type: "one" }])

/** Returns a lab whose cache, or a directory in it, is writable for all users, and the expected refusal. */
function exposed(inside: string) {
  const lab = new Lab()
  lab.plugin("one")
  const path = join(lab.cacheDir, inside)
  mkdirSync(path, { recursive: true })
  chmodSync(path, 0o777)
  const refusal = { code: 5, message: `Cannot trust "${lab.cacheDir}": all users may write to "${path}"` }
  return { lab, refusal }
}

test.each(["", "results"])(
  "a cache whose directory %j others can change is neither believed nor written to",
  (inside) => {
    const { lab, refusal } = exposed(inside)
    using _ = lab
    const refused = expect.objectContaining(refusal)
    expect(() => openCache(lab.cacheDir, key)).toThrow(refused)
    expect(() => removeCache(lab.cacheDir, key)).toThrow(refused)
    expect(() => cachedAttachments(lab.cacheDir)).toThrow(refused)
    expect(readCache(lab.cacheDir, key)).toMatchObject({ state: "unreadable", error: refusal })
  },
)

test.each(["", "results", "locks"])("no operation but DEL runs a plugin by it: %j", async (inside) => {
  const { lab, refusal } = exposed(inside)
  using _ = lab
  const { runtime } = lab
  for (const refused of [
    () => addNetwork(runtime, network, attachmentOf()),
    () => checkNetwork(runtime, network, attachmentOf()),
    () => gcNetwork(runtime, network, []),
  ])
    expect(await failure(refused())).toMatchObject(refusal)
  expect(lab.calls).toEqual([])
  if (inside === "locks") await delNetwork(runtime, network, attachmentOf())
  else expect(await failure(delNetwork(runtime, network, attachmentOf()))).toMatchObject(refusal)
  expect(lab.sequence).toEqual(["DEL one"])
})
