import { afterAll, beforeAll, expect, test } from "bun:test"
import { rename } from "node:fs/promises"
import { dirname } from "node:path"
import { buildEach, buildFromSnapshot } from "../../scripts/native.ts"
import { listeners, programsOf } from "../../scripts/programs.ts"
import {
  builtPlugins,
  mustRun,
  pluginsAs,
  runProgram,
  Stage,
  succeed,
  TemporaryDirectory,
  testPlugins,
} from "../lab/mod.ts"
import { buildingMs } from "./launcher.ts"

let fromBytecode: TemporaryDirectory
beforeAll(async () => {
  fromBytecode = await TemporaryDirectory.create("cni-build", dirname(builtPlugins))
  await buildEach(fromBytecode.path, {}, "bytecode")
}, buildingMs)
afterAll(() => fromBytecode[Symbol.asyncDispose]())

/**
 * Returns the outputs of a plugin for VERSION, STATUS, ADD, CHECK, DEL and a second ADD, without their random parts.
 */
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
  const fromImage = await saidBy(plugin, `${builtPlugins}/${plugin}`)
  expect(fromImage[0]).toStartWith('0\n{"cniVersion":"1.1.0"')
  expect(await saidBy(plugin, fromBytecode.join(plugin))).toEqual(fromImage)
})

test.each([...listeners])("%s, whose own file starts from bytecode, says the same as from an image", async (name) => {
  await using place = await TemporaryDirectory.create("cni-images", dirname(builtPlugins))
  await buildFromSnapshot(place.join("image"), {}, await programsOf(name))
  await rename(place.join("image"), place.join(name))
  const ipam = { type: name, daemonSocketPath: place.join("none.sock") }
  const inputs = ["", "{", JSON.stringify({ cniVersion: "1.1.0", name: "lab", type: "ptp", ipam })]
  const calls = ["VERSION", "STATUS", "ADD", "CHECK", "DEL", "GC"].flatMap((verb) =>
    inputs.map((input) => ({ verb, input })),
  )
  const called = { CNI_CONTAINERID: "a", CNI_NETNS: place.join("none"), CNI_IFNAME: "eth0", CNI_PATH: "/" }
  const said = (file: string) =>
    Promise.all([
      ...calls.map(({ verb, input }) => runProgram([file], { input, env: { ...called, CNI_COMMAND: verb } })),
      ...["-no-such-flag", "-timeout=x"].map((flag) => runProgram([file, "daemon", flag], { env: {} })),
      runProgram([file], { env: {} }),
    ]).then((outputs) => outputs.map(({ stdout, stderr, exitCode }) => ({ stdout, stderr, exitCode })))
  const own = await said(`${builtPlugins}/${name}`)
  expect(own.map(({ exitCode }) => exitCode)).toContainValues([0, 1, 2])
  expect(await said(place.join(name))).toEqual(own)
})

test("neither needs a loader or a library; the addresses of that from bytecode are the kernel's choice [S36]", async () => {
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
  expect(await about(fromBytecode.join("bridge"))).toEqual({ type: "DYN", ...alone })
  for (const name of listeners) expect(await about(`${builtPlugins}/${name}`)).toEqual({ type: "DYN", ...alone })
})
