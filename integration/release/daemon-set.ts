import { join } from "node:path"
import type { Containerd } from "../interop/containerd.ts"
import type { ContainerStatus } from "../interop/cri.ts"
import { mustRun, waitFor } from "../lab/mod.ts"

/** What a DaemonSet says of its pods, as far as the tests read it. */
interface PodSpec {
  readonly hostNetwork?: boolean
  readonly initContainers: readonly ContainerSpec[]
  readonly containers: readonly ContainerSpec[]
  readonly volumes: readonly {
    readonly name: string
    readonly hostPath: { readonly path: string; readonly type: string }
  }[]
}

interface ContainerSpec {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly securityContext: {
    readonly runAsUser: number
    readonly allowPrivilegeEscalation?: boolean
    readonly readOnlyRootFilesystem: boolean
    readonly capabilities?: { readonly drop: readonly string[]; readonly add: readonly string[] }
  }
  readonly volumeMounts: readonly {
    readonly name: string
    readonly mountPath: string
    readonly readOnly?: boolean
    readonly mountPropagation?: "HostToContainer"
  }[]
}

const deploy = join(import.meta.dir, "../../deploy/plugins")

interface Patch {
  readonly op: "add" | "replace"
  readonly path: string
  readonly value: unknown
}

/** The DaemonSet of an overlay, as `kubectl kustomize deploy/plugins/overlays/NAME` prints it. */
export async function readOverlay(name: string): Promise<{ spec: { template: { spec: PodSpec } } }> {
  const read = async (path: string) => Bun.YAML.parse(await Bun.file(join(deploy, path)).text())
  const object = await read("base/daemonset.yaml")
  const { resources, patches } = (await read(`overlays/${name}/kustomization.yaml`)) as {
    resources: string[]
    patches: { target: object; patch: string }[]
  }
  if (resources.join() !== "../../base") throw new Error(`The overlay ${name} is not made of the base alone`)
  for (const { patch } of patches) for (const one of Bun.YAML.parse(patch) as Patch[]) apply(object, one)
  return object as Awaited<ReturnType<typeof readOverlay>>
}

/** RFC 6902, as far as overlays use it. */
function apply(object: unknown, { op, path, value }: Patch): void {
  const words = path.split("/").slice(1)
  const last = words.pop() ?? ""
  const parent = words.reduce((at, word) => (at as Record<string, unknown>)[word], object) as Record<string, unknown>
  if (Array.isArray(parent) && last === "-" && op === "add") parent.push(value)
  else if (!Array.isArray(parent) && (op === "add" || last in parent)) parent[last] = value
  else throw new Error(`Cannot apply "${op}" to ${path}`)
}

/** A pod of a DaemonSet that runs. */
export interface Daemon {
  readonly podSandboxId: string
  /** Of the container that stays. */
  readonly containerId: string
}

/** Runs a pod of a DaemonSet as kubelet does: its directories, the init containers one after the other, then the one that stays. */
export async function runDaemon(containerd: Containerd, pod: PodSpec, image: string): Promise<Daemon> {
  for (const { hostPath } of pod.volumes) {
    if (hostPath.type === "DirectoryOrCreate") await containerd.host.exec("mkdir", ["-p", hostPath.path])
  }
  const namespaceOptions = { network: pod.hostNetwork ? "NODE" : "POD" }
  const sandboxConfig = {
    metadata: { name: "cni-plugins", uid: crypto.randomUUID(), namespace: "kube-system" },
    logDirectory: "/run/daemon-logs",
    linux: { securityContext: { namespaceOptions } },
  }
  using cri = containerd.connect()
  await mustRun(["mkdir", "-p", containerd.host.file("/run/daemon-logs")])
  const { podSandboxId } = await cri.call("RunPodSandbox", { config: sandboxConfig })
  const start = async (spec: ContainerSpec) => {
    const config = containerConfig(spec, pod, image, namespaceOptions)
    const { containerId } = await cri.call("CreateContainer", { podSandboxId, config, sandboxConfig })
    await cri.call("StartContainer", { containerId })
    return { containerId, status: async () => (await cri.call("ContainerStatus", { containerId })).status }
  }
  const logOf = (name: string) => Bun.file(containerd.host.file(`/run/daemon-logs/${name}`)).text()
  for (const spec of pod.initContainers) {
    const { status } = await start(spec)
    const ended = await waitFor(async () => exited(await status()), `the end of "${spec.name}"`)
    if (ended.exitCode === 0) continue
    await containerd.removePod(podSandboxId)
    throw new Error(`"${spec.name}" ended with ${ended.exitCode}: ${await logOf(spec.name)}`)
  }
  const [stays] = pod.containers
  if (stays === undefined || pod.containers.length > 1) throw new Error("Expected one container that stays")
  const { containerId, status } = await start(stays)
  const isRunning = async () => {
    if (exited(await status())) throw new Error(`"${stays.name}" has ended: ${await logOf(stays.name)}`)
    return (await status()).state === "CONTAINER_RUNNING"
  }
  await waitFor(isRunning, `"${stays.name}" to run`)
  return { podSandboxId, containerId }
}

/** Runs the tool in the container that stays, like `kubectl exec ds/cni-plugins -- /opt/cni/bin/cni …`. */
export async function execInDaemon(containerd: Containerd, { containerId }: Daemon, ...words: string[]) {
  using cri = containerd.connect()
  const { stdout, stderr, exitCode } = await cri.call("ExecSync", { containerId, cmd: ["/opt/cni/bin/cni", ...words] })
  return { stdout: stdout.toString(), stderr: stderr.toString(), exitCode }
}

/** What kubelet has a runtime hide and protect in each container that is not privileged: containerd does nothing of it by itself. */
const protectedPaths = {
  maskedPaths: ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware"],
  readonlyPaths: ["/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
}

const exited = (status: ContainerStatus) => (status.state === "CONTAINER_EXITED" ? status : undefined)

function containerConfig(spec: ContainerSpec, pod: PodSpec, image: string, namespaceOptions: object): object {
  const { securityContext: context } = spec
  const pathOf = (name: string) => pod.volumes.find((volume) => volume.name === name)?.hostPath.path
  return {
    metadata: { name: spec.name },
    image: { image },
    args: spec.args,
    logPath: spec.name,
    mounts: spec.volumeMounts.map(({ name, mountPath, readOnly = false, mountPropagation }) => ({
      containerPath: mountPath,
      hostPath: pathOf(name),
      readonly: readOnly,
      propagation: mountPropagation === undefined ? "PROPAGATION_PRIVATE" : "PROPAGATION_HOST_TO_CONTAINER",
    })),
    linux: {
      securityContext: {
        ...protectedPaths,
        namespaceOptions,
        runAsUser: { value: context.runAsUser },
        readonlyRootfs: context.readOnlyRootFilesystem,
        noNewPrivs: context.allowPrivilegeEscalation === false,
        capabilities: { addCapabilities: context.capabilities?.add, dropCapabilities: context.capabilities?.drop },
      },
    },
  }
}
