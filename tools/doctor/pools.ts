import type { LostBlock, PrefixStatus, Status } from "../../agent/mod.ts"
import type { NodePool } from "../node/mod.ts"
import { sortedByNames } from "../tables.ts"
import { type Affected, affectedBy, type Check, type Finding, type Patient } from "./finding.ts"
import { NEARLY_FULL } from "./kernel.ts"
import { sh } from "./remedy.ts"

const START =
  "start it: systemctl restart cni-agent, or the pod of its DaemonSet on this node; its log says why it ended"

/** Pools of the cluster: their files on this node, and what the agent says of itself, its store and its blocks. */
export const checkClusterPools: Check = (patient) => {
  const { pools, agent, socket } = patient.node.pools
  if (agent === undefined) return []
  const files = pools.flatMap((pool) => fileFaults(pool, agent))
  if ("reason" in agent) return [...files, deadAgent(pools, agent.reason, socket)]
  const { status } = agent
  return [
    ...files,
    ...storeFaults(status),
    ...status.lost.map((block) => lostBlock(patient, block)),
    ...pools.flatMap((pool) => {
      const told = status.pools.find(({ name }) => name === pool.name)
      const isUnknown = !told || (told.fault !== undefined && told.prefixes.every(({ cluster }) => !cluster))
      if (isUnknown) return [unknownPool(pool, told?.fault)]
      return told.prefixes.flatMap((prefix) => [...fullness(pool, prefix), ...gone(pool, prefix)])
    }),
  ]
}

/** A file that host-local refuses, or that has other blocks than the store, as the agent knows it. */
function fileFaults(
  { network, name, path, file, fault, difference: unlike }: NodePool,
  agent: NonNullable<Patient["node"]["pools"]["agent"]>,
): Finding[] {
  const told = "status" in agent ? agent.status.pools.find((pool) => pool.name === name) : undefined
  const about = { network, affected: [{ name: `"${path}"` }] }
  if (fault !== undefined || !file) {
    const reason = told?.fault === undefined ? "" : `; the agent: ${told.fault}`
    return [
      {
        ...about,
        rule: "pool-file",
        severity: "error",
        what: `pool "${name}" gives no address here: ${fault}${reason}`,
        why: "every ADD of the network ends with code 11; containers that are attached keep their addresses",
        remedy: `${rmIfThere(path, fault)}have the agent write it again, which begins with the blocks that the store says are this node's: systemctl restart cni-agent`,
      },
    ]
  }
  if (!unlike) return []
  const { missing, extra } = unlike
  const difference = [
    ...(missing.length === 0 ? [] : [`it lacks ${missing.join(", ")}`]),
    ...(extra.length === 0
      ? []
      : [`it has ${extra.join(", ")}, which ${extra.length > 1 ? "are" : "is"} not this node's`]),
  ]
  return [
    {
      ...about,
      rule: "pool-file-old",
      severity: extra.length > 0 ? "error" : "warning",
      what: `"${path}" is not what the agent says: ${difference.join("; ")}${told?.fault === undefined ? "" : ` (${told.fault})`}`,
      why:
        extra.length > 0
          ? "ADD hands out addresses that another node may hand out, too"
          : "ADD does not use all addresses of this node",
      remedy: "have the agent write it again: systemctl restart cni-agent; its log says why it could not",
    },
  ]
}

/** A file of another machine or version is in the way; one that is torn is of no use. */
function rmIfThere(path: string, fault = ""): string {
  return fault.startsWith("there is no") ? "" : `${sh`mv ${path} ${`${path}.bad`}`.line}; `
}

function deadAgent(pools: readonly NodePool[], reason: string, socket: string): Finding {
  const names = [...new Set(pools.map(({ name }) => `"${name}"`))].join(", ")
  return {
    rule: "agent-dead",
    severity: "error",
    affected: [{ name: `"${socket}"` }],
    what: `the agent of this node does not answer: ${reason}; networks take addresses from ${pools.length > 1 ? "pools" : "pool"} ${names}`,
    why: "ADD goes on out of the blocks that the node has; when they are full no container gets an address",
    remedy: START,
  }
}

function storeFaults({ store }: Status): Finding[] {
  if (store.stopped !== undefined)
    return [
      {
        rule: "store-stopped",
        severity: "error",
        what: `the agent neither claims nor gives back blocks: ${store.stopped}`,
        why: "a store that went backwards may have forgotten who owns a block; ADD goes on out of the blocks that the node has",
        remedy: "look whether the store is the right one and whole, then on each node: cni-agent ipam accept-store",
      },
    ]
  if (store.fault === undefined) return []
  return [
    {
      rule: "store-unreachable",
      severity: "warning",
      what: `the agent does not reach ${store.name}: ${store.fault}`,
      why: "ADD goes on out of the blocks that the node has; when they are full no container gets an address",
      remedy: `look at the store and the way to it; cni-agent status shows when the agent reaches it again`,
    },
  ]
}

