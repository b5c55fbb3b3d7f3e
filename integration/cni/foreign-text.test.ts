import { expect, test } from "bun:test"
import { startDaemon, waitFor } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

/**
 * A name that tries to deceive a reader of the output. The name starts a line that looks like one of the tool's, adds
 * color, reverses the direction, and contains a character that XML does not allow.
 */
const FORGED = "x\nERROR forged\u2028\u202e\x1b[31m\u200f\ufffe"
/** A pattern of characters that the output of a tool must not contain, except for its own newlines. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]|^\s*ERROR forged/m

const commands = [
  ["doctor", "--all"],
  ["ps"],
  ["ps", "-o", "wide"],
  ["graph", "-o", "text"],
  ["graph", "-o", "wide"],
  ["graph", "-o", "svg"],
  ["lint"],
  ["status"],
  ["ipam", "ls"],
]

test("no name and no file forges a line, a color or a direction in the output of a tool [S306]", async () => {
  await using lab = await NodeLab.create()
  const [pod, other] = [await lab.addPod("a"), await lab.addPod("b")]
  const path = `/var/lib/cni/results/pods-${pod.name}-eth0`
  const entry = JSON.parse((await lab.host.exec("cat", [path])).stdout)
  const cniArgs = [
    ["K8S_POD_NAMESPACE", FORGED],
    ["K8S_POD_NAME", FORGED],
  ]
  await lab.host.exec("tee", [path], { input: JSON.stringify({ ...entry, cniArgs }) })
  const rename = (name: string) => `ip link set eth0 down; ip link set eth0 name "$(printf '${name}')"`
  await other.exec("sh", ["-ec", rename("e\\342\\200\\256th\\033[2J")])
  await lab.host.exec("sh", ["-ec", `ip link add "$(printf 'u\\342\\200\\256p\\033[2J')" type bridge`])
  await lab.host.exec("sh", ["-ec", `ip address add 192.0.2.1/24 dev "$(printf 'u\\342\\200\\256p\\033[2J')"`])
  await lab.writeNetwork("20-type.conflist", { cniVersion: "1.1.0", name: "type", plugins: [{ type: FORGED }] })
  const bridge = { ...podsNetwork.plugins[0], bridge: FORGED, [FORGED]: 1, ipam: { type: FORGED } }
  await lab.writeNetwork("30-bridge.conflist", { cniVersion: "1.1.0", name: "bridge", plugins: [bridge] })
  await lab.writeNetwork("40-broken.conflist", `{ "a": "${FORGED}" }`)
  const script =
    "import socket,time; open('/proc/self/comm','w').write('x\\nERROR forged'); s=socket.create_server(('',8001)); time.sleep(999)"
  await startDaemon(lab.host.commandLine(["python3", "-c", script]))
  await waitFor(async () => (await lab.host.exec("ss", ["-Hltn", "sport = 8001"])).stdout !== "", "a process to listen")
  for (const words of commands) {
    const { stdout, stderr } = await lab.cni(words)
    expect({ words, found: HIDDEN.exec(`${stdout}\n${stderr}`)?.[0] }).toEqual({ words, found: undefined })
  }
  expect((await lab.cni(["ps"])).stdout).toContain("x\\u000aERROR forged")
})

test("a process that names itself after a runtime takes a published port, and is reported [S307]", async () => {
  await using lab = await NodeLab.create()
  await lab.addPod()
  const script =
    "import socket,time; open('/proc/self/comm','w').write('conmon'); s=socket.create_server(('',8001)); time.sleep(999)"
  await startDaemon(lab.host.commandLine(["python3", "-c", script]))
  await waitFor(async () => (await lab.host.exec("ss", ["-Hltn", "sport = 8001"])).stdout !== "", "a process to listen")
  const { findings } = await lab.doctor()
  expect(findings).toMatchObject([{ rule: "port-taken", what: expect.stringContaining("conmon (process ") }])
})
