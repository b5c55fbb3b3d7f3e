import { hostname } from "node:os"
import { readKubeconfig, runAgent, serviceAccount } from "../../agent/mod.ts"
import { version } from "../../package.json"
import { validateNetworkName } from "../../pkg/types/mod.ts"
import { type Command, text, UsageError } from "../../tools/command.ts"
import { DEFAULT_DATA_DIR } from "../../tools/node/mod.ts"
import { readEndpoint } from "./endpoint.ts"

/** The directory of the range files (`ranges/NETWORK.json`) and of the agent's socket. A reboot deletes its content. */
export const RUN_DIR = "/run/cni"
export const runDirFlag = {
  "run-dir": { type: "string", value: "DIR", help: `ranges/NETWORK.json, and the agent's socket (default ${RUN_DIR})` },
} as const satisfies Command["flags"]

export const runCommand: Command = {
  summary: "Keep the ranges and routes of this node until SIGTERM",
  words: [],
  flags: {
    network: {
      type: "string",
      value: "NAME",
      help: "the network whose containers get addresses from the node's range",
    },
    node: {
      type: "string",
      value: "NAME",
      help: "the name of this node's Node object (NODE_NAME, else the name of the host)",
    },
    kubeconfig: {
      type: "string",
      value: "FILE",
      help: "kubeconfig file of the API server (default: the pod's service account)",
    },
    routes: { type: "string", value: "KIND", choices: ["host-gw", "none"], help: "host-gw or none (default host-gw)" },
    http: {
      type: "string",
      value: "ADDRESS:PORT",
      help: 'address for /healthz, /readyz and /metrics; "" disables them (default 127.0.0.1:9817)',
    },
    ...runDirFlag,
    "data-dir": { type: "string", value: "DIR", help: `host-local's reservations (default ${DEFAULT_DATA_DIR})` },
  },
  isService: true,
  help: `Run one on each node of a Kubernetes cluster. It follows the Node objects, and writes this node's range to RUN-DIR/ranges/NETWORK.json, which
host-local reads: "rangesFile". With host-gw it keeps routes (protocol 73) to the ranges of all other nodes. It logs to stderr. SIGTERM ends
it: the file and the routes are kept, and plugins continue to assign addresses.

Examples:
  cni-agent run --network pods
  cni-agent run --network pods --kubeconfig /etc/cni/agent.kubeconfig --http 192.0.2.1:9817`,
  async run(args, { env, stderr, signal }) {
    // The agent mostly waits, so the engine optimizes only code that has run for seconds, and none at the start.
    ;(Bun.unsafe as unknown as { setJITPolicy(scale: number): void }).setJITPolicy(1_000)
    const name = text(args, "network")
    if (name === undefined) throw new UsageError("give --network, such as pods")
    validateNetworkName(name)
    const http = text(args, "http") ?? "127.0.0.1:9817"
    const kubeconfig = text(args, "kubeconfig")
    const [runDir, dataDir] = [text(args, "run-dir") ?? RUN_DIR, text(args, "data-dir") ?? DEFAULT_DATA_DIR]
    const isJournal = env.JOURNAL_STREAM !== undefined // journald adds the time; each line begins with its priority: sd-daemon(3)
    await runAgent(
      {
        node: text(args, "node") ?? (env.NODE_NAME || hostname()),
        connection: kubeconfig === undefined ? serviceAccount(env) : readKubeconfig(kubeconfig),
        network: { name, file: `${runDir}/ranges/${name}.json`, directory: `${dataDir}/${name}` },
        dataDir,
        hasRoutes: text(args, "routes") !== "none",
        http: http === "" ? undefined : readEndpoint(http),
        socket: `${runDir}/agent.sock`,
        version,
        log(level, message) {
          const head = isJournal ? `<${level === "error" ? 3 : 6}>` : `${new Date().toISOString()} ${level} `
          stderr(`${head}${message.replaceAll("\n", " ")}\n`)
        },
      },
      signal,
    )
  },
}
