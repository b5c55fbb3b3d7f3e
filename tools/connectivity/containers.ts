import { processId, randomHex, readlink } from "../../pkg/libc/mod.ts"
import {
  type Attachment,
  addNetwork,
  delNetwork,
  loadNetwork,
  type Network,
  type Runtime,
} from "../../pkg/libcni/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { decodeResult, familyOf, parseCidr, parseIp, type Result } from "../../pkg/types/mod.ts"
import { findAttachment } from "../containers.ts"
import { heldPath, makeContainerNamespace } from "../namespace.ts"
import { askedMappings, type NodeAttachment } from "../node/mod.ts"

export interface Published {
  readonly hostPort: number
  readonly containerPort: number
}

/** One of the two containers of a test. */
export interface Container {
  readonly containerId: string
  readonly ifName: string
  readonly netns: Netns
  readonly result: Result
  readonly published: Published | undefined
}

/** The prefix of the IDs of the test's own containers, before the ID of the test's process. */
const PREFIX = "cni-test-"
/** The server's port in one of the test's own containers, in which all ports are free. */
const SERVER_PORT = 8080

/** Returns the first address of a family in ADD's result, with its gateway. */
export function addressOf({ result }: Container, family: number) {
  const own = result.ips.flatMap(({ address, gateway }) => {
    const cidr = parseCidr(address)
    if (!cidr || familyOf(cidr.ip) !== family) return []
    return [{ ...cidr, gateway: gateway === undefined ? undefined : parseIp(gateway) }]
  })
  return own[0]
}

export function publishesPorts({ plugins }: Network): boolean {
  return plugins.some(({ raw: { capabilities } }) => {
    return typeof capabilities === "object" && capabilities !== null && "portMappings" in capabilities
  })
}

/**
 * Containers that the test attaches one after the other, like `cni add`. The last one publishes a port if the network
 * supports it. Disposal detaches all of them, also after a failed ADD.
 */
export class OwnContainers implements AsyncDisposable {
  readonly containers: Container[] = []
  readonly #runtime: Runtime
  readonly #network: Network
  readonly #name = `${PREFIX}${processId()}-${randomHex(4)}`
  readonly #undo = new AsyncDisposableStack()

  constructor(runtime: Runtime, network: Network) {
    this.#runtime = runtime
    this.#network = network
  }

  /** Attaches a container. Throws the error of ADD. */
  async attach(hostPort: number | undefined): Promise<Container> {
    const netns = this.#undo.use(makeContainerNamespace())
    const published = hostPort === undefined ? undefined : { hostPort, containerPort: SERVER_PORT }
    const attachment: Attachment = {
      containerId: `${this.#name}-${this.containers.length + 1}`,
      netns: heldPath(netns),
      ifName: "eth0",
      args: [],
      capabilityArgs: published ? { portMappings: [{ ...published, protocol: "tcp" }] } : {},
    }
    // A signal ends the ADD, but not the cleanup.
    const { signal: _, ...uninterrupted } = this.#runtime
    this.#undo.defer(() => delNetwork(uninterrupted, this.#network, attachment))
    const answer = await addNetwork(this.#runtime, this.#network, attachment)
    const result = decodeResult(answer as never, this.#network.cniVersion)
    const container = { ...attachment, netns, result, published }
    this.containers.push(container)
    return container
  }

  /** Detaches all containers. Continues after errors, and throws the errors at the end. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#undo.disposeAsync()
  }
}

/** Returns an existing container of a network. Throws if the container, its result or its namespace does not exist. */
export function existingContainer(attachments: readonly NodeAttachment[], network: string, name: string): Container {
  const one = findAttachment(name, { network, ifName: undefined }, attachments)
  if (!one.result || !one.netns)
    throw new Error(`Cannot test container "${name}": the cache lacks its result or its network namespace`)
  const mapping = one.cached && askedMappings(one.cached).find(({ protocol, hostIp }) => protocol === "tcp" && !hostIp)
  return {
    containerId: one.containerId,
    ifName: one.ifName,
    netns: Netns.open(one.netns),
    result: one.result,
    published: mapping && { hostPort: mapping.hostPort, containerPort: mapping.containerPort },
  }
}

export function serverPort({ published }: Container): number {
  return published?.containerPort ?? SERVER_PORT
}

/** Returns the attachments of killed tests. The kernel deleted their namespaces with the process. */
export function leftoversOf(attachments: readonly NodeAttachment[]): NodeAttachment[] {
  return attachments.filter(({ containerId }) => {
    const [, pid] = /^cni-test-(\d+)-[0-9a-f]+-\d$/.exec(containerId) ?? []
    return pid !== undefined && !isRunning(pid)
  })
}

/** Reports whether a process runs this tool. Compares executables, because the kernel reuses process IDs. */
function isRunning(pid: string): boolean {
  try {
    return readlink(`/proc/${pid}/exe`) === readlink("/proc/self/exe")
  } catch {
    return false // the process ended, or this user may not read it
  }
}

/** Deletes an attachment of an earlier test with ADD's configuration. Throws the errors of `cni del`. */
export async function deleteLeftover(
  runtime: Runtime,
  confDir: string,
  { network, containerId, ifName, cached }: NodeAttachment,
): Promise<void> {
  const attachment: Attachment = {
    containerId,
    ifName: ifName || "eth0",
    netns: cached?.netns ?? "",
    args: [],
    capabilityArgs: (cached?.capabilityArgs ?? {}) as Attachment["capabilityArgs"],
  }
  await delNetwork(
    { ...runtime, cacheDir: cached?.cacheDir ?? runtime.cacheDir },
    loadNetwork(confDir, network),
    attachment,
  )
}
