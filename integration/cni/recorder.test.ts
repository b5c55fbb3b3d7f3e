import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, fail, type HostNamespace, mustRun, pluginEnv, programEnv, runPlugin } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

interface Line {
  seq: number
  time: string
  plugin: string
  verb: string
  network?: string
  container?: string
  interface?: string
  netns?: string
  ms: number
  stages: Record<string, number>
  exitCode: number
  ips?: string[]
  changes?: string[]
  code?: number
  error?: string
  trace?: { id: string; span: string; parent: string }
}

const ring = "/run/cni/flight-recorder"
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

async function log(lab: NodeLab, ...args: string[]): Promise<Line[]> {
  const { stdout, stderr, exitCode } = await lab.cni(["log", "--json", ...args])
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
  return stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]))
}

async function recording(): Promise<NodeLab> {
  const lab = await NodeLab.create()
  expect(await lab.cni(["recorder", "on"])).toMatchObject({ exitCode: 0, stderr: "" })
  return lab
}

test("off by default: no file, and log says how it is switched on", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  expect((await lab.host.tryExec("test", ["-e", ring])).exitCode).toBe(1)
  const said = await lab.cni(["log"])
  expect(said).toMatchObject({ exitCode: 1, stdout: "" })
  expect(said.stderr).toContain('the flight recorder is off; "cni recorder on" starts it')
})

test("every call leaves a line: who, how long in which part, what was given and changed; on and off by commands", async () => {
  await using lab = await recording()
  expect((await lab.host.exec("stat", ["-c", "%a %s", ring])).stdout).toBe("600 1049600\n")
  const before = Date.now()
  const pod = await lab.addPod()
  await lab.cni(["del", "pods", pod.path, "--container-id", pod.name])
  const lines = await log(lab)
  expect(lines.map(({ verb, plugin }) => `${verb} ${plugin}`)).toEqual([
    "ADD bridge",
    "ADD portmap",
    "DEL portmap",
    "DEL bridge",
  ])
  const [bridge, portmap] = lines
  const whose = { network: "pods", container: pod.name, interface: "eth0", netns: pod.path, exitCode: 0 }
  expect(bridge).toMatchObject({ ...whose, seq: 0, ips: ["10.85.0.2/24"] })
  expect(bridge?.changes).toContain("lease addresses")
  expect(Object.keys(bridge?.stages ?? {}).sort()).toEqual(["input", "ipam", "plugin"])
  expect(bridge?.stages.ipam).toBeLessThan(bridge?.stages.plugin ?? 0)
  expect(bridge?.stages.plugin).toBeLessThan(bridge?.ms ?? 0)
  expect(portmap).toMatchObject({ ...whose, seq: 1, ips: ["10.85.0.2/24"] })
  const time = Date.parse(bridge?.time ?? "")
  expect(time).toBeGreaterThanOrEqual(before - 1000)
  expect(time).toBeLessThanOrEqual(Date.now())
  expect(lines.every(({ trace }) => trace === undefined)).toBe(true)

  expect((await log(lab, "--container", pod.name.slice(0, 12))).length).toBe(4)
  expect(await log(lab, "--failed")).toEqual([])
  await lab.cni(["recorder", "off"])
  expect((await lab.host.tryExec("test", ["-e", ring])).exitCode).toBe(1)
  await lab.addPod("after")
  expect((await lab.host.tryExec("test", ["-e", ring])).exitCode).toBe(1)
})

const call = (host: HostNamespace, netns: string, config: object) =>
  runPlugin(host, { bin: join(builtPlugins, "bridge"), verb: "ADD", containerId: "c1", netns, ifName: "eth0", config })

