import { expect, test } from "bun:test"
import { type ContainerNamespace, startDaemon, testWith, waitFor, writeSysctl } from "../lab/mod.ts"
import { type Finding, NodeLab } from "./node-lab.ts"

async function findings(lab: NodeLab): Promise<Finding[]> {
  const { findings, stderr } = await lab.doctor()
  expect(stderr).toBe("")
  return findings
}

const rulesOf = async (lab: NodeLab) => (await findings(lab)).map(({ rule }) => rule)
const path = "/var/lib/cni/results"

/** Brings up a pod's "lo" and writes containerd's record of it. The record's network has no configuration file. */
async function addLoopback(lab: NodeLab, pod: ContainerNamespace): Promise<void> {
  const { name, path: netns } = pod
  await pod.exec("ip", ["link", "set", "lo", "up"])
  const plugins = [{ type: "loopback" }]
  const config = Buffer.from(JSON.stringify({ cniVersion: "1.1.0", name: "cni-loopback", plugins })).toString("base64")
  const result = {
    cniVersion: "1.1.0",
    interfaces: [{ name: "lo", mac: "00:00:00:00:00:00", sandbox: netns }],
    ips: [
      { address: "127.0.0.1/8", interface: 0 },
      { address: "::1/128", interface: 0 },
    ],
  }
  const entry = {
    kind: "cniCacheV1",
    containerId: name,
    config,
    ifName: "lo",
    networkName: "cni-loopback",
    netns,
    result,
  }
  await lab.host.exec("tee", [`${path}/cni-loopback-${name}-lo`], { input: JSON.stringify(entry) })
}

test("containerd with two pods, each with an entry for lo: nothing is found", async () => {
  await using lab = await NodeLab.create()
  for (const name of ["a", "b"]) await addLoopback(lab, await lab.addPod(name))
  expect(await findings(lab)).toEqual([])
})

test("an entry for lo of a container that is gone is deleted by the command that doctor tells", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.host.addContainer()
  await lab.host.exec("mkdir", ["-p", "-m", "700", path])
  await addLoopback(lab, pod)
  await lab.host.removeContainer(pod)
  expect(await findings(lab)).toMatchObject([{ rule: "stale-cache", remedy: "cni doctor --fix" }])
  expect(await lab.paste("cni doctor --fix")).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await findings(lab)).toEqual([])
})

test.each([
  ["pods of Multus, whose delegates are", "multus"],
  ["machines of Firecracker, each of which is", "vm-7f3a"],
])("%s in a cache of its own: nothing is found, and gc keeps them", async (_, directory) => {
  await using lab = await NodeLab.create()
  const [alive, gone] = [await lab.addPod("a"), await lab.addPod("b")]
  const cache = `/var/lib/cni/${directory}`
  await lab.host.exec("sh", ["-ec", `mkdir -m 700 -p ${cache}; mv ${path} ${cache}/results`])
  expect(await findings(lab)).toEqual([])
  const kept = async () => JSON.parse((await lab.cni(["gc", "pods", "--auto", "--dry-run", "--json"])).stdout)
  expect(await kept()).toMatchObject([{ what: "keep" }, { what: "keep" }])
  await lab.losePod(gone)
  expect(await rulesOf(lab)).toContain("stale-cache")
  expect(await lab.cni(["gc", "pods", "--auto"])).toMatchObject({ exitCode: 0, stderr: "" })
  expect(await findings(lab)).toEqual([])
  const files = (await lab.host.exec("ls", [`${cache}/results`])).stdout.trim().split("\n")
  expect(files).toEqual([`pods-${alive.name}-eth0`])
})

test("nerdctl, whose hook leaves its listening sockets to a process of sleep: nothing is found", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  const script =
    "import os,socket; s=socket.create_server(('', 8001)); s.set_inheritable(True); os.execvp('sleep', ['sleep', 'infinity'])"
  await startDaemon(lab.host.commandLine(["python3", "-c", script]))
  const sockets = async () => (await lab.host.exec("ss", ["-Hltnp", "sport = 8001"])).stdout
  await waitFor(async () => (await sockets()).includes('"sleep"'), "sleep to hold the socket")
  expect(await findings(lab)).toEqual([])
})

testWith(
  ["br_netfilter"],
  "docker, whose policy drops, and a rule that accepts the bridge: nothing is found",
  async () => {
    await using lab = await NodeLab.create()
    await lab.addPod()
    await writeSysctl(lab.host, "net/bridge/bridge-nf-call-iptables", "1")
    const rules = (user: string) => `table ip filter
    delete table ip filter
    table ip filter {
      chain DOCKER-USER {
        ${user}
      }
      chain FORWARD {
        type filter hook forward priority 0; policy drop;
        jump DOCKER-USER
        oifname "docker0" accept
      }
    }`
    await lab.host.exec("nft", ["-f", "-"], { input: rules("") })
    const [found, ...more] = await findings(lab)
    expect({ rule: found?.rule, more }).toEqual({ rule: "forward-drop", more: [] })
    await lab.host.exec("nft", ["-f", "-"], { input: rules('iifname "cni0" accept\n oifname "cni0" accept') })
    expect(await findings(lab)).toEqual([])
  },
)

test("strict rp_filter of a bridge's ports, which the kernel does not ask: nothing is found", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  const links = await lab.host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  for (const { ifname } of links) {
    await writeSysctl(lab.host, `net/ipv4/conf/${ifname}/rp_filter`, "1")
    await writeSysctl(lab.host, `net/ipv4/conf/${ifname}/forwarding`, "0")
  }
  expect(links).toHaveLength(1)
  expect(await findings(lab)).toEqual([])
})

test("a state directory that others may write to is named with the command that mends it", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  await lab.host.exec("chmod", ["777", path])
  const [found] = await findings(lab)
  expect(found).toMatchObject({ rule: "state-exposed", severity: "error", what: expect.stringContaining(path) })
  await lab.host.exec("sh", ["-ec", found?.remedy ?? "false"])
  expect(await findings(lab)).toEqual([])
})

test("a directory without a configuration is an error; a command that does not exist has a near match", async () => {
  await using lab = await NodeLab.create()
  const empty = lab.directory.join("empty")
  await lab.host.exec("mkdir", [empty])
  const { stdout, exitCode } = await lab.cni(["doctor", "--json", "--conf-dir", empty])
  expect({ stdout, exitCode }).toEqual({ stdout: expect.stringContaining('"config-none"'), exitCode: 3 })
  const { stderr } = await lab.cni(["doctor", "pdos"])
  expect(stderr).toMatch(
    /^cni doctor: Cannot find network "pdos": no configuration and no attachment has the name, did you mean "pods"\?; there are "pods"\n$/,
  )
  const [one, two] = [await lab.cni(["docter"]), await lab.cni(["ipam", "lst"])]
  expect([one.exitCode, one.stderr]).toEqual([
    2,
    'cni: Cannot run "docter": no such command; did you mean "doctor"? "cni --help" lists the commands\n',
  ])
  expect(two.stderr).toContain('did you mean "ls"?')
})
