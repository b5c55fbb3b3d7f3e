import { type Fields, parseConfig } from "../../pkg/config/mod.ts"
import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { isErrno } from "../../pkg/libc/mod.ts"
import type { Link, RouteSocket } from "../../pkg/netlink/mod.ts"
import { isJsonObject, parseJson } from "../../pkg/types/mod.ts"
import type { Failures } from "../../pkg/undo/mod.ts"
import { hasValues, type LinkValues, linkKeys, setValue, type Target, valuesOf } from "./link.ts"
import { restoreSysctls, sameValue } from "./sysctls.ts"

export interface SysctlBackup {
  /** The value before ADD, as printed by the kernel; absent for a write-only sysctl. */
  was?: string | undefined
  /** The value that ADD wrote. */
  set?: string | undefined
  /** The value that the kernel printed after ADD, if different from the written one: "31" for "0x1f". */
  is?: string | undefined
}

/**
 * The values before ADD, which DEL restores. The link's settings at the top are in upstream's format: only those that
 * ADD had to change. Upstream ignores the other keys.
 */
export interface Backup extends LinkValues {
  /** The MTU of the other end of the veth pair. */
  peerMtu?: number | undefined
  set?: LinkValues | undefined
  /** The sysctls by path: "net/ipv4/conf/eth0/rp_filter" */
  sysctl?: Record<string, SysctlBackup> | undefined
}

const text = { kind: "text" } as const
const flag = { kind: "boolean" } as const
const whole = { kind: "integer" } as const
const linkFields = { mac: text, promisc: flag, mtu: whole, allmulti: flag, txQLen: whole } as const
const schema = {
  ...linkFields,
  peerMtu: whole,
  set: { kind: "object", fields: linkFields },
  sysctl: { kind: "record", of: { kind: "object", fields: { was: text, set: text, is: text } } },
} as const satisfies Fields

/** Decodes a backup; `{}` if none exists. Ignores unreadable parts, because a torn file must not make DEL fail. */
export function decodeBackup(bytes: Uint8Array | undefined): Backup {
  if (!bytes) return {}
  try {
    const json = parseJson(decodeUtf8(bytes), "backup")
    if (!isJsonObject(json)) return {}
    const { sysctl = {}, ...backup } = parseConfig(schema, json, true)
    // DEL must write only sysctls below "net/", even if a file contains others.
    return { ...backup, sysctl: Object.fromEntries(Object.entries(sysctl).filter(([path]) => path.startsWith("net/"))) }
  } catch {
    return {}
  }
}

/** Encodes a backup in upstream's format: one space of indentation, no newline at the end. */
export function encodeBackup({ peerMtu, set, sysctl, ...link }: Backup): Uint8Array {
  const isEmpty = Object.keys(sysctl ?? {}).length === 0
  const ordered = { ...pick(link), peerMtu, set: set && pick(set), sysctl: isEmpty ? undefined : sysctl }
  return encodeUtf8(JSON.stringify(ordered, null, 1))
}

/** The settings that an ADD changes, and their values before. */
export interface Change {
  wanted: LinkValues
  /** All settings of the link before ADD; empty if ADD changes none. */
  link: LinkValues
  peerMtu: number | undefined
  sysctls: readonly { path: string; value: string; found: string | undefined }[]
}

/** Returns the backup of a single ADD, with the values before it. */
export function backupOf({ wanted, link, peerMtu, sysctls }: Change): Backup {
  const backup: Backup = { set: wanted, sysctl: {} }
  for (const key of linkKeys) if (wanted[key] !== undefined) assign(backup, key, link)
  if (wanted.mtu !== undefined) backup.peerMtu = peerMtu
  for (const { path, value, found } of sysctls) backup.sysctl = { ...backup.sysctl, [path]: { was: found, set: value } }
  return backup
}

/**
 * Returns the backup after an ADD of an attachment that may already have a backup: from another tuning plugin in the
 * chain, or from an earlier ADD. If a setting still has the value of the earlier ADD, its original value is kept. If it
 * has another value, because another program changed it or the container is a new one, the current value becomes the
 * original.
 */
export function mergeBackups(previous: Backup, change: Change, present: (path: string) => string | undefined): Backup {
  const { wanted, link } = change
  const merged = backupOf(change)
  const set: LinkValues = { ...wanted }
  for (const key of linkKeys) {
    // Upstream does not record the values that it set. The wanted values are the best guess.
    const tuned = previous.set ? previous.set[key] : (wanted[key] ?? link[key])
    if (previous[key] === undefined || tuned !== link[key]) continue
    assign(merged, key, previous)
    if (key === "mtu" && previous.peerMtu !== undefined) merged.peerMtu = previous.peerMtu
    if (wanted[key] === undefined && previous.set) assign(set, key, previous.set)
  }

  const sysctl: Record<string, SysctlBackup> = {}
  for (const [path, before] of Object.entries(previous.sysctl ?? {})) {
    if (sameValue(present(path), before.is ?? before.set)) sysctl[path] = before
  }
  for (const [path, now] of Object.entries(merged.sysctl ?? {})) {
    const before = sysctl[path]
    sysctl[path] = before ? { was: before.was, set: now.set } : now
  }
  return { ...merged, set, sysctl }
}

/** Returns the backup with the values of some sysctls as the kernel printed them, by path. */
export function withPrinted(backup: Backup, printed: ReadonlyMap<string, string>): Backup {
  const sysctl = { ...backup.sysctl }
  for (const [path, is] of printed) sysctl[path] = { ...sysctl[path], is }
  return { ...backup, sysctl }
}

/** Returns the value of a sysctl as the kernel prints it, if ADD recorded that, or else `value`. */
export function asPrinted({ sysctl = {} }: Backup, path: string, value: string): string {
  const known = sysctl[path]
  return known?.set === value ? (known.is ?? value) : value
}

/** Returns the settings of a link in upstream's order. */
function pick({ mac, promisc, mtu, allmulti, txQLen }: LinkValues): LinkValues {
  return { mac, promisc, mtu, allmulti, txQLen }
}

function assign<K extends keyof LinkValues>(to: LinkValues, key: K, from: LinkValues): void {
  to[key] = from[key]
}

/**
 * Restores the values in a backup, the link's first, because a link with a small MTU has no IPv6 sysctls. Ignores
 * objects that no longer exist. Adds each failure to `failures` and continues.
 */
export function restoreBackup(target: Target, backup: Backup, failures: Failures): void {
  const link = hasValues(backup) ? target.findLink() : undefined
  if (link) {
    const peer = backup.peerMtu === undefined ? undefined : target.findPeer(link)
    restoreLink(target.inside, link, backup, failures)
    // The container can rename its interfaces, so this peer may be of another interface and have another MTU.
    const isTuned = peer && (backup.set?.mtu === undefined || peer.mtu === backup.set.mtu)
    if (isTuned) restoreLink(target.host, peer, { mtu: backup.peerMtu }, failures)
  }
  const { sysctl } = backup
  if (sysctl) target.sandbox.run(() => restoreSysctls(sysctl, failures))
}

function restoreLink(route: RouteSocket, link: Link, originals: LinkValues, failures: Failures): void {
  const present = valuesOf(link)
  for (const key of linkKeys) {
    if (originals[key] === undefined || originals[key] === present[key]) continue
    failures.attempt(`restore "${key}" of "${link.name}"`, () => {
      try {
        setValue(route, link, key, originals)
      } catch (error) {
        if (!(error instanceof Error && isErrno(error.cause, "ENODEV"))) throw error
      }
    })
  }
}
