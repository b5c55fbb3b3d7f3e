import { join } from "node:path"
import { type Client, credentials, loadPackageDefinition, type ServiceError } from "@grpc/grpc-js"
import { loadSync } from "@grpc/proto-loader"

/** A pod as kubelet asks for it. */
export interface PodConfig {
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace: string }
  readonly hostname?: string
  readonly portMappings?: readonly { readonly containerPort: number; readonly hostPort: number }[]
}

/** What the runtime says about a pod. */
export interface PodStatus {
  readonly id: string
  readonly state: "SANDBOX_READY" | "SANDBOX_NOTREADY"
  readonly network: { readonly ip: string }
}

/** What the runtime says about a container of a pod. */
export interface ContainerStatus {
  readonly state: "CONTAINER_CREATED" | "CONTAINER_RUNNING" | "CONTAINER_EXITED" | "CONTAINER_UNKNOWN"
  readonly exitCode: number
  readonly reason: string
  readonly message: string
}

/** The calls of cri.proto by name, with what they take and answer. */
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
 * The Container Runtime Interface, the way kubelet speaks it to a runtime.
 * @example
 * using cri = new Cri("/run/containerd/containerd.sock")
 * const { podSandboxId } = await cri.call("RunPodSandbox", { config })
 */
export class Cri implements Disposable {
  readonly #client: Client

  /** Connects to the runtime's socket with the first call. */
  constructor(socket: string) {
    const definition = loadPackageDefinition(
      loadSync(join(import.meta.dir, "cri.proto"), { enums: String, defaults: true }),
    )
    const { v1 } = definition.runtime as unknown as { v1: { RuntimeService: Service } }
    this.#client = new v1.RuntimeService(`unix:${socket}`, credentials.createInsecure())
  }

  /** One call. Throws the runtime's error, or that it has not answered within 20 seconds. */
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
