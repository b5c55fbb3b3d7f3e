import { expect, test } from "bun:test"
import { join } from "node:path"
import { NodeLab } from "../cni/node-lab.ts"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  expectUnchanged,
  fail,
  HostNamespace,
  type Output,
  type PluginCall,
  runPlugin,
  runProgram,
  succeed,
  takeSnapshot,
  tellFigure,
} from "../lab/mod.ts"

/** Runs a script as a user of the host who is not root. Ignores failing commands. */
function asOther(host: HostNamespace, script: string): Promise<Output> {
  return host.tryExec("setpriv", ["--reuid=4711", "--regid=4711", "--clear-groups", "sh", "-c", script])
}

function asRoot(host: HostNamespace, script: string): Promise<Output> {
  return host.exec("sh", ["-ec", script])
}

/** Commands that let other users change a directory, and the expected error messages. */
const openings = [
  { to: "everybody", by: "chmod 777 .", says: /all users may write to/ },
  { to: "everybody, also sticky", by: "chmod 1777 .", says: /all users may write to/ },
  { to: "another user", by: "chown 4711 .", says: /belongs to user 4711/ },
  { to: "a group", by: "chgrp 4711 . && chmod 775 .", says: /group 4711 may write to/ },
  { to: "the owner of the directory that it is in", by: "chown 4711 ..", says: /belongs to user 4711/ },
] as const

const victim = "/run/cni/victim"
const secret = "root's own\n"

/** Creates a file and a directory of root, which a plugin changes if it follows a symbolic link to them. */
async function placeVictim(host: HostNamespace): Promise<void> {
  await asRoot(host, `mkdir -m 700 ${victim}.d; echo "root's own" > ${victim}; chmod 600 ${victim}`)
}

async function expectVictimUntouched(host: HostNamespace): Promise<void> {
  expect(await Bun.file(host.file(victim)).text()).toBe(secret)
  expect((await host.exec("ls", ["-A", `${victim}.d`])).stdout).toBe("")
}

async function expectRefused(call: ReturnType<typeof runPlugin>, says: RegExp, code: number): Promise<void> {
  const error = await fail(call)
  expect(`${error.msg}; ${error.details ?? ""}`).toMatch(says)
  expect(`${error.msg}; ${error.details ?? ""}`).toContain("Cannot trust")
  expect(error.code).toBe(code)
}

/** A command that creates links to these files in a network's directory. */
const traps = `ln -s ${victim}.d .index; ln -s ${victim} last_reserved_ip.0; ln ${victim} 10.22.0.9; ln -s ${victim} lock; true`

test.each(openings)(
  "host-local: reservations that $to can change are refused by every verb, and nothing is changed [S19]",
  async ({ by, says, to }) => {
    await using host = await HostNamespace.create()
    const store = "/var/lib/cni/networks/lab"
    await placeVictim(host)
    await asRoot(host, `mkdir -p ${store}; cd ${store}; ${by}`)
    await asOther(host, `cd ${store} && ${traps}`)
    const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork())
    const before = await takeSnapshot(host)
    await expectRefused(attachment.run("ADD"), says, 5)
    await expectRefused(attachment.run("STATUS"), says, 50)
    await expectRefused(attachment.run("CHECK", {}, { bin: join(builtPlugins, "host-local") }), says, 5)
    await expectRefused(attachment.run("GC", { "cni.dev/valid-attachments": [] }), says, 5)
    await expectRefused(attachment.run("DEL"), says, 5)
    expectUnchanged(before, await takeSnapshot(host))
    await expectVictimUntouched(host)
    // Follows the advice of the error message: gives the directory back to root, and removes the links of others.
    await asRoot(host, `cd /var/lib/cni/networks; chown root:root . lab; chmod 755 . lab; find lab -type l -delete`)
    await attachment.add()
    await attachment.del()
    await tellFigure({ what: `leases that ${to} can change: verbs refused`, tried: 5, held: 5 })
  },
)

