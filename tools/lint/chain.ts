import { didYouMean } from "../../pkg/config/mod.ts"
import { compareVersions, newestVersion, supportedVersions } from "../../pkg/types/mod.ts"
import { capabilitiesOf, findPlugin, knownPlugins, reservedKeys } from "../configuration/mod.ts"
import { isOn, itemsAt, memberOf, nodeAt, textAt } from "./document.ts"
import type { Findings } from "./findings.ts"
import type { Entry, LintNetwork } from "./network.ts"
import { checkNoEffect } from "./no-effect.ts"
import { checkReach, checkSharedRange } from "./reach.ts"

export function checkChain(network: LintNetwork, findings: Findings): void {
  checkVersion(network, findings)
  checkOrder(network, findings)
  for (const entry of network.entries) {
    checkReserved(entry, findings)
    checkCapabilities(entry, findings)
    checkOneForAll(entry, findings)
    checkNoEffect(entry, findings)
    checkSharedRange(entry, findings)
  }
  checkReach(network, findings)
}

/** Returns the newest version to recommend, or "" if unknown: other suites' plugins and Multus may end at 1.0.0. */
function adviceOn({ source, entries }: LintNetwork): { newest: string; how: string } {
  const foreign = entries.flatMap(foreignPlugins)[0]
  if (foreign !== undefined)
    return { newest: "", how: `the newest version that "${foreign}" supports, at most "1.0.0"` }
  if (source.attachment !== undefined) return { newest: "", how: '"1.0.0" for Multus 4, "0.4.0" for Multus 3' }
  return { newest: newestVersion, how: `"1.0.0", or ${newestIfSpoken}` }
}

const newestIfSpoken = `"${newestVersion}" if the runtime has libcni 1.2, as containerd 2 has`

/** Returns the plugins of other suites that an entry runs: the plugin itself, its IPAM plugin, or its delegate. */
function foreignPlugins({ node, known, type }: Entry): string[] {
  const others = [
    ["ipam", "type"],
    ["delegate", "type"],
  ].map((path) => textAt(node, path) ?? "")
  const names = [known === undefined ? type : "", ...others]
  return names.filter((name) => name !== "" && findPlugin(name) === undefined)
}

function checkVersion(network: LintNetwork, findings: Findings): void {
  const { source, cniVersion, entries } = network
  const advice = adviceOn(network)
  const place = nodeAt(source.tree, ["cniVersion"])
  const others = itemsAt(source.tree, ["cniVersions"])
  if (cniVersion === "" && others.length === 0) {
    const message =
      '"cniVersion" is missing: the network uses 0.1.0, without CHECK, STATUS and GC, and with one address of each family'
    findings.add(source, undefined, "missing-version", message, { hint: `write ${advice.how}` })
    return
  }
  const isKnown = (version: string) => supportedVersions.some((each) => each === version)
  const offered = [cniVersion, ...others.map((node) => (node.kind === "scalar" ? String(node.value) : ""))]
  if (!offered.some(isKnown)) {
    const written = offered.filter((version) => version !== "").map((version) => `"${version}"`)
    const message = `${written.join(", ")} is not a version that plugins of this suite support`
    findings.add(source, place ?? nodeAt(source.tree, ["cniVersions"]), "unknown-version", message, {
      hint: `they speak ${supportedVersions.join(", ")}`,
    })
    return
  }
  const chosen = offered.filter(isKnown).sort(compareVersions).at(-1) ?? ""
  for (const entry of entries) {
    const spoken = [entry.known, entry.ipam].find((each) => each?.versions?.includes(chosen) === false)
    if (spoken === undefined) continue
    const message = `"${spoken.name}" does not support ${chosen}`
    findings.add(entry.source, nodeAt(entry.node, ["type"]), "unknown-version", message, {
      hint: `it speaks ${spoken.versions?.join(", ")}`,
    })
  }
  if (advice.newest === "" || compareVersions(chosen, advice.newest) >= 0) return
  const lacks = compareVersions(chosen, "0.4.0") < 0 ? "CHECK, STATUS and GC" : "STATUS and GC"
  const how = compareVersions(chosen, "1.0.0") >= 0 ? newestIfSpoken : advice.how
  findings.add(source, place, "old-version", `with ${chosen} runtimes do not call ${lacks}`, {
    hint: `write ${how}`,
  })
}

