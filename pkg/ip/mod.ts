/**
 * Addresses, links and routes as plugins need them: the rooms below, joined to what an attachment is made of.
 *
 * @example
 * const name = createVethPair(host, { sandbox, ifName: "eth0", master: bridge.index })
 * configureLink({ sandbox, inside, link: getLink(inside, "eth0") }, result)
 */
export {
  deleteAttachmentLinks,
  deleteOrphans,
  describeInterface,
  ownerOf,
  ownersOf,
  refuseExistingInterface,
} from "./attachment.ts"
export { checkAddresses, checkRouteSpecs, checkRoutes, mismatch } from "./check.ts"
export {
  checkHostEnd,
  checkInterface,
  checkMac,
  checkUp,
  expectLink,
  noHostEnd,
  readRecorded,
  recordedOnHost,
} from "./check-link.ts"
export { type ContainerLink, configureLink, requireMtu } from "./container.ts"
export { checkForwarding, enableForwarding, requireForwarding } from "./forwarding.ts"
export { heedRouters, hostEnd, ignoreRouters } from "./host-end.ts"
export { Masquerade, type MasqueradeBackend, masqueradeBackends } from "./masquerade.ts"
export { addressesOf, gatewayOf, type ResultAddress } from "./result.ts"
export { addRoutes, planRoutes } from "./routes.ts"
export { createVethPair, randomVethName, VETH_QUEUES } from "./veth.ts"
export { subscribeToLinks, waitOperational } from "./wait.ts"
