import { join } from "node:path"
import { version } from "../../package.json"

/** An object in a file of `deploy/`. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
  }
  readonly [other: string]: unknown
}

/** The fields of a container in the DaemonSet that tests read. */
export interface ContainerSpec {
  readonly name: string
  readonly image: string
  readonly command?: readonly string[]
  readonly args: readonly string[]
  readonly env?: readonly { readonly name: string; readonly valueFrom?: object; readonly value?: string }[]
  readonly securityContext: {
    readonly runAsUser: number
    readonly allowPrivilegeEscalation?: boolean
    readonly privileged?: boolean
    readonly readOnlyRootFilesystem: boolean
    readonly capabilities: { readonly drop: readonly string[]; readonly add: readonly string[] }
    readonly seccompProfile: { readonly type: string }
  }
  readonly resources: { readonly requests: object; readonly limits: object }
  readonly livenessProbe?: object
  readonly readinessProbe?: object
  readonly volumeMounts: readonly {
    readonly name: string
    readonly mountPath: string
    readonly subPath?: string
    readonly readOnly?: boolean
    readonly mountPropagation?: "HostToContainer"
  }[]
}

/** A volume: a directory of the host, a ConfigMap, or the projected service account. */
export interface Volume {
  readonly name: string
  readonly hostPath?: { readonly path: string; readonly type: string }
  readonly configMap?: { readonly name: string }
  readonly projected?: object
}

/** The fields of the DaemonSet's pods that tests read. */
export interface PodSpec {
  readonly hostNetwork?: boolean
  readonly initContainers: readonly ContainerSpec[]
  readonly containers: readonly ContainerSpec[]
  readonly volumes: readonly Volume[]
}

export interface DaemonSet extends Manifest {
  readonly spec: {
    readonly template: { readonly metadata: object; readonly spec: PodSpec }
    readonly updateStrategy: object
  }
}

const root = join(import.meta.dir, "../..")
/** The directory of the kustomization. */
export const kustomization = join(root, "deploy/kubernetes")

const read = (file: string) => Bun.file(join(kustomization, file)).text()

/** Returns the objects in a file. */
export async function readManifests(file: string): Promise<Manifest[]> {
  return [Bun.YAML.parse(await read(file)) as Manifest | Manifest[]].flat()
}

/** The fields of kustomization.yaml that `readDeployment` reads. */
interface Kustomization {
  readonly namespace: string
  readonly resources: readonly string[]
  readonly configMapGenerator: readonly { readonly name: string; readonly files: readonly string[] }[]
  readonly images: readonly { readonly name: string; readonly newTag: string }[]
}

/**
 * Returns the objects that `kubectl apply -k deploy/kubernetes` creates, but the ConfigMap's name has no hash.
 * `kustomize.test.ts` compares the objects with the output of kustomize.
 */
export async function readDeployment(): Promise<Manifest[]> {
  const { namespace, resources, configMapGenerator, images } = Bun.YAML.parse(
    await read("kustomization.yaml"),
  ) as Kustomization
  const objects = (await Promise.all(resources.map(readManifests))).flat()
  const maps = configMapGenerator.map(async ({ name, files }): Promise<Manifest> => {
    const data = Object.fromEntries(await Promise.all(files.map(async (file) => [file, await read(file)] as const)))
    return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data }
  })
  const all = [...objects, ...(await Promise.all(maps))].map((object) =>
    /^(Namespace|ClusterRole|ClusterRoleBinding)$/.test(object.kind)
      ? object
      : { ...object, metadata: { ...object.metadata, namespace } },
  )
  let text = JSON.stringify(all)
  for (const { name, newTag } of images) text = text.replaceAll(`"image":"${name}"`, `"image":"${name}:${newTag}"`)
  return JSON.parse(text)
}

/** Returns the DaemonSet of deploy/kubernetes. */
export async function readDaemonSet(): Promise<DaemonSet> {
  const found = (await readDeployment()).find(({ kind }) => kind === "DaemonSet")
  if (!found) throw new Error("deploy/kubernetes has no DaemonSet")
  return found as DaemonSet
}

/** Returns the network configuration as text. */
export const readConflist = () => read("10-pods.conflist")

/** The name of the image with the version of this project. */
export const image = `cni-plugins:${version}`

/** The program of a container without a command: the entrypoint of the image. */
export const entrypoint = "/opt/cni/bin/cni"

/** The paths that a runtime hides or makes read-only in each unprivileged container, as kubelet requests. */
export const protectedPaths = {
  maskedPaths: ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
  readonlyPaths: ["/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
}
