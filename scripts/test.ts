/**
 * Everything that has to hold before a change goes in.
 *
 *   npm test               the gate, then the build and the integration tests; needs root
 *   npm run gate           the gate: format, lint, types, unit tests; needs nothing
 *   npm run test:interop   the built plugins under podman and containerd, and beside the Go plugins; needs root
 *
 * Goes through all steps whatever fails, and ends with the line `N passed, N failed`; a step that is not a test counts
 * as one failure when it fails, and so does a test file that dies or hangs.
 */
import { join } from "node:path"
import { TemporaryDirectory } from "../integration/mod.ts"
import { Runner } from "./test/runner.ts"

const root = join(import.meta.dir, "..")
const tool = (name: string) => join(root, "node_modules/.bin", name)

/** The rooms whose `x.test.ts` need neither root nor network. */
const unitRooms = ["pkg", "plugins", "ipam", "meta", "cmd", "bench", "scripts"]

function testFiles(rooms: readonly string[]): string[] {
  return [...new Bun.Glob(`{${rooms.join(",")}}/**/*.test.ts`).scanSync(root)].map((file) => `./${file}`).sort()
}

async function gate(runner: Runner): Promise<void> {
  await runner.step("format and lint", [tool("biome"), "ci", "--colors=off", "."])
  await runner.step("types", [tool("tsc"), "-p", ".", "--noEmit"])
  await runner.tests("unit tests", testFiles(unitRooms), { testMs: 30_000, fileMs: 400_000 })
}

/** Tests of the built executable. Those in `integration/interop` need real runtimes, and are asked for by themselves. */
async function integration(runner: Runner, wanted: (file: string) => boolean): Promise<void> {
  if (process.getuid?.() !== 0) {
    return runner.fail("The integration tests make network namespaces, which needs root: run `sudo npm test`")
  }
  if (!(await runner.step("build", [process.execPath, "scripts/build.ts"]))) return
  for (const file of testFiles(["integration"]).filter(wanted)) {
    await runner.tests(file, [file], { testMs: 60_000, fileMs: 300_000 })
  }
}

if (import.meta.main) {
  await using reports = await TemporaryDirectory.create("cni-reports")
  const runner = new Runner(root, reports.path)
  const isInterop = (file: string) => file.startsWith("./integration/interop/")
  if (process.argv.includes("--interop")) await integration(runner, isInterop)
  else {
    await gate(runner)
    if (!process.argv.includes("--gate")) await integration(runner, (file) => !isInterop(file))
  }
  process.exitCode = runner.finish()
}
