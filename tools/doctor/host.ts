import { accessSync, constants, statfsSync, statSync } from "node:fs"
import { dirname } from "node:path"
import { findExposure } from "../../pkg/records/mod.ts"
import { type Check, type Finding, nameOf } from "./finding.ts"

/** Less than this share of a file system, or fewer bytes, is nearly nothing. */
const LITTLE = 0.02
const LITTLE_BYTES = 16 << 20
/** Clocks of one machine differ by less. */
const CLOCK_SLACK_MS = 60_000
const WHEN_FULL = "no ADD can note what it does: all fail"

/** Room, and the right to write, where plugins and runtimes keep state. */
export const checkDisk: Check = ({ node: { places, stores } }) => {
  const directories = [places.cacheDir, places.dataDir, ...stores.map(({ directory }) => directory), "/run/cni"]
  const seen = new Set<string>()
  return directories.flatMap((directory): Finding[] => {
    const existing = nearest(directory)
    const device = String(statSync(existing).dev)
    if (seen.has(device)) return []
    seen.add(device)
    if (isReadOnly(existing)) {
      const what = `"${existing}" cannot be written to: its file system is mounted read-only`
      return [
        { rule: "disk-read-only", severity: "error", what, why: WHEN_FULL, remedy: `mount -o remount,rw ${existing}` },
      ]
    }
    const { bavail, blocks, bsize, files, ffree } = statfsSync(existing)
    const isFull = bavail === 0 || (files > 0 && ffree === 0)
    const isLow = bavail < LITTLE * blocks && bavail * bsize < LITTLE_BYTES
    if (blocks === 0 || !(isFull || isLow)) return []
    const what = isFull
      ? `the file system of "${existing}" is full`
      : `the file system of "${existing}" has ${Math.round((bavail * bsize) / 1024)} KiB left`
    const severity = isFull ? "error" : "warning"
    return [{ rule: "disk-full", severity, what, why: WHEN_FULL, remedy: `df -h ${existing}; df -i ${existing}` }]
  })
}

/** The directory, or what of its way is there. */
function nearest(directory: string): string {
  return statSync(directory, { throwIfNoEntry: false }) ? directory : nearest(dirname(directory))
}

function isReadOnly(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK)
    return false
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EROFS"
  }
}

/** A clock that stands before what has been written already. */
export const checkClock: Check = ({ attachments, node: { readMs } }) => {
  const late = attachments.find(({ addedMs }) => addedMs !== undefined && addedMs > readMs + CLOCK_SLACK_MS)
  if (late?.addedMs === undefined) return []
  return [
    {
      rule: "clock-behind",
      severity: "warning",
      what: `it is ${new Date(readMs).toISOString()} here, and ${nameOf(late)} was added at ${new Date(late.addedMs).toISOString()}`,
      why: "the clock was wrong then or is wrong now: certificates fail, ages and logs mislead",
      remedy: "timedatectl; chronyc tracking",
    },
  ]
}

function exposed(directory: string, exposure: string): Finding {
  const path = /"([^"]+)"/.exec(exposure)?.[1] ?? directory
  return {
    rule: "state-exposed",
    severity: "error",
    what: `"${directory}" is not root's alone: ${exposure}`,
    why: "plugins and runtime refuse what others may have changed there: ADD and DEL fail",
    remedy: `chown root:root ${path}; chmod go-w ${path} (a tmpfs: mount it with mode=0755)`,
  }
}

/** Parts of the node that the other checks did not see. */
export const checkUnread: Check = ({ node: { unread, places }, filter }) => [
  ...unread.map(({ what, reason }): Finding => {
    const directory = { cache: places.cacheDir, leases: places.dataDir }[what as string]
    const exposure =
      directory === undefined ? undefined : findExposure(directory, what === "cache" ? "results" : undefined)
    if (directory !== undefined && exposure !== undefined) return exposed(directory, exposure)
    return {
      rule: "cannot-look",
      severity: "warning",
      what: `the ${what} cannot be read: ${reason}`,
      why: "what is wrong with them is not among these findings",
      remedy: "run cni doctor as root on the host, in its own namespaces",
    }
  }),
  ...(filter === undefined
    ? [
        {
          rule: "no-nftables",
          severity: "warning" as const,
          what: "the kernel's nf_tables cannot be asked",
          why: "masquerade and port mappings need it, unless a configuration names the backend iptables",
          remedy: "modprobe nf_tables; as root",
        },
      ]
    : []),
]
