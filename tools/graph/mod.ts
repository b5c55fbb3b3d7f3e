/** `cni graph`: draws a node's container networks. */

export { graph } from "./command.ts"