test("host-local: a link in the place of the index, from before the directory was root's again, is not followed [S20]", async () => {
  await using host = await HostNamespace.create()
  await placeVictim(host)
  await asRoot(host, `mkdir -p /var/lib/cni/networks/lab; ln -s ${victim}.d /var/lib/cni/networks/lab/.index`)
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork())
  await expectRefused(attachment.run("ADD"), /"\/var\/lib\/cni\/networks\/lab\/.index" is a link/, 5)
  await expectVictimUntouched(host)
})

test("host-local: in a directory for everybody, like /tmp, its own is made, and a link of another user's there is not followed [S21]", async () => {
  await using host = await HostNamespace.create()
  await placeVictim(host)
  await asRoot(host, "mkdir -m 1777 /run/cni/tmp")
  await asOther(host, `ln -s ${victim}.d /run/cni/tmp/planted`)
  const networkIn = (dataDir: string) =>
    bridgeNetwork({ ipam: { type: "host-local", dataDir, ranges: [[{ subnet: "10.22.0.0/16" }]] } })
  const pod = await host.addContainer()
  const planted = new Attachment(host, pod, networkIn("/run/cni/tmp/planted"))
  await expectRefused(planted.run("ADD"), /the link "\/run\/cni\/tmp\/planted" belongs to user 4711/, 5)
  await expectVictimUntouched(host)
  const own = new Attachment(host, pod, networkIn("/run/cni/tmp/own"))
  await own.add()
  await asOther(host, "mv /run/cni/tmp/own /run/cni/tmp/taken; rm -rf /run/cni/tmp/own/lab")
  await own.del()
})

/** Further plugins that keep files, and their messages about a directory that others can change. */
const keepers = [
  { type: "tuning", directory: "/run/cni/tuning", says: "backups" },
  { type: "flannel", directory: "/var/lib/cni/flannel", says: "configuration" },
  { type: "host-device", directory: "/run/cni/host-device", says: "records" },
]

test.each(keepers)(
  "$type: files that others can change are neither believed nor written [S22]",
  async ({ type, directory, says }) => {
    await using host = await HostNamespace.create()
    await placeVictim(host)
    await asRoot(host, `mkdir -p ${directory}; cd ${directory}; chown 4711 .`)
    await asOther(host, `cd ${directory} && ln -s ${victim} lab:c1:eth0.json; ln -s ${victim} .lab:c1:eth0.json; true`)
    await Bun.write(
      host.file("/run/cni/subnet.env"),
      "FLANNEL_NETWORK=10.22.0.0/16\nFLANNEL_SUBNET=10.22.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
    )
    const pod = await host.addContainer()
    const config = {
      cniVersion: "1.1.0",
      name: "lab",
      type,
      subnetFile: "/run/cni/subnet.env",
      sysctl: { "net.ipv4.conf.lo.arp_notify": "1" },
      mtu: 1400,
      device: "ens5",
    }
    const attachment = new Attachment(host, pod, config, { containerId: "c1" })
    const before = await takeSnapshot(host)
    for (const verb of ["ADD", "STATUS", "DEL", "GC"] as const) {
      const prevResult = { cniVersion: "1.1.0", interfaces: [{ name: "lo", sandbox: pod.path }], ips: [] }
      const error = await fail(
        attachment.run(
          verb,
          { prevResult, "cni.dev/valid-attachments": [] },
          { ifName: verb === "ADD" && type === "tuning" ? "lo" : "eth0" },
        ),
      )
      expect(`${verb}: ${error.msg}; ${error.details ?? ""}`).toContain("belongs to user 4711")
    }
    expect((await fail(attachment.run("STATUS"))).msg).toContain(says)
    expectUnchanged(before, await takeSnapshot(host))
    await expectVictimUntouched(host)
  },
)

