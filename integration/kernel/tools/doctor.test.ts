/** `cni doctor` and `cni trace` from their sources, on a host with an attachment and with what another has left. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdir, stat, writeFile } from "node:fs/promises"
import { isOfMachine } from "../../lab/mod.ts"
import { NodeScene } from "./node-scene.fixture.ts"

let node: NodeScene
beforeAll(async () => {
  node = await NodeScene.create()
})
afterAll(() => node[Symbol.asyncDispose]())
const cni = (...args: string[]) => node.tool.run([...args, "--json"])
/** The same for people. */
const show = (...args: string[]) => node.tool.run(args)
/** The findings of `doctor --json` on the node. */
const findingsOf = ({ stdout }: { stdout: string }) =>
  (JSON.parse(stdout) as { findings: { rule: string }[] }).findings.filter(({ rule }) => !isOfMachine(rule))

const STALE = {
  rule: "stale-lease",
  severity: "warning",
  network: "pods",
  what: 'host-local keeps 10.85.0.3 for "pods/gone/eth0": lease without cache entry',
  why: "its container is gone, and no DEL came; the address is lost to the pool",
  remedy: "cni gc --auto pods",
  pasteable: true,
  note: "only if no container uses it: cni gc --auto pods --dry-run prints what it would delete",
  fixable: false,
  affected: [{ name: '"pods/gone/eth0"', network: "pods", containerId: "gone", ifName: "eth0" }],
}

test("a node with warnings alone is in order", async () => {
  const asked = await cni("doctor")
  expect(asked).toMatchObject({ exitCode: 0, stderr: "" })
  expect(findingsOf(asked)).toEqual([STALE])
  expect(await cni("doctor", "lan")).toMatchObject({ exitCode: 1 }) // no network has the name
  const shown = await show("doctor")
  expect(shown).toMatchObject({ exitCode: 0, stderr: "" })
  expect(shown.stdout).toContain(`WARNING stale-lease
  ${STALE.what}
  why: ${STALE.why}
  do: ${STALE.remedy}
  note: ${STALE.note}
`)
  // The machine's table of neighbors may be full, which is a warning, too.
  expect(shown.stdout).toMatch(/\n\n0 errors, [12] warnings?, 2 attachments looked at\n$/)
})

/** The findings on a node whose cache is in a file system of its own. */
async function foundIn(options: string, fill = "true"): Promise<string[]> {
  const directory = node.scratch.join("disk")
  await mkdir(directory, { recursive: true })
  await node.host.exec("mount", ["-t", "tmpfs", "-o", `mode=755,${options}`, "tmpfs", directory])
  try {
    await node.host.exec("sh", ["-c", `cd ${directory} && ${fill}`])
    if (options.includes("size=8k")) await node.host.exec("mount", ["-o", "remount,ro", directory])
    const { findings } = JSON.parse((await cni("doctor", "--cache-dir", directory)).stdout)
    return findings
      .filter(({ rule }: { rule: string }) => rule.startsWith("disk"))
      .map(({ rule, severity, what, why, remedy }: Record<string, string>) =>
        [severity, rule, what, why, remedy].join("\n").replaceAll(directory, "DIR"),
      )
  } finally {
    await node.host.exec("umount", [directory])
  }
}

const ROOM =
  "delete unneeded files there, or make it larger: du -xa DIR | sort -n | tail shows what is large, df -h DIR; df -i DIR how much is used"
const WHY = "no ADD can write its records: all fail"
const blocks = (count: number) => `dd if=/dev/zero of=x bs=4096 count=${count} 2>/dev/null`

test.each<[string, string, string, string[]]>([
  ["is full", "size=400k", blocks(100), [`error\ndisk-full\nthe file system of "DIR" is full\n${WHY}\n${ROOM}`]],
  [
    "has less than a fiftieth left",
    "size=400k",
    blocks(99),
    [`warning\ndisk-full\nthe file system of "DIR" has 4 KiB left\n${WHY}\n${ROOM}`],
  ],
  ["has a fiftieth left", "size=400k", blocks(98), []],
  [
    "has no inodes left",
    "size=400k,nr_inodes=2",
    "touch x",
    [`error\ndisk-full\nthe file system of "DIR" is full\n${WHY}\n${ROOM}`],
  ],
  ["counts no inodes", "size=400k,nr_inodes=0", "touch x", []],
  [
    "cannot be written to",
    "size=8k",
    "true",
    [
      `error\ndisk-read-only\n"DIR" cannot be written to: its file system is mounted read-only\n${WHY}\nsee why, then mount it for writing: findmnt DIR shows how it is mounted, the kernel's log whether the disk is at fault`,
    ],
  ],
])("a file system that %s", async (_, options, fill, expected) => {
  expect(await foundIn(options, fill)).toEqual(expected)
})

test("plugins on a file system from which nothing may be executed", async () => {
  const bin = node.scratch.join("noexec")
  await mkdir(bin)
  await node.host.exec("mount", ["-t", "tmpfs", "-o", "noexec,mode=755", "tmpfs", bin])
  await node.host.exec("cp", [node.scratch.join("bin/bridge"), node.scratch.join("bin/host-local"), bin])
  const { stdout, exitCode } = await cni("doctor", "--bin-dir", bin)
  expect(exitCode).toBe(3)
  const found = JSON.parse(stdout).findings.filter(({ rule }: { rule: string }) => rule === "plugin-noexec")
  expect(found).toEqual([
    {
      rule: "plugin-noexec",
      severity: "error",
      network: "pods",
      fixable: false,
      what: `2 plugins lie on "${bin}", which is mounted noexec: "bridge", "host-local"`,
      why: 'no container can be attached to "pods"',
      remedy: `install them elsewhere and set the runtime's bin_dir, or mount it without noexec: findmnt ${bin} shows how it is mounted`,
      pasteable: false,
      affected: [{ name: '"bridge"' }, { name: '"host-local"' }],
    },
  ])
})

