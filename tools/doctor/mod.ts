/** `cni doctor`: finds faults in a node's networks, with a reason and a remedy for each. */

export { sentenceOf } from "./causes.ts"
export { doctor } from "./command.ts"
export { examineNode } from "./examine.ts"
export { affectedBy, type Finding } from "./finding.ts"
export { type FindingName, findingNames } from "./names.ts"
export { report, summary } from "./report.ts"