test("dhcp: the daemon does not serve from a directory that others can change, nor write its number through their link [S23]", async () => {
  await using host = await HostNamespace.create()
  await placeVictim(host)
  await asRoot(host, "mkdir -m 1777 /run/cni/tmp; mkdir -p /var/lib/cni/dhcp; chown 4711 /var/lib/cni/dhcp")
  await asOther(host, `ln -s ${victim} /run/cni/tmp/pid; cd /var/lib/cni/dhcp && ln -s ${victim} lock; true`)
  const start = (...args: string[]) => host.tryExec("timeout", ["2", join(builtPlugins, "dhcp"), "daemon", ...args])
  const byJournal = await start("-socketpath", "/run/cni/d.sock")
  expect(byJournal).toMatchObject({ exitCode: 1 })
  expect(byJournal.stderr).toContain('Cannot trust "/var/lib/cni/dhcp": "/var/lib/cni/dhcp" belongs to user 4711')
  const state = ["-statedir", "/var/lib/cni/own"]
  expect((await start(...state, "-socketpath", "/run/cni/tmp/d.sock")).stderr).toContain(
    'all users may write to "/run/cni/tmp"',
  )
  const served = await start(...state, "-socketpath", "/run/cni/d.sock", "-pidfile", "/run/cni/tmp/pid")
  expect(served.stderr).toContain('serving "/run/cni/d.sock"')
  await expectVictimUntouched(host)
})

test("dhcp: a socket that others could have put there is not asked [S24]", async () => {
  await using host = await HostNamespace.create()
  await asRoot(host, "mkdir -m 1777 /run/cni/tmp")
  const ipam = { type: "dhcp", daemonSocketPath: "/run/cni/tmp/d.sock" }
  const attachment = new Attachment(host, await host.addContainer(), bridgeNetwork({ ipam }))
  const error = await fail(attachment.run("ADD"))
  expect(error.msg).toContain(
    'cannot trust a DHCP daemon at "/run/cni/tmp/d.sock": all users may write to "/run/cni/tmp"',
  )
})

test("cni: results that others can change are not believed, and no plugin runs for an ADD [S25]", async () => {
  await using lab = await NodeLab.create()
  await placeVictim(lab.host)
  const pod = await lab.host.addContainer()
  await asRoot(lab.host, "mkdir /var/lib/cni/results; chown 4711 /var/lib/cni/results")
  await asOther(lab.host, `ln -s ${victim} /var/lib/cni/results/pods-c1-eth0`)
  const before = await takeSnapshot(lab.host)
  const added = await lab.cni(["add", "pods", pod.path, "--container-id", "c1"])
  expect(added.exitCode).toBe(1)
  expect(added.stdout + added.stderr).toContain(
    'Cannot trust "/var/lib/cni": "/var/lib/cni/results" belongs to user 4711',
  )
  expectUnchanged(before, await takeSnapshot(lab.host), ({ line }) => line.includes("/locks"))
  const deleted = await lab.cni(["del", "pods", pod.path, "--container-id", "c1"])
  expect(deleted.stdout + deleted.stderr).toContain("Cannot trust")
  await expectVictimUntouched(lab.host)
})

test("what is made can be changed by root alone, with any umask, and leases and locks not even be read [S29]", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const tuned = { cniVersion: "1.1.0", name: "lab", type: "tuning", sysctl: { "net.ipv4.conf.eth0.arp_notify": "1" } }
  const call = { containerId: "c1", netns: pod.path, ifName: "eth0", under: ["sh", "-c", 'umask 0; exec "$0"'] }
  const run = (config: Record<string, unknown>, verb: PluginCall["verb"] = "ADD") =>
    runPlugin(host, { ...call, bin: join(builtPlugins, String(config.type)), verb, config })
  const { json: prevResult } = await succeed(run(bridgeNetwork()))
  await succeed(run({ ...tuned, prevResult }))
  const { stdout } = await host.exec("find", ["/var/lib/cni", "/run/cni", "-perm", "/022"])
  expect(stdout).toBe("")
  const store = "/var/lib/cni/networks/lab"
  const tries = [
    `cat ${store}/10.22.0.2`,
    `flock -n ${store}/lock true`,
    `ls ${store}/.index`,
    "cat /run/cni/tuning/*",
    `touch ${store}/10.22.0.3`,
  ]
  for (const attempt of tries) expect({ attempt, ...(await asOther(host, attempt)) }).not.toMatchObject({ exitCode: 0 })
  await succeed(run(bridgeNetwork(), "DEL"))
})

