import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdir, readFile } from "node:fs/promises"
import { version } from "../../package.json"
import { mustRun, runProgram, TemporaryDirectory } from "../lab/mod.ts"
import { emptyRoot, runInDebian } from "./debian-root.ts"
import { type Made, madeFiles, samplePlugins } from "./sample.ts"

let release: Made

beforeAll(async () => {
  release = await madeFiles("release")
})
afterAll(() => release[Symbol.asyncDispose]())

const deb = `cni-plugins_${version}-1_amd64.deb`
const rpm = `cni-plugins-${version}-1.x86_64.rpm`
const lines = (text: string) => text.trim().split("\n")
const protocol = { cniVersion: "1.1.0" }

async function askVersion(plugin: string): Promise<object> {
  return JSON.parse((await mustRun([plugin], { env: { CNI_COMMAND: "VERSION" } })).stdout)
}

test("a release has an archive with its sum and bills, packages of both machines, and one image", async () => {
  expect((await readdir(release.path)).sort()).toEqual([
    "SHA256SUMS",
    `cni-plugins-${version}-1.aarch64.rpm`,
    rpm,
    `cni-plugins-${version}-arm64.raw`,
    `cni-plugins-${version}-x86-64.raw`,
    `cni-plugins-image-${version}.tar`,
    `cni-plugins-linux-amd64-v${version}.cdx.json`,
    `cni-plugins-linux-amd64-v${version}.spdx.json`,
    `cni-plugins-linux-amd64-v${version}.tgz`,
    `cni-plugins-linux-amd64-v${version}.tgz.sha256`,
    `cni-plugins-v${version}.intoto.json`,
    deb,
    `cni-plugins_${version}-1_arm64.deb`,
  ])
})

test("every file, made elsewhere, later and with other settings, has the same bytes [S141]", async () => {
  await using elsewhere = await TemporaryDirectory.create("cni-release-of-a-longer-name")
  const settings = {
    TMPDIR: elsewhere.path,
    TZ: "Asia/Tokyo",
    LC_ALL: "C.UTF-8",
    XZ_OPT: "-0",
    GZIP: "--fast",
    DEB_BUILD_OPTIONS: "parallel=7",
  }
  const made = elsewhere.join("made")
  const script = 'umask 077 && mkdir "$2" && cd / && exec "$0" "$1" "$2" release'
  const sample = `${import.meta.dir}/sample.ts`
  await mustRun(["sh", "-c", script, process.execPath, sample, made], {
    env: { ...process.env, ...settings } as Record<string, string>,
    timeoutMs: 600_000,
  })
  const sums = await readFile(`${release.path}/SHA256SUMS`, "utf8")
  expect(await readFile(`${made}/SHA256SUMS`, "utf8")).toBe(sums)
  const { stdout } = await mustRun(["sh", "-c", `cd ${made} && sha256sum --check --strict SHA256SUMS`])
  expect(lines(stdout).length).toBe(lines(sums).length)
}, 700_000)

test("lintian finds no error in the .deb", async () => {
  const found = await runProgram(["lintian", "--allow-root", "--fail-on", "error", `${release.path}/${deb}`])
  expect(found).toMatchObject({ exitCode: 0, stdout: expect.not.stringMatching(/^E:/m) })
})

test("apt takes the .deb for Debian's plugins, and keeps podman and containerd", async () => {
  const simulate = `apt-get install --simulate podman containerd /mnt/${deb}`
  const { stdout, exitCode } = await runInDebian(simulate, release.path)
  expect(exitCode).toBe(0)
  const steps = lines(stdout).filter((line) => /^(Inst|Remv|Conf) /.test(line))
  expect(steps.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
    "Remv containernetworking-plugins",
    "Inst cni-plugins",
    "Conf cni-plugins",
  ])
})

