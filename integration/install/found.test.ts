import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readdir } from "node:fs/promises"
import { dirname, join } from "node:path"
import { builtPlugins, mustRun, type Output, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/** The root directory of a node, with the tool and the plugins in /srv. */
let root: TemporaryDirectory
beforeAll(async () => {
  root = await TemporaryDirectory.create("cni-found", dirname(builtPlugins))
  for (const name of ["srv", "proc"]) await mkdir(root.join(name))
  await mustRun(["cp", "--link", "--recursive", join(builtPlugins, "../cni"), builtPlugins, root.join("srv")])
})
afterAll(() => root[Symbol.asyncDispose]())

/** Runs `cni install` in the root, after it has created these directories and files. */
async function install(directories: readonly string[], files: Record<string, string>, ...flags: string[]) {
  await mustRun(["sh", "-ec", `cd ${root.path}; rm -rf etc opt usr var own`])
  for (const directory of directories) await mkdir(root.join(directory), { recursive: true })
  for (const [file, text] of Object.entries(files)) await Bun.write(root.join(file), text)
  const script = `mount -t proc proc ${root.path}/proc; exec chroot ${root.path} /srv/cni install "$@"`
  return await runProgram(["unshare", "--mount", "--propagation=private", "sh", "-ec", script, "sh", ...flags])
}

const summaryOf = ({ exitCode, stderr }: Output) => [exitCode, stderr.split("\n")[0]]
const containerd = (directory: string) =>
  `version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "${directory}"\n`
const crio = (directory: string) => `[crio.network]\nplugin_dirs = ["${directory}"]\n`
const rancher = "var/lib/rancher"

test.each([
  ["kubeadm", "/etc/containerd/config.toml", containerd("/own/bin")],
  ["k3s", `/${rancher}/k3s/agent/etc/containerd/config.toml`, containerd("/own/bin")],
  ["RKE2", `/${rancher}/rke2/agent/etc/containerd/config.toml`, containerd("/own/bin")],
  ["CRI-O", "/etc/crio/crio.conf.d/10-own.conf", crio("/own/bin")],
])("on a node of %s the runtime's configuration says where plugins go, before what is there", async (_, file, text) => {
  const output = await install(["own/bin", "opt/cni/bin", "usr/lib/cni"], { [file]: text })
  expect(summaryOf(output)).toEqual([0, `Directory of plugins: /own/bin, as ${file} says`])
  expect(await readdir(root.join("own/bin"))).toContain("bridge")
  expect([await readdir(root.join("opt/cni/bin")), await readdir(root.join("usr/lib/cni"))]).toEqual([[], []])
})

test.each([
  ["kubeadm", ["opt/cni/bin", "usr/lib/cni"], "/opt/cni/bin"],
  ["Debian", ["usr/lib/cni"], "/usr/lib/cni"],
  ["Fedora", ["usr/libexec/cni"], "/usr/libexec/cni"],
  ["CRI-O, with a read-only /usr", ["var/lib/cni/bin"], "/var/lib/cni/bin"],
  ["k3s", [`${rancher}/k3s/data/cni`], `/${rancher}/k3s/data/cni`],
])("where no runtime says it, on a node of %s, the directory that is there is taken", async (_, directories, found) => {
  const output = await install(directories, {}, "--dry-run")
  expect(summaryOf(output)).toEqual([0, `Directory of plugins: ${found}, which exists`])
})

test("the directory is told before anything is written", async () => {
  const output = await install([], { "etc/containerd/config.toml": containerd("/own/bin") })
  expect([output.exitCode, output.stderr]).toEqual([
    1,
    expect.stringMatching(
      /^Directory of plugins: \/own\/bin, as .*\ncni install: Cannot install into "\/own\/bin": it does not exist\n/,
    ),
  ])
  expect(summaryOf(await install([], {}))).toEqual([1, "Directory of plugins: /opt/cni/bin, the default"])
})

test("runtimes that name different directories are told, and nothing is installed", async () => {
  const files = { "etc/containerd/config.toml": containerd("/own/bin"), "etc/crio/crio.conf": crio("/opt/cni/bin") }
  const { exitCode, stderr } = await install(["own/bin", "opt/cni/bin"], files)
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining(
      "runtimes use /own/bin (/etc/containerd/config.toml) and /opt/cni/bin (/etc/crio/crio.conf); name one with --bin-dir",
    ),
  ])
  expect([await readdir(root.join("own/bin")), await readdir(root.join("opt/cni/bin"))]).toEqual([[], []])
})

