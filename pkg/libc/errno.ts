/** <asm-generic/errno-base.h>: no such file; interrupted by a signal. */
const ENOENT = 2
export const EINTR = 4

/** The error for a failed system call. It does not leave the process: plugins turn it into a `CniError`. */
export class SyscallError extends Error {
  override readonly name = "SyscallError"
  /** The name of the errno, such as "ENOENT". */
  readonly errno: string
  /** The name of the system call, such as "open". */
  readonly call: string

  constructor(call: string, number: number, object = "") {
    const name = errnoName(number)
    super(`${object === "" ? call : `${call} ${object}`}: ${errnoText(number)} (${name})`)
    this.errno = name
    this.call = call
  }
}

/** Reports whether a value is a system call's or netlink's error with an errno in `names`, or any if there are none. */
export function isErrno(error: unknown, ...names: ErrnoName[]): error is Error & { errno: string } {
  if (!(error instanceof Error && "errno" in error)) return false
  return names.length === 0 || names.some((name) => name === error.errno)
}

/**
 * Reports whether an error has a cause other than the request itself: the kernel is busy, memory or descriptors have
 * run out, or the caller lacks a permission.
 */
export function isShortage(error: unknown): boolean {
  return isErrno(
    error,
    "EPERM",
    "EACCES",
    "ENOMEM",
    "ENOBUFS",
    "EMFILE",
    "ENFILE",
    "EAGAIN",
    "EBUSY",
    "EINTR",
    "EIO",
    "EBADMSG",
  )
}

/** Calls `act` and returns its result; undefined if it throws one of these errors, as for a change already made. */
export function unlessErrno<T>(act: () => T, ...names: ErrnoName[]): T | undefined {
  try {
    return act()
  } catch (error) {
    if (isErrno(error, ...names)) return undefined
    throw error
  }
}

/** The object of a system call, for error messages. A path is quoted only when an error is thrown. */
export type CallObject = string | { readonly path: string; readonly to?: string } | { readonly fd: number }

function describe(object: CallObject): string {
  if (typeof object === "string") return object
  if ("fd" in object) return `descriptor ${object.fd}`
  const path = JSON.stringify(object.path)
  return object.to === undefined ? path : `${path} to ${JSON.stringify(object.to)}`
}

/** Makes a system call, again if a signal interrupts it, and returns its result. Throws `SyscallError`. */
export function check(call: string, object: CallObject, attempt: () => number): number {
  let answer = attempt()
  while (answer === -EINTR) answer = attempt()
  if (answer < 0) throw new SyscallError(call, -answer, describe(object))
  return answer
}

/** Like `check`, but returns undefined for `ENOENT`: objects are often missing, and exceptions expensive. */
export function find(call: string, object: CallObject, attempt: () => number): number | undefined {
  let answer = attempt()
  while (answer === -EINTR) answer = attempt()
  return answer === -ENOENT ? undefined : check(call, object, () => answer)
}

/**
 * Linux' errors. The index in the list is the error number: 2 is ENOENT. Names and numbers are those of
 * <asm-generic/errno-base.h> and <asm-generic/errno.h>, the same on x86-64 and arm64. The texts are always those
 * of glibc's strerror(3).
 */
