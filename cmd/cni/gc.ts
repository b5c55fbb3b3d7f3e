import { basename } from "../../pkg/libc/mod.ts"
import {
  type AttachmentId,
  type CachedAttachment,
  cachedAttachments,
  gcNetwork,
  staleAttachments,
} from "../../pkg/libcni/mod.ts"
import { CniError, Code, type JsonObject, messageOf, ownerComment } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  given,
  networkOf,
  placesOf,
  print,
  runtimeFlags,
  runtimeOf,
  texts,
  UsageError,
  wantsJson,
  word,
} from "../../tools/command.ts"
import { containerHelp, findContainer, readAttachments } from "../../tools/containers.ts"
import type { Terminal } from "../../tools/environment.ts"
import {
  attachmentsOf,
  brokenRecords,
  cacheDirs,
  isNamespace,
  type NodePlaces,
  readNetworks,
  readNode,
} from "../../tools/node/mod.ts"
import { fittedTable } from "../../tools/screen.ts"
import { deleteBelongings, staleBelongings } from "./belongings.ts"
import { storesOf } from "./ipam.ts"

export const gc: Command = {
  summary: "Delete the leftovers of deleted containers in a network",
  words: ["[NETWORK]"],
  flags: {
    keep: {
      type: "string",
      multiple: true,
      value: "NAME",
      help: "a container to keep, or ID/IFNAME for one interface; may be repeated",
    },
    auto: { type: "boolean", help: "keep every attachment whose namespace still exists" },
    "dry-run": { type: "boolean", help: "only print what would be kept and deleted" },
    ...runtimeFlags,
  },
  help: `Deletes all objects of this network that do not belong to a kept attachment. Use --keep, --auto, or both to select the attachments to keep.
${containerHelp}
--auto reads the attachments from --cache-dir, and from its subdirectory "multus". --cache-dir must be the cache of the runtime that created them.
The command prints every attachment in the cache, and every lease, link and rule to delete, also without --dry-run. It deletes objects
that plugins without GC leave. Exit code 1: an object was not deleted, and a message names it.

If containers have interfaces in a network, but the caches have no attachments of it, --auto deletes nothing in that network: the cache
is wrong or empty. Without NETWORK, --auto covers all networks of --conf-dir; its JSON output is one list.

Examples:
  cni gc mynet --auto --dry-run
  cni gc mynet --auto
  cni gc mynet --keep 4e5f6a/eth0 --keep 4e5f6a/net1`,
  async run(args, terminal) {
    const listed = texts(args, "keep")
    if (listed.length === 0 && !given(args, "auto")) {
      throw new UsageError("gc needs a list of attachments to keep: give --keep NAME for each, or --auto")
    }
    const show = (rows: string[][]) =>
      print(args, terminal, {
        json: () => rows.map(rowAsJson),
        text: (screen) => fittedTable(COLUMNS, rows, screen) || "Nothing to keep or delete\n",
      })
    if (args.words.length > 0) return collect(word(args, 0), { keep: listed, args, terminal, show })
    if (listed.length > 0) throw new UsageError("give NETWORK, or --auto alone for all networks")
    const failures: string[] = []
    const all: JsonObject[] = []
    const isJson = wantsJson(args)
    for (const name of namesIn(args, terminal)) {
      const note = (rows: string[][]) => all.push(...rows.map((row) => ({ network: name, ...rowAsJson(row) })))
      try {
        if (!isJson) terminal.stdout(`${name}:\n`)
        await collect(name, { keep: listed, args, terminal, show: isJson ? note : show })
      } catch (error) {
        failures.push(messageOf(error))
      }
    }
    if (isJson) print(args, terminal, { json: () => all, text: () => "" })
    if (failures.length > 0) throw new Error(failures.join("\n"))
  },
}

/** Returns the names of all readable networks. */
function namesIn(args: Arguments, terminal: Terminal): string[] {
  const names = readNetworks(placesOf(args, terminal).confDir).flatMap(({ network }) => network?.name ?? [])
  return [...new Set(names)]
}

interface Collection {
  keep: readonly string[]
  args: Arguments
  terminal: Terminal
  show: (rows: string[][]) => unknown
}

