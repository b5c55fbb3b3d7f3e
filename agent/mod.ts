export type { AgentConfig, StoreConfig, TlsConfig } from "./config.ts"
export * from "./records.ts"
export type { LostBlock, PoolStatus, PrefixStatus, Status } from "./status.ts"
export { type Identity, type PodName, type Store, type Stored, StoreError, type WatchEvent } from "./store.ts"
