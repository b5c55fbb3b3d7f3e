import { mismatch } from "../../pkg/ip/mod.ts"
import { findLink, getLink, type Ifindex, type Link } from "../../pkg/netlink/mod.ts"
import {
  type Answered,
  type Call,
  defineRestorable,
  type InsideCall,
  requireForAdd,
  runPlugin,
} from "../../pkg/skel/mod.ts"
import {
  type Attachment,
  CniError,
  Code,
  type Interface,
  isWhole,
  ownerOf,
  ownersOf,
  type Result,
} from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { refuseForbidden } from "./allow-list.ts"
import { asPrinted, backupOf, decodeBackup, encodeBackup, mergeBackups, restoreBackup, withPrinted } from "./backup.ts"
import { BackupFile, removeStaleBackups, requireDirectory } from "./backup-file.ts"
import { changedSysctls, tunedPaths } from "./changed.ts"
import { parseTuningConfig, refuseDuplicateSysctls, type TuningConfig, tuningFields } from "./config.ts"
import { hasValues, type LinkValues, linkKeys, setValues, Target, valuesOf } from "./link.ts"
import { findSysctls, presentValue, sameValue, setSysctls } from "./sysctls.ts"

export { tuningKeyDocs } from "./config.ts"

export { changedSysctls, tunedPaths }

/** Changes sysctls and the interface of a container. An earlier plugin of the chain must have created the interface. */
export const tuning = defineRestorable<TuningConfig>({
  name: "tuning",
  fields: tuningFields,
  config: parseTuningConfig,
  add: addTuning,
  check: checkTuning,
  del: deleteTuning,
  status: requireTunable,
  gc: collectGarbage,
  restoreInside: restoreTuning,
})

function addTuning(call: InsideCall, config: TuningConfig): Answered {
  const previousResult = requirePrevResult(call)
  const { sysctls: entries, link: wanted } = config
  refuseDuplicateSysctls(call.stdin, entries)
  refuseForbidden(entries)
  using target = Target.open(call)
  if (entries.length === 0 && !hasValues(wanted)) return call.answer(previousResult)

  const file = new BackupFile(config.dataDir, ownerOf(call))
  const earlier = file.read()
  const sysctls = target.sandbox.run(() => findSysctls(entries, call.ifName))
  const link = hasValues(wanted) ? target.getLink() : earlier && target.findLink()
  const peer = link && wanted.mtu !== undefined ? peerToTune(target, link, wanted.mtu) : undefined
  const found = { wanted, link: link ? valuesOf(link) : {}, peerMtu: peer?.mtu, sysctls }

  using undo = new Undo(call.log)
  // One reverse covers all changes, the same as in DEL. It is registered before the first change.
  undo.defer("change the settings", () => {
    const failures = new Failures()
    failures.attempt("restore the settings", () => restoreBackup(target, backupOf(found), failures))
    if (!failures.any) file.putBack(earlier) // after a failure DEL uses the backup on disk
    failures.throwIfAny()
  })
  const backup = earlier
    ? target.sandbox.run(() => mergeBackups(decodeBackup(earlier), found, presentValue))
    : mergeBackups({}, found, presentValue) // without an earlier backup `presentValue` is not called
  file.write(encodeBackup(backup))
  const printed = target.sandbox.run(() => setSysctls(sysctls))
  if (link) setValues(target.inside, link, wanted)
  if (peer) setValues(target.host, peer, { mtu: wanted.mtu })
  if (printed.size > 0) file.write(encodeBackup(withPrinted(backup, printed)))

  const hostMtus = peer ? mtusAround(target, peer) : new Map()
  return call.answer(tunedResult(previousResult, { ifName: call.ifName, hostMtus }, wanted), undo)
}

/** Checks every configured value in the kernel. Throws `CniError` with the first differing and the expected value. */
function checkTuning(call: InsideCall, config: TuningConfig): void {
  const { sysctls, link: wanted } = config
  requirePrevResult(call)
  refuseDuplicateSysctls(call.stdin, sysctls)
  refuseForbidden(sysctls)
  using target = Target.open(call)
  const backup = decodeBackup(new BackupFile(config.dataDir, ownerOf(call)).read())
  for (const { key, path, value, found } of target.sandbox.run(() => findSysctls(sysctls, call.ifName))) {
    if (found === undefined) continue // the sysctl is write-only
    const expected = asPrinted(backup, path, value)
    if (!sameValue(found, expected)) throw mismatch(`sysctl "${key}"`, `"${expected}"`, `"${found}"`)
  }
  if (!hasValues(wanted)) return
  const link = target.getLink()
  const present = valuesOf(link)
  for (const key of linkKeys) {
    if (wanted[key] === undefined || wanted[key] === present[key]) continue
    throw mismatch(`"${key}" of "${link.name}"`, String(wanted[key]), String(present[key]))
  }
  const { mtu } = wanted
  if (mtu === undefined || backup.peerMtu === undefined) return // upstream sets only the container's end
  const peer = target.findPeer(link)
  if (peer && peer.mtu !== mtu) throw mismatch(`"mtu" of "${peer.name}" on the host`, String(mtu), String(peer.mtu))
}

