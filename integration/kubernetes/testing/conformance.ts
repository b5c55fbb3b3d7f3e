/**
 * Runs the conformance tests of Kubernetes' [sig-network] on three nodes, which are namespaces. deploy/kubernetes sets
 * up their pod network. Each mode of kube-proxy gets a new cluster.
 *
 *   npm run test:conformance                     all of them
 *   npm run test:conformance -- --dual-stack     with both families, and with the tests of Feature:IPv6DualStack
 *   npm run test:conformance -- --focus REGEX    the tests that match
 *   npm run test:conformance -- --mode nftables  one mode
 *   npm run test:conformance -- --keep           keeps the last cluster until Ctrl-C
 *   npm run test:conformance -- --fire           while an attack hits the nodes every 20 seconds: see fire.ts
 *   npm run test:conformance -- --lifecycle      stops and starts nodes and controllers instead: see lifecycle.ts
 *   npm run test:conformance -- --pods           300 pods instead, also with the Go plugins: see many-pods.ts
 *   npm run test:conformance -- --ping           one pod on each node and pings instead; does not build Kubernetes
 *
 * The first run builds Kubernetes. A run without --focus and --mode writes RESULTS.md. Logs are in dist/conformance.
 * The last line is `N passed, N failed`.
 */
import { mkdir, rm, symlink } from "node:fs/promises"
import { release } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { execa } from "execa"
import {
  buildKubernetes,
  isBuilt,
  kubernetes,
  kubernetesProgram,
  kubernetesPrograms,
} from "../../../scripts/go-programs.ts"
import { mustRun, programEnv, TemporaryDirectory } from "../../lab/mod.ts"
import { Cluster, type ClusterOptions } from "./cluster.ts"
import { underFire } from "./fire.ts"
import { makeImages } from "./images.ts"
import { runLifecycle } from "./lifecycle.ts"
import { describeTurns, runManyPods, turns } from "./many-pods.ts"
import { idlePods, pingPods, readPods } from "./pods.ts"
import { writeSection } from "./results.ts"

const logs = join(import.meta.dir, "../../../dist/conformance")
const conformance = String.raw`\[sig-network\].*\[Conformance\]`
const dualStack = String.raw`\[sig-network\].*\[Feature:IPv6DualStack\]`
/** Tests that cannot run: the cluster has no controller of load balancers, and this kernel may have no SCTP. */
const skipped = "[Ll]oad ?[Bb]alancer|SCTP"

const proxyModes = ["iptables", "nftables"] as const
type ProxyMode = (typeof proxyModes)[number]

const processes = 4
const limitMs = 7_200_000

/** A test in ginkgo's report. */
interface Spec {
  readonly ContainerHierarchyTexts: readonly string[] | null
  readonly LeafNodeType: string
  readonly LeafNodeText: string
  readonly State: string
  readonly Failure?: { readonly Message?: string }
}

interface Result {
  readonly test: string
  readonly passed: boolean
  readonly message: string
}

interface Run {
  readonly mode: ProxyMode
  readonly readySeconds: number
  readonly testSeconds: number
  readonly results: readonly Result[]
  /** The number of nodes that each attack hit. */
  readonly fire: ReadonlyMap<string, number> | undefined
}

