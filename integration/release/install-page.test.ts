/** Follows the section "Install" of docs/install.md literally, like a user who pastes its commands. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { version } from "../../package.json"
import { pluginNames } from "../../suite/plugins.ts"
import { Podman, podmanEnv, podmanPlaces } from "../interop/podman.ts"
import { programEnv, startDaemon, TemporaryDirectory, waitFor } from "../lab/mod.ts"
import { FreshRoot, minimalDebian, rpmOfTheSystem } from "./fresh-root.ts"
import { Page } from "./page.ts"
import { type Made, madeFiles, samplePlugins } from "./sample.ts"

let release: Made
let page: Page

beforeAll(async () => {
  release = await madeFiles("release")
  page = await Page.read("docs/install.md", "Install")
  // Create them before the tests, so that no test has to wait for them.
  await minimalDebian()
  await minimalDebian("rpm", "dnf")
}, 1_800_000)
afterAll(() => release[Symbol.asyncDispose]())

const archive = `cni-plugins-linux-amd64-v${version}.tgz`

/** Downloads a file with the page's command, from a directory in place of the release's URL. */
function fetchFile(host: FreshRoot, file: string): Promise<string> {
  return host.follow(page.commands("download"), { RELEASE: "file:///mnt", FILE: file })
}

/** Attaches and detaches a namespace with the page's commands, which include a ping. */
async function tryOut(host: FreshRoot, binDir: string): Promise<void> {
  const variables = { CNI_PATH: binDir }
  expect(await host.follow(page.commands("try"), variables)).toContain("1 received")
  const addresses = await host.json<{ ifname: string; addr_info: { local: string }[] }[]>("ip", [
    "-j",
    "-n",
    "try",
    "address",
    "show",
    "eth0",
  ])
  expect(addresses[0]?.addr_info).toContainEqual(expect.objectContaining({ local: "10.99.0.2" }))
  await host.follow(page.commands("try-remove"), variables)
  expect(await host.json<object[]>("ip", ["-j", "link"])).toEqual([expect.objectContaining({ ifname: "lo" })])
  expect(await host.follow('find /run -path "/run/cni/*" -type f')).toBe("")
}

const binDirOf = async (host: FreshRoot, directory: string) =>
  (await readdir(host.file(directory))).filter((name) => !name.startsWith(".")).sort()

test("the archive: a namespace is attached; after the removal nothing is left", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  const before = await host.files()
  expect(await fetchFile(host, archive)).toContain(`${archive}: OK`)
  await host.follow(page.commands("archive"))
  expect(await binDirOf(host, "/opt/cni/bin")).toEqual([...pluginNames])
  await tryOut(host, "/opt/cni/bin")
  await host.follow(page.commands("archive-remove"))
  expect(await host.files()).toEqual(before)
})

test("the .deb: a namespace is attached; after the removal nothing is left", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  const before = await host.files()
  await fetchFile(host, `cni-plugins_${version}-1_amd64.deb`)
  await host.follow(page.commands("deb"))
  expect(await binDirOf(host, "/usr/lib/cni")).toEqual(samplePlugins)
  await tryOut(host, "/usr/lib/cni")
  expect(await host.follow("ls /opt")).toBe("") // only with the next commands
  await host.follow(page.commands("copy"))
  await tryOut(host, "/opt/cni/bin")
  await host.follow(`rm -r /opt/cni\n${page.commands("deb-remove")}`)
  expect(await host.files()).toEqual(before)
})

test("the .deb in the place of containernetworking-plugins, beside podman and containerd", async () => {
  await using host = await FreshRoot.create("/", release.path)
  await fetchFile(host, `cni-plugins_${version}-1_amd64.deb`)
  await host.follow(page.commands("deb"))
  const { stdout } = await host.exec("dpkg-query", [
    "--show",
    `--showformat=\${Package} \${db:Status-Abbrev}\\n`,
    "podman",
    "containerd",
    "containernetworking-plugins",
    "cni-plugins",
  ])
  expect(stdout.trim().split(/ *\n/).sort()).toEqual([
    "cni-plugins ii",
    "containerd ii",
    "containernetworking-plugins rc",
    "podman ii",
  ])
  await tryOut(host, "/usr/lib/cni")
})

