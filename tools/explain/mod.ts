/** `cni explain`: explains an error, a finding or a rule of `lint`. */

export { explainCommand } from "./command.ts"
