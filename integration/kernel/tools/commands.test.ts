/**
 * The commands of `cni` that read a node, from their sources, on a host with an attachment and with what another has
 * left.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { NodeScene } from "./node-scene.fixture.ts"

let node: NodeScene
beforeAll(async () => {
  node = await NodeScene.create()
})
afterAll(() => node[Symbol.asyncDispose]())
const cni = (args: readonly string[]) => node.tool.run(args)

/** The attachment, and what is left of another, as `cni ps` has them. */
const own = () => ({
  network: "pods",
  containerId: "c1",
  ifName: "eth0",
  pod: { namespace: "shop", name: "web" },
  netns: node.pod.path,
  alive: true,
  addresses: ["10.85.0.2/29"],
  ports: [],
  hostInterface: "veth1",
  rules: ["ip cni_masquerade containers"],
  added: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  sources: ["cache", "lease", "link", "rule"],
  orphan: [],
})
const left = {
  network: "pods",
  containerId: "gone",
  ifName: "eth0",
  addresses: ["10.85.0.3"],
  ports: [],
  rules: ["ip cni_masquerade containers"],
  added: expect.any(String),
  sources: ["lease", "rule"],
  orphan: ["lease without cache entry"],
}

test.each([
  [[], 0, "both"],
  [["pods"], 0, "both"],
  [["pods", "--orphans"], 3, "left"],
] as const)("ps %j ends with %d and shows %s", async (args, exitCode, shown) => {
  const { stdout, ...ended } = await cni(["ps", "--json", ...args])
  expect(ended).toEqual({ exitCode, stderr: "" })
  expect(JSON.parse(stdout)).toEqual({ both: [left, own()], left: [left] }[shown])
})

const metrics = `# HELP cni_info The version of the tool.
# TYPE cni_info gauge
cni_info{version="VERSION"} 1
# HELP cni_attachments Interfaces of containers.
# TYPE cni_attachments gauge
cni_attachments{network="pods"} 2
# HELP cni_orphans What was left of containers that are gone.
# TYPE cni_orphans gauge
cni_orphans{network="pods"} 1
# HELP cni_addresses_used Addresses that host-local has handed out.
# TYPE cni_addresses_used gauge
cni_addresses_used{network="pods",range="10.85.0.1-10.85.0.6"} 2
# HELP cni_addresses_free Addresses that host-local can hand out.
# TYPE cni_addresses_free gauge
cni_addresses_free{network="pods",range="10.85.0.1-10.85.0.6"} 3
# HELP cni_recorder_on Whether the flight recorder is on.
# TYPE cni_recorder_on gauge
cni_recorder_on 0
`

test("metrics are printed, or written into a file that its collector may read", async () => {
  const file = node.scratch.join("cni.prom")
  expect(await cni(["metrics", "--write", file])).toEqual({ exitCode: 0, stdout: "", stderr: "" })
  expect((await readFile(file, "utf8")).replace(/(version=")[^"]+/, "$1VERSION")).toBe(metrics)
  expect((await stat(file)).mode & 0o777).toBe(0o644)
  expect((await readdir(node.scratch.path)).sort()).toEqual(["bin", "cni.prom", "net.d"])
  const families = JSON.parse((await cni(["metrics", "--json"])).stdout)
  const used = { labels: { network: "pods", range: "10.85.0.1-10.85.0.6" }, value: 2 }
  expect(families[3]).toEqual({
    name: "cni_addresses_used",
    type: "gauge",
    help: "Addresses that host-local has handed out.",
    samples: [used],
  })
})

test("a picture is written into a file, in the theme asked for; an unknown network is refused", async () => {
  const file = node.scratch.join("node.svg")
  expect(await cni(["graph", "--theme", "dark", "--write", file])).toEqual({ exitCode: 0, stdout: "", stderr: "" })
  const svg = await readFile(file, "utf8")
  expect(svg).toContain("<style>svg{--bg:#12171e;")
  for (const at of ["segment bridge", "member", "member doubtful orphan"]) expect(svg).toContain(`<g class="${at}"`)
  await rm(file)
  expect(await cni(["graph", "lan"])).toMatchObject({ exitCode: 1, stdout: "" })
  const json = await cni(["graph", "--json"])
  expect(JSON.parse(json.stdout).segments[0].members[0]).toMatchObject({
    title: "web",
    counters: { sent: { dropped: 0 } },
  })
})

