import { createServer } from "node:net"
import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { type Answer, adminToken, agentToken, askBy, type ClusterApi } from "../../agent/testing/api.ts"
import { RequestsFrom } from "../../agent/testing/requests-from.ts"
import { mustRun, type Namespace, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"

/**
 * The time limit of a start in milliseconds, before `scaleTimeout`. It allows for a busy machine; on an idle machine a
 * start takes some seconds.
 */
const START_MS = 180_000

/** The flags of an API server without kubelets and controllers. */
const aloneFlags: readonly string[] = [
  "--endpoint-reconciler-type=none",
  "--service-cluster-ip-range=10.96.0.0/24,fd00:96::/112",
  "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
]

/** The permissions of the agent, the same as in the manifests. */
const rights = [{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "watch"] }]

/**
 * A real kube-apiserver in a namespace, with Debian's etcd, TLS, tokens and RBAC. Disposal ends both programs. By
 * default the server runs without kubelet and controllers, and has an account for the agent.
 */
export class RealApiServer implements ClusterApi {
  readonly url: string
  readonly ca: string
  readonly #requests: RequestsFrom
  readonly #directory: TemporaryDirectory
  readonly #etcdUrl: string
  readonly #command: readonly string[]
  readonly #namespace: Namespace
  readonly #processes = new Map<string, Bun.Subprocess>()

  private constructor(
    namespace: Namespace,
    directory: TemporaryDirectory,
    { url, ca, etcdUrl, command }: { url: string; ca: string; etcdUrl: string; command: readonly string[] },
  ) {
    this.#namespace = namespace
    this.#requests = new RequestsFrom(namespace)
    this.#directory = directory
    this.url = url
    this.ca = ca
    this.#etcdUrl = etcdUrl
    this.#command = command
  }

  static async start(namespace: Namespace, address: string, flags = aloneFlags): Promise<RealApiServer> {
    const program = await kubernetesProgram("kube-apiserver")
    const directory = await TemporaryDirectory.createLocked("cni-kubernetes-run")
    await makeCertificates(directory.path, address)
    const account = directory.join("account.key")
    await mustRun(["openssl", "genrsa", "-out", account, "2048"])
    const user = 'system:serviceaccount:kube-system:cni-agent,2,"system:serviceaccounts,system:authenticated"'
    await Bun.write(directory.join("tokens.csv"), `${adminToken},admin,1,"system:masters"\n${agentToken},${user}\n`)
    const [port, etcdPort, peerPort] = [await freePort(), await freePort(), await freePort()]
    const [url, etcdUrl, peer] = [
      `https://${address}:${port}`,
      `http://127.0.0.1:${etcdPort}`,
      `http://127.0.0.1:${peerPort}`,
    ]
    const command = [
      program,
      `--etcd-servers=${etcdUrl}`,
      ...flags,
      ...[`--secure-port=${port}`, `--bind-address=${address}`, `--advertise-address=${address}`],
      ...[`--tls-cert-file=${directory.join("server.pem")}`, `--tls-private-key-file=${directory.join("server.key")}`],
      ...[`--token-auth-file=${directory.join("tokens.csv")}`, "--authorization-mode=RBAC"],
      ...["--service-account-issuer=https://kubernetes.default.svc", `--service-account-key-file=${account}`],
      `--service-account-signing-key-file=${account}`,
    ]
    const ca = await Bun.file(directory.join("ca.pem")).text()
    const server = new RealApiServer(namespace, directory, { url, ca, etcdUrl, command })
    try {
      server.#spawn("etcd", [
        "etcd",
        `--data-dir=${directory.join("etcd")}`,
        ...[`--listen-client-urls=${etcdUrl}`, `--advertise-client-urls=${etcdUrl}`, `--listen-peer-urls=${peer}`],
        ...[`--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`],
        ...["--log-level=warn", "--logger=zap"],
      ])
      await server.up()
      if (flags === aloneFlags) await server.#bindAgent()
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  ask(method: string, path: string, body?: object): Promise<Answer> {
    return askBy(this.#requests.send, `${this.url}${path}`, { method, body, ca: this.ca })
  }

  get caFile(): string {
    return this.#directory.join("ca.pem")
  }

  /** Kills the API server with SIGKILL. etcd continues to run. */
  async down(): Promise<void> {
    await this.#end("kube-apiserver")
  }

  async up(): Promise<void> {
    this.#spawn("kube-apiserver", this.#command)
    const isReady = async () => {
      const ended = [...this.#processes].find(([, { exitCode }]) => exitCode !== null)
      if (ended) return "ended"
      const ready = await this.ask("GET", "/readyz").catch(() => undefined)
      return ready?.status === 200
    }
    if ((await waitFor(isReady, "the API server to be ready", START_MS)) !== "ended") return
    throw new Error(`The API server did not start:\n${(await this.#log()).slice(-5000)}`)
  }

  /** Deletes the history of changes: compacts etcd and restarts the API server. */
  async forget(): Promise<void> {
    const { body } = await this.ask("GET", "/api/v1/namespaces")
    const revision = body.metadata.resourceVersion
    await this.down()
    const init = { method: "POST", body: JSON.stringify({ revision, physical: true }) }
    await this.#requests.send(`${this.#etcdUrl}/v3/kv/compaction`, init)
    await this.up()
  }

  async #bindAgent(): Promise<void> {
    const [apiVersion, name] = ["rbac.authorization.k8s.io/v1", "cni-agent"]
    const path = "/apis/rbac.authorization.k8s.io/v1"
    await this.ask("POST", `${path}/clusterroles`, {
      apiVersion,
      kind: "ClusterRole",
      metadata: { name },
      rules: rights,
    })
    await this.ask("POST", `${path}/clusterrolebindings`, {
      ...{ apiVersion, kind: "ClusterRoleBinding", metadata: { name } },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name, namespace: "kube-system" }],
    })
  }

  #log(): Promise<string> {
    return Bun.file(this.#directory.join("kube-apiserver.log")).text()
  }

  #spawn(name: string, command: readonly string[]): void {
    const log = Bun.file(this.#directory.join(`${name}.log`))
    const program = Bun.spawn([Bun.which("nsenter") ?? "nsenter", `--net=${this.#namespace.path}`, "--", ...command], {
      env: { ...programEnv, HOME: this.#directory.path },
      cwd: this.#directory.path,
      stdio: ["ignore", log, log],
    })
    this.#processes.set(name, program)
  }

  async #end(name: string): Promise<void> {
    const program = this.#processes.get(name)
    program?.kill("SIGKILL")
    await program?.exited
    this.#processes.delete(name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end("kube-apiserver")
    await this.#end("etcd")
    await this.#requests[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }
}

/** Creates a CA, `ca.pem`, and the server's certificate, `server.pem`, like `openssl req -x509`. */
async function makeCertificates(directory: string, address: string): Promise<void> {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
  const files = (name: string) => [
    "-keyout",
    `${directory}/${name}.key`,
    "-out",
    `${directory}/${name}.pem`,
    "-subj",
    `/CN=${name}`,
  ]
  await mustRun(["openssl", "req", "-x509", ...key, ...files("ca")])
  const signer = ["-CA", `${directory}/ca.pem`, "-CAkey", `${directory}/ca.key`]
  const extensions = [
    "basicConstraints=critical,CA:FALSE",
    "extendedKeyUsage=serverAuth",
    `subjectAltName=IP:${address},IP:10.96.0.1`,
  ]
  const added = extensions.flatMap((each) => ["-addext", each])
  await mustRun(["openssl", "req", "-x509", ...key, ...files("server"), ...signer, ...added])
}

/** Returns a port that was free a moment ago. */
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
