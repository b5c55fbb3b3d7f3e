/** Follows the upgrades of docs/install.md literally while pods are added and deleted. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { version } from "../../package.json"
import { FreshRoot, minimalDebian, rpmOfTheSystem } from "./fresh-root.ts"
import { Load } from "./load.ts"
import { Page } from "./page.ts"
import { laterVersion, type Made, madeFiles } from "./sample.ts"

let release: Made
let page: Page
let install: Page

/** The versions, by the page's names. */
const versions = { OLD: version, NEW: laterVersion }

beforeAll(async () => {
  release = await madeFiles("upgrade")
  page = await Page.read("docs/install.md", "Upgrade")
  install = await Page.read("docs/install.md", "Install")
  // Create them before the tests, so that no test has to wait for them.
  await minimalDebian()
  await minimalDebian("rpm", "dnf")
}, 1_800_000)
afterAll(() => release[Symbol.asyncDispose]())

const ways = [
  { way: "archive", binDir: "/opt/cni/bin", packages: [], back: "archive-back", removal: "archive-remove" },
  { way: "deb", binDir: "/usr/lib/cni", packages: [], back: "deb-back", removal: "deb-remove" },
  { way: "rpm", binDir: "/usr/libexec/cni", packages: ["rpm", "dnf"], back: "rpm-back", removal: "rpm-remove" },
  {
    way: "rpm-alone",
    binDir: "/usr/libexec/cni",
    packages: ["rpm", "dnf"],
    back: "rpm-alone-back",
    removal: "rpm-remove",
  },
] as const

async function isNew(host: FreshRoot, binDir: string): Promise<boolean> {
  return (await readFile(host.file(`${binDir}/bridge`))).toString("latin1").endsWith(versions.NEW)
}

test.each(ways)(
  "$way: upgrade and way back under load, without a failed call; nothing is left",
  async ({ way, binDir, packages, back, removal }) => {
    await using host = await FreshRoot.create(await minimalDebian(...packages), release.path)
    if (packages.length > 0) await host.follow(rpmOfTheSystem)
    const before = await host.files()
    await host.follow("cp /mnt/* .")
    await host.follow(install.commands(way.replace("-alone", "")))
    await host.follow(kept, { CNI_PATH: binDir })

    const load = await Load.start(host, binDir, { ipMasq: true })
    await host.follow(page.commands(way), versions)
    expect(await isNew(host, binDir)).toBe(true)
    await load.goOn()
    await host.follow("cni check kept kept && ping -c 1 10.97.0.2", { CNI_PATH: binDir })
    await host.follow(page.commands(back), versions)
    expect(await isNew(host, binDir)).toBe(false)
    await load.goOn()
    expect(await load.stop()).toEqual([])

    await host.follow("cni check kept kept && cni del kept kept", { CNI_PATH: binDir })
    await host.follow(install.commands(removal))
    await host.follow(
      "ip link delete kept0; ip link delete load0; ip netns delete kept; rm -r /etc/cni/net.d/* /var/lib/cni/networks/*",
    )
    expect(await host.files()).toEqual(before)
    expect(await host.json<object[]>("ip", ["-j", "link"])).toEqual([expect.objectContaining({ ifname: "lo" })])
  },
  600_000,
)

/** A script that attaches a pod which exists during the whole upgrade. */
const kept = `
mkdir --parents /etc/cni/net.d
cat >/etc/cni/net.d/90-kept.conflist <<'END'
{
  "cniVersion": "1.1.0", "name": "kept",
  "plugins": [{ "type": "bridge", "bridge": "kept0", "isGateway": true, "ipMasq": true, "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.97.0.0/24" }]] } }]
}
END
ip netns add kept
cni add kept kept`

test("the .deb takes the place of Debian's Go plugins under load, without a failed call", async () => {
  await using host = await FreshRoot.create("/", release.path)
  const load = await Load.start(host, "/usr/lib/cni")
  await host.follow(`cp /mnt/*.deb .\n${install.commands("deb-in-place")}`)
  await load.goOn()
  expect(await load.stop()).toEqual([])
})

test("the older package is refused where it is not asked for, and the newer stays", async () => {
  await using host = await FreshRoot.create(await minimalDebian("rpm", "dnf"), release.path)
  await host.follow(`${rpmOfTheSystem}\ncp /mnt/*.deb /mnt/*.rpm /root/`)
  await host.follow(`${page.commands("deb")}\n${page.commands("rpm-alone")}`, versions)
  const before = await host.files()
  const deb = await host.tryFollow(
    `${page.commands("deb-back").replace(" --allow-downgrades", "").trim()} <<<n`,
    versions,
  )
  expect(deb).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining("The following packages will be DOWNGRADED"),
  })
  const rpm = await host.tryFollow(page.commands("rpm-alone-back").replace(" --oldpackage", ""), versions)
  expect(rpm.exitCode).not.toBe(0)
  expect(rpm.stderr).toContain(
    `package cni-plugins-${versions.NEW}-1.x86_64 (which is newer than cni-plugins-${version}-1.x86_64) is already installed`,
  )
  expect(await host.files()).toEqual(before)
})

test("a system extension is replaced without a write to the file that is mounted", async () => {
  await using host = await FreshRoot.create("/", release.path)
  await host.follow(
    "cp /mnt/*.raw . && mkdir -p /var/lib/extensions && cp cni-plugins-$OLD-x86-64.raw /var/lib/extensions/cni-plugins.raw",
    versions,
  )
  await host.follow(
    "exec 3</var/lib/extensions/cni-plugins.raw\n" +
      page.commands("extension").replace(/^systemd-sysext.*/m, "") +
      "cmp /proc/self/fd/3 cni-plugins-$OLD-x86-64.raw",
    versions,
  )
  await host.follow("cmp /var/lib/extensions/cni-plugins.raw cni-plugins-$NEW-x86-64.raw", versions)
})

test("every command of the page was followed", () => {
  expect(page.unread()).toEqual([])
})
