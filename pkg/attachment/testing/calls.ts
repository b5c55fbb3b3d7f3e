import { NamespaceFile } from "../../netns/mod.ts"
import type { Answered, Call } from "../../skel/mod.ts"
import { CniError, Code, type NetworkConfig, type Result } from "../../types/mod.ts"

export interface Chosen {
  readonly netns?: string
  readonly containerId?: string
  readonly ifName?: string
  readonly network?: Partial<NetworkConfig>
  /** The address from the IPAM plugin; 192.0.2.7/24 by default. */
  readonly leased?: Partial<Result>
  /** The calls that fail: "static DEL" of the IPAM plugin, "answer" to the runtime. */
  readonly refused?: string
}

/**
 * Returns a call for the verb of a plugin, without `pkg/skel`. `said` receives the call's effects on others, in order.
 */
export function callFor(said: string[], { network, leased, refused, ...place }: Chosen = {}): Call {
  const { netns = "", containerId = "c1", ifName = "eth0" } = place
  const say = (what: string) => {
    said.push(what)
    if (what === refused) throw new CniError(Code.TryAgainLater, `${what} is refused`)
  }
  const verb = (name: string) => (type: string) => say(`${type} ${name}`)
  const whole: NetworkConfig = { cniVersion: "1.1.0", name: "lab", type: "tester", ...network }
  return {
    verb: "ADD",
    netns,
    containerId,
    ifName,
    namespace: NamespaceFile.open(netns),
    args: "",
    path: "",
    network: whole,
    raw: JSON.parse(JSON.stringify(whole)),
    stdin: new Uint8Array(),
    delegate: {
      add(type) {
        say(`${type} ADD`)
        return { interfaces: [], ips: [{ address: "192.0.2.7/24" }], routes: [], dns: {}, ...leased }
      },
      check: verb("CHECK"),
      del: verb("DEL"),
      status: verb("STATUS"),
      gc: verb("GC"),
    },
    answer(result, undo) {
      say("answer")
      said.push(JSON.stringify(result))
      undo?.keep()
      return {} as Answered
    },
    log: (line) => void said.push(line),
  }
}