/** A network of a plugin that does not exist, so that the error names the searched directories. */
const network = JSON.stringify({ cniVersion: "1.1.0", name: "own", plugins: [{ type: "own-plugin" }] })
const packaged =
  "mkdir -p usr/bin usr/lib opt/cni/bin; cp --link srv/cni usr/bin; cp --link --recursive srv/bin usr/lib/cni"

/** Runs a command in the root with `files`. `prepare` is a script that changes the root first. */
async function inRoot(files: Record<string, string>, command: string, prepare = ""): Promise<Output> {
  await mustRun(["sh", "-ec", `cd ${root.path}; rm -rf etc opt usr var own; ${prepare}`])
  for (const [file, text] of Object.entries(files)) await Bun.write(root.join(file), text)
  const script = `mount -t proc proc ${root.path}/proc; exec chroot ${root.path} ${command}`
  return await runProgram(["unshare", "--mount", "--net", "--propagation=private", "sh", "-ec", script])
}

test.each([
  ["containerd", "etc/containerd/config.toml", `${containerd("/own/bin")}  conf_dir = "/own/net.d"\n`],
  ["CRI-O", "etc/crio/crio.conf", `${crio("/own/bin")}network_dir = "/own/net.d"\n`],
])("every command looks for networks and plugins where %s does", async (_, file, text) => {
  const files = { [file]: text, "own/net.d/10-own.conflist": network }
  const said = (words: string) => inRoot(files, `/srv/cni ${words}`)
  for (const words of ["status own", "add own /proc/self/ns/net"])
    expect((await said(words)).stderr).toContain('"own-plugin" in path [/own/bin]')
  expect(await said("ps own")).toMatchObject({ exitCode: 0, stdout: "No attachments\n" })
  const { findings } = JSON.parse((await said("doctor own --json")).stdout) as { findings: { what: string }[] }
  expect(findings.map(({ what }) => what)).toContain('plugin "own-plugin" is not in /own/bin')
  expect((await said("lint")).stdout).toContain("/own/net.d/10-own.conflist:")
})

test("the tool of a package finds the plugins of its package, to use them and to install them", async () => {
  const files = { "etc/cni/net.d/10-own.conflist": network }
  const said = (words: string) => inRoot(files, `/usr/bin/cni ${words}`, packaged)
  expect((await said("status own")).stderr).toContain('"own-plugin" in path [/opt/cni/bin /usr/lib/cni]')
  expect(summaryOf(await said("install"))).toEqual([0, "Directory of plugins: /opt/cni/bin, which exists"])
  expect(await readdir(root.join("opt/cni/bin"))).toContain("bridge")
})

test("cni install is a remedy of doctor where it would succeed, and words are where the tool has no plugins beside it", async () => {
  const bridge = { cniVersion: "1.1.0", name: "own", plugins: [{ type: "bridge", isGateway: true }] }
  const files = { "etc/cni/net.d/10-own.conflist": JSON.stringify(bridge) }
  const remedy = async (command: string, prepare: string) => {
    const { findings } = JSON.parse((await inRoot(files, command, prepare)).stdout) as {
      findings: { rule: string; remedy: string; pasteable: boolean }[]
    }
    const { remedy, pasteable } = findings.find(({ rule }) => rule === "plugin-missing") ?? {}
    return { remedy, pasteable }
  }
  const doctor = "doctor --json --bin-dir /opt/cni/bin"
  expect(await remedy(`/usr/bin/cni ${doctor}`, packaged)).toEqual({
    remedy: "cni install --bin-dir /opt/cni/bin",
    pasteable: true,
  })
  const alone = "mkdir -p usr/bin opt/cni/bin; cp --link srv/cni usr/bin"
  expect(await remedy(`/usr/bin/cni ${doctor}`, alone)).toEqual({
    remedy: expect.stringContaining("from their archive or package"),
    pasteable: false,
  })
})
