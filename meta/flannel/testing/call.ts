import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { NamespaceFile } from "../../../pkg/netns/mod.ts"
import type { Answered, Call, Verb } from "../../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig, type Result } from "../../../pkg/types/mod.ts"
import type { Undo } from "../../../pkg/undo/mod.ts"
import { parseFlannelConfig } from "../config.ts"
import { flannel } from "../main.ts"

export const delegateResult: Result = { interfaces: [{ name: "br0" }], ips: [], routes: [], dns: {} }

/** A node with flanneld's file and stored configurations. The calls concern container "c1" and interface "eth0". */
export class FlannelNode implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "flannel-"))
  /** The calls of delegates: verb and plugin, such as "DEL bridge", with the configuration. */
  readonly called: [string, JsonObject][] = []
  readonly log: string[] = []
  /** The errors that a delegate throws, by verb. */
  readonly refusals = new Map<string, Error>()
  refusesAnswer = false

  constructor(subnet = "10.244.1.1/24") {
    chmodSync(this.#directory, 0o700)
    this.moveTo(subnet)
  }

  moveTo(subnet: string): void {
    const lines = [
      "FLANNEL_NETWORK=10.244.0.0/16",
      `FLANNEL_SUBNET=${subnet}`,
      "FLANNEL_MTU=1450",
      "FLANNEL_IPMASQ=true",
    ]
    writeFileSync(this.subnetFile, `${lines.join("\n")}\n`)
  }

  get subnetFile(): string {
    return join(this.#directory, "subnet.env")
  }

  get dataDir(): string {
    return join(this.#directory, "kept")
  }

  /** The stored configurations by file name. */
  get kept(): Record<string, string> {
    const entries = readdirSync(this.#directory).includes("kept") ? readdirSync(this.dataDir).sort() : []
    return Object.fromEntries(entries.map((name) => [name, readFileSync(join(this.dataDir, name), "utf8")]))
  }

  /** Stores a file like an earlier call, or like the reference plugin. */
  keep(name: string, config: object | string): void {
    writeFileSync(join(this.dataDir, name), typeof config === "string" ? config : JSON.stringify(config))
  }

  /** Calls flannel. `keys` are added to the configuration. `call` replaces the runtime's inputs. */
  run(
    verb: Verb,
    keys: JsonObject = {},
    { attachments = [], ...call }: Partial<Call> & { attachments?: Parameters<typeof flannel.gc>[2] } = {},
  ): void {
    const { subnetFile, dataDir } = this
    const raw: JsonObject = { cniVersion: "1.1.0", name: "podnet", type: "flannel", subnetFile, dataDir, ...keys }
    const network = parseNetworkConfig(raw)
    const delegate =
      (command: string) =>
      (type: string, stdin: Uint8Array = new Uint8Array()) => {
        this.called.push([`${command} ${type}`, JSON.parse(new TextDecoder().decode(stdin))])
        const refusal = this.refusals.get(command)
        if (refusal) throw refusal
        return delegateResult
      }
    const whole = {
      verb,
      containerId: "c1",
      ifName: "eth0",
      netns: "/run/netns/c1",
      args: "",
      path: "",
      raw,
      network,
      namespace: undefined as unknown as NamespaceFile,
      stdin: new Uint8Array(),
      delegate: {
        add: delegate("ADD"),
        check: delegate("CHECK"),
        del: delegate("DEL"),
        status: delegate("STATUS"),
        gc: delegate("GC"),
      },
      log: (line: string) => void this.log.push(line),
      answer: (_: Result, undo?: Undo) => {
        if (this.refusesAnswer) throw new Error("no reader")
        undo?.keep()
        return {} as Answered
      },
      ...call,
    }
    const config = parseFlannelConfig(network, { args: "", verb, raw })
    if (verb === "ADD") flannel.add(whole, config)
    else if (verb === "CHECK") flannel.check(whole, config)
    else if (verb === "DEL") flannel.del(whole, config)
    else if (verb === "STATUS") flannel.status(whole, config)
    else flannel.gc(whole, config, attachments)
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }
}
