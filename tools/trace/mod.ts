/** `cni trace`: shows the path of a packet. Can also open a connection from a container's namespace. */

export { parseDestination, trace } from "./command.ts"
export { connectionError, isPending, reasonOf, socketAddress } from "./probe.ts"