test("dpkg puts the .deb in the place of Debian's plugins with the units that users have enabled; after its removal nothing is left", async () => {
  const script = `
exec 3>&1 >&2
dpkg -i /mnt/${deb}
apt-get check
dpkg --audit >&3
dpkg --verify cni-plugins >&3
dpkg-divert --list | grep cni-dhcp >&3 || true
ls /usr/lib/cni >&3
dpkg-query --show --showformat='\${db:Status-Status}\\n' containernetworking-plugins >&3
CNI_COMMAND=VERSION /usr/lib/cni/bridge >&3
grep ExecStart= /lib/systemd/system/cni-dhcp.service >&3
man --path cni-bridge cni-ps >&3
cni version | head -n 1 >&3
test ! -e /opt/cni/bin/bridge
test -s /usr/share/bash-completion/completions/cni
test -s /usr/share/zsh/vendor-completions/_cni
dpkg --force-depends --purge cni-plugins
find /usr/share/man -name '*cni-bridge*' >&3
find /usr/lib/cni /usr/share/doc/cni-plugins /lib/systemd/system/cni-dhcp.service >&3 || true`
  const { stdout, stderr, exitCode } = await runInDebian(script, release.path)
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  const [answer = ""] = lines(stdout).filter((line) => line.startsWith("{"))
  expect(JSON.parse(answer)).toMatchObject(protocol)
  expect(lines(stdout).filter((line) => line !== answer)).toEqual([
    ...samplePlugins,
    "config-files",
    "ExecStart=/usr/lib/cni/dhcp daemon",
    "/usr/share/man/man8/cni-bridge.8.gz",
    "/usr/share/man/man1/cni-ps.1.gz",
    expect.stringContaining(version),
  ])
})

test("the .rpm is whole, says in whose place it is installed, and goes into a root and out of it", async () => {
  const output = await mustRun(["rpm", "--checksig", "--verbose", `${release.path}/${rpm}`])
  expect(
    lines(output.stdout)
      .slice(1)
      .every((line) => line.endsWith(": OK")),
  ).toBe(true)
  const query = async (...words: string[]) =>
    lines((await mustRun(["rpm", "--query", ...words, "--package", `${release.path}/${rpm}`])).stdout)
  expect(await query("--queryformat", "%{name} %{version} %{arch} %{license} %{buildhost} %{buildtime}")).toEqual([
    `cni-plugins ${version} x86_64 Apache-2.0 localhost 1700000000`,
  ])
  expect(await query("--provides")).toContainEqual(expect.stringMatching(/^containernetworking-plugins = \d/))
  expect(await query("--conflicts")).toEqual(["containernetworking-plugins"])
  expect((await query("--requires")).filter((need) => !/^(rpmlib\(|\/bin\/sh$)/.test(need))).toEqual([])
  expect(await query("--licensefiles")).toEqual([
    "/usr/share/doc/cni-plugins/LICENSE",
    "/usr/share/doc/cni-plugins/NOTICE",
  ])

  await using root = await emptyRoot()
  const inRoot = (...words: string[]) => mustRun(["rpm", "--root", root.path, ...words])
  await inRoot("--install", "--nodeps", "--noscripts", `${release.path}/${rpm}`)
  await inRoot("--verify", "--nodeps", "cni-plugins")
  expect((await readdir(root.join("usr/libexec/cni"))).sort()).toEqual(samplePlugins)
  expect(await askVersion(root.join("usr/libexec/cni/bridge"))).toMatchObject(protocol)
  expect(await readFile(root.join("usr/lib/systemd/system/cni-dhcp.service"), "utf8")).toContain(
    "ExecStart=/usr/libexec/cni/dhcp daemon",
  )
  await inRoot("--erase", "--nodeps", "--noscripts", "cni-plugins")
  const { stdout } = await mustRun(["find", root.join("usr"), "-type", "f"])
  expect(stdout).toBe("")
})

test("systemd merges the extension into /usr, and takes it out again", async () => {
  const script = `
rm -f /usr/lib/cni/*
mkdir -p /run/systemd /var/lib/extensions
unsquashfs -quiet -no-progress -dest /var/lib/extensions/cni-plugins /mnt/cni-plugins-${version}-x86-64.raw >&2
systemd-sysext merge >&2
ls /usr/lib/cni
CNI_COMMAND=VERSION /usr/lib/cni/bridge
systemd-sysext unmerge >&2
ls /usr/lib/cni`
  const { stdout, stderr, exitCode } = await runInDebian(script, release.path)
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  expect(lines(stdout).slice(0, 3)).toEqual(samplePlugins)
  expect(JSON.parse(lines(stdout)[3] ?? "")).toMatchObject(protocol)
  expect(lines(stdout).length).toBe(4)
})

test("an extension of another machine is refused", async () => {
  const script = `
rm -f /usr/lib/cni/*
mkdir -p /run/systemd /var/lib/extensions
unsquashfs -quiet -no-progress -dest /var/lib/extensions/cni-plugins /mnt/cni-plugins-${version}-arm64.raw >&2
systemd-sysext merge >&2 || true
ls /usr/lib/cni`
  const { stdout, stderr, exitCode } = await runInDebian(script, release.path)
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" })
  expect(stderr).toContain("No suitable extensions found")
})
