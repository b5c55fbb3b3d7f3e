import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { JsonObject, JsonValue } from "../../types/mod.ts"
import type { Attachment, Network, Runtime } from "../network.ts"
import { parseNetworkList } from "../parse.ts"

export interface RecordedCall {
  readonly plugin: string
  readonly verb: string
  readonly id: string
  readonly netns: string
  readonly ifname: string
  readonly args: string
  readonly path: string
  readonly stdin: JsonObject
}

/** A fake plugin's behavior for a verb. By default it prints nothing and exits with 0. */
export interface Behaviour {
  readonly stdout?: string
  readonly stderr?: string
  readonly code?: number
  /** Shell commands that run first. */
  readonly script?: string
}

/** Returns a script for a behavior: it waits while the file exists, but at most until the lab is deleted. */
export function waitsWhileExists(file: string): string {
  return `while [ -e ${quote(file)} ]; do sleep 0.01; done`
}

/** A temporary directory with configurations, fake plugins that record their calls, and a result cache. */
export class Lab implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), "libcni-test-"))
  readonly confDir = join(this.root, "net.d")
  readonly cacheDir = join(this.root, "cache")
  readonly binDir = join(this.root, "bin")
  readonly results = join(this.cacheDir, "results")
  stderr = ""

  constructor() {
    for (const directory of [this.confDir, this.binDir]) mkdirSync(directory)
  }

  get runtime(): Runtime {
    return {
      path: [this.binDir],
      cacheDir: this.cacheDir,
      env: { PATH: process.env.PATH },
      stderr: (chunk) => {
        this.stderr += new TextDecoder().decode(chunk)
      },
    }
  }

  /** Installs a fake plugin. Verbs without a behavior succeed; ADD then prints an empty result. */
  plugin(name: string, behaviours: Readonly<Record<string, Behaviour>> = {}): void {
    const cases = Object.entries<Behaviour>({ ADD: { stdout: "{}" }, ...behaviours }).map(
      ([verb, { stdout = "", stderr = "", code = 0, script = ":" }]) =>
        `${verb}) ${script}\nprintf %s ${quote(stdout)}\nprintf %s ${quote(stderr)} >&2\nexit ${code} ;;`,
    )
    const record = `{"plugin":"${name}","verb":"%s","id":"%s","netns":"%s","ifname":"%s","args":"%s","path":"%s","stdin":%s}\\n`
    const values = `"$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_NETNS" "$CNI_IFNAME" "$CNI_ARGS" "$CNI_PATH" "$(cat)"`
    const file = join(this.binDir, name)
    writeFileSync(
      file,
      `#!/bin/sh\nprintf '${record}' ${values} >>${quote(this.#log)}\ncase "$CNI_COMMAND" in\n${cases.join("\n")}\nesac\n`,
    )
    chmodSync(file, 0o755)
  }

  /** The calls so far, oldest first. */
  get calls(): RecordedCall[] {
    if (!existsSync(this.#log)) return []
    const lines = readFileSync(this.#log, "utf8")
      .split("\n")
      .filter((line) => line !== "")
    return lines.map((line): RecordedCall => JSON.parse(line))
  }

  /** "VERB plugin" for each call so far. */
  get sequence(): string[] {
    return this.calls.map(({ verb, plugin }) => `${verb} ${plugin}`)
  }

  conf(file: string, content: JsonValue | string): string {
    const path = join(this.confDir, file)
    mkdirSync(join(path, ".."), { recursive: true })
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content))
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }

  get #log(): string {
    return join(this.root, "calls")
  }
}

export function networkOf(plugins: readonly JsonObject[], more: JsonObject = {}): Network {
  const list = { cniVersion: "1.1.0", name: "lab", plugins: [...plugins], ...more }
  return parseNetworkList(new TextEncoder().encode(JSON.stringify(list)))
}

/** Returns an attachment of container "c1". */
export function attachmentOf(more: Partial<Attachment> = {}): Attachment & { readonly capabilityArgs: JsonObject } {
  return {
    containerId: "c1",
    ifName: "eth0",
    netns: "/run/netns/c1",
    args: [],
    ...more,
    capabilityArgs: (more.capabilityArgs ?? {}) as JsonObject,
  }
}

export function resultOf(address: string, cniVersion = "1.1.0"): JsonObject {
  return { cniVersion, ips: [{ address, ...(/^0\.[34]/.test(cniVersion) ? { version: "4" } : {}) }] }
}

export async function failure(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error("expected a failure")
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
