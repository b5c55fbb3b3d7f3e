import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, rename } from "node:fs/promises"
import { join } from "node:path"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const OUT = "../evil"

/**
 * Creates a node with a program outside the directory of plugins. `change` makes a file name that program. The program
 * records that it ran.
 */
async function createLab(change: (lab: NodeLab, evil: string) => Promise<unknown>) {
  const lab = await NodeLab.create()
  const ran = lab.directory.join("ran")
  await lab.useOwnPlugins(async () => {})
  const evil = lab.directory.join("evil")
  await Bun.write(evil, `#!/bin/sh\necho "$CNI_COMMAND" >> ${ran}\necho 'CNI evil plugin v1'\n`)
  await chmod(evil, 0o755)
  await change(lab, evil)
  return { lab, hasRun: () => existsSync(ran) }
}

const list = (plugin: object) => ({ cniVersion: "1.1.0", name: "bad", plugins: [plugin] })
const [bridge, ...others] = podsNetwork.plugins

/** The kinds of files that may contain a path to the program. */
const ways: Readonly<Record<string, (lab: NodeLab) => Promise<unknown>>> = {
  "a type": (lab) => lab.writeNetwork("20-bad.conflist", list({ type: OUT })),
  "an ipam.type": (lab) =>
    lab.writeNetwork("20-bad.conflist", list({ ...bridge, bridge: "cni1", ipam: { type: OUT } })),
  "a delegate's type": (lab) => lab.writeNetwork("20-bad.conflist", list({ type: "flannel", delegate: { type: OUT } })),
  "a type of a cached result": async (lab) => {
    const pod = await lab.addPod()
    const path = `/var/lib/cni/results/pods-${pod.name}-eth0`
    const entry = JSON.parse((await lab.host.exec("cat", [path])).stdout)
    const plugins = [bridge, { ...others[0], type: OUT }, { ...bridge, ipam: { type: OUT } }]
    const config = Buffer.from(JSON.stringify({ ...podsNetwork, plugins })).toString("base64")
    await lab.host.exec("tee", [path], { input: JSON.stringify({ ...entry, config }) })
  },
}

const commands = [
  ["doctor"],
  ["doctor", "--fix"],
  ["doctor", "--bundle", "/run/cni/bundle.tar"],
  ["graph"],
  ["ps"],
  ["lint"],
  ["status"],
  ["reconcile"],
  ["gc", "--auto", "pods"],
]

test.each(Object.entries(ways))(
  "%s that leads out of the directory of plugins: no command runs the program [S303]",
  async (_, way) => {
    const { lab, hasRun } = await createLab(way)
    await using _lab = lab
    await lab.host.exec("mkdir", ["-p", "/run/cni"])
    for (const words of commands) {
      await lab.cni(words)
      expect({ words, hasRun: hasRun() }).toEqual({ words, hasRun: false })
    }
  },
)

test("doctor says that it is not a plugin's name, and lint where it stands", async () => {
  const { lab } = await createLab((lab) => ways["a type"]?.(lab) ?? Promise.resolve())
  await using _lab = lab
  const { findings } = await lab.doctor()
  expect(findings.filter(({ rule }) => rule === "plugin-missing")).toMatchObject([
    { network: "bad", pasteable: false, what: expect.stringMatching(/^"\.\.\/evil" is not the name of a plugin/) },
  ])
  const { stdout, exitCode } = await lab.cni(["lint", lab.confDir])
  expect({ stdout, exitCode }).toMatchObject({
    stdout: expect.stringContaining("invalid plugin name: ../evil"),
    exitCode: 3,
  })
})

test("a copy of bridge under another name is bridge to lint, ps and doctor", async () => {
  const [{ ...copied }, ...rest] = podsNetwork.plugins
  await using lab = await NodeLab.create({ ...podsNetwork, plugins: [{ ...copied, type: "cnv-bridge" }, ...rest] })
  await lab.useOwnPlugins((directory) => rename(join(directory, "bridge"), join(directory, "cnv-bridge")))
  const pod = await lab.addPod()
  expect((await lab.doctor()).findings).toEqual([])
  const [row] = JSON.parse((await lab.cni(["ps", "--json"])).stdout)
  expect(row).toMatchObject({ network: "pods", containerId: pod.name })
  await lab.host.exec("ip", ["link", "delete", "cni0"])
  expect((await lab.doctor()).findings.map(({ rule }) => rule)).toContain("bridge-missing")
  await lab.writeNetwork("20-typo.conflist", {
    cniVersion: "1.1.0",
    name: "typo",
    plugins: [{ ...copied, type: "cnv-bridge", bridge: "cni1", isGatway: true }],
  })
  expect((await lab.cni(["lint"])).stdout).toContain("isGatway")
})

test("copies of plugins under other names are what their files are, for graph, reconcile and migrate", async () => {
  const types: Readonly<Record<string, string>> = { bridge: "cnv-bridge", portmap: "own-portmap" }
  const plugins = podsNetwork.plugins.map((plugin) => ({ ...plugin, type: types[plugin.type] }))
  await using lab = await NodeLab.create({ ...podsNetwork, plugins })
  await lab.useOwnPlugins(async (directory) => {
    for (const [name, copy] of Object.entries(types)) await rename(join(directory, name), join(directory, copy))
  })
  await lab.addPod()
  const graph = JSON.parse((await lab.cni(["graph", "--json"])).stdout)
  expect(graph.segments).toMatchObject([{ kind: "bridge", title: "cni0" }])
  const rules = async () => (await lab.host.exec("nft", ["list", "ruleset"])).stdout
  const before = await rules()
  await lab.host.exec("nft", ["flush", "ruleset"])
  const planned = await lab.cni(["reconcile", "--only", "portmap", "--dry-run", "--json"])
  expect(JSON.parse(planned.stdout).restored).toMatchObject([{ network: "pods" }])
  expect((await lab.cni(["reconcile"])).exitCode).toBe(0)
  const elements = (text: string) => text.match(/10\.85\.0\.2[^\n]*/g)?.toSorted()
  expect(elements(await rules())).toEqual(elements(before))
})
