import { afterAll, beforeAll, expect, test } from "bun:test"
import { copyFile } from "node:fs/promises"
import { dirname } from "node:path"
import { buildFromBytecode, listeners } from "../../scripts/native.ts"
import { builtPlugins, mustRun, pluginsAs, Stage, succeed, TemporaryDirectory, testPlugins } from "../lab/mod.ts"
import { buildingMs, PluginsBuilt } from "./plugins-built.ts"

let fromBytecode: PluginsBuilt
let otherNames: TemporaryDirectory
beforeAll(async () => {
  fromBytecode = await PluginsBuilt.create((out) => buildFromBytecode(out))
  otherNames = await TemporaryDirectory.create("cni-images", dirname(builtPlugins))
  for (const name of listeners) await copyFile(`${builtPlugins}/bridge`, otherNames.join(name))
}, buildingMs)
afterAll(async () => {
  await fromBytecode[Symbol.asyncDispose]()
  await otherNames[Symbol.asyncDispose]()
})

/** The executable with the heap image, under the name of a plugin: it has those too whose own file starts from bytecode. */
const imageOf = (plugin: string) => (listeners.includes(plugin) ? otherNames.join(plugin) : `${builtPlugins}/${plugin}`)

/** What a plugin says to VERSION, STATUS, an ADD, its CHECK and DEL, an ADD too many; without what chance decides. */
async function saidBy(plugin: string, bin: string): Promise<string[]> {
  await using stage = await Stage.create(plugin)
  const { attachment, pod, maker } = await stage.attach({ call: { bin } })
  const outputs = [await succeed(attachment.run("VERSION")), await succeed(attachment.run("STATUS"))]
  const added = await succeed(attachment.run("ADD"))
  const prevResult = added.json as object
  outputs.push(added, await attachment.check(prevResult), await attachment.run("ADD"), await attachment.run("DEL"))
  await maker?.del()
  return outputs.map(({ exitCode, stdout, stderr }) =>
    [exitCode, stdout, stderr]
      .join("\n")
      .replaceAll(pod.name, "POD")
      .replaceAll(/veth[0-9a-f]{8}/g, "VETH")
      .replaceAll(/bwp[0-9a-f]{12}/g, "IFB")
      .replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC"),
  )
}

testPlugins(pluginsAs(), "%s says the same from its heap image and from bytecode, byte for byte", async (plugin) => {
  const fromImage = await saidBy(plugin, imageOf(plugin))
  expect(fromImage[0]).toStartWith('0\n{"cniVersion":"1.1.0"')
  expect(await saidBy(plugin, fromBytecode.path(plugin))).toEqual(fromImage)
  if (listeners.includes(plugin)) expect(await saidBy(plugin, `${builtPlugins}/${plugin}`)).toEqual(fromImage)
})

test("neither needs a loader or a library; the addresses of that from bytecode are the kernel's choice", async () => {
  const about = async (file: string) => {
    const { stdout } = await mustRun(["readelf", "--file-header", "--program-headers", "--dynamic", "--wide", file])
    return {
      type: /Type: +(\w+)/.exec(stdout)?.[1],
      hasLoader: stdout.includes("INTERP"),
      hasLibraries: stdout.includes("(NEEDED)"),
      isWritableCode: /(LOAD|GNU_STACK).* RWE /.test(stdout),
    }
  }
  const alone = { hasLoader: false, hasLibraries: false, isWritableCode: false }
  expect(await about(`${builtPlugins}/bridge`)).toEqual({ type: "EXEC", ...alone })
  expect(await about(fromBytecode.path("bridge"))).toEqual({ type: "DYN", ...alone })
  for (const name of listeners) expect(await about(`${builtPlugins}/${name}`)).toEqual({ type: "DYN", ...alone })
})
