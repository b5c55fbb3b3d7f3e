/**
 * System calls, by the engine's door: thin functions that throw `SyscallError` with the name of the error. Everything is
 * synchronous and retries after a signal.
 *
 * @example
 * using file = FileDescriptor.open("/proc/sys/net/ipv4/ip_forward", Open.ReadOnly)
 * try { unlink(path) } catch (error) { if (!isErrno(error, "ENOENT")) throw error }
 */
export {
  close,
  duplicate,
  type Fd,
  FileDescriptor,
  Open,
  open,
  Poll,
  poll,
  read,
  write,
  writeAll,
} from "./descriptor.ts"
export { type ErrnoName, errnoName, errnoNumber, isErrno, SyscallError } from "./errno.ts"
export {
  createFile,
  link,
  lockShared,
  makeDirectories,
  readAt,
  readDirectory,
  readFile,
  readFileIfThere,
  readlink,
  readTextFile,
  readToEnd,
  removeDirectory,
  rename,
  setModified,
  symlink,
  sync,
  syncDirectory,
  truncate,
  tryLock,
  unlink,
  unlinkIfThere,
  writeAt,
  writeExisting,
} from "./files.ts"
export { watchClosing } from "./lock.ts"
export {
  CLONE_NEWNET,
  leaveToKernel,
  MSG_DONTWAIT,
  MSG_PEEK,
  MSG_TRUNC,
  NetlinkSender,
  namespaceType,
  openNetlink,
  receive,
  sendToKernel,
  setNetworkNamespace,
  setReceiveTimeout,
  setSocketOption,
} from "./network.ts"
export { exit, programName, randomBytes, randomHex, readEnvironment, sleep } from "./process.ts"
export { type Spawn, type Spawned, spawn } from "./spawn.ts"
export { isDirectory, isRegularFile, type Stat, stat, statOpen } from "./stat.ts"
