/** Tests the units in the packages with systemd's own tools. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { place } from "../../scripts/release/place.ts"
import { layTree } from "../../scripts/release/stage.ts"
import { builtPlugins, mustRun, TemporaryDirectory } from "../lab/mod.ts"

const root = join(import.meta.dir, "../..")
const names = (await readdir(join(root, "share/systemd"))).filter((name) => /^cni-(gc|metrics|reconcile)\./.test(name))
const read = (name: string) => readFile(join(root, "share/systemd", name), "utf8")

test("systemd understands each key of each unit, and finds what they run", async () => {
  expect(names).toContain("cni-reconcile.service")
  await using directory = await TemporaryDirectory.create()
  const files = [...names, "cni-agent.service"].map(async (name) => {
    const text = (await read(name)).replaceAll("/usr/local/bin/cni", join(builtPlugins, "../cni"))
    await Bun.write(directory.join(name), text)
    return directory.join(name)
  })
  const { stdout, stderr } = await mustRun(["systemd-analyze", "verify", "--man=no", ...(await Promise.all(files))])
  expect(stdout + stderr).toBe("")
})

test("no service may get new privileges, memory that is written and run, or capabilities beyond those of networks and files", async () => {
  const allowed = /^CAP_(NET_ADMIN|NET_RAW|SYS_ADMIN|SYS_PTRACE|DAC_OVERRIDE|DAC_READ_SEARCH)$/
  for (const name of names.filter((each) => each.endsWith(".service"))) {
    const unit = await read(name)
    for (const key of ["NoNewPrivileges", "MemoryDenyWriteExecute", "LockPersonality", "RestrictRealtime"])
      expect(`${name} ${unit}`).toContain(`\n${key}=yes\n`)
    const bound = /^CapabilityBoundingSet=(.+)$/m.exec(unit)?.[1]?.split(" ") ?? [name]
    expect(bound.filter((each) => !allowed.test(each))).toEqual([])
  }
})

test("the listener starts behind the firewalls, and goes on when they stop; all services have a list of system calls", async () => {
  const listener = await read("cni-reconcile.service")
  for (const name of ["firewalld.service", "nftables.service"])
    expect(/^After=(.+)$/m.exec(listener)?.[1]).toContain(name)
  expect(listener).not.toMatch(/^(PartOf|BindsTo|Requires)=/m) // the listener notices restarts of firewalld itself
  for (const name of ["cni-reconcile.service", "cni-gc.service", "cni-metrics.service"]) {
    const unit = await read(name)
    expect(/^SystemCallFilter=(.+)$/m.exec(unit)?.[1]?.split(" ")).toContain("@system-service")
    expect(unit).toContain("\nSystemCallArchitectures=native\n")
  }
})

test("no unit of the packages is enabled where systemd enables what no preset disables", async () => {
  await using directory = await TemporaryDirectory.create()
  const files = await Promise.all(
    ["ipam/dhcp/systemd", "share/systemd"].flatMap(async (from) => {
      const found = (await readdir(join(root, from))).filter((name) => !name.startsWith("cni-agent"))
      return found.map(
        (name) => ({ kind: "unit", name, mode: 0o644, bytes: readFileSync(join(root, from, name)) }) as const,
      )
    }),
  )
  const layout = {
    plugin: "usr/lib/cni",
    unit: "usr/lib/systemd/system",
    document: "usr/share/doc",
    zsh: "usr/share/zsh",
  }
  const placed = place(files.flat(), layout)
  layTree(directory.path, placed, 0)
  const systemctl = ["systemctl", `--root=${directory.path}`]
  await mustRun([...systemctl, "preset-all"])
  const { stdout } = await mustRun([...systemctl, "list-unit-files", "--no-legend", "--plain", "cni-*"])
  const states = stdout
    .trim()
    .split("\n")
    .map((line) => line.split(/ +/).slice(0, 2).join(" "))
  expect(states.sort()).toEqual([
    "cni-dhcp.service disabled",
    "cni-dhcp.socket disabled",
    "cni-gc.service static",
    "cni-gc.timer disabled",
    "cni-metrics.service static",
    "cni-metrics.timer disabled",
    "cni-reconcile.service disabled",
  ])
})
