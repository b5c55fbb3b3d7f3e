import { expect, test } from "bun:test"
import { rmSync, writeFileSync } from "node:fs"
import { pluginNames } from "../../suite/plugins.ts"
import { isLong, patient, runProgram } from "../lab/mod.ts"
import { Suites } from "./suites.ts"

/** The calls by which an installer changes something, as different engines make them; those in between change nothing that can be seen. */
const changes = [
  ...["flock", "mkdir", "mkdirat", "fchmodat", "fsync", "link", "linkat"],
  ...["rename", "renameat2", "unlink", "unlinkat", "rmdir"],
]

/** A caller of all names until a file appears: it prints a line for each call that failed, and at last how many there were. */
const caller = `calls=0
while [ ! -e stop ]; do
  for name in ${pluginNames.join(" ")}; do
    calls=$((calls + 1))
    said=$(CNI_COMMAND=VERSION opt/$name 2>&1 </dev/null) || echo "$name: exit code $?: $said"
    case $said in *supportedVersions*) ;; *) echo "$name: $said" ;; esac
  done
done
echo "calls $calls"`

const CALLERS = isLong ? 16 : 2

test(
  "no call fails while one suite is installed over the other and the installer is killed at its system calls",
  async () => {
    await using suites = await Suites.create()
    await suites.install("A")
    const stop = suites.path("stop")
    const callers = Array.from({ length: CALLERS }, () =>
      Bun.spawn(["sh", "-c", caller], { cwd: suites.path(), stdout: "pipe", stderr: "pipe", env: {} }),
    )
    const said = callers.map((one) => one.stdout.text())
    let kills = 0
    try {
      for (const call of changes) {
        for (let at = 1, isKilled = true; isKilled; at += isLong ? 1 : 15) {
          const suite = (await suites.installed()) === "A" ? "B" : "A"
          const inject = ["-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${at}`]
          const strace = ["strace", "-f", "-qq", "-o", "/dev/null", ...inject]
          const { exitCode } = await runProgram([...strace, ...suites.command(suite)])
          expect([0, 128 + 9]).toContain(exitCode)
          isKilled = exitCode !== 0
          if (isKilled) kills++
          expect(["A", "B", "A B"]).toContain(await suites.installed())
        }
      }
    } finally {
      writeFileSync(stop, "")
    }
    const lines = (await Promise.all(said)).join("").trim().split("\n")
    expect(lines.filter((line) => !line.startsWith("calls "))).toEqual([])
    expect(lines).toHaveLength(CALLERS)
    const calls = lines.reduce((sum, line) => sum + Number(line.slice("calls ".length)), 0)
    expect(calls).toBeGreaterThan(500)
    expect(kills).toBeGreaterThan(isLong ? 80 : 7)
    rmSync(stop)
    await suites.install("B")
    expect(await suites.installed()).toBe("B")
    await suites.install("B", "--verify")
    expect(await suites.others()).toEqual([".cni-install"])
    if (isLong) console.log(`${calls} calls, ${kills} kills, no failure`)
  },
  patient(isLong ? 3_600_000 : 900_000),
)

test("several installers at once come one after the other, and leave one whole suite", async () => {
  await using suites = await Suites.create()
  await suites.install("A")
  const outputs = await Promise.all((["B", "A", "B", "A", "B"] as const).map((suite) => suites.tryInstall(suite)))
  expect(outputs.map(({ exitCode, stderr }) => ({ exitCode, stderr }))).toEqual(
    Array.from({ length: 5 }, () => ({ exitCode: 0, stderr: "" })),
  )
  expect(await suites.installed()).toMatch(/^[AB]$/)
  await suites.install("A", "--verify")
})

test("an installer that is killed holds no lock, and the next one does not wait for it", async () => {
  await using suites = await Suites.create()
  const inject = ["-e", "trace=fsync", "-e", "inject=fsync:signal=SIGKILL:when=3"]
  const killed = await runProgram(["strace", "-f", "-qq", "-o", "/dev/null", ...inject, ...suites.command("A")])
  expect(killed.exitCode).toBe(128 + 9)
  await suites.install("A")
  expect(await suites.installed()).toBe("A")
})
