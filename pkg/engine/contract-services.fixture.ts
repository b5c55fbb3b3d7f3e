import type { Cases } from "./contract.fixture.ts"
import { O } from "./contract-parts.fixture.ts"
import type { Engine } from "./engine.ts"

/** <bits/socket.h> */
const AF_UNIX = 1
const SOCK = { stream: 1, datagram: 2, nonBlocking: 0o4000, closeOnExec: 0o2000000 }
/** <linux/time.h>, <linux/timerfd.h> */
const CLOCK_BOOTTIME = 7
const TFD_TIMER_ABSTIME = 1
/** <bits/signum-generic.h>, <bits/sigaction.h> */
const SIGUSR2 = 12
const SIG = { block: 0, unblock: 1 }
const closed = 1_000_000 // greater than any open descriptor

/** Returns struct sockaddr_un, unix(7). */
function addressOf(engine: Engine, path: string): Uint8Array {
  const name = engine.encodeUtf8(path)
  const address = new Uint8Array(2 + name.length + 1)
  address[0] = AF_UNIX
  address.set(name, 2)
  return address
}

/** Returns a path that is short enough for a socket, at most 107 bytes. */
function shortPath(engine: Engine): string {
  const bytes = new Uint8Array(8)
  engine.getrandom(bytes, 0)
  return `/tmp/.${[...bytes].map((byte) => byte.toString(16)).join("")}`
}

function listening(engine: Engine, path: string): number {
  const fd = engine.socket(AF_UNIX, SOCK.stream | SOCK.nonBlocking | SOCK.closeOnExec, 0)
  engine.bind(fd, addressOf(engine, path))
  engine.listen(fd, 5)
  return fd
}

const connecting = (engine: Engine) => engine.socket(AF_UNIX, SOCK.stream | SOCK.closeOnExec, 0)
const setOf = (signal: number) => new BigUint64Array([1n << BigInt(signal - 1)])

