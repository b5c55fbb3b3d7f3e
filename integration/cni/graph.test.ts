import { expect, test } from "bun:test"
import { expectUnchanged, mustRun, takeSnapshot } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

interface Drawn {
  uplinks: { name: string; addresses: string[]; routes: string[] }[]
  segments: {
    title: string
    isThere: boolean
    kind: string
    caption: string
    addresses: string[]
    masquerades: boolean
    ports: number
    members: {
      title: string
      addresses: string[]
      ports: string[]
      hostEnd?: string
      orphan: string[]
      fault?: string
      counters?: { sent: { packets: number; bytes: number } }
      config?: object
    }[]
  }[]
}

const draw = async (lab: NodeLab, ...args: string[]) => {
  const { stdout, stderr, exitCode } = await lab.cni(["graph", ...args])
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
  return stdout
}

test("json: uplinks with routes, the bridge with its address, containers with addresses, ports, counters and configuration", async () => {
  await using lab = await NodeLab.create()
  const { host } = lab
  const pod = await lab.addPod()
  await lab.losePod(await lab.addPod("gone"))
  await host.exec("ip", ["link", "add", "out0", "type", "bridge"])
  await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
  await host.exec("ip", ["link", "set", "out0", "up"])
  await host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
  await pod.exec("ping", ["-c", "3", "-i", "0.01", "10.85.0.1"])
  const before = await takeSnapshot(host)
  const { uplinks, segments } = JSON.parse(await draw(lab, "-o", "json")) as Drawn
  expectUnchanged(before, await takeSnapshot(host))
  expect(uplinks).toMatchObject([{ name: "out0", addresses: ["192.0.2.2/24"], routes: ["default via 192.0.2.1"] }])
  expect(segments).toMatchObject([
    { title: "cni0", kind: "bridge", caption: "bridge", addresses: ["10.85.0.1/24"], masquerades: true, ports: 2 },
  ])
  const [gone, web] = segments[0]?.members ?? []
  expect(gone).toMatchObject({ title: "gone", orphan: expect.arrayContaining(["lease without namespace"]) })
  expect(web).toMatchObject({
    title: "web",
    addresses: ["10.85.0.2/24"],
    ports: [{ hostPort: 8001, containerPort: 80, protocol: "tcp" }],
    orphan: [],
  })
  expect(web?.config).toMatchObject({ name: "pods" })
  const [link] = await host.json<{ ifname: string; stats64: { rx: { packets: number } } }[]>("ip", [
    "-j",
    "-s",
    "link",
    "show",
    "type",
    "veth",
  ])
  expect(web?.hostEnd).toBe(link?.ifname ?? "")
  // Packets that the container sends are packets that the host's end receives.
  expect(web?.counters?.sent.packets).toBeGreaterThanOrEqual(4)
  expect(web?.counters?.sent.packets).toBeLessThanOrEqual(link?.stats64.rx.packets ?? 0)
})

test("a deleted bridge, and a port that has left its bridge, connect nothing", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod("left")
  const { host } = lab
  const ends = await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  await lab.addPod("stays")
  await host.exec("ip", ["link", "set", ends[0]?.ifname ?? "", "nomaster"])
  const segments = async () => (JSON.parse(await draw(lab, "-o", "json")) as Drawn).segments
  expect(await segments()).toMatchObject([
    {
      title: "cni0",
      isThere: true,
      members: [{ title: "left", fault: `"${ends[0]?.ifname}" is not a port of bridge "cni0"` }, { title: "stays" }],
    },
  ])
  await host.exec("ip", ["link", "delete", "cni0"])
  const fault = 'bridge "cni0" does not exist'
  expect(await segments()).toMatchObject([
    {
      title: "cni0",
      isThere: false,
      addresses: [],
      members: [
        { title: "left", fault },
        { title: "stays", fault },
      ],
    },
  ])
  expect(await draw(lab)).toContain(">not there</text>")
})

test("svg is well-formed, also with names that are markup, and has the configuration of each container", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod('<b>&"')
  const file = lab.directory.join("node.svg")
  await draw(lab, "--write", file)
  const check =
    "import sys, xml.dom.minidom as x; print(x.parse(sys.argv[1]).getElementsByTagName('title')[-1].firstChild.data)"
  const { stdout } = await mustRun(["python3", "-c", check, file])
  expect(stdout + (await Bun.file(file).text())).toContain('"isDefaultGateway": true')
  expect(await Bun.file(file).text()).toContain("&lt;b&gt;&amp;&quot;")
})

test("a node without attachments has a picture that says so; a wrong format is a usage error", async () => {
  await using lab = await NodeLab.create()
  expect(await draw(lab)).toContain("No attachments")
  expect(await lab.cni(["graph", "-o", "png"])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining("expected svg, text, wide, json"),
  })
})

test("what doctor finds is marked at its container, its bridge or the node, in each format", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod("web")
  await lab.addPod("db")
  expect(await draw(lab, "-o", "text")).not.toContain("ERROR")
  await lab.host.exec("ip", ["link", "set", "cni0", "down"])
  await lab.host.exec("rm", [`/var/lib/cni/networks/pods/10.85.0.2`])
  const { segments } = JSON.parse(await draw(lab, "-o", "json"))
  const [segment] = segments
  expect(segment.faults).toMatchObject([{ rule: "link-down", severity: "error" }])
  const [db, web] = segment.members
  expect(web).toMatchObject({ title: "web", namespace: "shop", containerId: pod.name })
  const rulesOf = (member: { faults?: { rule: string }[] }) => (member.faults ?? []).map(({ rule }) => rule)
  expect(rulesOf(web)).toContain("missing-lease")
  expect(rulesOf(db)).not.toContain("missing-lease")
  expect(await draw(lab)).toMatch(
    /<g class="member faulty" data-id="attachment pods\/\S+"[^>]*><title>[^<]*ERROR missing-lease/,
  )
  const text = await draw(lab, "-o", "text")
  expect(text).toMatch(/^cni0 .*down\n! ERROR link-down: /m)
  expect(text).toMatch(/^ {2}shop +web .*missing-lease/m)
})
