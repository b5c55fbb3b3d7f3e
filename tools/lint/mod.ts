/** `cni lint`: finds faults in network configurations. */

export { lintCommand } from "./command.ts"
export { ruleNames } from "./rules.ts"
