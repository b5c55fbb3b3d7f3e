/** `cni test`: sends packets through a network, and explains those that do not arrive. */

export { testCommand } from "./command.ts"
