import { runtimeSockets, wakeWatchers } from "../../install/mod.ts"
import { monotonicMs } from "../../pkg/engine/mod.ts"
import { basename, readDirectory, readTextFile } from "../../pkg/libc/mod.ts"
import { sleep } from "../../pkg/loop/mod.ts"
import { isCniError, isJsonObject, type JsonValue, parseJson, stringifyJson } from "../../pkg/types/mod.ts"
import { askStatus, type LoadedNetworks, type RuntimeStatus } from "../../tools/cri/status.ts"
import type { Terminal } from "../../tools/environment.ts"

/** As long as a runtime may take for one answer, and for its look at the directory after all that makes it look. */
const ANSWER_MS = 5000
const LOAD_MS = 10_000
/** How long a runtime is left to itself before it is woken, and between two questions. */
const FIRST_MS = 300
const PAUSE_MS = 100

/** A configuration that was installed, and who is to use it. */
export interface Installed {
  readonly confDir: string
  /** The file's name. */
  readonly name: string
  /** The socket of the runtime; undefined for those of the runtimes that are known. */
  readonly socket: string | undefined
}

/**
 * Asks each runtime that listens whether it has loaded a configuration, and makes it look again when it has not. Says what each of them
 * answers. Returns false when one of them has not loaded it, or does not say.
 */
export async function askWhetherLoaded(installed: Installed, terminal: Terminal): Promise<boolean> {
  const { socket, name } = installed
  const sockets = socket === undefined ? runtimeSockets() : [socket]
  const answers: boolean[] = []
  for (const each of sockets) {
    const { said, isLoaded } = await askOne(each, installed).catch(unanswered)
    if (said === undefined) continue
    terminal.stderr(`The runtime at ${each} ${said}\n`)
    answers.push(isLoaded)
  }
  if (answers.length === 0) {
    wakeWatchers(installed.confDir) // of a runtime whose socket this container does not have
    terminal.stderr(`No runtime listens at ${sockets.join(", ")}: none was asked whether it has loaded ${name}\n`)
  }
  return !answers.includes(false) && (answers.length > 0 || socket === undefined)
}

interface Answer {
  /** Undefined where nothing listens. */
  readonly said: string | undefined
  readonly isLoaded: boolean
}

const unanswered = (error: unknown): Answer => ({
  said: `does not say what it has loaded: ${error instanceof Error ? error.message : String(error)}`,
  isLoaded: false,
})

async function askOne(socket: string, { confDir, name }: Installed): Promise<Answer> {
  const file = `${confDir}/${name}`
  const start = monotonicMs()
  for (let isWoken = false; ; ) {
    const status = await askStatus(socket, ANSWER_MS)
    if (!status) return { said: undefined, isLoaded: false }
    const isLoaded = status.loaded ? hasText(status.loaded, readTextFile(file)) : status.network?.isReady === true
    if (isLoaded && status.loaded) return { said: `has loaded ${name}`, isLoaded }
    if (isLoaded) return { said: `has a network; it does not tell which`, isLoaded }
    const passedMs = monotonicMs() - start
    if (passedMs > LOAD_MS) return { said: `has not loaded ${name}: ${reasonOf(status, confDir, name)}`, isLoaded }
    if (!isWoken && passedMs > FIRST_MS) {
      // containerd 1.6 passes over a file that is renamed into its directory, and one that is touched; what is removed there wakes it.
      wakeWatchers(confDir)
      isWoken = true
    }
    await sleep(PAUSE_MS)
  }
}

/** Whether one of the networks was read of this text. What a runtime makes of a single plugin's file it writes in its own way. */
function hasText({ networks }: LoadedNetworks, text: string): boolean {
  const wanted = canonical(text)
  return networks.some(({ sources }) => sources.some((source) => source === text || canonical(source) === wanted))
}

function canonical(text: string): string {
  try {
    return stringifyJson(sorted(parseJson(text)))
  } catch (error) {
    if (isCniError(error)) return text
    throw error
  }
}

/** A value with its keys in the order of the alphabet, as Go writes a map. */
function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key] ?? null)]),
  )
}

/** What a runtime has instead, and why, as far as it can be seen from here. */
function reasonOf({ loaded, network }: RuntimeStatus, confDir: string, name: string): string {
  const first = readDirectory(confDir)
    .filter((one) => /\.(conf|conflist|json)$/.test(one))
    .sort()[0]
  const reasons = [
    ...(first !== undefined && first !== name ? [`${basename(first)} is the first file of ${confDir}`] : []),
    ...(loaded && loaded.confDir !== "" && loaded.confDir !== confDir ? [`it reads ${loaded.confDir}`] : []),
    ...(loaded ? [`it has ${loaded.networks.map((one) => `"${one.name}"`).join(", ") || "no network"}`] : []),
    ...(loaded?.lastLoad !== undefined && loaded.lastLoad !== "OK" ? [`it says "${loaded.lastLoad}"`] : []),
    ...(network?.isReady === false && network.reason !== "" ? [`it says "${network.reason}"`] : []),
  ]
  return reasons.join("; ") || "it does not say why"
}
