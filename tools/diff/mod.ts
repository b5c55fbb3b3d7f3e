/** `cni diff`: compares what ADD created with what exists. */

export { diffCommand } from "./command.ts"
export { compareGateways, compareRules, compareWithKernel, type Difference } from "./compare.ts"
