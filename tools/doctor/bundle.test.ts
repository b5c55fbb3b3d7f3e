import { expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { hostname, version as kernelVersion, machine, release, tmpdir } from "node:os"
import { join } from "node:path"
import { version } from "../../package.json"
import { bundleFiles, writeBundle } from "./bundle.ts"
import { asJson } from "./report.ts"
import { attachmentOf, baseOf, drop, inputOf, linkOf, memberOf, ruleOf } from "./testing/inputs.ts"

const directory = () => mkdtempSync(join(tmpdir(), "cni-bundle-"))

function examinationIn(confDir: string) {
  const file = (name: string, text: string) => {
    writeFileSync(join(confDir, name), text)
    return { file: join(confDir, name), pools: [] }
  }
  const cached = (config: string, more: object = {}) => ({
    network: "pods",
    containerId: "c1",
    ifName: "eth0",
    netns: "/x",
    capabilityArgs: { token: 1 },
    result: { ips: [] },
    args: [
      ["K8S_POD_NAME", "web"],
      ["SECRET", "x"],
    ],
    config: new TextEncoder().encode(config),
    ...more,
  })
  const counters = { received: { packets: 1n, bytes: 2n, dropped: 0n }, sent: { packets: 3n, bytes: 4n, dropped: 0n } }
  const input = inputOf({
    readMs: 1000,
    places: { confDir, binDirs: [confDir], cacheDir: "/cache", dataDir: "/data" },
    networks: [
      file("10-a.conflist", '{"name":"a","key":{"psk":"x"}}'),
      file("20-b.conf", "no JSON"),
      { file: join(confDir, "gone.conf"), pools: [] },
    ],
    cache: [cached('{"password":"x","n":1}'), cached("{", { containerId: "c2" })] as never,
    stores: [{ network: "pods", leases: [], rangeSets: [{ ranges: "A-B", set: ["not shown"], used: 1, total: 5n }] }],
    links: [linkOf(1, "eth0", { counters })],
    routes: [{ dst: "10.0.0.0/8", dev: "eth0", protocol: 3 }],
    unread: [{ what: "rules", reason: "EPERM" }],
    attachments: [attachmentOf()],
    members: [memberOf({ type: "10-a.conflist" }), memberOf({ type: "gone" })],
    filter: {
      bases: [baseOf("ip filter FORWARD")],
      rules: [ruleOf("ip filter FORWARD", 7, drop, ["cmp", { data: { value: Uint8Array.of(1, 255) } }])],
    },
    sysctls: { "net/ipv4/ip_forward": "1", "net/other": "5" },
  })
  return { input, findings: [] }
}

test("a bundle has what a maintainer needs", () => {
  const confDir = directory()
  const examination = examinationIn(confDir)
  const files = bundleFiles(examination)
  rmSync(confDir, { recursive: true })
  const json = (name: string) => JSON.parse(files.get(name) ?? "")
  expect([...files.keys()]).toEqual([
    ...["about.json", "doctor.json", "attachments.json", "links.json", "routes.json", "leases.json", "rules.json"],
    ...["sysctls.json", "plugins.json", "net.d/10-a.conflist", "net.d/20-b.conf", "net.d/gone.conf"],
    ...["cache/pods-c1-eth0.json", "cache/pods-c2-eth0.json", "proc/version", "proc/modules", "proc/self/mountinfo"],
    ...["proc/meminfo", "proc/thread-self/net/dev", "proc/thread-self/net/snmp", "proc/thread-self/net/softnet_stat"],
  ])
  expect(json("about.json")).toEqual({
    tool: version,
    host: hostname(),
    kernel: `${release()} ${kernelVersion()}`,
    machine: machine(),
    time: "1970-01-01T00:00:01.000Z",
    places: { confDir, binDirs: [confDir], cacheDir: "/cache", dataDir: "/data" },
    unread: [{ what: "rules", reason: "EPERM" }],
  })
  expect(json("doctor.json")).toEqual(asJson(examination))
  expect(json("attachments.json")).toMatchObject([{ network: "pods", containerId: "c1" }])
  const way = (packets: number, bytes: number) => ({ packets, bytes, dropped: 0 })
  expect(json("links.json")).toMatchObject([{ name: "eth0", counters: { received: way(1, 2), sent: way(3, 4) } }])
  expect(json("routes.json")).toEqual([{ dst: "10.0.0.0/8", dev: "eth0", protocol: 3 }])
  expect(json("leases.json")).toEqual([
    { network: "pods", leases: [], rangeSets: [{ ranges: "A-B", used: 1, total: 5 }] },
  ])
  expect(json("rules.json")).toMatchObject({
    owned: [],
    ports: [],
    bases: [{ name: "FORWARD" }],
    rules: [{ handle: 7 }],
  })
  expect(json("rules.json").rules[0].expressions[1]).toEqual({ name: "cmp", data: { data: { value: "01ff" } } })
  expect(json("sysctls.json")).toEqual({
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": null,
    "net/ipv4/conf/all/rp_filter": null,
    "net/bridge/bridge-nf-call-iptables": null,
    "net/bridge/bridge-nf-call-ip6tables": null,
    "net/netfilter/nf_conntrack_count": null,
    "net/netfilter/nf_conntrack_max": null,
  })
  expect(json("plugins.json")).toEqual([
    { type: "10-a.conflist", file: join(confDir, "10-a.conflist"), mode: 0o644, owner: process.getuid?.() },
    { type: "gone" },
  ])
  expect(files.get("net.d/10-a.conflist")).toBe('{\n  "name": "a",\n  "key": {\n    "psk": "(removed)"\n  }\n}\n')
  expect(files.get("net.d/20-b.conf")).toBe("(no JSON; 7 characters)\n")
  expect(files.get("net.d/gone.conf")).toMatch(/^\(no JSON; \d+ characters\)\n$/)
  expect(json("cache/pods-c1-eth0.json")).toEqual({
    network: "pods",
    containerId: "c1",
    ifName: "eth0",
    netns: "/x",
    capabilityArgs: { token: "(removed)" },
    result: { ips: [] },
    args: [
      ["K8S_POD_NAME", "web"],
      ["SECRET", "(removed)"],
    ],
    config: { password: "(removed)", n: 1 },
  })
  expect(json("cache/pods-c2-eth0.json").config).toBe("(no JSON)")
  expect(files.get("proc/version")).toBe(readFileSync("/proc/version", "utf8"))
})

test("it is written as a tar that root alone reads", async () => {
  const place = directory()
  const file = join(place, "node.tar")
  await writeBundle(file, examinationIn(place))
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const { stdout } = Bun.spawnSync(["tar", "xOf", file, "net.d/20-b.conf"])
  rmSync(place, { recursive: true })
  expect(stdout.toString()).toBe("(no JSON; 7 characters)\n")
})

test("it takes the place of a file that others could read, and never goes where a link leads", async () => {
  const place = directory()
  const [file, link, target] = ["old.tar", "link.tar", "target"].map((name) => join(place, name)) as [
    string,
    string,
    string,
  ]
  writeFileSync(file, "an earlier one", { mode: 0o644 })
  await writeBundle(file, examinationIn(place))
  expect(statSync(file).mode & 0o777).toBe(0o600)
  writeFileSync(target, "of another program")
  symlinkSync(target, link)
  for (const name of [link, place])
    await expect(writeBundle(name, examinationIn(place))).rejects.toThrow(
      `Cannot write "${name}": it exists and is not a regular file`,
    )
  expect(readFileSync(target, "utf8")).toBe("of another program")
  rmSync(place, { recursive: true })
})