/** Deletes the objects of a network's attachments, except those to keep. */
async function collect(name: string, { keep, args, terminal, show }: Collection): Promise<void> {
  const runtime = runtimeOf(args, terminal)
  const network = networkOf(name, args, terminal)
  const listed = keep.length === 0 ? [] : keptOf(network.name, keep, args, terminal)
  const stores = storesOf(network.name, args, terminal)
  const caches = cacheDirs(runtime.cacheDir)
  const attached = () =>
    caches.flatMap((directory) => cachedAttachments(directory)).filter((one) => one.network === network.name)
  if (given(args, "auto")) refuseBroken(network.name, caches)
  if (given(args, "auto") && attached().length === 0) refuseUnknown(network.name, placesOf(args, terminal), listed)
  const dry = given(args, "dry-run")
  /** Returns the attachments to keep and the objects to delete. */
  const decide = () => {
    const places = placesOf(args, terminal)
    const valid = [...listed, ...(given(args, "auto") ? livingOf(attached(), places) : [])]
    const stale = new Set(caches.flatMap((cacheDir) => staleAttachments({ cacheDir }, network, valid)).map(nameOf))
    const belongings = staleBelongings(network.name, stores, valid)
    const fate = dry ? "would delete" : "delete"
    show([
      ...attached().map((one) => [
        stale.has(nameOf(one)) ? fate : "keep",
        "attachment",
        nameOf(one),
        one.netns || "unknown namespace",
      ]),
      ...belongings.map(({ kind, what, owner }) => [fate, kind, what, owner]),
    ])
    return valid
  }
  if (network.disableGC) {
    if (wantsJson(args)) show([])
    terminal.stderr(`Warning: network "${network.name}" has "disableGC": nothing is deleted\n`)
    return
  }
  if (dry) {
    decide()
    return
  }
  let valid: readonly AttachmentId[] | undefined
  const failures: string[] = []
  for (const cacheDir of caches) {
    const isUsed = cacheDir === runtime.cacheDir || staleAttachments({ cacheDir }, network, valid ?? []).length > 0
    if (!isUsed) continue
    try {
      await gcNetwork({ ...runtime, cacheDir }, network, () => {
        valid ??= decide()
        return valid
      })
    } catch (error) {
      if (valid === undefined) throw error
      failures.push(messageOf(error))
    }
  }
  failures.push(...deleteBelongings(network.name, stores, valid ?? []))
  const left = staleBelongings(network.name, stores, valid ?? [])
  failures.push(...left.map(({ kind, what, owner }) => `Cannot delete ${kind} ${what} of ${owner}: it still exists`))
  if (failures.length > 0) throw new Error([...new Set(failures)].join("\n"))
}

const COLUMNS = ["WHAT", "KIND", { head: "NAME", isWhole: true }, { head: "OF", falls: 1 }]

/** Throws if a record of the network is empty or truncated, because the attachment may be in use. */
function refuseBroken(network: string, caches: readonly string[]): void {
  const broken = caches.flatMap(brokenRecords).filter((file) => basename(file).startsWith(`${network}-`))
  if (broken.length === 0) return
  throw new CniError(
    Code.Io,
    `Cannot determine which attachments of network "${network}" are in use: "${broken[0]}" is not a valid record`,
    {
      details:
        broken.length === 1
          ? "restart the container, or remove the file if the container no longer exists"
          : `restart the containers, or remove the ${broken.length} invalid files if the containers no longer exist`,
    },
  )
}

/** Throws if attachments with an interface are missing from `listed`, because GC would delete their objects. */
function refuseUnknown(network: string, places: NodePlaces, listed: readonly AttachmentId[]): void {
  const kept = new Set(listed.map(nameOf))
  const living = attachmentsOf(readNode(places)).filter(
    (one) => one.network === network && one.link?.kind === "veth" && !kept.has(nameOf(one)),
  )
  const [first] = living
  if (!first) return
  const others = living.length === 1 ? "has an interface" : `and ${living.length - 1} more have interfaces`
  throw new CniError(
    Code.Io,
    `Cannot determine which attachments of network "${network}" are in use: ${nameOf(first)} ${others}, but no record in the caches`,
    {
      details: "give the --cache-dir of their runtime, or --keep ID/IFNAME for each attachment in use",
    },
  )
}

function rowAsJson([what = "", kind = "", name = "", of = ""]: string[]): JsonObject {
  return { what, kind, name, of }
}

/**
 * Returns the attachments of `--keep`. Throws for an unknown name, because the attachment that the user meant would be
 * deleted.
 */
function keptOf(network: string, keep: readonly string[], args: Arguments, terminal: Terminal): AttachmentId[] {
  const all = readAttachments(placesOf(args, terminal)).attachments
  const own = all.filter((one) => one.network === network)
  return keep.flatMap((name) => {
    const exact = own.filter((one) => [nameOf(one), ownerComment(one)].includes(name))
    const found = exact.length > 0 ? exact : findContainer(name, all).attachments.filter((one) => own.includes(one))
    if (found.length > 0) return found.map(({ containerId, ifName }) => ({ containerId, ifName }))
    throw new Error(`Cannot keep "${name}": network "${network}" has no such attachment`)
  })
}

/** Returns the attachments whose namespace exists, or has a process after an unmount, or has an unknown state. */
function livingOf(attached: readonly CachedAttachment[], places: NodePlaces): CachedAttachment[] {
  const isThere = ({ netns }: CachedAttachment) => netns === "" || isNamespace(netns) !== false
  if (attached.every(isThere)) return [...attached]
  const running = attachmentsOf(readNode(places)).filter(({ lostPath }) => lostPath !== undefined)
  const names = new Set(running.map(ownerComment))
  return attached.filter((one) => isThere(one) || names.has(ownerComment(one)))
}

function nameOf({ containerId, ifName }: AttachmentId): string {
  return `${containerId}/${ifName}`
}
