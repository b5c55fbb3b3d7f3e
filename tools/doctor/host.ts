import {
  basename,
  dirname,
  exists,
  findStat,
  isDirectory,
  join,
  stat,
  statFileSystem,
  unlessErrno,
} from "../../pkg/libc/mod.ts"
import { cacheFile } from "../../pkg/libcni/mod.ts"
import { findExposure } from "../../pkg/records/mod.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { mountOf } from "./mounts.ts"
import { sh } from "./remedy.ts"

/** A file system is nearly full if its free space is below this share and below this number of bytes. */
const LITTLE = 0.02
const LITTLE_BYTES = 16 << 20
/** The tolerated difference between a record's time and the clock. */
const CLOCK_SLACK_MS = 60_000
const WHEN_FULL = "ADD cannot write its records, and fails"

/** Checks space and write permission where plugins and runtimes keep state. */
export const checkDisk: Check = ({ node: { places, stores } }) => {
  const directories = [places.cacheDir, places.dataDir, ...stores.map(({ directory }) => directory), "/run/cni"]
  const seen = new Set<string>()
  return directories.flatMap((directory): Finding[] => {
    const existing = nearest(directory)
    const { device } = stat(existing)
    if (seen.has(device)) return []
    seen.add(device)
    const { isReadOnly, size, free, files, freeFiles } = statFileSystem(existing)
    if (isReadOnly) {
      const what = `"${existing}" cannot be written to: its file system is mounted read-only`
      const remedy = `find out why, then mount it for writing: ${sh`findmnt ${mountOf(existing).point}`.line} shows the mount options; the kernel's log says whether the disk is at fault`
      return [{ rule: "disk-read-only", severity: "error", what, why: WHEN_FULL, remedy }]
    }
    const isFull = free === 0 || (files > 0 && freeFiles === 0)
    const isLow = free < LITTLE * size && free < LITTLE_BYTES
    if (size === 0 || !(isFull || isLow)) return []
    const what = isFull
      ? `the file system of "${existing}" is full`
      : `the file system of "${existing}" has ${Math.round(free / 1024)} KiB left`
    const severity = isFull ? "error" : "warning"
    const { point } = mountOf(existing)
    const remedy = `delete unneeded files, or enlarge the file system: ${sh`du -xa ${point} | sort -n | tail`.line} lists the largest directories, ${sh`df -h ${point}; df -i ${point}`.line} the used space and inodes`
    return [{ rule: "disk-full", severity, what, why: WHEN_FULL, remedy }]
  })
}

/** Returns the directory, or its nearest existing parent directory. */
function nearest(directory: string): string {
  return exists(directory) ? directory : nearest(dirname(directory))
}

/** Finds a clock that is behind the times of ADD records. */
export const checkClock: Check = ({ attachments, node: { readMs } }) =>
  attachments.flatMap((one): Finding[] => {
    if (one.addedMs === undefined || one.addedMs <= readMs + CLOCK_SLACK_MS) return []
    const added = new Date(one.addedMs).toISOString()
    const here = `the clock of this node shows ${new Date(readMs).toISOString()}, but`
    return [
      {
        rule: "clock-behind",
        severity: "warning",
        cause: "clock",
        affected: [affectedBy(one)],
        what: `${here} ${nameOf(one)} was added at ${added}`,
        ofMany: (count) => `${here} ${count} attachments were added later, one at ${added}`,
        why: "the clock was wrong then or is wrong now: certificates fail, and ages and times in logs are wrong",
        remedy: "set the clock: timedatectl shows whether NTP sets it, and timedatectl set-ntp true enables NTP",
      },
    ]
  })

/** Finds files in the runtime's cache without a valid record. */
export const checkBroken: Check = ({ node: { brokenRecords = [] }, attachments }) =>
  brokenRecords.map((file): Finding => {
    const one = attachments.find(
      ({ network, containerId, ifName }) => basename(file) === `${network}-${containerId}-${ifName}`,
    )
    return {
      rule: "record-broken",
      severity: "error",
      cause: dirname(file),
      ...(one === undefined ? {} : { network: one.network }),
      affected: [one === undefined ? { name: `"${file}"` } : { ...affectedBy(one), detail: `"${file}"` }],
      what: `"${file}" holds no record: it is empty, truncated, or not a regular file`,
      ofMany: (count) =>
        `${count} files in "${dirname(file)}" hold no record: they are empty, truncated, or not regular files`,
      why: "the runtime has lost the attachment, and cni gc --auto cannot determine whether it is in use",
      remedy: `restart the container, or make sure that it no longer exists; then ${sh`rm ${[file]}`.line}`,
    }
  })