function checkOrder({ entries }: LintNetwork, findings: Findings): void {
  let maker: Entry | undefined
  let isOpen = false // a plugin of another suite may create the interface
  for (const entry of entries) {
    const { source, node, type, known } = entry
    const place = nodeAt(node, ["type"])
    if (known === undefined) isOpen = true
    else if (known.kind === "ipam") {
      const message = `"${type}" assigns addresses for the interface plugin that runs it, and cannot be part of the chain`
      findings.add(source, place, "ipam-in-chain", message, {
        hint: `write "ipam": { "type": "${type}", … } in the interface plugin`,
      })
    } else if (known.kind === "chained") {
      if (maker !== undefined || isOpen) continue
      const message = `"${type}" changes the interface of an earlier plugin, but no plugin precedes it`
      findings.add(source, place, "chain-order", message, {
        hint: "put it after the plugin that creates the interface",
      })
    } else if (maker === undefined) maker = entry
    else if (!known.joins) {
      const message = `"${type}" creates an interface, and so does "${maker.type}" before it: both would have the same name`
      findings.add(source, place, "second-interface", message, { hint: "make it a separate network" })
    }
  }
}

function checkReserved({ source, node }: Entry, findings: Findings): void {
  if (node.kind !== "object") return
  for (const { key, keyNode } of node.members) {
    if (!reservedKeys.includes(key) && !key.startsWith("cni.dev/")) continue
    const hint =
      key === "runtimeConfig"
        ? 'request a value from the runtime with "capabilities": { "portMappings": true }'
        : "remove it"
    findings.add(source, keyNode, "reserved-key", `the runtime sets "${key}", and overwrites this value`, {
      hint,
    })
  }
}

function checkCapabilities({ source, node, known, ipam, type }: Entry, findings: Findings): void {
  if (known === undefined || known.kind === "ipam" || known.delegates !== undefined) return
  const taken = [known, ipam].flatMap((each) => (each === undefined ? [] : capabilitiesOf(each)))
  const everywhere = [...new Set(knownPlugins.flatMap(capabilitiesOf))]
  const capabilities = nodeAt(node, ["capabilities"])
  const hasForeignIpam = ipam === undefined && nodeAt(node, ["ipam", "type"]) !== undefined
  for (const { key, keyNode, value } of capabilities?.kind === "object" ? capabilities.members : []) {
    if (taken.includes(key) || hasForeignIpam || value.kind !== "scalar" || value.value !== true) continue
    const meant = didYouMean(key, taken)
    const elsewhere = everywhere.includes(key) ? knownPlugins.filter((each) => capabilitiesOf(each).includes(key)) : []
    const other =
      elsewhere.length > 0
        ? `${elsewhere.map(({ name }) => name).join(", ")} ${elsewhere.length > 1 ? "take" : "takes"} it`
        : undefined
    const list = taken.length > 0 ? `it takes ${taken.join(", ")}` : "it takes no capabilities"
    const hint = meant !== undefined ? `did you mean "${meant}"?` : (other ?? list)
    findings.add(
      source,
      keyNode,
      "unused-capability",
      `"${type}" does not take the capability "${key}": it has no effect`,
      { hint },
    )
  }
  if (ipam?.name === "static" && isOn(node, ["capabilities", "ips"])) {
    const message =
      'a pod chooses its addresses with "ips", and static accepts all of them: a pod can take an address of another pod or of the host'
    findings.add(source, nodeAt(node, ["capabilities", "ips"]), "requested-address", message, {
      hint: "host-local assigns only addresses in its ranges, each of them once",
    })
  }
  if (type !== "portmap" || isOn(node, ["capabilities", "portMappings"])) return
  const message = `without the capability "portMappings" the runtime passes no ports, and publishes none`
  findings.add(source, nodeAt(node, ["type"]), "missing-capability", message, {
    hint: 'write "capabilities": { "portMappings": true }',
  })
}

/** Reports keys for a single container that would apply to all containers of the network. */
function checkOneForAll({ source, node, known }: Entry, findings: Findings): void {
  const mac = memberOf(node, "mac")
  if (mac !== undefined && known?.fields.mac !== undefined && textAt(node, ["mac"]) !== "") {
    const hint = 'let the runtime choose it: "capabilities": { "mac": true }'
    findings.add(source, mac.keyNode, "shared-mac", "every container of the network gets this MAC", { hint })
  }
  const sysctl = known?.name === "tuning" ? nodeAt(node, ["sysctl"]) : undefined
  for (const { key, keyNode } of sysctl?.kind === "object" ? sysctl.members : []) {
    const name = /^net[./]ipv[46][./](?:conf|neigh)[./]([^./]+)[./]/.exec(key)?.[1]
    const fixed = ["IFNAME", "all", "default", "lo", ...(source.attachment === undefined ? ["eth0"] : [])]
    if (name === undefined || fixed.includes(name)) continue
    const message = `"${name}" is not always the name of the container's interface`
    findings.add(source, keyNode, "tuning-interface", message, { hint: `write "${key.replace(name, "IFNAME")}"` })
  }
}
