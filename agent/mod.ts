/**
 * The agent of a cluster's addresses: records, the door to their store, and the engine that keeps the pool files of a node.
 *
 * @example
 * await using store = new DirectoryStore("/var/lib/cluster")
 * await putPool(store, pool)
 */
export { acceptStore } from "./accept.ts"
export { Blocks, formatPrefix, liesIn, overlaps, type Prefix, parsePrefix } from "./blocks.ts"
export { type AgentConfig, defaultConfigPath, type StoreConfig, type TlsConfig } from "./config.ts"
export { Engine, type EngineOptions } from "./engine/engine.ts"
export { hostClock } from "./engine/host-clock.ts"
export { openNodeFiles } from "./engine/node-files.ts"
export { followPodCidrs, type PodCidrs } from "./engine/pod-cidrs.ts"
export type { Clock, LogEvent, Memory, NodeFiles, Reservation, Surroundings } from "./engine/surroundings.ts"
export { planHostLocal, planHostLocalBack } from "./migrate/host-local.ts"
export { carryOut, describeStep, type Plan, type World } from "./migrate/steps.ts"
export { heldAddresses, networkNameOf, planWhereabouts, planWhereaboutsBack } from "./migrate/whereabouts.ts"
export { findNetwork, openWorld, type Places, readBlocksOf, readScene } from "./migrate/world.ts"
export { openStore, ownerOfNode, readAgentConfig } from "./open.ts"
export { faultOf, listPools, PoolError, putPool, removePool } from "./pools.ts"
export * from "./records.ts"
export { ROUTE_PROTOCOL } from "./routes/sync.ts"
export { type AgentProcess, runAgent } from "./run.ts"
export { askAgent } from "./server/serve.ts"
export type { LostBlock, PoolStatus, PrefixStatus, Status } from "./status.ts"
export { type Identity, type PodName, type Store, type Stored, StoreError, type WatchEvent } from "./store.ts"
export { DirectoryStore } from "./stores/directory.ts"
export { type EtcdLimits, openEtcdStore } from "./stores/etcd/store.ts"
export { KubernetesStore } from "./stores/kubernetes/store.ts"
