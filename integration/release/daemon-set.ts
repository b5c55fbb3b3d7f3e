import { join } from "node:path"
import { type ContainerSpec, type PodSpec, protectedPaths, readConflist } from "../deploy/manifests.ts"
import type { Containerd } from "../interop/containerd.ts"
import type { ContainerStatus } from "../interop/cri.ts"
import { mustRun, waitFor } from "../lab/mod.ts"

/** The directory for volumes of a test node that are not directories of the host. */
const volumes = "/run/volumes"

/** A running pod of a DaemonSet. */
export interface Daemon {
  readonly podSandboxId: string
  /** The ID of the container that stays, unlike the init containers. */
  readonly containerId: string
}

/** Runs a DaemonSet's pod as kubelet does: creates directories, runs init containers, starts the other container. */
export async function runDaemon(containerd: Containerd, pod: PodSpec, image: string): Promise<Daemon> {
  for (const { name, hostPath, configMap } of pod.volumes) {
    if (hostPath?.type === "DirectoryOrCreate") await containerd.host.exec("mkdir", ["-p", hostPath.path])
    if (configMap) await containerd.host.write(`${volumes}/${name}/10-pods.conflist`, await readConflist())
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

/** Runs the tool in the running container, like `kubectl exec ds/cni-plugins -- /opt/cni/bin/cni …`. */
export async function execInDaemon(containerd: Containerd, { containerId }: Daemon, ...words: string[]) {
  using cri = containerd.connect()
  const { stdout, stderr, exitCode } = await cri.call("ExecSync", { containerId, cmd: ["/opt/cni/bin/cni", ...words] })
  return { stdout: stdout.toString(), stderr: stderr.toString(), exitCode }
}

const exited = (status: ContainerStatus) => (status.state === "CONTAINER_EXITED" ? status : undefined)

function containerConfig(spec: ContainerSpec, pod: PodSpec, image: string, namespaceOptions: object): object {
  const { securityContext: context } = spec
  const pathOf = (name: string) =>
    pod.volumes.find((volume) => volume.name === name)?.hostPath?.path ?? `${volumes}/${name}`
  return {
    metadata: { name: spec.name },
    image: { image },
    args: spec.args,
    logPath: spec.name,
    mounts: spec.volumeMounts.map(({ name, mountPath, subPath = "", readOnly = false, mountPropagation }) => ({
      containerPath: mountPath,
      hostPath: join(pathOf(name), subPath),
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
        seccomp: { profileType: context.seccompProfile.type },
        capabilities: { addCapabilities: context.capabilities?.add, dropCapabilities: context.capabilities?.drop },
      },
    },
  }
}
