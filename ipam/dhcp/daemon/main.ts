import { encodeUtf8, monotonicMs } from "../../../pkg/engine/mod.ts"
import {
  connectTo,
  createFile,
  exit,
  type Fd,
  FileDescriptor,
  isErrno,
  listenAt,
  makeDirectories,
  programArguments,
  readEnvironment,
  readlink,
  readTextFile,
  setDescriptorLimit,
  sleep,
  tryUnlink,
  unlessErrno,
} from "../../../pkg/libc/mod.ts"
import { requireOwn } from "../../../pkg/records/mod.ts"
import { logLine } from "../../../pkg/skel/mod.ts"
import { isCniError } from "../../../pkg/types/mod.ts"
import { hostEnvironment } from "./environment.ts"
import type { Journal } from "./journal.ts"
import { runLoop } from "./loop.ts"
import { type DaemonOptions, parseOptions, UsageError, usage } from "./options.ts"
import { Service } from "./service.ts"

/** The first descriptor that systemd passes, sd_listen_fds(3). */
const LISTEN_FDS_START = 3
const LOCK_PATIENCE_MS = 5_000

class StartError extends Error {
  override readonly name = "StartError"
}

/** Runs `dhcp daemon` as this process until SIGTERM or SIGINT. The leases stay in the journal for the next daemon. */
export function runDaemon(): never {
  try {
    const options = parseOptions(programArguments().slice(1))
    serve(options)
    return exit(0)
  } catch (error) {
    if (error instanceof UsageError) {
      logLine(`${error.message}\n${usage()}`)
      return exit(2)
    }
    const isExpected = error instanceof StartError || isCniError(error) || isErrno(error)
    const reason = isExpected ? error.message : error instanceof Error ? error.stack : error
    logLine(`Cannot run the DHCP daemon: ${reason}`)
    return exit(1)
  }
}

function serve(options: DaemonOptions): void {
  const env = hostEnvironment(options, (line) => logLine(`dhcp daemon: ${line}`))
  const { journal } = env
  using lock = lockJournal(journal)
  if (!lock) throw new StartError(`another daemon uses the leases in "${journal.directory}"`)
  raiseDescriptorLimit()
  if (options.pidFile !== "") writePidFile(options.pidFile)
  const activated = activatedSocket()
  const path = `${options.hostPrefix}${options.socketPath}`
  using server = activated ?? listenInPlaceOfDead(path)
  const service = new Service(env)
  service.resume()
  logLine(
    `dhcp daemon: serving ${activated ? "the socket handed over" : `"${path}"`}, ${service.holders.size} leases resumed`,
  )
  runLoop(service, server.fd, logLine)
  if (!activated) tryUnlink(path)
  if (options.pidFile !== "") tryUnlink(options.pidFile)
}

/**
 * Takes the journal's lock. Repeats the attempt for a moment, because the kernel may release the lock of a killed
 * daemon late, without an event.
 */
function lockJournal(journal: Journal): FileDescriptor | undefined {
  const end = monotonicMs() + LOCK_PATIENCE_MS
  for (;;) {
    const lock = journal.tryLock()
    if (lock || monotonicMs() >= end) return lock
    sleep(20)
  }
}

/** Returns the socket of systemd's socket activation, or undefined if none exists. */
function activatedSocket(): FileDescriptor | undefined {
  const { LISTEN_PID, LISTEN_FDS } = readEnvironment()
  if (LISTEN_PID !== readlink("/proc/self") || !LISTEN_FDS || LISTEN_FDS === "0") return undefined
  if (LISTEN_FDS !== "1") throw new StartError(`Too many (${LISTEN_FDS}) FDs passed through socket activation`)
  return new FileDescriptor(LISTEN_FDS_START as Fd)
}

/** Listens at a path. If a killed daemon left its socket there, replaces the socket. */
function listenInPlaceOfDead(path: string): FileDescriptor {
  const directory = path.slice(0, path.lastIndexOf("/"))
  if (directory !== "") makeDirectories(directory, 0o700)
  requireOwn(`${directory}/`)
  const server = unlessErrno(() => listenAt(path), "EADDRINUSE")
  if (server) return server
  if (isServed(path)) throw new StartError(`another daemon listens on "${path}"`)
  tryUnlink(path)
  return listenAt(path)
}

function isServed(path: string): boolean {
  try {
    connectTo(path)[Symbol.dispose]()
    return true
  } catch (error) {
    if (isErrno(error, "ECONNREFUSED", "ENOENT")) return false
    if (isErrno(error, "EAGAIN")) return true
    throw error
  }
}

function writePidFile(path: string): void {
  if (!path.startsWith("/")) throw new StartError(`cannot write the pidfile "${path}": path not absolute`)
  tryUnlink(path) // a symbolic link, for instance in /tmp, may point to any file
  createFile(path, encodeUtf8(readlink("/proc/self")), 0o644)
}

/** Raises the soft limit of descriptors, often 1024 for a service. Acquiring a lease needs two to five. */
function raiseDescriptorLimit(): void {
  const [, soft = "", hard = ""] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(readTextFile("/proc/self/limits")) ?? []
  const bound = Math.min(Number(hard), 65_536)
  if (Number(soft) < bound) setDescriptorLimit(bound, Number(hard))
}
