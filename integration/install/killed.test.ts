import { expect, test } from "bun:test"
import { rmSync, writeFileSync } from "node:fs"
import { pluginNames } from "../../suite/plugins.ts"
import { isLong, readShare, runProgram, scaleTimeout, tellFigure } from "../lab/mod.ts"
import { Suites } from "./suites.ts"

/** The system calls with which an installer changes something visible. */
const changes = ["rename", "unlink", "rmdir", "fsync", "linkat", "fchmodat", "mkdirat", "flock", "write", "openat"]
/**
 * The part of these calls that the long form tries. `CNI_FAULTS_SHARE=0.4` selects the first four, `0.4-1` the others.
 */
const [from, to] = Object.values(readShare()).map((share) => Math.round(share * changes.length))
const kinds = isLong ? changes.slice(from, to) : changes

/** A script that calls all plugins until a file appears. Prints each failed call, and finally the number of calls. */
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
    // With low priority, so that sixteen callers do not delay the installer, which is killed some hundred times.
    const callers = Array.from({ length: CALLERS }, () =>
      Bun.spawn(["nice", "-n", "19", "sh", "-c", caller], {
        cwd: suites.path(),
        stdout: "pipe",
        stderr: "pipe",
        env: {},
      }),
    )
    const said = callers.map((one) => one.stdout.text())
    const kills: Record<string, number> = {}
    try {
      for (const call of kinds) {
        for (let at = 1, isKilled = true; isKilled; at += isLong ? 1 : 30) {
          const suite = (await suites.installed()) === "A" ? "B" : "A"
          const inject = ["-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${at}`]
          const strace = ["strace", "-qq", "-o", "/dev/null", ...inject]
          const { exitCode } = await runProgram([...strace, ...suites.command(suite)])
          expect([0, 128 + 9]).toContain(exitCode)
          isKilled = exitCode !== 0
          kills[call] = (kills[call] ?? 0) + Number(isKilled)
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
    for (const call of kinds) expect([call, kills[call]]).not.toEqual([call, 0])
    rmSync(stop)
    await suites.install("B")
    expect(await suites.installed()).toBe("B")
    await suites.install("B", "--verify")
    expect(await suites.others()).toEqual([".cni-install"])
    const tried = Object.values(kills).reduce((sum, count) => sum + count)
    const what = `the installer killed at each ${kinds.join(", ")}, A over B over A, beside ${CALLERS} callers of all names`
    await tellFigure({ what, tried, held: tried, note: `${calls} calls, none failed` })
  },
  scaleTimeout(isLong ? 3_600_000 : 900_000),
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
  const killed = await runProgram(["strace", "-qq", "-o", "/dev/null", ...inject, ...suites.command("A")])
  expect(killed.exitCode).toBe(128 + 9)
  await suites.install("A")
  expect(await suites.installed()).toBe("A")
})