async function runTests(cluster: Cluster, focus: string, mode: ProxyMode): Promise<Result[]> {
  const directory = cluster.directory.join("tests")
  await mkdir(directory)
  await symlink(await kubernetesProgram("network.test"), join(directory, "network.test")) // ginkgo requires this ending of the name
  const ofGinkgo = [`--procs=${processes}`, `--focus=${focus}`, `--skip=${skipped}`, "--no-color", "--timeout=2h"]
  const report = ["--json-report=report.json", `--output-dir=${directory}`]
  const ofTests = [
    ...["--provider=skeleton", `--kubeconfig=${cluster.kubeconfig}`, "--dns-domain=cluster.local"],
    ...[`--kubectl-path=${await kubernetesProgram("kubectl")}`, "--disable-log-dump=true"],
  ]
  const command = [await kubernetesProgram("ginkgo"), ...ofGinkgo, ...report, join(directory, "network.test")]
  const log = join(logs, `${mode}-tests.log`)
  const script = `cd "$1" && shift && exec "$@" >"${log}" 2>&1`
  const env = { ...programEnv, HOME: directory, KUBECONFIG: cluster.kubeconfig }
  const shell = ["-c", script, "sh", directory, ...command, "--", ...ofTests]
  await cluster.lan.tryExec("sh", shell, { env, timeoutMs: limitMs })
  const [suite] = (await Bun.file(join(directory, "report.json")).json()) as { SpecReports: Spec[] }[]
  const ran = (suite?.SpecReports ?? []).filter(
    ({ LeafNodeType, State }) => LeafNodeType === "It" && State !== "skipped" && State !== "pending",
  )
  if (ran.length === 0) throw new Error(`No test ran: see ${log}`)
  return ran.map(({ ContainerHierarchyTexts, LeafNodeText, State, Failure }) => ({
    test: [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(" "),
    passed: State === "passed",
    message: Failure?.Message ?? "",
  }))
}

async function ping(cluster: Cluster): Promise<void> {
  await cluster.apply(idlePods("ping"))
  await cluster.waitUntilReady("daemonset/ping")
  const pods = await readPods(cluster)
  await pingPods(pods)
  console.log(`${pods.length} pods of ${new Set(pods.map(({ node }) => node)).size} nodes reach each other`)
}

const seconds = (since: number) => Math.round((performance.now() - since) / 1000)

async function describeRuns(runs: readonly Run[]): Promise<string> {
  const { stdout } = await mustRun(["containerd", "--version"])
  const rows = runs.map(({ mode, results, readySeconds, testSeconds }) => {
    const passed = results.filter(({ passed }) => passed).length
    return `| ${mode} | ${passed} | ${results.length - passed} | ${readySeconds} | ${testSeconds} |`
  })
  const failures = runs.flatMap(({ mode, results }) =>
    results.filter(({ passed }) => !passed).map(({ test }) => `- ${mode}: ${test}\n`),
  )
  const broken = runs.flatMap(({ fire }) => [...(fire ?? [])]).map(([what, hits]) => `- ${what}: ${hits} hits\n`)
  const containerd = / v?(\d[\d.]+)/.exec(stdout)?.[1]
  return `The tests that match \`${focus}\`, ${processes} at a time.
Kubernetes ${kubernetes}, containerd ${containerd}, Linux ${release()}.

| kube-proxy | passed | failed | seconds until ready | seconds of tests |
| --- | --- | --- | --- | --- |
${rows.join("\n")}
${broken.length > 0 ? `\nWhile they ran, every 20 seconds one of these began, on all nodes:\n\n${broken.join("")}` : ""}${failures.length > 0 ? `\nFailed:\n\n${failures.join("")}` : ""}`
}

/**
 * Builds missing programs, then runs this command in namespaces of its own, without a module proxy. Returns its exit
 * code.
 */
async function runApart(): Promise<number> {
  const missing = kubernetesPrograms.filter((name) => !isBuilt(name))
  if (values.ping && missing.length > 0) {
    console.log(`Not run: a ping on three nodes, because ${missing.join(", ")} are not built`)
    return 0
  }
  await buildKubernetes(kubernetesPrograms)
  const command = [process.execPath, import.meta.path, "--apart", ...process.argv.slice(2)]
  const run = execa("unshare", ["--mount", "--net", "--propagation=private", ...command], {
    stdio: "inherit",
    reject: false,
  })
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => run.kill(signal))
  return (await run).exitCode ?? 1
}