test("--fix runs DEL for what is provably gone, and says what that cannot do; a network may say by STATUS what is wrong", async () => {
  const plugin = node.scratch.join("bin/simple")
  const script = (del: string, status: string) => `#!/bin/sh
case "$CNI_COMMAND" in
ADD) echo '{"cniVersion":"1.1.0"}' ;;
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}' ;;
DEL) ${del} ;;
STATUS) ${status} ;;
"") echo "cni-plugins v0.1.0" >&2 ;;
esac
`
  const error = (code: number, msg: string) => `echo '{"code":${code},"msg":"${msg}","details":"so it is"}'; exit 1`
  await writeFile(plugin, script(error(100, "not now"), error(50, "no room")))
  await chmod(plugin, 0o755)
  await writeFile(
    node.scratch.join("net.d/20-lan.conflist"),
    '{"cniVersion":"1.1.0","name":"lan","plugins":[{"type":"simple"}]}',
  )
  await cni("add", "lan", "/run/netns/absent", "--container-id", "c9")
  const failed = await cni("doctor", "lan", "--fix")
  const ofCache = {
    rule: "stale-cache",
    severity: "warning",
    network: "lan",
    fixable: true,
    what: `the runtime's cache has "lan/c9/eth0", and there is no namespace "/run/netns/absent"`,
    why: "its container is gone, and no DEL came",
    remedy: "cni doctor --fix",
    pasteable: true,
    note: "cni gc --auto lan does it for this network alone",
    affected: [{ name: '"lan/c9/eth0"', network: "lan", containerId: "c9", ifName: "eth0" }],
  }
  const ofStatus = {
    rule: "status",
    severity: "error",
    network: "lan",
    fixable: false,
    what: 'network "lan" cannot take containers: no room: so it is',
    why: "every ADD would fail for this reason",
    remedy: "correct what the message names: cni explain has more about it, and cni status lan checks again",
    pasteable: false,
    affected: [],
  }
  const failure = 'Cannot delete what is left of "lan/c9/eth0": plugin type="simple" failed (delete): not now'
  expect(findingsOf(failed)).toEqual([ofStatus, ofCache])
  expect({ ...failed, stdout: JSON.parse(failed.stdout) }).toMatchObject({
    exitCode: 1,
    stdout: { fixes: ["DEL of lan/c9/eth0 by simple"], failures: [failure] },
    stderr: `cni doctor: ${failure}\n`,
  })
  await writeFile(plugin, script(":", ":"))
  const fixed = await show("doctor", "lan", "--fix")
  expect(fixed.exitCode).toBe(0)
  expect(fixed.stdout).toMatch(/\n\nFixing: DEL of lan\/c9\/eth0 by simple\n\n0 errors, [01] warnings?, /)
  expect(findingsOf(await cni("doctor", "lan"))).toEqual([])
})

test("--bundle writes what was seen", async () => {
  const file = node.scratch.join("node.tar")
  expect(await cni("doctor", "pods", "--bundle", file)).toMatchObject({ exitCode: 0, stderr: `Wrote ${file}\n` })
  expect((await stat(file)).mode & 0o777).toBe(0o600)
})

test("trace tells people the way hop by hop, and what a probe has met", async () => {
  const trace = (to: string, ...args: string[]) => show("trace", "pods", node.pod.path, "--to", to, ...args)
  const way = `ok    container   from 10.85.0.2 by "eth0", directly
ok    bridge      port "veth1" of bridge "cni0"
ok    filter      no rule at prerouting stops it
ok    host        10.85.0.1 is an address of the host
ok    filter      no rule at input stops it
ok    end         it reaches the host itself
`
  expect(await trace("10.85.0.1")).toEqual({ exitCode: 0, stdout: way, stderr: "" })
  const probed = await trace("10.85.0.1:9", "--probe")
  expect(probed.stdout.replace(/[\d.]+ ms/, "N ms")).toBe(
    `${way.trimEnd()}; whether a process listens there is not checked\n\nprobe: refused after N ms: connect: Connection refused (ECONNREFUSED)\n`,
  )
  expect(probed.exitCode).toBe(0)
  const lost = await trace("198.51.100.1")
  expect(lost.exitCode).toBe(3)
  expect(lost.stdout).toEndWith("STOP  end         the host has no route to 198.51.100.1\n")
  const json = JSON.parse((await cni("trace", "pods", node.pod.path, "--to", "10.85.0.1:9", "--probe")).stdout)
  expect(json).toMatchObject({ hops: { length: 6 }, probe: { outcome: "refused", ms: expect.any(Number) } })
  expect(json.hops[0]).toEqual({ where: "container", what: 'from 10.85.0.2 by "eth0", directly', passes: "yes" })
  const other = await show("trace", "pods", node.pod.path, "--to", "10.85.0.1", "--ifname", "eth1")
  expect(other).toEqual({
    exitCode: 1,
    stdout: "",
    stderr: `cni trace: Cannot find interface "eth1" of container "${node.pod.path}" in network "pods": it has pods/c1/eth0\n`,
  })
})
