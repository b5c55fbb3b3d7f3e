import { addNetwork, delNetwork, type Network, parseNetworkList, type Runtime } from "../../pkg/libcni/mod.ts"
import { isJsonObject, type JsonObject, messageOf, ownerComment, printJson } from "../../pkg/types/mod.ts"
import { type Command, nodeFlags, placesOf, runtimeFlags, runtimeOf, wantsJson } from "../../tools/command.ts"
import { containerHelp, findContainer, readAttachments } from "../../tools/containers.ts"
import { listOfNetworks, networksOf } from "../../tools/known-networks.ts"
import { ipamOf, type NodeAttachment } from "../../tools/node/mod.ts"

export const reattach: Command = {
  summary: "Run DEL and ADD again with the same addresses: after a flush of rules, or when an interface was deleted",
  words: ["NETWORK|CONTAINER…"],
  flags: { timeout: runtimeFlags.timeout, ...nodeFlags },
  help: `${containerHelp}
NETWORK stands for all of its running containers, NETWORK/ID/IFNAME for one interface.

Runs DEL and ADD with the configuration, the arguments and the namespace of the first ADD, from the runtime's cache, and asks
host-local for the same addresses. The container keeps running; it has no network until its new interface is up.
The record stays in the cache: after a failure, or when this command was killed, run it again.

Exit code 1: an attachment could not be restored, and a message says which and why.

Examples:
  cni reattach pods
  cni reattach pods/0c1b2a394857/eth0`,
  async run(args, terminal) {
    const runtime = runtimeOf(args, terminal)
    const { node, attachments } = readAttachments(placesOf(args, terminal))
    const networks = networksOf(node, attachments)
    const chosen = new Set(args.words.flatMap((word) => chosenBy(word, attachments, networks)))
    const failures: string[] = []
    const done: string[] = []
    for (const one of chosen) {
      try {
        await makeAnew(one, runtime)
        done.push(ownerComment(one))
        if (!wantsJson(args)) terminal.stdout(`Attached ${ownerComment(one)} again\n`)
      } catch (error) {
        const reason = messageOf(error)
        failures.push(`Cannot attach "${ownerComment(one)}" again: ${reason}; run the command again`)
      }
    }
    if (wantsJson(args)) terminal.stdout(`${printJson({ attached: done })}\n`)
    if (failures.length > 0) throw new Error(failures.join("\n"))
  },
}

/**
 * Returns the attachments of a network, a container or NETWORK/ID/IFNAME. Throws if none of them can be re-attached.
 */
function chosenBy(word: string, attachments: readonly NodeAttachment[], networks: readonly string[]): NodeAttachment[] {
  const found = networks.includes(word)
    ? attachments.filter(({ network }) => network === word)
    : ofContainer(word, attachments, networks)
  const usable = found.filter(({ cached, isAlive }) => cached !== undefined && isAlive === true)
  if (usable.length > 0) return usable
  const reason = found.length === 0 ? "nothing is attached" : "its namespace does not exist, or the cache has no record"
  throw new Error(`Cannot attach "${word}" again: ${reason}`)
}

function ofContainer(
  word: string,
  attachments: readonly NodeAttachment[],
  networks: readonly string[],
): readonly NodeAttachment[] {
  const { attachments: found } = findContainer(
    word,
    attachments,
    `; no network has this name either, ${listOfNetworks(networks)}`,
  )
  const exact = found.filter((one) => ownerComment(one) === word)
  return exact.length > 0 ? exact : found
}

async function makeAnew(one: NodeAttachment, runtime: Runtime): Promise<void> {
  const { cached, addresses } = one
  if (cached === undefined) return
  const own = { ...runtime, cacheDir: cached.cacheDir ?? runtime.cacheDir }
  const network = parseNetworkList(cached.config)
  await delNetwork(own, network, cached, { keepRecord: true })
  await addNetwork(own, withAddresses(network, addresses), cached, { again: true })
}

/** Returns `network` with a request to host-local for `addresses`, because the cache does not contain the request. */
function withAddresses(network: Network, addresses: readonly string[]): Network {
  const ips = addresses.map((address) => address.split("/")[0] ?? "")
  const asking = (raw: JsonObject): JsonObject => {
    const args = isJsonObject(raw.args) ? raw.args : {}
    const cni = isJsonObject(args.cni) ? args.cni : {}
    return { ...raw, args: { ...args, cni: { ...cni, ips } } }
  }
  const plugins = network.plugins.map((plugin) =>
    ipamOf(plugin.raw)?.type === "host-local" ? { ...plugin, raw: asking(plugin.raw) } : plugin,
  )
  return { ...network, plugins }
}