test("the .rpm: a namespace is attached; after the removal nothing is left", async () => {
  await using host = await FreshRoot.create(await minimalDebian("rpm", "dnf"), release.path)
  await host.follow(rpmOfTheSystem)
  const before = await host.files()
  await fetchFile(host, `cni-plugins-${version}-1.x86_64.rpm`)
  await host.follow(page.commands("rpm"))
  expect(await binDirOf(host, "/usr/libexec/cni")).toEqual(samplePlugins)
  await tryOut(host, "/usr/libexec/cni")
  await host.follow(page.commands("rpm-remove"))
  expect(await host.files()).toEqual(before)
})

test("the system extension is merged and goes; where the kernel has no squashfs the directory of its files stands for it", async () => {
  await using host = await FreshRoot.create("/", release.path)
  const file = `cni-plugins-${version}-x86-64.raw`
  await fetchFile(host, file)
  await host.follow("rm -f /usr/lib/cni/*; mkdir -p /run/systemd")
  // A kernel without loop devices or squashfs merges a directory with the same name and content.
  const mounts =
    (await host.tryFollow(`mkdir /tmp/try && mount -o loop,ro ${file} /tmp/try && umount /tmp/try`)).exitCode === 0
  const merge = page.commands("extension")
  const [lay, refresh] = [merge.replace(/^systemd-sysext.*/m, ""), "systemd-sysext refresh"]
  await host.follow(lay)
  if (!mounts) {
    const at = "/var/lib/extensions/cni-plugins"
    await host.follow(`unsquashfs -quiet -no-progress -dest ${at} ${at}.raw && mv ${at}.raw /root/raw`)
  }
  await host.follow(refresh)
  expect(await binDirOf(host, "/usr/lib/cni")).toEqual(samplePlugins)
  await tryOut(host, "/usr/lib/cni")
  if (!mounts)
    await host.follow("rm -r /var/lib/extensions/cni-plugins && mv /root/raw /var/lib/extensions/cni-plugins.raw")
  await host.follow(page.commands("extension-remove"))
  expect(await binDirOf(host, "/usr/lib/cni")).toEqual([])
})

test("the image, run by podman, installs into the directory of the host", async () => {
  await using podman = await Podman.create()
  const { host } = podman
  const script = `#!/bin/sh\nexec /usr/bin/podman ${podmanPlaces.join(" ")} "$@"\n`
  await host.write("/run/bin/podman", script)
  await host.exec("chmod", ["755", "/run/bin/podman"])
  const env = { ...podmanEnv, PATH: `/run/bin:${programEnv.PATH}` }
  await host.exec("bash", ["-ec", `cd ${release.path}\n${page.commands("image")}`], { env })
  const installed = await readdir(host.file("/opt/cni/bin"))
  expect(installed.filter((name) => !name.startsWith(".")).sort()).toEqual([...pluginNames])
})

test("the image goes into a registry, for both machines in one index", async () => {
  await using host = await FreshRoot.create("/", release.path)
  await host.follow(registryOfTheHost)
  await startDaemon(host.commandLine(["docker-registry", "serve", "/root/registry.yml"]))
  await waitFor(
    async () => (await host.tryExec("curl", ["--fail", "http://127.0.0.1:5000/v2/"])).exitCode === 0,
    "the registry",
  )
  await fetchFile(host, `cni-plugins-image-${version}.tar`)
  await host.follow(page.commands("registry"), { REGISTRY: "127.0.0.1:5000" })
  const { stdout } = await host.exec("skopeo", ["inspect", "--raw", `docker://127.0.0.1:5000/cni-plugins:${version}`])
  const { manifests } = JSON.parse(stdout) as { manifests: { platform: { architecture: string } }[] }
  expect(manifests.map(({ platform }) => platform.architecture)).toEqual(["amd64", "arm64"])
})

