import { hostname } from "node:os"
import { decodeUtf8 } from "../pkg/engine/mod.ts"
import { findFile, readTextFile } from "../pkg/libc/mod.ts"
import { type AgentConfig, parseAgentConfig, type StoreConfig } from "./config.ts"
import type { PodCidrs } from "./engine/pod-cidrs.ts"
import type { Owner } from "./records.ts"
import { type Store, StoreError } from "./store.ts"
import { DirectoryStore } from "./stores/directory.ts"
import { openEtcdStore } from "./stores/etcd/store.ts"
import { KubernetesStore } from "./stores/kubernetes/store.ts"

type Environment = Readonly<Record<string, string | undefined>>

/** Reads agent.json. Throws an error that names the file. */
export function readAgentConfig(file: string): AgentConfig {
  let text: string
  try {
    text = readTextFile(file)
  } catch (cause) {
    throw new Error(`Cannot read the agent's configuration "${file}": ${reasonOf(cause)}`, { cause })
  }
  try {
    return parseAgentConfig(text)
  } catch (cause) {
    throw new Error(`Cannot use "${file}": ${reasonOf(cause)}`, { cause })
  }
}

/** An error's message, with what is known beyond it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const details = "details" in error && typeof error.details === "string" ? `; ${error.details}` : ""
  return error.message + details
}

/** Opens the store that the configuration names. Throws what keeps it from being opened; a server need not answer yet. */
export async function openStore(config: StoreConfig, env: Environment): Promise<Store> {
  switch (config.type) {
    case "directory":
      return new DirectoryStore(config.path)
    case "kubernetes":
      return KubernetesStore.open(config, env)
    case "etcd":
      return openEtcdStore(config)
  }
}

/** What the agent copies where the cluster chooses the prefixes of its nodes (`"source": "podCIDRs"`); `undefined` where it claims blocks. */
export function podCidrsOf(config: StoreConfig, store: Store, node: string): PodCidrs | undefined {
  if (config.type !== "kubernetes" || config.source !== "podCIDRs" || !(store instanceof KubernetesStore))
    return undefined
  return { network: config.network ?? "", follow: (signal) => store.podCidrs(node, signal) }
}

/** The node's name: of the configuration, of `NODE_NAME`, or the host's. */
export function nodeName({ node }: Pick<AgentConfig, "node">, env: Environment): string {
  return node ?? (env.NODE_NAME || hostname())
}

/**
 * Who this node is. In Kubernetes its UID is that of the Node object. Elsewhere it is the machine id: a machine that was installed anew has
 * another one. Throws `StoreError`, and an error where the node cannot be told from another one of its name.
 */
export async function ownerOfNode(
  config: Pick<AgentConfig, "node" | "store">,
  store: Store,
  env: Environment,
  machineIdFile = "/etc/machine-id",
): Promise<Owner> {
  const name = nodeName(config, env)
  const bytes = findFile(machineIdFile)
  const machineId = bytes === undefined ? "" : decodeUtf8(bytes).trim()
  if (config.store.type === "kubernetes") {
    const member = (await store.members()).find((one) => one.name === name)
    // kubelet makes it, perhaps after the agent's start.
    if (member === undefined) throw new StoreError(`Kubernetes has no Node "${name}"`, "refused")
    return { name, uid: member.uid, machineId }
  }
  if (machineId === "") {
    throw new Error(
      `Cannot tell node "${name}" from another machine of its name: "${machineIdFile}" is missing; "systemd-machine-id-setup" makes it`,
    )
  }
  return { name, uid: machineId, machineId }
}
