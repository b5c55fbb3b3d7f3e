import {
  findVersion,
  InstallerRun,
  install,
  type Outcome,
  rollback,
  uninstall,
  verify,
  wakeWatchers,
} from "../../install/mod.ts"
import { monotonicMs } from "../../pkg/engine/mod.ts"
import { exists, join, readDirectory, resolve } from "../../pkg/libc/mod.ts"
import { statusNetwork } from "../../pkg/libcni/mod.ts"
import { sleep } from "../../pkg/loop/mod.ts"
import { pluginNames } from "../../suite/plugins.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  outputFlags,
  print,
  readSeconds,
  runtimeFlags,
  runtimeOf,
  text,
  UsageError,
} from "../../tools/command.ts"
import { defaults, type Terminal } from "../../tools/environment.ts"
import { attachmentsOf, DEFAULT_DATA_DIR, type NodePlaces, readNode } from "../../tools/node/mod.ts"
import { fittedTable } from "../../tools/screen.ts"
import { type InstallPlace, type InstallPlaces, installPlaces } from "./install-places.ts"

const ways = ["verify", "rollback", "uninstall"] as const

export const installCommand: Command = {
  summary: "Install the plugins into a directory, verify them, roll back or uninstall",
  words: [],
  flags: {
    "bin-dir": { type: "string", value: "DIR", help: "directory for the plugins; must exist (default: the runtime's)" },
    "tool-dir": {
      type: "string",
      value: "DIR",
      help: "also install cni, cnitool and cni-agent into this directory",
    },
    config: {
      type: "string",
      value: "FILE",
      help: "a network configuration; installed last, after STATUS of its plugins succeeds",
    },
    "skip-status": {
      type: "boolean",
      help: "with --config: install it without running STATUS of its plugins",
    },
    "conf-dir": {
      type: "string",
      value: "DIR",
      help: "directory for the configuration (default: the runtime's)",
    },
    "cache-dir": runtimeFlags["cache-dir"],
    adopt: { type: "boolean", help: "also replace files that other programs installed, and keep copies" },
    verify: {
      type: "boolean",
      help: "list files that were replaced, removed or changed since the installation; exit code 3 if any were",
    },
    rollback: {
      type: "boolean",
      help: "undo the last installation, in all directories that it changed",
    },
    uninstall: {
      type: "boolean",
      help: "remove everything once no container is attached, and restore the files that --adopt replaced",
    },
    wait: {
      type: "string",
      value: "SECONDS",
      help: "with --uninstall: how long to wait for the DEL of the last container",
    },
    "dry-run": { type: "boolean", help: "only print the steps" },
    ...outputFlags,
  },
  help: `Installs ${pluginNames.join(", ")}, from the directory of this tool.
Each plugin is a separate file, not a link. A file with the same name that another program installed is replaced only with
--adopt, which keeps a copy. Other files, running containers and running plugins are not changed. A second installation
of the same files changes nothing. The next installation finishes an interrupted one; --rollback undoes it.

Without --bin-dir, the directory comes from the configuration of containerd, CRI-O, k3s or RKE2; without one, it is the first of
/opt/cni/bin, /usr/lib/cni and /usr/libexec/cni that exists. --uninstall removes the configuration at once, and the plugins when no
container is attached. If containers are attached, it lists them, and ends with exit code 3; with --wait it waits for the last DEL.

After --config, runtimes read the directory again: nothing needs a restart. "crictl info" shows the networks that the runtime has loaded.

Examples:
  cni install --dry-run
  cni install --bin-dir /usr/lib/cni
  cni install --tool-dir /usr/local/bin
  cni install --config 10-pods.conflist
  cni install --verify
  cni install --rollback`,
  async run(args, terminal) {
    const [way, ...more] = ways.filter((flag) => given(args, flag))
    if (more.length > 0) throw new UsageError(`cannot use --${way} with --${more[0]}: give one of them`)
    waitOf(args)
    const found = installPlaces(args)
    const { binDir, origin, places } = found
    if (origin !== undefined) terminal.stderr(`Directory of plugins: ${binDir}, ${origin}\n`)
    if (way === "verify") return tellDifferences(args, terminal, places)
    terminal.signal.throwIfAborted() // from here on, SIGTERM waits until the change is complete
    if (way === "uninstall") return await leave(args, terminal, found)
    if (way === "rollback") {
      const back = takeBack(args, places)
      tell(args, terminal, back)
      const isChanged = ({ outcomes }: Done) => outcomes.some(({ did }) => did === "restored")
      return wakeRuntimes(args, terminal, back.filter(isChanged))
    }
    const named = places.filter(({ title }) => title !== "CONFIGURATION" || found.config)
    const run = new InstallerRun(named.map(({ directory }) => directory))
    // Reports the error of one directory before another is changed.
    for (const place of named.slice(1)) install({ ...place.installation(), dryRun: true })
    const done: Done[] = []
    for (const place of named) {
      // STATUS reports plugins that cannot run on this kernel, before the runtime reads the network.
      if (place.title === "CONFIGURATION" && found.config && !place.dryRun && !given(args, "skip-status"))
        await statusNetwork({ ...runtimeOf(args, terminal), path: [binDir] }, found.config.network)
      done.push({ ...place, outcomes: install({ ...place.installation(), run }) })
    }
    tell(args, terminal, done)
    wakeRuntimes(args, terminal, done)
  },
}

