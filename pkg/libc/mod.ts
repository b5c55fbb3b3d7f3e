/**
 * System calls through the engine's interface: thin functions that throw `SyscallError` with the name of the errno. All
 * of them are synchronous, and repeat a call that a signal interrupts.
 *
 * @example
 * using file = FileDescriptor.open("/proc/sys/net/ipv4/ip_forward", Open.ReadOnly)
 * try { unlink(path) } catch (error) { if (!isErrno(error, "ENOENT")) throw error }
 */
export { BootTimer, bootMs, processorShare } from "./clocks.ts"
export * from "./descriptor.ts"
export * from "./directories.ts"
export {
  check,
  type ErrnoName,
  errnoName,
  errnoNumber,
  isErrno,
  isShortage,
  SyscallError,
  unlessErrno,
} from "./errno.ts"
export * from "./files.ts"
export * from "./host.ts"
export { lockWithin, tryLock, tryLockShared, watchClosing } from "./lock.ts"
export * from "./packet-socket.ts"
export { basename, dirname, join, resolve, resolveIn } from "./path.ts"
export * from "./process.ts"
export { execveTexts, type Program, Running, type Spawn, type Spawned } from "./running.ts"
export { type PollRequest, pollAll, Signal, setDescriptorLimit, unwatchSignals, watchSignals } from "./service.ts"
export * from "./socket.ts"
export { spawn } from "./spawn.ts"
export {
  exists,
  type FileSystem,
  fileSystemType,
  findStat,
  isDirectory,
  isRegularFile,
  isSymlink,
  type Stat,
  stat,
  statFileSystem,
  statOpen,
} from "./stat.ts"
export { acceptConnection, connectTo, listenAt } from "./unix-socket.ts"
