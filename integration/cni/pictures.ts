/**
 * Creates the pictures in docs/pictures: runs commands on a node that consists of namespaces. `npm run pictures`; needs
 * root.
 */
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, programEnv, startDaemon, waitFor } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"
import { terminalPicture } from "./terminal-picture.ts"

const docs = join(import.meta.dir, "../../docs")
const tool = join(builtPlugins, "../cni")
const COLUMNS = 132

/** Runs a command on a terminal and returns its output. */
async function typed(lab: NodeLab, args: string): Promise<string> {
  const env = { ...programEnv, LC_ALL: "C.UTF-8", TERM: "xterm", NETCONFPATH: lab.confDir, CNI_PATH: builtPlugins }
  const line = `stty cols ${COLUMNS} -onlcr; ${tool} ${args}`
  const { stdout } = await lab.host.tryExec("script", ["-qec", line, "/dev/null"], { env })
  return asOnNode(stdout.replaceAll("\r", ""), lab)
}

/** Replaces paths and names of the lab by those of a usual node. */
function asOnNode(text: string, { confDir }: NodeLab): string {
  const places = text.replaceAll(confDir, "/etc/cni/net.d").replaceAll(builtPlugins, "/opt/cni/bin")
  const namespaces = [...new Set(places.match(/\bcnit-[\w-]+/g))]
  return namespaces.reduce((text, name, at) => text.replaceAll(name, `cni-${at + 1}`), places)
}

const vlan = {
  cniVersion: "1.1.0",
  name: "lan",
  plugins: [
    {
      type: "macvlan",
      master: "eth0",
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "192.0.2.0/24", rangeStart: "192.0.2.64", rangeEnd: "192.0.2.96" }]],
      },
    },
  ],
}

/** Adds some pods, an uplink and a second network to the node, and starts the recorder. */
async function furnish(lab: NodeLab): Promise<void> {
  const { host } = lab
  await lab.writeNetwork("20-lan.conflist", vlan)
  const beyond = await host.addContainer("beyond")
  await host.exec("ip", ["link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", beyond.name])
  await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "eth0"])
  await host.exec("ip", ["link", "set", "eth0", "up"])
  await beyond.exec("ip", ["address", "add", "192.0.2.1/24", "dev", "eth0"])
  await beyond.exec("ip", ["link", "set", "eth0", "up"])
  await host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
  await lab.cni(["recorder", "on"])
  const web = await lab.addPod("web-7d9f", "pods", "4e5f6a7b8c9d")
  await lab.addPod("shop-0", "pods", "91c0d2e3f4a5")
  await lab.addPod("db-0", "pods", "b6a7988f7e6d")
  await lab.losePod(await lab.addPod("job-31", "pods", "0c1b2a394857"))
  await lab.addPod("camera", "lan", "d4c3b2a19080")
  await startDaemon(web.commandLine(["busybox", "nc", "-ll", "-p", "80", "-e", "true"]))
  await waitFor(async () => (await web.exec("ss", ["-Hltn", "sport = :80"])).stdout !== "", "a process that listens")
  await web.exec("ping", ["-c", "20", "-i", "0.002", "-s", "1200", "192.0.2.1"])
}

if (import.meta.main) {
  await using lab = await NodeLab.create()
  await furnish(lab)
  await mkdir(join(docs, "pictures"), { recursive: true })
  await lab.cni(["graph", "--write", join(docs, "pictures/graph.svg")])
  await Bun.write(join(docs, "pictures/ps.svg"), terminalPicture("cni ps", await typed(lab, "ps")))
  const graph = join(docs, "pictures/graph.svg")
  await Bun.write(graph, asOnNode(await Bun.file(graph).text(), lab))
}
