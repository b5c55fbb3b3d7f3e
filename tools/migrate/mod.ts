/** `cni migrate`: switches a node with running pods to or from another suite of plugins. */

export { isOurs, OtherSuite } from "./other-suite.ts"
export { type Direction, describeSteps, planPods, podAsJson, podTable, type Switch } from "./plan.ts"
export { podsOf } from "./pods.ts"
export { type Remaining, remaining, sweep } from "./remains.ts"
export { moveToIptables } from "./to-iptables.ts"
