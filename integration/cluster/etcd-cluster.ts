import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { StoreConfig, TlsConfig } from "../../agent/mod.ts"
import { connect, HostNamespace, type Output, waitFor } from "../lab/mod.ts"
import { makeAuthority, makeCertificate } from "./certificates.ts"
import { EtcdMember, etcdDirectory, peerUrlOf, restoringProgram } from "./etcd-member.ts"

/** How a cluster is made. */
export interface EtcdOptions {
  /** How many members it has; default 3. */
  readonly members?: number
  /** The namespace whose bridge `lan` the members plug in to; by default one of its own. */
  readonly lan?: HostNamespace
  /** The first three numbers of the members' addresses; default "10.99.0". */
  readonly network?: string
  /** With certificates of clients and servers. */
  readonly tls?: boolean
  /** With the user `agent`, made by the lines of docs/cluster-stores.md: it may read and write below `/cni/` and nothing else. */
  readonly auth?: boolean
  /** More flags of each etcd. */
  readonly flags?: readonly string[]
}

export const agentPassword = "swordfish"

/**
 * A real etcd, that of Debian's `etcd-server` or another: each member in a network namespace of its own, with its data on a tmpfs. The first is
 * 10.99.0.1. Needs root.
 * @example
 * await using etcd = await EtcdCluster.start({ members: 3 })
 * await (await etcd.leader()).kill()
 */
export class EtcdCluster implements AsyncDisposable {
  readonly members: readonly EtcdMember[]
  /** Where clients are: it has the bridge `lan`, and the address 10.99.0.254 on it. */
  readonly lan: HostNamespace
  /** What the agent's configuration says of this store; its files are on the lan's host, and can be read from all of the machine by `lan.file`. */
  readonly storeConfig: Extract<StoreConfig, { type: "etcd" }>
  readonly #ownsLan: boolean
  readonly #tls: Required<TlsConfig> | undefined

  private constructor(
    lan: HostNamespace,
    ownsLan: boolean,
    members: readonly EtcdMember[],
    tls: Tls | undefined,
    auth: boolean,
  ) {
    this.lan = lan
    this.members = members
    this.#ownsLan = ownsLan
    this.#tls = tls?.client
    const user = auth ? { username: "agent", passwordFile: lan.file(`${etcdDirectory}/password`) } : {}
    const endpoints = members.map(({ endpoint }) => endpoint)
    const client = tls && { tls: filesFrom(lan, tls.client) }
    this.storeConfig = { type: "etcd", endpoints, ...client, ...user }
  }

  /** Starts a cluster, and waits until it has a leader. */
  static async start(options: EtcdOptions = {}): Promise<EtcdCluster> {
    const { members: count = 3, network = "10.99.0", tls: withTls = false, auth = false, flags = [] } = options
    const lan = options.lan ?? (await HostNamespace.create("lan"))
    try {
      await addBridge(lan, `${network}.254/24`)
      await mkdir(lan.file(etcdDirectory), { recursive: true })
      const numbers = Array.from({ length: count }, (_, at) => at + 1)
      const addresses = numbers.map((number) => `${network}.${number}`)
      const tls = withTls ? await makeTls(lan, addresses) : undefined
      const initialCluster = numbers.map((number) => `etcd${number}=${peerUrlOf(`${network}.${number}`)}`).join()
      const members = numbers.map(async (number) => {
        const address = `${network}.${number}`
        const namespace = await lan.addContainer(`etcd${number}`)
        await namespace.exec("ip", ["link", "set", "lo", "up"])
        const end = { namespace, link: "eth0", addresses: [`${address}/24`] }
        await connect({ namespace: lan, link: `etcd${number}` }, end)
        await lan.exec("ip", ["link", "set", `etcd${number}`, "master", "lan"])
        const own = {
          name: `etcd${number}`,
          address,
          initialCluster,
          token: "first",
          flags,
          ...(tls && { tls: tls.server }),
        }
        return new EtcdMember(lan, namespace, own)
      })
      const cluster = new EtcdCluster(lan, options.lan === undefined, await Promise.all(members), tls, auth)
      await Promise.all(cluster.members.map((member) => member.start()))
      await cluster.leader()
      if (auth) await cluster.#enableAuth()
      return cluster
    } catch (error) {
      if (options.lan === undefined) await lan[Symbol.asyncDispose]()
      throw error
    }
  }

  get endpoints(): readonly string[] {
    return this.storeConfig.endpoints
  }

  /** Runs etcdctl(1), as root where there is authentication. */
  etcdctl(...args: string[]): Promise<Output> {
    return this.etcdctlOf(this.endpoints, ...args)
  }

