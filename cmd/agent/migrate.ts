import { resolve } from "node:path"
import {
  carryOut,
  describeStep,
  findNetwork,
  heldAddresses,
  KubernetesStore,
  listPools,
  networkNameOf,
  openWorld,
  ownerOfNode,
  type Places,
  type Plan,
  planHostLocal,
  planHostLocalBack,
  planWhereabouts,
  planWhereaboutsBack,
  readBlocksOf,
  readScene,
  type Store,
  type World,
} from "../../agent/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import { type Arguments, type Command, given, print, text, UsageError, word } from "../../tools/command.ts"
import { defaults, type Terminal } from "../../tools/environment.ts"
import { configOf, storeFlags, withStore } from "./ipam/store.ts"

const migrateFlags = {
  pool: { type: "string", value: "POOL", help: "the pool (default: the network's name)" },
  "dry-run": { type: "boolean", help: "print every step, and change nothing" },
  back: { type: "boolean", help: "undo the migration: put the former configuration back" },
  "conf-dir": { type: "string", value: "DIR", help: "network configurations (NETCONFPATH, else /etc/cni/net.d)" },
  ...storeFlags,
} as const

/** `cni-agent migrate host-local` */
export const migrateHostLocal: Command = {
  summary: "Change a network of this node from ranges to a pool",
  words: ["NETWORK"],
  flags: migrateFlags,
  help: `First this node claims the blocks of the pool in which its containers have addresses, then the configuration is changed. host-local's
reservations stay unchanged, and no other node hands out these addresses. Create the pool before, with the ranges of all nodes that
are not yet migrated as --reserved; each node removes its own ranges from these. After an interruption run the command again.

--back puts the ranges back into the configuration, and into the reserved prefixes of the pool. It is refused when other nodes own blocks in
the ranges.

Examples:
  cni-agent ipam pool create pods --prefix 10.85.0.0/16 --block-length 24 --reserved 10.85.0.0/17
  cni-agent migrate host-local pods --dry-run
  cni-agent migrate host-local pods
  cni-agent migrate host-local pods --back`,
  run: (args, terminal) =>
    migrate(args, terminal, async ({ store, world, network, poolName, places }) => {
      const scene = await readScene(store, world, { network, poolName, places })
      return given(args, "back") ? planHostLocalBack(scene) : planHostLocal(scene)
    }),
}

/** `cni-agent migrate whereabouts` */
export const migrateWhereabouts: Command = {
  summary: "Change a network from whereabouts to a pool",
  words: ["NETWORK"],
  flags: {
    ...migrateFlags,
    ippools: {
      type: "string",
      value: "FILE",
      help: 'IPPools of the whole cluster, as kubectl get -o json prints them; - for stdin; "kubernetes" asks the API server',
    },
    kubeconfig: {
      type: "string",
      value: "FILE",
      help: "the account that --ippools kubernetes asks with (default: that of the agent's store)",
    },
    "block-length": {
      type: "string",
      value: "BITS",
      help: "the prefix length of blocks (default 28, and 124 for IPv6)",
    },
    gateway: {
      type: "string",
      value: "IP",
      help: "the gateway of the link, where whereabouts names none (default: the first address)",
    },
  },
  help: `The migration has two parts, because two plugins that share a range would hand out addresses twice. Part one, on every node: the configuration
changes to host-local with the pool, and ADD answers code 11 (try again later). Part two, once, with --ippools: the pool is created, and reserves every
address that whereabouts has handed out. Run part two again from time to time: it frees the addresses that whereabouts has freed.

Examples:
  cni-agent migrate whereabouts lan --dry-run
  cni-agent migrate whereabouts lan
  cni-agent migrate whereabouts lan --ippools kubernetes --kubeconfig ~/.kube/config
  kubectl get ippools.whereabouts.cni.cncf.io -A -o json | cni-agent migrate whereabouts lan --ippools -`,
  async run(args, terminal) {
    const json = await readIpPools(args, terminal)
    const length = text(args, "block-length")
    if (length !== undefined && !/^\d{1,3}$/.test(length))
      throw new UsageError(`cannot use --block-length ${length}: expected a number like 28`)
    await migrate(args, terminal, async ({ store, world, network, poolName, places }) => {
      const saved = world.readSaved(network)
      const found = findNetwork(places.confDir, network)
      const scene = {
        ...found,
        network,
        saved,
        poolName,
        poolDir: places.poolDir === "/var/lib/cni/pools" ? undefined : places.poolDir,
        pool: (await listPools(store)).find(({ name }) => name === poolName),
        blockLength: length === undefined ? undefined : Number(length),
        gateway: text(args, "gateway"),
        held: json === undefined ? undefined : heldAddresses(json, networkNameOf(saved?.text ?? found.text)),
      }
      if (!given(args, "back")) return planWhereabouts(scene)
      const owned = (await readBlocksOf(store, poolName)).map(({ prefix }) => prefix)
      return planWhereaboutsBack({ ...scene, owned })
    })
  },
}

