import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { type Client, credentials, loadPackageDefinition, type ServiceError } from "@grpc/grpc-js"
import { loadSync } from "@grpc/proto-loader"
import { startDaemon, waitFor } from "../lab/mod.ts"
import { type RuntimeHost, runtimeEnv } from "./runtime-host.ts"

/** A pod as kubelet requests it. */
export interface PodConfig {
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace: string }
  readonly hostname?: string
  readonly portMappings?: readonly { readonly containerPort: number; readonly hostPort: number }[]
}

export interface PodStatus {
  readonly id: string
  readonly state: "SANDBOX_READY" | "SANDBOX_NOTREADY"
  readonly network: { readonly ip: string }
}

export interface ContainerStatus {
  readonly state: "CONTAINER_CREATED" | "CONTAINER_RUNNING" | "CONTAINER_EXITED" | "CONTAINER_UNKNOWN"
  readonly exitCode: number
  readonly reason: string
  readonly message: string
}

/** The calls of cri.proto by name, with the types of request and response. */
interface Calls {
  RunPodSandbox: [{ config: object }, { podSandboxId: string }]
  StopPodSandbox: [{ podSandboxId: string }, object]
  RemovePodSandbox: [{ podSandboxId: string }, object]
  PodSandboxStatus: [{ podSandboxId: string }, { status: PodStatus }]
  ListPodSandbox: [object, { items: { id: string; state: PodStatus["state"] }[] }]
  Status: [
    { verbose?: boolean },
    {
      status: { conditions: { type: string; status: boolean; message: string }[] }
      info: Readonly<Record<string, string>>
    },
  ]
  CreateContainer: [{ podSandboxId: string; config: object; sandboxConfig: object }, { containerId: string }]
  StartContainer: [{ containerId: string }, object]
  ExecSync: [{ containerId: string; cmd: readonly string[] }, { stdout: Buffer; stderr: Buffer; exitCode: number }]
  ContainerStatus: [{ containerId: string }, { status: ContainerStatus }]
}

type Method = (request: object, options: object, done: (error: ServiceError | null, reply: object) => void) => void
type Service = new (address: string, secret: ReturnType<typeof credentials.createInsecure>) => Client

/**
 * A client of the Container Runtime Interface that makes the same calls as kubelet.
 *
 * @example
 * using cri = new Cri("/run/containerd/containerd.sock")
 * const { podSandboxId } = await cri.call("RunPodSandbox", { config })
 */
export class Cri implements Disposable {
  readonly #client: Client

  /** Prepares a client for the runtime's socket. The first call connects. */
  constructor(socket: string) {
    const definition = loadPackageDefinition(
      loadSync(join(import.meta.dir, "cri.proto"), { enums: String, defaults: true }),
    )
    const { v1 } = definition.runtime as unknown as { v1: { RuntimeService: Service } }
    this.#client = new v1.RuntimeService(`unix:${socket}`, credentials.createInsecure())
  }

  /** Makes a call. Throws the runtime's error, or an error if the runtime does not answer within 20 seconds. */
  call<Name extends keyof Calls>(name: Name, request: Calls[Name][0]): Promise<Calls[Name][1]> {
    const method = (this.#client as unknown as Record<string, Method>)[name]
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, reply: object) => (error ? reject(error) : resolve(reply))
      method?.call(this.#client, request, { deadline: Date.now() + 60_000 }, done)
    })
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }
}

/** A runtime on its own host that serves kubelet's requests for pods. */
export abstract class PodRuntime implements AsyncDisposable {
  readonly host: RuntimeHost
  readonly socket: string
  /** The address of the host at which published ports are reachable. */
  readonly publishedAt: string = "127.0.0.1"
  /** The file that contains the runtime's process ID. */
  readonly #pidFile = "/run/runtime.pid"

  protected constructor(host: RuntimeHost, socket: string) {
    this.host = host
    this.socket = socket
  }

  /** Starts the daemon, and waits until it can run pods. */
  abstract start(): Promise<void>

  /**
   * Starts a program of the runtime, and waits until the runtime reports that it is ready. Its output goes to
   * /run/runtime.log.
   */
  protected async startProgram(command: string): Promise<void> {
    const script = `echo $$ > ${this.#pidFile}; PATH=${runtimeEnv.PATH} exec ${command} >> /run/runtime.log 2>&1`
    await startDaemon(this.host.commandLine(["sh", "-ec", script]))
    using cri = this.connect()
    const isReady = async () => {
      const { status } = await cri.call("Status", {})
      return status.conditions.every((condition) => condition.status)
    }
    try {
      await waitFor(isReady, "the runtime to be ready")
    } catch (cause) {
      const { stdout } = await this.host.exec("tail", ["-n", "50", "/run/runtime.log"])
      throw new Error(`the runtime has said: ${stdout}`, { cause })
    }
  }

  /** Kills the daemon with SIGKILL. The containers continue, as after a crash. */
  async kill(): Promise<void> {
    const pid = (await readFile(this.host.file(this.#pidFile), "utf8")).trim()
    await this.host.exec("kill", ["-KILL", pid])
    await waitFor(async () => (await this.host.tryExec("test", ["-e", `/proc/${pid}/exe`])).exitCode !== 0, "its end")
  }

  /** Runs a pod and returns its ID. Throws the runtime's error. */
  async runPod(name: string, keys: Partial<PodConfig> = {}): Promise<string> {
    using cri = this.connect()
    const config = { metadata: { name, uid: `uid-${name}`, namespace: "interop" }, hostname: name, linux: {}, ...keys }
    return (await cri.call("RunPodSandbox", { config })).podSandboxId
  }

  async podStatus(podSandboxId: string): Promise<PodStatus> {
    using cri = this.connect()
    return (await cri.call("PodSandboxStatus", { podSandboxId })).status
  }

  async podIds(): Promise<string[]> {
    using cri = this.connect()
    return (await cri.call("ListPodSandbox", {})).items.map(({ id }) => id)
  }

  async stopPod(podSandboxId: string): Promise<void> {
    using cri = this.connect()
    await cri.call("StopPodSandbox", { podSandboxId })
  }

  async removePod(podSandboxId: string): Promise<void> {
    using cri = this.connect()
    await cri.call("RemovePodSandbox", { podSandboxId })
  }

  connect(): Cri {
    return new Cri(this.host.file(this.socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
  }
}
