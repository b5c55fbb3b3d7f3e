/** `cni dry-run`: runs an ADD in a sealed copy of the host's network, and shows what it creates. */

export { dryRunCommand } from "./command.ts"
export { runInside } from "./inside.ts"
export { INSIDE } from "./run.ts"
