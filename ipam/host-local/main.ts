import { readTextFile } from "../../pkg/libc/mod.ts"
import { type Call, definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type Dns, type IpConfig } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { type Address, formatAddress } from "./address.ts"
import { allocate } from "./allocate.ts"
import { checkReservation } from "./check.ts"
import { type HostLocalConfig, parseHostLocalConfig } from "./config.ts"
import { observeNamespace } from "./liveness.ts"
import { describeOwner, type Owner } from "./owner.ts"
import { type RangeSet, rangeOf } from "./ranges.ts"
import { parseResolvConf } from "./resolv-conf.ts"
import { checkStatus } from "./status.ts"
import { Store } from "./store.ts"

/** Address management in files of this host: one address from each range set, for as long as the container lives. */
export const hostLocal = definePlugin<HostLocalConfig>({
  name: "host-local",
  config: parseHostLocalConfig,

  add(call, config) {
    const dns = config.resolvConf === undefined ? {} : readResolvConf(config.resolvConf)
    const store = storeOf(call, config)
    using undo = new Undo(call.log)
    const addresses = undo.step(
      "reserve addresses",
      () => reserve(store, call, config),
      () => release(store, ownerOf(call)),
    )
    store.sync()
    const ips = addresses.map((address, index) => ipConfig(address, config.rangeSets[index] ?? []))
    const result = call.encode({ interfaces: [], ips, routes: [...config.routes], dns })
    undo.keep()
    return result
  },

  check(call, config) {
    checkReservation(storeOf(call, config), ownerOf(call), config.rangeSets, call.network.prevResult?.ips ?? [])
  },

  del(call, config) {
    release(storeOf(call, config), ownerOf(call))
  },

  status(call, config) {
    checkStatus(storeOf(call, config), config.rangeSets)
  },

  gc(call, config, attachments) {
    const isValid = ({ containerId, ifName }: Owner) =>
      attachments.some((each) => each.containerID === containerId && (ifName === "" || each.ifname === ifName))
    const failures = new Failures()
    storeOf(call, config).locked((session) => {
      for (const owner of session.rebuild()) {
        if (isValid(owner)) continue
        failures.attempt(`release the addresses of ${describeOwner(owner)}`, () => {
          const holding = session.holding(owner)
          if (holding) session.release(holding)
        })
      }
    })
    failures.throwIfAny()
  },
})

function storeOf({ log }: Call, { directory }: HostLocalConfig): Store {
  return new Store({ directory, log })
}

function ownerOf({ containerId, ifName }: Call): Owner {
  return { containerId, ifName }
}

/** Reserves all addresses or none. */
function reserve(store: Store, call: Call, { rangeSets, requested }: HostLocalConfig): Address[] {
  const owner = ownerOf(call)
  const netns = observeNamespace(store.files, call.netns)
  try {
    for (;;) {
      using lease = store.prepareLease(owner)
      const addresses = store.locked((session) => allocate(session, lease, { owner, netns, rangeSets, requested }))
      if (addresses) return addresses // else somebody removed the whole directory just now
    }
  } catch (error) {
    throw asCniError(error, `Cannot reserve addresses in "${store.directory}"`)
  }
}

/** Releases what the owner holds, wherever in the store it is. Nothing to release is success. */
function release(store: Store, owner: Owner): void {
  try {
    store.locked((session) => {
      const holding = session.holding(owner)
      if (holding) session.release(holding)
    })
  } catch (error) {
    throw asCniError(error, `Cannot release the addresses of ${describeOwner(owner)} in "${store.directory}"`)
  }
}

function ipConfig(address: Address, set: RangeSet): IpConfig {
  const range = rangeOf(set, address)
  if (!range) throw new RangeError(`${formatAddress(address)} is outside of its range set`)
  return { address: `${formatAddress(address)}/${range.prefix}`, gateway: formatAddress(range.gateway) }
}

function readResolvConf(path: string): Dns {
  try {
    return parseResolvConf(readTextFile(path))
  } catch (error) {
    throw new CniError(Code.Io, `Cannot read "ipam.resolvConf"`, { cause: error })
  }
}

function asCniError(error: unknown, message: string): CniError {
  return error instanceof CniError ? error : new CniError(Code.Internal, message, { cause: error })
}

if (import.meta.main) runPlugin(hostLocal)