/** Programs in the working directory with the names of programs that plugins run. Each reports that it ran. */
const fakes = [
  "bridge",
  "host-local",
  "iptables-restore",
  "iptables-save",
  "ip6tables-restore",
  "nft",
  "sh",
  "ip",
  "conntrack",
]

test("no file of the working directory runs, with any variables of loaders, shells and runtimes [S34]", async () => {
  await using host = await HostNamespace.create()
  const trap = "/run/cni/cwd"
  await asRoot(host, `mkdir ${trap}`)
  for (const name of fakes)
    await Bun.write(host.file(`${trap}/${name}`), "#!/bin/busybox sh\n/bin/busybox touch /run/cni/ran\n")
  await asRoot(host, `chmod 755 ${trap}/*; cp ${trap}/nft ${trap}/evil.so`)
  const env = {
    PATH: `.::${trap}`,
    LD_PRELOAD: `${trap}/evil.so`,
    LD_LIBRARY_PATH: trap,
    LD_AUDIT: `${trap}/evil.so`,
    GCONV_PATH: trap,
    BUN_OPTIONS: "--preload ./nft",
    BUN_BE_BUN: "1",
    NODE_OPTIONS: "--require ./nft",
    TMPDIR: trap,
    HOME: trap,
    IFS: "/",
    ENV: `${trap}/nft`,
    BASH_ENV: `${trap}/nft`,
    XTABLES_LIBDIR: trap,
    CNI_PATH: `:.:${trap.slice(1)}:../cwd:${builtPlugins}`,
  }
  const attachment = new Attachment(
    host,
    await host.addContainer(),
    bridgeNetwork({ ipMasq: true, ipMasqBackend: "iptables" }),
  )
  const call = { env, under: ["/usr/bin/env", "-C", trap] }
  for (const verb of ["ADD", "STATUS", "GC", "DEL"] as const)
    await succeed(attachment.run(verb, verb === "GC" ? { "cni.dev/valid-attachments": [] } : {}, call))
  expect(await Bun.file(host.file("/run/cni/ran")).exists()).toBe(false)
})

test("the tool for people takes nothing from its working directory, nor from the variables of Node [S38]", async () => {
  await using lab = await NodeLab.create()
  const { directory } = lab
  const trap = 'require("fs").writeFileSync("ran", "")'
  for (const file of ["trap.ts", "index.ts", "add", "version"]) await Bun.write(directory.join(file), trap)
  await Bun.write(directory.join("bunfig.toml"), 'preload = ["./trap.ts"]\n')
  await Bun.write(directory.join(".env"), "BUN_OPTIONS=--preload ./trap.ts\nNETCONFPATH=/nowhere\n")
  await Bun.write(directory.join("package.json"), '{ "imports": { "#engine": "./trap.ts" } }')
  const tool = join(builtPlugins, "../cni")
  const run = (env: Record<string, string>, ...args: string[]) =>
    runProgram(["/usr/bin/env", "-C", directory.path, tool, ...args], { env: { PATH: "/usr/bin:/bin", ...env } })
  expect((await run({}, "version")).stdout).toMatch(/^cni \d/)
  await run({ NODE_OPTIONS: "--require ./trap.ts" }, "version")
  expect(await Bun.file(directory.join("ran")).exists()).toBe(false)
})