export const serviceCases: Cases = [
  [
    "listen, connect, accept4: EAGAIN before the first who connects; what one writes the other reads",
    (e) => {
      const path = shortPath(e)
      const server = listening(e, path)
      const none = e.accept4(server, SOCK.closeOnExec)
      const client = connecting(e)
      const connected = e.connect(client, addressOf(e, path))
      const peer = e.accept4(server, SOCK.closeOnExec | SOCK.nonBlocking)
      const into = new Uint8Array(4)
      const answers = [none, connected, peer > 2, e.read(peer, into), e.write(client, Uint8Array.of(7, 8))]
      return [...answers, e.read(peer, into), [...into], e.unlink(path)]
    },
    [-11, 0, true, -11, 2, 2, [7, 8, 0, 0], 0],
  ],
  [
    "connect: ECONNREFUSED where a socket is left over, ENOENT, EINVAL, ENOTSOCK, EBADF",
    (e, at) => {
      const path = shortPath(e)
      e.close(listening(e, path))
      const refused = e.connect(connecting(e), addressOf(e, path))
      const none = e.connect(connecting(e), addressOf(e, `${path}/absent`))
      const file = e.open(at("file"), O.both | O.create, 0o600)
      const address = addressOf(e, path)
      const others = [connecting(e), file, closed].map((fd, which) =>
        e.connect(fd, which === 0 ? address.subarray(0, 1) : address),
      )
      return [refused, none, ...others, e.unlink(path)]
    },
    [-111, -20, -22, -88, -9, 0],
  ],
  [
    "listen, accept4: EOPNOTSUPP for datagrams, EINVAL for a socket that does not listen, ENOTSOCK, EBADF",
    (e) => [
      e.listen(e.socket(AF_UNIX, SOCK.datagram, 0), 1),
      e.accept4(connecting(e), 0),
      e.accept4(connecting(e), 1),
      e.listen(e.open("/dev/null", 0, 0), 1),
      e.accept4(e.open("/dev/null", 0, 0), 0),
      e.listen(closed, 1),
      e.accept4(closed, 0),
    ],
    [-95, -22, -22, -88, -88, -9, -9],
  ],
  [
    "getsockopt: SO_TYPE 3, ENOPROTOOPT, EBADF, ENOTSOCK",
    (e) => {
      const [socket, into] = [connecting(e), new Int32Array(1)]
      const type = [e.getsockopt(socket, 1, 3, into), into[0] ?? 0]
      const wrong = [socket, closed, e.open("/dev/null", 0, 0)].map((fd) => e.getsockopt(fd, 1, 999, into))
      return [...type, ...wrong]
    },
    [0, 1, -92, -9, -88],
  ],
  [
    "attachFilter: only what the filter lets through arrives; EINVAL for no program, EBADF, ENOTSOCK",
    (e) => {
      const pair = new Int32Array(2)
      e.socketpair(AF_UNIX, SOCK.datagram | SOCK.nonBlocking, 0, pair)
      const [one = -1, two = -1] = pair
      // ldb [0]; jeq #7, accept, drop; <linux/bpf_common.h>: code, jt and jf, k
      const program = new Uint16Array([0x30, 0, 0, 0, 0x15, 1, 7, 0, 0x06, 0, 0, 0, 0x06, 0, 0xffff, 0])
      const attached = e.attachFilter(two, program)
      e.write(one, Uint8Array.of(6))
      e.write(one, Uint8Array.of(7, 1))
      const into = new Uint8Array(2)
      const received = [e.read(two, into), [...into], e.read(two, into)]
      const wrong = [two, closed, e.open("/dev/null", 0, 0)].map((fd) =>
        e.attachFilter(fd, fd === two ? new Uint8Array(7) : program),
      )
      return [attached, ...received, ...wrong]
    },
    [0, 2, [7, 1], -11, -22, -9, -88],
  ],
  [
    "rt_sigprocmask, signalfd4: a blocked signal waits to be read", // struct signalfd_siginfo has 128 bytes
    (e) => {
      const set = setOf(SIGUSR2)
      const fd = e.signalfd4(-1, set, 8, SOCK.nonBlocking | SOCK.closeOnExec)
      const into = new Uint8Array(128)
      return [fd > 2, e.read(fd, into), e.rt_sigprocmask(SIG.block, set, 8), e.rt_sigprocmask(SIG.unblock, set, 8)]
    },
    [true, -11, 0, 0],
  ],
  [
    "rt_sigprocmask, signalfd4: EINVAL, EBADF",
    (e) => [
      e.rt_sigprocmask(9, setOf(SIGUSR2), 8),
      e.rt_sigprocmask(SIG.block, setOf(SIGUSR2), 4),
      e.signalfd4(-1, setOf(SIGUSR2), 4, 0),
      e.signalfd4(e.open("/dev/null", 0, 0), setOf(SIGUSR2), 8, 0),
      e.signalfd4(closed, setOf(SIGUSR2), 8, 0),
    ],
    [-22, -22, -22, -22, -9],
  ],
  [
    "prlimit64: EINVAL for a limit above its own bound, and for none; ESRCH",
    (e) => [
      e.prlimit64(0, 7, new BigUint64Array([2n, 1n])),
      e.prlimit64(0, 99, new BigUint64Array(2)),
      e.prlimit64(2 ** 31 - 1, 7, new BigUint64Array(2)),
    ],
    [-22, -22, -3],
  ],
  [
    "clock_gettime, timerfd: a timer of CLOCK_BOOTTIME is readable when its time has come, and no sooner",
    (e) => {
      const now = new BigUint64Array(2)
      const fd = e.timerfd_create(CLOCK_BOOTTIME, SOCK.nonBlocking | SOCK.closeOnExec)
      const results = [fd > 2, e.clock_gettime(CLOCK_BOOTTIME, now), (now[0] ?? 0n) > 0n]
      const at = (seconds: bigint) => new BigUint64Array([0n, 0n, (now[0] ?? 0n) + seconds, 0n])
      const into = new Uint8Array(8)
      results.push(e.timerfd_settime(fd, TFD_TIMER_ABSTIME, at(1000n)) === 0, e.read(fd, into) === -11)
      results.push(e.timerfd_settime(fd, TFD_TIMER_ABSTIME, at(0n)) === 0)
      return [...results, e.poll(Int32Array.of(fd, 1), -1), e.read(fd, into)]
    },
    [true, 0, true, true, true, true, 1, 8],
  ],
  [
    "clock_gettime, timerfd: EINVAL, EBADF",
    (e) => [
      e.clock_gettime(99, new BigUint64Array(2)),
      e.timerfd_create(99, 0),
      e.timerfd_create(CLOCK_BOOTTIME, 1),
      e.timerfd_settime(closed, 0, new BigUint64Array(4)),
      e.timerfd_settime(e.open("/dev/null", 0, 0), 0, new BigUint64Array(4)),
      e.timerfd_settime(e.timerfd_create(CLOCK_BOOTTIME, 0), 0, new BigUint64Array([0n, 0n, 0n, 10n ** 9n])),
    ],
    [-22, -22, -22, -9, -22, -22],
  ],
  [
    "integers of 32 bits, with a sign or without, reach the kernel from the smallest to the largest",
    (e) =>
      [-(2 ** 31), 2 ** 32 - 1].flatMap((value) => [
        e.pidfd_open(value, value),
        e.rt_sigprocmask(value, setOf(SIGUSR2), 8),
        e.rt_sigprocmask(SIG.block, setOf(SIGUSR2), value),
        e.signalfd4(value, setOf(SIGUSR2), 8, value),
        e.signalfd4(-1, setOf(SIGUSR2), value, 0),
        e.attachFilter(value, new Uint8Array(8)),
        e.sendDescriptors(value, Int32Array.of(0)),
        e.fcntl(value, 1, 0),
      ]),
    [...[-22, -22, -22, -22, -22, -9, -9, -9], ...[-22, -22, -22, -22, -22, -9, -9, -9]],
  ],
  [
    "a filter has 4096 instructions at most, and 8 descriptors are sent at once",
    (e) => {
      const attempt = (run: () => number) => {
        try {
          return run()
        } catch (error) {
          return (error as Error).name
        }
      }
      return [
        attempt(() => e.attachFilter(closed, new Uint8Array(8 * 4096))),
        attempt(() => e.attachFilter(closed, new Uint8Array(8 * 4096 + 1))),
        attempt(() => e.sendDescriptors(closed, new Int32Array(8))),
        attempt(() => e.sendDescriptors(closed, new Int32Array(9))),
      ]
    },
    [-9, "RangeError", -9, "RangeError"],
  ],
  ["collectGarbage answers nothing", (e) => e.collectGarbage() === undefined, true],
]
