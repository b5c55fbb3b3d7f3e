import { attempt, type Cases, type Json } from "./contract.fixture.ts"
import type { Engine } from "./engine.ts"

const closed = 1_000_000 // greater than any open descriptor
const shell = "/bin/sh"

/** Returns descriptors for a program: empty stdin, and a pipe for stdout and stderr, which `rest` reads to its end. */
function outputs(engine: Engine): { fds: Int32Array; rest: () => string } {
  const pair = new Int32Array(2)
  engine.pipe2(pair, 0o2000000)
  const [reading = -1, writing = -1] = pair
  const rest = () => {
    engine.close(writing)
    const [into, text] = [new Uint8Array(4096), [] as string[]]
    for (let count = 1; count > 0; ) {
      count = engine.read(reading, into)
      if (count > 0) text.push(engine.decodeUtf8(into.subarray(0, count)))
    }
    return text.join("")
  }
  return { fds: Int32Array.of(engine.open("/dev/null", 0o2000000, 0), writing, writing), rest }
}

/** Returns the wait4(2) status of a program that has been started, or the error of its start. */
function end(engine: Engine, pid: number): number {
  const status = new Int32Array(1)
  return pid < 0 ? pid : engine.wait4(pid, status, 0) === pid ? (status[0] ?? 0) : -1
}

function start(engine: Engine, path: string, argv: string[] = [path], directory: string | null = null): number {
  return end(engine, engine.startProcess(path, argv, [], directory, outputs(engine).fds, 0))
}

function said(engine: Engine, argv: string[], environment: string[] = [], directory: string | null = null): Json {
  const { fds, rest } = outputs(engine)
  const pid = engine.startProcess(argv[0] ?? "", argv, environment, directory, fds, 0)
  return [rest(), end(engine, pid)]
}

function file(engine: Engine, path: string, content: string, mode: number): string {
  const fd = engine.open(path, 0o2000101, mode)
  engine.write(fd, engine.encodeUtf8(content))
  engine.close(fd)
  return path
}

