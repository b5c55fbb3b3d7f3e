import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"
import * as libc from "./mod.ts"

const directory = mkdtempSync(join(tmpdir(), "refusals-"))
afterAll(() => rmSync(directory, { recursive: true }))
const at = (name: string) => join(directory, name)
mkdirSync(at("full/inside"), { recursive: true })
writeFileSync(at("file"), "1234")

/** A descriptor number greater than that of any open descriptor. */
const fd = 1_000_000_000 as libc.Fd
const bad = `descriptor ${fd}: Bad file descriptor (EBADF)`
const missing = "No such file or directory (ENOENT)"
const buffer = new Uint8Array(8)
const absent = at("absent/file")

// Each message names the call and the file or descriptor. Administrators read it after the message of a package that
// called this one.
test.each<[string, () => unknown]>([
  [`open "DIR/absent/file": ${missing}`, () => libc.open(absent, libc.Open.ReadOnly)],
  [`open "DIR/absent/file": ${missing}`, () => libc.readFile(absent)],
  [`open "DIR/absent/file": ${missing}`, () => libc.writeExisting(absent, "")],
  [`open "DIR/absent/file": ${missing}`, () => libc.createFile(absent, buffer)],
  [`open "DIR/file": File exists (EEXIST)`, () => libc.createFile(at("file"), buffer)],
  [`open "DIR/absent/file": ${missing}`, () => libc.syncPath(absent)],
  [`open "DIR/absent/file": ${missing}`, () => libc.readDirectory(absent)],
  [`open "DIR/absent/file": ${missing}`, () => libc.tryUnnamedFile(absent)],
  [`getdents64 "DIR/file": Not a directory (ENOTDIR)`, () => libc.readDirectory(at("file"))],
  [`read "DIR/file": File too large (EFBIG)`, () => libc.readFile(at("file"), 3)],
  [`read "DIR/file": File too large (EFBIG)`, () => libc.findFile(at("file"), 3)],
  [`open "DIR/file/below": Not a directory (ENOTDIR)`, () => libc.findFile(at("file/below"))],
  [`stat "DIR/absent/file": ${missing}`, () => libc.stat(absent)],
  [`stat "DIR/file/below": Not a directory (ENOTDIR)`, () => libc.findStat(at("file/below"))],
  [`fstat ${bad}`, () => libc.statOpen(fd)],
  [`fsync ${bad}`, () => libc.sync(fd)],
  [`pread ${bad}`, () => libc.readAt(fd, buffer, 0)],
  [`pwrite ${bad}`, () => libc.writeAt(fd, buffer, 0)],
  [`ftruncate ${bad}`, () => libc.truncate(fd, 0)],
  [`read ${bad}`, () => libc.read(fd, buffer)],
  [`write ${bad}`, () => libc.write(fd, buffer)],
  [`fcntl ${bad}`, () => libc.duplicate(fd)],
  [`flock ${bad}`, () => libc.tryLock(fd)],
  [`flock ${bad}`, () => libc.tryLockShared(fd)],
  [`accept4 ${bad}`, () => libc.acceptConnection(fd)],
  [`recv ${bad}`, () => libc.receive(fd, buffer, 0, new libc.NetlinkSender())],
  ["ioctl NS_GET_NSTYPE: Bad file descriptor (EBADF)", () => libc.namespaceType(fd)],
  ["sendto the kernel: Bad file descriptor (EBADF)", () => libc.sendToKernel(fd, buffer)],
  ["setsockopt 1/32: Bad file descriptor (EBADF)", () => libc.setSocketOption(fd, 1, 32, 1)],
  ["setsockopt SO_RCVTIMEO: Bad file descriptor (EBADF)", () => libc.setReceiveTimeout(fd, 1)],
  ["sendmsg SCM_RIGHTS: Bad file descriptor (EBADF)", () => libc.leaveToKernel(fd)],
  ["socket netlink protocol 99: Protocol not supported (EPROTONOSUPPORT)", () => libc.openNetlink(99)],
  [`rename "DIR/absent/file" to "DIR/x": ${missing}`, () => libc.rename(absent, at("x"))],
  [`link "DIR/absent/file" to "DIR/x": ${missing}`, () => libc.link(absent, at("x"))],
  [`readlink "DIR/file": Invalid argument (EINVAL)`, () => libc.readlink(at("file"))],
  [`unlink "DIR/absent/file": ${missing}`, () => libc.unlink(absent)],
  [`unlink "DIR/file/below": Not a directory (ENOTDIR)`, () => libc.tryUnlink(at("file/below"))],
  [`rmdir "DIR/full": Directory not empty (ENOTEMPTY)`, () => libc.removeDirectory(at("full"))],
  [`stat "DIR/file/below/x": Not a directory (ENOTDIR)`, () => libc.makeDirectories(at("file/below/x"))],
  [`mkdir "DIR/file": File exists (EEXIST)`, () => libc.makeDirectories(at("file"))],
  [`utimensat "DIR/absent/file": ${missing}`, () => libc.setModified(absent, 0n)],
  [`inotify_add_watch "DIR/absent/file": ${missing}`, () => libc.watchClosing(absent)],
  [`connect "DIR/absent/file": ${missing}`, () => libc.connectTo(absent)],
  [`bind "DIR/absent/file": ${missing}`, () => libc.listenAt(absent)],
  [`execve "DIR/absent/file": ${missing}`, () => libc.spawn({ path: absent, env: {}, outputLimit: 1 })],
])("a refusal says what was asked for, and leaves no descriptor: %s", (message, call) => {
  const open = () => readdirSync("/proc/self/fd").length
  const before = open()
  expect(call).toThrow(message.replaceAll('"DIR', `"${directory}`))
  expect(open()).toBe(before)
})

test.each(["HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "SEGV", "PIPE", "ALRM", "TERM", "XCPU", "XFSZ", "SYS"])(
  "a program that signal %s has ended is told by its name",
  (name) => {
    const number = constants.signals[`SIG${name}` as keyof typeof constants.signals]
    const args = ["-c", `ulimit -c 0; kill -${number} $$`]
    const { signal, exitCode } = libc.spawn({ path: "/bin/sh", args, env: {}, outputLimit: 99 })
    expect({ signal, exitCode }).toEqual({ signal: `SIG${name}`, exitCode: undefined })
  },
)