test("a call that fails leaves its error; VERSION leaves none; the answer is the same as without a recorder", async () => {
  await using lab = await recording()
  const pod = await lab.host.addContainer()
  const config = { cniVersion: "1.1.0", name: "odd", type: "bridge", bridge: "no/slash", ipam: {} }
  const recorded = await fail(call(lab.host, pod.path, config))
  const version = {
    bin: join(builtPlugins, "bridge"),
    verb: "VERSION",
    containerId: "",
    netns: "",
    ifName: "",
  } as const
  await lab.host.exec(version.bin, [], { env: pluginEnv(version) })
  const lines = await log(lab, "--failed")
  expect(lines).toMatchObject([{ verb: "ADD", plugin: "bridge", network: "odd", exitCode: 1, code: recorded.code }])
  expect(lines[0]?.error).toContain(recorded.msg)
  expect(lines[0]?.changes).toBeUndefined()
  await lab.cni(["recorder", "off"])
  expect(await fail(call(lab.host, pod.path, config))).toEqual(recorded)
})

test("a ring that is something else, a directory, or locked for ever is not an obstacle and is not changed [S31]", async () => {
  await using lab = await NodeLab.create()
  await lab.host.exec("sh", ["-c", `printf 'other' > ${ring}`])
  await lab.addPod("one")
  expect((await lab.host.exec("cat", [ring])).stdout).toBe("other")
  await lab.host.exec("sh", ["-c", `rm ${ring}; mkdir ${ring}`])
  await lab.addPod("two")
  await lab.host.exec("rmdir", [ring])
  await lab.cni(["recorder", "on"])
  const holder = Bun.spawn(lab.host.commandLine(["flock", ring, "sh", "-c", "echo held; cat"]), {
    stdin: "pipe",
    stdout: "pipe",
  })
  await holder.stdout.getReader().read()
  await lab.addPod("three")
  expect(await log(lab)).toEqual([])
  holder.kill()
  await holder.exited
})

test("TRACEPARENT: the lines carry trace, parent and a span of their own, and --otlp prints them as spans", async () => {
  await using lab = await recording()
  const pod = await lab.host.addContainer()
  const env = { TRACEPARENT: traceparent }
  const added = await lab.cni(["add", "pods", pod.path, "--container-id", pod.name], env)
  expect(added.exitCode).toBe(0)
  const lines = await log(lab)
  for (const { trace } of lines) {
    expect(trace).toMatchObject({ id: "0af7651916cd43dd8448eb211c80319c", parent: "b7ad6b7169203331" })
    expect(trace?.span).toMatch(/^[0-9a-f]{16}$/)
  }
  expect(new Set(lines.map(({ trace }) => trace?.span)).size).toBe(2)

  const { stdout } = await lab.cni(["log", "--otlp"])
  const otlp = JSON.parse(stdout)
  expect(otlp.resourceSpans[0].resource.attributes).toContainEqual({
    key: "service.name",
    value: { stringValue: "cni" },
  })
  const spans = otlp.resourceSpans[0].scopeSpans[0].spans
  expect(spans).toHaveLength(2)
  expect(spans[0]).toMatchObject({
    traceId: "0af7651916cd43dd8448eb211c80319c",
    parentSpanId: "b7ad6b7169203331",
    spanId: lines[0]?.trace?.span,
    name: "bridge ADD",
    status: { code: 1 },
  })
  const took = BigInt(spans[0].endTimeUnixNano) - BigInt(spans[0].startTimeUnixNano)
  expect(Math.abs(Number(took) / 1e6 - (lines[0]?.ms ?? 0))).toBeLessThan(0.01)
  expect(Number(BigInt(spans[0].startTimeUnixNano) / 1_000_000n)).toBe(Date.parse(lines[0]?.time ?? ""))
})

test("--follow goes on with what comes, until it is interrupted", async () => {
  await using lab = await recording()
  const tool = join(builtPlugins, "../cni")
  const process = Bun.spawn(lab.host.commandLine([tool, "log", "--json", "--follow"]), {
    env: programEnv,
    stdout: "pipe",
  })
  await lab.addPod("first")
  let said = ""
  let isSecond = false
  for await (const chunk of process.stdout) {
    said += new TextDecoder().decode(chunk)
    const count = said.split("\n").length - 1
    if (count >= 2 && !isSecond) {
      isSecond = true
      await lab.addPod("second")
    }
    if (count >= 4) process.kill("SIGINT")
  }
  expect(await process.exited).toBe(0)
  expect(
    said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).seq),
  ).toEqual([0, 1, 2, 3])
})