/** Undoes the last installation, including directories that the arguments do not name. */
function takeBack(args: Arguments, places: readonly InstallPlace[]): Done[] {
  const manner = { adopt: given(args, "adopt"), dryRun: given(args, "dry-run") }
  const directories = places.map(({ directory }) => directory)
  return rollback(directories, manner).map(({ directory, outcomes }) => {
    const title = places.find((place) => place.directory === directory)?.title ?? "FILE"
    return { title, directory, outcomes }
  })
}

/**
 * Makes runtimes read new configurations. Prints how to check what they have loaded, or a warning if they use another
 * file.
 */
function wakeRuntimes(args: Arguments, terminal: Terminal, done: readonly Done[]): void {
  if (given(args, "dry-run")) return
  for (const { directory, outcomes } of done.filter(({ title }) => title === "CONFIGURATION")) {
    for (const { name } of outcomes.filter(({ name, did }) => exists(join(directory, name)) && did !== "left")) {
      wakeWatchers(directory)
      const first = firstConfiguration(directory)
      if (first !== name)
        terminal.stderr(`Warning: runtimes use the first file of ${directory}, ${first}, not ${name}\n`)
      else terminal.stderr(`Runtimes read ${name} without a restart; "crictl info" shows what they have loaded\n`)
    }
  }
}

/** Returns the file that Kubernetes runtimes read: the first in the directory. */
function firstConfiguration(directory: string): string | undefined {
  return readDirectory(directory)
    .filter((one) => /\.(conf|conflist|json)$/.test(one))
    .sort()[0]
}

interface Done {
  readonly title: InstallPlace["title"] | "FILE"
  readonly directory: string
  readonly outcomes: readonly Outcome[]
}

const isInstalled = ({ title, directory }: InstallPlace) => title === "PLUGIN" || exists(`${directory}/.cni-install`)

function tell(args: Arguments, terminal: Terminal, done: readonly Done[]): void {
  const said = (did: string) => (given(args, "dry-run") && !/^(unchanged|left)$/.test(did) ? `would be ${did}` : did)
  print(args, terminal, {
    json: () => done.map(({ directory, outcomes }) => ({ directory, files: outcomes })),
    text: (screen) =>
      done
        .map(({ title, directory, outcomes }) => {
          const rows = outcomes.map(({ name, did }) => [name, said(did)])
          return `${directory}\n${fittedTable([title, "WHAT"], rows, screen)}`
        })
        .join(""),
  })
}

/**
 * Removes the configuration first, so that no new container is attached. Removes the plugins only if no container is
 * attached, because DEL needs them. Waits for the last DEL as long as `--wait` allows, and otherwise lists the attached
 * containers and ends with exit code 3.
 */
