import { mismatch } from "../../pkg/ip/mod.ts"
import type { Call } from "../../pkg/skel/mod.ts"
import { refuseForbidden } from "./allow-list.ts"
import { type Backup, decodeBackup } from "./backup.ts"
import type { BackupFile } from "./backup-file.ts"
import type { TuningConfig } from "./config.ts"
import { hasValues, linkKeys, valuesOf } from "./link.ts"
import { findSysctls, sameValue } from "./sysctls.ts"
import { Target } from "./target.ts"

/**
 * Compares every setting of the configuration with the kernel, and no other. Throws a `CniError` that names the first
 * difference, expected and found.
 */
export function checkSettings(call: Call, { sysctls, link: wanted }: TuningConfig, file: BackupFile): void {
  refuseForbidden(sysctls)
  using target = Target.open(call)
  const backup = decodeBackup(file.read())
  for (const { key, path, value, found } of target.sandbox.run(() => findSysctls(sysctls, call.ifName))) {
    if (found === undefined) continue // it can only be written
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
  if (mtu === undefined || backup.peerMtu === undefined) return // upstream sets the container's end alone
  const peer = target.findPeer(link)
  if (peer && peer.mtu !== mtu) throw mismatch(`"mtu" of "${peer.name}" on the host`, String(mtu), String(peer.mtu))
}

/** What the kernel prints for a value: what it printed when ADD had set it, else the value as it is. */
function asPrinted({ sysctl = {} }: Backup, path: string, value: string): string {
  const known = sysctl[path]
  return known?.set === value ? (known.is ?? value) : value
}
