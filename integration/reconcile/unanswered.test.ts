/**
 * Tests flows that began while rules were missing. As long as its packets arrive, conntrack keeps such a flow
 * untranslated, even after the rules are restored.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Namespace, outside, programEnv, TemporaryDirectory, uplink } from "../lab/mod.ts"
import { RunningListener } from "./listener-lab.ts"
import { type Published, ReconcileLab } from "./reconcile-lab.ts"

/**
 * Sends a datagram every 20 ms from one port, or opens a TCP connection. Prints a line at the start and for the first
 * answer.
 */
const program = `
import socket, sys, time
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "tcp":
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((address, port))
    print("begun", flush=True)
    sock.setblocking(True)
    while True:
        try:
            if sock.getpeername(): break
        except OSError: time.sleep(0.02)
else:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", 4321))
    sock.settimeout(0.02)
    sent = 0
    while True:
        try:
            sock.sendto(b"flow", (address, port))
            sent += 1
            if sent == 3: print("begun", flush=True)
            sock.recv(100)
            break
        except OSError: pass
print("answered", flush=True)
`

let directory: TemporaryDirectory
beforeAll(async () => {
  directory = await TemporaryDirectory.create()
  await Bun.write(directory.join("flow.py"), program)
})
afterAll(() => directory[Symbol.asyncDispose]())

/** A flow that continues until an answer arrives. */
class Flow implements Disposable {
  readonly #program: Bun.Subprocess<"ignore", "pipe", "inherit">
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  #said = ""

  constructor(from: Namespace, kind: "udp" | "tcp", address: string, port: number) {
    const command = from.commandLine(["python3", directory.join("flow.py"), kind, address, String(port)])
    this.#program = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", "pipe", "inherit"] })
    this.#reader = this.#program.stdout.getReader() as ReadableStreamDefaultReader<Uint8Array>
  }

  async says(word: string): Promise<void> {
    while (!this.#said.includes(word)) {
      const { value, done } = await this.#reader.read()
      if (done) throw new Error(`the flow ended without "${word}"`)
      this.#said += new TextDecoder().decode(value)
    }
  }

  get isAnswered(): boolean {
    return this.#said.includes("answered")
  }

  [Symbol.dispose](): void {
    this.#program.kill("SIGKILL")
  }
}

/** Creates a pod whose port 80 is published for TCP and UDP, with outgoing and incoming flows. */
async function createLab() {
  const lab = await ReconcileLab.create()
  const [published] = (await lab.addPods(1, ["tcp", "udp"])) as [Published]
  // The kernel tracks flows only if a rule uses their state, as on nearly every host.
  const tracking = "table ip filter { chain forward { type filter hook forward priority 0; ct state invalid drop; }; }"
  await lab.host.exec("nft", [tracking])
  return { lab, published, [Symbol.asyncDispose]: () => lab[Symbol.asyncDispose]() }
}

const loseRules = (lab: ReconcileLab) =>
  lab.host.exec("nft", ["delete table ip cni_masquerade; delete table ip cni_hostports"])

function flowsOf({ outside: peer }: ReconcileLab, { pod, hostPort }: Published): Flow[] {
  return [
    new Flow(pod, "udp", outside.ip, 9000),
    new Flow(pod, "tcp", outside.ip, 9000),
    new Flow(peer, "udp", uplink.ip, hostPort),
  ]
}

test("flows that began while rules were gone are answered after cni reconcile", async () => {
  await using made = await createLab()
  const { lab, published } = made
  await loseRules(lab)
  const flows = flowsOf(lab, published)
  try {
    for (const flow of flows) await flow.says("begun")
    expect(flows.map(({ isAnswered }) => isAnswered)).toEqual([false, false, false])
    await lab.reconcile()
    for (const flow of flows) await flow.says("answered")
  } finally {
    for (const flow of flows) flow[Symbol.dispose]()
  }
})

test("the listener: flows that began while a table was gone are answered after it has made the table again", async () => {
  await using made = await createLab()
  const { lab, published } = made
  await using listener = await RunningListener.start(lab.node)
  // The listener is stopped while the flows begin, as if the machine were busy.
  process.kill(listener.pid, "SIGSTOP")
  await loseRules(lab)
  const flows = flowsOf(lab, published)
  try {
    for (const flow of flows) await flow.says("begun")
    expect(flows.map(({ isAnswered }) => isAnswered)).toEqual([false, false, false])
    process.kill(listener.pid, "SIGCONT")
    for (const flow of flows) await flow.says("answered")
  } finally {
    for (const flow of flows) flow[Symbol.dispose]()
  }
})
