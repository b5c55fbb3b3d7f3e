import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { type HostNamespace, mustRun, programEnv, TemporaryDirectory, waitFor } from "../../lab/mod.ts"

/** How long a start may take, before patience: some seconds on an idle machine. */
const startMs = 180_000
const token = "admin-token"
const [port, etcdPort, peerPort] = [6443, 2379, 2380]
const url = `https://127.0.0.1:${port}`

/** A real kube-apiserver with Debian's etcd on a host's own loopback, for kube-proxy: one account, which may do all; no kubelet, no controllers. */
export class ProxyApiServer implements AsyncDisposable {
  /** For programs in the host's namespace. */
  readonly kubeconfig = {
    "current-context": "test",
    contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
    clusters: [{ name: "test", cluster: { server: url, "insecure-skip-tls-verify": true } }],
    users: [{ name: "admin", user: { token } }],
  }
  readonly #host: HostNamespace
  readonly #directory: TemporaryDirectory
  readonly #processes: Bun.Subprocess[] = []

  private constructor(host: HostNamespace, directory: TemporaryDirectory) {
    this.#host = host
    this.#directory = directory
  }

  static async start(host: HostNamespace): Promise<ProxyApiServer> {
    const program = await kubernetesProgram("kube-apiserver")
    const directory = await TemporaryDirectory.createLocked("cni-proxy-api")
    const account = directory.join("account.key")
    await mustRun(["openssl", "genrsa", "-out", account, "2048"])
    await Bun.write(directory.join("tokens.csv"), `${token},admin,1,"system:masters"\n`)
    const [etcd, peer] = [`http://127.0.0.1:${etcdPort}`, `http://127.0.0.1:${peerPort}`]
    const server = new ProxyApiServer(host, directory)
    server.#spawn("etcd", [
      ...["etcd", `--data-dir=${directory.join("etcd")}`, "--log-level=warn", "--logger=zap"],
      ...[`--listen-client-urls=${etcd}`, `--advertise-client-urls=${etcd}`, `--listen-peer-urls=${peer}`],
      ...[`--initial-advertise-peer-urls=${peer}`, `--initial-cluster=default=${peer}`],
    ])
    server.#spawn("kube-apiserver", [
      ...[program, `--etcd-servers=${etcd}`, "--endpoint-reconciler-type=none"],
      "--service-cluster-ip-range=10.96.0.0/24,fd00:96::/112",
      ...[`--secure-port=${port}`, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"],
      ...[`--cert-dir=${directory.join("certificates")}`, `--token-auth-file=${directory.join("tokens.csv")}`],
      ...["--service-account-issuer=https://kubernetes.default.svc", `--service-account-key-file=${account}`],
      ...[`--service-account-signing-key-file=${account}`, "--disable-admission-plugins=ServiceAccount"],
    ])
    try {
      await waitFor(() => server.#isReady(), "the API server to be ready", startMs)
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  /** A request that has to succeed; returns the object. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the API
  async request(method: string, path: string, body?: object): Promise<any> {
    const headers = [`authorization: Bearer ${token}`, "content-type: application/json"].flatMap((each) => ["-H", each])
    const args = ["-sk", "--fail-with-body", "-X", method, ...headers, ...(body ? ["-d", "@-"] : []), `${url}${path}`]
    const { stdout } = await this.#host.exec("curl", args, body ? { input: JSON.stringify(body) } : {})
    return JSON.parse(stdout)
  }

  async #isReady(): Promise<boolean> {
    if (this.#processes.some(({ exitCode }) => exitCode !== null)) {
      throw new Error(
        `The API server did not start:\n${(await Bun.file(this.#directory.join("kube-apiserver.log")).text()).slice(-4000)}`,
      )
    }
    try {
      await this.request("GET", "/api/v1/namespaces/default")
      return true
    } catch {
      return false
    }
  }

  #spawn(name: string, command: readonly string[]): void {
    const log = Bun.file(this.#directory.join(`${name}.log`))
    const env = { ...programEnv, HOME: this.#directory.path }
    const inside = ["nsenter", `--net=${this.#host.path}`, "--", ...command]
    this.#processes.push(Bun.spawn(inside, { env, cwd: this.#directory.path, stdio: ["ignore", log, log] }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes.reverse()) {
      process.kill("SIGKILL")
      await process.exited
    }
    await this.#directory[Symbol.asyncDispose]()
  }
}
