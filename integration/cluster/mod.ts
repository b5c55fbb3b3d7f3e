/**
 * A cluster in network namespaces: real members of etcd, and nodes with the built agent, a bridge, host-local and containers; ways to disturb
 * them, and a referee that reads the containers' addresses from the kernel. Needs root and a build.
 * @module
 */
export { AgentProcess } from "./agent-process.ts"
export { makeAuthority, makeCertificate } from "./certificates.ts"
export { Cluster, type ClusterOptions, labPool } from "./cluster.ts"
export { EtcdCluster } from "./etcd-cluster.ts"
export { healNetwork, type Loss, lose } from "./network.ts"
export { ClusterNode, type ClusterPod, paths, podNetwork, poolName } from "./node.ts"
export { type Record, Referee } from "./referee.ts"
export { type Disturbance, SlowWay, slowEndpoint } from "./slow-way.ts"
