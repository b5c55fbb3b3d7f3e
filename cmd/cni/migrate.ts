import { install, type Outcome, uninstall, verify } from "../../install/mod.ts"
import { dirname, executablePath, exists, join, resolve } from "../../pkg/libc/mod.ts"
import { statusNetwork } from "../../pkg/libcni/mod.ts"
import { CniError, Code, isCniError, messageOf } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  outputFlags,
  print,
  runtimeFlags,
  runtimeOf,
  text,
  UsageError,
} from "../../tools/command.ts"
import { defaults, type Terminal } from "../../tools/environment.ts"
import {
  type Direction,
  describeSteps,
  isOurs,
  moveToIptables,
  OtherSuite,
  planPods,
  podAsJson,
  podsOf,
  podTable,
  type Remaining,
  remaining,
  type Switch,
  sweep,
} from "../../tools/migrate/mod.ts"
import { DEFAULT_DATA_DIR, type Node, readNode } from "../../tools/node/mod.ts"
import { pluginsBeside } from "../../tools/plugin-source.ts"
import { isListening } from "../../tools/reconcile/mod.ts"
import { fittedTable, type Screen } from "../../tools/screen.ts"
import { type InstallPlace, installPlaces } from "./install-places.ts"

export const migrate: Command = {
  summary: "Switch a node with running pods from the Go plugins to these, and back",
  words: [],
  flags: {
    plan: {
      type: "boolean",
      help: "print the steps, and the objects of each pod; with --back, the steps back to the Go plugins",
    },
    apply: { type: "boolean", help: "replace the Go plugins, and keep copies of them" },
    back: {
      type: "boolean",
      help: "restore the Go plugins, and convert the pods' rules to rules that the Go plugins delete",
    },
    "bin-dir": { type: "string", value: "DIR", help: "directory of the plugins (default: the runtime's)" },
    "conf-dir": { type: "string", value: "DIR", help: "directory of the configurations (default: the runtime's)" },
    "cache-dir": runtimeFlags["cache-dir"],
    ...outputFlags,
  },
  help: `The directories are found as by "cni install". Nothing restarts, and pods keep their network.

--plan changes nothing. It prints the steps. For each pod it prints the objects on the host (bridge, address, masquerade, published ports,
firewall rules, and the packet filter of these rules) and what would happen to them. Exit code 3: some pods make --back impossible, and the
table says why.

--apply replaces the files of the Go plugins, and keeps copies. It does not change the pods: DEL, CHECK and GC of these plugins handle
the objects that the Go plugins created.

--back moves the pods' rules from nf_tables to iptables, where DEL of the Go plugins finds them. Then it restores the files of the Go
plugins, and removes rules that no pod needs. Exit code 3: some pods make --back impossible, and nothing was changed; or some objects
must stay until their pods are deleted, and then --back must run again. Each command may run again at any time, even after it was killed.

Examples:
  cni migrate --plan
  cni migrate --apply
  cni migrate --plan --back
  cni migrate --back -o json`,
  async run(args, terminal) {
    const [isPlan, isApply, isBack] = [given(args, "plan"), given(args, "apply"), given(args, "back")]
    if (isApply && isBack) throw new UsageError("cannot use --apply with --back: give one of them")
    if (!isPlan && !isApply && !isBack) throw new UsageError("give --plan, --apply or --back")
    const scene = sceneOf(isBack ? "back" : "apply", args, terminal)
    if (isPlan) return plan(scene, args, terminal)
    return isBack ? goBack(scene, args, terminal) : await apply(scene, args, terminal)
  },
}

interface Scene {
  readonly direction: Direction
  readonly place: InstallPlace
  readonly binDir: string
  readonly cacheDir: string
  readonly from: string
  readonly read: () => Node
}

function sceneOf(direction: Direction, args: Arguments, terminal: Terminal): Scene {
  const dryRun = given(args, "plan")
  const { binDir, confDir, origin, places } = installPlaces({
    ...args,
    flags: { ...args.flags, adopt: true, "dry-run": dryRun },
  })
  if (origin !== undefined) terminal.stderr(`Directory of plugins: ${binDir}, ${origin}\n`)
  const [place] = places
  if (!place) throw new Error(`Cannot migrate "${binDir}": no directory of plugins is known`)
  const cacheDir = resolve(text(args, "cache-dir") ?? defaults.cacheDir)
  const read = () => {
    const node = readNode({ confDir, binDirs: [binDir], cacheDir, dataDir: DEFAULT_DATA_DIR })
    requireSeen(node)
    return node
  }
  return { direction, place, binDir, cacheDir, from: pluginsBeside(dirname(executablePath())), read }
}

/** Throws if records are unreadable, because they may name pods. */
function requireSeen({ unread, brokenRecords = [] }: Node): void {
  const hidden = unread.find(({ what }) => ["cache", "links", "rules", "leases"].includes(what))
  if (hidden)
    throw new CniError(Code.Io, `Cannot read the state of pods: the ${hidden.what} cannot be read`, {
      details: hidden.reason,
    })
  const [broken] = brokenRecords
  if (broken === undefined) return
  throw new CniError(Code.Io, `Cannot read the state of pods: "${broken}" is not a valid record`, {
    details: "restart the container, or remove the file if the container no longer exists",
  })
}

function switchOf({ direction, place, binDir }: Scene, node: Node, files: readonly Outcome[]): Switch {
  const installed = verify(place.directory, { mode: place.mode })?.manifest.files ?? {}
  return { direction, binDir, files, pods: podsOf(node), other: new OtherSuite(binDir, installed) }
}

/** Tables whose rules move to iptables. */
const MOVES = / cni_(masquerade|hostports|firewall)$/

