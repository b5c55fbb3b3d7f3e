import { expect, test } from "bun:test"
import { chmod, copyFile, rm } from "node:fs/promises"
import { join } from "node:path"
import {
  builtPlugins,
  type ContainerNamespace,
  type Feature,
  mountOver,
  programEnv,
  startDaemon,
  TemporaryDirectory,
  testWith,
  waitFor,
  writeSysctl,
} from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

interface Finding {
  rule: string
  severity: string
  network?: string
  what: string
  why: string
  remedy: string
  fixable: boolean
}

async function doctor(lab: NodeLab, ...args: string[]) {
  const { stdout, stderr, exitCode } = await lab.cni(["doctor", "--json", ...args])
  const { findings = [], fixes = [] } = (stdout === "" ? {} : JSON.parse(stdout)) as {
    findings?: Finding[]
    fixes?: string[]
  }
  return { findings, fixes, stderr, exitCode }
}

/** What is broken on a node with two pods that live, and what a doctor has to say of it. */
interface Fault {
  rule: string
  needs?: Feature
  severity: "error" | "warning"
  /** Names that have to be in what was found. */
  names: RegExp
  seed(lab: NodeLab, pods: readonly ContainerNamespace[]): Promise<unknown> | undefined
  /** What comes with it. */
  besides?: readonly string[]
}

/** A table with one chain and one rule. */
const nft = (lab: NodeLab, table: string, hook: string, rule = "") =>
  lab.host.exec("nft", ["-f", "-"], { input: `table ${table} {\n chain c {\n type ${hook};\n ${rule}\n }\n}\n` })
const endOf = async ({ host }: NodeLab) => {
  const links = await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  return links[0]?.ifname ?? ""
}
const second = (keys: object) => ({
  ...podsNetwork,
  name: "second",
  plugins: [{ ...podsNetwork.plugins[0], bridge: "cni1", ...keys }],
})
const subnet = (text: string) => ({ ipam: { type: "host-local", ranges: [[{ subnet: text }]] } })

