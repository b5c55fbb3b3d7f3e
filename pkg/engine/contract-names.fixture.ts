import type { Cases } from "./contract.fixture.ts"
import { make, O, room, statOf } from "./contract-parts.fixture.ts"

/** System calls on directories and names. Negative results are errors, <asm-generic/errno-base.h>; see the manual. */
export const nameCases: Cases = [
  [
    // struct linux_dirent64: the length of the entry is at offset 16, its name at 19
    "getdents64 answers entries, then 0",
    (e, at) => {
      make(e, at("only"))
      const [fd, into, names] = [e.open(at(""), O.read, 0), room(1024), [] as string[]]
      const length = e.getdents64(fd, into)
      for (let entry = 0; entry < length; entry += new DataView(into.buffer).getUint16(entry + 16, true))
        names.push(e.decodeUtf8(into.subarray(entry + 19, into.indexOf(0, entry + 19))))
      return [names.sort(), e.getdents64(fd, into)]
    },
    [[".", "..", "only"], 0],
  ],
  [
    "getdents64: ENOTDIR, EINVAL for an array too small, EBADF",
    (e, at) => [
      e.getdents64(make(e, at("a")), room(1024)),
      e.getdents64(e.open("/", O.read, 0), room(3)),
      e.getdents64(-1, room(9)),
    ],
    [-20, -22, -9],
  ],
  [
    "linkat, EEXIST, ENOENT",
    (e, at) => [
      make(e, at("a")) > 2,
      e.linkat(at("a"), at("b")),
      e.linkat(at("a"), at("b")),
      e.linkat(at("absent"), at("c")),
    ],
    [true, 0, -17, -2],
  ],
  [
    "readlinkat, cut where the array ends",
    (e) => {
      const [whole, part] = [room(13), room(4)]
      const lengths = [whole, part].map((each) => e.readlinkat("/proc/mounts", each))
      return [...lengths, e.decodeLatin1(whole), e.decodeLatin1(part)]
    },
    [11, 4, "self/mounts\0\0", "self"],
  ],
  [
    "readlinkat: EINVAL for a file, and for no room; ENOENT",
    (e, at) => [
      make(e, at("a")) > 2,
      e.readlinkat(at("a"), room(9)),
      e.readlinkat("/proc/self", room(0)),
      e.readlinkat(at("b"), room(9)),
    ],
    [true, -22, -22, -2],
  ],
  [
    "mkdirat, EEXIST, ENOENT",
    (e, at) => [
      e.mkdirat(at("a"), 0o700),
      e.mkdirat(at("a"), 0o700),
      e.mkdirat(at("b/c"), 0o700),
      statOf(e, at("a")).mode,
    ],
    [0, -17, -2, 0o40700],
  ],
  [
    "utimensat, with seconds beyond 32 bits; EINVAL, ENOENT",
    (e, at) => {
      make(e, at("a"))
      const set = (...times: bigint[]) => e.utimensat(at("a"), new BigInt64Array(times), 0)
      const answers = [set(1n, 0n, 5_000_000_000n, 999_999_999n), set(1n, 0n, 1n, 1_000_000_000n)]
      return [...answers, statOf(e, at("a")).modified, e.utimensat(at("b"), new BigInt64Array(4), 0)]
    },
    [0, -22, 5_000_000_000, -2],
  ],
  [
    "rename, ENOENT",
    (e, at) => [make(e, at("a")) > 2, e.rename(at("a"), at("b")), e.rename(at("a"), at("b")), statOf(e, at("b")).mode],
    [true, 0, -2, 0o100600],
  ],
  [
    "rename: ENOTEMPTY",
    (e, at) => [
      e.mkdirat(at("a"), 0o700),
      e.mkdirat(at("b"), 0o700),
      e.mkdirat(at("b/c"), 0o700),
      e.rename(at("a"), at("b")),
    ],
    [0, 0, 0, -39],
  ],
  [
    "unlink, ENOENT, EISDIR",
    (e, at) => [
      make(e, at("a")) > 2,
      e.unlink(at("a")),
      e.unlink(at("a")),
      e.mkdirat(at("d"), 0o700),
      e.unlink(at("d")),
    ],
    [true, 0, -2, 0, -21],
  ],
  [
    "rmdir, ENOENT, ENOTDIR, ENOTEMPTY",
    (e, at) => [
      e.mkdirat(at("d"), 0o700),
      make(e, at("d/a")) > 2,
      e.rmdir(at("d")),
      e.rmdir(at("d/a")),
      e.unlink(at("d/a")),
      e.rmdir(at("d")),
      e.rmdir(at("d")),
    ],
    [0, true, -39, -20, 0, 0, -2],
  ],
  [
    "fchmodat; ENOENT",
    (e, at) => {
      make(e, at("a"))
      return [e.fchmodat(at("a"), 0o751), statOf(e, at("a")).mode, e.fchmodat(at("b"), 0o600)]
    },
    [0, 0o100751, -2],
  ],
  [
    "lgetxattr: ENODATA, ENOENT, EOPNOTSUPP for a name of no class",
    (e, at) => [
      e.lgetxattr(at(""), "security.absent", room(9)),
      e.lgetxattr(at("absent"), "security.absent", room(9)),
      e.lgetxattr(at(""), "absent", room(9)),
    ],
    [-61, -2, -95],
  ],
  [
    "inotify: a watch, its event, EINVAL, ENOENT, EBADF", // IN_CREATE 0x100; struct inotify_event: wd, mask, cookie, length
    (e, at) => {
      const [fd, event] = [e.inotify_init1(O.nonBlocking | O.closeOnExec), new Int32Array(64)]
      const silent = e.read(fd, event)
      const watch = e.inotify_add_watch(fd, at(""), 0x100)
      make(e, at("a"))
      const length = e.read(fd, event)
      const wrong = [
        e.inotify_init1(1),
        e.inotify_add_watch(fd, at("absent"), 0x100),
        e.inotify_add_watch(-1, at(""), 0x100),
      ]
      return [silent, watch, length, event[0] ?? 0, event[1] ?? 0, ...wrong]
    },
    [-11, 1, 32, 1, 0x100, -22, -2, -9],
  ],
]
