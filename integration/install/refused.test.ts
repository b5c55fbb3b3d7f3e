import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmod, chown, copyFile, mkdir, open, readdir, rename, rm, symlink, truncate } from "node:fs/promises"
import { join } from "node:path"
import { mustRun, type Output, runProgram } from "../lab/mod.ts"
import { Suites } from "./suites.ts"

let suites: Suites
beforeAll(async () => {
  suites = await Suites.create()
  await suites.install("A")
})
afterAll(() => suites[Symbol.asyncDispose]())

/** Runs a script in its own mount namespace. The command line of an installation follows as arguments. */
const inMounts = (script: string, command: readonly string[]): Promise<Output> =>
  runProgram(["unshare", "--mount", "--propagation=private", "sh", "-ec", `${script}\nexec "$@"`, "sh", ...command])

/** Checks that an installation was refused with exit code 1, one message that contains `parts`, and no change. */
async function expectRefused(output: Output, ...parts: string[]): Promise<void> {
  expect(output.exitCode).toBe(1)
  for (const part of parts) expect(output.stderr).toContain(part)
  expect(output.stderr.match(/Cannot/g)?.length).toBe(1)
  expect(await suites.installed()).toBe("A")
  expect(await suites.others()).toEqual([".cni-install"])
  expect((await readdir(join(suites.bin, ".cni-install"))).sort()).toEqual(["before-1", "manifest.json", "seen.json"])
  await suites.install("A", "--verify")
}

