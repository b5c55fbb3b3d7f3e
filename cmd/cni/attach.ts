import {
  type Attachment,
  addNetwork,
  checkNetwork,
  delNetwork,
  type Network,
  type Runtime,
  statusNetwork,
} from "../../pkg/libcni/mod.ts"
import { decodeResult, type JsonObject, ownerComment } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  attachmentFlags,
  type Command,
  netnsPath,
  networkOf,
  placesOf,
  print,
  runtimeFlags,
  runtimeOf,
  text,
  watchFlags,
  word,
} from "../../tools/command.ts"
import {
  asFound,
  containerHelp,
  findAttachment,
  findContainer,
  readAttachments,
  selectionOf,
} from "../../tools/containers.ts"
import { attachmentOf, type Terminal } from "../../tools/environment.ts"
import { networksOf, requireNetwork } from "../../tools/known-networks.ts"
import {
  attachmentsOf,
  describeLostBridge,
  isNamespace,
  lostBridge,
  type NodeAttachment,
  type NodePlaces,
  readNode,
  recordedNetwork,
} from "../../tools/node/mod.ts"
import { resultTable } from "../../tools/tables.ts"

const environmentHelp = `${containerHelp}
With --container-id, CONTAINER is a network namespace, which need not exist for DEL. Arguments for the plugins come from the environment:
  CNI_ARGS   K=V;K=V
  CAP_ARGS   a JSON object with a value for each capability`

export const add: Command = {
  summary: "Attach a network namespace to a network",
  words: ["NETWORK", "CONTAINER"],
  flags: attachmentFlags,
  help: `${environmentHelp}

When a plugin of the chain fails, the changes of the other plugins are undone.

Examples:
  cni add mynet demo
  cni add mynet /proc/4242/ns/net --ifname net1 --json
  CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}' cni add mynet demo`,
  async run(args, terminal) {
    const [runtime, network] = [runtimeOf(args, terminal), networkOf(word(args, 0), args, terminal)]
    const attachment = newAttachment(args, terminal)
    const result = await addNetwork(runtime, network, attachment, { undo: true })
    print(args, terminal, {
      json: () => result,
      text: (screen) => resultTable(decodeResult(result, network.cniVersion), screen),
    })
  },
}

export const check: Command = {
  summary: "Check that an attachment is unchanged since ADD",
  words: ["NETWORK", "CONTAINER"],
  flags: attachmentFlags,
  help: `${environmentHelp}

Exit code 0: the attachment is unchanged. 1: it has changed, and the message names the difference.

Example:
  cni check mynet demo`,
  async run(args, terminal) {
    const network = networkOf(word(args, 0), args, terminal)
    const { runtime, attachment } = findAsked(args, terminal)
    const asked = await checkNetwork(runtime, network, attachment)
    const found = asked ? " is unchanged" : ': not checked, the network has "disableCheck"'
    say(args, terminal, `${placeOf(attachment)}${found}`, { ...idOf(network, attachment), asked })
  },
}

export const del: Command = {
  summary: "Detach a network namespace from a network",
  words: ["NETWORK", "CONTAINER"],
  flags: attachmentFlags,
  help: `${environmentHelp}
If neither is set, DEL uses the arguments of "cni add". It uses the network configuration of "cni add" too, if that is cached.

Every plugin runs, even if another one fails. A container that is not attached is an error. With --container-id, a second DEL succeeds,
as runtimes expect, and the message says that nothing was attached.

Example:
  cni del mynet demo`,
  async run(args, terminal) {
    const found = findAsked(args, terminal)
    const { runtime, attachment, known } = found
    const network = networkForDel(found, args, terminal)
    await delNetwork(runtime, network, attachment)
    const name = `network "${network.name}"`
    const sentence = known
      ? `Detached ${placeOf(attachment)} from ${name}`
      : `${placeOf(attachment)} was not attached to ${name}`
    say(args, terminal, sentence, { ...idOf(network, attachment), detached: known !== undefined })
  },
}

