import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { cp, mkdir, readdir, readFile, symlink } from "node:fs/promises"
import { homedir } from "node:os"
import { basename, dirname, join } from "node:path"
import { Spec, Validation } from "@cyclonedx/cyclonedx-library"
import { layPlugins } from "../../scripts/build.ts"
import { makeArchive } from "../../scripts/dist.ts"
import { root as project, targets } from "../../scripts/engine.ts"
import { npmPackagesOf } from "../../scripts/notice.ts"
import { bundles, stageFiles } from "../../scripts/release/stage.ts"
import {
  bridgeNetwork,
  builtPlugins,
  type ContainerNamespace,
  HostNamespace,
  mustRun,
  type PluginCall,
  type PluginResult,
  ping,
  pluginEnv,
  programEnv,
  runProgram,
  TemporaryDirectory,
} from "../lab/mod.ts"

const age = 1_700_000_000
let directory: TemporaryDirectory
let archive: string

beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-archive", dirname(builtPlugins))
  archive = await makeArchive(targets.amd64, await stageFiles(targets.amd64), directory.path, age)
})
afterAll(() => directory[Symbol.asyncDispose]())

const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex")

test("the archive is unpacked like that of the reference plugins, and its sum is beside it", async () => {
  const version = JSON.parse(await readFile(join(project, "package.json"), "utf8")).version
  expect(basename(archive)).toBe(`cni-plugins-linux-amd64-v${version}.tgz`)
  await mustRun(["sh", "-c", `cd ${directory.path} && sha256sum --check --strict ${basename(archive)}.sha256`])
  const { stdout } = await mustRun(["tar", "--list", "--verbose", "--numeric-owner", "--gzip", "--file", archive])
  const entries = stdout.trim().split("\n")
  const plugins = (await readdir(builtPlugins)).sort()
  const executables = [...plugins, "cni"].sort()
  // The archive contains no directory, whose owner and mode /opt/cni/bin would get, and no link.
  const flat = entries.filter((line) => !/ share\/[^ ]+$/.test(line))
  expect(flat.map((line) => line.split(/ +/).at(-1))).toEqual(["LICENSE", "NOTICE", "README.md", ...executables])
  const kinds = flat.map((line) => line.split(/ +/).slice(0, 2).join(" "))
  expect(kinds).toEqual([...Array(3).fill("-rw-r--r-- 0/0"), ...Array(executables.length).fill("-rwxr-xr-x 0/0")])
  const others = entries.filter((line) => !flat.includes(line))
  expect(new Set(others.map((line) => line.split(/ +/).slice(0, 2).join(" ")))).toEqual(new Set(["-rw-r--r-- 0/0"]))
  const pages = await readdir(join(builtPlugins, "../man/man1"))
  expect(others.map((line) => line.split(/ +/).at(-1)).sort()).toEqual(
    [
      ...plugins.map((name) => `share/man/man8/cni-${name}.8`),
      ...pages.filter((name) => !name.startsWith("cni-agent")).map((name) => `share/man/man1/${name}`),
      ...["bash/cni", "zsh/_cni", "fish/cni.fish"].map((name) => `share/completions/${name}`),
      ...[
        "dhcp.service",
        "dhcp.socket",
        "gc.service",
        "gc.timer",
        "metrics.service",
        "metrics.timer",
        "reconcile.service",
      ].map((name) => `share/systemd/cni-${name}`),
      "share/systemd/80-cni-plugins.preset",
      ...[...plugins, "conflist"].map((name) => `share/schemas/${name}.json`),
    ].sort(),
  )
})

test("bash completes the tool by the archive's file", async () => {
  await using place = await TemporaryDirectory.create()
  await mustRun(["tar", "-C", place.path, "-xzf", archive])
  const words = "COMP_WORDS=(./cni doct); COMP_CWORD=1"
  const script = `source share/completions/bash/cni; ${words}; _cni; echo "\${COMPREPLY[@]}"`
  const { stdout } = await mustRun(["bash", "-ec", `cd ${place.path}; ${script}`])
  expect(stdout).toBe("doctor\n")
})