const errors = [
  ["", ""],
  ["EPERM", "Operation not permitted"],
  ["ENOENT", "No such file or directory"],
  ["ESRCH", "No such process"],
  ["EINTR", "Interrupted system call"],
  ["EIO", "Input/output error"],
  ["ENXIO", "No such device or address"],
  ["E2BIG", "Argument list too long"],
  ["ENOEXEC", "Exec format error"],
  ["EBADF", "Bad file descriptor"],
  ["ECHILD", "No child processes"],
  ["EAGAIN", "Resource temporarily unavailable"],
  ["ENOMEM", "Cannot allocate memory"],
  ["EACCES", "Permission denied"],
  ["EFAULT", "Bad address"],
  ["ENOTBLK", "Block device required"],
  ["EBUSY", "Device or resource busy"],
  ["EEXIST", "File exists"],
  ["EXDEV", "Invalid cross-device link"],
  ["ENODEV", "No such device"],
  ["ENOTDIR", "Not a directory"],
  ["EISDIR", "Is a directory"],
  ["EINVAL", "Invalid argument"],
  ["ENFILE", "Too many open files in system"],
  ["EMFILE", "Too many open files"],
  ["ENOTTY", "Inappropriate ioctl for device"],
  ["ETXTBSY", "Text file busy"],
  ["EFBIG", "File too large"],
  ["ENOSPC", "No space left on device"],
  ["ESPIPE", "Illegal seek"],
  ["EROFS", "Read-only file system"],
  ["EMLINK", "Too many links"],
  ["EPIPE", "Broken pipe"],
  ["EDOM", "Numerical argument out of domain"],
  ["ERANGE", "Numerical result out of range"],
  ["EDEADLK", "Resource deadlock avoided"],
  ["ENAMETOOLONG", "File name too long"],
  ["ENOLCK", "No locks available"],
  ["ENOSYS", "Function not implemented"],
  ["ENOTEMPTY", "Directory not empty"],
  ["ELOOP", "Too many levels of symbolic links"],
  ["", ""],
  ["ENOMSG", "No message of desired type"],
  ["EIDRM", "Identifier removed"],
  ["ECHRNG", "Channel number out of range"],
  ["EL2NSYNC", "Level 2 not synchronized"],
  ["EL3HLT", "Level 3 halted"],
  ["EL3RST", "Level 3 reset"],
  ["ELNRNG", "Link number out of range"],
  ["EUNATCH", "Protocol driver not attached"],
  ["ENOCSI", "No CSI structure available"],
  ["EL2HLT", "Level 2 halted"],
  ["EBADE", "Invalid exchange"],
  ["EBADR", "Invalid request descriptor"],
  ["EXFULL", "Exchange full"],
  ["ENOANO", "No anode"],
  ["EBADRQC", "Invalid request code"],
  ["EBADSLT", "Invalid slot"],
  ["", ""],
  ["EBFONT", "Bad font file format"],
  ["ENOSTR", "Device not a stream"],
  ["ENODATA", "No data available"],
  ["ETIME", "Timer expired"],
  ["ENOSR", "Out of streams resources"],
  ["ENONET", "Machine is not on the network"],
  ["ENOPKG", "Package not installed"],
  ["EREMOTE", "Object is remote"],
  ["ENOLINK", "Link has been severed"],
  ["EADV", "Advertise error"],
  ["ESRMNT", "Srmount error"],
  ["ECOMM", "Communication error on send"],
  ["EPROTO", "Protocol error"],
  ["EMULTIHOP", "Multihop attempted"],
  ["EDOTDOT", "RFS specific error"],
  ["EBADMSG", "Bad message"],
  ["EOVERFLOW", "Value too large for defined data type"],
  ["ENOTUNIQ", "Name not unique on network"],
  ["EBADFD", "File descriptor in bad state"],
  ["EREMCHG", "Remote address changed"],
  ["ELIBACC", "Can not access a needed shared library"],
  ["ELIBBAD", "Accessing a corrupted shared library"],
  ["ELIBSCN", ".lib section in a.out corrupted"],
  ["ELIBMAX", "Attempting to link in too many shared libraries"],
  ["ELIBEXEC", "Cannot exec a shared library directly"],
  ["EILSEQ", "Invalid or incomplete multibyte or wide character"],
  ["ERESTART", "Interrupted system call should be restarted"],
  ["ESTRPIPE", "Streams pipe error"],
  ["EUSERS", "Too many users"],
  ["ENOTSOCK", "Socket operation on non-socket"],
  ["EDESTADDRREQ", "Destination address required"],
  ["EMSGSIZE", "Message too long"],
  ["EPROTOTYPE", "Protocol wrong type for socket"],
  ["ENOPROTOOPT", "Protocol not available"],
  ["EPROTONOSUPPORT", "Protocol not supported"],
  ["ESOCKTNOSUPPORT", "Socket type not supported"],
  ["EOPNOTSUPP", "Operation not supported"],
  ["EPFNOSUPPORT", "Protocol family not supported"],
  ["EAFNOSUPPORT", "Address family not supported by protocol"],
  ["EADDRINUSE", "Address already in use"],
  ["EADDRNOTAVAIL", "Cannot assign requested address"],
  ["ENETDOWN", "Network is down"],
  ["ENETUNREACH", "Network is unreachable"],
  ["ENETRESET", "Network dropped connection on reset"],
  ["ECONNABORTED", "Software caused connection abort"],
  ["ECONNRESET", "Connection reset by peer"],
  ["ENOBUFS", "No buffer space available"],
  ["EISCONN", "Transport endpoint is already connected"],
  ["ENOTCONN", "Transport endpoint is not connected"],
  ["ESHUTDOWN", "Cannot send after transport endpoint shutdown"],
  ["ETOOMANYREFS", "Too many references: cannot splice"],
  ["ETIMEDOUT", "Connection timed out"],
  ["ECONNREFUSED", "Connection refused"],
  ["EHOSTDOWN", "Host is down"],
  ["EHOSTUNREACH", "No route to host"],
  ["EALREADY", "Operation already in progress"],
  ["EINPROGRESS", "Operation now in progress"],
  ["ESTALE", "Stale file handle"],
  ["EUCLEAN", "Structure needs cleaning"],
  ["ENOTNAM", "Not a XENIX named type file"],
  ["ENAVAIL", "No XENIX semaphores available"],
  ["EISNAM", "Is a named type file"],
  ["EREMOTEIO", "Remote I/O error"],
  ["EDQUOT", "Disk quota exceeded"],
  ["ENOMEDIUM", "No medium found"],
  ["EMEDIUMTYPE", "Wrong medium type"],
  ["ECANCELED", "Operation canceled"],
  ["ENOKEY", "Required key not available"],
  ["EKEYEXPIRED", "Key has expired"],
  ["EKEYREVOKED", "Key has been revoked"],
  ["EKEYREJECTED", "Key was rejected by service"],
  ["EOWNERDEAD", "Owner died"],
  ["ENOTRECOVERABLE", "State not recoverable"],
  ["ERFKILL", "Operation not possible due to RF-kill"],
  ["EHWPOISON", "Memory page has hardware error"],
] as const

/** An errno inside the kernel, so not in the table. Netlink and some sockets return it nevertheless. */
const ENOTSUPP = 524

/** The name of an errno, as in <errno.h>. */
export type ErrnoName = Exclude<(typeof errors)[number][0], ""> | "ENOTSUPP"

/** Returns the number of an errno: 2 for "ENOENT". */
export function errnoNumber(name: ErrnoName): number {
  return name === "ENOTSUPP" ? ENOTSUPP : errors.findIndex(([known]) => known === name)
}

/** Returns the name of an error number: "ENOENT" for 2, "errno 1234" for a number that is not in the table. */
export function errnoName(errno: number): string {
  return errno === ENOTSUPP ? "ENOTSUPP" : errors[errno]?.[0] || `errno ${errno}`
}

/** Returns the text of an error number: "No such file or directory" for 2. */
export function errnoText(errno: number): string {
  return errors[errno]?.[1] || `Unknown error ${errno}`
}