/** Sets all configured values again if any of them differs. The backup of ADD is kept. Throws `CniError`. */
function restoreTuning(call: InsideCall, config: TuningConfig, isDry: boolean): string | undefined {
  if (isWhole(() => checkTuning(call, config))) return undefined
  if (!isDry) addTuning(call, config)
  return `settings of "${call.ifName}" in the container`
}

/**
 * The kernel's errors for a former value that conflicts with the container's current settings. For example, the local
 * port range conflicts with the first unprivileged port, or the MTU of the link with its IPv6 MTU.
 */
const contradicted = ["EINVAL", "ERANGE", "EADDRINUSE"] as const

/** Restores the values of the backup. If a value cannot be restored, DEL reports this once and continues. */
function deleteTuning(call: Call, { dataDir }: TuningConfig): void {
  const file = new BackupFile(dataDir, ownerOf(call))
  const failures = new Failures(call.log, contradicted)
  const earlier = file.read()
  const backup = earlier && decodeBackup(earlier)
  using target = backup && Target.find(call)
  const restore = () => {
    if (backup && target) restoreBackup(target, backup, failures)
    return true
  }
  const isThrough = failures.attempt("restore the settings", restore)
  // After a failure the backup is kept, because the next DEL must try again.
  if (isThrough && !failures.mayPass) failures.attempt("remove the backup", () => file.remove())
  failures.throwIfAny()
}

function requireTunable({ stdin }: Call, { sysctls, dataDir }: TuningConfig): void {
  requireForAdd(() => refuseDuplicateSysctls(stdin, sysctls))
  requireForAdd(() => refuseForbidden(sysctls))
  requireForAdd(() => requireDirectory(dataDir))
}

function collectGarbage(
  { network: { name } }: Call,
  { dataDir }: TuningConfig,
  attachments: readonly Attachment[],
): void {
  removeStaleBackups(dataDir, name, ownersOf(name, attachments))
}

/**
 * Returns the host's end of the pair if ADD should set its MTU too. Returns undefined if that would reduce the MTU of a
 * bridge port: a bridge has the MTU of its smallest port, so the host and other containers would get the smaller MTU
 * too.
 */
function peerToTune(target: Target, link: Link, mtu: number): Link | undefined {
  const peer = target.findPeer(link)
  return peer && !(peer.attributes.master && mtu < peer.mtu) ? peer : undefined
}

/** Returns the MTUs of the host's end and of its bridge, by name, because the MTU of a bridge may follow its ports. */
function mtusAround({ host }: Target, { index }: Link): Map<string, number> {
  const mtus = new Map<string, number>()
  const peer = getLink(host, index)
  mtus.set(peer.name, peer.mtu)
  const { master } = peer.attributes
  const above = master ? findLink(host, master as Ifindex) : undefined
  if (above) mtus.set(above.name, above.mtu)
  return mtus
}

function requirePrevResult({ network: { prevResult }, ifName }: InsideCall): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Required prevResult missing: there is no "${ifName}" to tune`, {
    details: "tuning changes the interface of an earlier plugin of the chain; it cannot be the first plugin",
  })
}

/** The changed links: the container's interface, and the host's links whose MTU may have changed. */
export interface Places {
  ifName: string
  hostMtus: ReadonlyMap<string, number>
}

/**
 * Returns the previous result with the new MAC address and MTU. An interface in another namespace stays unchanged even
 * if it has the same name; if no interface of the result has a `sandbox`, only names are compared.
 */
export function tunedResult(previous: Result, { ifName, hostMtus }: Places, { mac, mtu }: LinkValues): Result {
  const saysSandbox = previous.interfaces.some(({ sandbox }) => sandbox)
  const interfaces = previous.interfaces.map((one): Interface => {
    const isInside = saysSandbox ? Boolean(one.sandbox) : one.name === ifName
    if (isInside && one.name === ifName) return { ...one, ...(mac && { mac }), ...(mtu && { mtu }) }
    const hostMtu = isInside ? undefined : hostMtus.get(one.name)
    return hostMtu === undefined ? one : { ...one, mtu: hostMtu }
  })
  return { ...previous, interfaces }
}

if (import.meta.main) runPlugin(tuning)
