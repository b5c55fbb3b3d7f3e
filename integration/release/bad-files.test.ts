/**
 * Tests incomplete and changed files, and files of another machine or program: the commands print one clear error,
 * change nothing, and the old suite still works.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cp, open, readdir, readFile, rename, truncate, writeFile } from "node:fs/promises"
import { version } from "../../package.json"
import { pluginNames } from "../../suite/plugins.ts"
import { Podman } from "../interop/podman.ts"
import { mustRun, TemporaryDirectory } from "../lab/mod.ts"
import { FreshRoot, minimalDebian, rpmOfTheSystem } from "./fresh-root.ts"
import { Page } from "./page.ts"
import { arm64Image, laterVersion, type Made, madeFiles } from "./sample.ts"

let release: Made
let install: Page
let upgrade: Page
const versions = { OLD: version, NEW: laterVersion }

const deb = `cni-plugins_${versions.NEW}-1_amd64.deb`
const rpm = `cni-plugins-${versions.NEW}-1.x86_64.rpm`
const archive = `cni-plugins-linux-amd64-v${versions.NEW}.tgz`

beforeAll(async () => {
  release = await madeFiles("upgrade")
  install = await Page.read("docs/install.md", "Install")
  upgrade = await Page.read("docs/install.md", "Upgrade")
  // Create them before the tests, so that no test has to wait for them.
  await minimalDebian()
  await minimalDebian("rpm", "dnf")
}, 1_800_000)
afterAll(() => release[Symbol.asyncDispose]())

/** A command that prints the packages and diversions of the package managers. */
const knownPackages =
  "dpkg-query --show; dpkg-divert --list; dpkg --audit; if command -v rpm >/dev/null; then rpm --query --all | sort; fi"

/** Checks that the old suite works: one pod stays attached, and another is attached and detached. */
async function expectWorks(host: FreshRoot, binDir: string): Promise<void> {
  await host.follow("cni check kept kept && cni add kept later && cni del kept later", { CNI_PATH: binDir })
}

/** Runs commands that must fail with a message, and checks that they have changed nothing. */
async function expectRefused(host: FreshRoot, commands: string, message: RegExp, binDir?: string): Promise<void> {
  const state = async () => [...(await host.files()), await host.follow(knownPackages)]
  const before = await state()
  const { exitCode, stdout, stderr } = await host.tryFollow(commands, versions)
  expect({ exitCode, said: stdout + stderr }).toMatchObject({
    exitCode: expect.any(Number),
    said: expect.stringMatching(message),
  })
  expect(exitCode).not.toBe(0)
  expect(await state()).toEqual(before)
  if (binDir) await expectWorks(host, binDir)
}

/** Creates a host with the old suite, installed by the commands of the page, and a pod. */
async function hostWith(way: "archive" | "deb" | "rpm", binDir: string): Promise<FreshRoot> {
  const host = await FreshRoot.create(await minimalDebian(...(way === "rpm" ? ["rpm", "dnf"] : [])), release.path)
  if (way === "rpm") await host.follow(rpmOfTheSystem)
  await host.follow(`cp /mnt/* .\n${install.commands(way)}`)
  const keys = { type: "bridge", bridge: "kept0", ipam: { type: "host-local", ranges: [[{ subnet: "10.97.0.0/24" }]] } }
  await host.follow("mkdir -p /etc/cni/net.d && ip netns add kept && ip netns add later")
  await writeFile(
    host.file("/etc/cni/net.d/90-kept.conflist"),
    JSON.stringify({ cniVersion: "1.1.0", name: "kept", plugins: [keys] }),
  )
  await host.follow("cni add kept kept", { CNI_PATH: binDir })
  return host
}

/** Changes a byte in the middle of a file. */
const spoil = (file: string) => async (host: FreshRoot) => {
  await using handle = await open(host.file(`/root/${file}`), "r+")
  const { size } = await handle.stat()
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size >> 1)
  await handle.write(Buffer.of((buffer[0] ?? 0) ^ 1), 0, 1, size >> 1)
}

