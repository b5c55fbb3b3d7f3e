import type { Cases } from "./contract.fixture.ts"
import { make } from "./contract-parts.fixture.ts"
import type { Engine } from "./engine.ts"

/** <bits/socket.h>, <linux/netlink.h> */
const AF = { unix: 1, inet: 2, netlink: 16 }
const SOCK = { stream: 1, datagram: 2, raw: 3, closeOnExec: 0o2000000 }
const SOL_SOCKET = 1
const MSG = { dontWait: 0x40, truncated: 0x20, noSignal: 0x4000 }
/** <asm-generic/poll.h> */
const POLL = { in: 1, out: 4, error: 8, hangUp: 16, invalid: 32 }

function pair(engine: Engine, type: number): [number, number] {
  const fds = new Int32Array(2)
  engine.socketpair(AF.unix, type | SOCK.closeOnExec, 0, fds)
  return [fds[0] ?? -1, fds[1] ?? -1]
}

function pipe(engine: Engine): [reading: number, writing: number] {
  const fds = new Int32Array(2)
  engine.pipe2(fds, 0o2000000)
  return [fds[0] ?? -1, fds[1] ?? -1]
}

function polled(engine: Engine, ...requests: [fd: number, events: number][]): number[] {
  const array = new Int32Array(requests.flat())
  const ready = engine.poll(array, 0)
  return [ready, ...requests.map((_, at) => (array[2 * at + 1] ?? 0) >>> 16)]
}

const [x, y, z] = [120, 121, 122]
const xyz = Uint8Array.of(x, y, z)
const closed = 1_000_000 // greater than any open descriptor

