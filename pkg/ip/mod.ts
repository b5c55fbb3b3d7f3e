/**
 * Configures addresses, links and routes of attachments by the packages for netlink, namespaces and sysctls.
 *
 * @example
 * const name = createVethPair(host, { sandbox, ifName: "eth0", master: bridge.index })
 * configureLink({ sandbox, inside, link: getLink(inside, "eth0") }, result)
 */
export { checkAddresses, checkRouteSpecs, checkRoutes, mismatch } from "./check.ts"
export { announceAddresses, type ContainerLink, configureLink, requireMtu, setAcceptRa } from "./container.ts"
export * from "./forwarding.ts"
export * from "./link-routes.ts"
export { addressesOf, gatewayOf, planRoutes, type ResultAddress } from "./result.ts"
export { createVethPair, randomVethName, VETH_QUEUES } from "./veth.ts"
export { waitOperational, waitUntil } from "./wait.ts"
