/**
 * System calls, by the engine's door: thin functions that throw `SyscallError` with the name of the error. Everything is
 * synchronous and retries after a signal.
 *
 * @example
 * using file = FileDescriptor.open("/proc/sys/net/ipv4/ip_forward", Open.ReadOnly)
 * try { unlink(path) } catch (error) { if (!isErrno(error, "ENOENT")) throw error }
 */
export { BootTimer, bootMs, processMs } from "./clocks.ts"
export {
  close,
  duplicate,
  type Fd,
  FileDescriptor,
  findFileForWriting,
  ioctl,
  ioctlIfreq,
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
  findFile,
  link,
  makeDirectories,
  readAt,
  readDirectory,
  readFile,
  readlink,
  readTextAtOnce,
  readTextFile,
  readToEnd,
  removeDirectory,
  rename,
  setModified,
  sync,
  syncPath,
  truncate,
  tryUnlink,
  tryUnnamedFile,
  unlink,
  writeAt,
  writeExisting,
} from "./files.ts"
export { lockWithin, tryLock, tryLockShared, watchClosing } from "./lock.ts"
export { encodeFilter, type FilterInstruction, PacketSocket } from "./packet-socket.ts"
export {
  CLONE_NEWNET,
  exit,
  namespaceType,
  programArguments,
  programName,
  randomBytes,
  randomHex,
  readEnvironment,
  setNetworkNamespace,
  sleep,
} from "./process.ts"
export { type PollRequest, pollAll, Signal, setDescriptorLimit, watchSignals } from "./service.ts"
export {
  leaveToKernel,
  MSG_DONTWAIT,
  MSG_PEEK,
  MSG_TRUNC,
  NetlinkSender,
  openNetlink,
  receive,
  sendToKernel,
  setReceiveTimeout,
  setSocketOption,
} from "./socket.ts"
export { type Spawn, type Spawned, spawn } from "./spawn.ts"
export { fileSystemType, findStat, isDirectory, isRegularFile, isSymlink, type Stat, stat, statOpen } from "./stat.ts"
export { acceptConnection, connectTo, listenAt } from "./unix-socket.ts"