/** Cuts off the end of a file, as after an interrupted download. */
const cut = (file: string, share: number) => async (host: FreshRoot) => {
  const { size } = Bun.file(host.file(`/root/${file}`))
  await truncate(host.file(`/root/${file}`), Math.floor(size * share))
}

/** Replaces a file by that of another machine, with the same name. */
const swap = (file: string, other: string) => (host: FreshRoot) =>
  cp(`${release.path}/${other}`, host.file(`/root/${file}`))

const arm64Deb = `cni-plugins_${versions.OLD}-1_arm64.deb`
const arm64Rpm = `cni-plugins-${versions.OLD}-1.aarch64.rpm`

test.each<[string, RegExp, (host: FreshRoot) => Promise<unknown>]>([
  ["of which half is there", /Could not read meta data|unexpected end of file/, cut(deb, 0.5)],
  [
    "of which the last byte is missing",
    /Could not read meta data|unexpected end of file/,
    (host) => truncate(host.file(`/root/${deb}`), Bun.file(`${release.path}/${deb}`).size - 1),
  ],
  ["that is empty", /./, cut(deb, 0)],
  ["with a byte that was changed", /corrupted|lzma error/i, spoil(deb)],
  ["of another machine", /arm64/, swap(deb, arm64Deb)],
])(
  "a .deb %s is refused by apt and by dpkg, and the old suite works",
  async (_, message, change) => {
    await using host = await hostWith("deb", "/usr/lib/cni")
    await change(host)
    await expectRefused(host, upgrade.commands("deb"), message, "/usr/lib/cni")
    await expectRefused(host, `dpkg --install ./${deb}`, message, "/usr/lib/cni")
  },
  300_000,
)

test.each<[string, RegExp, (host: FreshRoot) => Promise<unknown>]>([
  ["of which half is there", /cannot be installed|BAD|not an rpm|unexpected|cpio|DIGEST/i, cut(rpm, 0.5)],
  ["with a byte that was changed", /BAD|digest|does not verify/i, spoil(rpm)],
  ["of another machine", /different architecture|aarch64/, swap(rpm, arm64Rpm)],
])(
  "an .rpm %s is refused by rpm and by dnf, and the old suite works",
  async (_, message, change) => {
    await using host = await hostWith("rpm", "/usr/libexec/cni")
    await change(host)
    await expectRefused(host, upgrade.commands("rpm-alone"), message, "/usr/libexec/cni")
    await expectRefused(host, upgrade.commands("rpm"), /error|fail|nothing/i, "/usr/libexec/cni")
  },
  300_000,
)

test.each([0.02, 0.5, 0.98])(
  "an archive of which %p is there is refused, also what tar has unpacked of it",
  async (share) => {
    await using host = await hostWith("archive", "/opt/cni/bin")
    await cut(archive, share)(host)
    await expectRefused(host, upgrade.commands("archive"), /Unexpected EOF|unexpected end of file/i, "/opt/cni/bin")
    await expectRefused(
      host,
      `cp /usr/local/bin/cni cni-plugins-${versions.NEW}/ && cni-plugins-${versions.NEW}/cni install --bin-dir /opt/cni/bin`,
      /missing|truncated/,
      "/opt/cni/bin",
    )
  },
  300_000,
)

test("an archive of another machine does not run, and its plugins are refused by this machine's tool", async () => {
  await using host = await hostWith("archive", "/opt/cni/bin")
  const from = host.file("/root/other")
  await mustRun(["mkdir", from])
  await mustRun(["tar", "--extract", "--file", `${release.path}/${archive}`, "--directory", from])
  for (const name of [...pluginNames, "cni"]) {
    await using handle = await open(`${from}/${name}`, "r+")
    await handle.write(Uint8Array.of(183, 0), 0, 2, 18) // e_machine, EM_AARCH64
  }
  await host.follow(`tar --create --gzip --file ${archive} --directory other . && mv other kept-other`)
  await expectRefused(host, upgrade.commands("archive"), /Exec format error/, "/opt/cni/bin")
  await expectRefused(
    host,
    "cp /usr/local/bin/cni kept-other/cni && kept-other/cni install --bin-dir /opt/cni/bin",
    /it is built for aarch64, but this machine is x86_64/,
    "/opt/cni/bin",
  )
})