/** Parses Prometheus' text format into a map from name{labels} to value. Throws for invalid text. */
function samplesIn(text: string): Map<string, number> {
  const samples = new Map<string, number>()
  const typed = new Map<string, string>()
  for (const line of text.trimEnd().split("\n")) {
    const [, name = "", type = ""] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
    if (name !== "") typed.set(name, type)
    if (line.startsWith("# ")) continue
    const [, key = "", value = ""] = /^([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)$/.exec(line) ?? []
    const metric = key.replace(/\{.*/, "")
    const family = metric.replace(/_(bucket|sum|count)$/, "")
    if (key === "" || !(typed.has(metric) || typed.get(family) === "histogram")) throw new Error(`no sample: ${line}`)
    samples.set(key, Number(value))
  }
  return samples
}

test("metrics: attachments, addresses, calls, errors and durations, in Prometheus' format, written in one step", async () => {
  await using lab = await recording()
  await lab.addPod("a")
  await lab.losePod(await lab.addPod("b"))
  const pod = await lab.host.addContainer()
  const failed = await fail(
    call(lab.host, pod.path, { cniVersion: "1.1.0", name: "odd", type: "bridge", bridge: "no/slash", ipam: {} }),
  )
  const { stdout, exitCode } = await lab.cni(["metrics"])
  expect(exitCode).toBe(0)
  const samples = samplesIn(stdout)
  const expected = {
    'cni_attachments{network="pods"}': 2,
    'cni_orphans{network="pods"}': 1,
    cni_recorder_on: 1,
    cni_calls_total: 5,
    'cni_operations{plugin="bridge",verb="ADD",result="success"}': 2,
    'cni_operations{plugin="bridge",verb="ADD",result="error"}': 1,
    [`cni_errors{plugin="bridge",verb="ADD",code="${failed.code}"}`]: 1,
    'cni_operation_duration_seconds_bucket{plugin="portmap",verb="ADD",le="+Inf"}': 2,
    'cni_operation_duration_seconds_count{plugin="portmap",verb="ADD"}': 2,
  }
  expect(Object.fromEntries(Object.keys(expected).map((key) => [key, samples.get(key)]))).toEqual(expected)
  const of = (name: string) => [...samples].filter(([key]) => key.startsWith(`${name}{`)).map(([, value]) => value)
  expect([of("cni_addresses_used"), of("cni_addresses_free")]).toEqual([[2], [251]])
  const buckets = [...samples].filter(([key]) =>
    key.startsWith('cni_operation_duration_seconds_bucket{plugin="bridge"'),
  )
  expect(buckets.map(([, value]) => value)).toEqual(buckets.map(([, value]) => value).toSorted((a, b) => a - b))

  const file = lab.directory.join("cni.prom")
  await lab.cni(["metrics", "--write", file])
  expect(samplesIn(await Bun.file(file).text()).size).toBe(samples.size)
  expect((await mustRun(["ls", "-A", lab.directory.path])).stdout).toBe("cni.prom\nnet.d\n")
  await lab.cni(["recorder", "off"])
  expect(samplesIn((await lab.cni(["metrics"])).stdout).get("cni_recorder_on")).toBe(0)
})

test("the timer starts the service, which runs a command line that the tool understands", async () => {
  await using lab = await NodeLab.create()
  const unit = async (name: string) => Bun.file(join(import.meta.dir, "../../share/systemd", name)).text()
  const [, line = ""] = /^ExecStart=(.*)$/m.exec(await unit("cni-metrics.service")) ?? []
  const [tool, ...args] = line.split(" ")
  expect(tool).toBe("/usr/local/bin/cni")
  const { exitCode, stderr } = await lab.cni([...args.slice(0, -1), lab.directory.join("cni.prom")])
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(await unit("cni-metrics.timer")).toContain("WantedBy=timers.target")
})
