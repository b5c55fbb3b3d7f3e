import {
  addressesOf,
  configureLink,
  deleteAttachmentLinks,
  deleteOrphans,
  describeInterface,
  enableForwarding,
  ignoreRouters,
  Masquerade,
  ownerOf,
  ownersOf,
  refuseExistingInterface,
  requireMtu,
  subscribeToLinks,
  waitOperational,
} from "../../pkg/ip/mod.ts"
import { ipam } from "../../pkg/ipam/mod.ts"
import { getLink, RouteSocket, setLink } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { ownerComment, type Result } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { ensureGateway } from "./bridge-link.ts"
import { findChainedPort, joinChainedPort, leaveBridge } from "./chained.ts"
import { checkAttachment } from "./check.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"
import { completeResult, gatewaysOf } from "./gateway.ts"
import { joinBridge, preparePort } from "./port.ts"
import { SpoofCheck } from "./spoof-check.ts"
import { requireServable } from "./status.ts"
import { ensureVlanGateway } from "./vlan-gateway.ts"

/** As long as upstream waits for the bridge port in all. */
const PORT_DEADLINE_MS = 2550

/** Attaches a container to a bridge of the host by a veth pair. */
export const bridge = definePlugin<BridgeConfig>({
  name: "bridge",
  config: parseBridgeConfig,

  add(call, config) {
    using host = RouteSocket.open()
    using sandbox = Netns.open(call.namespace)
    using inside = sandbox.run(() => RouteSocket.open())
    const masquerades = config.ipMasq && config.ipam !== undefined
    using filter = masquerades || config.checkSpoofing ? PacketFilter.find() : undefined
    const masquerade = masquerades ? new Masquerade(filter) : undefined
    const spoofCheck = config.checkSpoofing ? new SpoofCheck(filter) : undefined
    const owner = ownerOf(call)
    const chained = findChainedPort({ host, inside, sandbox }, call, config)
    if (!chained) refuseExistingInterface(inside, call)

    using undo = new Undo(call.log)
    if (chained) return joinChainedPort(call, config, chained, { host, spoofCheck, owner, undo })
    const leased = config.ipam
      ? undo.step(
          "lease addresses",
          () => ipam.add(call),
          () => ipam.del(call),
        )
      : NO_ADDRESSES
    const result = completeResult(leased, config)
    requireMtu(config.mtu, result)
    const { ifName } = call
    const { bridge, port } = joinBridge(host, config, { sandbox, ifName }, undo)
    preparePort(host, { bridge, port }, config)
    const link = getLink(inside, ifName)
    if (spoofCheck) {
      undo.step(
        "check source MACs",
        () => spoofCheck.add(owner, { port, mac: link.mac }),
        () => spoofCheck.remove(owner),
      )
    }
    ignoreRouters(port)
    setLink(host, port, { up: true, alias: ownerComment(owner) }) // from here on frames can pass
    if (!config.keepDown) configureLink({ sandbox, inside, link }, result, config.detectDuplicates)
    const end = getLink(host, port)
    const portLink = config.keepDown ? end : waitOperational(host, end, subscribeToLinks, PORT_DEADLINE_MS)

    if (masquerade) {
      undo.step(
        "masquerade",
        () => masquerade.add(owner, addressesOf(result), config.ipMasqBackend),
        () => masquerade.remove(owner, call.namespace),
      )
    }
    const gateways = config.isGateway ? gatewaysOf(result) : []
    const vlan = config.vlanGateway ? { name: config.vlanGateway, bridge, vlans: config.vlans } : undefined
    const gatewayLink = vlan ? ensureVlanGateway(host, vlan, portLink, undo) : bridge
    for (const gateway of gateways) ensureGateway(host, gatewayLink, gateway, config.forceAddress, undo)
    result.interfaces = [
      describeInterface(getLink(host, bridge.index)), // after the port has joined: an address that nobody fixed may follow it
      describeInterface(portLink),
      { ...describeInterface(link), sandbox: call.netns },
      ...(vlan ? [describeInterface(gatewayLink)] : []),
    ]
    for (const { ip } of gateways) enableForwarding(ip.length) // at the end: it is never taken back
    return call.answer(result, undo)
  },

  check: checkAttachment,

  del(call, config) {
    const owner = ownerOf(call)
    const failures = new Failures()
    using filter = failures.attempt("open netfilter", PacketFilter.find)
    // Rules first: the kernel frees them while it waits for the link, and not after.
    failures.attempt("remove the masquerade", () => new Masquerade(filter).remove(owner, call.namespace))
    failures.attempt("remove the spoof check", () => {
      if (filter?.hasFamily("bridge")) new SpoofCheck(filter).remove(owner)
    })
    failures.attempt(`delete interface "${call.ifName}"`, () => deleteAttachmentLinks(call, owner))
    failures.attempt("leave the bridge", () => leaveBridge(call.network.prevResult, config, owner))
    failures.attempt("release the addresses", () => ipam.del(call))
    failures.throwIfAny()
  },

  status: requireServable,

  gc(call, _config, attachments) {
    const { name } = call.network
    const failures = new Failures()
    using filter = failures.attempt("open netfilter", PacketFilter.find)
    const valid = ownersOf(name, attachments)
    failures.attempt("remove stale spoof checks", () => new SpoofCheck(filter).gc(name, valid))
    failures.attempt("remove stale masquerades", () => new Masquerade(filter).gc(name, valid))
    failures.attempt("delete orphaned interfaces", () => deleteOrphans(name, valid))
    failures.attempt("release stale addresses", () => ipam.gc(call))
    failures.throwIfAny()
  },
})

const NO_ADDRESSES: Result = { interfaces: [], ips: [], routes: [], dns: {} }

if (import.meta.main) runPlugin(bridge)
