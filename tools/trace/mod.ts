/** `cni trace`: shows the path of a packet. Also connects from inside a namespace. */

export { parseDestination, trace } from "./command.ts"
export { connectionError, isPending, reasonOf, socketAddress } from "./probe.ts"
