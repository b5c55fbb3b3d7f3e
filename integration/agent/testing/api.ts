import { join } from "node:path"
import type { Troubles } from "../../../agent/testing/fake-api.ts"
import { type Namespace, programEnv, waitFor } from "../../lab/mod.ts"
import { RequestsFrom } from "./requests-from.ts"

/** The tokens of the agents' account and of an administrator. */
export const agentToken = "agent-token"
export const adminToken = "admin-token"

/** The answer of an API server. */
export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
  readonly body: any
}

/** A fake or a real API server in the network of the nodes. */
export interface ClusterApi extends AsyncDisposable {
  readonly url: string
  /** The certificate of its CA as PEM; undefined without TLS. */
  readonly ca?: string
  /** Sends a request as administrator. */
  ask(method: string, path: string, body?: object): Promise<Answer>
  /** Makes every request fail until `up`. */
  down(): Promise<void>
  up(): Promise<void>
  /** Deletes the history of changes. The API server then answers a watch from an earlier version with 410. */
  forget(): Promise<void>
}

/** Returns an administrator's kubeconfig for programs in the namespace of an API server. */
export function kubeconfigOf({ url, ca }: Pick<ClusterApi, "url" | "ca">): object {
  return {
    "current-context": "test",
    contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
    clusters: [{ name: "test", cluster: { server: url, ...(ca && { "certificate-authority-data": btoa(ca) }) } }],
    users: [{ name: "admin", user: { token: adminToken } }],
  }
}

/** A fake API server in its own process in a namespace. */
export class FakeClusterApi implements ClusterApi {
  readonly url: string
  readonly #process: Bun.Subprocess
  readonly #requests: RequestsFrom

  private constructor(url: string, process: Bun.Subprocess, requests: RequestsFrom) {
    this.url = url
    this.#process = process
    this.#requests = requests
  }

  static async start(namespace: Namespace, address: string): Promise<FakeClusterApi> {
    const port = 6443
    const program = join(import.meta.dir, "../../../agent/testing/fake-api.ts")
    const command = namespace.commandLine([process.execPath, program, address, String(port)])
    const fake = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", "ignore", "inherit"] })
    const api = new FakeClusterApi(`http://${address}:${port}`, fake, new RequestsFrom(namespace))
    const isReady = () =>
      api.ask("GET", "/readyz").then(
        ({ status }) => status === 200,
        () => false,
      )
    await waitFor(isReady, "the fake API server to answer")
    await api.trouble({ tokens: [adminToken, agentToken] })
    return api
  }

  async ask(method: string, path: string, body?: object): Promise<Answer> {
    return askBy(this.#requests.send, `${this.url}${path}`, { method, body })
  }

  async trouble(changes: Troubles & { forget?: boolean; endWatches?: boolean }): Promise<void> {
    await this.ask("POST", "/fake", changes)
  }

  async down(): Promise<void> {
    await this.trouble({ down: true, endWatches: true })
  }

  async up(): Promise<void> {
    await this.trouble({ down: false })
  }

  async forget(): Promise<void> {
    await this.trouble({ forget: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
    await this.#requests[Symbol.asyncDispose]()
  }
}

/** Sends a request as administrator. Returns the body, parsed as JSON if possible. */
export async function askBy(
  send: RequestsFrom["send"],
  url: string,
  { method, body, ca }: { method: string; body?: object | undefined; ca?: string },
): Promise<Answer> {
  const response = await send(url, {
    method,
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json", accept: "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(ca !== undefined && { tls: { ca } }),
  })
  const text = await response.text()
  try {
    return { status: response.status, body: JSON.parse(text) }
  } catch {
    return { status: response.status, body: text }
  }
}
