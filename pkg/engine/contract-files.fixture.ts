import type { Cases } from "./contract.fixture.ts"
import { here, list, make, O, room, statOf } from "./contract-parts.fixture.ts"

const basicStats = 0x7ff // STATX_BASIC_STATS, <linux/stat.h>

/** System calls on files. Negative results are errors, <asm-generic/errno-base.h>; see each call's manual page. */
export const fileCases: Cases = [
  ["open makes a file and answers a descriptor above 2", (e, at) => make(e, at("a")) > 2, true],
  ["open: ENOENT", (e, at) => e.open(at("absent"), O.read, 0), -2],
  [
    "open: EEXIST for O_EXCL",
    (e, at) => [make(e, at("a")) > 2, e.open(at("a"), O.create | O.exclusive, 0)],
    [true, -17],
  ],
  ["open: EISDIR for writing", (e) => e.open("/", O.write, 0), -21],
  ["open: ENAMETOOLONG", (e, at) => e.open(at("x".repeat(256)), O.read, 0), -36],
  ["open: EINVAL for a text with NUL, with any path before it", (e) => e.open("/\0/x", O.read, 0), -22],
  ["open takes a name that is no ASCII", (e, at) => [make(e, at("é☃😀")) > 2, e.unlink(at("é☃😀"))], [true, 0]],
  [
    "open: a lone surrogate is U+FFFD",
    (e, at) => [
      make(e, at("a\ud800b")) > 2,
      e.unlink(at("a\ufffdb")),
      make(e, at("\udc00")) > 2,
      e.unlink(at("\ufffd")),
    ],
    [true, 0, true, 0],
  ],
  [
    "close, and EBADF for the second time",
    (e, at) => [make(e, at("a"))].flatMap((fd) => [e.close(fd), e.close(fd)]),
    [0, -9],
  ],
  ["close: EBADF", (e) => e.close(-1), -9],
  [
    "read fills an array from its start and stops at the end of the file",
    (e, at) => {
      make(e, at("a"), "abc")
      const [fd, into] = [e.open(at("a"), O.read, 0), room(5)]
      return [e.read(fd, into), list(into), e.read(fd, into)]
    },
    [3, [97, 98, 99, 0, 0], 0],
  ],
  [
    "read fills a part of an array and nothing beside it",
    (e, at) => {
      make(e, at("a"), "abcdef")
      const into = room(6)
      return [e.read(e.open(at("a"), O.read, 0), into.subarray(2, 4)), list(into)]
    },
    [2, [0, 0, 97, 98, 0, 0]],
  ],
  [
    "read counts bytes, not elements, in an array of larger numbers",
    (e, at) => {
      make(e, at("a"), "abcdefgh")
      const into = new Uint16Array(5)
      return [e.read(e.open(at("a"), O.read, 0), into.subarray(1, 4)), list(into)]
    },
    [6, [0, 0x6261, 0x6463, 0x6665, 0]],
  ],
  ["read of nothing", (e, at) => [make(e, at("a"), "abc")].map((fd) => e.read(fd, room(0))), [0]],
  ["read: EBADF", (e) => [e.read(-1, room(1)), e.read(-1, room(0))], [-9, -9]],
  ["read: EISDIR", (e) => e.read(e.open("/", O.read, 0), room(1)), -21],
  [
    "write takes a part of an array",
    (e, at) => [e.write(make(e, at("a")), Uint8Array.of(1, 2, 3, 4).subarray(1, 3)), statOf(e, at("a")).size],
    [2, 2],
  ],
  ["write of nothing", (e, at) => e.write(make(e, at("a")), room(0)), 0],
  [
    "write: EBADF for a descriptor that is open for reading",
    (e) => e.write(e.open("/dev/null", O.read, 0), room(1)),
    -9,
  ],
  ["write: ENOSPC", (e) => e.write(e.open("/dev/full", O.write, 0), room(1)), -28],
  [
    "pread and pwrite at an offset beyond 32 bits",
    (e, at) => {
      const [fd, into] = [make(e, at("a")), room(3)]
      return [e.pwrite(fd, Uint8Array.of(7, 8), 5 * 2 ** 30), e.pread(fd, into, 5 * 2 ** 30 - 1), list(into)]
    },
    [2, 3, [0, 7, 8]],
  ],
  ["pread far beyond the end", (e, at) => e.pread(make(e, at("a"), "abc"), room(3), 2 ** 53), 0],
  [
    "pread, pwrite: EINVAL for an offset below zero",
    (e, at) => [e.pread(make(e, at("a")), room(1), -1), e.pwrite(make(e, at("b")), room(1), -1)],
    [-22, -22],
  ],
  [
    "pread, pwrite: ESPIPE for a pipe",
    (e) => {
      const pair = new Int32Array(2)
      e.pipe2(pair, 0)
      return [e.pread(pair[0] ?? -1, room(1), 0), e.pwrite(pair[1] ?? -1, room(1), 0)]
    },
    [-29, -29],
  ],
  [
    "ftruncate",
    (e, at) => [e.ftruncate(make(e, at("a"), "abc"), 2 ** 32 + 1), statOf(e, at("a")).size],
    [0, 2 ** 32 + 1],
  ],
  ["ftruncate: EINVAL, EBADF", (e, at) => [e.ftruncate(make(e, at("a")), -1), e.ftruncate(-1, 0)], [-22, -9]],
  ["fsync, and EBADF", (e, at) => [e.fsync(make(e, at("a"))), e.fsync(-1)], [0, -9]],
  [
    "flock: EAGAIN for the lock of another", // LOCK_EX 2, LOCK_NB 4, LOCK_UN 8
    (e, at) => {
      const [one, two] = [make(e, at("a")), e.open(at("a"), O.read, 0)]
      return [e.flock(one, 6), e.flock(two, 6), e.flock(one, 8), e.flock(two, 6), e.flock(-1, 6), e.flock(one, 0)]
    },
    [0, -11, 0, 0, -9, -22],
  ],
  [
    "fcntl", // F_GETFD 1, F_GETFL 3, F_SETFL 4, F_SETPIPE_SZ 1031
    (e, at) => {
      const fd = make(e, at("a"))
      const flags = [e.fcntl(fd, 4, O.nonBlocking), e.fcntl(fd, 3, 0) & O.nonBlocking]
      return [e.fcntl(fd, 1, 0), ...flags, e.fcntl(-1, 1, 0), e.fcntl(fd, 9999, 0), e.fcntl(fd, 1031, 4096)]
    },
    [1, 0, O.nonBlocking, -9, -22, -9],
  ],
  [
    "ioctl: FIONCLEX, FIOCLEX, a namespace's type; ENOTTY, EBADF", // <asm-generic/ioctls.h>, <linux/nsfs.h>
    (e, at) => {
      const [fd, namespace] = [make(e, at("a")), e.open("/proc/self/ns/net", O.read, 0)]
      const flags = [e.ioctl(fd, 0x5450, 0), e.fcntl(fd, 1, 0), e.ioctl(fd, 0x5451, 0), e.fcntl(fd, 1, 0)]
      return [...flags, e.ioctl(namespace, 0xb703, 0), e.ioctl(fd, 0xb703, 0), e.ioctl(-1, 0x5451, 0)]
    },
    [0, 0, 0, 1, 0x40000000, -25, -9],
  ],
  [
    "ioctl: a request's value reaches the kernel", // TCFLSH with TCIFLUSH 0, and with a value that does not exist
    (e) => [e.open("/dev/ptmx", O.both, 0)].flatMap((fd) => [e.ioctl(fd, 0x540b, 0), e.ioctl(fd, 0x540b, 99)]),
    [0, -22],
  ],
  [
    "ioctlWinsize: a terminal's size as it was set, ENOTTY, EBADF", // TIOCSWINSZ 0x5414, TIOCGWINSZ 0x5413
    (e, at) => {
      const [terminal, file, into] = [e.open("/dev/ptmx", O.both, 0), make(e, at("a")), new Uint16Array(4)]
      const set = e.ioctlWinsize(terminal, 0x5414, new Uint16Array([24, 132, 0, 0]))
      return [
        set,
        e.ioctlWinsize(terminal, 0x5413, into),
        list(into),
        ...[file, -1].map((fd) => e.ioctlWinsize(fd, 0x5413, into)),
      ]
    },
    [0, 0, [24, 132, 0, 0], -25, -9],
  ],
  [
    "fsetxattr: EBADF; EOPNOTSUPP for a name of no class",
    (e, at) => [e.fsetxattr(-1, "user.a", room(1), 0), e.fsetxattr(make(e, at("a")), "a", room(1), 0)],
    [-9, -95],
  ],
  [
    "statx",
    (e, at) => [make(e, at("a"), "abc") > 2, statOf(e, at("a")).mode, statOf(e, at("a")).size],
    [true, 0o100600, 3],
  ],
  [
    "statx of a descriptor (AT_EMPTY_PATH), into the middle of a larger array",
    (e, at) => {
      const stat = new Uint8Array(300).fill(0xaa)
      const answer = e.statx(make(e, at("a"), "abc"), "", 0x1000, basicStats, stat.subarray(8, 264))
      return [answer, stat[7] ?? 0, stat[8 + 40] ?? 0, stat[264] ?? 0]
    },
    [0, 0xaa, 3, 0xaa],
  ],
  [
    "statx: ENOENT, EBADF, EINVAL",
    (e) => [
      e.statx(here, "", 0, 0, room(256)),
      e.statx(-1, "a", 0, 0, room(256)),
      e.statx(here, "/", -1, 0, room(256)),
    ],
    [-2, -9, -22],
  ],
  [
    "statfs: the type of /proc, PROC_SUPER_MAGIC; ENOENT, ENOTDIR",
    (e) => {
      const into = new Uint32Array(30)
      return [e.statfs("/proc", into), into[0] ?? 0, e.statfs("", into), e.statfs("/dev/null/x", into)]
    },
    [0, 0x9fa0, -2, -20],
  ],
  [
    // FIPS 180-4: "abc", an empty text, a million times "a"; by coreutils' sha256sum
    "sha256 of a whole file, at any position",
    (e, at) => {
      const digest = (fd: number) => {
        const into = room(34)
        const answer = e.sha256(fd, into.subarray(1, 33))
        return [
          answer,
          into[0] ?? 0,
          into[33] ?? 0,
          [...into.subarray(1, 33)].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
        ]
      }
      const long = make(e, at("long"), "a".repeat(1_000_000))
      return [
        make(e, at("a"), "abc"),
        make(e, at("b")),
        make(e, at("c"), "a".repeat(55)),
        make(e, at("d"), "a".repeat(56)),
        make(e, at("e"), "a".repeat(64)),
        long,
      ].map(digest)
    },
    [
      [0, 0, 0, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
      [0, 0, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
      [0, 0, 0, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"],
      [0, 0, 0, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"],
      [0, 0, 0, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"],
      [0, 0, 0, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
    ],
  ],
  ["sha256: EBADF, EISDIR", (e) => [e.sha256(-1, room(32)), e.sha256(e.open("/", O.read, 0), room(32))], [-9, -21]],
  [
    "getrandom fills the whole array, differently each time; EINVAL",
    (e) => {
      const [one, two] = [room(64), room(256)]
      const answers = [
        e.getrandom(one, 0),
        e.getrandom(two.subarray(0, 64), 0),
        e.getrandom(room(0), 0),
        e.getrandom(one, 64),
      ]
      return [
        ...answers,
        one.join() === two.subarray(0, 64).join(),
        new Set(one).size > 20,
        two.subarray(64).every((byte) => byte === 0),
      ]
    },
    [64, 64, 0, -22, false, true, true],
  ],
]
