import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type Script, startRuntimes } from "../../tools/cri/testing.ts"
import { bridgeNetwork, builtPlugins, mustRun, runProgram, TemporaryDirectory } from "../lab/mod.ts"

// Debian has no package of CRI-O: what it answers is written by server/runtime_status.go of github.com/cri-o/cri-o. With a real
// containerd: integration/interop/install.test.ts.

const tool = join(builtPlugins, "../cni")
const { cniVersion, name: _, ...plugin } = bridgeNetwork({ isGateway: true })
const network = JSON.stringify({ cniVersion, name: "pods", plugins: [plugin] })

const crio = (status: boolean, message = "") => ({
  status: {
    conditions: [
      { type: "RuntimeReady", status: true },
      { type: "NetworkReady", status, message },
    ],
  },
  info: { config: '{"sandboxImage":"pause"}' },
})
const containerd = (source: string, more: object = {}) => ({
  status: { conditions: [{ type: "NetworkReady", status: true }] },
  info: {
    lastCNILoadStatus: "OK",
    cniconfig: JSON.stringify({
      PluginConfDir: "/etc/cni/net.d",
      Networks: [{ Config: { Name: "pods", Source: source } }],
    }),
    ...more,
  },
})
const noNetwork = "Network plugin returns error: no CNI configuration file in /etc/cni/net.d"
const scripts: Record<string, Script> = {
  "crio-late": { answers: [crio(false, noNetwork), crio(false, noNetwork), crio(true)] },
  "crio-never": { answers: [crio(false, noNetwork)] },
  "containerd-late": { answers: [containerd("{}"), containerd("{}"), containerd(network)] },
  "containerd-older": { version: "v1alpha2", answers: [containerd(network)] },
  "containerd-other": { answers: [containerd("{}", { lastCNILoadStatus: "cni config load failed" })] },
  refuses: { answers: [{ error: { code: 7, details: "not for you" } }] },
  hangs: { answers: ["nothing"] },
}

let place: TemporaryDirectory
let runtimes: AsyncDisposable
beforeAll(async () => {
  place = await TemporaryDirectory.create("cni-loaded", join(builtPlugins, ".."))
  for (const name of ["bin", "net.d", "run"]) await mkdir(place.join(name))
  runtimes = await startRuntimes(place.join("run"), scripts)
  await writeFile(place.join("10-pods.conflist"), network)
  await mustRun([tool, "install", "--bin-dir", place.join("bin")])
}, 120_000)
afterAll(async () => {
  await runtimes[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

/** `cni install --config`, and what is said of the runtime. */
async function install(socket: string, ...flags: string[]) {
  const places = ["--bin-dir", place.join("bin"), "--conf-dir", place.join("net.d")]
  const asked = ["--config", place.join("10-pods.conflist"), "--runtime-socket", place.join("run", socket)]
  const { exitCode, stdout, stderr } = await runProgram([tool, "install", ...places, ...asked, ...flags], {
    timeoutMs: 100_000,
  })
  expect(stdout).toMatch(/10-pods\.conflist +(created|unchanged|would be created)/)
  expect(await readdir(place.join("net.d"))).not.toContain(".cni-wake")
  return { exitCode, said: stderr.replaceAll(place.path, "DIR") }
}

test("a dry run asks no runtime", async () => {
  expect(await install("hangs", "--dry-run")).toEqual({ exitCode: 0, said: "" })
}, 60_000)

test.each([
  ["crio-late", 0, "has a network; it does not tell which"],
  ["containerd-late", 0, "has loaded 10-pods.conflist"],
  ["containerd-older", 0, "has loaded 10-pods.conflist"],
  ["crio-never", 3, `has not loaded 10-pods.conflist: it says "${noNetwork}"`],
  [
    "containerd-other",
    3,
    'has not loaded 10-pods.conflist: it reads /etc/cni/net.d; it has "pods"; it says "cni config load failed"',
  ],
  ["refuses", 3, "does not say what it has loaded: not for you"],
  ["hangs", 3, "does not say what it has loaded: no answer within 5000 ms"],
])(
  "the runtime %s is told with exit code %d, and the configuration stays",
  async (socket, exitCode, said) => {
    expect(await install(socket)).toEqual({ exitCode, said: `The runtime at DIR/run/${socket} ${said}\n` })
    expect(await readFile(place.join("net.d/10-pods.conflist"), "utf8")).toBe(network)
  },
  120_000,
)

test("where no runtime listens the tool says so: a socket that was named is a fault", async () => {
  const said = "No runtime listens at DIR/run/absent: none was asked whether it has loaded 10-pods.conflist\n"
  expect(await install("absent")).toEqual({ exitCode: 3, said })
}, 60_000)

test("a runtime is woken by a directory that is there for a moment, also where an installer was killed there", async () => {
  await mkdir(place.join("net.d/.cni-wake"))
  const trace = place.join("trace")
  const places = [
    "--bin-dir",
    place.join("bin"),
    "--conf-dir",
    place.join("net.d"),
    "--config",
    place.join("10-pods.conflist"),
  ]
  const command = [tool, "install", ...places, "--runtime-socket", place.join("run/crio-never")]
  await runProgram(["strace", "-qq", "-o", trace, "-e", "trace=mkdir,mkdirat,rmdir,unlinkat", ...command], {
    timeoutMs: 100_000,
  })
  const calls = (await readFile(trace, "utf8")).split("\n").filter((line) => /\.cni-wake.* = 0$/.test(line))
  expect(calls.map((line) => line.replace(/\(.*\)/, "").replace(/ +/g, " "))).toEqual([
    expect.stringMatching(/^(rmdir|unlinkat) = 0$/), // what was left
    expect.stringMatching(/^mkdir(at)? = 0$/),
    expect.stringMatching(/^(rmdir|unlinkat) = 0$/),
  ])
  expect(await readdir(place.join("net.d"))).not.toContain(".cni-wake")
}, 120_000)