/** Containers with addresses of a block that another node owns now. */
function lostBlock({ attachments }: Patient, { pool, prefix, owner, containers }: LostBlock): Finding {
  const affected = containers.map(({ id, ifName, address }): Affected => {
    const one = attachments.find((each) => each.containerId === id && each.ifName === ifName)
    return one ? affectedBy(one) : { name: `"${id}/${ifName}" (${address})` }
  })
  const pods = sortedByNames(
    affected.flatMap(({ attachment }) => attachment?.pod ?? []),
    ({ namespace, name }) => [namespace, name],
  )
  const block = `block ${prefix} of pool "${pool}" is node "${owner}"'s now`
  return {
    rule: "lost-block",
    severity: containers.length > 0 ? "error" : "warning",
    affected,
    cause: `block ${prefix}`,
    what: `${block}: this node was taken for gone`,
    ofMany: (count) =>
      `${block}, and ${count} container${count === 1 ? "" : "s"} here ${count === 1 ? "has an address" : "have addresses"} of it`,
    why: "two containers may have one address",
    remedy:
      pods.length > 0 && pods.length === affected.length
        ? `make these pods anew, with other addresses: ${pods.map(({ namespace, name }) => sh`kubectl delete pod --namespace ${namespace} ${name}`.line).join("; ")}`
        : "remove these containers and make them anew: they get other addresses",
  }
}

/** A pool of whose addresses the node, or of whose blocks the cluster, has nearly none left. */
function fullness({ network, name }: NodePool, { prefix, used, free, cluster }: PrefixStatus): Finding[] {
  if (!cluster) return []
  const about = { network, affected: [{ name: `pool "${name}"` }] }
  const [left, blocks] = [BigInt(free), BigInt(cluster.free)]
  const all = blocks + BigInt(cluster.owned + cluster.quarantined)
  if (all === 0n) return []
  if (blocks > 0n)
    return Number(all - blocks) >= NEARLY_FULL * Number(all)
      ? [{ ...about, ...clusterLow(name, prefix, cluster, all) }]
      : []
  if (used < NEARLY_FULL * (used + Number(left))) return []
  return [
    {
      ...about,
      rule: left === 0n ? "cluster-pool-full" : "cluster-pool-low",
      severity: left === 0n ? "error" : "warning",
      what: `no block of ${prefix} of pool "${name}" is free in the cluster, and this node has ${left} of ${BigInt(used) + left} addresses left`,
      why:
        left === 0n
          ? "no further container gets an address here"
          : "when these are used no container gets an address here",
      remedy: moreAddresses(name),
    },
  ]
}

function clusterLow(
  name: string,
  prefix: string,
  { free, owned, quarantined }: NonNullable<PrefixStatus["cluster"]>,
  all: bigint,
): Pick<Finding, "rule" | "severity" | "what" | "why" | "remedy"> {
  return {
    rule: "cluster-pool-low",
    severity: "warning",
    what: `${free} of ${all} blocks of ${prefix} of pool "${name}" are free in the cluster: ${owned} are owned, ${quarantined} in quarantine`,
    why: "when none is free a node whose blocks are full gives no container an address",
    remedy: moreAddresses(name),
  }
}

function moreAddresses(name: string): string {
  return `cni-agent ipam pool show ${name} shows who owns the blocks: release nodes that are gone, remove containers, or make a further pool for some of the networks`
}

/** Blocks that wait because their nodes are gone. */
function gone({ network, name }: NodePool, { prefix, cluster }: PrefixStatus): Finding[] {
  if (!cluster || cluster.quarantined === 0) return []
  const blocks = `${cluster.quarantined} block${cluster.quarantined === 1 ? "" : "s"}`
  return [
    {
      rule: "blocks-of-gone-nodes",
      severity: "warning",
      network,
      affected: [{ name: `pool "${name}"` }],
      what: `${blocks} of ${prefix} of pool "${name}" ${cluster.quarantined === 1 ? "is" : "are"} in quarantine: the nodes are gone`,
      why: "they are used again after the quarantine; containers of a node that still runs keep their addresses",
      remedy: `cni-agent ipam blocks ${name} shows the nodes; of one whose machine is certain to be off: cni-agent ipam release-node NODE --now`,
    },
  ]
}

function unknownPool({ network, name }: NodePool, fault?: string): Finding {
  const reason = fault === undefined ? "" : `: ${fault}`
  return {
    rule: "pool-unknown",
    severity: "error",
    network,
    affected: [{ name: `pool "${name}"` }],
    what: `network "${network}" takes addresses from pool "${name}", which the agent does not know${reason}`,
    why: "no block of it is claimed for this node",
    remedy: `cni-agent ipam pool ls shows the pools; make it by cni-agent ipam pool create ${name}, or name another one in the network`,
  }
}
