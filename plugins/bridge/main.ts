import {
  addressesOf,
  configureLink,
  createVethPair,
  deleteAttachmentLinks,
  deleteOrphans,
  describeInterface,
  enableForwarding,
  Masquerade,
  ownerOf,
  ownersOf,
  refuseExistingInterface,
  subscribeToLinks,
  waitOperational,
} from "../../pkg/ip/mod.ts"
import { ipam } from "../../pkg/ipam/mod.ts"
import { deleteLink, getLink, RouteSocket, setBridgePort, setLink } from "../../pkg/netlink/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { tryWriteSysctl } from "../../pkg/sysctl/mod.ts"
import { ownerComment, type Result } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { ensureBridge, ensureGateway } from "./bridge-link.ts"
import { checkAttachment } from "./check.ts"
import { type BridgeConfig, parseBridgeConfig } from "./config.ts"
import { completeResult, gatewaysOf } from "./gateway.ts"

/** As long as upstream waits for the bridge port in all. */
const PORT_DEADLINE_MS = 2550

/** Attaches a container to a bridge of the host by a veth pair. */
export const bridge = definePlugin<BridgeConfig>({
  name: "bridge",
  config: parseBridgeConfig,
  delegates: ipam.delegates,

  add(call, config) {
    using host = RouteSocket.open()
    using sandbox = Netns.open(call.netns)
    using inside = sandbox.run(() => RouteSocket.open())
    using masquerade = config.ipMasq && config.ipam ? Masquerade.open() : undefined
    const owner = ownerOf(call)
    refuseExistingInterface(inside, call)

    using undo = new Undo(call.log)
    const leased = config.ipam
      ? undo.step(
          "lease addresses",
          () => ipam.add(call),
          () => ipam.del(call),
        )
      : NO_ADDRESSES
    const result = completeResult(leased, config)
    const found = ensureBridge(host, config, undo)

    const { ifName } = call
    const pair = { sandbox, ifName, master: found.index, mtu: config.mtu, mac: config.mac }
    const hostName = undo.step(
      "create the veth pair",
      () => createVethPair(host, pair),
      (name) => deleteLink(host, getLink(host, name)),
    )
    tryWriteSysctl(`net/ipv6/conf/${hostName}/accept_ra`, "0")
    setLink(host, hostName, { up: true, alias: ownerComment(owner) })
    const link = getLink(inside, ifName)
    configureLink({ sandbox, inside, link }, result, config.detectDuplicates)
    const port = waitOperational(host, getLink(host, hostName), subscribeToLinks, PORT_DEADLINE_MS)
    if (config.hairpinMode) setBridgePort(host, port, { hairpin: 1 })

    if (masquerade) {
      undo.step(
        "masquerade",
        () => masquerade.add(owner, addressesOf(result), config.ipMasqBackend),
        () => masquerade.remove(owner, call.netns),
      )
    }
    if (config.isGateway) {
      for (const gateway of gatewaysOf(result)) {
        ensureGateway(host, found, gateway, config.forceAddress, undo)
        enableForwarding(gateway.ip.length)
      }
    }
    result.interfaces = [
      describeInterface(getLink(host, found.index)), // after the port has joined: an address that nobody fixed may follow it
      describeInterface(port),
      { ...describeInterface(link), sandbox: call.netns },
    ]
    const encoded = call.encode(result)
    undo.keep()
    return encoded
  },

  check: checkAttachment,

  del(call) {
    const owner = ownerOf(call)
    const failures = new Failures()
    using masquerade = failures.attempt("open netfilter", Masquerade.open)
    // Rules first: the kernel frees them while it waits for the link, and not after.
    failures.attempt("remove the masquerade", () => masquerade?.remove(owner, call.netns))
    failures.attempt(`delete interface "${call.ifName}"`, () => deleteAttachmentLinks(call, owner))
    failures.attempt("release the addresses", () => ipam.del(call))
    failures.throwIfAny()
  },

  status(call, config) {
    using masquerade = config.ipMasq ? Masquerade.open() : undefined
    masquerade?.requireUsable(config.ipMasqBackend)
    ipam.status(call)
  },

  gc(call, _config, attachments) {
    const { name } = call.network
    const failures = new Failures()
    using masquerade = failures.attempt("open netfilter", Masquerade.open)
    const valid = ownersOf(name, attachments)
    failures.attempt("remove stale masquerades", () => masquerade?.gc(name, valid))
    failures.attempt("delete orphaned interfaces", () => deleteOrphans(name, valid))
    failures.attempt("release stale addresses", () => ipam.gc(call))
    failures.throwIfAny()
  },
})

const NO_ADDRESSES: Result = { interfaces: [], ips: [], routes: [], dns: {} }

if (import.meta.main) runPlugin(bridge)
