import { findLink, getLink, type Ifindex, type Link } from "../../pkg/netlink/mod.ts"
import { type Call, definePlugin, requireForAdd, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, ownerOf, ownersOf, type Result } from "../../pkg/types/mod.ts"
import { Failures, Undo } from "../../pkg/undo/mod.ts"
import { refuseForbidden } from "./allow-list.ts"
import { backupOf, decodeBackup, encodeBackup, mergeBackups, withPrinted } from "./backup.ts"
import { BackupFile, removeStaleBackups, requireDirectory } from "./backup-file.ts"
import { checkSettings } from "./check.ts"
import { parseTuningConfig, type TuningConfig } from "./config.ts"
import { refuseDuplicateSysctls } from "./duplicate-keys.ts"
import { hasValues, setValues, valuesOf } from "./link.ts"
import { restore } from "./restore.ts"
import { tunedResult } from "./result.ts"
import { findSysctls, presentValue, setSysctls } from "./sysctls.ts"
import { Target } from "./target.ts"

/** Changes sysctls and the interface of a container that an earlier plugin of the chain has made. */
export const tuning = definePlugin<TuningConfig>({
  name: "tuning",
  config: parseTuningConfig,

  add(call, config) {
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
    const found = { network: call.network.name, wanted, link: link ? valuesOf(link) : {}, peerMtu: peer?.mtu, sysctls }

    using undo = new Undo(call.log)
    // One reverse for everything, the one that DEL has, remembered before the first change.
    undo.step(
      "change the settings",
      () => {},
      () => {
        restore(target, backupOf(found))
        file.putBack(earlier)
      },
    )
    const backup = target.sandbox.run(() => mergeBackups(decodeBackup(earlier), found, presentValue))
    file.write(encodeBackup(backup))
    const printed = target.sandbox.run(() => setSysctls(sysctls))
    if (link) setValues(target.inside, link, wanted)
    if (peer) setValues(target.host, peer, { mtu: wanted.mtu })
    if (printed.size > 0) file.write(encodeBackup(withPrinted(backup, printed)))

    const hostMtus = peer ? mtusAround(target, peer) : new Map()
    return call.answer(tunedResult(previousResult, { ifName: call.ifName, hostMtus }, wanted), undo)
  },

  check(call, config) {
    requirePrevResult(call)
    refuseDuplicateSysctls(call.stdin, config.sysctls)
    checkSettings(call, config, new BackupFile(config.dataDir, ownerOf(call)))
  },

  /** By the backup alone. What cannot be set back is reported once: it must not hold up what else DEL has to do. */
  del(call, { dataDir }) {
    const file = new BackupFile(dataDir, ownerOf(call))
    const failures = new Failures()
    const earlier = file.read()
    if (earlier) {
      using target = Target.find(call)
      if (target) failures.attempt("restore the settings", () => restore(target, decodeBackup(earlier)))
    }
    failures.attempt("remove the backup", () => file.remove())
    failures.throwIfAny()
  },

  status({ stdin }, { sysctls, dataDir }) {
    requireForAdd(() => refuseDuplicateSysctls(stdin, sysctls))
    requireForAdd(() => refuseForbidden(sysctls))
    requireForAdd(() => requireDirectory(dataDir))
  },

  gc({ network: { name } }, { dataDir }, attachments) {
    removeStaleBackups(dataDir, name, ownersOf(name, attachments))
  },
})

/**
 * The host's end, where it is to have the MTU too. Not a port that would get a smaller one: a bridge has the MTU of its
 * smallest port, and the other containers and the host would lose theirs.
 */
function peerToTune(target: Target, link: Link, mtu: number): Link | undefined {
  const peer = target.findPeer(link)
  return peer && !(peer.attributes.master && mtu < peer.mtu) ? peer : undefined
}

/** The MTUs by name of the host's end and of what it is a port of, which may follow it. */
function mtusAround({ host }: Target, { index }: Link): Map<string, number> {
  const mtus = new Map<string, number>()
  const peer = getLink(host, index)
  mtus.set(peer.name, peer.mtu)
  const { master } = peer.attributes
  const above = master ? findLink(host, master as Ifindex) : undefined
  if (above) mtus.set(above.name, above.mtu)
  return mtus
}

function requirePrevResult({ network: { prevResult }, ifName }: Call): Result {
  if (prevResult) return prevResult
  throw new CniError(Code.InvalidNetworkConfig, `Required prevResult missing: there is no "${ifName}" to tune`, {
    details: "tuning changes what an earlier plugin of the chain has made; it cannot be the first",
  })
}

if (import.meta.main) runPlugin(tuning)
