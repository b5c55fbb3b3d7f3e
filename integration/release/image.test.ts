import { afterAll, beforeAll, expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { version } from "../../package.json"
import { pluginNames } from "../../suite/plugins.ts"
import { Containerd } from "../interop/containerd.ts"
import { Podman } from "../interop/podman.ts"
import { mustRun, TemporaryDirectory, waitFor } from "../lab/mod.ts"
import { type Made, madeFiles } from "./sample.ts"

let directory: TemporaryDirectory
let release: Made
let image: string
const name = `cni-plugins:${version}`

beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-image")
  release = await madeFiles("release")
  image = `${release.path}/cni-plugins-image-${version}.tar`
})
afterAll(async () => {
  await directory[Symbol.asyncDispose]()
  await release[Symbol.asyncDispose]()
})

const skopeo = async (...words: string[]) => (await mustRun(["skopeo", ...words])).stdout

test("skopeo finds an image for each machine in one index, and every blob as it is summed", async () => {
  const index = JSON.parse(await skopeo("inspect", "--raw", `oci-archive:${image}:${name}`))
  expect(index.mediaType).toBe("application/vnd.oci.image.index.v1+json")
  const platforms = index.manifests.map(({ platform }: { platform: object }) => platform)
  expect(platforms).toEqual([
    { architecture: "amd64", os: "linux" },
    { architecture: "arm64", os: "linux", variant: "v8" },
  ])
  await skopeo("copy", "--all", `oci-archive:${image}:${name}`, `oci:${directory.join("copy")}:${name}`)
  for (const architecture of ["amd64", "arm64"]) {
    const machine = ["--override-arch", architecture]
    const config = JSON.parse(await skopeo("inspect", ...machine, "--config", `oci:${directory.join("copy")}:${name}`))
    expect(config).toMatchObject({ architecture, os: "linux", config: { User: "0:0" } })
  }
})

test("an image has the plugins, the tool, the agent and the licenses, of root, and no shell", async () => {
  const { Layers } = JSON.parse(await skopeo("inspect", `oci-archive:${image}:${name}`))
  await mustRun(["tar", "--extract", "--file", image, "--directory", directory.path])
  expect(Layers.length).toBe(1)
  const layer = join(directory.path, "blobs", Layers[0].replace(":", "/"))
  const { stdout } = await mustRun(["tar", "--list", "--verbose", "--numeric-owner", "--gzip", "--file", layer])
  const entries = stdout
    .trim()
    .split("\n")
    .map((line) => line.split(/ +/))
  expect(entries.map((words) => [words[0], words[1], words.at(-1)])).toEqual([
    ["-rw-r--r--", "0/0", "LICENSE"],
    ["-rw-r--r--", "0/0", "NOTICE"],
    ["-rw-r--r--", "0/0", "NOTICE.cni-agent"],
    ["drwxr-xr-x", "0/0", "lib/"],
    ...["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"].map((name) => ["-rwxr-xr-x", "0/0", `lib/${name}`]),
    ["drwxr-xr-x", "0/0", "lib64/"],
    ["-rwxr-xr-x", "0/0", "lib64/ld-linux-x86-64.so.2"],
    ["drwxr-xr-x", "0/0", "opt/"],
    ["drwxr-xr-x", "0/0", "opt/cni/"],
    ["drwxr-xr-x", "0/0", "opt/cni/bin/"],
    ...[...pluginNames, "cni"].sort().map((name) => ["-rwxr-xr-x", "0/0", `opt/cni/bin/${name}`]),
    ["drwxr-xr-x", "0/0", "usr/"],
    ["drwxr-xr-x", "0/0", "usr/local/"],
    ["drwxr-xr-x", "0/0", "usr/local/bin/"],
    ["-rwxr-xr-x", "0/0", "usr/local/bin/cni-agent"],
  ])
})

test("podman runs the image, with a root that is read-only: it installs the plugins into a directory of the host, and its agent starts", async () => {
  await using podman = await Podman.create()
  await using bin = await TemporaryDirectory.create("cni-image-bin")
  await podman.run("pull", "--quiet", `oci-archive:${image}`)
  const run = ["run", "--rm", "--read-only", "--network", "none", "--volume", `${bin.path}:/host/bin`]
  await podman.run(...run, `localhost/${name}`, "install", "--bin-dir", "/host/bin")
  const agent = ["--entrypoint", "/usr/local/bin/cni-agent", `localhost/${name}`, "version"]
  expect(await podman.run("run", "--rm", "--read-only", "--network", "none", ...agent)).toBe(`cni-agent ${version}`)
  const installed = (await readdir(bin.path)).filter((file) => !file.startsWith("."))
  expect(installed.sort()).toEqual([...pluginNames])
  const { stdout } = await mustRun([bin.join("bridge")], { env: { CNI_COMMAND: "VERSION" } })
  expect(JSON.parse(stdout)).toMatchObject({ cniVersion: "1.1.0" })
})

test("containerd imports the image by its name, and runs a plugin of it", async () => {
  await using containerd = await Containerd.create()
  await containerd.ctr("images", "import", "--snapshotter", "native", image)
  const run = [
    "run",
    "--rm",
    "--snapshotter",
    "native",
    "--env",
    "CNI_COMMAND=VERSION",
    "--read-only",
    "--cpu-shares",
    "0",
  ]
  // ctr loses the output of a program that ends before it has opened the pipe.
  const ask = async (): Promise<string | false> => {
    const { stdout } = await containerd.ctr(...run, `localhost/${name}`, "once", "/opt/cni/bin/bridge")
    return stdout !== "" && stdout
  }
  const answer = await waitFor(ask, "ctr to print the plugin's answer")
  expect(JSON.parse(answer)).toMatchObject({ cniVersion: "1.1.0" })
})