test("diff has nothing to say, and then what was taken away", async () => {
  const diff = (...args: string[]) => cni(["diff", "pods", node.pod.path, "--container-id", "c1", ...args])
  expect(await diff()).toEqual({ exitCode: 0, stdout: `eth0 in ${node.pod.path} is as ADD has made it\n`, stderr: "" })
  await node.host.exec("ip", ["address", "del", "10.85.0.1/29", "dev", "cni0"])
  await node.pod.exec("ip", ["link", "set", "eth0", "address", "02:00:00:00:00:03"])
  const [text, json] = [await diff(), await diff("--json")]
  await node.host.exec("ip", ["address", "add", "10.85.0.1/29", "dev", "cni0"])
  await node.pod.exec("ip", ["link", "set", "eth0", "address", "02:00:00:00:00:02"])
  expect(text).toEqual({
    exitCode: 3,
    stdout: `MAC of eth0
- 02:00:00:00:00:02
+ 02:00:00:00:00:03

gateway on the host
- 10.85.0.1
+ nothing
`,
    stderr: "",
  })
  expect({ ...json, stdout: JSON.parse(json.stdout) }).toEqual({
    exitCode: 3,
    stdout: {
      network: "pods",
      containerId: "c1",
      ifName: "eth0",
      differences: [
        { what: "MAC of eth0", expected: "02:00:00:00:00:02", found: "02:00:00:00:00:03" },
        { what: "gateway on the host", expected: "10.85.0.1", found: "nothing" },
      ],
    },
    stderr: "",
  })
})

test("gc tells what would be deleted, and deletes what the plugins leave", async () => {
  const rows = (fate: string) => [
    `keep attachment c1/eth0 ${node.pod.path}`,
    `${fate} lease 10.85.0.3 pods/gone/eth0`,
    `${fate} rule ip cni_masquerade containers pods/gone/eth0`,
  ]
  const told = ({ stdout }: { stdout: string }) =>
    stdout
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => line.replace(/ +/g, " "))
  const dry = await cni(["gc", "pods", "--auto", "--dry-run"])
  expect([dry.exitCode, dry.stderr, told(dry)]).toEqual([0, "", rows("would delete")])
  const real = await cni(["gc", "pods", "--auto"])
  expect([real.exitCode, told(real)]).toEqual([0, rows("delete")])
  expect(real.stderr).toBe("") // the plugins are none that delete anything: the command itself does
  expect(told(await cni(["gc", "pods", "--auto"]))).toEqual([`keep attachment c1/eth0 ${node.pod.path}`])
  const kept = await cni(["gc", "pods", "--keep", "c1/eth0", "--dry-run"])
  expect(told(kept)).toEqual([`keep attachment c1/eth0 ${node.pod.path}`])
  for (const unknown of ["x/eth0", "gone/eth0"]) {
    const none = await cni(["gc", "pods", "--keep", "c1/eth0", "--keep", unknown, "--dry-run"])
    expect(none).toMatchObject({ exitCode: 1, stdout: "", stderr: expect.stringContaining(`"${unknown}"`) })
  }
})

test("the recorder is switched on, once, and off", async () => {
  const ring = node.host.file("/run/cni/flight-recorder")
  expect(await cni(["recorder", "on"])).toEqual({ exitCode: 0, stdout: "", stderr: "" })
  expect((await stat(ring)).mode & 0o777).toBe(0o600)
  expect((await readdir(node.host.file("/run/cni"))).filter((name) => name !== "flight-recorder")).toEqual([])
  await writeFile(ring, new Uint8Array(1), { flag: "a" })
  const { size } = await stat(ring)
  await cni(["recorder", "on"])
  expect((await stat(ring)).size).toBe(size)
  for (let round = 0; round < 2; round++)
    expect(await cni(["recorder", "off"])).toEqual({ exitCode: 0, stdout: "", stderr: "" })
  expect(await stat(ring).catch(({ code }) => code)).toBe("ENOENT")
})