async function leave(args: Arguments, terminal: Terminal, { places, binDir, confDir }: InstallPlaces): Promise<void> {
  const waitMs = waitOf(args)
  const installed = places.filter(isInstalled)
  const configurations = installed.filter(({ title }) => title === "CONFIGURATION")
  const rest = installed.filter(({ title }) => title !== "CONFIGURATION")
  const cacheDir = resolve(text(args, "cache-dir") ?? defaults.cacheDir)
  const find = () => attachedContainers({ confDir, binDirs: [binDir], cacheDir, dataDir: DEFAULT_DATA_DIR })
  const done = configurations.map((place) => ({ ...place, outcomes: uninstall(place) }))
  let attached = find()
  const isDry = given(args, "dry-run")
  if (attached.length > 0 && waitMs > 0 && !isDry) {
    terminal.stderr(`Waiting for the DEL of these containers:\n${listed(attached)}`)
    const start = monotonicMs()
    for (; attached.length > 0 && monotonicMs() - start < waitMs; attached = find()) await sleep(LOOK_MS)
    if (attached.length === 0)
      terminal.stderr(
        `The last container was deleted after ${Math.round((monotonicMs() - start) / 1000)} s: removing the plugins.\n`,
      )
  }
  const mayGo = attached.length === 0 || isDry
  tell(args, terminal, [...done, ...(mayGo ? rest.map((place) => ({ ...place, outcomes: uninstall(place) })) : [])])
  if (attached.length === 0) return
  terminal.stderr(
    `Attached containers need the plugins for their DEL: ${attached.length}\n${listed(attached)}` +
      "Delete them, then run this again to remove the plugins. --wait SECONDS waits for their deletion.\n",
  )
  throw new Found(FOUND_FAULTS)
}

/** The interval of checks for attached containers, in milliseconds. */
const LOOK_MS = 1000
const listed = (attached: readonly string[]) => attached.map((one) => `  ${one}\n`).join("")

/** Returns the time in `--wait`, in milliseconds. Throws a usage error. */
function waitOf(args: Arguments): number {
  const seconds = text(args, "wait")
  if (seconds === undefined) return 0
  if (!given(args, "uninstall")) throw new UsageError("cannot use --wait without --uninstall")
  return readSeconds("--wait", seconds)
}

/**
 * Returns the names of attachments. Throws if the runtime's cache is unreadable, because the list would be incomplete.
 */
function attachedContainers(places: NodePlaces): string[] {
  const node = readNode(places)
  const unread = node.unread.find(({ what }) => what === "cache")
  if (unread)
    throw new Error(
      `Cannot determine which containers are attached: the ${unread.what} cannot be read: ${unread.reason}`,
    )
  return attachmentsOf(node).map(({ network, containerId, ifName }) => `${network} ${containerId} ${ifName}`)
}

/** Prints the files that differ from the installed ones. Ends with exit code 3 if a file differs. */
function tellDifferences(args: Arguments, terminal: Terminal, places: readonly InstallPlace[]): void {
  const found = places.filter(isInstalled).map(({ title, directory, mode }) => {
    const verified = verify(directory, { mode })
    if (!verified) throw new Error(`Cannot verify "${directory}": nothing was installed there by "cni install"`)
    const { manifest, differences, interrupted } = verified
    const files = differences.map(({ name, is }) => {
      const version = is === "replaced" ? findVersion(join(directory, name)) : undefined
      return { name, is, ...(version !== undefined && { by: version }) }
    })
    const { installed, from, files: all } = manifest
    return { title, directory, installed, from, count: Object.keys(all).length, interrupted, files }
  })
  print(args, terminal, {
    json: () => found.map(({ title, count, ...rest }) => rest),
    text: (screen) =>
      found
        .map(({ title, directory, installed, from, count, interrupted, files }) => {
          const head = `${directory}: ${count} ${count === 1 ? "file" : "files"} of ${from}, installed ${installed}\n`
          const note = interrupted === undefined ? "" : `${interruptionNote(interrupted)}\n`
          if (files.length === 0) return `${head}${note || "All files are unchanged since the installation.\n"}`
          const rows = files.map(({ name, is, by }) => [name, by === undefined ? is : `${is} by ${by}`])
          return `${head}${note}${fittedTable([title, "WHAT"], rows, screen)}`
        })
        .join(""),
  })
  if (found.some(({ files, interrupted }) => files.length > 0 || interrupted !== undefined))
    throw new Found(FOUND_FAULTS)
}

function interruptionNote(kind: string): string {
  const what = { install: "An installation", rollback: "A rollback", uninstall: "A removal" }[kind]
  return `${what} was interrupted: "cni install" finishes it, "cni install --rollback" undoes it.`
}