const { values } = parseArgs({
  options: {
    focus: { type: "string" },
    mode: { type: "string" },
    "dual-stack": { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    fire: { type: "boolean", default: false },
    lifecycle: { type: "boolean", default: false },
    pods: { type: "boolean", default: false },
    ping: { type: "boolean", default: false },
    /** Whether this process runs in namespaces of its own. Only `runApart` sets this option. */
    apart: { type: "boolean", default: false },
  },
})
const isDualStack = values["dual-stack"]
const focus = values.focus ?? (isDualStack ? `(${conformance}|${dualStack})` : conformance)
const wantedMode = values.mode ?? (values.fire ? "nftables" : undefined)
const modes = proxyModes.filter((mode) => wantedMode === undefined || mode === wantedMode)
if (modes.length === 0) throw new Error(`Cannot use mode "${values.mode}": choose ${proxyModes.join(", ")}`)

if (!values.apart) process.exit(await runApart())

const interrupted = Promise.withResolvers<never>()
interrupted.promise.catch(() => undefined)
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => interrupted.reject(new Error(`Ended by ${signal}`)))

/** Returns the value of `work`. Throws if this command is interrupted first. */
function unlessInterrupted<T>(work: Promise<T>): Promise<T> {
  work.catch(() => undefined)
  return Promise.race([work, interrupted.promise])
}

async function onCluster<T>(
  options: Pick<ClusterOptions, "mode" | "images" | "ranges" | "install">,
  work: (cluster: Cluster, readySeconds: number) => Promise<T>,
): Promise<T> {
  const began = performance.now()
  await using cluster = await Cluster.create({ ...options, isDualStack, logs })
  await unlessInterrupted(cluster.start())
  const readySeconds = seconds(began)
  console.log(`kube-proxy in mode ${options.mode}: the cluster is ready after ${readySeconds} seconds`)
  return await unlessInterrupted(work(cluster, readySeconds))
}

async function runMode(cluster: Cluster, mode: ProxyMode, readySeconds: number): Promise<Run> {
  const began = performance.now()
  let testSeconds = 0
  const running = runTests(cluster, focus, mode).finally(() => (testSeconds = seconds(began)))
  const fire = values.fire ? await underFire(cluster, running) : undefined
  const results = await running
  const failed = results.filter(({ passed }) => !passed)
  console.log(`kube-proxy in mode ${mode}: ${results.length - failed.length} of ${results.length} passed`)
  for (const { test, message } of failed) console.log(`  FAILED: ${test}\n    ${message.slice(0, 400)}`)
  if (values.keep && mode === modes.at(-1)) {
    const enter = `nsenter --target ${process.pid} --mount nsenter --net=${cluster.lan.path}`
    console.log(`${enter} ${await kubernetesProgram("kubectl")} --kubeconfig ${cluster.kubeconfig} get pods -A`)
    await interrupted.promise.catch(() => undefined)
  }
  return { mode, readySeconds, testSeconds, results, fire }
}

await rm(logs, { recursive: true, force: true })
await mkdir(logs, { recursive: true })
const runs: Run[] = []
{
  await using directory = await TemporaryDirectory.createLocked("cni-images")
  const images = await makeImages(directory.path, values.fire)
  if (values.ping) await onCluster({ mode: "nftables", images }, ping)
  else if (values.lifecycle) {
    const ranges = ["--node-cidr-mask-size=28"]
    await writeSection("Lifecycle", await onCluster({ mode: "nftables", images, ranges }, runLifecycle))
  } else if (values.pods) {
    const rows: string[] = []
    for (const turn of turns) {
      rows.push(await onCluster({ mode: "nftables", images, ...turn.network }, (cluster) => runManyPods(cluster, turn)))
      await writeSection("300 pods", await describeTurns(rows))
    }
  } else {
    for (const mode of modes)
      runs.push(await onCluster({ mode, images }, (cluster, ready) => runMode(cluster, mode, ready)))
  }
}
if (values.ping || values.lifecycle || values.pods) process.exit(0)
if (values.focus === undefined && values.mode === undefined)
  await writeSection(
    `Conformance, ${isDualStack ? "dual stack" : "IPv4"}${values.fire ? ", under fire" : ""}`,
    await describeRuns(runs),
  )
const all = runs.flatMap(({ results }) => results)
const passed = all.filter(({ passed }) => passed).length
console.log(`${passed} passed, ${all.length - passed} failed`)
process.exit(passed === all.length ? 0 : 1)
