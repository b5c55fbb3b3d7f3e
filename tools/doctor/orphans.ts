import { dirname } from "../../pkg/libc/mod.ts"
import { cacheFile } from "../../pkg/libcni/mod.ts"
import type { NodeAttachment } from "../node/mod.ts"
import { affectedBy, type Check, cniCommand, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import { isDeletable, planDeletion } from "./fix.ts"
import { sh } from "./remedy.ts"

const GONE = "its container no longer exists, and no DEL was run"

/** Finds leases, records, links and rules of containers that no longer exist. */
export const checkOrphans: Check = (input) =>
  input.attachments.filter(({ orphan }) => orphan.length > 0).flatMap((one) => orphanFindings(one, input))

/** Finds running containers whose namespace was unmounted from its path. */
export const checkLostPaths: Check = ({ attachments }) =>
  attachments.flatMap((one): Finding[] => {
    const { lostPath, netns = "", network } = one
    if (lostPath === undefined) return []
    return [
      {
        rule: "netns-unmounted",
        severity: "error",
        network,
        cause: dirname(lostPath),
        affected: [affectedBy(one)],
        what: `the namespace of ${nameOf(one)} is no longer at "${lostPath}", but process ${netns.split("/")[2]} runs in it`,
        ofMany: (count) =>
          `the namespaces of ${count} running containers are no longer at their paths in "${dirname(lostPath)}"`,
        why: "the runtime considers the container deleted: CHECK fails, and the next GC deletes its address and its rules while it runs",
        remedy: sh`mkdir -p ${dirname(lostPath)}; touch ${lostPath}; mount --bind ${netns} ${lostPath}`,
        note: "run this on the host, in the mount namespace of the runtime; a service with PrivateMounts has its own mounts",
      },
    ]
  })

/** Returns the findings about an orphan. The finding about its record or lease also names its other objects. */
function orphanFindings(one: NodeAttachment, input: DoctorInput): Finding[] {
  const isFixable = isProvablyGone(one) && isDeletable(planDeletion(one, input))
  const { network } = one
  const about = {
    network,
    severity: "warning" as const,
    isFixable,
    affected: [affectedBy(one)],
    // If the cache is unreadable, a living attachment looks like an orphan.
    ...(isFixable ? {} : { consequenceOf: ["state-exposed", "cannot-look", "record-broken"] as const }),
    cause: `containers of ${network}`,
    ...orphanRemedy(one, input, isFixable),
  }
  const found: Finding[] = []
  const has = (text: string) => one.orphan.some((reason) => reason.startsWith(text))
  const places = [...new Set(one.rules.map(({ place }) => place))].join(", ")
  const lease = has("lease") ? `; host-local keeps ${one.addresses.join(", ")} for it` : ""
  const rules = has("rules") && places !== "" ? `; rules for it are in ${places}` : ""
  if (has("cache")) {
    const what = `the runtime's cache has ${nameOf(one)}, but its namespace "${one.netns}" does not exist${lease}${rules}`
    const ofMany = (count: number) => `the runtime's cache has ${count} containers of "${network}" without a namespace`
    found.push({ ...about, rule: "stale-cache", what, ofMany, why: GONE })
  } else if (has("lease")) {
    const what = `host-local keeps ${one.addresses.join(", ")} for ${nameOf(one)}: ${reasonsOf(one, "lease")}${rules}`
    const ofMany = (count: number) => `host-local keeps the addresses of ${count} deleted containers of "${network}"`
    found.push({ ...about, rule: "stale-lease", what, ofMany, why: `${GONE}; the address is lost to the pool` })
  } else if (has("rules")) {
    const what = `rules for ${nameOf(one)} in ${places}: ${reasonsOf(one, "rules")}`
    const ofMany = (count: number) => `rules exist for ${count} deleted containers of "${network}"`
    const why = "packets of the next holder of the address, or to a port of the host, go to the wrong destination"
    found.push({ ...about, rule: "orphaned-rules", what, ofMany, why })
  }
  if (has("link")) {
    const what = `interface "${one.link?.name}" belongs to ${nameOf(one)}, which has no cache entry`
    const ofMany = (count: number) => `${count} interfaces belong to containers of "${network}" without a cache entry`
    const why = "the runtime will not delete the interface, which keeps its address and its port of the bridge"
    found.push({ ...about, rule: "orphaned-link", what, ofMany, why })
  }
  return found
}

/** Returns the remedy for an orphan. `cni gc` is the remedy only if the network has a file. */
function orphanRemedy(one: NodeAttachment, input: DoctorInput, isFixable: boolean): Pick<Finding, "remedy" | "note"> {
  const { networks, places } = input.node
  const hasFile = networks.some(({ network }) => network?.name === one.network)
  const gc = cniCommand(input, "gc", [one.network], ["--auto"])
  if (isFixable) {
    const fix = cniCommand(input, "doctor", [], ["--fix"])
    return { remedy: fix, ...(hasFile ? { note: `${gc.line} does it for this network alone` } : {}) }
  }
  if (one.sources.join() === "cache") {
    const file = cacheFile(one.cached?.cacheDir ?? places.cacheDir, one)
    return { remedy: sh`rm ${[file]}`, note: "the record lacks the configuration that a DEL needs" }
  }
  if (hasFile)
    return { remedy: gc, note: `only if no container uses it: ${gc.line} --dry-run prints what it would delete` }
  return {
    remedy: `if no container uses it: write a configuration of network "${one.network}" to ${places.confDir}, and run ${gc.line}`,
  }
}

function reasonsOf({ orphan }: NodeAttachment, beginning: string): string {
  return orphan.filter((reason) => reason.startsWith(beginning)).join(", ")
}

/**
 * Reports whether the container provably no longer exists: it has no link on the host, and its recorded namespace is
 * missing or, if none is recorded, only rules name the container.
 */
export function isProvablyGone({ isAlive, link, sources, netns }: NodeAttachment): boolean {
  if (link !== undefined) return false
  if (isAlive === false) return true
  return netns === undefined && sources.every((source) => source === "rule")
}
