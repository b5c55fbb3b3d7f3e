/**
 * The agent of a Kubernetes node: follows the Node objects, writes the files of ranges that host-local reads, and keeps
 * the routes to the ranges of the other nodes.
 */
export { type Connection, serviceAccount } from "./api/connection.ts"
export { readKubeconfig } from "./api/kubeconfig.ts"
export type { RangedNetwork, Stray } from "./ranges.ts"
export { ROUTE_PROTOCOL } from "./routes/sync.ts"
export { type AgentOptions, runAgent } from "./run.ts"
export type { Endpoint } from "./server.ts"
export { askAgent, type NetworkStatus, type Status } from "./status.ts"
