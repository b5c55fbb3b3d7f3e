import { encodeUtf8, engine } from "../engine/mod.ts"
import { type Fd, FileDescriptor, prepared } from "./descriptor.ts"
import { check, errnoNumber, SyscallError } from "./errno.ts"
import { AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM } from "./socket.ts"

/** The maximum length of a path in struct sockaddr_un, without its zero byte, <linux/un.h>. */
const PATH_MAX = 107

/**
 * Listens on a stream socket at a path, like `socat UNIX-LISTEN:PATH`. Accepting a connection never waits. Throws
 * `EADDRINUSE` if the path exists, `ENAMETOOLONG` for a path of more than 107 bytes.
 */
export function listenAt(path: string, backlog = 1024): FileDescriptor {
  const address = addressOf(path)
  return prepared(openSocket(), ({ fd }) => {
    check("bind", { path }, () => engine.bind(fd, address))
    check("listen", { path }, () => engine.listen(fd, backlog))
  })
}

/**
 * Connects to the stream socket at a path, like `socat - UNIX-CONNECT:PATH`. Throws `ENOENT` if the path does not
 * exist, `ECONNREFUSED` if no process listens there, `EAGAIN` if the socket's queue is full.
 */
export function connectTo(path: string): FileDescriptor {
  const address = addressOf(path)
  return prepared(openSocket(), ({ fd }) => {
    check("connect", { path }, () => engine.connect(fd, address))
  })
}

/** Returns the next connection, which never waits to read or write. Throws `EAGAIN` if no client has connected. */
export function acceptConnection(server: Fd): FileDescriptor {
  const flags = SOCK_NONBLOCK | SOCK_CLOEXEC
  return new FileDescriptor(check("accept4", { fd: server }, () => engine.accept4(server, flags)) as Fd)
}

function openSocket(): FileDescriptor {
  const type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK
  return new FileDescriptor(check("socket", "AF_UNIX", () => engine.socket(AF_UNIX, type, 0)) as Fd)
}

/** Returns struct sockaddr_un, unix(7). */
function addressOf(path: string): Uint8Array {
  const name = encodeUtf8(path)
  if (name.length > PATH_MAX) throw new SyscallError("bind", errnoNumber("ENAMETOOLONG"), JSON.stringify(path))
  const address = new Uint8Array(2 + name.length + 1)
  address[0] = AF_UNIX
  address.set(name, 2)
  return address
}