function plan(scene: Scene, args: Arguments, terminal: Terminal): void {
  const files = scene.direction === "apply" ? install(scene.place.installation()) : restoreFiles(scene)
  const planned = switchOf(scene, scene.read(), files)
  tell(
    planned,
    { isDone: false, remains: scene.direction === "back" ? remaining().filter(({ what }) => !MOVES.test(what)) : [] },
    args,
    terminal,
  )
  if (planPods(planned).some(({ closes }) => closes !== undefined)) throw new Found(FOUND_FAULTS)
}

async function apply(scene: Scene, args: Arguments, terminal: Terminal): Promise<void> {
  const node = scene.read()
  for (const { network } of node.networks) {
    if (!network) continue
    try {
      await statusNetwork({ ...runtimeOf(args, terminal), path: [scene.from, scene.binDir] }, network)
    } catch (error) {
      // Other errors, such as an address pool without free addresses, do not matter: the Go plugins use the same pool.
      if (isCniError(error) && error.code === Code.PluginNotAvailable) throw error
      terminal.stderr(`Warning: STATUS of network "${network.name}": ${messageOf(error)}\n`)
    }
  }
  const files = install(scene.place.installation())
  tell(switchOf(scene, scene.read(), files), { isDone: true, remains: [] }, args, terminal)
}

function goBack(scene: Scene, args: Arguments, terminal: Terminal): void {
  requireWayBack(scene)
  if (isListening())
    throw new CniError(
      Code.TryAgainLater,
      'Cannot go back to the Go plugins: the listener of "cni reconcile" would restore rules',
      {
        details: "stop it first: systemctl stop cni-reconcile.service",
      },
    )
  const node = scene.read()
  const before = switchOf(scene, node, [])
  if (planPods(before).some(({ closes }) => closes !== undefined)) {
    tell(before, { isDone: false, remains: [] }, args, terminal)
    terminal.stderr("Some pods make --back impossible, and nothing was changed: delete these pods first\n")
    throw new Found(FOUND_FAULTS)
  }
  const { env, stderr } = terminal
  const runs = { path: [scene.from], env, log: stderr }
  const first = moveToIptables(node, runs)
  if (first.failures.length > 0)
    throw new CniError(Code.Internal, "Cannot move rules of pods to iptables: the plugins were not replaced", {
      details: first.failures.join("; "),
    })
  const files = restoreFiles(scene)
  // An ADD that began earlier may have created rules since then.
  const second = moveToIptables(scene.read(), runs)
  const { removed, remaining: remains, failures } = sweep(scene.read())
  const failed = [...second.failures, ...failures]
  const moved = [...first.moved, ...second.moved]
  tell(switchOf(scene, scene.read(), files), { isDone: true, moved, removed, remains, failed }, args, terminal)
  for (const line of failed) stderr(`${line}\n`)
  if (failed.length > 0) throw new Found(1)
  if (remains.length > 0) throw new Found(FOUND_FAULTS)
}

/** Throws error code 5 if neither the directory nor the installer has files of another suite. */
function requireWayBack({ binDir, place }: Scene): void {
  const installed = verify(binDir, { mode: place.mode })?.manifest.files
  const isKept = Object.values(installed ?? {}).some(({ displaced }) => displaced !== undefined)
  if (isKept || (!installed && !isOurs(join(binDir, "bridge")))) return
  throw new CniError(Code.Io, `Cannot go back to the Go plugins in "${binDir}": it has no copies of their files`, {
    details: '"cni install --uninstall" removes plugins that replaced no files',
  })
}

/** Restores the files of the other suite. Does nothing if they are already restored. */
function restoreFiles({ place, binDir }: Scene): readonly Outcome[] {
  return exists(`${binDir}/.cni-install`) ? uninstall(place) : []
}

interface Report {
  readonly isDone: boolean
  readonly moved?: readonly string[]
  readonly removed?: readonly string[]
  readonly failed?: readonly string[]
  readonly remains: readonly Remaining[]
}

function tell(
  planned: Switch,
  { isDone, moved = [], removed = [], failed = [], remains }: Report,
  args: Arguments,
  terminal: Terminal,
): void {
  const pods = planPods(planned)
  const steps = describeSteps(planned)
  const { direction, binDir, files } = planned
  print(args, terminal, {
    json: () => ({
      direction,
      done: isDone,
      binDir,
      steps,
      files,
      pods: pods.map(podAsJson),
      moved,
      removed,
      failed,
      remains,
    }),
    text: (screen) =>
      [
        isDone ? doneText(planned) : steps.map((step, at) => `${at + 1}. ${step}\n`).join("") || "Nothing to do\n",
        podTable(pods, isDone, screen),
        [...moved.map((what) => `moved to iptables: ${what}\n`), ...removed.map((what) => `removed: ${what}\n`)].join(
          "",
        ),
        remainsTable(remains, screen),
      ]
        .filter(Boolean)
        .join("\n"),
  })
}

function doneText({ direction, binDir, files, pods }: Switch): string {
  const changed = files.filter(({ did }) => did !== "unchanged" && did !== "left").length
  const what = changed === 0 ? "contains" : "now contains"
  const which = direction === "apply" ? "the plugins of this suite" : "the plugins of the other suite"
  return `${binDir} ${what} ${which}; files changed: ${changed}, running pods: ${pods.length}\n`
}

function remainsTable(remains: readonly Remaining[], screen: Screen): string {
  return fittedTable(
    [{ head: "REMAINS", isWhole: true }, "OF", "GOES"],
    remains.map(({ what, of, goes }) => [what, of.join(" ") || "-", goes]),
    screen,
  )
}
