import { expect, test } from "bun:test"
import { join } from "node:path"
import {
  builtPlugins,
  type ContainerNamespace,
  chooseIptables,
  HostNamespace,
  programEnv,
  TemporaryDirectory,
  waitFor,
} from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const tool = join(builtPlugins, "../cni")

const networks = {
  nftables: {},
  iptables: { ipMasqBackend: "iptables", backend: "iptables" },
}

/** Returns a network with addresses, links, masquerading and port mappings. */
function networkOf({ ipMasqBackend, backend }: { ipMasqBackend?: string; backend?: string }) {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]] }
  return {
    cniVersion: "1.1.0",
    name: "lab",
    plugins: [
      { type: "bridge", bridge: "br-lab", isDefaultGateway: true, ipMasq: true, ipMasqBackend, ipam },
      { type: "portmap", capabilities: { portMappings: true }, backend },
    ],
  }
}

/**
 * Returns the objects of a container on the host, by the container's ID: reservations, link aliases, and rules of both
 * packet filters.
 */
async function tracesOf(host: HostNamespace, { name }: ContainerNamespace): Promise<string[]> {
  const leases = await host.tryExec("grep", ["-rlw", name, "/var/lib/cni/networks/lab", "--exclude-dir=.index"])
  const said = [await host.exec("ip", ["-details", "link"]), await host.exec("nft", ["list", "ruleset"])]
  const lines = said.flatMap(({ stdout }) => stdout.split(/[\n,{}]/).map((line) => line.trim()))
  return [...leases.stdout.split("\n").filter((line) => line !== ""), ...lines.filter((line) => line.includes(name))]
}

/** Splits the rows of a table into cells. */
function rowsOf(text: string): string[][] {
  const [, ...lines] = text.trimEnd().split("\n")
  return lines.map((line) => line.split(/ {2,}/))
}

test.each(Object.entries(networks))(
  "%s: gc and gc --dry-run print every attachment, lease, link and rule that is deleted, the same ones, and those go",
  async (_, backends) => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    if ("backend" in backends) await chooseIptables(host, "nf_tables")
    await Bun.write(directory.join("lab.conflist"), JSON.stringify(networkOf(backends)))
    let port = 8080
    const cni = (args: string[], env: Record<string, string> = {}) =>
      host.exec(tool, [...args, "--conf-dir", directory.path, "--bin-dir", builtPlugins], {
        env: { ...programEnv, ...env },
      })
    const add = async (pod: ContainerNamespace) => {
      const portMappings = [{ hostPort: port++, containerPort: 80, protocol: "tcp" }]
      const env = { CAP_ARGS: JSON.stringify({ portMappings }) }
      await cni(["add", "lab", pod.path, "--container-id", pod.name], env)
    }
    const [alive, gone, forgotten] = [await host.addContainer(), await host.addContainer(), await host.addContainer()]
    for (const pod of [alive, gone, forgotten]) await add(pod)
    await host.exec("rm", [`/var/lib/cni/results/lab-${forgotten.name}-eth0`])
    const before = await tracesOf(host, alive)
    expect(before.length).toBeGreaterThan(2)
    await host.removeContainer(gone)
    const links = async () => (await host.exec("ip", ["-details", "link"])).stdout
    await waitFor(async () => !(await links()).includes(gone.name), "the kernel to delete the container's link")

    const dry = await cni(["gc", "lab", "--auto", "--dry-run"])
    expect(await tracesOf(host, forgotten)).not.toEqual([])
    const real = await cni(["gc", "lab", "--auto"])
    const rows = rowsOf(real.stdout)
    expect(rowsOf(dry.stdout.replaceAll("would delete", "delete"))).toEqual(rows)
    expect([dry.stderr, real.stderr]).toEqual(["", ""])

    const kinds = ({ name }: ContainerNamespace) => [
      ...new Set(
        rows.filter(([fate, , ...row]) => fate === "delete" && row.join().includes(name)).map(([, kind]) => kind),
      ),
    ]
    expect(kinds(forgotten)).toEqual(["lease", "link", "rule"])
    expect(kinds(gone)).toEqual(["attachment", "lease", "rule"])
    expect(kinds(alive)).toEqual([])
    for (const pod of [gone, forgotten]) expect(await tracesOf(host, pod)).toEqual([])
    expect(await tracesOf(host, alive)).toEqual(before)
    const again = await cni(["gc", "lab", "--auto"])
    expect(rowsOf(again.stdout)).toEqual([["keep", "attachment", `${alive.name}/eth0`, alive.path]])
  },
)

test("--auto deletes nothing of a network where containers have interfaces, and the cache knows none", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  await lab.host.exec("mv", ["/var/lib/cni/results", "/var/lib/cni/elsewhere"])
  const rules = async () => (await lab.host.exec("nft", ["list", "ruleset"])).stdout
  const before = await rules()
  for (const words of [
    ["gc", "pods", "--auto"],
    ["gc", "--auto"],
  ]) {
    const { exitCode, stderr } = await lab.cni(words)
    expect(exitCode).toBe(1)
    expect(stderr).toContain(
      `Cannot determine which attachments of network "pods" are in use: ${pod.name}/eth0 has an interface`,
    )
  }
  expect(await rules()).toBe(before)
  await lab.host.exec("mv", ["/var/lib/cni/elsewhere", "/var/lib/cni/results"])
  const { exitCode, stdout } = await lab.cni(["gc", "--auto"])
  expect({ exitCode, stdout }).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^pods:\n.*keep/s) })
  const other = { ...podsNetwork, name: "other", plugins: [{ ...podsNetwork.plugins[0], bridge: "cni1" }] }
  await lab.writeNetwork("20-other.conflist", other)
  const asJson = await lab.cni(["gc", "--auto", "--json"])
  expect({ ...asJson, stdout: JSON.parse(asJson.stdout) }).toMatchObject({
    exitCode: 0,
    stderr: "",
    stdout: [{ network: "pods", what: "keep", kind: "attachment", name: `${pod.name}/eth0`, of: pod.path }],
  })
  expect(await rules()).toBe(before)
})
