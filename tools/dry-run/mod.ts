/** `cni dry-run`: runs an ADD in an isolated copy of the host's network, and prints the objects that it creates. */

export { dryRunCommand } from "./command.ts"
export { runInside } from "./inside.ts"
export { INSIDE } from "./run.ts"