  /** The same of some of the members. */
  etcdctlOf(endpoints: readonly string[], ...args: string[]): Promise<Output> {
    return this.lan.exec("etcdctl", this.#etcdctlArgs(endpoints, args))
  }

  #etcdctlArgs(endpoints: readonly string[], args: readonly string[]): string[] {
    const tls = this.#tls ? ["--cacert", this.#tls.ca, "--cert", this.#tls.certificate, "--key", this.#tls.key] : []
    const user = this.#isAuthEnabled ? ["--user", `root:${agentPassword}`] : []
    return ["--command-timeout", "20s", "--endpoints", endpoints.join(), ...tls, ...user, ...args]
  }

  #isAuthEnabled = false

  /** The member that leads. Waits until there is one. */
  async leader(): Promise<EtcdMember> {
    return waitFor(async () => {
      const running = this.members.filter((member) => member.pid !== undefined)
      // One line each: endpoint, member, version, size, whether it leads, …
      const args = ["--command-timeout", "2s", "endpoint", "status", "--write-out", "simple"]
      const { stdout } = await this.lan.tryExec(
        "etcdctl",
        this.#etcdctlArgs(
          running.map(({ endpoint }) => endpoint),
          args,
        ),
      )
      const leading = stdout.split("\n").find((line) => line.split(", ")[4] === "true")
      return running.find(({ endpoint }) => leading?.startsWith(`${endpoint},`))
    }, "a leader of etcd")
  }

  /** Saves what the store has now, to go to `restore`. */
  async snapshot(): Promise<string> {
    const file = `${etcdDirectory}/snapshot-${crypto.randomUUID()}.db`
    await this.lan.exec("etcdctl", this.#etcdctlArgs(this.endpoints.slice(0, 1), ["snapshot", "save", file]))
    return file
  }

  /** Makes all members anew from a snapshot. With another `token` than "first" the cluster has another id. */
  async restore(file: string, token = "first"): Promise<void> {
    const initialCluster = this.members.map(({ name, peerUrl }) => `${name}=${peerUrl}`).join()
    for (const member of this.members) await member.kill()
    for (const member of this.members) {
      await member.forget()
      const own = [
        "--name",
        member.name,
        "--initial-advertise-peer-urls",
        member.peerUrl,
        "--data-dir",
        member.directory,
      ]
      const cluster = ["--initial-cluster", initialCluster, "--initial-cluster-token", token]
      await this.lan.exec(restoringProgram, ["snapshot", "restore", file, ...own, ...cluster])
    }
    await Promise.all(this.members.map((member) => member.start(token)))
    await this.leader()
  }

  /** Enables users by the lines of docs/cluster-stores.md. */
  async #enableAuth(): Promise<void> {
    await Bun.write(this.lan.file(`${etcdDirectory}/password`), `${agentPassword}\n`)
    const page = await Bun.file(join(import.meta.dir, "../../docs/cluster-stores.md")).text()
    const lines = [...page.matchAll(/^etcdctl (.*)$/gm)].map(([, line = ""]) => line)
    for (const line of lines)
      await this.etcdctl(...line.replace(/ROOT-PASSWORD|AGENT-PASSWORD/, agentPassword).split(" "))
    this.#isAuthEnabled = true
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.members) await member.kill()
    if (this.#ownsLan) await this.lan[Symbol.asyncDispose]()
    else for (const { namespace } of this.members) await this.lan.removeContainer(namespace)
  }
}

/** Gives a namespace the bridge `lan` with an address, where it has none yet. */
async function addBridge(lan: HostNamespace, address: string): Promise<void> {
  if ((await lan.tryExec("ip", ["link", "show", "lan"])).exitCode !== 0)
    await lan.exec("ip", ["link", "add", "lan", "type", "bridge"])
  await lan.tryExec("ip", ["address", "add", address, "dev", "lan"])
  await lan.exec("ip", ["link", "set", "lan", "up"])
}

interface Tls {
  readonly server: Required<TlsConfig>
  readonly client: Required<TlsConfig>
}

/** Certificates for members and clients. */
async function makeTls(lan: HostNamespace, addresses: readonly string[]): Promise<Tls> {
  const directory = `${etcdDirectory}/tls`
  const outside = lan.file(directory)
  await mkdir(outside, { recursive: true })
  const authority = await makeAuthority(outside)
  await makeCertificate(outside, "server", authority, addresses)
  await makeCertificate(outside, "client", authority)
  const files = (name: string) => ({
    ca: `${directory}/ca.pem`,
    certificate: `${directory}/${name}.pem`,
    key: `${directory}/${name}.key`,
  })
  return { server: files("server"), client: files("client") }
}

/** The paths under which programs outside of the lan's mount namespace see these files. */
function filesFrom(lan: HostNamespace, { ca, certificate, key }: Required<TlsConfig>): Required<TlsConfig> {
  return { ca: lan.file(ca), certificate: lan.file(certificate), key: lan.file(key) }
}