/** A script with a registry without TLS, and skopeo's configuration that allows it. */
const registryOfTheHost = `
mkdir -p /etc/containers/registries.conf.d
printf '[[registry]]\nlocation = "127.0.0.1:5000"\ninsecure = true\n' >/etc/containers/registries.conf.d/test.conf
cat >registry.yml <<'END'
version: 0.1
storage: { filesystem: { rootdirectory: /root/registry } }
http: { addr: "127.0.0.1:5000" }
END`

test("kubespray's variables name each archive, with the sum of its bytes; the archive has all plugins at its top", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  await fetchFile(host, archive)
  const output = Bun.YAML.parse(await host.follow(page.commands("kubespray"), { RELEASE: "https://example.org/cni" }))
  const sum = (await host.follow(`sha256sum ${archive}`)).slice(0, 64)
  expect(output).toEqual({
    cni_download_url: "https://example.org/cni/cni-plugins-linux-{{ image_arch }}-v{{ cni_version }}.tgz",
    cni_binary_checksums: { amd64: { [version]: `sha256:${sum}` } },
  })
  const entries = (await host.follow(`tar --list --file ${archive}`)).trim().split("\n")
  for (const name of pluginNames) expect(entries).toContain(name)
  expect(entries.filter((entry) => entry.endsWith("/"))).toEqual([]) // its directory keeps owner and mode
})

test("the plugins of nerdctl-full are replaced, and given back", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  const theirs = host.file("/usr/local/libexec/cni")
  await mkdir(theirs, { recursive: true })
  await cp("/usr/lib/cni", theirs, { recursive: true })
  const before = await host.files()
  await fetchFile(host, archive)
  await host.follow(
    `mkdir cni-plugins-${version} && tar --extract --file ${archive} --directory cni-plugins-${version}`,
  )
  const refused = await host.tryFollow(page.commands("nerdctl").replace(" --adopt", ""))
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("--adopt") })
  expect(await host.files()).toEqual(before)
  await host.follow(page.commands("nerdctl"))
  expect(await host.follow("CNI_COMMAND=VERSION /usr/local/libexec/cni/tap")).toContain("1.1.0")
  await host.follow(page.commands("nerdctl-remove"))
  expect(await host.files()).toEqual(before)
})

test("single plugins are laid by hand", async () => {
  await using host = await FreshRoot.create(await minimalDebian(), release.path)
  await fetchFile(host, archive)
  await host.follow(page.commands("by-hand"))
  expect(await binDirOf(host, "/opt/cni/bin")).toEqual(["bridge", "host-local", "loopback", "portmap"])
  await host.follow(`mkdir t && tar --extract --file ${archive} --directory t cni && mv t/cni /usr/local/bin`)
  await tryOut(host, "/opt/cni/bin")
})

test("a file that is not whole is told by its sum, and the commands end there", async () => {
  await using broken = await TemporaryDirectory.create("cni-broken")
  await cp(`${release.path}/SHA256SUMS`, broken.join("SHA256SUMS"))
  const bytes = await readFile(`${release.path}/${archive}`)
  await writeFile(broken.join(archive), bytes.subarray(0, bytes.length / 2))
  await using host = await FreshRoot.create(await minimalDebian(), broken.path)
  const before = await host.files()
  const fetched = page.commands("download") + page.commands("archive")
  const output = await host.tryFollow(fetched, { RELEASE: "file:///mnt", FILE: archive })
  expect(output).toMatchObject({ exitCode: 1, stdout: `${archive}: FAILED\n` })
  expect(await host.files()).toEqual(before)
})

test("the other commands of the page have tests of their own: image.test.ts, sign.test.ts, upgrade-page.test.ts", () => {
  expect(page.unread()).toEqual(["verify", "deb-in-place", "DaemonSet"])
})