const faults: readonly Fault[] = [
  {
    rule: "forwarding-off",
    severity: "error",
    names: /ip_forward is 0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/ip_forward", "0"),
  },
  {
    rule: "forwarding-off-link",
    severity: "error",
    names: /conf\/cni0\/forwarding is 0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/conf/cni0/forwarding", "0"),
  },
  {
    rule: "rp-filter-strict",
    severity: "warning",
    names: /cni0/,
    seed: ({ host }) => writeSysctl(host, "net/ipv4/conf/cni0/rp_filter", "1"),
  },
  {
    rule: "br-netfilter-off",
    severity: "warning",
    names: /bridge-nf-call-iptables is 0/,
    seed: ({ host }) => writeSysctl(host, "net/bridge/bridge-nf-call-iptables", "0"),
  },
  {
    rule: "bridge-nf-call-iptables",
    severity: "warning",
    names: /bridge-nf-call-iptables is 1/,
    seed: async (lab) => {
      await nft(lab, "inet strict", "filter hook forward priority 10; policy drop")
    },
    besides: ["forward-drop"],
  },
  {
    rule: "conntrack-full",
    severity: "warning",
    names: /95 of 100/,
    seed: async (lab) => {
      for (const [name, value] of Object.entries({ count: "95", max: "100" })) {
        await Bun.write(lab.directory.join(name), value)
        await mountOver(lab.host, `/proc/sys/net/netfilter/nf_conntrack_${name}`, lab.directory.join(name))
      }
    },
  },
  {
    rule: "forward-drop",
    severity: "error",
    names: /ip filter, chain FORWARD \(made by docker\)/,
    seed: ({ host }) =>
      host.exec("nft", ["-f", "-"], {
        input: `table ip filter {
          chain DOCKER-USER {
          }
          chain FORWARD {
            type filter hook forward priority 0; policy drop;
            jump DOCKER-USER
            iifname "docker0" accept
          }
        }`,
      }),
    besides: ["bridge-nf-call-iptables"],
  },
  {
    rule: "forward-drop-rule",
    severity: "error",
    names: /inet guard.*chain c/,
    seed: (lab) => nft(lab, "inet guard", "filter hook forward priority 0", 'iifname "cni0" counter drop'),
  },
  {
    rule: "port-shadowed",
    severity: "error",
    names: /ip other.*8001/,
    seed: (lab) => nft(lab, "ip other", "nat hook prerouting priority -110", "tcp dport 8001 dnat to 192.0.2.1"),
  },
  {
    rule: "table-dormant",
    severity: "error",
    names: /table ip cni_hostports is dormant/,
    seed: ({ host }) => host.exec("nft", ["add table ip cni_hostports { flags dormant; }"]),
  },
  {
    rule: "port-taken",
    severity: "warning",
    names: /8001.*10\.85\.0\.2:80.*busybox \(process \d+\) listens/,
    seed: async (lab) => {
      await startDaemon(lab.host.commandLine(["busybox", "nc", "-ll", "-p", "8001", "-e", "true"]))
      const listeners = async () => (await lab.host.exec("cat", ["/proc/net/tcp", "/proc/net/tcp6"])).stdout
      await waitFor(async () => (await listeners()).includes(":1F41 "), "a process that listens on the port")
    },
  },
  {
    rule: "link-down",
    severity: "error",
    names: /"cni0"/,
    seed: ({ host }) => host.exec("ip", ["link", "set", "cni0", "down"]),
  },
  {
    rule: "not-in-bridge",
    severity: "error",
    names: /no port of bridge "cni0"/,
    seed: async (lab) => lab.host.exec("ip", ["link", "set", await endOf(lab), "nomaster"]),
  },
  {
    rule: "bridge-missing",
    severity: "error",
    names: /^bridge "cni0" is not there, and 2 containers live by it: .*web-\d.*web-\d/,
    seed: ({ host }) => host.exec("ip", ["link", "delete", "cni0"]),
  },
  {
    rule: "gateway-missing",
    severity: "error",
    names: /10\.85\.0\.1/,
    seed: ({ host }) => host.exec("ip", ["address", "flush", "dev", "cni0"]),
  },
  {
    rule: "mtu-mismatch",
    severity: "warning",
    names: /"veth.*1300/,
    seed: async (lab) => {
      await lab.host.exec("ip", ["link", "set", await endOf(lab), "mtu", "1300"])
      await lab.host.exec("ip", ["link", "set", "cni0", "mtu", "1500"])
    },
  },
  {
    rule: "mtu-uplink",
    severity: "warning",
    names: /"out0".*1400/,
    seed: async ({ host }) => {
      await host.exec("ip", ["link", "add", "out0", "mtu", "1400", "type", "bridge"])
      await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
      await host.exec("ip", ["link", "set", "out0", "up"])
      await host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
    },
  },
  {
    rule: "missing-host-end",
    severity: "error",
    names: /shop\/web/,
    seed: async (lab) => lab.host.exec("ip", ["link", "delete", await endOf(lab)]),
  },
  {
    rule: "missing-masquerade",
    severity: "error",
    names: /shop\/web/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_masquerade"]),
  },
  {
    rule: "missing-ports",
    severity: "error",
    names: /800[12]\/tcp/,
    seed: ({ host }) => host.exec("nft", ["delete", "table", "ip", "cni_hostports"]),
  },
  {
    rule: "missing-lease",
    severity: "error",
    names: /10\.85\.0\.2/,
    seed: ({ host }) => host.exec("rm", ["/var/lib/cni/networks/pods/10.85.0.2"]),
  },
  {
    rule: "duplicate-address",
    severity: "error",
    names: /10\.85\.0\.2/,
    seed: ({ host }, [, pod]) =>
      host.exec("sed", ["-i", "s/10.85.0.3/10.85.0.2/", `/var/lib/cni/results/pods-${pod?.name}-eth0`]),
    besides: ["container-address-missing"], // the container has the address that its record had before
  },
  {
    rule: "stale-lease",
    severity: "warning",
    names: /10\.85\.0\.2/,
    seed: async (lab, [pod]) => {
      if (pod) await lab.losePod(pod)
      await lab.host.exec("rm", [`/var/lib/cni/results/pods-${pod?.name}-eth0`])
    },
    besides: ["orphaned-rules"],
  },
  {
    rule: "stale-cache",
    severity: "warning",
    names: /no namespace/,
    seed: (lab, [pod]) => pod && lab.losePod(pod),
    besides: ["stale-lease", "orphaned-rules"],
  },
  {
    rule: "orphaned-rules",
    severity: "warning",
    names: /cni_hostports ports/,
    seed: async (lab, [pod]) => {
      if (pod) await lab.losePod(pod)
      await lab.host.exec("sh", ["-c", `rm /var/lib/cni/results/*${pod?.name}* /var/lib/cni/networks/pods/10.85.0.2`])
    },
  },
  {
    rule: "orphaned-link",
    severity: "warning",
    names: /"veth/,
    seed: ({ host }, [pod]) => host.exec("rm", [`/var/lib/cni/results/pods-${pod?.name}-eth0`]),
  },
  {
    rule: "config-broken",
    severity: "error",
    names: /05-broken/,
    seed: (lab) => lab.writeNetwork("05-broken.conflist", "{"),
  },
  {
    rule: "config-twice",
    severity: "warning",
    names: /10-pods\.conflist and in 20-pods\.conflist/,
    seed: (lab) => lab.writeNetwork("20-pods.conflist", podsNetwork),
  },
  {
    rule: "subnets-overlap",
    severity: "error",
    names: /10\.85\.0\.0\/24.*10\.85\.0\.128\/25/,
    seed: (lab) => lab.writeNetwork("20-second.conflist", second(subnet("10.85.0.128/25"))),
    besides: ["route-overlap"],
  },
  {
    rule: "route-overlap",
    severity: "error",
    names: /10\.86\.0\.0\/16 by lan0/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.86.1.0/24")))
      await lab.host.exec("ip", ["link", "add", "lan0", "type", "bridge"])
      await lab.host.exec("ip", ["address", "add", "10.86.0.1/16", "dev", "lan0"])
      await lab.host.exec("ip", ["link", "set", "lan0", "up"])
    },
  },
  {
    rule: "pool-nearly-full",
    severity: "warning",
    names: /2 of 2|4 of 5|5 of 6/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29")))
      for (let count = 0; count < 4; count++) await lab.addPod(`more-${count}`, "second")
    },
  },
  {
    rule: "pool-full",
    severity: "error",
    names: /5 of 5/,
    seed: async (lab) => {
      await lab.writeNetwork("20-second.conflist", second(subnet("10.87.0.0/29")))
      for (let count = 0; count < 5; count++) await lab.addPod(`more-${count}`, "second")
    },
  },
  {
    rule: "status",
    severity: "error",
    names: /resolv/,
    seed: (lab) =>
      lab.writeNetwork(
        "20-second.conflist",
        second({ ipam: { ...subnet("10.87.0.0/24").ipam, resolvConf: "/no/resolv.conf" } }),
      ),
  },
  {
    rule: "kernel-feature",
    needs: "no_dummy",
    severity: "error",
    names: /the kernel has no/,
    seed: (lab) =>
      lab.writeNetwork("20-second.conflist", {
        cniVersion: "1.1.0",
        name: "second",
        plugins: [{ type: "dummy", ipam: { type: "static", addresses: [{ address: "192.0.2.9/24" }] } }],
      }),
  },
  {
    rule: "disk-read-only",
    severity: "error",
    names: /"\/var\/lib\/cni"/,
    seed: ({ host }) => host.exec("mount", ["-o", "remount,ro", "/var/lib/cni"]),
    besides: ["status"],
  },
  {
    rule: "disk-full",
    severity: "error",
    names: /"\/run\/cni" is full/,
    seed: async ({ host }) => {
      await host.exec("mount", ["-t", "tmpfs", "-o", "size=64k", "cni-test", "/run/cni"])
      await host.tryExec("dd", ["if=/dev/zero", "of=/run/cni/full", "bs=1k", "count=128"])
    },
  },
  {
    rule: "clock-behind",
    severity: "warning",
    names: /was added at 2[01]\d\d-/,
    seed: ({ host }) => host.exec("sh", ["-c", "touch -d 2099-01-01 /var/lib/cni/results/*"]),
  },
]

