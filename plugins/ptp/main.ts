import {
  addressesOf,
  createVethPair,
  deleteAttachmentLinks,
  deleteOrphans,
  describeInterface,
  enableForwarding,
  Masquerade,
  ownerOf,
  ownersOf,
  refuseExistingInterface,
  requireForwarding,
  requireMtu,
  subscribeToLinks,
  waitOperational,
} from "../../pkg/ip/mod.ts"
import { expectedIps, ipam } from "../../pkg/ipam/mod.ts"
import { deleteLink, getLink, RouteSocket } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { PacketFilter } from "../../pkg/nftables/mod.ts"
import { definePlugin, requireOneForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { ownerComment } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { checkAttachment } from "./check.ts"
import { type PtpConfig, parsePtpConfig } from "./config.ts"
import { configureContainerEnd, configureHostEnd, raiseHostEnd } from "./ends.ts"
import { completeResult } from "./result.ts"

/** A pair with both ends up passes traffic as soon as the kernel gets to it. */
const CARRIER_DEADLINE_MS = 2550

/** Connects a container to the host by a veth pair of its own, and routes between them. */
export const ptp = definePlugin<PtpConfig>({
  name: "ptp",
  config: parsePtpConfig,

  add(call, config) {
    using host = RouteSocket.open()
    using sandbox = Netns.open(call.namespace)
    using inside = sandbox.run(() => RouteSocket.open())
    using filter = config.ipMasq ? PacketFilter.find() : undefined
    const masquerade = config.ipMasq ? new Masquerade(filter) : undefined
    const owner = ownerOf(call)
    refuseExistingInterface(inside, call)

    using undo = new Undo(call.log)
    const leased = undo.step(
      "lease addresses",
      () => ipam.add(call),
      () => ipam.del(call),
    )
    const result = completeResult(leased, config)
    requireMtu(config.mtu, result)
    const addresses = addressesOf(result)
    const families = new Set(addresses.map(({ ip }) => ip.length))

    const hostName = undo.step(
      "create the veth pair",
      () => createVethPair(host, { sandbox, ifName: call.ifName, mtu: config.mtu, mac: config.mac }),
      (name) => deleteLink(host, getLink(host, name)),
    )
    raiseHostEnd(host, hostName, { owner: ownerComment(owner), hasIpv6: families.has(16) })
    const link = getLink(inside, call.ifName)
    configureContainerEnd({ sandbox, inside, link }, result)
    const end = waitOperational(host, getLink(host, hostName), subscribeToLinks, CARRIER_DEADLINE_MS)
    configureHostEnd(host, end, result)
    if (masquerade) {
      undo.step(
        "masquerade",
        () => masquerade.add(owner, addresses, config.ipMasqBackend),
        () => masquerade.remove(owner, call.namespace),
      )
    }
    result.interfaces = [describeInterface(end), { ...describeInterface(link), sandbox: call.netns }]
    for (const length of families) enableForwarding(length) // at the end: it is never taken back
    return call.answer(result, undo)
  },

  check: checkAttachment,

  del(call) {
    const owner = ownerOf(call)
    const failures = new Failures()
    using filter = failures.attempt("open netfilter", PacketFilter.find)
    // Rules first: the kernel frees them while it waits for the link, and not after.
    failures.attempt("remove the masquerade", () => new Masquerade(filter).remove(owner, call.namespace))
    failures.attempt(`delete interface "${call.ifName}"`, () => deleteAttachmentLinks(call, owner))
    failures.attempt("release the addresses", () => ipam.del(call))
    failures.throwIfAny()
  },

  status(call, config) {
    using filter = config.ipMasq ? PacketFilter.find() : undefined
    if (config.ipMasq) new Masquerade(filter).requireUsable(config.ipMasqBackend)
    for (const set of expectedIps(call.raw)) {
      requireOneForAdd(set, (ip) => {
        const result = completeResult({ interfaces: [], ips: [ip], routes: [], dns: {} }, config)
        requireMtu(config.mtu, result)
        for (const { ip } of addressesOf(result)) requireForwarding(ip.length)
      })
    }
    ipam.status(call)
  },

  gc(call, _config, attachments) {
    const { name } = call.network
    const valid = ownersOf(name, attachments)
    const failures = new Failures()
    using filter = failures.attempt("open netfilter", PacketFilter.find)
    failures.attempt("remove stale masquerades", () => new Masquerade(filter).gc(name, valid))
    failures.attempt("delete orphaned interfaces", () => deleteOrphans(name, valid))
    failures.attempt("release stale addresses", () => ipam.gc(call))
    failures.throwIfAny()
  },
})

if (import.meta.main) runPlugin(ptp)
