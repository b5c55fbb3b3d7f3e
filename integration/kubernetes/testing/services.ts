/**
 * Runs `../services.test.ts` with a real kube-proxy in each of its modes, and writes the table of RESULTS.md. Mode ipvs
 * needs kernel modules, so it runs in Debian's kernel under QEMU, which takes most of the time.
 *
 *   npm run test:services
 *
 * The first run builds kube-apiserver and kube-proxy. The last line is `N passed, N failed`.
 */
import { release } from "node:os"
import { dirname, join } from "node:path"
import { execa } from "execa"
import { buildKubernetes, kubernetesProgram } from "../../../scripts/go-programs.ts"
import { parseTestCases } from "../../../scripts/test/test-cases.ts"
import { readFigures, TemporaryDirectory } from "../../lab/mod.ts"
import { inReports, type Job } from "../../vm/job.ts"
import { judge } from "../../vm/judge.ts"
import type { Kernel } from "../../vm/kernel.ts"
import { runMachine } from "../../vm/machine.ts"
import { qemu } from "../../vm/qemu.ts"
import { writeSection } from "./results.ts"

const file = "./integration/kubernetes/services.test.ts"

interface Outcome {
  readonly passed: number
  readonly failures: readonly string[]
  readonly rows: readonly string[]
}

/** Tests modes iptables and nftables in namespaces of this machine. */
async function runHere(): Promise<Outcome> {
  await using scratch = await TemporaryDirectory.create("cni-services")
  const [junit, figures] = [scratch.join("report.xml"), scratch.join("figures")]
  await Bun.write(figures, "")
  const options = ["--timeout=600000", "--reporter=junit", `--reporter-outfile=${junit}`]
  await execa("unshare", ["--mount", "--net", "--propagation=private", process.execPath, "test", ...options, file], {
    cwd: join(import.meta.dir, "../../.."),
    env: { CNI_FAULTS_FIGURES: figures },
    stdio: ["ignore", "inherit", "inherit"],
    reject: false,
  })
  const cases = parseTestCases(await Bun.file(junit).text())
  const failures = cases.filter(({ state }) => state !== "passed").map(({ titles }) => titles.join(": "))
  return { passed: cases.length - failures.length, failures, rows: readFigures(await Bun.file(figures).text()) }
}

/** Tests mode ipvs in Debian's kernel. */
async function runInMachine(): Promise<Outcome> {
  const kernel: Kernel = {
    ...qemu,
    title: "Debian's stock kernel",
    lacks: qemu.lacks.filter((feature) => feature !== "br_netfilter"),
  }
  const env = {
    CNI_TEST_KUBE_PROXY: "ipvs",
    CNI_KUBERNETES_CACHE: dirname(await kubernetesProgram("kube-proxy")),
    CNI_FAULTS_FIGURES: inReports("/run/reports").figures,
    TMPDIR: "/run", // the outer machine's /tmp changes during the run
  }
  const job: Job = { patience: kernel.patience, env, runs: [{ title: file, files: [file] }] }
  const results = await runMachine(kernel, job)
  const { passed, failures } = judge(kernel, job, results)
  return { passed: passed.length, failures, rows: results?.figures ?? [] }
}

await buildKubernetes(["kube-apiserver", "kube-proxy"])
const outcomes = await Promise.all([runHere(), runInMachine()])
const failures = outcomes.flatMap((outcome) => outcome.failures)
for (const failure of failures) console.log(`failed: ${failure}`)
const passed = outcomes.reduce((sum, outcome) => sum + outcome.passed, 0)
await writeSection(
  "Host ports against services",
  `A container maps the host ports of a service: its NodePort, and its ClusterIPs with their port. Who gets the packets?
Each cell stands for IPv4 and IPv6; \`asked\` and \`service\` count connections. A real kube-proxy wrote the service's
rules: iptables and nftables on Linux ${release()}, ipvs on Debian's kernel. In mode ipvs \`cni reconcile\` ran last.

| kube-proxy | order | asked | service | NodePort, outside | node | pod | ClusterIP, outside | node | pod |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
${outcomes.flatMap(({ rows }) => rows).join("\n")}

In mode ipvs kube-proxy accepts packets for a ClusterIP first, but not those for a NodePort: the kernel balances these
after DNAT, so the host port takes them. Written by \`npm run test:services\`: ${passed} tests passed, ${failures.length} failed.`,
)
console.log(`${passed} passed, ${failures.length} failed`)
process.exitCode = failures.length === 0 ? 0 : 1