for (const fault of faults) {
  const title = `${fault.rule} is found and named`
  if (fault.needs) testWith([fault.needs], title, () => findAndName(fault))
  else test(title, () => findAndName(fault))
}

async function findAndName(fault: Fault): Promise<void> {
  const { rule } = fault
  await using lab = await NodeLab.create()
  const pods = [await lab.addPod("web-1"), await lab.addPod("web-2")]
  const healthy = await doctor(lab)
  expect(healthy).toEqual({ findings: [], fixes: [], stderr: "", exitCode: 0 })
  await fault.seed(lab, pods)

  const { findings, exitCode } = await doctor(lab)
  const found = findings.find((each) => each.rule === rule)
  expect(found).toMatchObject({ rule, severity: fault.severity, what: expect.stringMatching(fault.names) })
  expect(found?.why).not.toBe("")
  expect(found?.remedy).not.toBe("")
  const others = new Set(findings.map((each) => each.rule).filter((each) => each !== rule))
  expect([...others].filter((each) => !(fault.besides ?? []).includes(each))).toEqual([])
  expect(exitCode).toBe(findings.some(({ severity }) => severity === "error") ? 3 : 0)
}

test.each([
  ["bridge-missing", (_: NodeLab) => ["link", "delete", "cni0"]],
  ["not-in-bridge", async (lab: NodeLab) => ["link", "set", await endOf(lab), "nomaster"]],
] as const)(
  "the remedy of %s is pasted, and then the containers reach each other and nothing is found",
  async (rule, fault) => {
    await using lab = await NodeLab.create()
    const [client] = [await lab.addPod("client"), await lab.addPod("server")]
    await lab.host.exec("ip", [...(await fault(lab))])
    const status = await lab.cni(["status", "pods"])
    expect(status).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/^Warning: .*"cni0".*cni doctor pods/) })
    const remedy = (await doctor(lab)).findings.find((finding) => finding.rule === rule)?.remedy ?? ""
    await lab.host.exec("sh", ["-ec", remedy.replace(/ \(.*$/, "")])
    expect(await doctor(lab)).toEqual({ findings: [], fixes: [], stderr: "", exitCode: 0 })
    expect((await lab.cni(["status", "pods"])).stderr).toBe("")
    for (const address of ["10.85.0.1", "10.85.0.3"])
      await waitFor(
        async () => (await client.tryExec("ping", ["-c1", "-W1", address])).exitCode === 0,
        `${address} to answer`,
      )
  },
)