export const status: Command = {
  summary: "Check that a network can attach containers",
  words: ["NETWORK"],
  flags: { ...watchFlags, ...runtimeFlags },
  help: `Exit code 0: the next ADD can succeed. 1: it cannot, and the message says why. This needs a configuration of version 1.1.0 or newer.
A warning on stderr lists running containers whose bridge is missing.

Example:
  cni status mynet`,
  async run(args, terminal) {
    const network = networkOf(word(args, 0), args, terminal)
    await statusNetwork(runtimeOf(args, terminal), network)
    const node = readNode(placesOf(args, terminal))
    const lost = attachmentsOf(node).flatMap((one) =>
      one.network === network.name ? (lostBridge(one, node) ?? []) : [],
    )
    const warnings = [...new Set(lost.map(describeLostBridge))].map(
      (sentence) => `${sentence}: containers are disconnected`,
    )
    for (const warning of warnings)
      terminal.stderr(`Warning: ${warning}. "cni doctor ${network.name}" shows the details\n`)
    say(args, terminal, `Network "${network.name}" is ready`, { network: network.name, ready: true, warnings })
  },
}

function newAttachment(args: Arguments, terminal: Terminal): Attachment {
  const [name, containerId, ifName] = [word(args, 1), text(args, "container-id"), text(args, "ifname")]
  const path = netnsPath(name)
  if (containerId !== undefined || isNamespace(path)) return attachmentOf(terminal.env, path, { containerId, ifName })
  const { netns, attachments } = findContainer(name, readAttachments(placesOf(args, terminal)).attachments)
  if (netns === undefined) throw new Error(`Cannot attach container "${name}": its network namespace is not recorded`)
  return attachmentOf(terminal.env, netns, { containerId: attachments[0]?.containerId, ifName })
}

/** The attachment that the user named for CHECK or DEL. */
interface Asked {
  readonly runtime: Runtime
  readonly attachment: Attachment
  /** The attachment in the node's records. Undefined if `--container-id` names a container without records. */
  readonly known: NodeAttachment | undefined
}

/** Returns the attachment that the arguments name. Without `--container-id`, throws if no record has the attachment. */
function findAsked(args: Arguments, terminal: Terminal): Asked {
  const [network, name, containerId] = [word(args, 0), word(args, 1), text(args, "container-id")]
  const places = placesOf(args, terminal)
  const { node, attachments } = containerId === undefined ? readAttachments(places) : nodeOf(places)
  requireNetwork(network, networksOf(node, attachments, network))
  const asked = attachmentOf(terminal.env, netnsPath(name), { containerId, ifName: text(args, "ifname") })
  const known =
    containerId === undefined
      ? findAttachment(name, selectionOf(network, args, terminal), attachments)
      : attachments.find((one) => ownerComment(one) === ownerComment({ network, ...asked }))
  const runtime = runtimeOf(args, terminal)
  return {
    runtime: { ...runtime, cacheDir: known?.cached?.cacheDir ?? runtime.cacheDir },
    attachment: known && containerId === undefined ? asFound(asked, known) : asked,
    known,
  }
}

/** Returns the network from its file, or from ADD's record if `cni install --uninstall` removed the file. */
function networkForDel({ known }: Asked, args: Arguments, terminal: Terminal): Network {
  try {
    return networkOf(word(args, 0), args, terminal)
  } catch (error) {
    const network = recordedNetwork(known?.cached)
    if (network === undefined) throw error
    return network
  }
}

/** Reads the node without throwing, because DEL must continue without records. */
function nodeOf(places: NodePlaces) {
  const node = readNode(places, { hasRoutes: false })
  return { node, attachments: attachmentsOf(node) }
}

/** Returns the interface and namespace in words: "eth0 in /run/netns/demo". */
function placeOf({ ifName, netns, containerId }: Attachment): string {
  return netns === "" ? `${ifName} of container ${containerId}` : `${ifName} in ${netns}`
}

function idOf(network: Network, { containerId, ifName }: Attachment): JsonObject {
  return { network: network.name, containerId, ifName }
}

/** Prints the sentence, or the object as JSON if requested. */
function say(args: Arguments, terminal: Terminal, sentence: string, object: JsonObject): void {
  print(args, terminal, { json: () => object, text: () => `${sentence}\n` })
}
