/** Tests kubelet without an API server: it runs pods from manifests with containerd, which calls the plugins. */
import { expect, test } from "bun:test"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { kubernetesProgram } from "../../scripts/go-programs.ts"
import { askFromHost, imageName } from "../interop/busybox.ts"
import { binDir, Containerd } from "../interop/containerd.ts"
import { containerdNetwork } from "../interop/networks.ts"
import { confDir, runtimeEnv } from "../interop/runtime-host.ts"
import { builtPlugins, expectUnchanged, isAllocationTrace, startDaemon, waitFor } from "../lab/mod.ts"

const manifests = "/run/manifests"
/** kubelet's default of `--root-dir`. kubelet keeps some state here even if the option names another directory. */
const rootDir = "/var/lib/kubelet"
/** The port at which kubelet lists its pods without authentication. */
const port = 10255

/** The settings of kubelet that differ from its defaults: no API server, no cgroups, and no limits for the disk. */
const configuration = {
  apiVersion: "kubelet.config.k8s.io/v1beta1",
  kind: "KubeletConfiguration",
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: "AlwaysAllow" },
  containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
  staticPodPath: manifests,
  fileCheckFrequency: "1s",
  syncFrequency: "1s",
  readOnlyPort: port,
  cgroupDriver: "cgroupfs",
  cgroupsPerQOS: false,
  enforceNodeAllocatable: [],
  localStorageCapacityIsolation: false,
  evictionHard: { "nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "0%" },
  failSwapOn: false,
  podLogsDir: "/run/pod-logs",
  volumePluginDir: "/run/kubelet-plugins",
}

interface Pod {
  readonly metadata: { readonly name: string }
  readonly status: { readonly phase: string; readonly podIP?: string }
}

/** kubelet on the host of containerd, with which it ends. */
class Kubelet {
  readonly #containerd: Containerd

  private constructor(containerd: Containerd) {
    this.#containerd = containerd
  }

  static async start(containerd: Containerd): Promise<Kubelet> {
    const { host } = containerd
    await host.write("/run/kubelet.json", configuration)
    await host.exec("mkdir", ["-p", manifests])
    await mkdir(rootDir, { recursive: true }) // creates only an empty directory on the machine, as mount point
    await host.exec("mount", ["-t", "tmpfs", "-o", "mode=755", "cni-test", rootDir])
    const flags = [
      "--config=/run/kubelet.json",
      "--root-dir=/run/kubelet",
      "--cert-dir=/run/kubelet",
      "--hostname-override=node",
    ]
    const command = `${await kubernetesProgram("kubelet")} ${flags.join(" ")}`
    await startDaemon(
      host.commandLine(["sh", "-ec", `PATH=${runtimeEnv.PATH} exec ${command} >>/run/kubelet.log 2>&1`]),
    )
    const kubelet = new Kubelet(containerd)
    try {
      await waitFor(() => kubelet.pods(), "kubelet to answer")
    } catch (cause) {
      throw new Error(`kubelet has said: ${(await host.exec("tail", ["-n", "50", "/run/kubelet.log"])).stdout}`, {
        cause,
      })
    }
    return kubelet
  }

  async hasSaid(words: string): Promise<boolean> {
    return (await this.#containerd.host.exec("cat", ["/run/kubelet.log"])).stdout.includes(words)
  }

  async pods(): Promise<readonly Pod[]> {
    const ask = ["-qO-", `http://127.0.0.1:${port}/pods`]
    const { stdout } = await this.#containerd.host.exec("busybox", ["wget", ...ask])
    return (JSON.parse(stdout) as { items: Pod[] | null }).items ?? []
  }

  /** Writes the manifest of a pod with one container, whose port 80 is published. */
  async run(name: string, hostPort: number): Promise<void> {
    const command = ["/bin/busybox", "sleep", "1000000"]
    const ports = [{ containerPort: 80, hostPort }]
    const container = { name: "main", image: imageName, imagePullPolicy: "Never", command, ports }
    const spec = { terminationGracePeriodSeconds: 0, automountServiceAccountToken: false, containers: [container] }
    const pod = { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "default" }, spec }
    await this.#containerd.host.write(`${manifests}/${name}.json`, pod)
  }

  async remove(name: string): Promise<void> {
    await rm(this.#containerd.host.file(`${manifests}/${name}.json`))
  }

  async addressOf(name: string): Promise<string> {
    const find = async () => {
      const pod = (await this.pods()).find(({ metadata }) => metadata.name === `${name}-node`)
      return pod?.status.phase === "Running" && pod.status.podIP
    }
    return waitFor(find, `the pod ${name}`)
  }
}

async function isEmpty(containerd: Containerd): Promise<boolean> {
  return (await containerd.podIds()).length === 0
}

test("kubelet's pods have the addresses that it tells and their published ports; they go with their manifests, and nothing is left", async () => {
  await using containerd = await Containerd.create()
  const { host } = containerd
  const kubelet = await Kubelet.start(containerd)
  await kubelet.run("first", 8079)
  await kubelet.addressOf("first")
  await kubelet.remove("first")
  await waitFor(() => isEmpty(containerd), "the first pod to go")
  const before = await host.snapshot()
  for (const [at, name] of ["one", "two", "three"].entries()) await kubelet.run(name, 8080 + at)
  for (const [at, name] of ["one", "two", "three"].entries()) {
    expect(await kubelet.addressOf(name)).toMatch(/^10\.85\.0\./)
    expect(await askFromHost(host, "127.0.0.1", 8080 + at)).toBe(`${name}-node`)
  }
  for (const name of ["one", "two", "three"]) await kubelet.remove(name)
  await waitFor(() => isEmpty(containerd), "the pods to go")
  expectUnchanged(before, await host.snapshot(), isAllocationTrace)
})

test("a node without a network runs no pod until cni install has put one there", async () => {
  await using containerd = await Containerd.create()
  const { host } = containerd
  await host.exec("rm", [`${confDir}/10-pods.conflist`])
  await waitFor(async () => (await containerd.networks()).length === 0, "containerd to have no network")
  const kubelet = await Kubelet.start(containerd)
  await kubelet.run("web", 8080)
  await waitFor(() => kubelet.hasSaid("network is not ready"), "kubelet to refuse the pod")
  expect(await isEmpty(containerd)).toBe(true)
  await host.write("/run/new/10-pods.conflist", containerdNetwork)
  const places = ["--bin-dir", binDir, "--conf-dir", confDir, "--config", "/run/new/10-pods.conflist"]
  await host.exec(join(builtPlugins, "../cni"), ["install", ...places])
  expect(await kubelet.addressOf("web")).toMatch(/^10\.85\.0\./)
  expect(await askFromHost(host, "127.0.0.1", 8080)).toBe("web-node")
})