/** Programs and signals; execve(2), wait(2), kill(2), pidfd_open(2). */
export const processCases: Cases = [
  ["a program's exit code is in its status", (e) => start(e, shell, ["sh", "-c", "exit 3"]), 3 << 8],
  ["so is the signal that has ended it", (e) => start(e, shell, ["sh", "-c", "kill -TERM $$"]), 15],
  [
    "argv and environment come as they are, with no variable more",
    (e) => [
      said(e, ["/bin/cat", "/proc/self/cmdline", "--", "/dev/null"]),
      said(e, [shell, "-c", 'printf "[%s]" "$0" "$@"', "a b", "", "é☃😀", '"$(x)', "\ud800"]),
      said(e, ["/bin/cat", "/proc/self/environ"], ["B=1", "A= é=", "A=twice", "odd", "=x", ""]),
      said(e, ["/bin/cat", "/proc/self/environ"], []),
    ],
    [
      ["/bin/cat\0/proc/self/cmdline\0--\0/dev/null\0", 0],
      ['[a b][][é☃😀]["$(x)][\ufffd]', 0],
      ["B=1\0A= é=\0A=twice\0odd\0=x\0\0", 0],
      ["", 0],
    ],
  ],
  [
    "a program is in our session, or in its own: field 6 of its stat is its id, proc(5)",
    (e) =>
      [0, 1].map((ownSession) => {
        const { fds, rest } = outputs(e)
        const pid = e.startProcess("/bin/cat", ["cat", "/proc/self/stat"], [], null, fds, ownSession)
        const [, , group, session] = rest().split(") ")[1]?.split(" ") ?? []
        return [end(e, pid), group === String(pid), session === String(pid)]
      }),
    [
      [0, false, false],
      [0, true, true],
    ],
  ],
  [
    "the working directory, by default ours",
    (e, at) => [
      said(e, ["/bin/pwd"], [], "/usr"),
      e.mkdirat(at("d"), 0o700),
      start(e, shell, ["sh", "-c", ": >here"], at("d")),
      e.unlink(at("d/here")),
    ],
    [["/usr\n", 0], 0, 0, 0],
  ],
  [
    "stdin, stdout and stderr are the descriptors given, and no other is open",
    (e, at) => {
      const [out, err] = [e.open(at("out"), 0o2000102, 0o600), e.open(at("err"), 0o2000102, 0o600)]
      const leaked = e.open("/dev/null", 0, 0) // without close-on-exec, like a descriptor that a runtime has left open
      const script = "cat; echo error >&2; ls /proc/self/fd"
      const input = e.open(file(e, at("in"), "input\n", 0o600), 0o2000000, 0)
      const pid = e.startProcess(
        shell,
        ["sh", "-c", script],
        ["PATH=/usr/bin:/bin"],
        null,
        Int32Array.of(input, out, err),
        0,
      )
      const into = new Uint8Array(100)
      const read = (fd: number) => e.decodeUtf8(into.subarray(0, e.pread(fd, into, 0)))
      return [leaked > 2, end(e, pid), read(out), read(err)]
    },
    [true, 0, "input\n0\n1\n2\n3\n", "error\n"], // 3 is the directory that ls reads
  ],
  [
    "the program's signals are as usual: none blocked, none ignored, SIGPIPE neither",
    (e) => said(e, ["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]),
    ["SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", 0],
  ],
  [
    "ENOENT: program, working directory, interpreter",
    (e, at) => [
      start(e, at("x")),
      start(e, ""),
      start(e, shell, ["sh"], at("x")),
      start(e, file(e, at("script"), "#!/absent/interpreter\n", 0o700)),
    ],
    [-2, -2, -2, -2],
  ],
  ["ENOTDIR: working directory", (e) => start(e, shell, ["sh"], "/dev/null"), -20],
  [
    "EACCES: a directory, a file that is not executable",
    (e, at) => [start(e, "/"), start(e, file(e, at("a"), "#!/bin/sh\n", 0o600))],
    [-13, -13],
  ],
  [
    "ENOEXEC: neither a program nor a script with its first line",
    (e, at) => start(e, file(e, at("a"), "exit 0\n", 0o700)),
    -8,
  ],
  [
    "ETXTBSY: a program that is open for writing",
    (e, at) => [e.open(at("a"), 0o2000101, 0o700) > 2, start(e, at("a"))],
    [true, -26],
  ],
  [
    "E2BIG: an argument, a variable of more than 128 kB",
    (e) => [
      start(e, shell, ["sh", "x".repeat(1 << 17)]),
      e.startProcess(shell, ["sh"], ["x".repeat(1 << 17)], null, outputs(e).fds, 0),
    ],
    [-7, -7],
  ],
  [
    "ELOOP, ENAMETOOLONG",
    // Every "self" and "root" is a symbolic link. The kernel follows at most 40.
    (e, at) => [start(e, "/proc/self/root".repeat(21)), start(e, at("x".repeat(256)))],
    [-40, -36],
  ],
  [
    "EBADF: a descriptor that is not open",
    (e) =>
      [0, 1, 2].map((which) =>
        end(e, e.startProcess(shell, ["sh"], [], null, outputs(e).fds.fill(closed, which, which + 1), 0)),
      ),
    [-9, -9, -9],
  ],
  [
    "EBADF: a negative descriptor",
    (e) => end(e, e.startProcess(shell, ["sh"], [], null, Int32Array.of(-1, -1, -1), 0)),
    -9,
  ],
  [
    "EINVAL: a descriptor below 3, which the program's own would replace",
    (e) => [0, 1, 2].map((fd) => e.startProcess(shell, ["sh"], [], null, outputs(e).fds.fill(fd, fd, fd + 1), 0)),
    [-22, -22, -22],
  ],
  [
    "EINVAL: NUL in path, argument, variable, directory",
    (e) => [
      start(e, "/bin/sh\0"),
      start(e, shell, ["sh", "-c\0"]),
      e.startProcess(shell, ["sh"], ["A=\0"], null, outputs(e).fds, 0),
      start(e, shell, ["sh"], "/\0"),
    ],
    [-22, -22, -22, -22],
  ],
  [
    "the descriptors may come as bytes",
    (e) =>
      end(
        e,
        e.startProcess(shell, ["sh", "-c", "exit 4"], [], null, new Uint8Array(outputs(e).fds.buffer) as never, 0),
      ),
    4 << 8,
  ],
  [
    "a start that failed has left no child",
    (e) => [e.startProcess("/absent", [], [], null, outputs(e).fds, 0), e.wait4(-1, new Int32Array(1), 1)],
    [-2, -10],
  ],
  [
    "pidfd_open, kill: the descriptor becomes readable when the process has ended", // WNOHANG 1, SIGKILL 9, POLLIN 1
    (e) => {
      const pid = e.startProcess("/bin/sleep", ["sleep", "infinity"], [], null, outputs(e).fds, 0)
      const request = Int32Array.of(e.pidfd_open(pid, 0), 1)
      const living = [e.poll(request, 0), e.wait4(pid, new Int32Array(1), 1), e.kill(pid, 0)]
      return [...living, e.kill(pid, 9), e.poll(request, -1), end(e, pid), e.kill(pid, 0), e.pidfd_open(pid, 0)]
    },
    [0, 0, 0, 0, 1, 9, -3, -3],
  ],
  ["pidfd_open: EINVAL", (e) => [e.pidfd_open(0, 0), e.pidfd_open(-1, 0), e.pidfd_open(1, 1)], [-22, -22, -22]],
  [
    "pidfd_open: a number beyond 31 bits is a negative process id",
    (e) => [e.pidfd_open(2 ** 32 - 1, 0), e.pidfd_open(1, -1)],
    [-22, -22],
  ],
  ["kill: ESRCH, EINVAL", (e) => [e.kill(2 ** 31 - 1, 0), e.kill(1, 9999)], [-3, -22]],
  ["wait4: ECHILD, EINVAL", (e) => [e.wait4(1, new Int32Array(1), 0), e.wait4(1, new Int32Array(1), 64)], [-10, -22]],
  [
    "exit takes a status of 8 bits",
    (e) => [-1, 256].map((status) => attempt(() => e.exit(status))),
    ["RangeError: expected an integer from 0 to 255", "RangeError: expected an integer from 0 to 255"],
  ],
]
