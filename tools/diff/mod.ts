/** `cni diff`: compares ADD's result with the current state. */

export { diffCommand } from "./command.ts"
export { compareGateways, compareRules, compareWithKernel, type Difference } from "./compare.ts"
