import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Network, networkNames, type Runtime } from "../../pkg/libcni/mod.ts"
import { FAMILIES } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  networkOf,
  nodeFlags,
  placesOf,
  print,
  readSeconds,
  runtimeFlags,
  runtimeOf,
  text,
  UsageError,
  word,
} from "../command.ts"
import type { Terminal } from "../environment.ts"
import { attachmentsOf, type NodeAttachment, readNode } from "../node/mod.ts"
import { hanging, type ScreenSize, type Tone, tinted } from "../screen.ts"
import { parseDestination } from "../trace/mod.ts"
import {
  type Container,
  deleteLeftover,
  existingContainer,
  leftoversOf,
  OwnContainers,
  publishesPorts,
} from "./containers.ts"
import { readsStops } from "./explain.ts"
import { type Finding, runProbes } from "./run.ts"
import { freePort, type Wishes, whyIsolated } from "./scene.ts"

/** The timeout of each answer in seconds, unless `--wait` sets it. */
const PATIENCE_S = 2

export const testCommand: Command = {
  summary: "Send packets through a network, and show which ones arrive",
  words: ["[NETWORK]"],
  needsRoot: true,
  flags: {
    containers: {
      type: "string",
      value: "CONTAINERS",
      help: "use two existing containers, A,B, named as for cni diff",
    },
    outside: {
      type: "string",
      value: "ADDRESS[:PORT]",
      help: "the address outside (default: the host's default gateway)",
    },
    name: { type: "string", value: "NAME", help: "name to look up at the DNS servers (default: the root)" },
    wait: { type: "string", value: "SECONDS", help: `how long to wait for each answer (default ${PATIENCE_S})` },
    timeout: runtimeFlags.timeout,
    ...nodeFlags,
  },
  help: `Attaches two containers to a network, as "cni add" does, and sends packets: from one to the other, to the gateway, to the host and
outside, to a published port of the second one, to DNS servers, and with the longest packets that the interface allows. Without NETWORK
it takes the first network of --conf-dir. IPv4 and IPv6 are tried where the network has them. The containers are network namespaces
without a process. The command removes everything at the end, even after an error or Ctrl-C; the next test cleans up after a killed one.

Exit code 0: all packets arrive. 3: some packets are lost; a line says why, and where "cni trace" locates the loss.

Examples:
  cni test
  cni test pods --outside 192.0.2.1:443
  cni test pods --containers shop/web-0,shop/db-0 --json`,
  async run(args, terminal) {
    const places = placesOf(args, terminal)
    const [first] = networkNames(places.confDir)
    const network = networkOf(word(args, 0) || (first ?? ""), args, terminal)
    const wishes = { ...wishesOf(args, terminal), isolated: whyIsolated(network) }
    const runtime = runtimeOf(args, terminal)
    const named = text(args, "containers")?.split(",")
    const attachments = attachmentsOf(readNode(places))
    const test = async (...pair: readonly [Container, Container]): Promise<Tested> => {
      return { pair, findings: await runProbes(pair, wishes, () => readsStops(places, network.name)) }
    }
    const tested = named
      ? await testExisting(attachments, network.name, named, test)
      : await testOwn(attachments, { runtime, network, confDir: places.confDir }, test)
    print(args, terminal, {
      json: () => asJson(network.name, tested),
      text: (screen) => report(network.name, tested, screen),
    })
    if (tested.findings.some(({ outcome }) => outcome === "failed")) throw new Found(FOUND_FAULTS)
  },
}

interface Tested {
  readonly pair: readonly [Container, Container]
  readonly findings: readonly Finding[]
}

type Test = (a: Container, b: Container) => Promise<Tested>

async function testExisting(
  attachments: readonly NodeAttachment[],
  network: string,
  names: readonly string[],
  test: Test,
): Promise<Tested> {
  const [one, other, ...more] = names
  if (!one || !other || more.length > 0) throw new UsageError("--containers needs two of them: A,B")
  const [a, b] = [existingContainer(attachments, network, one), existingContainer(attachments, network, other)]
  using _a = a.netns
  using _b = b.netns
  return await test(a, b)
}

/** Deletes containers that earlier tests left, then attaches containers and sends probes between them. */
async function testOwn(
  attachments: readonly NodeAttachment[],
  { runtime, network, confDir }: { runtime: Runtime; network: Network; confDir: string },
  test: Test,
): Promise<Tested> {
  runtime.signal?.throwIfAborted() // from here on, SIGTERM ends the test but not the cleanup
  for (const left of leftoversOf(attachments)) {
    await deleteLeftover(runtime, confDir, left)
    const name = `${left.network}/${left.containerId}/${left.ifName}`
    runtime.stderr(encodeUtf8(`Deleted leftovers of an earlier test: ${name}\n`))
  }
  const taken = new Set(attachments.flatMap(({ ports }) => ports.map((port) => Number(/(\d+)→/.exec(port)?.[1]))))
  await using own = new OwnContainers(runtime, network)
  const a = await own.attach(undefined)
  const b = await own.attach(publishesPorts(network) ? freePort(taken) : undefined)
  return await test(a, b)
}

function wishesOf(args: Arguments, { signal }: Terminal): Omit<Wishes, "isolated"> {
  const outside = text(args, "outside")
  return {
    patience: { timeoutMs: readSeconds("--wait", text(args, "wait") ?? String(PATIENCE_S)), signal },
    outside: outside === undefined ? undefined : parseDestination(outside, false, "--outside"),
    name: text(args, "name") ?? ".",
  }
}

function asJson(network: string, { pair, findings }: Tested) {
  return {
    network,
    containers: pair.map(({ containerId, ifName, result }) => ({
      containerId,
      ifName,
      addresses: result.ips.map(({ address }) => address),
    })),
    probes: findings.map((finding) => ({ ...finding })),
  }
}

const tones: Readonly<Record<Finding["outcome"], Tone>> = { ok: "good", failed: "bad", skipped: "quiet" }

function report(network: string, { pair, findings }: Tested, screen: ScreenSize): string {
  const [a, b] = pair.map(({ containerId, result }) => {
    return `${containerId} (${result.ips.map(({ address }) => address.split("/")[0]).join(", ") || "no address"})`
  })
  const hasBoth = FAMILIES.every((family) => findings.some(({ family: own }) => own === `ipv${family === 2 ? 4 : 6}`))
  const lines = findings.map(({ outcome, probe, family, to, reason, stops }) => {
    const name = `${probe}${hasBoth ? ` ${family}` : ""}`
    const said = [to, reason, stops === undefined ? undefined : `cni trace: ${stops}`]
    const text = hanging(said.filter((each) => each).join("; "), screen, 33)
    return `${tinted(outcome.padEnd(9), tones[outcome], screen)}${name.padEnd(24)}${text}`
  })
  const none = lines.length === 0 ? "skipped  all probes: the containers have no address\n" : ""
  return `${hanging(`network "${network}", from ${a} to ${b}`, screen, 0)}\n${lines.join("")}${none}`
}
