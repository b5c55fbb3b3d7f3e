import { basename, dirname, findStat, readDirectory, readlink, readTextFile } from "../../pkg/libc/mod.ts"
import { parseIp } from "../../pkg/types/mod.ts"
import { foreign } from "../node/mod.ts"
import { HostKernel, RTN } from "../packets/mod.ts"
import type { Check } from "./finding.ts"

/**
 * Programs with which runtimes reserve a published port: they listen on it and never accept a connection. nerdctl's OCI
 * hook leaves its sockets to a process `sleep infinity`.
 */
const RESERVES = new Set(["conmon", "crio", "podman", "rootlessport", "sleep"])
/** Directories in which only root can change programs. */
const PROGRAM_DIRS = [
  "/usr/bin",
  "/bin",
  "/usr/sbin",
  "/usr/libexec/podman",
  "/usr/lib/podman",
  "/usr/libexec/crio",
  "/usr/local/bin",
]

/** Finds published ports on which a process of the host also listens. */
export const checkListeners: Check = ({ node }) => {
  const mapped = node.rules.ports.filter(({ protocol }) => protocol === "tcp")
  if (mapped.length === 0) return []
  const listeners = [...socketsIn("tcp"), ...socketsIn("tcp6")]
  return mapped.flatMap(({ port, hostPort, to, owner }) => {
    const inodes = listeners.filter((listener) => listener.port === port).map(({ inode }) => inode)
    const holders = inodes.length === 0 ? [] : processesWith(new Set(inodes))
    const strangers = holders.filter(({ isReserving }) => !isReserving)
    if (inodes.length === 0 || (holders.length > 0 && strangers.length === 0)) return []
    const who = strangers.map(({ name, pid }) => `${name} (process ${pid})`).join(", ") || "a process"
    return [
      {
        rule: "port-taken",
        severity: "warning" as const,
        network: owner.split("/")[0] ?? "",
        what: `port ${hostPort} of the host is forwarded to ${to} (${owner}), but ${who} listens on it`,
        why: "the process gets no connections: the container gets them",
        remedy: `stop the process, or change the port of the process or of the container: ss -ltnp sport = :${port} shows the process`,
      },
    ]
  })
}

/** Finds ports that are published on an address that the host does not have. */
export const checkPortAddresses: Check = ({ node }) => {
  using kernel = new HostKernel()
  return node.rules.ports.flatMap(({ hostPort, to, owner }) => {
    const text = hostPort.replace(/:?\d+\/\w+$/, "").replace(/^\[(.*)\]$/, "$1")
    const ip = parseIp(text)
    if (ip === undefined || kernel.addressType(ip) === RTN.local) return []
    return [
      {
        rule: "port-address-missing",
        severity: "warning" as const,
        network: owner.split("/")[0] ?? "",
        what: `port ${hostPort} is forwarded to ${to} (${owner}), but the host does not have ${text}`,
        why: "other machines find no host with this address, unless they have a route to it through this host",
        remedy: "publish the port at an address of the host, or at all of them: ip -brief address lists them",
      },
    ]
  })
}

/** Returns the TCP sockets in state LISTEN (0A) of a file in /proc/net; proc_net_tcp(5). */
function socketsIn(file: string): { port: number; inode: string }[] {
  try {
    const rows = readTextFile(`/proc/thread-self/net/${file}`).trim().split("\n").slice(1)
    return rows.flatMap((row) => {
      const [, local = "", , state, , , , , , inode = ""] = row.trim().split(/\s+/)
      return state === "0A" ? [{ port: Number.parseInt(local.slice(local.indexOf(":") + 1), 16), inode }] : []
    })
  } catch {
    return []
  }
}

/** Returns the processes that have one of these sockets open. Skips processes that this user may not read. */
function processesWith(inodes: ReadonlySet<string>): { pid: string; name: string; isReserving: boolean }[] {
  const links = new Set([...inodes].map((inode) => `socket:[${inode}]`))
  return readDirectory("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => {
      try {
        const has = readDirectory(`/proc/${pid}/fd`).some((fd) => links.has(targetOf(`/proc/${pid}/fd/${fd}`)))
        if (!has) return []
        return [{ pid, name: foreign(readTextFile(`/proc/${pid}/comm`).trim()), isReserving: isReserving(pid) }]
      } catch {
        return [] // the process ended
      }
    })
}

/** Reports whether a process reserves ports, by its program's file, because a process can choose its name. */
function isReserving(pid: string): boolean {
  const path = targetOf(`/proc/${pid}/exe`)
  if (!RESERVES.has(basename(path)) || !PROGRAM_DIRS.includes(dirname(path))) return false
  const [runs, own] = [findStat(`/proc/${pid}/exe`), findStat(path)]
  return (
    runs !== undefined && own !== undefined && runs.device === own.device && runs.inode === own.inode && own.user === 0
  )
}

function targetOf(link: string): string {
  try {
    return readlink(link)
  } catch {
    return ""
  }
}
