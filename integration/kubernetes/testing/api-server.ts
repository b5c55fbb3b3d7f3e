import { createServer } from "node:net"
import type { ApiForStatements } from "../../../agent/testing/api-statements.ts"
import { type ApiUnderTest, accounts, ask, tokenOf } from "../../../agent/testing/kubernetes-stores.ts"
import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { makeAuthority, makeCertificate } from "../../cluster/mod.ts"
import { mustRun, type Namespace, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"
import { type Manifest, pathOf, readManifests } from "./manifests.ts"
import { RequestsFrom } from "./requests-from.ts"

/** What each account is to the API server. */
const users: Readonly<Record<(typeof accounts)[number], string>> = {
  admin: 'admin,1,"system:masters"',
  agent: 'system:serviceaccount:kube-system:cni-agent,2,"system:serviceaccounts,system:authenticated"',
  operator: "operator,3",
}

/** How long a start may take, before patience: some seconds on an idle machine. */
const startMs = 180_000

/** A network namespace that has the API server, and the address there that it listens on. */
export interface Place {
  readonly namespace: Namespace
  readonly address: string
}

/**
 * A real kube-apiserver on loopback, or in a namespace, with Debian's etcd behind it, TLS, tokens and RBAC; no kubelet, no controllers. Both
 * end with it.
 * @example
 * await using api = await RealApiServer.start()
 * await api.apply(await readManifests("deploy/cluster"))
 */
export class RealApiServer implements ApiUnderTest, AsyncDisposable {
  readonly url: string
  readonly ca: string
  readonly send?: NonNullable<ApiUnderTest["send"]>
  readonly #requests: RequestsFrom | undefined
  readonly #directory: TemporaryDirectory
  readonly #etcdUrl: string
  readonly #command: readonly string[]
  readonly #namespace: Namespace | undefined
  readonly #processes = new Map<string, Bun.Subprocess>()

  private constructor(
    directory: TemporaryDirectory,
    url: string,
    ca: string,
    etcdUrl: string,
    command: readonly string[],
    namespace: Namespace | undefined,
  ) {
    this.#namespace = namespace
    this.#requests = namespace && new RequestsFrom(namespace)
    if (this.#requests) this.send = this.#requests.send
    this.#directory = directory
    this.url = url
    this.ca = ca
    this.#etcdUrl = etcdUrl
    this.#command = command
  }

  static async start(place?: Place): Promise<RealApiServer> {
    const { namespace, address = "127.0.0.1" } = place ?? {}
    const program = await kubernetesProgram("kube-apiserver")
    const directory = await TemporaryDirectory.createLocked("cni-kubernetes-run")
    const authority = await makeAuthority(directory.path)
    const { certificate, key } = await makeCertificate(directory.path, "server", authority, [address])
    const account = directory.join("account.key")
    await mustRun(["openssl", "genrsa", "-out", account, "2048"])
    const tokens = accounts.map((each) => `${tokenOf(each)},${users[each]}\n`)
    await Bun.write(directory.join("tokens.csv"), tokens.join(""))
    const [port, etcdPort] = [await freePort(), await freePort()]
    const [url, etcdUrl] = [`https://${address}:${port}`, `http://127.0.0.1:${etcdPort}`]
    const issuer = "https://kubernetes.default.svc"
    const command = [
      program,
      ...[`--etcd-servers=${etcdUrl}`, "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/24"],
      ...[`--secure-port=${port}`, `--bind-address=${address}`, `--advertise-address=${address}`],
      ...[`--tls-cert-file=${certificate}`, `--tls-private-key-file=${key}`],
      ...[`--token-auth-file=${directory.join("tokens.csv")}`, "--authorization-mode=RBAC"],
      `--client-ca-file=${authority.certificate}`,
      ...[`--service-account-issuer=${issuer}`, `--service-account-key-file=${account}`],
      ...[`--service-account-signing-key-file=${account}`, "--disable-admission-plugins=ServiceAccount"],
      "--allow-privileged=true", // as kubeadm and the distributions of Kubernetes set it
    ]
    await makeCertificate(directory.path, "operator", authority, [], "/CN=operator")
    const ca = await Bun.file(authority.certificate).text()
    const server = new RealApiServer(directory, url, ca, etcdUrl, command, namespace)
    const peer = `http://127.0.0.1:${await freePort()}`
    const urls = [`--listen-client-urls=${etcdUrl}`, `--advertise-client-urls=${etcdUrl}`, `--listen-peer-urls=${peer}`]
    const peers = [`--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`]
    server.#spawn("etcd", [
      "etcd",
      `--data-dir=${directory.join("etcd")}`,
      ...urls,
      ...peers,
      "--log-level=warn",
      "--logger=zap",
    ])
    try {
      await server.#startApi()
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
    return server
  }

  /** Writes a kubeconfig of the operator, with certificates by path. */
  async writeKubeconfig(): Promise<string> {
    const path = this.#directory.join("kubeconfig")
    const user = { "client-certificate": "operator.pem", "client-key": "operator.key" }
    const config = {
      "current-context": "test",
      contexts: [{ name: "test", context: { cluster: "test", user: "operator" } }],
      clusters: [{ name: "test", cluster: { server: this.url, "certificate-authority": "ca.pem" } }],
      users: [{ name: "operator", user }],
    }
    await Bun.write(path, Bun.YAML.stringify(config))
    return path
  }

  /** Creates objects, in this order, as an administrator; those that are there already stay. Like the first `kubectl apply`. */
  async apply(manifests: readonly Manifest[]): Promise<void> {
    for (const manifest of manifests) {
      const { status, body } = await ask(this, "POST", pathOf(manifest), { body: manifest })
      if (status >= 300 && status !== 409) throw new Error(`Cannot apply ${manifest.kind}: ${JSON.stringify(body)}`)
    }
  }

  /** The custom resources and roles of `deploy/cluster`, with the accounts of tests bound to them; waits until they are served. */
  async deploy(): Promise<void> {
    await this.apply(await readManifests("deploy/cluster"))
    const [role, user] = ["cni-agent-operator", "operator"]
    const apiGroup = "rbac.authorization.k8s.io"
    await this.apply([
      {
        apiVersion: `${apiGroup}/v1`,
        kind: "ClusterRoleBinding",
        metadata: { name: role },
        roleRef: { apiGroup, kind: "ClusterRole", name: role },
        subjects: [{ apiGroup, kind: "User", name: user }],
      },
    ])
    await waitFor(() => this.#isServed("agent"), "the custom resources and the agent's role", startMs)
    await waitFor(() => this.#isServed("operator"), "the operator's role", startMs)
  }

  async #isServed(account: "agent" | "operator"): Promise<boolean> {
    for (const { plural } of customResources) {
      const { status } = await ask(this, "GET", `/apis/cni-agent.internal/v1/${plural}`, { account })
      if (status !== 200) return false
    }
    return true
  }

  /** Removes all objects that tests make. */
  async clear(): Promise<void> {
    for (const { plural } of customResources) await ask(this, "DELETE", `/apis/cni-agent.internal/v1/${plural}`)
    await ask(this, "DELETE", "/api/v1/nodes")
    await ask(this, "DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
    for (const { plural } of customResources) {
      const isEmpty = async () =>
        (await ask(this, "GET", `/apis/cni-agent.internal/v1/${plural}`)).body.items.length === 0
      await waitFor(isEmpty, `no ${plural}`)
    }
  }

  /** Forgets the history: etcd's by compaction, and what the API server remembers of it by a new start. */
  async compact(): Promise<void> {
    const { body } = await ask(this, "GET", "/api/v1/namespaces")
    const revision = body.metadata.resourceVersion
    await this.kill()
    const send = this.send ?? fetch
    await send(`${this.#etcdUrl}/v3/kv/compaction`, {
      method: "POST",
      body: JSON.stringify({ revision, physical: true }),
    })
    await this.#startApi()
  }

  /** Ends the API server by SIGKILL; its etcd stays. */
  async kill(): Promise<void> {
    await this.#end("kube-apiserver")
  }

  /** Starts it again after `kill`; ends when it is ready. */
  async restart(): Promise<void> {
    await this.#startApi()
  }

  /** The server for one case: empty, and not ended by the case. */
  async forCase(): Promise<ApiForStatements> {
    await this.clear()
    return { url: this.url, ca: this.ca, compact: () => this.compact(), [Symbol.asyncDispose]: async () => {} }
  }

  /** What `kubectl get PLURAL` shows: the columns and rows come from the server. */
  async table(path: string): Promise<string> {
    const { body } = await ask(this, "GET", path, { accept: "application/json;as=Table;g=meta.k8s.io;v=v1" })
    // kubectl shows the columns of priority 0
    // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
    const columns: any[] = body.columnDefinitions
    const shown = columns.flatMap(({ priority }, at) => (priority === 0 ? [at] : []))
    // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
    const cells = body.rows.map(({ cells }: any) => shown.map((at) => String(cells[at] ?? "<none>")))
    const rows: string[][] = [shown.map((at) => columns[at].name.toUpperCase()), ...cells]
    const widths = shown.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
    return rows
      .map((row) =>
        row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("   ")
          .trimEnd(),
      )
      .join("\n")
  }

  async #startApi(): Promise<void> {
    this.#spawn("kube-apiserver", this.#command)
    const isReady = async () => {
      const ended = [...this.#processes].find(([, { exitCode }]) => exitCode !== null)
      if (ended) return "ended"
      return (await ask(this, "GET", "/readyz")).status === 200 && (await hasSystemNamespaces(this))
    }
    if ((await waitFor(isReady, "the API server to be ready", startMs)) !== "ended") return
    throw new Error(`The API server did not start:\n${await this.log()}`)
  }

  /** The last lines that it has logged. */
  async log(): Promise<string> {
    const text = await Bun.file(this.#directory.join("kube-apiserver.log")).text()
    return text.slice(-5000)
  }

  #spawn(name: string, command: readonly string[]): void {
    const log = Bun.file(this.#directory.join(`${name}.log`))
    const env = { ...programEnv, HOME: this.#directory.path }
    const inside = this.#namespace ? ["nsenter", `--net=${this.#namespace.path}`, "--"] : []
    const program = Bun.spawn([...inside, ...command], {
      env,
      cwd: this.#directory.path,
      stdio: ["ignore", log, log],
    })
    this.#processes.set(name, program)
  }

  async #end(name: string): Promise<void> {
    const process = this.#processes.get(name)
    process?.kill("SIGKILL")
    await process?.exited
    this.#processes.delete(name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end("kube-apiserver")
    await this.#end("etcd")
    await this.#requests?.[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }
}

async function hasSystemNamespaces(api: ApiUnderTest): Promise<boolean> {
  const found = await Promise.all(
    ["default", "kube-system"].map((name) => ask(api, "GET", `/api/v1/namespaces/${name}`)),
  )
  return found.every(({ status }) => status === 200)
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, "127.0.0.1", resolve)
  await promise
  const address = server.address()
  const closed = Promise.withResolvers<void>()
  server.close(() => closed.resolve())
  await closed.promise
  return typeof address === "object" && address ? address.port : 0
}

const crds = await readManifests("deploy/cluster/crds.yaml")
/** The custom resources. */
// biome-ignore lint/suspicious/noExplicitAny: the file is ours
const customResources: readonly { plural: string }[] = crds.map(({ spec }: any) => ({ plural: spec.names.plural }))
