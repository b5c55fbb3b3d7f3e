import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { version } from "../../package.json"
import { readOverlay } from "./daemon-set.ts"
import { Schemas } from "./schemas.ts"

const deploy = join(import.meta.dir, "../../deploy")
const overlays = await readdir(join(deploy, "plugins/overlays"))

/** The oldest and the newest version of Kubernetes that the manifests are checked for. */
const versions = ["1.29.0", "1.37.0"]

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
}

/** Objects of Kubernetes' own kinds; the examples are of our custom resources, which the real API server checks. */
async function manifests(): Promise<[string, Manifest][]> {
  const files = ["plugins/base/daemonset.yaml", "cluster/agent.yaml", "cluster/crds.yaml", "cluster/rbac.yaml"]
  const read = files.map(async (file) => {
    const objects = Bun.YAML.parse(await Bun.file(join(deploy, file)).text())
    return [objects].flat().map((object): [string, Manifest] => [file, object as Manifest])
  })
  const made = overlays.map(
    async (name): Promise<[string, Manifest]> => [`overlay ${name}`, (await readOverlay(name)) as never],
  )
  return [...(await Promise.all(read)).flat(), ...(await Promise.all(made))]
}

test.each(versions)(
  "every manifest is as the schemas of Kubernetes %s have it",
  async (of) => {
    const schemas = await Schemas.of(of)
    const all = await manifests()
    expect(all.length).toBeGreaterThan(10)
    for (const [file, object] of all)
      expect({ file, kind: object.kind, faults: await schemas.faultsOf(object) }).toEqual({
        file,
        kind: object.kind,
        faults: [],
      })
  },
  300_000,
)

test("a key that is misspelled, and a value of another type, are faults", async () => {
  const schemas = await Schemas.of("1.37.0")
  const object = await readOverlay("kubeadm")
  const [container] = object.spec.template.spec.containers
  Object.assign(container ?? {}, { imagePullPolice: "Never" })
  Object.assign(object.spec.template.spec.initContainers[0]?.securityContext ?? {}, { runAsUser: "0" })
  const faults = await schemas.faultsOf(object as never)
  expect(faults.join("\n")).toMatch(/imagePullPolice/)
  expect(faults.join("\n")).toMatch(/runAsUser must be integer/)
}, 300_000)

test("the DaemonSet mounts what it names, states its privileges, and has the version of the project", async () => {
  for (const name of overlays) {
    const { initContainers, containers, volumes } = (await readOverlay(name)).spec.template.spec
    for (const one of [...initContainers, ...containers]) {
      expect(one.image).toBe(`cni-plugins:${version}`)
      expect(one.securityContext).toMatchObject({ runAsUser: 0, readOnlyRootFilesystem: true })
      for (const mount of one.volumeMounts) expect(volumes.map((volume) => volume.name)).toContain(mount.name)
    }
    const ofInstaller = ["DAC_OVERRIDE", "FOWNER", "SETFCAP"]
    expect(initContainers[0]?.securityContext.capabilities).toEqual({ drop: ["ALL"], add: ofInstaller })
    expect(containers[0]?.securityContext.capabilities).toEqual({
      drop: ["ALL"],
      add: [...ofInstaller, "NET_ADMIN", "NET_RAW", "SYS_ADMIN"].sort(),
    })
    expect(JSON.stringify(containers)).not.toContain("privileged")
  }
})

test("the DaemonSet runs on every node before pods have a network, is replaced node by node, and removes nothing when it goes", async () => {
  for (const name of overlays) {
    const object = await readOverlay(name)
    const { template, updateStrategy } = object.spec as typeof object.spec & { updateStrategy: object }
    expect(updateStrategy).toEqual({ type: "RollingUpdate", rollingUpdate: { maxUnavailable: "10%" } })
    expect(template.spec).toMatchObject({
      hostNetwork: true,
      priorityClassName: "system-node-critical",
      tolerations: [{ operator: "Exists" }],
      automountServiceAccountToken: false,
    })
    expect(JSON.stringify(object)).not.toContain("lifecycle") // such as preStop
    const { initContainers, containers, volumes } = template.spec
    expect(initContainers.map(({ args }) => args[0])).toEqual(["install"])
    const mounted = [...initContainers, ...containers].flatMap(({ volumeMounts }) => volumeMounts)
    expect(new Set(mounted.map((mount) => mount.name))).toEqual(new Set(volumes.map((volume) => volume.name)))
  }
})

test("kustomization files name every resource, and patch the DaemonSet alone", async () => {
  expect(overlays.sort()).toEqual(["k3s", "kind", "kubeadm", "talos"])
  for (const name of overlays) {
    const { patches } = Bun.YAML.parse(
      await Bun.file(join(deploy, `plugins/overlays/${name}/kustomization.yaml`)).text(),
    ) as { patches: { target: object }[] }
    expect(patches.map(({ target }) => target)).toEqual([{ kind: "DaemonSet", name: "cni-plugins" }])
  }
})
