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
import type { NodeAttachment } from "../node/mod.ts"
import { askedMappings } from "../node/ports.ts"

/** A port of the host that leads to a container's. */
export interface Published {
  readonly hostPort: number
  readonly containerPort: number
}

/** One of the two containers between which is tested. */
export interface Container {
  readonly containerId: string
  readonly ifName: string
  readonly netns: Netns
  readonly result: Result
  readonly published: Published | undefined
}

/** The beginning of the IDs of a test's own containers; the number of its process follows. */
const PREFIX = "cni-test-"
/** The port of a server in a container of the test's own, where all are free. */
const SERVER_PORT = 8080

/** The first address of a family that a container has by its result, with its gateway. */
export function addressOf({ result }: Container, family: number) {
  const own = result.ips.flatMap(({ address, gateway }) => {
    const cidr = parseCidr(address)
    if (!cidr || familyOf(cidr.ip) !== family) return []
    return [{ ...cidr, gateway: gateway === undefined ? undefined : parseIp(gateway) }]
  })
  return own[0]
}

/** Whether a chain publishes ports. */
export function publishesPorts({ plugins }: Network): boolean {
  return plugins.some(({ raw: { capabilities } }) => {
    return typeof capabilities === "object" && capabilities !== null && "portMappings" in capabilities
  })
}

/**
 * Containers of the test's own, attached one after the other as `cni add` does; the last one publishes a port where the chain can. Taken back by
 * `detach`, also where an ADD has failed.
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

  /** Throws the error of the ADD. */
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
    // An interruption ends the ADD, and not what takes it back.
    const { signal: _, ...uninterrupted } = this.#runtime
    this.#undo.defer(() => delNetwork(uninterrupted, this.#network, attachment))
    const answer = await addNetwork(this.#runtime, this.#network, attachment)
    const result = decodeResult(answer as never, this.#network.cniVersion)
    const container = { ...attachment, netns, result, published }
    this.containers.push(container)
    return container
  }

  /** Detaches all of them. Goes on after errors, and throws them. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#undo.disposeAsync()
  }
}

/** An existing container of a network. Throws where the container, its result or its namespace does not exist. */
export function existingContainer(attachments: readonly NodeAttachment[], network: string, name: string): Container {
  const one = findAttachment(name, { network, ifName: undefined }, attachments)
  if (!one.result || !one.netns)
    throw new Error(`Cannot test container "${name}": no cache has its result and its network namespace`)
  const mapping = one.cached && askedMappings(one.cached).find(({ protocol, hostIp }) => protocol === "tcp" && !hostIp)
  return {
    containerId: one.containerId,
    ifName: one.ifName,
    netns: Netns.open(one.netns),
    result: one.result,
    published: mapping && { hostPort: mapping.hostPort, containerPort: mapping.containerPort },
  }
}

/** The port on which a server listens for the test, in a container of either sort. */
export function serverPort({ published }: Container): number {
  return published?.containerPort ?? SERVER_PORT
}

/** The attachments of earlier tests whose process was killed: their namespaces ended with it. */
export function leftoversOf(attachments: readonly NodeAttachment[]): NodeAttachment[] {
  return attachments.filter(({ containerId }) => {
    const [, pid] = /^cni-test-(\d+)-[0-9a-f]+-\d$/.exec(containerId) ?? []
    return pid !== undefined && !isRunning(pid)
  })
}

/** Whether a process is another run of this tool: numbers of processes are given again. */
function isRunning(pid: string): boolean {
  try {
    return readlink(`/proc/${pid}/exe`) === readlink("/proc/self/exe")
  } catch {
    return false // it has ended, or this user may not look at it
  }
}

/** Deletes what a test has left, by the configuration that its ADD had. Throws what `cni del` would say. */
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
