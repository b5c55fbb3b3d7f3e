/**
 * The agent of a Kubernetes node. It follows the Node objects, writes the ranges of this node to files that host-local
 * reads, and maintains routes to the ranges of other nodes.
 */
export { type Connection, serviceAccount } from "./api/connection.ts"
export { readKubeconfig } from "./api/kubeconfig.ts"
export type { RangedNetwork, Stray } from "./ranges.ts"
export { ROUTE_PROTOCOL } from "./routes/sync.ts"
export { type AgentOptions, runAgent } from "./run.ts"
export type { Endpoint } from "./server.ts"
export { askAgent, type NetworkStatus, type Status } from "./status.ts"