test("NOTICE has the terms of all that is inside, and LICENSE the project's own", async () => {
  const { stdout: licence } = await mustRun(["tar", "-xzOf", archive, "LICENSE"])
  expect(licence).toBe(await readFile(join(project, "LICENSE"), "utf8"))
  const { stdout: notice } = await mustRun(["tar", "-xzOf", archive, "NOTICE"])
  for (const owner of ["Fabrice Bellard", "Ben Noordhuis", "UNICODE LICENSE V3", "Paul Miller", "Rich Felker"])
    expect(notice).toContain(owner)
})

test("the bill of materials beside it is CycloneDX, and names what is inside, as it is installed here [S117]", async () => {
  const text = await readFile(archive.replace(/tgz$/, "cdx.json"), "utf8")
  expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(text)).toBeNull()
  const { metadata, components } = JSON.parse(text)
  expect(metadata.component.hashes).toEqual([{ alg: "SHA-256", content: sha256(await readFile(archive)) }])
  const pip = (await readFile(join(project, "host/engine.txt"), "utf8")).split(/==| --hash=sha256:|\n/)
  const { version } = JSON.parse(await readFile(join(project, "node_modules/@noble/hashes/package.json"), "utf8"))
  const musl = (await mustRun(["dpkg-query", "--show", "musl-dev"])).stdout.trim().split("\t")[1]
  expect(npmPackagesOf(await bundles())).toEqual(["@noble/hashes"])
  const listed = components.map((one: { name: string; version: string }) => `${one.name} ${one.version}`)
  expect(listed.sort()).toEqual([`@noble/hashes ${version}`, `musl-dev ${musl}`, `quickjs-ng ${pip[1]}`])
  expect(text).toContain(`"content": "${pip[2]}"`)
})

test("two archives are the same bytes, made anywhere, by any user's settings [S118]", async () => {
  await using elsewhere = await TemporaryDirectory.create("cni-archive-of-a-longer-name", dirname(builtPlugins))
  const copy = elsewhere.join("some/project")
  await mkdir(copy, { recursive: true })
  for (const name of await readdir(project)) {
    if (/^(dist|\.git)$/.test(name)) continue
    await mustRun(["cp", "--recursive", ...(name === "node_modules" ? ["--link"] : []), join(project, name), copy])
  }
  await mkdir(elsewhere.join("cache"))
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "cni-plugins")
  await symlink(cache, elsewhere.join("cache/cni-plugins"))
  const settings = { HOME: "/nonexistent", XDG_CACHE_HOME: elsewhere.join("cache"), TZ: "Asia/Tokyo", GZIP: "--fast" }
  await mustRun(["sh", "-c", `umask 077 && cd / && exec ${process.execPath} ${copy}/scripts/dist.ts amd64`], {
    env: { ...programEnv, ...settings, SOURCE_DATE_EPOCH: String(age) },
  })
  for (const file of [archive, archive.replace(/tgz$/, "cdx.json")])
    expect(sha256(await readFile(join(copy, "dist", basename(file))))).toBe(sha256(await readFile(file)))
  const executable = await readFile(join(builtPlugins, "bridge"), "latin1")
  for (const place of [project, homedir(), cache]) expect(executable.includes(place)).toBe(false)
})

/**
 * Creates a root directory like Alpine's. It contains only busybox, built with musl, and the plugins, unpacked by
 * busybox's tar.
 */
async function makeAlpine(at: string): Promise<void> {
  for (const name of ["bin", "opt/cni/bin", "proc", "sys", "run/netns", "var/lib/cni"])
    await mkdir(join(at, name), { recursive: true })
  await cp("/bin/busybox", join(at, "bin/busybox"))
  await cp(archive, join(at, "plugins.tgz"))
  await mustRun(["chroot", at, "/bin/busybox", "tar", "-C", "/opt/cni/bin", "-xzf", "/plugins.tgz"])
}

/** Runs a plugin on a host with this directory as root. */
async function runInRoot(host: HostNamespace, at: string, pod: ContainerNamespace, call: Partial<PluginCall>) {
  const steps = [
    `mount --bind ${at} ${at}`,
    `mount -t proc proc ${at}/proc`,
    `mount -t sysfs sysfs ${at}/sys`,
    `mount --rbind /run/netns ${at}/run/netns`,
    `cd ${at} && mkdir -p old && pivot_root . old`,
    `exec /bin/busybox sh -ec 'umount -l /old; exec "$@"' sh "$@"`, // the plugin can open no file of the machine
  ]
  const shell = ["--mount", "--propagation=private", "sh", "-ec", steps.join("\n"), "sh", "/opt/cni/bin/bridge"]
  const env = pluginEnv({ bin: "/opt/cni/bin/bridge", verb: "ADD", containerId: pod.name, netns: pod.path, ...call })
  return host.tryExec("unshare", shell, { env: { ...env, CNI_IFNAME: "eth0" }, input: JSON.stringify(call.config) })
}

