import { type Attachment, checkEachPlugin, type NetworkPlugin } from "../../pkg/libcni/mod.ts"
import { decodeResult, member } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  attachmentFlags,
  type Command,
  FOUND_FAULTS,
  Found,
  netnsPath,
  networkOf,
  placesOf,
  print,
  runtimeOf,
  text,
  word,
} from "../command.ts"
import { asFound, containerHelp, findAttachment, readAttachments, selectionOf } from "../containers.ts"
import { attachmentOf, type Terminal } from "../environment.ts"
import { type ScreenSize, tinted, wrapped } from "../screen.ts"
import { compareGateways, compareRules, compareWithKernel, type Difference } from "./compare.ts"

export const diffCommand: Command = {
  summary: "Show the differences between what ADD made and what exists now",
  words: ["NETWORK", "CONTAINER"],
  flags: attachmentFlags,
  help: `${containerHelp}

Compares the cached result of ADD with all interfaces, MACs, MTUs, addresses and routes. Then it runs CHECK of every plugin, even if one
fails, for rules, leases and settings. Nothing is changed.

Exit code 0: no difference. ${FOUND_FAULTS}: a difference. 1: the comparison failed.

Examples:
  cni diff mynet demo
  cni diff mynet shop/web-0
  cni diff mynet /proc/4242/ns/net --container-id 4e5f6a --json`,
  async run(args, terminal) {
    const runtime = runtimeOf(args, terminal)
    const network = networkOf(word(args, 0), args, terminal)
    const attachment = attachmentIn(network.name, args, terminal)
    const { answers, result, added } = await checkEachPlugin(runtime, network, attachment)
    const seen: Difference[] = [
      ...compareWithKernel(decodeResult(result, added.network.cniVersion), added.attachment.netns),
      ...(added.network.plugins.some(hasGateway)
        ? compareGateways(decodeResult(result, added.network.cniVersion))
        : []),
      ...compareRules(added.network.plugins, network.name, added.attachment),
    ]
    const differences: Difference[] = [
      ...seen,
      ...answers.flatMap(({ type, error }) => {
        if (error === undefined) return []
        const [, what = error.message, expected = "", found = ""] =
          /^(?:Check of )?(.*?)(?: failed)?: expected (.*)[,;] found (.*)$/s.exec(error.message) ?? []
        if (seen.some((one) => isSameFault(one, what, expected))) return []
        return [{ what: `${type}: ${what}`, expected, found: found || (error.details ?? "") }]
      }),
    ]
    const { containerId, ifName, netns } = attachment
    print(args, terminal, {
      json: () => ({ network: network.name, containerId, ifName, differences }),
      text: (screen) =>
        differences.map((difference) => asText(difference, screen)).join("\n") ||
        `${ifName} in ${netns} is unchanged since ADD\n`,
    })
    if (differences.length > 0) throw new Found(FOUND_FAULTS)
  },
}

function attachmentIn(network: string, args: Arguments, terminal: Terminal): Attachment {
  const [name, containerId, ifName] = [word(args, 1), text(args, "container-id"), text(args, "ifname")]
  const meant = attachmentOf(terminal.env, netnsPath(name), { containerId, ifName })
  if (containerId !== undefined) return meant
  const { attachments } = readAttachments(placesOf(args, terminal))
  return asFound(meant, findAttachment(name, selectionOf(network, args, terminal), attachments))
}

/** Reports whether a plugin's message reports a difference that the comparison with the kernel has already found. */
function isSameFault(seen: Difference, what: string, expected: string): boolean {
  if (what.startsWith("addresses of ")) return addressOf(seen.expected) === addressOf(expected)
  if (what === "routes") return seen.what === `route ${routeName(expected)}` // "192.0.2.0/24 via …" is one of them
  return seen.what === what.replaceAll('"', "")
}

/** Returns the destination of a route in the form that `compareWithKernel` uses. */
function routeName(route: string): string {
  const [dst = ""] = route.split(" ")
  return /^(0\.0\.0\.0|::)\/0$/.test(dst) ? "default" : dst
}

function addressOf(cidr: string): string {
  return cidr.split("/")[0] ?? ""
}

/** Reports whether a plugin assigns gateway addresses to the host. */
function hasGateway({ raw }: NetworkPlugin): boolean {
  return member(raw, "isGateway") === true || member(raw, "isDefaultGateway") === true
}

/** Formats a difference like diff(1): "-" for ADD's result, "+" for the current state. */
function asText({ what, expected, found }: Difference, screen: ScreenSize): string {
  const line = (mark: string, text: string) => (text === "" ? "" : wrapped(text, screen, "  ").replace(/^ /, mark))
  return `${tinted(what, "strong", screen)}\n${line("-", expected)}${line("+", found)}`
}
