import { decodeUtf8 } from "../pkg/engine/mod.ts"
import { FileDescriptor, isErrno, Open, readAt, spawn, statOpen } from "../pkg/libc/mod.ts"
import { CniError, Code } from "../pkg/types/mod.ts"

/** The timeout for a plugin's output. A plugin needs milliseconds, or seconds on a busy machine. */
const TIMEOUT_MS = 20_000
const OUTPUT_LIMIT = 64 << 10

/** Values of `e_machine` in <linux/elf-em.h>. */
const machines: Readonly<Record<number, string>> = { 3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv" }

/** Returns fields from the header of a 64-bit ELF file: struct elf64_hdr, <linux/elf.h>. */
function readHeader(path: string) {
  using file = FileDescriptor.open(path, Open.ReadOnly)
  const bytes = new Uint8Array(64)
  readAt(file.fd, bytes, 0)
  const view = new DataView(bytes.buffer)
  const isElf = view.getUint32(0) === 0x7f454c46 && bytes[4] === 2 && bytes[5] === 1 // the ELF signature, 64 bits, little-endian
  const sections = Number(view.getBigUint64(40, true)) + view.getUint16(58, true) * view.getUint16(60, true)
  return { isElf, machine: view.getUint16(18, true), sections, size: statOpen(file.fd).size }
}

/**
 * Throws error code 5 for a file that this machine cannot run: it is not an executable, is for another architecture, or
 * is truncated. A truncated file is too short for the section table, which is at its end.
 */
export function requireExecutable(path: string): void {
  const refuse = (reason: string) => new CniError(Code.Io, `Cannot install "${path}": ${reason}`)
  const { isElf, machine, sections, size } = read(path)
  if (!isElf) throw refuse("it is not a 64-bit executable")
  const own = readHeader("/proc/self/exe").machine
  const name = (number: number) => machines[number] ?? `machine ${number}`
  if (machine !== own) throw refuse(`it is built for ${name(machine)}, but this machine is ${name(own)}`)
  if (size < sections) throw refuse(`it is truncated: it has ${size} of ${sections} bytes`)
}

function read(path: string) {
  try {
    return readHeader(path)
  } catch (cause) {
    throw new CniError(Code.Io, `Cannot install "${path}"`, { cause })
  }
}

/** What a plugin prints when it runs without a command. */
export interface Introduction {
  /** The version: "cni-plugins v0.1.0", "CNI bridge plugin v1.1.1". Undefined for other output. */
  readonly version?: string
  /** Whether the output lists versions of the specification, as plugins of any suite do. */
  readonly isPlugin: boolean
  /** Whether the plugin exited by itself, and not because of a signal or a timeout. */
  readonly hasEnded: boolean
}

/**
 * Runs a plugin without `CNI_COMMAND`, so that it prints its version: two lines on stderr in this suite, one line in
 * the reference suite. Throws `SyscallError` if the kernel cannot start the plugin.
 */
export function introductionOf(file: string): Introduction {
  const ended = spawn({ path: file, env: {}, timeoutMs: TIMEOUT_MS, outputLimit: OUTPUT_LIMIT })
  const text = decodeUtf8(ended.stderr)
  const [version] = /^cni-plugins v[\w.+-]+/m.exec(text) ?? /^CNI \S+ plugin (?:version )?v?[\w.+-]+$/m.exec(text) ?? []
  const hasEnded = !ended.timedOut && ended.signal === undefined
  const isPlugin = /^CNI protocol versions supported: /m.test(text)
  return { hasEnded, isPlugin, ...(version !== undefined && { version }) }
}

/** Reports whether a printed version is that of a plugin of this suite. */
export function isOfThisSuite(version: string | undefined): boolean {
  return version?.startsWith("cni-plugins v") === true
}

/** Returns the version that a plugin prints. Returns `undefined` if it prints none or cannot run. */
export function findVersion(file: string): string | undefined {
  try {
    return introductionOf(file).version
  } catch (error) {
    if (isErrno(error)) return undefined
    throw error
  }
}

/** Returns the version of a plugin of this suite. Throws error code 5 if it cannot run on this machine. */
export function requireVersion(file: string): string {
  const name = file.slice(file.lastIndexOf("/") + 1)
  let version: string | undefined
  try {
    version = introductionOf(file).version
  } catch (cause) {
    const details = isErrno(cause, "EACCES") ? "the directory may be mounted noexec" : undefined
    throw new CniError(Code.Io, `Cannot run the new "${name}"`, { cause, ...(details && { details }) })
  }
  if (version !== undefined) return version
  throw new CniError(
    Code.Io,
    `Cannot install "${name}": run without a command, it does not print its version as plugins do`,
  )
}