test("unpacked on a system without glibc, it attaches a container, which reaches the host, and detaches it [S101]", async () => {
  await using host = await HostNamespace.create()
  await using alpine = await TemporaryDirectory.create("cni-alpine")
  await makeAlpine(alpine.path)
  const pod = await host.addContainer()
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const added = await runInRoot(host, alpine.path, pod, { config })
  expect(added).toMatchObject({ exitCode: 0, stderr: "" })
  const result = JSON.parse(added.stdout) as PluginResult
  expect(result.ips).toMatchObject([{ address: "10.22.0.2/16", gateway: "10.22.0.1" }])
  expect(await ping(pod, "10.22.0.1")).toBe(true)
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain("10.22.0.2")
  expect(await readdir(alpine.join("var/lib/cni/networks/lab"))).toContain("10.22.0.2")
  const checked = await runInRoot(host, alpine.path, pod, { verb: "CHECK", config: { ...config, prevResult: result } })
  expect(checked).toMatchObject({ exitCode: 0, stdout: "" })
  expect(await runInRoot(host, alpine.path, pod, { verb: "DEL", config })).toMatchObject({ exitCode: 0, stdout: "" })
  expect(await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toBe("")
  expect(await readdir(alpine.join("var/lib/cni/networks/lab"))).not.toContain("10.22.0.2")
})

/** The content of another suite's plugin. */
const theirs = "#!/bin/sh\necho theirs\n"

/**
 * The commands with which other installers replace a file. The working directory contains `theirs/bridge` and `bin`.
 */
const installers = [
  "cp theirs/bridge bin/bridge",
  "cp -f theirs/bridge bin/bridge",
  "cp -a theirs/. bin/",
  "install -m 755 theirs/bridge bin/bridge",
  "tar -C theirs -c bridge | tar -C bin -x",
  "tar -C theirs -c bridge | tar -C bin -x --overwrite",
  "cat theirs/bridge > bin/bridge",
  "dd if=theirs/bridge of=bin/bridge conv=notrunc",
  "busybox cp theirs/bridge bin/bridge",
  "tar -C theirs -c bridge | busybox tar -C bin -x",
]

/** The ways to install plugins in a directory. */
const layouts: Readonly<Record<string, (bin: string) => Promise<unknown>>> = {
  "the build": async (bin) => layPlugins(bin, (name) => join(builtPlugins, name)),
  "`cni install`": (bin) => mustRun([join(builtPlugins, "../cni"), "install", "--bin-dir", bin]),
  "the archive": (bin) => mustRun(["tar", "-C", bin, "-xzf", archive]),
}

describe.each(Object.entries(layouts))("another installer's bridge over that of %s", (_, lay) => {
  test.each(installers)("by %p leaves all other names as they are", async (command) => {
    await using place = await TemporaryDirectory.create("cni-overwritten", directory.path)
    await mkdir(place.join("bin"))
    await lay(place.join("bin"))
    await mkdir(place.join("theirs"))
    await Bun.write(place.join("theirs/bridge"), theirs, { mode: 0o755 })
    const others = (await readdir(builtPlugins)).filter((name) => name !== "bridge")
    const ours = await Promise.all(others.map((name) => readFile(place.join("bin", name))))
    await mustRun(["sh", "-ec", `cd ${place.path}\n${command}`])
    expect((await readFile(place.join("bin/bridge"), "latin1")).startsWith(theirs)).toBe(true)
    for (const [at, name] of others.entries()) {
      expect((await readFile(place.join("bin", name))).equals(ours[at] ?? Buffer.of())).toBe(true)
      const { stdout } = await runProgram([place.join("bin", name)], { env: { CNI_COMMAND: "VERSION" } })
      expect(JSON.parse(stdout)).toMatchObject({ cniVersion: "1.1.0" })
    }
  })
})