const WRITABLE_BY_OTHERS = 0o022

/** Finds cache records and leases that other users can change, although only root can write to their directory. */
export const checkRecords: Check = ({ node: { cache, stores, places } }) => {
  const records = cache.map((one) => ({ network: one.network, file: cacheFile(one.cacheDir ?? places.cacheDir, one) }))
  const leases = stores.flatMap(({ network, directory, leases }) =>
    leases.map(({ address }) => ({ network, file: join(directory, address) })),
  )
  return [...records, ...leases].flatMap(({ network, file }): Finding[] => {
    const found = findStat(file)
    if (!found || (found.user === 0 && (found.mode & WRITABLE_BY_OTHERS) === 0)) return []
    const files = [file]
    return [
      {
        rule: "record-exposed",
        severity: "error",
        network,
        cause: dirname(file),
        affected: [{ name: `"${file}"` }],
        what: `"${file}" (mode ${(found.mode & 0o7777).toString(8)}, user ${found.user}) can be changed by users other than root`,
        ofMany: (count) => `${count} files in "${dirname(file)}" can be changed by users other than root`,
        why: "DEL acts on the record as root, and a lease decides which container has an address",
        remedy: sh`chown root:root ${files}; chmod go-w ${files}`,
      },
    ]
  })
}

function exposed(directory: string, exposure: string): Finding {
  const path = /"([^"]+)"/.exec(exposure)?.[1] ?? directory
  return {
    rule: "state-exposed",
    severity: "error",
    what: `"${directory}" is writable by others: ${exposure}`,
    why: "plugins and runtime reject files that other users can change: ADD and DEL fail",
    remedy: sh`chown root:root ${path}; chmod go-w ${path}`,
    note: "a tmpfs is mounted with mode=0755",
  }
}

function isOtherThanDirectory(path: string): boolean {
  const found = unlessErrno(() => findStat(path), "ENOTDIR", "EACCES")
  return found !== undefined && !isDirectory(found)
}

function notDirectory(path: string): Finding {
  return {
    rule: "cannot-look",
    severity: "error",
    what: `"${path}" is not a directory, but plugins and the runtime keep their files there`,
    why: "ADD cannot write its records, and fails; faults of the missing files are not among these findings",
    remedy: sh`mv ${path} ${`${path}.moved`}`,
    note: "the next ADD creates the directory; restore its files",
  }
}

/** Reports the parts of the node that could not be read. */
export const checkUnread: Check = ({ node: { unread, places }, filter }) => [
  ...unread.map(({ what, reason }): Finding => {
    const directory = { cache: places.cacheDir, leases: places.dataDir }[what as string]
    const exposure =
      directory === undefined ? undefined : findExposure(directory, what === "cache" ? "results" : undefined)
    if (directory !== undefined && exposure !== undefined) return exposed(directory, exposure)
    const path = directory !== undefined && what === "cache" ? join(directory, "results") : directory
    if (path !== undefined && isOtherThanDirectory(path)) return notDirectory(path)
    return {
      rule: "cannot-look",
      severity: "warning",
      what: `the ${what} cannot be read: ${reason}`,
      why: "faults in them are not among these findings",
      remedy: "run cni doctor as root on the host, in its own namespaces",
    }
  }),
  ...(filter === undefined
    ? [
        {
          rule: "no-nftables" as const,
          severity: "warning" as const,
          what: "the kernel's nf_tables cannot be read",
          why: "masquerade and port mappings need nf_tables, unless a configuration selects the backend iptables",
          remedy: sh`modprobe nf_tables`,
          note: "this needs root, and a kernel with the module",
        },
      ]
    : []),
]
