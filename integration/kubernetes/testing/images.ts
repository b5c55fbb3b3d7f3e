import { chmod, copyFile, cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { targets } from "../../../scripts/engine.ts"
import { kubernetesProgram } from "../../../scripts/go-programs.ts"
import { agentFiles } from "../../../scripts/release/agent.ts"
import { makeImage } from "../../../scripts/release/image.ts"
import { stageFiles } from "../../../scripts/release/stage.ts"
import { mustRun } from "../../lab/mod.ts"
import { laterVersion, markedWith } from "../../release/sample.ts"

/**
 * The published names of images that the tests' pods request. A runtime that has such an image does not ask a registry.
 */
export const pauseImage = "registry.k8s.io/pause:3.10.1"
export const dnsImage = "registry.k8s.io/coredns/coredns:v1.12.4"
const testImages = ["agnhost:2.56", "jessie-dnsutils:1.7", "busybox:1.37.0-1"].map(
  (name) => `registry.k8s.io/e2e-test-images/${name}`,
)
export const [testImage = ""] = testImages

/** Programs of this machine that tests call in the image, by their names there. */
const programs = {
  bash: "/bin/bash",
  // As `sh`, Debian's static busybox would prefer its own applets to programs with the same names.
  sh: "/bin/dash",
  curl: "/usr/bin/curl",
  dig: "/usr/bin/dig",
  nslookup: "/usr/bin/nslookup",
  host: "/usr/bin/host",
  nc: "/bin/nc.openbsd",
  getent: "/usr/bin/getent",
  ip: "/bin/ip",
  ss: "/bin/ss",
}

/**
 * Creates the images of a cluster in a directory, for `ctr images import`, and returns their paths. If `isWithLater` is
 * true, adds an image with another build of the plugins.
 */
export async function makeImages(directory: string, isWithLater: boolean): Promise<string[]> {
  const target = process.arch === "x64" ? targets.amd64 : targets.arm64
  const [files, agents] = [await stageFiles(target), new Map([[target, await agentFiles(target)]])]
  await makeImage(new Map([[target, files]]), { directory, age: 1 }, agents)
  const later = files.map((file) => markedWith(laterVersion, file))
  if (isWithLater) await makeImage(new Map([[target, later]]), { directory, age: 1, version: laterVersion }, agents)
  const plugins = [...new Bun.Glob("cni-plugins-image-*.tar").scanSync({ cwd: directory, absolute: true })]

  const coredns = join(directory, "coredns")
  await mkdir(coredns)
  await copyFile(await kubernetesProgram("coredns"), join(coredns, "coredns"))
  const dns = await pack(coredns, [dnsImage], { Entrypoint: ["/coredns"] })

  const tests = join(directory, "tests")
  await makeTestRoot(tests)
  await copyFile(join(coredns, "coredns"), join(tests, "coredns"))
  const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
  return [
    ...plugins,
    dns,
    await pack(tests, [pauseImage, ...testImages], { Entrypoint: ["/agnhost"], Cmd: ["pause"], Env: [path] }),
  ]
}

/** Creates the root file system of one image that replaces all images of the tests, and the pause image. */
async function makeTestRoot(root: string): Promise<void> {
  for (const name of ["bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "uploads", "usr/bin"])
    await mkdir(join(root, name), { recursive: true })
  for (const name of ["tmp", "uploads"]) await chmod(join(root, name), 0o1777)
  await copyFile(await kubernetesProgram("agnhost"), join(root, "agnhost"))
  await symlink("agnhost", join(root, "agnhost-2"))
  const libraries = new Set<string>()
  for (const [name, path] of Object.entries(programs)) {
    await cp(path, join(root, "usr/bin", name), { dereference: true })
    const { stdout } = await mustRun(["ldd", path])
    for (const [library] of stdout.matchAll(/\/\S+/g)) libraries.add(library)
  }
  for (const library of libraries) {
    await mkdir(dirname(join(root, library)), { recursive: true })
    await cp(library, join(root, library), { dereference: true })
  }
  await copyFile("/bin/busybox", join(root, "bin/busybox"))
  const { stdout: applets } = await mustRun(["/bin/busybox", "--list"])
  for (const name of applets.match(/\S+/g) ?? [])
    if (name !== "busybox") await symlink(name in programs ? `/usr/bin/${name}` : "busybox", join(root, "bin", name))
  await symlink("/usr/bin/bash", join(root, "bin/bash")).catch(() => undefined)
  await writeFile(join(root, "etc/nsswitch.conf"), "hosts: files dns\n")
  await writeFile(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
  await writeFile(join(root, "etc/group"), "root:x:0:\nnogroup:x:65534:\n")
  // The certificate of agnhost's TLS server. No client verifies it.
  const key = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
  const files = ["-keyout", join(root, "localhost.key"), "-out", join(root, "localhost.crt")]
  await mustRun(["openssl", "req", "-x509", ...key, ...files])
}

/** Packs a directory as an image with several names, as `docker save` does. Returns the archive's path. */
async function pack(root: string, names: readonly string[], config: object): Promise<string> {
  const parts = `${root}.image`
  await mkdir(parts)
  const layer = join(parts, "layer.tar")
  await mustRun(["tar", "-C", root, "--owner=0", "--group=0", "-cf", layer, "."])
  const digest = new Bun.CryptoHasher("sha256").update(await Bun.file(layer).bytes()).digest("hex")
  const architecture = process.arch === "x64" ? "amd64" : process.arch
  const described = { architecture, os: "linux", config, rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] } }
  await writeFile(join(parts, "config.json"), JSON.stringify(described))
  const manifest = [{ Config: "config.json", RepoTags: names, Layers: ["layer.tar"] }]
  await writeFile(join(parts, "manifest.json"), JSON.stringify(manifest))
  await mustRun(["tar", "-C", parts, "-cf", `${root}.tar`, "manifest.json", "config.json", "layer.tar"])
  return `${root}.tar`
}
