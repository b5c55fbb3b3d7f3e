/** Tests that the real kustomize renders deploy/kubernetes, as `kubectl apply -k` does. */
import { expect, test } from "bun:test"
import { cp } from "node:fs/promises"
import { kustomization, type Manifest, readDeployment } from "../deploy/manifests.ts"
import { runtimeEnv } from "../interop/runtime-host.ts"
import { mustRun, TemporaryDirectory } from "../lab/mod.ts"

async function render(directory: string): Promise<Manifest[]> {
  const { stdout, stderr } = await mustRun(["kustomize", "build", directory], { env: runtimeEnv })
  expect(stderr).toBe("") // no warnings, such as about a deprecated key
  return [Bun.YAML.parse(stdout) as Manifest | Manifest[]].flat()
}

/** Returns the objects by kind and name, without the hash in the name of a generated ConfigMap. */
function byName(objects: readonly Manifest[]): Record<string, Manifest> {
  const text = JSON.stringify(objects).replaceAll(/"network-[0-9a-z]{10}"/g, '"network"')
  return Object.fromEntries((JSON.parse(text) as Manifest[]).map((one) => [`${one.kind} ${one.metadata.name}`, one]))
}

test("the objects are those that the tests read", async () => {
  expect(byName(await render(kustomization))).toEqual(byName(await readDeployment()))
})

test("another configuration is another ConfigMap, which the DaemonSet names, and an image is set by its name", async () => {
  await using directory = await TemporaryDirectory.create("cni-kustomize")
  await cp(kustomization, directory.path, { recursive: true })
  const before = await render(directory.path)
  const file = directory.join("10-pods.conflist")
  await Bun.write(file, (await Bun.file(file).text()).replace('"cni0"', '"cni1"'))
  const image = "registry.example/cni-plugins:0.1.0"
  const edit = `kustomize edit set image cni-plugins=${image}`
  await mustRun(["sh", "-ec", `cd ${directory.path} && ${edit}`], { env: runtimeEnv })
  const after = await render(directory.path)
  const nameIn = (objects: readonly Manifest[]) => objects.find(({ kind }) => kind === "ConfigMap")?.metadata.name ?? ""
  expect(nameIn(after)).not.toBe(nameIn(before))
  const daemonSet = JSON.stringify(after.find(({ kind }) => kind === "DaemonSet"))
  expect(daemonSet).toContain(`"configMap":{"name":"${nameIn(after)}"}`)
  expect([...(daemonSet.match(/"image":"[^"]*"/g) ?? [])]).toEqual(Array(3).fill(`"image":"${image}"`))
})
