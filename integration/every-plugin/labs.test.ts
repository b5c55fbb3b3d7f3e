import { expect, test } from "bun:test"
import { join } from "node:path"
import { HostNamespace, pluginsAs, programEnv, TemporaryDirectory, testPlugin } from "../lab/mod.ts"

const checkout = join(import.meta.dir, "../..")
const [opening = "", ...sections] = (await Bun.file(join(checkout, "examples/labs/README.md")).text()).split("\n## ")

/** Returns the commands in a section of the page. */
function commandsOf(part: string): string[] {
  const [, block = ""] = /```sh\n(.*?)```/s.exec(part) ?? []
  return block.trimEnd().split("\n")
}

/** Returns a script that exits with 77 if a command fails, or if a command that begins with "!" succeeds. */
function scriptOf(commands: readonly string[]): string {
  return commands.map((line) => line.replace(/^! (.*)$/, "if $1\nthen exit 77; fi").replaceAll(" && ", "\n")).join("\n")
}

const labs = new Map(sections.map((section) => [section.replace(/:.*/s, ""), commandsOf(section)]))

test("there is a lab for each plugin that makes an interface or moves one there, but for those of the front page", () => {
  const all = pluginsAs("interface", "device").filter((name) => name !== "bridge" && name !== "ptp")
  expect([...labs.keys()].sort()).toEqual(all)
})

for (const [plugin, commands] of labs) {
  const title = `${plugin}: its lab of examples/labs/README.md does what the page says`
  const run = async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    const [unshare, ...first] = commandsOf(opening)
    expect(unshare).toBe("unshare --net --mount bash")
    const atEnd = ["! ls /var/lib/cni/results/*", "ip -all netns delete"]
    const script = scriptOf([`cd ${checkout}`, ...first, ...commands, ...atEnd])
    const env = { ...programEnv, TMPDIR: directory.path }
    const { stdout, stderr, exitCode } = await host.tryExec("bash", ["-exc", script], { env })
    expect({ exitCode, stdout, stderr }).toMatchObject({ exitCode: 0 })
  }
  testPlugin(plugin, title, run, { forEachKind: true })
}
