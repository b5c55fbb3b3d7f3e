import { mkdir, readFile, rm } from "node:fs/promises"
import type { TlsConfig } from "../../agent/mod.ts"
import { type ContainerNamespace, type HostNamespace, programEnv, waitFor } from "../lab/mod.ts"

/** What a member of a cluster is started with. */
export interface MemberOptions {
  readonly name: string
  readonly address: string
  /** "etcd1=http://10.99.0.1:2380,…" */
  readonly initialCluster: string
  /** Tells clusters apart: their ids are made of it. */
  readonly token: string
  readonly tls?: Required<TlsConfig>
  readonly flags: readonly string[]
}

/** Where the members keep their data: on a tmpfs that goes with the lan's namespace. */
export const etcdDirectory = "/run/cni/etcd"

/** The directory of another etcd than Debian's, with `etcd` and `etcdutl`: `npm run test:cluster -- --etcd 3.6`. */
const otherPrograms = process.env.CNI_ETCD_PROGRAMS

/** What restores a snapshot: since etcd 3.6 that is no command of etcdctl. */
export const restoringProgram = otherPrograms ? `${otherPrograms}/etcdutl` : "etcdctl"

/** One etcd, in a network namespace of its own; its files are those of the lan. */
export class EtcdMember {
  readonly name: string
  readonly address: string
  /** "http://10.99.0.1:2379" */
  readonly endpoint: string
  /** Of its peers, for `--initial-cluster`. */
  readonly peerUrl: string
  readonly directory: string
  readonly namespace: ContainerNamespace
  readonly #lan: HostNamespace
  readonly #options: MemberOptions
  #process: Bun.Subprocess | undefined

  constructor(lan: HostNamespace, namespace: ContainerNamespace, options: MemberOptions) {
    this.#lan = lan
    this.namespace = namespace
    this.#options = options
    this.name = options.name
    this.address = options.address
    this.endpoint = `${options.tls ? "https" : "http"}://${options.address}:2379`
    this.peerUrl = peerUrlOf(options.address)
    this.directory = `${etcdDirectory}/${options.name}`
  }

  /** The process id while it runs. */
  get pid(): number | undefined {
    return this.#process?.exitCode === null && this.#process.signalCode === null ? this.#process.pid : undefined
  }

  /** Starts it, with the data that it has. `token` is that of a restored cluster. */
  async start(token = this.#options.token): Promise<void> {
    if (this.pid !== undefined) return
    await mkdir(this.#lan.file(etcdDirectory), { recursive: true })
    const { name, initialCluster, tls, flags } = this.#options
    const files = tls
      ? ["--cert-file", tls.certificate, "--key-file", tls.key, "--trusted-ca-file", tls.ca, "--client-cert-auth"]
      : []
    const urls = [
      ...["--listen-client-urls", this.endpoint, "--advertise-client-urls", this.endpoint],
      ...["--listen-peer-urls", this.peerUrl, "--initial-advertise-peer-urls", this.peerUrl],
    ]
    const cluster = ["--initial-cluster", initialCluster, "--initial-cluster-token", token]
    const log = ["--logger", "zap", "--log-level", "warn", "--log-outputs", `${etcdDirectory}/${name}.log`]
    const program = otherPrograms ? `${otherPrograms}/etcd` : "etcd"
    const etcd = [
      program,
      "--name",
      name,
      "--data-dir",
      this.directory,
      ...urls,
      ...cluster,
      ...files,
      ...log,
      ...flags,
    ]
    this.#process = Bun.spawn(this.#lan.commandLine(["nsenter", `--net=${this.namespace.path}`, "--", ...etcd]), {
      env: { ...programEnv },
      stdio: ["ignore", "ignore", "ignore"],
    })
  }

  /** Ends it by SIGKILL, as a power cut would, also while it stands still: it does nothing more. */
  async kill(): Promise<void> {
    this.#process?.kill("SIGKILL")
    await this.#process?.exited
    this.#process = undefined
  }

  /** Has it stand still, connections included (SIGSTOP). */
  async stop(): Promise<void> {
    const pid = this.pid
    if (pid === undefined) throw new Error(`${this.name} does not run`)
    process.kill(pid, "SIGSTOP")
    await waitFor(async () => /\) T /.test(await readFile(`/proc/${pid}/stat`, "utf8")), `${this.name} to stand still`)
  }

  /** Has it go on after `stop`. */
  continue(): void {
    this.#process?.kill("SIGCONT")
  }

  /** Removes its data. */
  async forget(): Promise<void> {
    await rm(this.#lan.file(this.directory), { recursive: true, force: true })
  }

  /** What it has logged. */
  log(): Promise<string> {
    return readFile(this.#lan.file(`${etcdDirectory}/${this.name}.log`), "utf8")
  }
}

export function peerUrlOf(address: string): string {
  return `http://${address}:2380`
}