test("a .deb is refused where another package has one of its files", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  await host.follow(`
cp /mnt/*.deb .
mkdir -p theirs/DEBIAN theirs/usr/lib/cni
printf '#!/bin/sh\\necho theirs\\n' >theirs/usr/lib/cni/bridge
chmod 755 theirs/usr/lib/cni/bridge
printf 'Package: theirs\\nVersion: 1\\nArchitecture: all\\nMaintainer: they <they@example.org>\\nDescription: theirs\\n' >theirs/DEBIAN/control
dpkg-deb --build theirs
dpkg --install theirs.deb`)
  const message = /trying to overwrite .*\/usr\/lib\/cni\/bridge.*, which is also in package theirs/
  await expectRefused(host, install.commands("deb"), message)
  await expectRefused(host, install.commands("deb-in-place"), message)
  expect(await host.follow("/usr/lib/cni/bridge")).toBe("theirs\n")
})

test("an .rpm is refused where another package has one of its files", async () => {
  await using host = await FreshRoot.create(await minimalDebian("rpm", "dnf"), release.path)
  await host.follow(`
${rpmOfTheSystem}
cp /mnt/*.rpm .
printf 'Name: theirs\\nVersion: 1\\nRelease: 1\\nSummary: theirs\\nLicense: none\\nBuildArch: noarch\\n%%description\\ntheirs\\n%%install\\nmkdir -p %%{buildroot}/usr/libexec/cni\\nprintf "#!/bin/sh\\\\necho theirs\\\\n" >%%{buildroot}/usr/libexec/cni/bridge\\n%%files\\n%%attr(0755,root,root) /usr/libexec/cni/bridge\\n' >/tmp/theirs.spec
rpmbuild -bb --quiet --define "_topdir /tmp/theirs" /tmp/theirs.spec
rpm --install /tmp/theirs/RPMS/noarch/*.rpm`)
  const file = `cni-plugins-${version}-1.x86_64.rpm`
  await expectRefused(
    host,
    `rpm --install ${file}`,
    /file \/usr\/libexec\/cni\/bridge .*conflicts with file from package theirs/,
  )
  await expectRefused(host, install.commands("rpm"), /conflicts with file from package theirs/)
  expect(await host.follow("/usr/libexec/cni/bridge")).toContain("theirs")
})

test("every kind of file is told by its sum when a byte of it was changed", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  const names = (await readdir(release.path)).filter((name) => name.includes(version))
  expect(names.length).toBeGreaterThan(4)
  await host.follow("mkdir given && cp /mnt/* given/")
  for (const name of names) {
    await spoil(`given/${name}`)(host)
    const output = await host.tryFollow(install.commands("download"), { RELEASE: "file:///root/given", FILE: name })
    expect(output).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(`${name}: FAILED`) })
  }
})

test("an image of another machine, of which half is there, or with a byte that was changed, is refused, and the directory stays", async () => {
  await using podman = await Podman.create()
  await using bin = await TemporaryDirectory.create("cni-image-bin")
  await using place = await TemporaryDirectory.create("cni-image-bad")
  const image = place.join("image.tar")
  const refuse = async (message: RegExp) => {
    const run = [
      "run",
      "--rm",
      "--network",
      "none",
      "--volume",
      `${bin.path}:/host/bin`,
      `oci-archive:${image}`,
      "install",
      "--bin-dir",
      "/host/bin",
    ]
    const { exitCode, stderr } = await podman.try(...run)
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 125, stderr: expect.stringMatching(message) })
    expect(await readdir(bin.path)).toEqual([])
  }
  await cp(`${release.path}/${arm64Image}`, image)
  await refuse(/no image found in (manifest list|image index) for architecture.*amd64/)
  await cp(`${release.path}/cni-plugins-image-${version}.tar`, image)
  await truncate(image, Bun.file(image).size >> 1)
  await refuse(/unexpected EOF/)
  const bytes = await readFile(`${release.path}/cni-plugins-image-${version}.tar`)
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1
  await writeFile(`${image}.new`, bytes)
  await rename(`${image}.new`, image)
  await refuse(/digest|checksum|corrupt|flate|does not match/i)
})