/** The IPPools that `--ippools` names; `undefined` without it. */
async function readIpPools(args: Arguments, terminal: Terminal): Promise<unknown> {
  const [source, kubeconfig] = [text(args, "ippools"), text(args, "kubeconfig")]
  if (source === "-") return JSON.parse(await terminal.stdin())
  if (source !== "kubernetes") return source === undefined ? undefined : JSON.parse(await Bun.file(source).text())
  const { store } = configOf(args)
  const account = kubeconfig === undefined ? store : ({ type: "kubernetes", kubeconfig } as const)
  if (account.type !== "kubernetes")
    throw new UsageError(
      "cannot ask for IPPools: the agent's store is not in Kubernetes, name an account by --kubeconfig",
    )
  await using api = KubernetesStore.open(account, terminal.env)
  return await api.ipPools()
}

/** The commands of migration, by name. */
export const migrateCommands: Readonly<Record<string, Command>> = {
  "migrate host-local": migrateHostLocal,
  "migrate whereabouts": migrateWhereabouts,
}

interface Context {
  readonly store: Store
  readonly world: World
  readonly network: string
  readonly poolName: string
  readonly places: Places
}

/** Plans, and does what is planned or tells it. Throws where something stands in the way. */
async function migrate(
  args: Arguments,
  terminal: Terminal,
  planOf: (context: Context) => Promise<Plan>,
): Promise<void> {
  const { env } = terminal
  const network = word(args, 0)
  const isDry = given(args, "dry-run")
  await withStore(args, terminal, async (store, config) => {
    const places = { ...config, confDir: resolve(text(args, "conf-dir") ?? (env.NETCONFPATH || defaults.confDir)) }
    const world = openWorld(store, await ownerOfNode(config, store, env), places)
    const context = { store, world, network, poolName: text(args, "pool") ?? network, places }
    const { steps, problems, notes } = await planOf(context)
    if (problems.length > 0)
      throw new CniError(Code.InvalidNetworkConfig, `Cannot migrate network "${network}": ${problems[0]}`, {
        details: problems.slice(1).join("; "),
      })
    const done: string[] = []
    const tell = (line: string) => {
      done.push(line)
      if (args.flags.json !== true && args.flags.output !== "json") terminal.stdout(`${isDry ? "would " : ""}${line}\n`)
    }
    if (isDry) for (const step of steps) tell(describeStep(step))
    else await carryOut(steps, world, { tell: (step) => tell(describeStep(step)), planAgain: () => planOf(context) })
    print(args, terminal, {
      json: () => ({ network, dryRun: isDry, steps: done, notes }),
      text: () =>
        [...(steps.length === 0 ? ["Nothing is left to do"] : []), ...notes].map((line) => `${line}\n`).join(""),
    })
  })
}