/** System calls on sockets and pipes, and poll(2). Negative results are errors, <asm-generic/errno.h>. */
export const socketCases: Cases = [
  [
    "socket, EAFNOSUPPORT, ESOCKTNOSUPPORT, EINVAL",
    (e) => [e.socket(AF.unix, SOCK.stream, 0) > 2, e.socket(9999, 1, 0), e.socket(1, 9, 0), e.socket(1, 0x101, 0)],
    [true, -97, -94, -22],
  ],
  [
    "netlink: bind, a request for the loopback device, its answer and sender", // RTM_GETLINK 18, RTM_NEWLINK 16
    (e) => {
      const fd = e.socket(AF.netlink, SOCK.raw | SOCK.closeOnExec, 0)
      const bound = e.bind(fd, Uint8Array.of(16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
      const request = new Uint8Array(32)
      request.set([32, 0, 0, 0, 18, 0, 1]) // struct nlmsghdr, then struct ifinfomsg with index 1
      request[20] = 1
      const [into, from] = [new Uint8Array(32768), new Uint16Array(6).fill(0xffff)]
      const answers = [bound, e.sendto(fd, request, 0), e.recvfrom(fd, into, 0, from) > 100]
      return [...answers, into[4] ?? 0, [...from.subarray(0, 1)], [...from.subarray(2)]]
    },
    [0, 32, true, 16, [16], [0, 0, 0, 0]],
  ],
  [
    "bind: EBADF, ENOTSOCK, EINVAL",
    (e) => [
      e.bind(closed, xyz),
      e.bind(e.open("/dev/null", 0, 0), xyz),
      e.bind(e.socket(AF.netlink, SOCK.raw, 0), xyz),
    ],
    [-9, -88, -22],
  ],
  [
    "setsockopt: SO_RCVTIMEO makes recvfrom end with EAGAIN; EINVAL, ENOTSOCK, ENOPROTOOPT", // 20, <asm-generic/socket.h>
    (e) => {
      const [one] = pair(e, SOCK.datagram)
      const set = (option: number, length: number) =>
        e.setsockopt(one, SOL_SOCKET, option, new Uint8Array(length).fill(1, 8, 9))
      const answers = [set(20, 16), e.recvfrom(one, new Uint8Array(9), 0, new Uint8Array(12))]
      return [...answers, set(20, 3), set(9999, 4), e.setsockopt(e.open("/dev/null", 0, 0), 1, 20, new Uint8Array(16))]
    },
    [0, -11, -22, -92, -88],
  ],
  [
    "sendto and recvfrom: whole messages, MSG_TRUNC's length, EAGAIN",
    (e) => {
      const [one, two] = pair(e, SOCK.datagram)
      const into = new Uint8Array(2)
      const receive = (flags: number) => e.recvfrom(two, into, flags, new Uint8Array(12))
      return [e.sendto(one, xyz, 0), receive(MSG.truncated), [...into], receive(MSG.dontWait)]
    },
    [3, 3, [x, y], -11],
  ],
  [
    "sendto, recvfrom: EBADF, ENOTSOCK",
    (e) => [
      e.sendto(closed, xyz, 0),
      e.sendto(e.open("/dev/null", 1, 0), xyz, 0),
      e.recvfrom(closed, xyz, 0, new Uint8Array(12)),
    ],
    [-9, -88, -9],
  ],
  [
    "recvfrom gets room for 12 bytes of the sender, however long its name is",
    (e) => {
      const [one, two] = pair(e, SOCK.datagram)
      const [from, name] = [new Uint8Array(64).fill(0xee), new Uint8Array(110).fill(x)]
      name.set([AF.unix, 0, 0]) // and an abstract name of 107 bytes, unix(7), which no other process uses
      e.getrandom(name.subarray(12), 0)
      const sent = [e.bind(one, name), e.sendto(one, xyz, 0), e.recvfrom(two, new Uint8Array(9), MSG.dontWait, from)]
      return [...sent, [...from.subarray(0, 12)], from.subarray(12).every((byte) => byte === 0xee)]
    },
    [0, 3, 3, [1, 0, 0, ...Array(9).fill(x)], true],
  ],
  [
    "EPIPE, and the process lives on: of a socket and of a pipe",
    (e) => {
      const [[one, two], [reading, writing]] = [pair(e, SOCK.stream), pipe(e)]
      return [
        e.close(two),
        e.close(reading),
        e.sendto(one, xyz, 0),
        e.sendto(one, xyz, MSG.noSignal),
        e.write(writing, xyz),
      ]
    },
    [0, 0, -32, -32, -32],
  ],
  [
    "connect: what is written arrives at the socket of the address; ECONNREFUSED, EINVAL, ENOTSOCK, EBADF",
    (e) => {
      const [receiver, sender] = [0, 0].map(() => e.socket(AF.unix, SOCK.datagram | SOCK.closeOnExec, 0))
      const address = new Uint8Array(20) // a name without a file, unix(7)
      e.getrandom(address.subarray(3), 0)
      address.set([AF.unix, 0, 0])
      const refused = e.connect(sender ?? -1, address)
      e.bind(receiver ?? -1, address)
      const into = new Uint8Array(3)
      const answers = [
        refused,
        e.connect(sender ?? -1, address),
        e.write(sender ?? -1, xyz),
        e.read(receiver ?? -1, into),
      ]
      const others = [sender ?? -1, e.open("/dev/null", 0, 0), closed].map((fd) => e.connect(fd, xyz.subarray(0, 1)))
      return [...answers, [...into], ...others]
    },
    [-111, 0, 3, 3, [x, y, z], -22, -88, -9],
  ],
  [
    "socketpair: EOPNOTSUPP, EAFNOSUPPORT",
    (e) => [e.socketpair(AF.inet, SOCK.stream, 0, new Int32Array(2)), e.socketpair(9999, 1, 0, new Int32Array(2))],
    [-95, -97],
  ],
  [
    "sendDescriptors: a descriptor on its way keeps its file open, and all of it goes with the socket",
    (e) => {
      const [one, two] = pair(e, SOCK.datagram)
      const [reading, writing] = pipe(e)
      const answers = [
        e.sendDescriptors(one, Int32Array.of(writing)),
        e.close(writing),
        ...polled(e, [reading, POLL.in]),
      ]
      return [...answers, e.close(one), e.close(two), ...polled(e, [reading, POLL.in])]
    },
    [0, 0, 0, 0, 0, 0, 1, POLL.hangUp],
  ],
  [
    "sendDescriptors takes the bytes of any array",
    (e) => {
      const [one] = pair(e, SOCK.datagram)
      return [
        e.sendDescriptors(one, new Uint8Array(Int32Array.of(closed).buffer) as never),
        e.sendDescriptors(one, new Uint8Array(Int32Array.of(0).buffer) as never),
      ]
    },
    [-9, 0],
  ],
  [
    "sendDescriptors: EBADF for one of them, and for the socket; ENOTSOCK",
    (e) => [
      e.sendDescriptors(pair(e, SOCK.datagram)[0], Int32Array.of(0, closed)),
      e.sendDescriptors(closed, Int32Array.of(0)),
      e.sendDescriptors(e.open("/dev/null", 0, 0), Int32Array.of(0)),
    ],
    [-9, -9, -88],
  ],
  [
    "ioctlIfreq: SIOCGIFINDEX fills in what it is asked for; ENODEV, ENOTTY, EBADF", // <linux/sockios.h>
    (e) => {
      const [fd, ifreq] = [e.socket(2, SOCK.datagram, 0), new Uint8Array(48).fill(0xaa)]
      ifreq.set([0x6c, 0x6f, 0], 4) // "lo"
      const answers = [
        e.ioctlIfreq(fd, 0x8933, ifreq.subarray(4, 44)),
        ifreq[4 + 16] ?? 0,
        ifreq[3] ?? 0,
        ifreq[44] ?? 0,
      ]
      ifreq[4] = 0x2f // no link has a "/" in its name
      const refused = [fd, e.open("/dev/null", 0, 0), closed].map((each) =>
        e.ioctlIfreq(each, 0x8933, ifreq.subarray(4)),
      )
      return [...answers, ...refused]
    },
    [0, 1, 0xaa, 0xaa, -19, -25, -9],
  ],
  [
    "setns: EBADF, EINVAL for another type",
    (e) => [e.setns(-1, 0), e.setns(e.open("/proc/self/ns/net", 0, 0), 0x04000000)],
    [-9, -22],
  ],
  [
    "pipe2, EINVAL; what comes out is what went in",
    (e) => {
      const [reading, writing] = pipe(e)
      const into = new Uint8Array(4)
      return [
        e.write(writing, xyz),
        e.read(reading, into),
        [...into],
        e.fcntl(reading, 1, 0),
        e.pipe2(new Int32Array(2), 1),
      ]
    },
    [3, 3, [x, y, z, 0], 1, -22],
  ],
  [
    "poll: ready ones among others, in their order",
    (e) => {
      const [[empty], [full, writing]] = [pipe(e), pipe(e)]
      e.write(writing, xyz)
      return polled(e, [empty, POLL.in], [full, POLL.in], [writing, POLL.out], [-1, POLL.in], [closed, POLL.in])
    },
    [3, 0, POLL.in, POLL.out, 0, POLL.invalid],
  ],
  [
    "poll: the end of the reader is an error for the writer",
    (e) => [pipe(e)].flatMap(([reading, writing]) => [e.close(reading), ...polled(e, [writing, POLL.out])]),
    [0, 1, POLL.out | POLL.error],
  ],
  [
    "poll waits for as long as it is told, and without requests it only waits",
    (e) => {
      const before = e.monotonicMs()
      const answers = [e.poll(new Int32Array(), 12), e.poll(Int32Array.of(pipe(e)[0], POLL.in), 12)]
      return [...answers, e.monotonicMs() - before >= 24]
    },
    [0, 0, true],
  ],
  ["poll looks past what is less than a request", (e) => e.poll(Int32Array.of(closed), 0), 0],
]

export const privilegedCases: Cases = [
  ["unshare: nothing, and EINVAL for what is not a namespace", (e) => [e.unshare(0), e.unshare(1)], [0, -22]],
  ["setns into the own namespace", (e) => e.setns(e.open("/proc/self/ns/net", 0, 0), 0x40000000), 0],
  [
    "fsetxattr, lgetxattr; ERANGE for an array too small",
    (e, at) => {
      const set = e.fsetxattr(make(e, at("a")), "trusted.cni", Uint8Array.of(1, 2, 3), 0)
      const into = new Uint8Array(4)
      const length = e.lgetxattr(at("a"), "trusted.cni", into)
      return [set, length, [...into], e.lgetxattr(at("a"), "trusted.cni", into.subarray(0, 2))]
    },
    [0, 3, [1, 2, 3, 0], -34],
  ],
]
