import {
  type Attachment,
  addNetwork,
  cachedAttachments,
  checkNetwork,
  delNetwork,
  type Network,
  type Runtime,
  statusNetwork,
} from "../../pkg/libcni/mod.ts"
import { decodeResult, type JsonObject } from "../../pkg/types/mod.ts"
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
import { attachmentOf, type Terminal } from "../../tools/environment.ts"
import { attachmentsOf, describeLostBridge, lostBridge, readNode, recordedNetwork } from "../../tools/node/mod.ts"
import { resultTable } from "../../tools/tables.ts"

const environmentHelp = `NETNS is a path, or a name from "ip netns list". Arguments for the plugins come from the environment:
  CNI_ARGS   K=V;K=V
  CAP_ARGS   a JSON object with a value for each capability`

/** `cni add` */
export const add: Command = {
  summary: "Attach a network namespace to a network",
  words: ["NETWORK", "NETNS"],
  flags: attachmentFlags,
  help: `${environmentHelp}

When a plugin of the chain fails, everything that the others made is undone.

Examples:
  cni add mynet demo
  cni add mynet /proc/4242/ns/net --ifname net1 --json
  CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}' cni add mynet demo`,
  async run(args, terminal) {
    const { runtime, network, attachment } = prepare(args, terminal)
    const result = await addNetwork(runtime, network, attachment, { undo: true })
    print(args, terminal, {
      json: () => result,
      text: (screen) => resultTable(decodeResult(result, network.cniVersion), screen),
    })
  },
}

/** `cni check` */
export const check: Command = {
  summary: "Ask the plugins whether an attachment is still as ADD made it",
  words: ["NETWORK", "NETNS"],
  flags: attachmentFlags,
  help: `${environmentHelp}

Exit code 0: it is unchanged. 1: it differs, and the message says how.

Example:
  cni check mynet demo`,
  async run(args, terminal) {
    const prepared = prepare(args, terminal)
    const { runtime, network, attachment } = prepared
    const asked = await checkNetwork(runtime, network, attachment)
    const found = asked ? " is as it was made" : ': nothing asked, the network has "disableCheck"'
    say(args, terminal, `${attachment.ifName} in ${attachment.netns}${found}`, { ...idOf(prepared), asked })
  },
}

/** `cni del` */
export const del: Command = {
  summary: "Detach a network namespace from a network",
  words: ["NETWORK", "NETNS"],
  flags: attachmentFlags,
  help: `${environmentHelp}
Without them, the arguments of "cni add" are used again. The network's configuration is that of "cni add", if it is cached.

Works also without the namespace, and a second time. Every plugin is run even when another one fails.

Example:
  cni del mynet demo`,
  async run(args, terminal) {
    const prepared = prepareDel(args, terminal)
    const { runtime, network, attachment } = prepared
    await delNetwork(runtime, network, attachment)
    const detached = `Detached ${attachment.ifName} in ${attachment.netns} from network "${network.name}"`
    say(args, terminal, detached, idOf(prepared))
  },
}

/** `cni status` */
export const status: Command = {
  summary: "Ask the plugins whether a network can take containers",
  words: ["NETWORK"],
  flags: { ...watchFlags, ...runtimeFlags },
  help: `Exit code 0: the next ADD can succeed. 1: it cannot, and the message says why. Needs a configuration of version 1.1.0 or newer.
A warning on stderr names running containers that have lost their bridge.

Example:
  cni status mynet`,
  async run(args, terminal) {
    const network = networkOf(word(args, 0), args, terminal)
    await statusNetwork(runtimeOf(args, terminal), network)
    const node = readNode(placesOf(args, terminal))
    const lost = attachmentsOf(node).flatMap((one) =>
      one.network === network.name ? (lostBridge(one, node) ?? []) : [],
    )
    const warnings = [...new Set(lost.map(describeLostBridge))].map((sentence) => `${sentence}: containers are cut off`)
    for (const warning of warnings) terminal.stderr(`Warning: ${warning}. "cni doctor ${network.name}" tells more\n`)
    say(args, terminal, `Network "${network.name}" is ready`, { network: network.name, ready: true, warnings })
  },
}

interface Prepared {
  readonly runtime: Runtime
  readonly network: Network
  readonly attachment: Attachment
}

function prepare(args: Arguments, terminal: Terminal): Prepared {
  const runtime = runtimeOf(args, terminal)
  const network = networkOf(word(args, 0), args, terminal)
  return { runtime, network, attachment: askedAttachment(args, terminal) }
}

function askedAttachment(args: Arguments, terminal: Terminal): Attachment {
  const named = { containerId: text(args, "container-id"), ifName: text(args, "ifname") }
  return attachmentOf(terminal.env, netnsPath(word(args, 1)), named)
}

/** As `prepare`, for DEL. A network whose file is gone, as after `cni install --uninstall`, is read from the record of its ADD. */
function prepareDel(args: Arguments, terminal: Terminal): Prepared {
  try {
    return prepare(args, terminal)
  } catch (error) {
    const [runtime, attachment, name] = [runtimeOf(args, terminal), askedAttachment(args, terminal), word(args, 0)]
    const cached = cachedAttachments(runtime.cacheDir, attachment.containerId).find(
      (one) => one.network === name && one.ifName === attachment.ifName,
    )
    const network = recordedNetwork(cached)
    if (network === undefined) throw error
    return { runtime, network, attachment }
  }
}

function idOf({ network, attachment: { containerId, ifName } }: Prepared): JsonObject {
  return { network: network.name, containerId, ifName }
}

/** Prints one sentence, or the same as JSON. */
function say(args: Arguments, terminal: Terminal, sentence: string, object: JsonObject): void {
  print(args, terminal, { json: () => object, text: () => `${sentence}\n` })
}