/** The plugins that a node's network needs, in a directory of their own, changed by `change`. */
async function otherPlugins(change: (directory: string) => Promise<unknown>): Promise<TemporaryDirectory> {
  const directory = await TemporaryDirectory.create("cni-plugins")
  for (const type of ["bridge", "host-local", "portmap"])
    await copyFile(`${builtPlugins}/${type}`, directory.join(type))
  await change(directory.path)
  return directory
}

test.each([
  ["plugin-missing", "error", /"bridge" is not in/, (directory: string) => rm(`${directory}/bridge`)],
  [
    "plugin-not-executable",
    "error",
    /bridge" \(mode 644\)/,
    (directory: string) => chmod(`${directory}/bridge`, 0o644),
  ],
  ["plugin-writable", "warning", /bridge" \(mode 777\)/, (directory: string) => chmod(`${directory}/bridge`, 0o777)],
  ["plugin-broken", "warning", /bridge"/, (directory: string) => Bun.write(`${directory}/bridge`, "#!/bin/true\n")],
  [
    "plugins-mixed",
    "warning",
    /bridge: reference plugins.*host-local, portmap: cni-plugins v|host-local.*bridge/,
    (directory: string) => copyFile("/usr/lib/cni/bridge", `${directory}/bridge`),
  ],
] as const)("%s is found and named", async (rule, severity, names, change) => {
  await using lab = await NodeLab.create()
  await using directory = await otherPlugins(change)
  const { findings, exitCode } = await doctor(lab, "--bin-dir", directory.path)
  expect(findings.find((each) => each.rule === rule)).toMatchObject({ severity, what: expect.stringMatching(names) })
  expect(exitCode).toBe(findings.some((each) => each.severity === "error") ? 3 : 0)
})

test("plugin-noexec is found and named", async () => {
  await using lab = await NodeLab.create()
  await using directory = await otherPlugins(async () => {})
  await lab.host.exec("mount", ["--bind", directory.path, directory.path])
  await lab.host.exec("mount", ["-o", "remount,bind,noexec", directory.path])
  const { findings } = await doctor(lab, "--bin-dir", directory.path)
  expect(findings.map(({ rule }) => rule)).toContain("plugin-noexec")
})

test("--fix deletes what containers that are gone have left, says so before, and touches nothing else", async () => {
  await using lab = await NodeLab.create()
  const [alive, gone, forgotten] = [await lab.addPod("a"), await lab.addPod("b"), await lab.addPod("c")]
  await lab.host.exec("rm", [`/var/lib/cni/results/pods-${forgotten.name}-eth0`])
  await lab.losePod(gone)
  const traces = async ({ name }: ContainerNamespace) => {
    const files = await lab.host.tryExec("grep", ["-rlw", name, "/var/lib/cni", "--exclude-dir=.index"])
    const said = `${(await lab.host.exec("ip", ["-d", "link"])).stdout}${(await lab.host.exec("nft", ["list", "ruleset"])).stdout}`
    return [
      ...files.stdout.trim().split("\n"),
      ...said
        .split(/[\n,{}]/)
        .map((line) => line.trim())
        .filter((line) => line.includes(name)),
    ].sort()
  }
  const before = { alive: await traces(alive), forgotten: await traces(forgotten) }
  const looked = await doctor(lab)
  expect(looked.findings.filter(({ fixable }) => fixable).map(({ rule }) => rule)).toEqual([
    "stale-lease",
    "stale-cache",
    "orphaned-rules",
  ])
  expect(await traces(gone)).not.toEqual([""])

  const { fixes, exitCode } = await doctor(lab, "--fix")
  expect({ fixes, exitCode }).toEqual({ fixes: [`DEL of pods/${gone.name}/eth0 by portmap, bridge`], exitCode: 0 })
  expect(await traces(gone)).toEqual([""])
  expect({ alive: await traces(alive), forgotten: await traces(forgotten) }).toEqual(before)
  // What no cache knows may be in use: it is told, and left alone.
  expect((await doctor(lab)).findings.map(({ rule, fixable }) => [rule, fixable])).toEqual([["orphaned-link", false]])
})

test("a bundle has what a maintainer needs, and no secrets", async () => {
  await using lab = await NodeLab.create({
    ...podsNetwork,
    plugins: [
      { ...podsNetwork.plugins[0], password: "hunter2", deep: [{ apiToken: "hunter2" }] },
      podsNetwork.plugins[1],
    ],
  })
  await lab.addPod()
  const file = lab.directory.join("bundle.tar")
  expect(await lab.cni(["doctor", "--bundle", file])).toMatchObject({ exitCode: 0, stderr: `Wrote ${file}\n` })
  const list = (await lab.host.exec("tar", ["-tvf", file])).stdout
  for (const name of ["about.json", "doctor.json", "attachments.json", "links.json", "routes.json", "leases.json"])
    expect(list).toContain(name)
  expect(list).toContain("net.d/10-pods.conflist")
  expect(list).toMatch(/^-rw------- root\/root/)
  expect((await lab.host.exec("stat", ["-c", "%a", file])).stdout).toBe("600\n")
  const { stdout } = await lab.host.exec("tar", ["-xOf", file])
  expect(stdout).not.toContain("hunter2")
  expect(stdout).toContain("(removed)")
})

test("a person reads what is wrong, why, and what to do, in lines that fit", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await writeSysctl(lab.host, "net/ipv4/ip_forward", "0")
  const script = ["-qec", `stty cols 80; ${builtPlugins}/../cni doctor`, "/dev/null"]
  const env = { ...programEnv, NETCONFPATH: lab.confDir, CNI_PATH: builtPlugins, NO_COLOR: "1" }
  const { stdout } = await lab.host.tryExec("script", script, { env })
  expect(stdout).toContain("ERROR forwarding-off\r\n  net/ipv4/ip_forward is 0")
  expect(stdout).toContain("\r\n  why: ")
  expect(stdout).toContain("\r\n  do: sysctl -w net.ipv4.ip_forward=1")
  expect(stdout).not.toContain("\x1b")
  expect(Math.max(...stdout.split("\r\n").map((line) => line.length))).toBeLessThanOrEqual(80)
})

test("the page has a row for every finding", async () => {
  const page = await Bun.file(join(import.meta.dir, "../../docs/doctor.md")).text()
  const files = [...new Bun.Glob("tools/doctor/*.ts").scanSync(join(import.meta.dir, "../.."))]
  const sources = files.filter((file) => !file.endsWith(".test.ts"))
  const texts = await Promise.all(sources.map((file) => Bun.file(join(import.meta.dir, "../..", file)).text()))
  const quoted = texts.flatMap((text) => [
    ...text.matchAll(/rule(?:: | = )(?:\w[^\n]*\? )?"([a-z-]+)"(?: : "([a-z-]+)")?/g),
    ...text.matchAll(/finding\("([a-z-]+)"/g),
  ])
  const rules = new Set(quoted.flatMap(([, one, other]) => [one, other]).filter((rule) => rule !== undefined))
  expect(rules.size).toBeGreaterThan(40)
  expect([...rules].filter((rule) => !page.includes(`| \`${rule}\` |`))).toEqual([])
})