describe("refused with one message, and nothing is changed:", () => {
  test("a read-only file system", async () => {
    const mounted = `mount --bind ${suites.bin} ${suites.bin}; mount -o remount,ro,bind ${suites.bin}`
    await expectRefused(
      await inMounts(mounted, suites.command("B")),
      `Cannot install into "${suites.bin}": it is on a read-only file system`,
    )
  })

  test("a directory of another user, for a process without CAP_DAC_OVERRIDE", async () => {
    await chown(suites.bin, 998, 998)
    const bounds = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"]
    try {
      await expectRefused(
        await runProgram([...bounds, ...suites.command("B")]),
        `Cannot install into "${suites.bin}": this process has no permission to write to it`,
        "CAP_DAC_OVERRIDE",
      )
    } finally {
      await chown(suites.bin, 0, 0)
    }
  })

  test.each(["1m", "12m", "30m"])("a disk of %s without room for the suite", async (size) => {
    const mount = `mount -t tmpfs -o size=${size} none ${suites.bin}`
    const look = `"$@" || code=$?; ls -A ${suites.bin}; exit $code`
    const output = await inMounts(`${mount}\n${look}`, suites.command("B"))
    expect(output.stdout).toBe("") // nothing is left on the file system
    await expectRefused(output, `Cannot install into "${suites.bin}": the disk is full`)
  })

  test.each(["+i", "+a"])("a plugin that is %s for chattr, also to remove it", async (flag) => {
    const file = join(suites.bin, "vrf")
    await mustRun(["chattr", flag, file])
    try {
      for (const flags of [[], ["--uninstall"]]) {
        const output = await suites.tryInstall("B", ...flags)
        await expectRefused(output, '"vrf" in it is immutable or append-only', `chattr -ia ${file}`)
      }
    } finally {
      await mustRun(["chattr", "-ia", file])
    }
  })

  test("a directory that is immutable", async () => {
    await mustRun(["chattr", "+i", suites.bin])
    try {
      await expectRefused(await suites.tryInstall("B"), "it is immutable or append-only", `chattr -ia ${suites.bin}`)
    } finally {
      await mustRun(["chattr", "-i", suites.bin])
    }
  })

  test("a plugin that something is mounted on", async () => {
    const file = join(suites.bin, "vrf")
    const output = await inMounts(`mount --bind ${file} ${file}`, suites.command("B"))
    await expectRefused(output, '"vrf" in it is a mount point', `umount ${file}`)
  })

  test.each(["owner", "mode", "link"])("an installer's directory of another %s", async (which) => {
    const home = join(suites.bin, ".cni-install")
    const away = suites.path("home")
    if (which === "owner") await chown(home, 998, 998)
    if (which === "mode") await chmod(home, 0o777)
    if (which === "link") {
      await rename(home, away)
      await symlink(away, home)
    }
    try {
      const output = await suites.tryInstall("B")
      expect(output).toMatchObject({
        exitCode: 1,
        stderr: expect.stringContaining('another user owns or can change ".cni-install" in it'),
      })
      expect(await suites.installed()).toBe("A")
    } finally {
      if (which === "link") {
        await rm(home)
        await rename(away, home)
      }
      await chown(home, 0, 0)
      await chmod(home, 0o755)
    }
    await suites.install("A", "--verify")
  })

  const spoils: Record<string, [says: string, spoil: (file: string) => Promise<unknown>]> = {
    "an archive without a plugin": ["missing vrf", (file) => rm(file)],
    "a plugin that was cut off": ["it is truncated", (file) => truncate(file, 1_000_000)],
    "an empty file": ["it is not a 64-bit executable", (file) => truncate(file, 0)],
    "another machine's file": [
      "it is built for aarch64, but this machine is x86_64",
      async (file) => {
        await using handle = await open(file, "r+")
        await handle.write(Uint8Array.of(183, 0), 0, 2, 18) // e_machine, EM_AARCH64
      },
    ],
    "an executable that is not a plugin": ["it does not print its version", (file) => copyFile("/bin/true", file)],
  }
  test.each(Object.entries(spoils))("%s", async (_, [says, spoil]) => {
    const file = suites.path("B/bin/vrf")
    await rename(file, `${file}.whole`)
    await copyFile(`${file}.whole`, file)
    try {
      await spoil(file)
      await expectRefused(await suites.tryInstall("B"), says)
    } finally {
      await rename(`${file}.whole`, file)
    }
  })

  test("a manifest of a newer version", async () => {
    const manifest = join(suites.bin, ".cni-install/manifest.json")
    const text = await Bun.file(manifest).text()
    await Bun.write(manifest, text.replace('"format": 1', '"format": 2'))
    try {
      const outputs = [
        await suites.tryInstall("B"),
        await suites.tryInstall("B", "--rollback"),
        await suites.tryInstall("B", "--uninstall"),
      ]
      for (const { exitCode, stderr } of outputs) {
        expect([exitCode, stderr]).toEqual([1, expect.stringContaining("a newer version of this installer wrote it")])
      }
      expect(await suites.installed()).toBe("A")
    } finally {
      await Bun.write(manifest, text)
    }
  })

  test("a directory that is mounted noexec", async () => {
    const elsewhere = suites.path("noexec")
    await mkdir(elsewhere)
    const script = `mount -t tmpfs -o noexec none ${elsewhere}`
    const command = suites.command("B").map((word) => (word === suites.bin ? elsewhere : word))
    await expectRefused(await inMounts(script, command), 'Cannot run the new "bandwidth"', "noexec")
  })
})

test("a rollback of what was interrupted puts back the old suite", async () => {
  await using own = await Suites.create()
  await own.install("A")
  const inject = ["-e", "trace=rename,renameat2", "-e", "inject=rename,renameat2:signal=SIGKILL:when=9"]
  await runProgram(["strace", "-f", "-qq", "-o", "/dev/null", ...inject, ...own.command("B")])
  expect(await own.installed()).toBe("A B")
  const verified = await own.tryInstall("A", "--verify")
  expect([verified.exitCode, verified.stdout]).toEqual([3, expect.stringContaining("An installation was interrupted")])
  await own.install("A", "--rollback")
  expect(await own.installed()).toBe("A")
  await own.install("A", "--rollback")
  expect(await own.installed()).toBe("A")
  await mustRun(own.command("A", "--verify"))
})
