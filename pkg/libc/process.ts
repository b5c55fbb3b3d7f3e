import { engine, monotonicMs } from "../engine/mod.ts"
import { type Fd, ioctl } from "./descriptor.ts"
import { check } from "./errno.ts"

const NS_GET_NSTYPE = 0xb703 // <linux/nsfs.h>

/** The type of a network namespace, <linux/sched.h>. */
export const CLONE_NEWNET = 0x40000000

/** Returns unpredictable bytes, like `head -c LENGTH /dev/urandom`; at most 256. Throws `SyscallError`. */
export function randomBytes(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length)
  check("getrandom", "", () => engine.getrandom(bytes, 0)) // getrandom(2) returns up to 256 bytes completely
  return bytes
}

/** Returns random hexadecimal digits, two per byte. */
export function randomHex(byteLength: number): string {
  let text = ""
  for (const byte of randomBytes(byteLength)) text += byte.toString(16).padStart(2, "0")
  return text
}

/** Sleeps for `ms` milliseconds, even if signals arrive. It is for waiting for an event that no descriptor reports. */
export function sleep(ms: number): void {
  const end = monotonicMs() + ms
  for (let left = ms; left > 0; left = end - monotonicMs()) engine.poll(new Int32Array(), Math.ceil(left))
}

/** Returns this process's environment. If a name has several values, returns its first value, like getenv(3). */
export function readEnvironment(): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const entry of engine.environment()) {
    const at = entry.indexOf("=")
    const name = entry.slice(0, at)
    if (at > 0 && !Object.hasOwn(variables, name)) variables[name] = entry.slice(at + 1)
  }
  return variables
}

/** Returns the name by which this program was called, without directories. */
export function programName(): string {
  const [path = ""] = engine.arguments()
  return path.slice(path.lastIndexOf("/") + 1)
}

/** Returns the command line arguments without the program's name. */
export function programArguments(): string[] {
  return engine.arguments().slice(1)
}

/** <asm-generic/ioctls.h> */
const TIOCGWINSZ = 0x5413

/** Returns a terminal's width in characters, 0 if unknown; `undefined` if it is not a terminal. Never throws. */
export function terminalColumns(fd: Fd): number | undefined {
  const size = new Uint16Array(4) // struct winsize: rows, columns
  return engine.ioctlWinsize(fd, TIOCGWINSZ, size) < 0 ? undefined : (size[1] ?? 0)
}

/** Ends this process at once. */
export function exit(status: number): never {
  return engine.exit(status)
}

/** Moves this thread into a namespace, like `nsenter --net`. Only `pkg/netns` calls it. Throws `SyscallError`. */
export function setNetworkNamespace(fd: Fd): void {
  check("setns", { fd }, () => engine.setns(fd, CLONE_NEWNET))
}

/** Moves this thread into a new network namespace, like `unshare --net`. Throws `EPERM` without CAP_SYS_ADMIN. */
export function unshareNetworkNamespace(): void {
  check("unshare", "CLONE_NEWNET", () => engine.unshare(CLONE_NEWNET))
}

/** Returns the type of a descriptor's namespace, `CLONE_NEWNET` for a network's. Throws `ENOTTY` for anything else. */
export function namespaceType(fd: Fd): number {
  return ioctl(fd, "NS_GET_NSTYPE", NS_GET_NSTYPE)
}
